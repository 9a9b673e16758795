"""Queries on the tables of plans: plain functions of a database session, for `Database.read` and `Database.write`."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from app.cluster.partitions import Partition
from app.db.base import utc_now
from app.reports.executor import plan_events
from app.reports.executor.lease import renew
from app.reports.executor.models import PlanPartition, PlanRecord, PlanSetting
from app.reports.executor.plan import (
    ACTIVE_STATES,
    APPROVED,
    CANCELLED,
    CANCELLING,
    DRAFT,
    FINAL_STATES,
    MOVED,
    MOVING,
    OPEN_ROWS,
    PAUSED,
    RUNNING,
    Decision,
    Execution,
    Plan,
    Row,
    Setting,
    copying_brokers,
)
from app.reports.executor.story import Event
from app.texts import phrase

MOVES_PER_BROKER: Final = 5
STUCK_MINUTES: Final = 10


class PlanStateError(Exception):
    """The plan's state does not allow the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPlan:
    """A plan to create as a draft."""

    cluster_id: str
    origin: str
    rows: Sequence[Row]
    options: Mapping[str, Any]
    throttle: int | None = None
    moves_per_broker: int = MOVES_PER_BROKER
    pause_on_under_min: bool = True
    stuck_minutes: int = STUCK_MINUTES
    drain: tuple[int, ...] = ()
    drain_log_dirs: tuple[tuple[int, str], ...] = ()
    unregister: bool = False


def create(session: Session, new: NewPlan, made_by: str) -> PlanRecord:
    """Add a draft."""
    record = PlanRecord(
        cluster_id=new.cluster_id,
        origin=new.origin,
        options=dict(new.options),
        state=DRAFT,
        made_by=made_by,
        made_at=utc_now(),
        throttle=new.throttle,
        moves_per_broker=new.moves_per_broker,
        pause_on_under_min=new.pause_on_under_min,
        stuck_minutes=new.stuck_minutes,
        drain=list(new.drain),
        drain_log_dirs=list(new.drain_log_dirs),
        unregister=new.unregister,
        metadata_offset=-1,
        elected=False,
        rounds=0,
        reasons=[],
        version=0,
        fence=0,
    )
    session.add(record)
    session.flush()
    _add_rows(session, record.id, new.rows)
    plan_events.add(session, record.id, "made", made_by, origin=new.origin, partitions=len(new.rows))
    return record


def _add_rows(session: Session, plan_id: int, rows: Iterable[Row]) -> None:
    session.add_all(
        PlanPartition(
            plan_id=plan_id,
            topic=row.topic,
            partition=row.partition,
            **_columns(row),
        )
        for row in rows
    )


def _columns(row: Row) -> dict[str, Any]:
    return {
        "topic_id": row.topic_id,
        "original": list(row.original),
        "proposed": list(row.proposed),
        "state": row.state,
        "caught_up": row.caught_up,
        "changed_at": row.changed_at,
        "size_bytes": row.size_bytes,
        "log_dirs": list(row.log_dirs),
        "original_log_dirs": list(row.original_log_dirs),
        "copied_bytes": row.copied_bytes,
        "error": row.error,
    }


def get(session: Session, cluster_id: str, plan_id: int) -> PlanRecord | None:
    """Return a plan of the cluster, or None."""
    plan = session.get(PlanRecord, plan_id)
    return plan if plan is not None and plan.cluster_id == cluster_id else None


def plans(session: Session, cluster_id: str, limit: int) -> Sequence[PlanRecord]:
    """Return the plans of the cluster, newest first."""
    query = select(PlanRecord).where(PlanRecord.cluster_id == cluster_id)
    return session.scalars(query.order_by(PlanRecord.id.desc()).limit(limit)).all()


