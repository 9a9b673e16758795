"""Plans of reassignments: the list, and one plan with its progress."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from app.http.errors import FORM_REFUSED, NotFoundError
from app.pages.flash import Flash
from app.pages.frame import duration, go_to, ids_text, moment, page_of, render, size
from app.pages.plan_limits import UNITS, Limits, throttle_fields, throttle_text
from app.reports.executor import plan_events, plan_store
from app.reports.executor.cordons import LeftCordon
from app.reports.executor.models import PlanPartition, PlanRecord
from app.reports.executor.plan import (
    ACTIVE_STATES,
    APPROVED,
    CANCELLED,
    DONE,
    DRAFT,
    FAILED,
    FINAL_STATES,
    MOVED,
    PAUSED,
    PLAN_FAILED,
    ROW_STATES,
    RUNNING,
    STALE,
    UNCHANGED,
    UNDONE,
    Row,
    named_dirs,
)
from app.reports.executor.plan_store import Counts, row_of
from app.reports.executor.story import sentence
from app.services import Reader, Services, services_of

router = APIRouter(include_in_schema=False)

PLANS_SHOWN: Final = 50
ROWS_SHOWN: Final = 200
EVENTS_SHOWN: Final = 100
RACKS_SHOWN: Final = 20
PlanId = Annotated[int, Path(ge=1, le=2**63 - 1)]
TONES: Final = {DONE: "good", PLAN_FAILED: "bad", CANCELLED: "warn", PAUSED: "warn"}
ROW_TONES: Final = {MOVED: "good", UNCHANGED: "good", FAILED: "bad", STALE: "warn", UNDONE: "warn"}


@dataclass(frozen=True, slots=True)
class PlanItem:
    """One plan in the list."""

    id: int
    state: str
    tone: str
    origin: str
    partitions: int
    moved: int
    made_by: str
    made_at: dt.datetime


@dataclass(frozen=True, slots=True)
class PlansView:
    """Model of plans.html. `is_active`: a plan is being executed."""

    plans: Sequence[PlanItem]
    is_active: bool


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One partition of a plan."""

    name: str
    before: str
    after: str
    state: str
    tone: str
    joined: str
    error: str


@dataclass(frozen=True, slots=True)
class StoryLine:
    """Something that happened to a plan. `actor`: who did it, "" for nobody."""

    at: dt.datetime
    text: str
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """Model of plan.html. `added` of `adding` replicas are in sync; `actions` are the changes that the state allows.

    `story` is the newest of what happened, newest first; `earlier` lines are left out.
    `cordons` are those that the ended plan has left.
    """

    id: int
    state: str
    tone: str
    is_active: bool
    facts: Sequence[tuple[str, str]]
    states: Sequence[tuple[str, int]]
    chosen: str
    added: int
    adding: int
    copied: str
    eta: str
    stuck: int
    stuck_minutes: int
    waits_for: str
    reasons: Sequence[str]
    cordons: Sequence[str]
    rows: Sequence[PlanRow]
    more: int
    actions: Sequence[tuple[str, str]]
    story: Sequence[StoryLine]
    earlier: int
    limits: Limits
    errors: Mapping[str, str]
    units: Sequence[str]


# reading


async def _plans_view(services: Services) -> PlansView:
    cluster_id = services.cluster.cluster_id or ""
    records = await services.database.read(plan_store.plans, cluster_id, PLANS_SHOWN)
    states = await services.database.read(plan_store.states_of, [record.id for record in records])
    return PlansView(
        [
            PlanItem(
                record.id,
                record.state,
                TONES.get(record.state, ""),
                record.origin,
                sum(states.get(record.id, {}).values()),
                sum(states.get(record.id, {}).get(state, 0) for state in (MOVED, UNCHANGED)),
                record.made_by,
                record.made_at,
            )
            for record in records
        ],
        any(record.state in ACTIVE_STATES for record in records),
    )


@router.get("/plans")
async def plans(request: Request, _caller: Reader) -> Response:
    """Return the list."""
    view = await _plans_view(services_of(request))
    return render(request, "plans.html", page=page_of(request, "Plans", "/plans"), view=view)


