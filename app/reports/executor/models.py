"""Tables of the plans that are executed: plans, their partitions, their events, and the configs that they have set."""

import datetime as dt
from typing import Any

from sqlalchemy import JSON, BigInteger, CheckConstraint, ForeignKey, Index, Integer, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.base import PK, Base, Moment, Name, OfCluster, Offset, UtcDateTime
from app.reports.executor.plan import ROW_STATES, STATES


def _listed(states: tuple[str, ...]) -> str:
    return ", ".join(f"'{state}'" for state in states)


class PlanRecord(OfCluster, Base):
    """A plan; see `app.reports.executor.plan.Plan` for the columns that its execution uses.

    `origin`: pasted, report, options, drain or rollback; `options` are those of the request. `version` counts the
    changes by callers. `fence` counts the web processes that have executed the plan: `owner` names the last one, until
    `lease_until`.
    """

    __tablename__ = "plans"
    __table_args__ = (
        CheckConstraint(f"state in ({_listed(STATES)})", name="state"),
        Index(None, "cluster_id", "state"),
    )
    id: Mapped[PK]
    cluster_id: Mapped[str] = mapped_column(String(64))
    origin: Mapped[str] = mapped_column(String(16))
    options: Mapped[dict[str, Any]] = mapped_column(JSON)
    state: Mapped[str] = mapped_column(String(16))
    made_by: Mapped[Name]
    made_at: Mapped[Moment]
    approved_by: Mapped[str | None] = mapped_column(String(255))
    approved_at: Mapped[dt.datetime | None] = mapped_column(UtcDateTime)
    started_by: Mapped[str | None] = mapped_column(String(255))
    started_at: Mapped[dt.datetime | None] = mapped_column(UtcDateTime)
    cancelled_by: Mapped[str | None] = mapped_column(String(255))
    finished_at: Mapped[dt.datetime | None] = mapped_column(UtcDateTime)
    throttle: Mapped[int | None] = mapped_column(BigInteger)
    moves_per_broker: Mapped[int] = mapped_column(Integer)
    pause_on_under_min: Mapped[bool]
    stuck_minutes: Mapped[int] = mapped_column(Integer)
    drain: Mapped[list[int]] = mapped_column(JSON)
    drain_log_dirs: Mapped[list[tuple[int, str]] | None] = mapped_column(JSON(none_as_null=True))
    unregister: Mapped[bool]
    cancel_begun: Mapped[str | None] = mapped_column(String(8))
    known_under_min: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    metadata_offset: Mapped[Offset]
    elected: Mapped[bool]
    ending: Mapped[str | None] = mapped_column(String(16))
    rounds: Mapped[int] = mapped_column(Integer)
    waits_for: Mapped[str | None] = mapped_column(Text)
    reasons: Mapped[list[str]] = mapped_column(JSON)
    result: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    version: Mapped[int] = mapped_column(Integer)
    fence: Mapped[int] = mapped_column(Integer)
    owner: Mapped[str | None] = mapped_column(String(64))
    lease_until: Mapped[dt.datetime | None] = mapped_column(UtcDateTime)


class PlanPartition(Base):
    """One partition of a plan; see `app.reports.executor.plan.Row`. `size_bytes` is None where it is not known."""

    __tablename__ = "plan_partitions"
    __table_args__ = (
        UniqueConstraint("plan_id", "topic", "partition"),
        CheckConstraint(f"state in ({_listed(ROW_STATES)})", name="state"),
        Index(None, "plan_id", "state"),
    )
    id: Mapped[PK]
    plan_id: Mapped[int] = mapped_column(ForeignKey("plans.id", ondelete="CASCADE"))
    topic: Mapped[str] = mapped_column(String(249))
    topic_id: Mapped[str] = mapped_column(String(22))
    partition: Mapped[int] = mapped_column(Integer)
    original: Mapped[list[int]] = mapped_column(JSON)
    proposed: Mapped[list[int]] = mapped_column(JSON)
    state: Mapped[str] = mapped_column(String(16))
    caught_up: Mapped[int] = mapped_column(Integer)
    changed_at: Mapped[dt.datetime | None] = mapped_column(UtcDateTime)
    size_bytes: Mapped[int | None] = mapped_column(BigInteger)
    log_dirs: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    original_log_dirs: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    copied_bytes: Mapped[int | None] = mapped_column(BigInteger)
    error: Mapped[str | None] = mapped_column(Text)


class PlanSetting(Base):
    """A config that a plan has set; see `app.reports.executor.plan.Setting`."""

    __tablename__ = "plan_settings"
    __table_args__ = (UniqueConstraint("plan_id", "resource_type", "resource_name", "name"),)
    id: Mapped[PK]
    plan_id: Mapped[int] = mapped_column(ForeignKey("plans.id", ondelete="CASCADE"))
    resource_type: Mapped[int] = mapped_column(Integer)
    resource_name: Mapped[str] = mapped_column(String(249))
    name: Mapped[str] = mapped_column(String(64))
    before: Mapped[str | None] = mapped_column(Text)
    ours: Mapped[list[str]] = mapped_column(JSON)
    state: Mapped[str] = mapped_column(String(16))


class PlanEvent(Base):
    """Something that happened to a plan; see `app.reports.executor.story`. `actor`: who did it, None for nobody."""

    __tablename__ = "plan_events"
    id: Mapped[PK]
    plan_id: Mapped[int] = mapped_column(ForeignKey("plans.id", ondelete="CASCADE"), index=True)
    at: Mapped[Moment]
    kind: Mapped[str] = mapped_column(String(16))
    actor: Mapped[str | None] = mapped_column(String(255))
    detail: Mapped[dict[str, Any]] = mapped_column(JSON)
