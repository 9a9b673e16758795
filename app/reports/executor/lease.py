"""The lease of a plan: one web process at a time executes it.

The owner's name and the end of its lease are in the plan's row, with a fence that grows with each new owner. Every
write of an owner checks the fence, in the same transaction. Steps on the cluster cannot be checked so; instead the
owner measures its lease on its own monotonic clock, from before the transaction that extended it, and carries out no
step after its end. A process that was paused for longer finds the lease over, even before it reads the database.

The end of a lease is written and compared by the database's clock, so those of the web processes may differ.
"""

import datetime as dt
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.db.base import utc_now
from app.reports.executor.models import PlanRecord
from app.reports.executor.plan import ACTIVE_STATES

LEASE_SECONDS: Final = 15.0
MARGIN_SECONDS: Final = 2.0
"""An owner carries out no step in the last seconds of its lease: a request may need that long to arrive."""


class LeaseLostError(Exception):
    """Another web process executes the plan, or its state is final."""


def database_now(session: Session) -> dt.datetime:
    """Return the time of the database server; of this machine for SQLite, whose file is on it."""
    if session.get_bind().dialect.name != "postgresql":
        return utc_now()
    now: dt.datetime | None = session.scalar(select(func.clock_timestamp()))
    assert now is not None, "PostgreSQL always returns its time"
    return now.astimezone(dt.UTC)


def claim(session: Session, cluster_id: str, owner: str) -> PlanRecord | None:
    """Make this process the owner of the cluster's active plan and return it.

    None when there is no active plan, or while another owner's lease lasts. An owner that claims its own plan again
    gets a new fence, so that what it left half done before cannot be stored any more.
    """
    query = select(PlanRecord).where(PlanRecord.cluster_id == cluster_id, PlanRecord.state.in_(ACTIVE_STATES))
    plan = session.scalars(query.order_by(PlanRecord.id).limit(1).with_for_update()).first()
    if plan is None:
        return None
    now = database_now(session)
    if plan.owner not in {None, owner} and plan.lease_until is not None and plan.lease_until > now:
        return None
    plan.owner, plan.lease_until, plan.fence = owner, now + dt.timedelta(seconds=LEASE_SECONDS), plan.fence + 1
    return plan


def renew(session: Session, plan_id: int, fence: int) -> PlanRecord:
    """Extend the lease and return the locked plan. Raises LeaseLostError."""
    plan = session.get(PlanRecord, plan_id, with_for_update=True)
    if plan is None or plan.fence != fence or plan.state not in ACTIVE_STATES:
        raise LeaseLostError(f"plan {plan_id} is no longer executed under fence {fence}")
    plan.lease_until = database_now(session) + dt.timedelta(seconds=LEASE_SECONDS)
    return plan


def release(session: Session, plan_id: int, fence: int) -> None:
    """Let any process claim the plan at once. Does nothing when another one has."""
    plan = session.get(PlanRecord, plan_id, with_for_update=True)
    if plan is not None and plan.fence == fence:
        plan.owner, plan.lease_until = None, None
