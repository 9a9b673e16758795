"""Plans of reassignments and their supervised execution, in the style of REST v3."""

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from app.error_responses import NATIVE
from app.http.errors import ConflictError, FieldError, NotFoundError, UnprocessableError
from app.reports import store
from app.reports.executor import plan_events, plan_store
from app.reports.executor.copied import known_log_dirs
from app.reports.executor.drafts import rollback_rows, rows_of_plan
from app.reports.executor.drains import check_drain
from app.reports.executor.models import PlanEvent, PlanPartition, PlanRecord
from app.reports.executor.plan import PENDING, Row
from app.reports.executor.plan_store import Counts, NewPlan, PlanStateError
from app.reports.executor.plan_text import PlanError, read_plan
from app.reports.executor.proposing import drained, proposed
from app.reports.executor.report_plans import report_rows
from app.reports.executor.story import sentence
from app.reports.proposals.options import InvalidOptionsError, Options
from app.rest.paging import NowPageDep, Page
from app.rest.responses import answer, checked, created, list_body, location_of, milliseconds
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.plans import (
    CancelPlanBody,
    ChangePlanBody,
    CreatePlanBody,
    DrainBody,
    PlanData,
    PlanDataList,
    PlanEventDataList,
    PlanOptionsBody,
    PlanPartitionDataList,
)
from app.rest.view import NowViewDep, View
from app.services import Admin, Reader, Services, ServicesDep

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=[NATIVE, "operations"], route_class=JsonRoute)

PlanId = Annotated[int, Path(ge=1, le=2**63 - 1)]
PLANS_MAX = 1_000
EVENTS_MAX = 1_000
_CHANGED: dict[int | str, dict[str, Any]] = {
    200: {"model": PlanData},
    409: {"description": "the plan's state forbids it, or another plan is being executed"},
}
_ROW_STATE = Literal[
    "pending", "beginning", "moving", "undoing", "moved", "unchanged", "stale", "failed", "undone", "skipped"
]


def _plan(
    view: View,
    record: PlanRecord,
    states: Mapping[str, int],
    counts: Counts | None,
    cordoned: list[int] | None = None,
) -> dict[str, Any]:
    return view.resource(
        "KafkaPlan",
        ("plans", record.id),
        (("plan", record.id),),
        plan_id=record.id,
        origin=record.origin,
        options=record.options,
        state=record.state,
        made_by=record.made_by,
        made_at=milliseconds(record.made_at),
        approved_by=record.approved_by,
        approved_at=milliseconds(record.approved_at),
        started_by=record.started_by,
        started_at=milliseconds(record.started_at),
        cancelled_by=record.cancelled_by,
        finished_at=milliseconds(record.finished_at),
        throttle_bytes_per_second=record.throttle,
        moves_per_broker=record.moves_per_broker,
        pause_on_under_min_isr=record.pause_on_under_min,
        stuck_minutes=record.stuck_minutes,
        drain_broker_ids=record.drain,
        drain_log_dirs=[{"broker_id": broker, "path": path} for broker, path in record.drain_log_dirs or ()],
        unregister=record.unregister,
        cordoned_broker_ids=cordoned,
        partition_states=dict(states),
        replicas_to_add=None if counts is None else counts.adding,
        replicas_added=None if counts is None else counts.caught_up,
        bytes_to_copy=None if counts is None else counts.bytes_to_copy,
        bytes_copied=None if counts is None else counts.bytes_copied,
        replicas_without_size=None if counts is None else counts.unsized,
        stuck_partitions=None if counts is None else counts.stuck,
        eta_seconds=None if counts is None else plan_store.eta_seconds(record, counts),
        waits_for=record.waits_for,
        reasons=record.reasons,
        result=record.result,
        partitions=view.related("plans", record.id, "partitions"),
        events=view.related("plans", record.id, "events"),
    )


async def _whole(view: View, services: Services, record: PlanRecord) -> dict[str, Any]:
    counts = await services.actions.plans.progress(record)
    left = await services.actions.plans.left_cordons(record)
    return _plan(view, record, counts.states, counts, [each.broker_id for each in left])


