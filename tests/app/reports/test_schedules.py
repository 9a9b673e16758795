"""Schedules: times in a zone, changes of the topology, scope, retention."""

import asyncio
import datetime as dt
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from app.db.base import utc_now
from app.db.database import Database
from app.reports import leases, schedules, store
from app.reports.cron import InvalidCronError, InvalidTimeZoneError, cron_trigger, next_dues
from app.reports.job_process import ReportSettings
from app.reports.models import ReportRun, ReportSchedule
from app.reports.scheduler import ReportScheduler
from app.reports.schedules import NotDueError, ScheduleSpec
from app.reports.topology import DEBOUNCE_SECONDS, FENCED_SECONDS, Sighting, Topology, TopologyWatch
from app.reports.upkeep import Retention, delete_old_folders, delete_old_runs, read_status, run_ids
from kraft_core.image.metadata_image import MetadataImage
from tests.app.reports.clusters import CLUSTER_ID
from tests.app.reports.test_leases import IdleRunner
from tests.app.reports.test_report import three_racks


@pytest.mark.parametrize("cron", ["", "nightly", "61 * * * *", "* * * *", "0 2 * * *; rm", "0 2 * * 5-1", "0 2 * * 8"])
def test_a_wrong_cron_is_refused_by_name(cron: str) -> None:
    with pytest.raises(InvalidCronError, match="five fields are needed") as refused:
        cron_trigger(cron)
    assert f"'{cron}'" in str(refused.value)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../UTC", "/etc/passwd"])
def test_an_unknown_time_zone_is_refused_by_name(zone: str) -> None:
    with pytest.raises(InvalidTimeZoneError) as refused:
        cron_trigger("0 2 * * *", zone)
    assert f"'{zone}'" in str(refused.value)


@pytest.mark.parametrize(
    ("weekday", "days"),
    [
        ("0", {6}),
        ("7", {6}),
        ("1-5", {0, 1, 2, 3, 4}),
        ("5-7", {4, 5, 6}),
        ("0-2", {6, 0, 1}),
        ("1,3", {0, 2}),
        ("1-5/2", {0, 2, 4}),
        ("mon-fri", {0, 1, 2, 3, 4}),
        ("*", {0, 1, 2, 3, 4, 5, 6}),
    ],
)
def test_weekdays_are_crons(weekday: str, days: set[int]) -> None:
    dues = next_dues(f"0 2 * * {weekday}", now=dt.datetime(2026, 11, 22, tzinfo=dt.UTC), count=14)
    assert {due.weekday() for due in dues} == days


def test_a_schedule_keeps_its_hour_when_the_clocks_change() -> None:
    start = dt.datetime(2026, 10, 23, 12, tzinfo=dt.UTC)
    dues = next_dues("30 6 * * *", "Europe/Berlin", now=start)
    assert [due.hour for due in dues] == [6] * 5
    assert [due.astimezone(dt.UTC).hour for due in dues] == [4, 5, 5, 5, 5]
    assert dues[0].tzinfo == ZoneInfo("Europe/Berlin")


def test_a_changed_or_deleted_schedule_creates_no_run(sqlite: Database) -> None:
    now = utc_now()
    sqlite.write_now(schedules.put_schedule, "s", ScheduleSpec(cron="0 2 * * *", topic_prefix="pay."), "ann")
    for change in ("0 3 * * *", "UTC"), ("0 2 * * *", "Europe/Berlin"):
        with pytest.raises(NotDueError):
            sqlite.write_now(schedules.create_due_run, "s", *change, now)
    run_id = sqlite.write_now(schedules.create_due_run, "s", "0 2 * * *", "UTC", now)
    run = sqlite.write_now(store.get_run, run_id)
    assert run is not None
    assert (run.topic_prefix, run.requested_by) == ("pay.", "schedule s")
    assert sqlite.write_now(schedules.delete_schedule, "s")
    assert not sqlite.write_now(schedules.delete_schedule, "s")
    with pytest.raises(NotDueError):
        sqlite.write_now(schedules.create_due_run, "s", "0 2 * * *", "UTC", now)
    assert sqlite.write_now(store.get_run, run_id) is not None


