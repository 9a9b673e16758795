"""A run belongs to one web process, and to none once that process is gone."""

import asyncio
import contextlib
import datetime as dt
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.db.base import utc_now
from app.db.database import Database
from app.reports import leases, runner, scheduler, store
from app.reports.cron import last_due
from app.reports.job_process import ReportSettings
from app.reports.models import ReportRun
from app.reports.runner import ReportRunner
from app.reports.scheduler import ReportScheduler
from app.reports.schedules import ScheduleSpec, put_schedule
from kraft_core.image.metadata_image import MetadataImage
from tests.app.reports.clusters import CLUSTER_ID
from tests.app.reports.test_report import three_racks
from tests.app.reports.test_runner import finished, processes_of, until_gone, until_running

LATER = dt.timedelta(seconds=leases.LEASE_SECONDS + 1)


def run_of(made: Database, run_id: int) -> ReportRun:
    run = made.write_now(store.get_run, run_id)
    assert run is not None
    return run


def test_a_run_with_an_expired_lease_is_lost_and_blocks_no_other(sqlite: Database) -> None:
    run_id = sqlite.write_now(store.create_run, "ada")
    assert sqlite.write_now(leases.end_expired, utc_now()) == []
    with pytest.raises(store.ReportBusyError):
        sqlite.write_now(store.create_run, "bob")
    assert sqlite.write_now(leases.end_expired, utc_now() + LATER) == [run_id]
    run = run_of(sqlite, run_id)
    assert (run.state, run.reason) == ("lost", "PROCESS_GONE")
    assert run.finished_at is not None
    sqlite.write_now(store.create_run, "bob")


def test_a_run_made_by_a_version_without_leases_is_ended_by_the_next_one(sqlite: Database) -> None:
    old = sqlite.write_now(store.create_run, "ada")
    sqlite.write_now(store.update_run, old, state="running", lease_until=None, process_id=os.getpid())
    sqlite.write_now(store.create_run, "bob")
    assert run_of(sqlite, old).state == "lost"


def test_a_lease_that_is_renewed_outlives_its_first_term(sqlite: Database) -> None:
    run_id = sqlite.write_now(store.create_run, "ada")
    assert sqlite.write_now(leases.renew_lease, run_id, utc_now() + LATER) is not None
    assert sqlite.write_now(leases.end_expired, utc_now() + LATER) == []


def test_a_run_that_was_ended_cannot_be_renewed_or_succeed(sqlite: Database) -> None:
    run_id = sqlite.write_now(store.create_run, "ada")
    sqlite.write_now(leases.end_expired, utc_now() + LATER)
    assert sqlite.write_now(leases.renew_lease, run_id, utc_now()) is None
    assert not sqlite.write_now(leases.succeed, run_id, {})
    assert run_of(sqlite, run_id).state == "lost"


def test_a_run_whose_process_is_gone_can_be_cancelled(sqlite: Database) -> None:
    run_id = sqlite.write_now(store.create_run, "ada")
    assert sqlite.write_now(leases.request_cancel, run_id, "bob", utc_now())
    assert sqlite.write_now(leases.end_expired, utc_now() + LATER) == [run_id]
    assert (run_of(sqlite, run_id).state, run_of(sqlite, run_id).error) == ("cancelled", "Cancelled by bob.")
    assert not sqlite.write_now(leases.request_cancel, run_id, "bob", utc_now())


WEB_PROCESS = """
import asyncio, sys
from pathlib import Path
from app.db.database import Database
from app.reports.job_process import ReportSettings
from app.reports.runner import ReportRunner
from tests.app.reports.test_report import three_racks

async def main(folder):
    database = Database(f"sqlite:///{folder}/test.db")
    runner = ReportRunner(database, ReportSettings(folder=folder / "reports"), lambda: (three_racks(), "cluster"))
    await runner.start()
    await runner.run_now("ada")
    await asyncio.sleep(600)

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.spark
def test_the_run_of_a_killed_web_process_ends_with_its_job_and_the_next_starts(
    sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE_SECONDS", 1)
    monkeypatch.setattr(runner, "SWEEP_SECONDS", 0.2)

    process = subprocess.Popen([sys.executable, "-c", WEB_PROCESS, str(tmp_path)])

    async def scenario() -> None:
        while not await sqlite.read(store.list_runs):
            await asyncio.sleep(0.05)
        (run,) = await sqlite.read(store.list_runs)
        group = await until_running(sqlite, run.id)
        process.kill()
        process.wait()
        successor = ReportRunner(
            sqlite, ReportSettings(folder=tmp_path / "reports"), lambda: (three_racks(), CLUSTER_ID)
        )
        await successor.start()
        try:
            async with asyncio.timeout(45):  # the killed process has a lease of the normal length
                await finished(sqlite, run.id)
            await until_gone(group)
            again = await successor.run_now("bob")
            assert await successor.cancel(again, "bob")
        finally:
            await successor.stop()
        assert run_of(sqlite, run.id).state == "lost"

    asyncio.run(scenario())


class IdleRunner(ReportRunner):
    """A runner whose reports last until they are ended, without Spark."""

    async def _make(self, run_id: int, image: MetadataImage, cluster_id: str) -> None:
        await asyncio.sleep(600)


def test_one_web_process_cancels_the_run_of_another(
    sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "RENEW_SECONDS", 0.05)

    async def scenario() -> None:
        first, second = (
            IdleRunner(sqlite, ReportSettings(folder=tmp_path), lambda: (three_racks(), CLUSTER_ID)) for _ in range(2)
        )
        run_id = await first.run_now("ada")
        assert await second.cancel(run_id, "bob")
        run = await finished(sqlite, run_id)
        assert (run.state, run.error) == ("cancelled", "Cancelled by bob.")
        await first.stop()

    asyncio.run(scenario())


def test_a_process_that_lost_its_lease_stops_its_run(
    sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A web process that was paused for longer than its lease must not continue beside its successor."""
    monkeypatch.setattr(runner, "RENEW_SECONDS", 0.05)

    async def scenario() -> None:
        stalled = IdleRunner(sqlite, ReportSettings(folder=tmp_path), lambda: (three_racks(), CLUSTER_ID))
        run_id = await stalled.run_now("ada")
        await sqlite.write(leases.end_expired, utc_now() + LATER)
        task = stalled._task
        assert task is not None
        async with asyncio.timeout(30):
            with contextlib.suppress(asyncio.CancelledError):
                await task
        assert run_of(sqlite, run_id).state == "lost"

    asyncio.run(scenario())