async def _known(view: View, services: Services, plan_id: int) -> PlanRecord:
    record = await services.database.read(plan_store.get, view.cluster_id, plan_id)
    if record is None:
        raise NotFoundError(f"Plan {plan_id} cannot be found.")
    return record


@router.get("/plans", responses={200: {"model": PlanDataList}})
async def list_plans(view: NowViewDep, services: ServicesDep, page: NowPageDep, _caller: Reader) -> Response:
    """List the plans, newest first, at most 1,000."""
    records = await services.database.read(plan_store.plans, view.cluster_id, PLANS_MAX)
    states = await services.database.read(plan_store.states_of, [record.id for record in records])
    return page.answer(
        "KafkaPlanList",
        records,
        lambda record: -record.id,
        lambda record: _plan(view, record, states.get(record.id, {}), None),
    )


ORIGINS = {
    "reassignment": "pasted",
    "report_id": "report",
    "options": "options",
    "drain": "drain",
    "rollback_of": "rollback",
}


async def _draft(view: View, services: Services, body: CreatePlanBody) -> tuple[str, list[Row], dict[str, Any]]:
    """Return origin, rows and options of a new plan. Raises UnprocessableError, NotFoundError."""
    given = [name for name in ORIGINS if getattr(body, name) is not None]
    if len(given) != 1:
        message = f"Exactly one of {', '.join(ORIGINS)} is needed, not {' and '.join(given) or 'none'}."
        raise UnprocessableError(message, errors=(FieldError("/", message),))
    try:
        rows, options = await _rows(view, services, body)
    except (PlanError, InvalidOptionsError) as wrong:
        message = str(wrong)
        raise UnprocessableError(message, errors=(FieldError(f"/{given[0]}", message),)) from wrong
    return ORIGINS[given[0]], rows, options


async def _rows(view: View, services: Services, body: CreatePlanBody) -> tuple[list[Row], dict[str, Any]]:
    answers = await known_log_dirs(services.cluster)
    if body.rollback_of is not None:
        record = await _known(view, services, body.rollback_of)
        stored = await services.database.read(plan_store.all_rows, record.id)
        return rollback_rows(view.image, stored, answers), {"rollback_of": record.id}
    if body.report_id is not None:
        run = await services.database.read(store.get_run, body.report_id)
        if run is None:
            raise NotFoundError(f"Report {body.report_id} cannot be found.")
        folder = services.reports.folder_of(run.id) / "out"
        return await asyncio.to_thread(report_rows, view.image, folder), {"report_id": run.id}
    if body.drain is not None:
        log_dirs = _log_dirs(body.drain)
        check_drain(view.image, body.drain.broker_ids, log_dirs)
        rows, numbers = await drained(view.image, body.drain.broker_ids, log_dirs, answers)
        return rows, {"proposal": numbers}
    if body.options is not None:
        rows, numbers = await proposed(view.image, _planner_options(body.options), answers)
        return rows, {"options": body.options.model_dump(mode="json", exclude_defaults=True), "proposal": numbers}
    return rows_of_plan(view.image, read_plan(json.dumps(body.reassignment)), answers), {}


def _log_dirs(drain: DrainBody) -> tuple[tuple[int, str], ...]:
    return tuple(dict.fromkeys((each.broker_id, each.path) for each in drain.log_dirs))


def _planner_options(body: PlanOptionsBody) -> Options:
    """Return the planner's options. Raises InvalidOptionsError."""
    return Options(
        goals=frozenset(body.goals),
        drain_brokers=frozenset(body.drain_broker_ids),
        drain_racks=frozenset(body.drain_racks),
        expand_brokers=frozenset(body.expand_broker_ids),
        replication_factor=body.replication_factor,
        target_brokers=frozenset(body.target_broker_ids),
        topics=None if body.topic_names is None else frozenset(body.topic_names),
        partitions=None
        if body.partitions is None
        else frozenset((each.topic_name, each.partition_id) for each in body.partitions),
        exclude_topics=frozenset(body.exclude_topic_names),
        exclude_brokers=frozenset(body.exclude_broker_ids),
        max_moves=body.max_moves,
        max_bytes=body.max_bytes,
        tolerance_percent=body.tolerance_percent,
    )


