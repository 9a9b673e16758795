"""Plans made by the planner: for goals, and to drain brokers."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.http.errors import FORM_REFUSED
from app.pages.config_values import BYTES as UNIT_OF_BYTES
from app.pages.config_values import Unit, parsed
from app.pages.confirm import ConfirmView, cluster_curl, preview_or_apply
from app.pages.frame import counted, ids_text, optional_number, whole_number
from app.pages.plans import bytes_text, draft_saved, plans_page, rows_shown
from app.reports.executor.copied import known_log_dirs
from app.reports.executor.drains import check_drain
from app.reports.executor.plan_store import NewPlan
from app.reports.executor.plan_text import PlanError
from app.reports.executor.proposing import drained, proposed
from app.reports.executor.report_plans import report_rows
from app.reports.proposals.options import BALANCE, BYTES, LEADERS, REPAIR, Options
from app.services import Admin, services_of

router = APIRouter(include_in_schema=False)

GOALS: Final[dict[str, frozenset[str]]] = {
    "all": frozenset({REPAIR, BALANCE, LEADERS}),
    "all_bytes": frozenset({REPAIR, BALANCE, BYTES, LEADERS}),
    "repair": frozenset({REPAIR}),
    "bytes": frozenset({BYTES}),
    "leaders": frozenset({LEADERS}),
}


@router.post("/plans/proposals")
async def propose_plan(
    request: Request,
    caller: Admin,
    goals: Annotated[Literal["all", "all_bytes", "repair", "bytes", "leaders"], Form()] = "all",
    max_moves: Annotated[str, Form()] = "",
    max_bytes: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview the planner's proposal for goals; with confirmed=yes save it as a draft."""
    services = services_of(request)
    try:
        options = Options(
            goals=GOALS[goals],
            max_moves=_budget(max_moves, "Replicas to copy", None),
            max_bytes=_budget(max_bytes, "Bytes to copy", UNIT_OF_BYTES),
        )
        rows, numbers = await proposed(services.cluster.image, options, await known_log_dirs(services.cluster))
    except PlanError as refused:
        return await plans_page(request, error=str(refused), status=FORM_REFUSED)
    limits = {"max_moves": options.max_moves, "max_bytes": options.max_bytes}
    body = {"options": {"goals": sorted(options.goals)} | {name: each for name, each in limits.items() if each}}

    async def save() -> Response:
        new = NewPlan(
            cluster_id=services.cluster.cluster_id or "",
            origin="options",
            rows=rows,
            options={**body, "proposal": numbers},
        )
        return draft_saved(request, await services.actions.plans.create(caller, new))

    view = ConfirmView(
        title="Save the proposal as a plan",
        active="/plans",
        back="Plans",
        back_url="/plans",
        action="/plans/proposals",
        button="Save draft",
        changes=rows_shown(rows),
        consequences=_numbers_text(numbers),
        curl=cluster_curl(request, "POST", "plans", body),
        fields=[("goals", goals), ("max_moves", max_moves), ("max_bytes", max_bytes)],
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=save)


