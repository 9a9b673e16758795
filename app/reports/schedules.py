"""Queries on the schedules of reports: plain functions of a database session."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.base import utc_now
from app.reports import store
from app.reports.leases import lock_creation
from app.reports.models import ReportSchedule
from app.reports.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """What a user says about a schedule.

    `cron` has five fields, in `time_zone`. `topic_prefix` limits the reports to topics whose names start with it.
    `on_change` starts a report after changes of the topology too. `webhook_url` gets a request when a verdict is worse.
    """

    cron: str
    time_zone: str = "UTC"
    enabled: bool = True
    topic_prefix: str = ""
    on_change: bool = False
    webhook_url: str | None = None


def list_schedules(session: Session) -> Sequence[ReportSchedule]:
    """Return all schedules by name."""
    return session.scalars(select(ReportSchedule).order_by(ReportSchedule.name)).all()


def get_schedule(session: Session, name: str) -> ReportSchedule | None:
    """Return the schedule of this name, or None."""
    return session.scalar(select(ReportSchedule).where(ReportSchedule.name == name))


def put_schedule(session: Session, name: str, spec: ScheduleSpec, changed_by: str) -> ReportSchedule:
    """Create or change the schedule of this name. The caller has checked `spec`.

    A schedule that starts to follow changes of the topology follows those from now on.
    """
    schedule = get_schedule(session, name)
    if schedule is None:
        schedule = ReportSchedule(name=name)
        session.add(schedule)
    if not (spec.enabled and spec.on_change):
        schedule.topology = None
    schedule.cron, schedule.time_zone, schedule.enabled = spec.cron, spec.time_zone, spec.enabled
    schedule.topic_prefix, schedule.on_change, schedule.webhook_url = (
        spec.topic_prefix,
        spec.on_change,
        spec.webhook_url,
    )
    schedule.changed_by, schedule.changed_at = changed_by, utc_now()
    session.flush()
    return schedule


def delete_schedule(session: Session, name: str) -> bool:
    """Delete a schedule; its runs remain. Returns False if no schedule has this name."""
    schedule = get_schedule(session, name)
    if schedule is None:
        return False
    session.delete(schedule)
    session.flush()
    return True


class NotDueError(Exception):
    """The schedule was changed, disabled or deleted by another process, or a change has been reported by another."""


def create_due_run(session: Session, name: str, cron: str, time_zone: str, planned_at: dt.datetime) -> int:
    """Add the run of a schedule for a due time, if the table still has the schedule with this cron, and return its id.

    Raises NotDueError, ReportBusyError, AlreadyPlannedError.
    """
    lock_creation(session)
    schedule = get_schedule(session, name)
    if schedule is None or not schedule.enabled or (schedule.cron, schedule.time_zone) != (cron, time_zone):
        raise NotDueError(f"schedule {name} has changed")
    return store.create_run(session, f"schedule {name}", schedule=schedule, planned_at=planned_at)


def note_topology(session: Session, name: str, before: Topology | None, now: Topology) -> int | None:
    """Replace a schedule's topology `before` by `now`, and add a run if that is an event. Returns the run's id.

    Raises NotDueError if another process has replaced it, ReportBusyError while another report runs; nothing changes
    then, so the event is still due.
    """
    lock_creation(session)
    schedule = get_schedule(session, name)
    if schedule is None or not schedule.enabled or not schedule.on_change:
        raise NotDueError(f"schedule {name} has changed")
    if schedule.topology != (None if before is None else before.as_json()):
        raise NotDueError(f"the change was noted by another process for schedule {name}")
    schedule.topology = now.as_json()
    events = [] if before is None else now.events_since(before)
    if not events:
        return None
    return store.create_run(session, f"schedule {name}: {'; '.join(events)}"[:255], schedule=schedule)