@router.post("/plans", status_code=201, responses={201: {"model": PlanData}, 200: {"model": PlanData}})
async def create_plan(
    body: CreatePlanBody, view: NowViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Create a plan as a draft. Nothing moves until it has been approved and started."""
    origin, rows, options = await _draft(view, services, body)
    new = NewPlan(
        cluster_id=view.cluster_id,
        origin=origin,
        rows=rows,
        options=options,
        throttle=body.throttle_bytes_per_second,
        moves_per_broker=body.moves_per_broker,
        pause_on_under_min=body.pause_on_under_min_isr,
        stuck_minutes=body.stuck_minutes,
        drain=() if body.drain is None else body.drain.broker_ids,
        drain_log_dirs=() if body.drain is None else _log_dirs(body.drain),
        unregister=body.drain is not None and body.drain.unregister,
    )
    record = await services.actions.plans.create(caller, new, validate_only=validate_only)
    states = {PENDING: len(rows)}
    data = _plan(view, record, states, Counts(states=states, adding=sum(len(row.copies) for row in rows), caught_up=0))
    return created(data, view.offset, validate_only=validate_only, headers=location_of(data))


@router.get("/plans/{plan_id}", responses={200: {"model": PlanData}})
async def get_plan(plan_id: PlanId, view: NowViewDep, services: ServicesDep, _caller: Reader) -> Response:
    """Describe one plan with its progress."""
    return answer(await _whole(view, services, await _known(view, services, plan_id)), view.offset)


def _partition(stored: PlanPartition) -> dict[str, Any]:
    return {
        "topic_name": stored.topic,
        "partition_id": stored.partition,
        "state": stored.state,
        "original_replica_ids": stored.original,
        "proposed_replica_ids": stored.proposed,
        "original_log_dirs": stored.original_log_dirs or None,
        "proposed_log_dirs": stored.log_dirs or None,
        "replicas_caught_up": stored.caught_up,
        "changed_at": milliseconds(stored.changed_at),
        "size_bytes": stored.size_bytes,
        "copied_bytes": stored.copied_bytes or 0,
        "error": stored.error,
    }


@router.get("/plans/{plan_id}/partitions", responses={200: {"model": PlanPartitionDataList}})
async def list_plan_partitions(
    plan_id: PlanId,
    view: NowViewDep,
    services: ServicesDep,
    page: NowPageDep,
    _caller: Reader,
    state: Annotated[_ROW_STATE | None, Query(description="only partitions in this state")] = None,
) -> Response:
    """List the partitions of a plan in its order."""
    record = await _known(view, services, plan_id)
    after = page.after if isinstance(page.after, int) and page.after >= 0 else 0
    found = await services.database.read(
        plan_store.partitions, record.id, state=state, after=after, limit=page.size + 1
    )
    return answer(_partition_page(page, found), view.offset)


def _partition_page(page: Page, found: Any) -> dict[str, Any]:
    shown = found[: page.size]
    following = page.next_url(shown[-1].id) if len(found) > page.size else None
    return list_body("KafkaPlanPartitionList", page.url, [_partition(each) for each in shown], following)


@router.get("/plans/{plan_id}/events", responses={200: {"model": PlanEventDataList}})
async def list_plan_events(
    plan_id: PlanId, view: NowViewDep, services: ServicesDep, page: NowPageDep, _caller: Reader
) -> Response:
    """List what happened to a plan, newest first, at most 1,000 events."""
    record = await _known(view, services, plan_id)
    found, _ = await services.database.read(plan_events.events, record, EVENTS_MAX)
    numbered = list(enumerate(found))
    return page.answer("KafkaPlanEventList", numbered, lambda item: item[0], lambda item: _event(item[1]))


def _event(stored: PlanEvent) -> dict[str, Any]:
    return {
        "at": milliseconds(stored.at),
        "event": stored.kind,
        "actor": stored.actor,
        "text": str(sentence(stored.kind, stored.detail)),
    }


@router.patch("/plans/{plan_id}", responses=_CHANGED)
async def change_plan(
    plan_id: PlanId,
    body: ChangePlanBody,
    view: NowViewDep,
    services: ServicesDep,
    caller: Admin,
    validate_only: DryRun,
) -> Response:
    """Change throttle and concurrency, also while the plan runs. Members that are left out stay."""
    names = {
        "throttle_bytes_per_second": "throttle",
        "moves_per_broker": "moves_per_broker",
        "pause_on_under_min_isr": "pause_on_under_min",
        "stuck_minutes": "stuck_minutes",
    }
    given = body.model_dump(exclude_unset=True)
    values = {
        column: given[name]
        for name, column in names.items()
        if name in given and (given[name] is not None or column == "throttle")
    }
    if not values:
        message = f"Nothing to change; allowed: {', '.join(names)}."
        raise UnprocessableError(message, errors=(FieldError("/", message),))
    plans = services.actions.plans
    return await _changed(
        view,
        services,
        plan_id,
        plans.change(caller, view.cluster_id, plan_id, values, validate_only=validate_only),
        validate_only=validate_only,
    )


async def _changed(view: View, services: Services, plan_id: int, change: Any, *, validate_only: bool) -> Response:
    """Await a change and return the plan. Raises NotFoundError, ConflictError."""
    try:
        record = await change
    except LookupError as unknown:
        raise NotFoundError(f"Plan {plan_id} cannot be found.") from unknown
    except PlanStateError as refused:
        raise ConflictError(str(refused), code="plan-state") from refused
    return answer(checked(await _whole(view, services, record), validate_only=validate_only), view.offset)


@router.post("/plans/{plan_id}:approve", responses=_CHANGED)
async def approve_plan(
    plan_id: PlanId, view: NowViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Approve a draft."""
    done = services.actions.plans.approve(caller, view.cluster_id, plan_id, validate_only=validate_only)
    return await _changed(view, services, plan_id, done, validate_only=validate_only)


@router.post("/plans/{plan_id}:start", responses=_CHANGED)
async def start_plan(
    plan_id: PlanId, view: NowViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Start an approved plan. One plan at a time is executed."""
    done = services.actions.plans.start(caller, view.cluster_id, plan_id, validate_only=validate_only)
    return await _changed(view, services, plan_id, done, validate_only=validate_only)


@router.post("/plans/{plan_id}:pause", responses=_CHANGED)
async def pause_plan(
    plan_id: PlanId, view: NowViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Begin no further partition; those that move continue."""
    done = services.actions.plans.pause(caller, view.cluster_id, plan_id, validate_only=validate_only)
    return await _changed(view, services, plan_id, done, validate_only=validate_only)


@router.post("/plans/{plan_id}:resume", responses=_CHANGED)
async def resume_plan(
    plan_id: PlanId, view: NowViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Continue a paused plan."""
    done = services.actions.plans.resume(caller, view.cluster_id, plan_id, validate_only=validate_only)
    return await _changed(view, services, plan_id, done, validate_only=validate_only)


@router.post("/plans/{plan_id}:cancel", responses=_CHANGED)
async def cancel_plan(
    plan_id: PlanId,
    body: CancelPlanBody,
    view: NowViewDep,
    services: ServicesDep,
    caller: Admin,
    validate_only: DryRun,
) -> Response:
    """Cancel a plan. What has moved stays; what is moving is undone, or finished on wish."""
    done = services.actions.plans.cancel(caller, view.cluster_id, plan_id, body.begun, validate_only=validate_only)
    return await _changed(view, services, plan_id, done, validate_only=validate_only)


@router.post("/plans/{plan_id}:uncordon", responses=_CHANGED)
async def uncordon_plan(
    plan_id: PlanId, view: NowViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Remove the cordons that a drain has left when it ended, so that its brokers take replicas again."""
    done = services.actions.plans.uncordon(caller, view.cluster_id, plan_id, validate_only=validate_only)
    return await _changed(view, services, plan_id, done, validate_only=validate_only)
