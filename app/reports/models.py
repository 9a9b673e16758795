"""Tables of the placement reports: schedules, and runs with their results."""

import datetime as dt
from typing import Any

from sqlalchemy import JSON, CheckConstraint, ForeignKey, Index, Integer, String, Text, UniqueConstraint, false
from sqlalchemy.orm import Mapped, mapped_column

from app.db.base import PK, Base, Moment, Name, OfCluster, Offset, UtcDateTime

ACTIVE_STATES = ("queued", "snapshotting", "running", "storing")
FINAL_STATES = ("succeeded", "failed", "cancelled", "timed_out", "lost")
_STATES = ", ".join(f"'{state}'" for state in (*ACTIVE_STATES, *FINAL_STATES))


class ReportSchedule(OfCluster, Base):
    """A schedule of reports; see `app.reports.schedules.ScheduleSpec`.

    `topology` is what a schedule with `on_change` has seen last (see `app.reports.topology`), None before the first.
    """

    __tablename__ = "report_schedules"
    __table_args__ = (UniqueConstraint("cluster", "name"),)
    id: Mapped[PK]
    name: Mapped[Name]
    cron: Mapped[str] = mapped_column(String(128))
    time_zone: Mapped[str] = mapped_column(String(64), server_default="UTC")
    enabled: Mapped[bool]
    topic_prefix: Mapped[str] = mapped_column(String(249), server_default="")
    on_change: Mapped[bool] = mapped_column(server_default=false())
    webhook_url: Mapped[str | None] = mapped_column(String(2048))
    topology: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    changed_by: Mapped[Name]
    changed_at: Mapped[Moment]


class ReportRun(OfCluster, Base):
    """One run over the committed image at (image_epoch, image_offset). `result` is the job's output if it succeeded.

    A scheduled run exists once per due time, however many processes try. While a run is active, its web process extends
    `lease_until`; a run with an expired lease has lost its process (see `app.reports.leases`).
    """

    __tablename__ = "report_runs"
    __table_args__ = (
        UniqueConstraint("schedule_id", "planned_at"),
        CheckConstraint(f"state in ({_STATES})", name="state"),
        Index(None, "state"),
        Index(None, "created_at"),
    )
    id: Mapped[PK]
    schedule_id: Mapped[int | None] = mapped_column(ForeignKey("report_schedules.id", ondelete="SET NULL"))
    planned_at: Mapped[dt.datetime | None] = mapped_column(UtcDateTime)
    requested_by: Mapped[Name]
    topic_prefix: Mapped[str] = mapped_column(String(249), server_default="")
    state: Mapped[str] = mapped_column(String(16))
    created_at: Mapped[Moment]
    finished_at: Mapped[dt.datetime | None] = mapped_column(UtcDateTime)
    cluster_id: Mapped[str | None] = mapped_column(String(64))
    image_offset: Mapped[Offset | None]
    image_epoch: Mapped[int | None]
    process_id: Mapped[int | None] = mapped_column(Integer)
    lease_until: Mapped[dt.datetime | None] = mapped_column(UtcDateTime)
    cancelled_by: Mapped[str | None] = mapped_column(String(255))
    reason: Mapped[str | None] = mapped_column(String(32))
    error: Mapped[str | None] = mapped_column(Text)
    result: Mapped[dict[str, Any] | None] = mapped_column(JSON)


WEBHOOK_STATES = ("waiting", "sending", "delivered", "failed", "unconfirmed")


class ReportWebhook(Base):
    """The one notification of a run whose verdict is worse than the one before; see `app.reports.webhooks`.

    `body` is the text that is sent, so that every attempt is the same. While a process sends it, the state is sending
    and `due_at` is when that process has failed. `sent_at` and `status` are the time and the HTTP status of the last
    attempt; the status is None if there was no answer.
    """

    __tablename__ = "report_webhooks"
    __table_args__ = (
        CheckConstraint("state in (" + ", ".join(f"'{state}'" for state in WEBHOOK_STATES) + ")", name="state"),
        Index(None, "state"),
    )
    run_id: Mapped[int] = mapped_column(ForeignKey("report_runs.id", ondelete="CASCADE"), primary_key=True)
    url: Mapped[str] = mapped_column(String(2048))
    body: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(16))
    attempts: Mapped[int]
    due_at: Mapped[Moment]
    sent_at: Mapped[dt.datetime | None] = mapped_column(UtcDateTime)
    status: Mapped[int | None] = mapped_column(Integer)
    error: Mapped[str | None] = mapped_column(Text)