@router.get("/fragments/plans")
async def plans_fragment(request: Request, _caller: Reader) -> Response:
    """Return the list's rows."""
    return render(request, "_plans.html", view=await _plans_view(services_of(request)))


async def known_plan(services: Services, plan_id: int) -> PlanRecord:
    """Return a plan of the cluster. Raises NotFoundError."""
    record = await services.database.read(plan_store.get, services.cluster.cluster_id or "", plan_id)
    if record is None:
        raise NotFoundError(f"Plan {plan_id} cannot be found.")
    return record


def _facts(record: PlanRecord) -> list[tuple[str, str]]:
    """Return what the page says of a plan, as (label, text)."""

    def when(at: dt.datetime | None, by: str | None) -> str:
        return "" if at is None else f"{moment(at)} by {by}"

    facts = [
        ("Origin", record.origin),
        ("Made", when(record.made_at, record.made_by)),
        ("Approved", when(record.approved_at, record.approved_by)),
        ("Started", when(record.started_at, record.started_by)),
        ("Cancelled by", record.cancelled_by or ""),
        (
            "Ended",
            "" if record.finished_at is None else f"{record.finished_at.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC",
        ),
        ("Throttle", throttle_text(record.throttle)),
        ("New replicas on a broker at once", str(record.moves_per_broker)),
        ("Pause on under min ISR", "yes" if record.pause_on_under_min else "no"),
        ("Drains", ids_text(record.drain) if record.drain else ""),
        ("Drains", ", ".join(f"{path} of broker {broker}" for broker, path in record.drain_log_dirs or ())),
        *(("Bytes", line) for line in bytes_text((record.options.get("proposal") or {}).get("byte_shares", ()))),
    ]
    return [(label, text) for label, text in facts if text]