def partitions(session: Session, plan_id: int, *, state: str | None, after: int, limit: int) -> Sequence[PlanPartition]:
    """Return partitions of a plan in its order, after the one with the id `after`; of one state, or of all."""
    query = select(PlanPartition).where(PlanPartition.plan_id == plan_id, PlanPartition.id > after)
    if state is not None:
        query = query.where(PlanPartition.state == state)
    return session.scalars(query.order_by(PlanPartition.id).limit(limit)).all()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Partitions of a plan: by state, copies in all and complete (see Row), and those without progress for too long.

    `bytes_to_copy`, `bytes_copied`: of copies of known size; `unsized` copies are not in them.
    """

    states: Mapping[str, int]
    adding: int
    caught_up: int
    stuck: int = 0
    bytes_to_copy: int = 0
    bytes_copied: int = 0
    unsized: int = 0


def counts(session: Session, plan: PlanRecord) -> Counts:
    """Return the counts of a plan."""
    rows = session.execute(
        select(
            PlanPartition.state,
            PlanPartition.original,
            PlanPartition.proposed,
            PlanPartition.caught_up,
            PlanPartition.changed_at,
            PlanPartition.size_bytes,
            PlanPartition.log_dirs,
            PlanPartition.original_log_dirs,
            PlanPartition.copied_bytes,
        ).where(PlanPartition.plan_id == plan.id)
    ).all()
    states: dict[str, int] = {}
    adding = caught_up = stuck = to_copy = copied = unsized = 0
    late = utc_now() - dt.timedelta(minutes=plan.stuck_minutes)
    for state, original, proposed, joined, changed_at, size, paths, original_paths, partial in rows:
        states[state] = states.get(state, 0) + 1
        if state in {*OPEN_ROWS, MOVED}:
            new = len(copying_brokers(original, proposed, paths or (), original_paths or ()))
            adding += new
            caught_up += joined
            to_copy += new * (size or 0)
            copied += min(joined * (size or 0) + (partial or 0), new * (size or 0))
            unsized += new if size is None else 0
        stuck += state == MOVING and changed_at is not None and changed_at < late
    return Counts(
        states=states,
        adding=adding,
        caught_up=caught_up,
        stuck=stuck,
        bytes_to_copy=to_copy,
        bytes_copied=copied,
        unsized=unsized,
    )


def states_of(session: Session, plan_ids: Sequence[int]) -> dict[int, dict[str, int]]:
    """Return the number of partitions by plan and state."""
    query = select(PlanPartition.plan_id, PlanPartition.state, func.count()).where(PlanPartition.plan_id.in_(plan_ids))
    found: dict[int, dict[str, int]] = {}
    for plan_id, state, count in session.execute(query.group_by(PlanPartition.plan_id, PlanPartition.state)):
        found.setdefault(plan_id, {})[state] = count
    return found


def all_rows(session: Session, plan_id: int) -> list[Row]:
    """Return all partitions of a plan in its order."""
    query = select(PlanPartition).where(PlanPartition.plan_id == plan_id).order_by(PlanPartition.id)
    return [row_of(each) for each in session.scalars(query)]


def eta_seconds(plan: PlanRecord, found: Counts) -> int | None:
    """Return how long the rest takes at the pace so far, by bytes if all sizes are known, else by replicas.

    None before anything has been copied.
    """
    by_bytes = found.bytes_to_copy > 0 and not found.unsized
    done, total = (found.bytes_copied, found.bytes_to_copy) if by_bytes else (found.caught_up, found.adding)
    if plan.state not in ACTIVE_STATES or plan.started_at is None or not done:
        return None
    return round((utc_now() - plan.started_at).total_seconds() * (total - done) / done)


# what callers change


def _changed(
    session: Session,
    cluster_id: str,
    plan_id: int,
    allowed: Sequence[str],
    what: str,
    by: str,
    *,
    tells: bool = True,
    **values: Any,
) -> PlanRecord:
    """Change the columns of a plan, and add the event `what` if `tells`; else the caller does."""
    plan = session.get(PlanRecord, plan_id, with_for_update=True)
    if plan is None or plan.cluster_id != cluster_id:
        raise LookupError(f"plan {plan_id}")
    if plan.state not in allowed:
        raise PlanStateError(f"Plan {plan_id} is {plan.state}. Only a plan that is {_or(allowed)} can be {what}.")
    for name, value in values.items():
        setattr(plan, name, value)
    plan.version += 1
    if tells:
        plan_events.add(session, plan_id, what, by)
    return plan


def _or(words: Sequence[str]) -> str:
    return " or ".join(words)


def approve(session: Session, cluster_id: str, plan_id: int, by: str) -> PlanRecord:
    """Approve a draft. Raises LookupError, PlanStateError."""
    values: dict[str, Any] = {"state": APPROVED, "approved_by": by, "approved_at": utc_now()}
    return _changed(session, cluster_id, plan_id, (DRAFT,), "approved", by, **values)


def start(session: Session, cluster_id: str, plan_id: int, by: str) -> PlanRecord:
    """Start an approved plan. Raises LookupError, and PlanStateError also while another plan is active."""
    other = session.scalar(
        select(PlanRecord.id)
        .where(PlanRecord.cluster_id == cluster_id, PlanRecord.state.in_(ACTIVE_STATES))
        .with_for_update()
        .limit(1)
    )
    if other is not None and other != plan_id:
        raise PlanStateError(
            phrase("Plan %(id)s is being executed. Wait for its end, or cancel it, before you start another.", id=other)
        )
    values: dict[str, Any] = {"state": RUNNING, "started_by": by, "started_at": utc_now()}
    return _changed(session, cluster_id, plan_id, (APPROVED,), "started", by, **values)


def pause(session: Session, cluster_id: str, plan_id: int, by: str) -> PlanRecord:
    """Begin no further partition. Raises LookupError, PlanStateError."""
    return _changed(session, cluster_id, plan_id, (RUNNING,), "paused", by, state=PAUSED)


def resume(session: Session, cluster_id: str, plan_id: int, by: str) -> PlanRecord:
    """Continue a paused plan; what is under min ISR now no longer pauses it. Raises LookupError, PlanStateError."""
    values: dict[str, Any] = {"state": RUNNING, "known_under_min": None}
    return _changed(session, cluster_id, plan_id, (PAUSED,), "resumed", by, **values)


def cancel(session: Session, cluster_id: str, plan_id: int, by: str, begun: str) -> PlanRecord:
    """Cancel a plan: a draft at once, an active one through its executor. Raises LookupError, PlanStateError.

    `begun` says whether moving partitions are undone or finished; a second cancel may change that.
    """
    allowed = (DRAFT, APPROVED, *ACTIVE_STATES)
    plan = _changed(session, cluster_id, plan_id, allowed, "cancelled", by, tells=False, cancelled_by=by)
    if plan.state in ACTIVE_STATES:
        plan.state, plan.cancel_begun = CANCELLING, begun
        plan_events.add(session, plan_id, "cancelled", by, begun=begun)
    else:
        plan.state, plan.finished_at = CANCELLED, utc_now()
        plan_events.add(session, plan_id, "cancelled", by)
    return plan


def change(session: Session, cluster_id: str, plan_id: int, values: Mapping[str, Any], by: str) -> PlanRecord:
    """Set some of LIMITS of a plan that has not ended."""
    allowed = (DRAFT, APPROVED, *ACTIVE_STATES)
    before = get(session, cluster_id, plan_id)
    was = {} if before is None else {name: getattr(before, name) for name in values}
    plan = _changed(session, cluster_id, plan_id, allowed, "changed", by, tells=False, **values)
    changed = [
        (LIMITS[name], _limit_text(was[name]), _limit_text(value))
        for name, value in values.items()
        if was[name] != value
    ]
    if changed:
        plan_events.add(session, plan_id, "changed", by, values=changed)
    return plan


LIMITS: Final = {
    "throttle": "throttle in bytes/s per broker",
    "moves_per_broker": "new replicas on a broker at once",
    "pause_on_under_min": "pause on under min ISR",
    "stuck_minutes": "minutes until a partition counts as stuck",
}


def _limit_text(value: int | None) -> str:
    """Return a limit in words."""
    if value is None:
        return "none"
    return ("no", "yes")[value] if isinstance(value, bool) else f"{value:,}"


# what the executor reads and writes


def plan_of(record: PlanRecord) -> Plan:
    """Return the executor's view of a plan."""
    known = record.known_under_min
    return Plan(
        id=record.id,
        state=record.state,
        cancel_begun=record.cancel_begun,
        throttle=record.throttle,
        moves_per_broker=record.moves_per_broker,
        pause_on_under_min=record.pause_on_under_min,
        stuck_minutes=record.stuck_minutes,
        drain=tuple(record.drain),
        drain_log_dirs=tuple((broker, path) for broker, path in record.drain_log_dirs or ()),
        unregister=record.unregister,
        known_under_min=None if known is None else tuple(known),
        offset=record.metadata_offset,
        elected=record.elected,
        ending=record.ending,
        rounds=record.rounds,
        waits_for=record.waits_for,
        reasons=tuple(record.reasons),
    )