def test_the_events_of_a_topology_are_named() -> None:
    before = Topology((1, 2, 3), (), reassigning=True)
    assert Topology((1, 2, 3), (), reassigning=True).events_since(before) == []
    assert Topology((1, 3, 4, 5), (3,), reassigning=False).events_since(before) == [
        "brokers 4, 5 added",
        "broker 2 removed",
        "broker 3 fenced",
        "reassignment finished",
    ]
    recovered = Topology((1, 2), (), reassigning=True)
    assert recovered.events_since(Topology((1, 2), (2,), reassigning=False)) == []


def test_a_topology_is_reported_when_it_is_quiet_and_a_fenced_broker_after_ten_minutes() -> None:
    watch, steady = TopologyWatch(), Sighting([1, 2, 3], [3], reassigning=False)
    assert not watch.see(steady, 0)
    assert watch.see(steady, DEBOUNCE_SECONDS)
    assert not watch.see(Sighting([1, 2], [], reassigning=False), 61)
    assert not watch.see(steady, 62)
    assert not watch.see(steady, 62 + DEBOUNCE_SECONDS - 1)
    assert watch.see(steady, 62 + DEBOUNCE_SECONDS)
    assert watch.topology(steady, None, 62 + FENCED_SECONDS - 1).fenced == ()
    assert watch.topology(steady, None, 62 + FENCED_SECONDS).fenced == (3,)
    restarted = TopologyWatch()
    restarted.see(steady, 0)
    known = Topology((1, 2, 3), (3,), reassigning=False)
    assert restarted.topology(steady, known, 1) == known, "a restarted process does not take the fencing back"


def test_one_of_two_processes_reports_a_change_and_a_busy_one_tries_again(sqlite: Database, tmp_path: Path) -> None:
    seen = Sighting([1, 2], [], reassigning=False)

    async def scenario() -> None:
        idle = [
            IdleRunner(sqlite, ReportSettings(folder=tmp_path), lambda: (three_racks(), CLUSTER_ID)) for _ in range(2)
        ]
        here, there = (ReportScheduler(sqlite, each, lambda: seen) for each in idle)
        await here.put("s", ScheduleSpec(cron="0 2 * * *", on_change=True), "ann")

        async def look(at_s: float) -> int:
            enabled = await here.follow()
            await asyncio.gather(here.look(enabled, at_s), there.look(enabled, at_s))
            return len(await sqlite.read(store.list_runs))

        assert [await look(at) for at in (0, 100)] == [0, 0], "the first topology is no change"
        seen.brokers.append(3)  # type: ignore[attr-defined]  # a list here
        here._watch._last = there._watch._last = Sighting([1, 2], [], reassigning=False)
        busy = await idle[0].run_now("ann")
        assert [await look(at) for at in (200, 300)] == [1, 1]
        assert await idle[0].cancel(busy, "ann")
        assert [await look(at) for at in (301, 302)] == [2, 2]
        (run, _) = await sqlite.read(store.list_runs)
        assert run.requested_by == "schedule s: broker 3 added"
        for each in idle:
            await each.stop()

    asyncio.run(scenario())


