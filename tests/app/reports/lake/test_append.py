"""The writer of the lake on the history of a real web process, and that process's part: one writer, which may die."""

import asyncio
import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cluster.log_store.files import StoredLog
from app.db.base import utc_now
from app.db.database import Database
from app.db.migrate import upgrade
from app.reports.lake.append import append, main
from app.reports.lake.keeper import LakeKeeper, LakeSettings, Source
from app.reports.lake.lake import Lake
from app.reports.lake.leases import LEASE_SECONDS, lake_key, release_lease, take_lease
from kraft_core.image.metadata_image import MetadataImage
from tests.app.live import LiveWeb
from tests.app.reports.lake.replay import image_at, without_secrets
from tests.app.reports.lake.test_feed import CLUSTER

DAYS = 30


def image_with(web: LiveWeb, *names: str) -> MetadataImage:
    """Create topics, and return the image after the newest change, once the history has it on disk."""
    for name in names:
        answer = web.client.post(f"{web.cluster}/topics", json={"topic_name": name, "partitions_count": 2})
        assert answer.status_code == 201, answer.text
    image = web.services.cluster.history.newest(1)[0].after  # NoOps after it may be missing in the history
    recorder = web.services.cluster.archive.recorder
    assert recorder is not None
    web.call(recorder.written())
    return image


def source_of(web: LiveWeb) -> Source:
    cluster = web.services.cluster
    assert cluster.cluster_id is not None
    assert cluster.archive.folder is not None
    return Source(cluster.cluster_id, cluster.archive.folder)


def test_the_lake_follows_the_history_and_replays_to_the_image(web: LiveWeb, tmp_path: Path) -> None:
    lake, source = Lake(str(tmp_path)), source_of(web)
    for names in (["lake.a", "lake.b"], ["lake.c"]):
        image = image_with(web, *names)
        append(lake, source.cluster_id, StoredLog(source.history), DAYS)
        position = lake.position(source.cluster_id)
        assert position is not None
        assert position.next_offset > image.offset
        found = image_at(lake, source.cluster_id, image.offset)
        assert found.same_metadata(without_secrets(image))
    assert {"lake.a", "lake.b", "lake.c"} <= set(found.topics.by_name)
    files = lake.records_files(source.cluster_id)
    assert files[0].first in {None, 0}  # a snapshot, if the history begins with one
    logs = [file for file in files if file.first is not None]
    assert [file.first for file in logs[1:]] == [file.last + 1 for file in logs[:-1]]


def test_what_cannot_be_opened_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path)
    for lake, history, said in (
        ("nosuch://x", folder, "LakeError: lake 'nosuch://x' cannot be opened"),
        (folder, f"{folder}/absent", "StorageError: "),
    ):
        assert main(["--lake", lake, "--cluster", CLUSTER, "--history", history, "--days", "9"]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(said)


def test_one_web_process_at_a_time_writes_to_a_lake(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/test.db")
    upgrade(database.engine)
    lake, other, now = lake_key("s3://bucket/lake", "one"), lake_key("/data/lake", "one"), utc_now()
    later = now + dt.timedelta(seconds=LEASE_SECONDS + 1)

    async def scenario() -> None:
        assert await database.write(take_lease, lake, "a", now)
        assert await database.write(take_lease, lake, "a", now)
        assert not await database.write(take_lease, lake, "b", now)
        assert await database.write(take_lease, other, "b", now)
        assert await database.write(take_lease, lake, "b", later)
        assert not await database.write(take_lease, lake, "a", later)
        await database.write(release_lease, lake, "a")
        assert not await database.write(take_lease, lake, "a", later)
        await database.write(release_lease, lake, "b")
        assert await database.write(take_lease, lake, "a", later)

    asyncio.run(scenario())
    database.close()


def test_the_web_process_writes_at_intervals_and_its_successor_continues_after_a_kill(
    web: LiveWeb, tmp_path: Path
) -> None:
    lake, source = Lake(str(tmp_path / "lake")), source_of(web)
    settings = LakeSettings(lake.location, DAYS, 1, start_seconds=0)

    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.05)

    async def scenario(database: Database) -> None:
        first = LakeKeeper(database, settings, lambda: source)
        first.start()
        await until(lambda: bool(lake.records_files(source.cluster_id)))
        await first.stop()
        image = await asyncio.to_thread(image_with, web, "lake.late")
        second = LakeKeeper(database, settings, lambda: source)
        second.start()
        await until(lambda: lake.position(source.cluster_id).next_offset > image.offset)
        await second.stop()
        assert image_at(lake, source.cluster_id, image.offset).same_metadata(without_secrets(image))

    database = Database(f"sqlite:///{tmp_path}/test.db")
    upgrade(database.engine)
    asyncio.run(scenario(database))
    database.close()


def test_nothing_is_written_while_the_history_is_not_on_disk(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/test.db")
    upgrade(database.engine)
    asked = []

    async def scenario() -> None:
        keeper = LakeKeeper(
            database, LakeSettings(str(tmp_path / "lake"), DAYS, 0, start_seconds=0), lambda: asked.append(1)
        )
        keeper.start()
        async with asyncio.timeout(60):
            while len(asked) < 3:
                await asyncio.sleep(0.01)
        await keeper.stop()

    asyncio.run(scenario())
    assert not (tmp_path / "lake").exists()
    database.close()
