"""Starts reports when they are due. The database has the schedules; APScheduler runs them in memory.

Every web process may run a scheduler: `report_runs` has one row per schedule and due time, and the second process skips
it.
"""

import asyncio
import contextlib
import datetime as dt

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.cron import CronTrigger
from sqlalchemy.exc import SQLAlchemyError

from app.db.base import utc_now
from app.db.database import Database
from app.reports import store
from app.reports.models import ReportSchedule
from app.reports.runner import NoImageError, ReportRunner

log = structlog.get_logger(__name__)

NIGHTLY = "nightly"
NIGHTLY_CRON = "0 2 * * *"
GRACE_SECONDS = 3600
FOLLOW_SECONDS = 10.0
"""How soon a web process sees that another one has changed a schedule."""


class InvalidCronError(ValueError):
    """A cron expression is invalid. The text has it and the required form."""


def cron_trigger(cron: str) -> CronTrigger:
    """Parse five cron fields (minute hour day month weekday) in UTC. Raises InvalidCronError."""
    try:
        return CronTrigger.from_crontab(cron, timezone=dt.UTC)
    except ValueError as wrong:
        raise InvalidCronError(
            f"'{cron}' is not a schedule: five fields are needed, minute hour day month weekday, "
            f"such as '{NIGHTLY_CRON}' ({wrong})"
        ) from wrong


def next_due(cron: str, now: dt.datetime | None = None) -> dt.datetime | None:
    """Return when a schedule is due next, None if never."""
    due: dt.datetime | None = cron_trigger(cron).get_next_fire_time(None, now or utc_now())
    return due


def last_due(cron: str, now: dt.datetime) -> dt.datetime:
    """Return the newest time at which a schedule was due, at most GRACE_SECONDS ago; otherwise the present time.

    So processes that are late by different delays name a scheduled run by the same time.
    """
    trigger, found = cron_trigger(cron), None
    due = trigger.get_next_fire_time(None, now - dt.timedelta(seconds=GRACE_SECONDS))
    while due is not None and due <= now:
        found, due = due, trigger.get_next_fire_time(due, due + dt.timedelta(seconds=1))
    return found or now


class ReportScheduler:
    """Keeps APScheduler's jobs consistent with the table `report_schedules`, which any web process may change."""

    def __init__(self, database: Database, runner: ReportRunner) -> None:
        self._database = database
        self._runner = runner
        self._scheduler = AsyncIOScheduler(timezone=dt.UTC)
        self._crons: dict[str, str] = {}
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start. The first start of an installation creates a nightly schedule."""
        if not await self._database.read(store.schedules):
            await self._database.write(store.put_schedule, NIGHTLY, NIGHTLY_CRON, "conclave", enabled=True)
        self._scheduler.start()
        await self.follow()
        self._following = asyncio.create_task(self._follow_forever(), name="report-schedules")

    async def stop(self) -> None:
        """Start no further reports. The runner stops a running one."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    async def _follow_forever(self) -> None:
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            with contextlib.suppress(SQLAlchemyError):  # the database's outage log has it
                await self.follow()

    async def follow(self) -> None:
        """Update the jobs to the table. Jobs of unchanged schedules stay, so that no due time is missed."""
        wanted = {each.name: each.cron for each in await self._database.read(store.schedules) if each.enabled}
        for name in [name for name, cron in self._crons.items() if wanted.get(name) != cron]:
            self._scheduler.remove_job(name)
            del self._crons[name]
        for name, cron in wanted.items():
            if name not in self._crons:
                self._scheduler.add_job(
                    self._due,
                    cron_trigger(cron),
                    args=(name,),
                    id=name,
                    coalesce=True,
                    max_instances=1,
                    misfire_grace_time=GRACE_SECONDS,
                )
                self._crons[name] = cron

    async def put(self, name: str, cron: str, changed_by: str, *, enabled: bool) -> ReportSchedule:
        """Create or change a schedule: at once here, within FOLLOW_SECONDS elsewhere. Raises InvalidCronError."""
        cron_trigger(cron)
        schedule = await self._database.write(store.put_schedule, name, cron, changed_by, enabled=enabled)
        await self.follow()
        return schedule

    async def _due(self, name: str) -> None:
        """Run the report of a schedule if the table still has the schedule: another process may have changed it."""
        schedule = next((each for each in await self._database.read(store.schedules) if each.name == name), None)
        if schedule is None or not schedule.enabled or schedule.cron != self._crons.get(name):
            await self.follow()
            return
        planned_at = last_due(schedule.cron, utc_now())
        try:
            run_id = await self._runner.run_now(f"schedule {name}", schedule_id=schedule.id, planned_at=planned_at)
            log.info("report_due", schedule=name, run_id=run_id)
        except (NoImageError, store.ReportBusyError, store.AlreadyPlannedError) as skipped:
            log.warning("report_skipped", schedule=name, cause=str(skipped))