def load(session: Session, record: PlanRecord) -> Execution:
    """Return everything that is stored of a plan."""
    rows = all_rows(session, record.id)
    stored = session.scalars(select(PlanSetting).where(PlanSetting.plan_id == record.id))
    settings = [setting_of(each) for each in stored]
    return Execution(
        plan=plan_of(record), rows={row.key: row for row in rows}, settings={each.key: each for each in settings}
    )


def setting_of(stored: PlanSetting) -> Setting:
    """Return the executor's view of a config."""
    return Setting(
        resource_type=stored.resource_type,
        resource_name=stored.resource_name,
        name=stored.name,
        before=stored.before,
        ours=tuple(stored.ours),
        state=stored.state,
    )


def row_of(stored: PlanPartition) -> Row:
    """Return the executor's view of a partition."""
    return Row(
        topic=stored.topic,
        topic_id=stored.topic_id,
        partition=stored.partition,
        original=tuple(stored.original),
        proposed=tuple(stored.proposed),
        state=stored.state,
        caught_up=stored.caught_up,
        changed_at=stored.changed_at,
        size_bytes=stored.size_bytes,
        log_dirs=tuple(stored.log_dirs or ()),
        original_log_dirs=tuple(stored.original_log_dirs or ()),
        copied_bytes=stored.copied_bytes or 0,
        error=stored.error,
    )