def test_a_schedule_that_another_process_changes_is_followed(
    sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "FOLLOW_SECONDS", 0.05)

    def jobs(of: ReportScheduler) -> dict[str, str]:
        return {name: cron for name, (cron, _) in of._jobs.items()}

    async def until(of: ReportScheduler, expected: dict[str, str]) -> None:
        async with asyncio.timeout(30):
            while jobs(of) != expected or {job.id for job in of._scheduler.get_jobs()} != set(expected):
                await asyncio.sleep(0.02)

    async def scenario() -> None:
        idle = IdleRunner(sqlite, ReportSettings(folder=tmp_path), lambda: (three_racks(), CLUSTER_ID))
        here, there = (ReportScheduler(sqlite, idle, lambda: None) for _ in range(2))
        await here.start()
        await there.start()
        await there.put("nightly", ScheduleSpec(cron="0 2 * * *", enabled=False), "bob")
        await until(here, {})
        await there.put("hourly", ScheduleSpec(cron="5 * * * *", enabled=True), "bob")
        await until(here, {"hourly": "5 * * * *"})
        await there.put("hourly", ScheduleSpec(cron="6 * * * *", enabled=True), "bob")
        await until(here, {"hourly": "6 * * * *"})
        await here.stop()
        await there.stop()

    asyncio.run(scenario())


def test_a_schedule_disabled_elsewhere_a_moment_before_it_is_due_starts_no_run(
    sqlite: Database, tmp_path: Path
) -> None:
    async def scenario() -> None:
        idle = IdleRunner(sqlite, ReportSettings(folder=tmp_path), lambda: (three_racks(), CLUSTER_ID))
        here = ReportScheduler(sqlite, idle, lambda: None)
        await here.start()
        await sqlite.write(put_schedule, "nightly", ScheduleSpec(cron="0 2 * * *", enabled=False), "bob")
        await here._due("nightly", "0 2 * * *", "UTC")
        assert await sqlite.read(store.list_runs) == []
        await sqlite.write(put_schedule, "nightly", ScheduleSpec(cron="0 2 * * *", enabled=True), "bob")
        await here.follow()
        await here._due("nightly", "0 2 * * *", "UTC")
        assert len(await sqlite.read(store.list_runs)) == 1
        await here.stop()
        await idle.stop()

    asyncio.run(scenario())


def test_late_processes_name_a_scheduled_run_by_its_due_time() -> None:
    due = dt.datetime(2026, 11, 22, 2, 0, tzinfo=dt.UTC)
    for late in (0, 3, 59, 61, 600):
        assert last_due("0 2 * * *", "UTC", due + dt.timedelta(seconds=late)) == due
    every_minute = last_due("* * * * *", "UTC", due + dt.timedelta(seconds=125))
    assert every_minute == due + dt.timedelta(seconds=120)


@pytest.mark.spark
def test_a_killed_jvm_has_a_reason_of_its_own(sqlite: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        reports = ReportRunner(sqlite, ReportSettings(folder=tmp_path / "r"), lambda: (three_racks(), CLUSTER_ID))
        run_id = await reports.run_now("ada")
        group = await until_running(sqlite, run_id)

        def jvms() -> list[int]:
            running = (reports.progress(run_id) or {}).get("stage", 0) > 1  # the JVM has answered
            return [
                int(each.name)
                for each in processes_of(group)
                if running and b"java" in (each / "cmdline").read_bytes().split(b"\0")[0]
            ]

        async with asyncio.timeout(120):
            while not (found := jvms()):
                await asyncio.sleep(0.05)
        os.kill(found[0], signal.SIGKILL)
        run = await finished(sqlite, run_id)
        assert (run.state, run.reason) == ("failed", "JVM_KILLED"), f"{run.error}\n{reports.log_tail(run_id)}"
        await reports.stop()

    asyncio.run(scenario())


@pytest.mark.spark
def test_missing_pyspark_has_a_reason_of_its_own(
    sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / "without" / "pyspark"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'pyspark'\", name='pyspark')")
    monkeypatch.syspath_prepend(str(hidden.parent))

    async def scenario() -> None:
        reports = ReportRunner(sqlite, ReportSettings(folder=tmp_path / "r"), lambda: (three_racks(), CLUSTER_ID))
        run = await finished(sqlite, await reports.run_now("ada"))
        assert (run.state, run.reason) == ("failed", "PYSPARK_MISSING"), run.error
        assert run.error is not None
        assert "pip install 'conclave[spark]'" in run.error
        await reports.stop()

    asyncio.run(scenario())
