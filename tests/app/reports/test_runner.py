"""Runs as users see them: they succeed, are cancelled, fail with a reason, and never overlap."""

import asyncio
import contextlib
import errno
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from app.db.database import Database
from app.db.migrate import upgrade
from app.reports import class_archive, leases, schedules, store
from app.reports.cron import next_dues
from app.reports.java import find_java
from app.reports.job_process import ReportSettings
from app.reports.lake.feed import Feed
from app.reports.lake.lake import Lake
from app.reports.models import ReportRun
from app.reports.progress import STAGES, Progress
from app.reports.runner import NoImageError, ReportRunner
from app.reports.scheduler import ReportScheduler
from app.reports.violations import violations_csv, violations_page
from kraft_core.image.metadata_image import MetadataImage
from tests.app.reports.clusters import CLUSTER_ID
from tests.app.reports.lake.test_feed import batch, topic
from tests.app.reports.test_report import three_racks
from tests.interop.kafka import wait_until

pytestmark = pytest.mark.spark

Scenario = Callable[[ReportRunner, Database], Awaitable[None]]


def play(scenario: Scenario, folder: Path, image: MetadataImage | None = None, **settings: object) -> None:
    """Run a scenario on a fresh database, with a runner that reports on `image`."""

    async def whole() -> None:
        database = Database(f"sqlite:///{folder}/test.db")
        upgrade(database.engine)
        chosen = ReportSettings(folder=folder / "reports", **settings)  # type: ignore[arg-type]  # the caller's choice
        runner = ReportRunner(database, chosen, lambda: None if image is None else (image, CLUSTER_ID))
        try:
            await scenario(runner, database)
        finally:
            await runner.stop()
            database.close()

    asyncio.run(whole())


async def finished(database: Database, run_id: int) -> ReportRun:
    async with asyncio.timeout(200):
        while True:
            run = await database.read(store.get_run, run_id)
            assert run is not None
            if run.finished_at is not None:
                return run
            await asyncio.sleep(0.1)


async def until_running(database: Database, run_id: int) -> int:
    async with asyncio.timeout(180):
        while True:
            run = await database.read(store.get_run, run_id)
            assert run is not None
            assert run.finished_at is None, run.error
            if run.process_id is not None:
                return run.process_id
            await asyncio.sleep(0.05)


def processes_of(group: int) -> list[Path]:
    """Return the folders in /proc of the group's processes, except processes that wait to be reaped."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            state, _parent, its_group, *_ = stat.read_text().rpartition(")")[2].split()
            if int(its_group) == group and state not in {"Z", "X"}:
                found.append(stat.parent)
    return found


async def until(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.05)


async def until_gone(group: int) -> None:
    await until(lambda: not processes_of(group))


def test_a_run_stores_its_result_with_the_offset_of_its_image(tmp_path: Path) -> None:
    async def scenario(runner: ReportRunner, database: Database) -> None:
        run = await finished(database, await runner.run_now("ada"))
        assert run.state == "succeeded", runner.log_tail(run.id)
        assert (run.image_offset, run.image_epoch, run.cluster_id) == (1000, 7, CLUSTER_ID)
        assert run.result is not None
        assert run.result["header"]["offset"] == 1000
        assert [row["offset"] for row in run.result["trends"]["balance"]] == [1000]
        assert run.result["body"]["verdict"]["partitions"] == 6
        rows, total = violations_page(runner.folder_of(run.id) / "out", limit=1)
        assert total == 2
        assert rows[0]["topic"] == "logs"
        csv = "".join(violations_csv(runner.folder_of(run.id) / "out"))
        assert csv.splitlines()[2].startswith("orders,2,rack,1 2 3,a a b,1 2,1,")
        history = await database.read(store.verdict_history)
        assert [entry["under_replicated"] for entry in history] == [2]

    lake = Lake(str(tmp_path / "lake"))
    feed = Feed(lake, CLUSTER_ID, None)
    feed.add(batch(0, topic(1)))
    feed.flush()
    play(scenario, tmp_path, three_racks(), lake=lake.location)


@pytest.mark.slow
def test_after_a_report_sparks_classes_are_kept_and_the_next_jvm_maps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_archive, "INSTALLED", tmp_path / "installed")
    reports = tmp_path / "reports"

    def is_mapped_by(group: int) -> bool:
        (archive,) = reports.glob("spark-classes-*.jsa")
        maps = []
        for process in processes_of(group):
            with contextlib.suppress(OSError):  # it ended meanwhile
                maps.append((process / "maps").read_text())
        return any(str(archive) in each for each in maps)

    async def scenario(runner: ReportRunner, database: Database) -> None:
        first = await finished(database, await runner.run_now("ada"))
        assert first.state == "succeeded", runner.log_tail(first.id)
        await until(lambda: bool(list(reports.glob("spark-classes-*.jsa"))), 200)
        second_id = await runner.run_now("ada")
        group = await until_running(database, second_id)
        await until(lambda: is_mapped_by(group))
        second = await finished(database, second_id)
        assert first.result is not None
        assert second.result is not None, runner.log_tail(second_id)
        assert second.result["body"] == first.result["body"]

    play(scenario, tmp_path, three_racks())


def test_an_installations_archive_of_classes_comes_before_that_of_the_reports_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_archive, "INSTALLED", tmp_path / "installed")
    java = find_java(tmp_path / "java").home
    own = class_archive.class_archive(tmp_path, java)
    assert own is not None
    assert own.parent == tmp_path
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / own.name).touch()
    assert class_archive.class_archive(tmp_path, java) == tmp_path / "installed" / own.name


def test_a_cancelled_run_ends_its_processes(tmp_path: Path) -> None:
    async def scenario(runner: ReportRunner, database: Database) -> None:
        run_id = await runner.run_now("ada")
        group = await until_running(database, run_id)
        with pytest.raises(store.ReportBusyError, match="Report run 1 is in progress"):
            await runner.run_now("bob")
        assert await runner.cancel(run_id, "bob")
        run = await finished(database, run_id)
        assert (run.state, run.error) == ("cancelled", "Cancelled by bob.")
        await until_gone(group)
        assert not await runner.cancel(run_id, "bob")

    play(scenario, tmp_path, three_racks())


@pytest.mark.timeout(600)
def test_a_killed_job_fails_and_the_next_run_succeeds(tmp_path: Path) -> None:
    async def scenario(runner: ReportRunner, database: Database) -> None:
        run_id = await runner.run_now("ada")
        os.killpg(await until_running(database, run_id), 9)
        run = await finished(database, run_id)
        assert (run.state, run.reason) == ("failed", "DRIVER_KILLED"), run.error
        assert run.error is not None
        assert "SIGKILL" in run.error
        assert await database.read(store.latest_report) is None
        again = await finished(database, await runner.run_now("ada"))
        assert again.state == "succeeded", runner.log_tail(again.id)

    play(scenario, tmp_path, three_racks())


def test_a_run_whose_image_cannot_be_written_ends_the_job_that_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_running = tmp_path / "is-running"

    def full(*_: object, **_named: object) -> None:
        wait_until(is_running.exists, 180, "the job runs")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("app.reports.export.export_image", full)

    async def scenario(runner: ReportRunner, database: Database) -> None:
        run_id = await runner.run_now("ada")
        group = await until_running(database, run_id)
        is_running.touch()
        run = await finished(database, run_id)
        assert (run.state, run.reason) == ("failed", "OUT_OF_DISK")
        await until_gone(group)

    play(scenario, tmp_path, three_racks())


def test_a_job_waits_for_its_snapshot_no_longer_than_the_writer_lives(tmp_path: Path) -> None:
    job = [sys.executable, "-m", "app.reports.job", "--snapshot", str(tmp_path / "snapshot"), "--out", str(tmp_path)]
    writer = f"""