@router.post("/plans/reports")
async def from_report(
    request: Request,
    caller: Admin,
    report_id: Annotated[int, Form(ge=1, le=2**63 - 1)],
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview the default plan of a report; with confirmed=yes save it as a draft."""
    services = services_of(request)
    image = services.cluster.image
    folder = services.reports.folder_of(report_id) / "out"
    try:
        rows = await asyncio.to_thread(report_rows, image, folder)
    except PlanError as refused:
        return await plans_page(request, error=str(refused), status=FORM_REFUSED)
    body = {"report_id": report_id}

    async def save() -> Response:
        cluster_id = services.cluster.cluster_id or ""
        new = NewPlan(cluster_id=cluster_id, origin="report", rows=rows, options=body)
        return draft_saved(request, await services.actions.plans.create(caller, new))

    view = ConfirmView(
        title=f"Save the plan of report {report_id}",
        active="/plans",
        back=f"Report #{report_id}",
        back_url=f"/reports/{report_id}",
        action="/plans/reports",
        button="Save draft",
        changes=rows_shown(rows),
        consequences=["Partitions that have moved since the report are skipped."],
        curl=cluster_curl(request, "POST", "plans", body),
        fields=[("report_id", str(report_id))],
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=save)


@router.post("/plans/drains")
async def drain(
    request: Request,
    caller: Admin,
    brokers: Annotated[str, Form()] = "",
    log_dirs: Annotated[str, Form()] = "",
    unregister: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview where the replicas of brokers or log directories would go; with confirmed=yes save it as a draft."""
    services = services_of(request)
    image = services.cluster.image
    try:
        ids, paths = _broker_ids(brokers), _log_dirs(log_dirs)
        check_drain(image, ids, paths)
        rows, numbers = await drained(image, ids, paths, await known_log_dirs(services.cluster))
    except PlanError as refused:
        return await plans_page(request, error=str(refused), brokers=brokers, log_dirs=log_dirs, status=FORM_REFUSED)

    async def save() -> Response:
        new = NewPlan(
            cluster_id=services.cluster.cluster_id or "",
            origin="drain",
            rows=rows,
            options={"proposal": numbers},
            drain=ids,
            drain_log_dirs=paths,
            unregister=bool(unregister),
        )
        return draft_saved(request, await services.actions.plans.create(caller, new))

    named = f"Broker{'' if len(ids) == 1 else 's'} {ids_text(ids)}" if ids else _paths_text(paths)
    last = f"{named} will be unregistered once stopped." if unregister else f"{named} will stay cordoned when empty."
    body = {
        "broker_ids": list(ids),
        "log_dirs": [{"broker_id": broker, "path": path} for broker, path in paths],
        "unregister": bool(unregister),
    }
    view = ConfirmView(
        title=f"Drain {named[0].lower()}{named[1:]}",
        active="/plans",
        back="Plans",
        back_url="/plans",
        action="/plans/drains",
        button="Save draft",
        changes=rows_shown(rows),
        consequences=[
            f"{named} will be cordoned when the plan starts: no new replica is placed there.",
            *_numbers_text(numbers),
            last,
        ],
        curl=cluster_curl(request, "POST", "plans", {"drain": {name: each for name, each in body.items() if each}}),
        fields=[("brokers", brokers), ("log_dirs", log_dirs), ("unregister", unregister)],
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=save)


def _budget(text: str, name: str, unit: Unit | None) -> int | None:
    """Return a limit of a plan, None without one. Raises PlanError."""
    try:
        value, wrong = optional_number(parsed(text, unit), name, 2**62)
    except ValueError as unreadable:
        raise PlanError(f"{name}: {unreadable}") from unreadable
    if wrong:
        raise PlanError(wrong)
    return value


def _broker_ids(text: str) -> tuple[int, ...]:
    """Return the ids of a list such as `3, 4`. Raises PlanError."""
    found = []
    for word in text.replace(",", " ").split():
        broker_id = whole_number(word, 0, 2**31 - 1)
        if broker_id is None:
            raise PlanError(f"'{word[:40]}' is not a broker id, a whole number from 0 to {2**31 - 1}.")
        found.append(broker_id)
    return tuple(dict.fromkeys(found))


def _log_dirs(text: str) -> tuple[tuple[int, str], ...]:
    """Return the log directories of a list such as `3:/data/a, 4:/data/b`. Raises PlanError."""
    found = []
    for word in filter(None, map(str.strip, text.split(","))):
        broker, _, path = word.partition(":")
        broker_id = whole_number(broker, 0, 2**31 - 1)
        if broker_id is None or not path.startswith("/"):
            raise PlanError(f"'{word[:80]}' is not a log directory in the form BROKER:/PATH.")
        found.append((broker_id, path))
    return tuple(dict.fromkeys(found))


def _paths_text(log_dirs: Sequence[tuple[int, str]]) -> str:
    named = ", ".join(f"{path} of broker {broker}" for broker, path in log_dirs)
    return f"Log director{'y' if len(log_dirs) == 1 else 'ies'} {named}"


def _numbers_text(numbers: dict[str, Any]) -> list[str]:
    """Return the numbers of a proposal as sentences."""
    copied, led = counted(numbers["moves"], "replica"), counted(numbers["leader_changes"], "leader")
    bound = numbers["bound"]
    lines = [f"{copied} would be copied; no plan with the same result copies fewer than {bound}. {led} would change."]
    if "directory_moves" in numbers:
        moved = counted(numbers["directory_moves"], "replica")
        lines.append(f"{moved} would move to another log directory of the same broker.")
    if "byte_shares" in numbers:
        lines.append(f"{counted(numbers['swaps'], 'pair')} of replicas would change places within a rack.")
        lines += bytes_text(numbers["byte_shares"])
    lines += [f"Unsolved for {each['count']}: {each['text']}." for each in numbers["unsolved"]]
    return lines
