"""Changes of plans: approved, started, paused, resumed, cancelled, rolled back."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.http.errors import ConflictError
from app.pages.confirm import ConfirmView, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import counted
from app.pages.plan_limits import Limits, throttle_text
from app.pages.plans import STATE_NAMES, PlanId, cordon_texts, draft_saved, known_plan, plan_page, rows_shown
from app.reports.executor import plan_store
from app.reports.executor.copied import known_log_dirs
from app.reports.executor.drafts import rollback_rows
from app.reports.executor.models import PlanRecord
from app.reports.executor.plan import APPROVED, CANCELLED, PAUSED, RUNNING
from app.reports.executor.plan_store import NewPlan, PlanStateError
from app.reports.executor.plan_text import PlanError
from app.services import Admin, services_of
from app.texts import phrase, recognised

router = APIRouter(include_in_schema=False)


def _page_of(plan_id: int) -> dict[str, Any]:
    """Return where a confirmation belongs, as arguments of ConfirmView."""
    return {"active": "/plans", "back": phrase("Plan %(id)s", id=plan_id), "back_url": f"/plans/{plan_id}"}


@dataclass(frozen=True, slots=True)
class _Change:
    """One change of a plan's state: texts of its confirmation."""

    title: str
    button: str
    new: str
    consequence: str


def _texts_of(action: str, plan_id: int) -> _Change:
    match action:
        case "approve":
            title, button, new = phrase("Approve plan %(id)s", id=plan_id), phrase("Approve"), STATE_NAMES[APPROVED]
            return _Change(title, button, new, phrase("Nothing moves until the plan is started."))
        case "start":
            title, button, new = phrase("Start plan %(id)s", id=plan_id), phrase("Start"), STATE_NAMES[RUNNING]
            text = phrase("Replicas are copied until the plan ends, is paused or cancelled.")
            return _Change(title, button, new, text)
        case "pause":
            title, button, new = phrase("Pause plan %(id)s", id=plan_id), phrase("Pause"), STATE_NAMES[PAUSED]
            return _Change(title, button, new, phrase("No further partition begins. Those that move continue."))
    title, button, new = phrase("Resume plan %(id)s", id=plan_id), phrase("Resume"), STATE_NAMES[RUNNING]
    return _Change(title, button, new, phrase("Partitions under min ISR at this moment no longer pause the plan."))


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
    texts = _texts_of(action, plan_id)
    view = ConfirmView(
        title=texts.title,
        **_page_of(plan_id),
        action=f"/plans/{plan_id}/{action}",
        button=texts.button,
        changes=[(phrase("State of plan %(id)s", id=plan_id), STATE_NAMES[record.state], texts.new)],
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
        "undo": phrase("Partitions that are moving return to their original replicas."),
        "finish": phrase("Partitions that are moving arrive. No further partition begins."),
    }[begun]
    view = ConfirmView(
        title=phrase("Cancel plan %(id)s", id=plan_id),
        **_page_of(plan_id),
        action=f"/plans/{plan_id}/changes/cancel",
        button=phrase("Cancel plan"),
        changes=[(phrase("State of plan %(id)s", id=plan_id), STATE_NAMES[record.state], STATE_NAMES[CANCELLED])],
        consequences=[
            moving,
            phrase("Partitions that have moved stay where they are. The throttles of the plan are removed."),
        ],
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
        STATE_NAMES[CANCELLED],
    )