import os, pathlib, subprocess, time
job = {[*job, "--awaited-partitions", "1", "--parent"]!r}
subprocess.Popen([*job, str(os.getpid())], stderr=open("said", "w"), start_new_session=True)
while not pathlib.Path("progress.json").exists():
    time.sleep(0.02)
"""
    environment = {**os.environ, "JAVA_HOME": str(find_java(tmp_path, "").home)}
    subprocess.run([sys.executable, "-c", writer], check=True, cwd=tmp_path, env=environment, timeout=180)
    wait_until(lambda: "the job ends too" in (tmp_path / "said").read_text(), 180, "the job gives up")


def test_without_java_a_run_fails_and_says_what_to_do(tmp_path: Path) -> None:
    async def scenario(runner: ReportRunner, database: Database) -> None:
        run = await finished(database, await runner.run_now("ada"))
        assert (run.state, run.reason) == ("failed", "JAVA_MISSING")
        assert run.error == "setting names '/nonexistent', but '/nonexistent/bin/java' does not run"

    play(scenario, tmp_path, three_racks(), java_home="/nonexistent")


def test_a_run_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    async def scenario(runner: ReportRunner, database: Database) -> None:
        run = await finished(database, await runner.run_now("ada"))
        assert (run.state, run.error) == ("timed_out", "Not finished within 1 s.")

    play(scenario, tmp_path, three_racks(), timeout_seconds=1)


def test_before_the_first_image_there_is_nothing_to_report(tmp_path: Path) -> None:
    async def scenario(runner: ReportRunner, database: Database) -> None:
        with pytest.raises(NoImageError, match="the quorum has not been reached"):
            await runner.run_now("ada")
        assert await database.read(store.list_runs) == []

    play(scenario, tmp_path)


def test_a_schedule_fires_once_per_due_time_however_many_processes_try(tmp_path: Path) -> None:
    async def scenario(runner: ReportRunner, database: Database) -> None:
        scheduler = ReportScheduler(database, runner, lambda: None)
        await scheduler.start()
        (nightly,) = await database.read(schedules.list_schedules)
        assert (nightly.name, nightly.cron) == ("nightly", "0 2 * * *")
        due = (nightly.name, nightly.cron, nightly.time_zone, next_dues(nightly.cron)[0])
        run_id = await database.write(schedules.create_due_run, *due)
        await database.write(leases.finish_run, run_id, "succeeded")
        with pytest.raises(store.AlreadyPlannedError):
            await database.write(schedules.create_due_run, *due)
        await scheduler.stop()

    play(scenario, tmp_path)


def test_progress_is_written_by_one_thread_however_often_the_stage_changes(tmp_path: Path) -> None:
    with Progress(tmp_path) as progress:
        for _ in range(200):
            for name in STAGES:
                progress.stage(name)
    assert json.loads((tmp_path / "progress.json").read_text())["stages"] == len(STAGES)
