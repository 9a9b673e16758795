"""Changes of plans: saved as drafts, approved, started, paused, resumed, cancelled, rolled back."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.http.errors import ConflictError
from app.pages.confirm import ConfirmView, Input, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import counted, optional_number
from app.pages.partitions import refused_plan
from app.pages.plans import ROWS_SHOWN, PlanId, cordon_texts, draft_saved, known_plan, rows_shown, wanted_replicas
from app.pages.reassignment_plan import plan_warnings
from app.reports.executor import plan_store
from app.reports.executor.copied import known_log_dirs
from app.reports.executor.drafts import rollback_rows, rows_of_plan
from app.reports.executor.models import PlanRecord
from app.reports.executor.plan import Row
from app.reports.executor.plan_store import NewPlan, PlanStateError
from app.reports.executor.plan_text import PlanError, read_plan
from app.services import Admin, services_of

router = APIRouter(include_in_schema=False)

THROTTLE_MAX: Final = 2**31 - 1


@router.post("/plans")
async def create(
    request: Request,
    caller: Admin,
    plan: Annotated[str, Form()] = "",
    throttle: Annotated[str, Form()] = "",
    moves: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview a plan from the reassignments page; with confirmed=yes save it as a draft."""
    services = services_of(request)
    image = services.cluster.image
    try:
        rows = rows_of_plan(image, read_plan(plan), await known_log_dirs(services.cluster))
    except PlanError as wrong:
        return refused_plan(request, plan, str(wrong))
    rate, rate_error = optional_number(throttle, "Throttle", THROTTLE_MAX)
    several, moves_error = optional_number(moves, "New replicas at once", 1_000)

    async def save() -> Response:
        new = NewPlan(
            cluster_id=services.cluster.cluster_id or "",
            origin="pasted",
            rows=rows,
            options={},
            throttle=rate,
            moves_per_broker=several or plan_store.MOVES_PER_BROKER,
        )
        return draft_saved(request, await services.actions.plans.create(caller, new))

    view = _draft_view(request, plan, rows)
    error = rate_error or moves_error
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=save, error=error)


def _draft_view(request: Request, plan: str, rows: Sequence[Row]) -> ConfirmView:
    image = services_of(request).cluster.image
    moves = [
        {"topic": row.topic, "partition": row.partition, "replicas": row.proposed}
        | ({"log_dirs": row.log_dirs} if row.log_dirs else {})
        for row in rows[:ROWS_SHOWN]
    ]
    return ConfirmView(
        title="Save as a plan",
        active="/plans",
        back="Reassignments",
        back_url="/reassignments",
        action="/plans",
        button="Save draft",
        changes=rows_shown(rows),
        consequences=plan_warnings(image, wanted_replicas(rows), refused=0)[:-1],
        curl=cluster_curl(request, "POST", "plans", {"reassignment": {"version": 1, "partitions": moves}}),
        fields=[("plan", plan)],
        inputs=(
            Input("throttle", "Throttle in bytes per second and broker, empty for none", "numeric"),
            Input("moves", f"New replicas on a broker at once, empty for {plan_store.MOVES_PER_BROKER}", "numeric"),
        ),
    )


def _page_of(plan_id: int) -> dict[str, Any]:
    """Return where a confirmation belongs, as arguments of ConfirmView."""
    return {"active": "/plans", "back": f"Plan {plan_id}", "back_url": f"/plans/{plan_id}"}


@dataclass(frozen=True, slots=True)
class _Change:
    """One change of a plan's state: texts of its confirmation."""

    title: str
    button: str
    new: str
    consequence: str
    dangerous: bool = False


CHANGES: Final = {
    "approve": _Change("Approve", "Approve", "approved", "Nothing moves until the plan is started."),
    "start": _Change("Start", "Start", "running", "Replicas are copied until the plan ends, is paused or cancelled."),
    "pause": _Change("Pause", "Pause", "paused", "No further partition begins. Those that move continue."),
    "resume": _Change(
        "Resume", "Resume", "running", "Partitions under min ISR at this moment no longer pause the plan."
    ),
}