def test_a_due_schedule_waits_for_the_running_report(
    sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.reports.scheduler.BUSY_SECONDS", 0.01)

    async def scenario() -> None:
        idle = IdleRunner(sqlite, ReportSettings(folder=tmp_path), lambda: (three_racks(), CLUSTER_ID))
        here = ReportScheduler(sqlite, idle, lambda: None)
        for name in ("a", "b"):
            await sqlite.write(schedules.put_schedule, name, ScheduleSpec(cron="0 2 * * *"), "ann")
        await here._due("a", "0 2 * * *", "UTC")
        waiting = asyncio.create_task(here._due("b", "0 2 * * *", "UTC"))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        assert await idle.cancel(1, "ann")
        await waiting
        assert [run.requested_by for run in await sqlite.read(store.list_runs)] == ["schedule b", "schedule a"]
        await idle.stop()

    asyncio.run(scenario())


def test_a_process_runs_at_its_start_what_another_has_left_waiting(
    sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.reports.scheduler.BUSY_SECONDS", 0.01)
    minute = (utc_now() - dt.timedelta(minutes=10)).minute
    images = list[tuple[MetadataImage, str]]()

    async def scenario() -> None:
        idle = IdleRunner(sqlite, ReportSettings(folder=tmp_path), lambda: images[0] if images else None)
        for name, hours in (("old", 2), ("new", 0)):
            await sqlite.write(schedules.put_schedule, name, ScheduleSpec(cron=f"{minute} * * * *"), "ann")
            changed = update(ReportSchedule).where(ReportSchedule.name == name)
            moment = utc_now() - dt.timedelta(hours=hours)
            await sqlite.write(Session.execute, changed.values(changed_at=moment))
        for _ in range(2):  # the second process finds that the run was made
            here = ReportScheduler(sqlite, idle, lambda: None)
            await here.start()
            await asyncio.sleep(0.05)
            images.append((three_racks(), CLUSTER_ID))
            while not await sqlite.read(store.list_runs):
                await asyncio.sleep(0.01)
            await idle.cancel(1, "ann")
            await here.stop()
        assert [run.requested_by for run in await sqlite.read(store.list_runs)] == ["schedule old"]
        await idle.stop()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def ended(database: Database, *, days: float, state: str = "succeeded") -> int:
    run_id = database.write_now(store.create_run, "ann")
    database.write_now(leases.finish_run, run_id, state)
    database.write_now(store.update_run, run_id, created_at=utc_now() - dt.timedelta(days=days))
    return run_id


def test_retention_deletes_old_and_surplus_runs_but_not_the_last_success(sqlite: Database, tmp_path: Path) -> None:
    first, second = ended(sqlite, days=200), ended(sqlite, days=100)
    failed = ended(sqlite, days=95, state="failed")
    assert sqlite.write_now(delete_old_runs, Retention(days=90), utc_now()) == 1
    assert list(sqlite.write_now(run_ids)) == [failed, second]
    recent = [ended(sqlite, days=1) for _ in range(4)]
    active = sqlite.write_now(store.create_run, "ann")
    assert sqlite.write_now(delete_old_runs, Retention(days=90, runs_max=3), utc_now()) == 4
    kept = list(sqlite.write_now(run_ids))
    assert kept == [active, *reversed(recent[2:])]
    for number in (first, second, failed, *recent, active, active + 1):
        for part in ("snapshot", "events", "out"):
            (tmp_path / f"run-{number:06d}" / part).mkdir(parents=True)
    delete_old_folders(tmp_path, kept, Retention(snapshots_max=2))
    left = {folder.name: sorted(part.name for part in folder.iterdir()) for folder in tmp_path.glob("run-*")}
    whole = ["events", "out", "snapshot"]
    assert left == {
        f"run-{recent[2]:06d}": ["out"],
        f"run-{recent[3]:06d}": whole,
        f"run-{active:06d}": whole,
        f"run-{active + 1:06d}": whole,
    }


def test_the_status_names_the_last_success_and_the_last_state(sqlite: Database) -> None:
    assert sqlite.write_now(read_status).last_state == ""
    ended(sqlite, days=0)
    ended(sqlite, days=0, state="failed")
    status = sqlite.write_now(read_status)
    assert (status.last_state, status.is_running) == ("failed", False)
    assert status.succeeded_at is not None
    sqlite.write_now(store.create_run, "ann")
    assert sqlite.write_now(read_status).is_running


def test_reports_of_one_scope_are_compared_with_each_other(sqlite: Database) -> None:
    runs = []
    for prefix in ("", "pay.", "", "pay."):
        run_id = sqlite.write_now(store.create_run, "ann", topic_prefix=prefix)
        sqlite.write_now(leases.succeed, run_id, {"body": {"verdict": {}}})
        runs.append(run_id)

    def before(run_id: int, prefix: str) -> ReportRun | None:
        return sqlite.write_now(store.latest_report, run_id, prefix)

    pairs = zip(runs, ("", "pay.", "", "pay."), strict=True)
    found = [before(run, prefix) for run, prefix in pairs]
    assert [None if each is None else each.id for each in found] == [None, None, runs[0], runs[1]]
    assert [entry["id"] for entry in sqlite.write_now(store.verdict_history)] == [runs[0], runs[2]]
