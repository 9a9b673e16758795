"""The audit's retention: events beyond a number of days or rows are deleted at the start and then every hour.

Deletion is done in batches, so that other writers do not wait long. Several web processes may run it at once.
"""

import asyncio
import datetime as dt
from typing import Final

import structlog

from app.db.base import utc_now
from app.db.database import Database
from app.security import audit
from app.tasks import cancel_tasks

log = structlog.get_logger(__name__)

PERIOD_SECONDS: Final = 3_600.0
ROWS_AT_ONCE: Final = 1_000


class AuditRetention:
    """Deletes old events of one database."""

    def __init__(self, database: Database, days: int, rows_max: int) -> None:
        self._database = database
        self._kept = dt.timedelta(days=days)
        self._rows_max = rows_max
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start. The first deletion is immediate."""
        self._task = asyncio.create_task(self._run(), name="audit-retention")

    async def stop(self) -> None:
        """Stop after the batch in progress."""
        await cancel_tasks(self._task)

    async def trim(self) -> int:
        """Delete events beyond the limits. Returns how many."""
        total = 0
        while True:
            deleted = await self._database.write(audit.trim, utc_now() - self._kept, self._rows_max, ROWS_AT_ONCE)
            total += deleted
            if deleted < ROWS_AT_ONCE:
                return total

    async def _run(self) -> None:
        while True:
            try:
                deleted = await self.trim()
            except Exception as error:  # noqa: BLE001 - any error of a driver: the next hour retries
                log.warning("audit_not_trimmed", error=type(error).__name__)
            else:
                if deleted:
                    log.info("audit_trimmed", deleted=deleted)
            await asyncio.sleep(PERIOD_SECONDS)