@router.post("/plans/{plan_id}/{action}")
async def change_state(
    request: Request,
    caller: Admin,
    plan_id: PlanId,
    action: Literal["approve", "start", "pause", "resume"],
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview a change of the plan's state; with confirmed=yes make it."""
    services = services_of(request)
    change: Callable[..., Awaitable[PlanRecord]] = getattr(services.actions.plans, action)
    record = await known_plan(services, plan_id)
    texts = CHANGES[action]
    view = ConfirmView(
        title=f"{texts.title} plan {plan_id}",
        **_page_of(plan_id),
        action=f"/plans/{plan_id}/{action}",
        button=texts.button,
        changes=[(f"State of plan {plan_id}", record.state, texts.new)],
        consequences=[texts.consequence],
        curl=cluster_curl(request, "POST", f"plans/{plan_id}:{action}", {}),
    )
    return await _preview(
        request, view, confirmed, lambda **kind: change(caller, record.cluster_id, plan_id, **kind), texts.new
    )


@router.post("/plans/{plan_id}/changes/cancel")
async def cancel(
    request: Request,
    caller: Admin,
    plan_id: PlanId,
    begun: Annotated[Literal["undo", "finish"], Form()] = "undo",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview what becomes of the partitions of a cancelled plan; with confirmed=yes cancel it."""
    services = services_of(request)
    record = await known_plan(services, plan_id)
    moving = {
        "undo": "Partitions that are moving return to their original replicas.",
        "finish": "Partitions that are moving arrive. No further partition begins.",
    }[begun]
    view = ConfirmView(
        title=f"Cancel plan {plan_id}",
        **_page_of(plan_id),
        action=f"/plans/{plan_id}/changes/cancel",
        button="Cancel plan",
        changes=[(f"State of plan {plan_id}", record.state, "cancelled")],
        consequences=[moving, "Partitions that have moved stay where they are. The throttles of the plan are removed."],
        curl=cluster_curl(request, "POST", f"plans/{plan_id}:cancel", {"begun": begun}),
        fields=[("begun", begun)],
        dangerous=True,
    )
    plans = services.actions.plans
    return await _preview(
        request,
        view,
        confirmed,
        lambda **kind: plans.cancel(caller, record.cluster_id, plan_id, begun, **kind),
        "cancelled",
    )


@router.post("/plans/{plan_id}/changes/limits")
async def change_limits(
    request: Request,
    caller: Admin,
    plan_id: PlanId,
    throttle: Annotated[str, Form()] = "",
    moves: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview another throttle and concurrency; with confirmed=yes set them."""
    services = services_of(request)
    record = await known_plan(services, plan_id)
    rate, rate_error = optional_number(throttle, "Throttle", THROTTLE_MAX)
    several, moves_error = optional_number(moves, "New replicas at once", 1_000)
    several = several or record.moves_per_broker
    values: dict[str, Any] = {"throttle": rate, "moves_per_broker": several}
    body = {"throttle_bytes_per_second": rate, "moves_per_broker": several}
    view = ConfirmView(
        title=f"Change the limits of plan {plan_id}",
        **_page_of(plan_id),
        action=f"/plans/{plan_id}/changes/limits",
        button="Change limits",
        changes=[
            ("Throttle in bytes/s per broker", str(record.throttle or "none"), str(rate or "none")),
            ("New replicas on a broker at once", str(record.moves_per_broker), str(several)),
        ],
        curl=cluster_curl(request, "PATCH", f"plans/{plan_id}", body),
        fields=[("throttle", throttle), ("moves", moves)],
    )
    plans = services.actions.plans
    return await _preview(
        request,
        view,
        confirmed,
        lambda **kind: plans.change(caller, record.cluster_id, plan_id, values, **kind),
        "changed",
        rate_error or moves_error,
    )


@router.post("/plans/{plan_id}/changes/uncordon")
async def uncordon(
    request: Request, caller: Admin, plan_id: PlanId, confirmed: Annotated[str, Form()] = ""
) -> Response:
    """Preview which cordons of an ended drain would be removed; with confirmed=yes remove them."""
    services = services_of(request)
    record = await known_plan(services, plan_id)
    plans = services.actions.plans
    view = ConfirmView(
        title=f"Uncordon what plan {plan_id} has drained",
        **_page_of(plan_id),
        action=f"/plans/{plan_id}/changes/uncordon",
        button="Uncordon",
        changes=cordon_texts(await plans.left_cordons(record)),
        consequences=["New replicas may be placed there again. Those that have moved away stay where they are."],
        curl=cluster_curl(request, "POST", f"plans/{plan_id}:uncordon", {}),
    )
    return await _preview(
        request,
        view,
        confirmed,
        lambda **kind: plans.uncordon(caller, record.cluster_id, plan_id, **kind),
        "uncordoned",
    )


@router.post("/plans/{plan_id}/changes/rollback")
async def rollback(
    request: Request, caller: Admin, plan_id: PlanId, confirmed: Annotated[str, Form()] = ""
) -> Response:
    """Preview the plan that brings the moved partitions back; with confirmed=yes save it as a draft."""
    services = services_of(request)
    record = await known_plan(services, plan_id)
    stored = await services.database.read(plan_store.all_rows, plan_id)
    try:
        rows = rollback_rows(services.cluster.image, stored, await known_log_dirs(services.cluster))
    except PlanError as wrong:
        raise ConflictError(str(wrong), code="plan-state") from wrong

    async def save() -> Response:
        new = NewPlan(
            cluster_id=record.cluster_id,
            origin="rollback",
            rows=rows,
            options={"rollback_of": plan_id},
            throttle=record.throttle,
            moves_per_broker=record.moves_per_broker,
        )
        return draft_saved(request, await services.actions.plans.create(caller, new))

    view = ConfirmView(
        title=f"Roll back plan {plan_id}",
        **_page_of(plan_id),
        action=f"/plans/{plan_id}/changes/rollback",
        button="Save draft",
        changes=rows_shown(rows),
        consequences=[f"{counted(len(rows), 'partition')} would return to the replicas before plan {plan_id}."],
        curl=cluster_curl(request, "POST", "plans", {"rollback_of": plan_id}),
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=save)


async def _preview(
    request: Request,
    view: ConfirmView,
    confirmed: str,
    change: Callable[..., Awaitable[PlanRecord]],
    done: str,
    error: str = "",
) -> Response:
    """Preview a change of a plan, or make it. What its state forbids is shown as a conflict."""

    async def apply() -> Flash:
        record = await change(validate_only=False)
        return Flash("good", f"Plan {record.id} is {done}.")

    try:
        return await preview_or_apply(
            request,
            view,
            confirmed=bool(confirmed),
            apply=apply,
            dry_run=lambda: change(validate_only=True),
            error=error,
        )
    except PlanStateError as refused:
        raise ConflictError(str(refused), code="plan-state") from refused
