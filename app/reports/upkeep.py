"""What every web process does for reports beside running them: webhooks, retention, and the state for the metrics."""

import asyncio
import contextlib
import datetime as dt
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from sqlalchemy import delete, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.db.base import utc_now
from app.db.database import Database
from app.reports import webhooks
from app.reports.models import ACTIVE_STATES, ReportRun
from app.reports.webhooks import WebhookSettings

log = structlog.get_logger(__name__)

TURN_SECONDS = 5.0
RETENTION_TURNS: Final = 120
"""Retention is enforced once in so many turns."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long runs are kept: for `days`, and the newest `runs_max`; of these, `snapshots_max` with all files."""

    days: int = 90
    runs_max: int = 400
    snapshots_max: int = 14


@dataclass(frozen=True, slots=True)
class ReportStatus:
    """The last finished run and the last success, over all web processes. None and "" before the first."""

    succeeded_at: dt.datetime | None = None
    duration_seconds: float | None = None
    last_state: str = ""
    is_running: bool = False


def read_status(session: Session) -> ReportStatus:
    """Return the status that the table has."""
    ended = select(ReportRun.state).where(ReportRun.finished_at.is_not(None)).order_by(ReportRun.id.desc()).limit(1)
    times = select(ReportRun.created_at, ReportRun.finished_at).where(ReportRun.state == "succeeded")
    success = session.execute(times.order_by(ReportRun.id.desc()).limit(1)).first()
    active = session.scalar(select(ReportRun.id).where(ReportRun.state.in_(ACTIVE_STATES)).limit(1))
    return ReportStatus(
        None if success is None else success.finished_at,
        None if success is None else (success.finished_at - success.created_at).total_seconds(),
        session.scalar(ended) or "",
        active is not None,
    )


def delete_old_runs(session: Session, retention: Retention, now: dt.datetime) -> int:
    """Delete runs that are too old or too many, except active ones and the last success. Returns their number.

    The newest run stays too, so that no later run gets its id.
    """
    last = select(ReportRun.id).where(ReportRun.state == "succeeded").order_by(ReportRun.id.desc()).limit(1)
    kept = select(ReportRun.id).order_by(ReportRun.id.desc()).limit(retention.runs_max)
    ids = session.scalars(kept).all()
    oldest, newest = min(ids, default=0), max(ids, default=0)
    old = (ReportRun.created_at < now - dt.timedelta(days=retention.days)) | (ReportRun.id < oldest)
    spared = [session.scalar(last) or 0, newest]
    done = delete(ReportRun).where(old, ReportRun.finished_at.is_not(None), ReportRun.id.not_in(spared))
    return int(getattr(session.execute(done), "rowcount", 0))


def run_ids(session: Session) -> Sequence[int]:
    """Return the ids of all runs, newest first."""
    return session.scalars(select(ReportRun.id).order_by(ReportRun.id.desc())).all()


def delete_old_folders(folder: Path, kept: Sequence[int], retention: Retention) -> None:
    """Delete the folders of runs that are gone, and snapshots and event logs of all but the newest runs.

    A folder of a newer run than all in `kept` stays: it may have been made after `kept` was read.
    """
    newest = max(kept, default=0)
    known, whole = set(kept), set(sorted(kept, reverse=True)[: retention.snapshots_max])
    for run_folder in folder.glob("run-*"):
        number = int(run_folder.name.removeprefix("run-"))
        if number > newest:
            continue
        if number not in known:
            shutil.rmtree(run_folder, ignore_errors=True)
        elif number not in whole:
            for part in ("snapshot", "events"):
                shutil.rmtree(run_folder / part, ignore_errors=True)


class ReportUpkeep:
    """Takes a turn every few seconds, from `start` to `stop`."""

    def __init__(self, database: Database, folder: Path, retention: Retention, webhook: WebhookSettings) -> None:
        self._database = database
        self._folder = folder
        self._retention = retention
        self._webhook = webhook
        self._task: asyncio.Task[None] | None = None
        self.status = ReportStatus()

    async def start(self) -> None:
        """Start the turns."""
        self._task = asyncio.create_task(self._run(), name="report-upkeep")

    async def stop(self) -> None:
        """End the turns. A webhook that is being sent becomes unconfirmed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        turn = 0
        while True:
            with contextlib.suppress(SQLAlchemyError):  # the database's outage log has it
                self.status = await self._database.read(read_status)
                while await self.send_next():
                    pass
                if turn % RETENTION_TURNS == 0:
                    await self.enforce_retention()
                turn += 1
            await asyncio.sleep(TURN_SECONDS)

    async def enforce_retention(self) -> None:
        """Delete old runs from the database and old folders of this process."""
        if count := await self._database.write(delete_old_runs, self._retention, utc_now()):
            log.info("reports_deleted", count=count)
        kept = await self._database.read(run_ids)
        await asyncio.to_thread(delete_old_folders, self._folder, kept, self._retention)

    async def send_next(self) -> bool:
        """Send the webhook that is due first. Returns False if none is due."""
        if not await self._database.read(webhooks.has_due, utc_now()):
            return False
        webhook = await self._database.write(webhooks.claim, utc_now())
        if webhook is None:
            return False
        now = utc_now()
        attempt = await asyncio.to_thread(
            webhooks.send, webhook.url, webhook.body, self._webhook, int(now.timestamp()), str(webhook.run_id)
        )
        await self._database.write(webhooks.settle, webhook.run_id, attempt, utc_now())
        log.info(
            "webhook_sent", run_id=webhook.run_id, state=attempt.state, attempt=webhook.attempts, error=attempt.error
        )
        return True
