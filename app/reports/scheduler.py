"""Starts reports when they are due. The database has the schedules; APScheduler runs them in memory.

Every web process may run a scheduler: `report_runs` has one row per schedule and due time, and the second process skips
it. After a change of the topology, the process that notes it in the schedule's row starts the run (see
`app.reports.topology`).
"""

import asyncio
import contextlib
import datetime as dt
import time
from typing import Final

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from sqlalchemy.exc import SQLAlchemyError

from app.db.base import utc_now
from app.db.database import Database
from app.reports import schedules, store
from app.reports.cron import GRACE_SECONDS, cron_trigger, last_due
from app.reports.models import ReportSchedule
from app.reports.runner import NoImageError, ReportRunner
from app.reports.schedules import NotDueError, ScheduleSpec
from app.reports.topology import Topology, TopologySource, TopologyWatch

log = structlog.get_logger(__name__)

NIGHTLY: Final = "nightly"
NIGHTLY_CRON: Final = "0 2 * * *"
FOLLOW_SECONDS = 5.0
"""How soon a web process starts to follow a schedule that another one has created, and how often it looks at the
topology. A schedule that another process has changed, disabled or deleted starts no run meanwhile."""
BUSY_SECONDS = 5.0
"""How often a due schedule looks whether the running report has ended."""


class ReportScheduler:
    """Keeps APScheduler's jobs consistent with the table `report_schedules`, which any web process may change."""

    def __init__(self, database: Database, runner: ReportRunner, topology: TopologySource) -> None:
        self._database = database
        self._runner = runner
        self._topology = topology
        self._watch = TopologyWatch()
        self._scheduler = AsyncIOScheduler(timezone=dt.UTC)
        self._jobs: dict[str, tuple[str, str]] = {}  # name: (cron, time zone)
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start. The first start of an installation creates a nightly schedule."""
        if not await self._database.read(schedules.list_schedules):
            await self._database.write(schedules.put_schedule, NIGHTLY, ScheduleSpec(cron=NIGHTLY_CRON), "conclave")
        self._scheduler.start()
        self._catch_up(await self.follow(), utc_now())
        self._following = asyncio.create_task(self._follow_forever(), name="report-schedules")

    async def stop(self) -> None:
        """Start no further reports. The runner stops a running one."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def _catch_up(self, enabled: list[ReportSchedule], now: dt.datetime) -> None:
        """Run what was due shortly before this process started: one that has stopped may have waited with it."""
        for each in enabled:
            if each.changed_at < last_due(each.cron, each.time_zone, now) < now:
                self._scheduler.add_job(self._due, args=(each.name, each.cron, each.time_zone))

    async def _follow_forever(self) -> None:
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            with contextlib.suppress(SQLAlchemyError):  # the database's outage log has it
                await self.look(await self.follow(), time.monotonic())

    async def follow(self) -> list[ReportSchedule]:
        """Update the jobs to the table, and return the enabled schedules. Jobs of unchanged schedules stay."""
        enabled = [each for each in await self._database.read(schedules.list_schedules) if each.enabled]
        wanted = {each.name: (each.cron, each.time_zone) for each in enabled}
        for name in [name for name, job in self._jobs.items() if wanted.get(name) != job]:
            self._scheduler.remove_job(name)
            del self._jobs[name]
        for name, (cron, time_zone) in wanted.items():
            if name not in self._jobs:
                self._scheduler.add_job(
                    self._due,
                    cron_trigger(cron, time_zone),
                    args=(name, cron, time_zone),
                    id=name,
                    coalesce=True,
                    max_instances=1,
                    misfire_grace_time=GRACE_SECONDS,
                )
                self._jobs[name] = (cron, time_zone)
        return enabled

    async def put(self, name: str, spec: ScheduleSpec, changed_by: str) -> ReportSchedule:
        """Create or change a schedule that has been checked."""
        schedule = await self._database.write(schedules.put_schedule, name, spec, changed_by)
        await self.follow()
        return schedule

    async def delete(self, name: str) -> bool:
        """Delete a schedule. Returns False if no schedule has this name."""
        done = await self._database.write(schedules.delete_schedule, name)
        await self.follow()
        return done

    async def _due(self, name: str, cron: str, time_zone: str) -> None:
        """Run the report of a schedule if the table still has the schedule as it was when the job was added.

        While another report runs, or this process has no image yet, it waits, until it is too late.
        """
        planned_at = last_due(cron, time_zone, utc_now())
        while True:
            try:
                run_id = await self._runner.start_run(schedules.create_due_run, name, cron, time_zone, planned_at)
                log.info("report_due", schedule=name, run_id=run_id)
            except (store.ReportBusyError, NoImageError) as busy:
                if utc_now() - planned_at < dt.timedelta(seconds=GRACE_SECONDS):
                    await asyncio.sleep(BUSY_SECONDS)
                    continue
                log.warning("report_skipped", schedule=name, cause=str(busy))
            except (NotDueError, store.AlreadyPlannedError) as skipped:
                log.warning("report_skipped", schedule=name, cause=str(skipped))
            except SQLAlchemyError:
                log.warning("report_skipped", schedule=name, cause="the database is not available")
            return

    async def look(self, enabled: list[ReportSchedule], now_s: float) -> None:
        """Start the reports of schedules that follow changes of the topology, if it has changed and is quiet again."""
        sighting = self._topology()
        if sighting is None or not self._watch.see(sighting, now_s):
            return
        for schedule in enabled:
            if not schedule.on_change:
                continue
            before = None if schedule.topology is None else Topology.of_json(schedule.topology)
            now = self._watch.topology(sighting, before, now_s)
            if now == before:
                continue
            with contextlib.suppress(NoImageError, NotDueError, store.ReportBusyError):  # the next look tries again
                run_id = await self._runner.start_run(schedules.note_topology, schedule.name, before, now)
                log.info("topology_noted", schedule=schedule.name, run_id=run_id)
