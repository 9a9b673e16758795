"""Queries on the report tables: plain functions of a database session, for `Database.read` and `Database.write`."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, defer

from app.db.base import utc_now
from app.reports.leases import end_expired, lease_end, lock_creation
from app.reports.models import ACTIVE_STATES, ReportRun, ReportSchedule
from app.texts import phrase


class ReportBusyError(Exception):
    """A report is running; only one may run at a time. `run_id` is its id."""

    def __init__(self, run_id: int) -> None:
        super().__init__(phrase("Report run %(id)s is in progress; wait for it or cancel it.", id=run_id))
        self.run_id = run_id


class AlreadyPlannedError(Exception):
    """Another process has created the run of this schedule for this time."""


def create_run(
    session: Session,
    requested_by: str,
    *,
    schedule: ReportSchedule | None = None,
    planned_at: dt.datetime | None = None,
    topic_prefix: str = "",
) -> int:
    """Add a queued run with a lease and return its id, after ending a run whose process is gone.

    A run of a schedule has the schedule's scope.

    Raises ReportBusyError while a run is active, AlreadyPlannedError when another process has created a scheduled run.
    """
    now = utc_now()
    lock_creation(session)
    end_expired(session, now)
    active = session.scalar(select(ReportRun.id).where(ReportRun.state.in_(ACTIVE_STATES)).limit(1))
    if active is not None:
        raise ReportBusyError(active)
    run = ReportRun(
        schedule_id=None if schedule is None else schedule.id,
        planned_at=planned_at,
        requested_by=requested_by,
        topic_prefix=topic_prefix if schedule is None else schedule.topic_prefix,
        state="queued",
        created_at=now,
        lease_until=lease_end(now),
    )
    session.add(run)
    try:
        session.flush()
    except IntegrityError as twin:
        raise AlreadyPlannedError(f"schedule {run.schedule_id} at {planned_at}") from twin
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


def _is_success(topic_prefix: str) -> ColumnElement[bool]:
    return and_(ReportRun.state == "succeeded", ReportRun.topic_prefix == topic_prefix)


def latest_report(session: Session, before_id: int | None = None, topic_prefix: str = "") -> ReportRun | None:
    """Return the newest successful run of this scope; with `before_id`, the newest one before that."""
    query = select(ReportRun).where(_is_success(topic_prefix)).order_by(ReportRun.id.desc()).limit(1)
    return session.scalar(query if before_id is None else query.where(ReportRun.id < before_id))


def latest_report_id(session: Session) -> int | None:
    """Return the id of the newest successful run over all topics."""
    return session.scalar(select(func.max(ReportRun.id)).where(_is_success("")))


def has_succeeded(session: Session) -> bool:
    """Return whether any run has succeeded, of any scope."""
    return session.scalar(select(ReportRun.id).where(ReportRun.state == "succeeded").limit(1)) is not None


def verdict_history(session: Session, limit: int = 60) -> list[dict[str, Any]]:
    """Return the verdict strips of the last successful runs over all topics, oldest first, for trend lines."""
    query = select(ReportRun).where(_is_success("")).order_by(ReportRun.id.desc()).limit(limit)
    return [
        {"id": run.id, "image_offset": run.image_offset, **run.result["body"]["verdict"]}
        for run in reversed(session.scalars(query).all())
        if run.result is not None
    ]
