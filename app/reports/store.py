"""Queries on the report tables: plain functions of a database session, for `Database.read` and `Database.write`."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, defer

from app.db.base import utc_now
from app.reports.leases import end_expired, lease_end, lock_creation
from app.reports.models import ACTIVE_STATES, ReportRun, ReportSchedule


class ReportBusyError(Exception):
    """A report is running; only one may run at a time. `run_id` is its id."""

    def __init__(self, run_id: int) -> None:
        super().__init__(f"Report run {run_id} is in progress; wait for it or cancel it.")
        self.run_id = run_id


class AlreadyPlannedError(Exception):
    """Another process has created the run of this schedule for this time."""


def create_run(
    session: Session, requested_by: str, schedule_id: int | None = None, planned_at: dt.datetime | None = None
) -> int:
    """Add a queued run with a lease and return its id, after ending a run whose process is gone.

    Raises ReportBusyError while a run is active, AlreadyPlannedError when another process has created a scheduled run.
    """
    now = utc_now()
    lock_creation(session)
    end_expired(session, now)
    active = session.scalar(select(ReportRun.id).where(ReportRun.state.in_(ACTIVE_STATES)).limit(1))
    if active is not None:
        raise ReportBusyError(active)
    run = ReportRun(
        schedule_id=schedule_id,
        planned_at=planned_at,
        requested_by=requested_by,
        state="queued",
        created_at=now,
        lease_until=lease_end(now),
    )
    session.add(run)
    try:
        session.flush()
    except IntegrityError as twin:
        raise AlreadyPlannedError(f"schedule {schedule_id} at {planned_at}") from twin
    return run.id


def update_run(session: Session, /, run_id: int, **values: Any) -> None:
    """Set columns of a run. Raises LookupError if there is no such run."""
    run = session.get(ReportRun, run_id)
    if run is None:
        raise LookupError(f"report run {run_id}")
    for name, value in values.items():
        setattr(run, name, value)


def list_runs(session: Session, limit: int = 50, before_id: int | None = None) -> Sequence[ReportRun]:
    """Return runs without their results, newest first; `before_id` continues a listing."""
    query = select(ReportRun).options(defer(ReportRun.result)).order_by(ReportRun.id.desc()).limit(limit)
    return session.scalars(query if before_id is None else query.where(ReportRun.id < before_id)).all()


def get_run(session: Session, run_id: int) -> ReportRun | None:
    """Return one run with its result, or None."""
    return session.get(ReportRun, run_id)


def latest_report(session: Session, before_id: int | None = None) -> ReportRun | None:
    """Return the newest successful run; with `before_id`, the newest one before that."""
    query = select(ReportRun).where(ReportRun.state == "succeeded").order_by(ReportRun.id.desc()).limit(1)
    return session.scalar(query if before_id is None else query.where(ReportRun.id < before_id))


def verdict_history(session: Session, limit: int = 60) -> list[dict[str, Any]]:
    """Return the verdict strips of the last successful runs, oldest first, for trend lines."""
    query = select(ReportRun).where(ReportRun.state == "succeeded").order_by(ReportRun.id.desc()).limit(limit)
    return [
        {"id": run.id, "image_offset": run.image_offset, **run.result["body"]["verdict"]}
        for run in reversed(session.scalars(query).all())
        if run.result is not None
    ]


def schedules(session: Session) -> Sequence[ReportSchedule]:
    """Return all schedules by name."""
    return session.scalars(select(ReportSchedule).order_by(ReportSchedule.name)).all()


def put_schedule(session: Session, name: str, cron: str, changed_by: str, *, enabled: bool) -> ReportSchedule:
    """Create or change the schedule of this name. The caller has checked `cron`."""
    schedule = session.scalar(select(ReportSchedule).where(ReportSchedule.name == name))
    if schedule is None:
        schedule = ReportSchedule(name=name)
        session.add(schedule)
    schedule.cron, schedule.enabled = cron, enabled
    schedule.changed_by, schedule.changed_at = changed_by, utc_now()
    session.flush()
    return schedule
