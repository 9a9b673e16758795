"""Plans of reassignments: the list, and one plan with its progress."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from app.http.errors import FORM_REFUSED, NotFoundError
from app.pages.flash import Flash
from app.pages.frame import Page, duration, go_to, ids_text, moment, number, page_of, render, size
from app.pages.plan_limits import UNITS, Limits, throttle_fields, throttle_text
from app.reports.executor import plan_events, plan_store
from app.reports.executor.cordons import LeftCordon
from app.reports.executor.models import PlanPartition, PlanRecord
from app.reports.executor.plan import (
    ACTIVE_STATES,
    APPROVED,
    BEGINNING,
    CANCELLED,
    CANCELLING,
    DONE,
    DRAFT,
    FAILED,
    FINAL_STATES,
    MOVED,
    MOVING,
    PAUSED,
    PENDING,
    PLAN_FAILED,
    ROW_STATES,
    RUNNING,
    SKIPPED,
    STALE,
    UNCHANGED,
    UNDOING,
    UNDONE,
    Row,
    named_dirs,
)
from app.reports.executor.plan_store import Counts, row_of
from app.reports.executor.story import sentence
from app.services import Reader, Services, services_of
from app.texts import Text, joined, phrase

router = APIRouter(include_in_schema=False)

PLANS_SHOWN: Final = 50
ROWS_SHOWN: Final = 200
EVENTS_SHOWN: Final = 100
RACKS_SHOWN: Final = 20
PlanId = Annotated[int, Path(ge=1, le=2**63 - 1)]
TONES: Final = {DONE: "good", PLAN_FAILED: "bad", CANCELLED: "warn", PAUSED: "warn"}
STATE_NAMES: Final = {
    DRAFT: phrase("draft"),
    APPROVED: phrase("approved"),
    RUNNING: phrase("running"),
    PAUSED: phrase("paused"),
    CANCELLING: phrase("cancelling"),
    DONE: phrase("done"),
    PLAN_FAILED: phrase("failed"),
    CANCELLED: phrase("cancelled"),
}
ROW_STATE_NAMES: Final = {
    PENDING: phrase("pending"),
    BEGINNING: phrase("beginning"),
    MOVING: phrase("moving"),
    UNDOING: phrase("undoing"),
    MOVED: phrase("moved"),
    UNCHANGED: phrase("unchanged"),
    STALE: phrase("stale"),
    FAILED: phrase("failed"),
    UNDONE: phrase("undone"),
    SKIPPED: phrase("skipped"),
}
ORIGINS: Final = {
    "pasted": phrase("pasted"),
    "report": phrase("report"),
    "options": phrase("options"),
    "drain": phrase("drain"),
    "rollback": phrase("rollback"),
}
ROW_TONES: Final = {MOVED: "good", UNCHANGED: "good", FAILED: "bad", STALE: "warn", UNDONE: "warn"}


@dataclass(frozen=True, slots=True)
class PlanItem:
    """One plan in the list."""

    id: int
    state_name: str
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
    state_name: str
    tone: str
    is_active: bool
    facts: Sequence[tuple[str, str]]
    states: Sequence[tuple[str, str, int]]
    chosen: str
    added: int
    adding: int
    progress: str
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
                STATE_NAMES[record.state],
                TONES.get(record.state, ""),
                ORIGINS[record.origin],
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
    return render(request, "plans.html", page=page_of(request, phrase("Plans"), "/plans"), view=view)


@router.get("/fragments/plans")
async def plans_fragment(request: Request, _caller: Reader) -> Response:
    """Return the list's rows."""
    return render(request, "_plans.html", view=await _plans_view(services_of(request)))


async def known_plan(services: Services, plan_id: int) -> PlanRecord:
    """Return a plan of the cluster. Raises NotFoundError."""
    record = await services.database.read(plan_store.get, services.cluster.cluster_id or "", plan_id)
    if record is None:
        raise NotFoundError(phrase("Plan %(id)s cannot be found.", id=plan_id))
    return record