@router.post("/plans/{plan_id}/changes/limits")
async def change_limits(
    request: Request, caller: Admin, plan_id: PlanId, confirmed: Annotated[str, Form()] = ""
) -> Response:
    """Preview another throttle and concurrency; with confirmed=yes set them."""
    services = services_of(request)
    record = await known_plan(services, plan_id)
    form = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
    limits = Limits.of(form)
    if limits.errors:
        return await plan_page(request, plan_id, "", limits)
    values: dict[str, Any] = {
        "throttle": limits.bytes_per_second,
        "moves_per_broker": limits.moves_per_broker,
        "pause_on_under_min": limits.pauses,
        "stuck_minutes": limits.stuck_minutes,
    }
    body = {
        "throttle_bytes_per_second": limits.bytes_per_second,
        "moves_per_broker": limits.moves_per_broker,
        "pause_on_under_min_isr": limits.pauses,
        "stuck_minutes": limits.stuck_minutes,
    }
    before = _limit_texts(
        record.throttle, record.moves_per_broker, pauses=record.pause_on_under_min, stuck=record.stuck_minutes
    )
    after = _limit_texts(
        limits.bytes_per_second, limits.moves_per_broker, pauses=limits.pauses, stuck=limits.stuck_minutes
    )
    view = ConfirmView(
        title=phrase("Change the limits of plan %(id)s", id=plan_id),
        **_page_of(plan_id),
        action=f"/plans/{plan_id}/changes/limits",
        button=phrase("Change limits"),
        changes=[(label, before[label], text) for label, text in after.items()],
        curl=cluster_curl(request, "PATCH", f"plans/{plan_id}", body),
        fields=limits.pairs(),
    )
    plans = services.actions.plans
    return await _preview(
        request,
        view,
        confirmed,
        lambda **kind: plans.change(caller, record.cluster_id, plan_id, values, **kind),
        phrase("changed"),
    )


def _limit_texts(throttle: int | None, moves: int, *, pauses: bool, stuck: int) -> dict[str, str]:
    return {
        phrase("Throttle"): throttle_text(throttle),
        phrase("New replicas on a broker at once"): str(moves),
        phrase("Pause when others go under min ISR"): phrase("yes") if pauses else phrase("no"),
        phrase("Stuck after minutes without progress"): str(stuck),
    }


@router.post("/plans/{plan_id}/changes/uncordon")
async def uncordon(
    request: Request, caller: Admin, plan_id: PlanId, confirmed: Annotated[str, Form()] = ""
) -> Response:
    """Preview which cordons of an ended drain would be removed; with confirmed=yes remove them."""
    services = services_of(request)
    record = await known_plan(services, plan_id)
    plans = services.actions.plans
    view = ConfirmView(
        title=phrase("Uncordon what plan %(id)s has drained", id=plan_id),
        **_page_of(plan_id),
        action=f"/plans/{plan_id}/changes/uncordon",
        button=phrase("Uncordon"),
        changes=cordon_texts(await plans.left_cordons(record)),
        consequences=[
            phrase("New replicas may be placed there again. Those that have moved away stay where they are.")
        ],
        curl=cluster_curl(request, "POST", f"plans/{plan_id}:uncordon", {}),
    )
    return await _preview(
        request,
        view,
        confirmed,
        lambda **kind: plans.uncordon(caller, record.cluster_id, plan_id, **kind),
        phrase("uncordoned"),
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
        raise ConflictError(recognised(str(wrong)), code="plan-state") from wrong

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
        title=phrase("Roll back plan %(id)s", id=plan_id),
        **_page_of(plan_id),
        action=f"/plans/{plan_id}/changes/rollback",
        button=phrase("Save draft"),
        changes=rows_shown(rows),
        consequences=[
            phrase(
                "%(partitions)s would return to the replicas before plan %(id)s.",
                partitions=counted(len(rows), "partition"),
                id=plan_id,
            )
        ],
        curl=cluster_curl(request, "POST", "plans", {"rollback_of": plan_id}),
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=save)


async def _preview(
    request: Request,
    view: ConfirmView,
    confirmed: str,
    change: Callable[..., Awaitable[PlanRecord]],
    done: str,
) -> Response:
    """Preview a change of a plan, or make it. What its state forbids is shown as a conflict."""

    async def apply() -> Flash:
        record = await change(validate_only=False)
        return Flash("good", phrase("Plan %(id)s is %(state)s.", id=record.id, state=done))

    try:
        return await preview_or_apply(
            request,
            view,
            confirmed=bool(confirmed),
            apply=apply,
            dry_run=lambda: change(validate_only=True),
        )
    except PlanStateError as refused:
        raise ConflictError(recognised(str(refused)), code="plan-state") from refused