def bytes_text(shares: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what a plan does to the bytes of the fullest broker of each rack, those with most bytes first."""
    ordered = sorted(shares, key=lambda each: (-each["before"]["max"], each["rack"] or ""))
    lines = [_share_text(each) for each in ordered[:RACKS_SHOWN]]
    return lines if len(ordered) <= RACKS_SHOWN else [*lines, f"{len(ordered) - RACKS_SHOWN} more racks are not shown."]


def _share_text(share: Mapping[str, Any]) -> str:
    of_rack = f" of rack {share['rack']}" if share["rack"] else ""
    before, after = share["before"]["max"], share["after"]["max"]
    return (
        f"The fullest broker{of_rack} would have {size(after)} instead of {size(before)}. "
        f"No placement of the rack's replicas has less than {size(share['bound'])} (gap {size(share['gap'])})."
    )


def replicas_text(replicas: Sequence[int], log_dirs: Sequence[str]) -> str:
    """Return replicas with the log directories that are named, such as `1, 2 (2 in /data/b)`."""
    named = ", ".join(f"{broker} in {path}" for broker, path in named_dirs(replicas, log_dirs).items())
    return ids_text(replicas) + (f" ({named})" if named else "")


def rows_shown(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """Return (partition, replicas now, replicas in the plan), and a last row with the number of those left out."""
    shown = [
        (
            f"{row.topic}-{row.partition}",
            replicas_text(row.original, row.original_log_dirs),
            replicas_text(row.proposed, row.log_dirs),
        )
        for row in rows[:ROWS_SHOWN]
    ]
    return shown if len(rows) <= ROWS_SHOWN else [*shown, ("…", f"{len(rows) - ROWS_SHOWN} more partitions", "")]


def draft_saved(request: Request, record: PlanRecord) -> Response:
    """Go to the page of a new plan."""
    note = Flash("good", f"Plan {record.id} is saved as a draft. Nothing moves until it is approved and started.")
    return go_to(request, f"/plans/{record.id}", note)


def _row(stored: PlanPartition) -> PlanRow:
    row = row_of(stored)
    adding = len(row.copies)
    return PlanRow(
        f"{stored.topic}-{stored.partition}",
        replicas_text(row.original, row.original_log_dirs),
        replicas_text(row.proposed, row.log_dirs),
        stored.state,
        ROW_TONES.get(stored.state, ""),
        f"{stored.caught_up} of {adding}" if adding else "no copy",
        stored.error or "",
    )


def cordon_texts(left: Sequence[LeftCordon]) -> list[tuple[str, str, str]]:
    """Return (config, value now, value without the plan's cordon) of each broker."""
    return [(f"cordoned.log.dirs of broker {each.broker_id}", each.now, each.after or "none") for each in left]


def _actions(record: PlanRecord, is_cordoned: bool) -> list[tuple[str, str]]:
    """Return the changes that the plan's state allows, as (path, label)."""
    actions = {
        DRAFT: [("approve", "Approve…")],
        APPROVED: [("start", "Start…")],
        RUNNING: [("pause", "Pause…")],
        PAUSED: [("resume", "Resume…")],
    }.get(record.state, [])
    if record.state not in FINAL_STATES:
        return [*actions, ("cancel", "Cancel…")]
    actions = [("uncordon", "Uncordon…")] if is_cordoned else []
    return [*actions, ("rollback", "Roll back…")] if (record.result or {}).get("partitions", {}).get(MOVED) else actions


async def _plan_view(services: Services, plan_id: int, state: str, typed: Limits | None = None) -> PlanView:
    record = await known_plan(services, plan_id)
    counts: Counts = await services.actions.plans.progress(record)
    chosen = state if state in ROW_STATES else ""
    rows = await services.database.read(plan_store.partitions, plan_id, state=chosen or None, after=0, limit=ROWS_SHOWN)
    eta = plan_store.eta_seconds(record, counts)
    events, told = await services.database.read(plan_events.events, record, EVENTS_SHOWN)
    left = await services.actions.plans.left_cordons(record)
    total = counts.states.get(chosen, 0) if chosen else sum(counts.states.values())
    return PlanView(
        id=record.id,
        state=record.state,
        tone=TONES.get(record.state, ""),
        is_active=record.state in ACTIVE_STATES,
        facts=_facts(record),
        states=[(name, counts.states[name]) for name in ROW_STATES if name in counts.states],
        chosen=chosen,
        added=counts.caught_up,
        adding=counts.adding,
        copied=f"{size(counts.bytes_copied)} of {size(counts.bytes_to_copy)} copied" if counts.bytes_to_copy else "",
        eta="" if eta is None else duration(eta * 1_000),
        stuck=counts.stuck if record.state in ACTIVE_STATES else 0,
        stuck_minutes=record.stuck_minutes,
        waits_for=record.waits_for or "",
        reasons=record.reasons,
        rows=[_row(each) for each in rows],
        more=total - len(rows),
        actions=_actions(record, bool(left)),
        cordons=[f"{what}: {now}" for what, now, _ in cordon_texts(left)],
        story=[StoryLine(each.at, sentence(each.kind, each.detail), each.actor or "") for each in events],
        earlier=told - len(events),
        limits=typed or _limits(record),
        errors={} if typed is None else typed.errors,
        units=list(UNITS),
    )


def _limits(record: PlanRecord) -> Limits:
    throttle, unit = throttle_fields(record.throttle)
    return Limits(
        throttle=throttle,
        unit=unit,
        moves=str(record.moves_per_broker),
        pause="yes" if record.pause_on_under_min else "no",
        stuck=str(record.stuck_minutes),
    )


@router.get("/plans/{plan_id}")
async def plan(request: Request, _caller: Reader, plan_id: PlanId, state: str = "") -> Response:
    """Return one plan; `state` selects partitions."""
    return await plan_page(request, plan_id, state)


async def plan_page(request: Request, plan_id: int, state: str, typed: Limits | None = None) -> Response:
    """Return one plan; with the limits as `typed`, and what is wrong with them."""
    view = await _plan_view(services_of(request), plan_id, state, typed)
    status = FORM_REFUSED if view.errors else 200
    return render(request, "plan.html", status, page=page_of(request, f"Plan {plan_id}", "/plans"), view=view)


@router.get("/fragments/plans/{plan_id}")
async def plan_fragment(request: Request, _caller: Reader, plan_id: PlanId, state: str = "") -> Response:
    """Return the part of the page that changes while the plan is executed."""
    view = await _plan_view(services_of(request), plan_id, state)
    return render(request, "_plan.html", page=page_of(request, f"Plan {plan_id}", "/plans"), view=view)