def _facts(record: PlanRecord) -> list[tuple[str, str]]:
    """Return what the page says of a plan, as (label, text)."""

    def when(at: dt.datetime | None, by: str | None) -> str:
        return "" if at is None else phrase("%(time)s by %(who)s", time=moment(at), who=by)

    facts = [
        (phrase("Origin"), ORIGINS[record.origin]),
        (phrase("Made"), when(record.made_at, record.made_by)),
        (phrase("Approved"), when(record.approved_at, record.approved_by)),
        (phrase("Started"), when(record.started_at, record.started_by)),
        (phrase("Cancelled by"), record.cancelled_by or ""),
        (
            phrase("Ended"),
            "" if record.finished_at is None else f"{record.finished_at.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC",
        ),
        (phrase("Throttle"), throttle_text(record.throttle)),
        (phrase("New replicas on a broker at once"), str(record.moves_per_broker)),
        (phrase("Pause on under min ISR"), phrase("yes") if record.pause_on_under_min else phrase("no")),
        (phrase("Drains"), ids_text(record.drain) if record.drain else ""),
        (phrase("Drains"), log_dirs_text(record.drain_log_dirs or ())),
        *(
            (phrase("Bytes"), line)
            for line in bytes_text((record.options.get("proposal") or {}).get("byte_shares", ()))
        ),
    ]
    return [(label, text) for label, text in facts if text]