def renewed(session: Session, plan_id: int, fence: int) -> tuple[Plan, int]:
    """Extend the lease, and return the plan and its version as callers have left it. Raises LeaseLostError."""
    record = renew(session, plan_id, fence)
    return plan_of(record), record.version


def save(session: Session, fence: int, version: int, decision: Decision, events: Iterable[Event] = ()) -> bool:
    """Store a decision with what it makes happen, and extend the lease. Raises LeaseLostError.

    Returns False, and stores nothing, when a caller has changed the plan since `version`.
    """
    record = renew(session, decision.plan.id, fence)
    if record.version != version:
        return False
    plan = decision.plan
    record.state, record.cancel_begun, record.ending = plan.state, plan.cancel_begun, plan.ending
    record.metadata_offset, record.elected, record.rounds = plan.offset, plan.elected, plan.rounds
    known = None if plan.known_under_min is None else list(plan.known_under_min)
    if record.known_under_min != known:
        record.known_under_min = known
    record.waits_for = plan.waits_for
    if record.reasons != list(plan.reasons):
        record.reasons = list(plan.reasons)
    _save_rows(session, plan.id, decision.rows)
    _save_settings(session, plan.id, decision.settings.values())
    if plan.state in FINAL_STATES:
        _finish(session, record)
    for event in events:
        detail = {**event.detail, "result": record.result} if event.kind == "ended" else event.detail
        plan_events.add_all(session, plan.id, [Event(event.kind, detail)])
    return True


def _save_rows(session: Session, plan_id: int, rows: Mapping[Partition, Row]) -> None:
    """Update the rows that exist and add the others, which a drain has planned again."""
    new = []
    for row in rows.values():
        done = session.execute(
            update(PlanPartition)
            .where(
                PlanPartition.plan_id == plan_id,
                PlanPartition.topic == row.topic,
                PlanPartition.partition == row.partition,
            )
            .values(**_columns(row))
            .execution_options(synchronize_session=False)
        )
        if not done.rowcount:  # type: ignore[attr-defined]  # the result of an update has it
            new.append(row)
    _add_rows(session, plan_id, new)


def _save_settings(session: Session, plan_id: int, settings: Iterable[Setting]) -> None:
    for each in settings:
        stored = session.scalar(
            select(PlanSetting).where(
                PlanSetting.plan_id == plan_id,
                PlanSetting.resource_type == each.resource_type,
                PlanSetting.resource_name == each.resource_name,
                PlanSetting.name == each.name,
            )
        )
        if stored is None:
            stored = PlanSetting(
                plan_id=plan_id,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                name=each.name,
                before=each.before,
            )
            session.add(stored)
        stored.before, stored.ours, stored.state = each.before, list(each.ours), each.state


def _finish(session: Session, record: PlanRecord) -> None:
    session.flush()
    found = counts(session, record)
    record.finished_at, record.owner, record.lease_until = utc_now(), None, None
    by_state = select(PlanSetting.state, func.count()).where(PlanSetting.plan_id == record.id)
    configs = dict(session.execute(by_state.group_by(PlanSetting.state)).all())
    record.result = {
        "partitions": dict(found.states),
        "replicas_added": found.caught_up,
        "configs": configs,
        "seconds": None
        if record.started_at is None
        else round((record.finished_at - record.started_at).total_seconds(), 1),
    }
