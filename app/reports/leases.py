"""The lease of a report run, in the run's row: it names the web process that runs the report.

That process extends the lease while it works. A run with an expired lease has no process: it was killed, or has lost
the database. Every web process ends such runs, so that no run blocks the next one, and a process whose run has been
ended stops working on it. A cancel request is written into the row as well, so any process can cancel any run.
"""

import datetime as dt
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.base import utc_now
from app.db.locks import Lock, hold
from app.reports.models import ACTIVE_STATES, ReportRun
from app.texts import phrase

LEASE_SECONDS: Final = 30
"""How long a run outlives the last extension by its process. The clocks of web processes must differ by less."""


def lease_end(now: dt.datetime) -> dt.datetime:
    """Return when a lease taken now expires."""
    return now + dt.timedelta(seconds=LEASE_SECONDS)


def lock_creation(session: Session) -> None:
    """Let no other transaction create a run until this one ends."""
    hold(session, Lock.RUN_CREATION)


def renew_lease(session: Session, run_id: int, now: dt.datetime) -> ReportRun | None:
    """Extend the lease of an active run. Return the run, or None when another process has ended it."""
    run = session.get(ReportRun, run_id, with_for_update=True)
    if run is None or run.state not in ACTIVE_STATES:
        return None
    run.lease_until = lease_end(now)
    return run


def end_expired(session: Session, now: dt.datetime) -> list[int]:
    """End every active run without a valid lease, as cancelled if requested, else as lost. Returns their ids.

    A run without a lease comes from a version without leases; its process is gone.
    """
    active = select(ReportRun).where(ReportRun.state.in_(ACTIVE_STATES)).with_for_update()
    expired = [run for run in session.scalars(active) if run.lease_until is None or run.lease_until < now]
    for run in expired:
        finish(run, "lost", "PROCESS_GONE", "The web process that ran this report has ended.", now)
    return [run.id for run in expired]


def request_cancel(session: Session, run_id: int, by: str, now: dt.datetime) -> bool:
    """Request that the process of this report ends it, and end it at once if that process is gone.

    Returns False when the run is not active.
    """
    end_expired(session, now)
    run = session.get(ReportRun, run_id, with_for_update=True)
    if run is None or run.state not in ACTIVE_STATES:
        return False
    run.cancelled_by = run.cancelled_by or by
    return True


def finish(run: ReportRun, state: str, reason: str | None, error: str | None, now: dt.datetime) -> None:
    """Set the final state of a run. A run that was to be cancelled ends as cancelled unless it succeeded."""
    if run.cancelled_by is not None and state != "succeeded":
        state, reason, error = "cancelled", "CANCELLED", str(phrase("Cancelled by %(who)s.", who=run.cancelled_by))
    run.state, run.reason, run.error = state, reason, error
    run.finished_at, run.process_id, run.lease_until = now, None, None


def finish_run(session: Session, run_id: int, state: str, reason: str | None = None, error: str | None = None) -> bool:
    """Set the final state of an active run. Returns False when it has one, or was deleted with its cluster."""
    run = session.get(ReportRun, run_id, with_for_update=True)
    if run is None or run.state not in ACTIVE_STATES:
        return False
    finish(run, state, reason, error, utc_now())
    return True


def succeed(session: Session, run_id: int, result: dict[str, Any]) -> bool:
    """Store the result of an active run. Returns False when another process has ended the run."""
    if not finish_run(session, run_id, "succeeded"):
        return False
    run = session.get(ReportRun, run_id)
    assert run is not None, "finish_run has found it"
    run.result = result
    return True
