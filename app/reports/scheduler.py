"""Start reports when they are due: the schedules of the database, kept by APScheduler in memory.

Every web process may run a scheduler: `report_runs` has one row per schedule and due moment, and whoever comes second
skips it.
"""

import datetime as dt

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.cron import CronTrigger

from app.db.base import utc_now
from app.db.database import Database
from app.reports import store
from app.reports.models import ReportSchedule
from app.reports.runner import NoImageError, ReportRunner

log = structlog.get_logger(__name__)

NIGHTLY = "nightly"
NIGHTLY_CRON = "0 2 * * *"
GRACE_SECONDS = 3600


class InvalidCronError(ValueError):
    """A cron expression that cannot be read: names it and the form."""


def cron_trigger(cron: str) -> CronTrigger:
    """Read five cron fields (minute hour day month weekday) in UTC. Raises InvalidCronError."""
    try:
        return CronTrigger.from_crontab(cron, timezone=dt.UTC)
    except ValueError as wrong:
        raise InvalidCronError(
            f"'{cron}' is not a schedule: five fields are needed, minute hour day month weekday, "
            f"such as '{NIGHTLY_CRON}' ({wrong})"
        ) from wrong


def next_due(cron: str, now: dt.datetime | None = None) -> dt.datetime | None:
    """When a schedule is due next, None if never."""
    due: dt.datetime | None = cron_trigger(cron).get_next_fire_time(None, now or utc_now())
    return due


class ReportScheduler:
    """Keeps APScheduler's jobs in step with the table `report_schedules`."""

    def __init__(self, database: Database, runner: ReportRunner) -> None:
        self._database = database
        self._runner = runner
        self._scheduler = AsyncIOScheduler(timezone=dt.UTC)

    async def start(self) -> None:
        """Begin; at the very first start of an installation a nightly schedule is made."""
        if not await self._database.read(store.schedules):
            await self._database.write(store.put_schedule, NIGHTLY, NIGHTLY_CRON, "conclave", enabled=True)
        self._scheduler.start()
        await self.reload()

    async def stop(self) -> None:
        """Start nothing any more; a running report is the runner's."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    async def reload(self) -> None:
        """Take up the schedules as the table has them."""
        self._scheduler.remove_all_jobs()
        for schedule in await self._database.read(store.schedules):
            if schedule.enabled:
                self._scheduler.add_job(
                    self._due,
                    cron_trigger(schedule.cron),
                    args=(schedule.id, schedule.name),
                    id=str(schedule.id),
                    coalesce=True,
                    max_instances=1,
                    misfire_grace_time=GRACE_SECONDS,
                )

    async def put(self, name: str, cron: str, changed_by: str, *, enabled: bool) -> ReportSchedule:
        """Make or change a schedule; it counts at once. Raises InvalidCronError."""
        cron_trigger(cron)
        schedule = await self._database.write(store.put_schedule, name, cron, changed_by, enabled=enabled)
        await self.reload()
        return schedule

    async def _due(self, schedule_id: int, name: str) -> None:
        planned_at = utc_now().replace(second=0, microsecond=0)
        try:
            run_id = await self._runner.run_now(f"schedule {name}", schedule_id=schedule_id, planned_at=planned_at)
            log.info("report_due", schedule=name, run_id=run_id)
        except (NoImageError, store.ReportBusyError, store.AlreadyPlannedError) as skipped:
            log.warning("report_skipped", schedule=name, cause=str(skipped))