def bytes_text(shares: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what a plan does to the bytes of the fullest broker of each rack, those with most bytes first."""
    ordered = sorted(shares, key=lambda each: (-each["before"]["max"], each["rack"] or ""))
    lines: list[str] = [_share_text(each) for each in ordered[:RACKS_SHOWN]]
    if len(ordered) > RACKS_SHOWN:
        lines.append(phrase("%(count)s more racks are not shown.", count=len(ordered) - RACKS_SHOWN))
    return lines


def _share_text(share: Mapping[str, Any]) -> Text:
    values = {
        "after": size(share["after"]["max"]),
        "before": size(share["before"]["max"]),
        "bound": size(share["bound"]),
        "gap": size(share["gap"]),
    }
    if share["rack"]:
        return phrase(
            "The fullest broker of rack %(rack)s would have %(after)s instead of %(before)s. "
            "No placement of the rack's replicas has less than %(bound)s (gap %(gap)s).",
            rack=share["rack"],
            **values,
        )
    return phrase(
        "The fullest broker would have %(after)s instead of %(before)s. "
        "No placement of the rack's replicas has less than %(bound)s (gap %(gap)s).",
        **values,
    )


def log_dirs_text(log_dirs: Iterable[tuple[int, str]]) -> str:
    """Return log directories, given as (broker, path), as one text."""
    named = [phrase("%(path)s of broker %(id)s", path=path, id=broker) for broker, path in log_dirs]
    return joined(", ", named)


def replicas_text(replicas: Sequence[int], log_dirs: Sequence[str]) -> str:
    """Return replicas with the log directories that are named, such as `1, 2 (2 in /data/b)`."""
    named = [
        phrase("%(broker)s in %(path)s", broker=broker, path=path)
        for broker, path in named_dirs(replicas, log_dirs).items()
    ]
    if not named:
        return ids_text(replicas)
    return phrase("%(replicas)s (%(named)s)", replicas=ids_text(replicas), named=joined(", ", named))


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
    return (
        shown
        if len(rows) <= ROWS_SHOWN
        else [*shown, ("…", phrase("%(count)s more partitions", count=len(rows) - ROWS_SHOWN), "")]
    )


def draft_saved(request: Request, record: PlanRecord) -> Response:
    """Go to the page of a new plan."""
    text = phrase("Plan %(id)s is saved as a draft. Nothing moves until it is approved and started.", id=record.id)
    return go_to(request, f"/plans/{record.id}", Flash("good", text))


def _row(stored: PlanPartition) -> PlanRow:
    row = row_of(stored)
    adding = len(row.copies)
    return PlanRow(
        f"{stored.topic}-{stored.partition}",
        replicas_text(row.original, row.original_log_dirs),
        replicas_text(row.proposed, row.log_dirs),
        ROW_STATE_NAMES[stored.state],
        ROW_TONES.get(stored.state, ""),
        phrase("%(count)s of %(all)s", count=stored.caught_up, all=adding) if adding else phrase("no copy"),
        stored.error or "",
    )


def cordon_texts(left: Sequence[LeftCordon]) -> list[tuple[str, str, str]]:
    """Return (config, value now, value without the plan's cordon) of each broker."""
    return [
        (phrase("cordoned.log.dirs of broker %(id)s", id=each.broker_id), each.now, each.after or phrase("none"))
        for each in left
    ]


def _actions(record: PlanRecord, is_cordoned: bool) -> list[tuple[str, str]]:
    """Return the changes that the plan's state allows, as (path, label)."""
    by_state: dict[str, list[tuple[str, str]]] = {
        DRAFT: [("approve", phrase("Approve…"))],
        APPROVED: [("start", phrase("Start…"))],
        RUNNING: [("pause", phrase("Pause…"))],
        PAUSED: [("resume", phrase("Resume…"))],
    }
    actions = by_state.get(record.state, [])
    if record.state not in FINAL_STATES:
        return [*actions, ("cancel", phrase("Cancel…"))]
    actions = [("uncordon", phrase("Uncordon…"))] if is_cordoned else []
    return (
        [*actions, ("rollback", phrase("Roll back…"))]
        if (record.result or {}).get("partitions", {}).get(MOVED)
        else actions
    )


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
        state_name=STATE_NAMES[record.state],
        tone=TONES.get(record.state, ""),
        is_active=record.state in ACTIVE_STATES,
        facts=_facts(record),
        states=[(name, ROW_STATE_NAMES[name], counts.states[name]) for name in ROW_STATES if name in counts.states],
        chosen=chosen,
        added=counts.caught_up,
        adding=counts.adding,
        progress=_progress(counts, eta),
        stuck=counts.stuck if record.state in ACTIVE_STATES else 0,
        stuck_minutes=record.stuck_minutes,
        waits_for=record.waits_for or "",
        reasons=record.reasons,
        rows=[_row(each) for each in rows],
        more=total - len(rows),
        actions=_actions(record, bool(left)),
        cordons=[phrase("%(config)s: %(value)s", config=what, value=now) for what, now, _ in cordon_texts(left)],
        story=[StoryLine(each.at, sentence(each.kind, each.detail), each.actor or "") for each in events],
        earlier=told - len(events),
        limits=typed or _limits(record),
        errors={} if typed is None else typed.errors,
        units=list(UNITS),
    )


def _progress(counts: Counts, eta: int | None) -> str:
    """Return how far the copying is, as a sentence."""
    values = {"added": number(counts.caught_up), "adding": number(counts.adding)}
    parts = [phrase("%(added)s of %(adding)s new replicas in sync", **values)]
    if counts.bytes_to_copy:
        copied, whole = size(counts.bytes_copied), size(counts.bytes_to_copy)
        parts.append(phrase("%(copied)s of %(whole)s copied", copied=copied, whole=whole))
    if eta is not None:
        parts.append(phrase("about %(time)s left", time=duration(eta * 1_000)))
    return phrase("%(words)s.", words=joined(", ", parts))


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
    return render(request, "plan.html", status, page=_page(request, plan_id), view=view)


def _page(request: Request, plan_id: int) -> Page:
    return page_of(request, phrase("Plan %(id)s", id=plan_id), "/plans")


@router.get("/fragments/plans/{plan_id}")
async def plan_fragment(request: Request, _caller: Reader, plan_id: PlanId, state: str = "") -> Response:
    """Return the part of the page that changes while the plan is executed."""
    view = await _plan_view(services_of(request), plan_id, state)
    return render(request, "_plan.html", page=_page(request, plan_id), view=view)
