"""The writer of the lake against a real controller, and the web process's part: one writer, which may be killed."""

import asyncio
import datetime as dt
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from app.db.base import utc_now
from app.db.database import Database
from app.db.migrate import upgrade
from app.reports.lake.append import append, main
from app.reports.lake.feed import Feed
from app.reports.lake.keeper import LakeKeeper, LakeSettings
from app.reports.lake.lake import Lake, LakeError, Position
from app.reports.lake.leases import LEASE_SECONDS, lake_key, release_lease, take_lease
from app.reports.lake.log_reader import LogReader, LogSnapshot
from kraft_core.clients.kafka_client import ControllerClient
from kraft_core.clients.metadata_observer import MetadataObserver
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.messages import (
    FetchResponse,
    FetchResponseFetchableTopicResponse,
    FetchResponsePartitionData,
    FetchResponseSnapshotId,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseTopicSnapshot,
)
from tests.app.reports.lake.replay import image_at, without_secrets
from tests.app.reports.lake.test_feed import CLUSTER, batch, replayed, snapshot_of, topic
from tests.interop import conclave

DAYS = 30
BROKERS = count(101)


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[conclave.Quorum]:
    settings = {"metadata_log_max_record_bytes_between_snapshots": 2_000, "broker_session_timeout_ms": 3_600_000}
    with conclave.running_quorum(tmp_path_factory.mktemp("quorum"), 1, **settings) as running:
        yield running


async def make_topics(quorum: conclave.Quorum, *names: str) -> None:
    client = conclave.controller_client(quorum.bootstrap)
    try:
        await conclave.RawBroker(next(BROKERS), quorum.cluster_id, client).register()
        answer = await client.request(conclave.create_topics(names, 3))
        assert {each.error_code for each in answer.topics} == {0}
    finally:
        client.close()


async def image_with(quorum: conclave.Quorum, names: set[str]) -> MetadataImage:
    observer = MetadataObserver([("127.0.0.1", port) for port in quorum.ports])
    observer.start()
    try:
        async with asyncio.timeout(60):
            while not names <= set(observer.image.topics.by_name):
                await asyncio.sleep(0.02)
        return observer.image
    finally:
        await observer.stop()


def addresses(quorum: conclave.Quorum) -> list[tuple[str, int]]:
    return [("127.0.0.1", port) for port in quorum.ports]


def test_the_lake_follows_a_controllers_log_and_replays_to_its_image(quorum: conclave.Quorum, tmp_path: Path) -> None:
    async def scenario() -> None:
        lake = Lake(str(tmp_path))
        for names in (["a", "b"], ["c"]):
            await make_topics(quorum, *names)
            image = await image_with(quorum, set(names))
            await append(lake, quorum.cluster_id, addresses(quorum), DAYS)
            position = lake.position(quorum.cluster_id)
            assert position is not None
            assert position.next_offset > image.offset
            found = image_at(lake, quorum.cluster_id, image.offset)
            assert found.same_metadata(without_secrets(image))
        assert {"a", "b", "c"} <= set(found.topics.by_name)
        files = lake.records_files(quorum.cluster_id)
        assert files[0].first in {None, 0}  # a snapshot, if the controller has written one by then
        logs = [file for file in files if file.first is not None]
        assert [file.first for file in logs[1:]] == [file.last + 1 for file in logs[:-1]]

    asyncio.run(scenario())


def test_a_snapshot_of_a_controller_is_read_whole(quorum: conclave.Quorum) -> None:
    async def scenario() -> None:
        await make_topics(quorum, *(f"many-{number}" for number in range(30)))
        folder = quorum.folder_of(1) / "data" / "__cluster_metadata-0"
        async with asyncio.timeout(60):
            while not any(path.stat().st_size > 1_000 for path in folder.glob("*.checkpoint")):
                await asyncio.sleep(0.05)
        client = ControllerClient(addresses(quorum), cluster_id=quorum.cluster_id)
        try:
            reader = LogReader(client, quorum.cluster_id)
            snapshot = await reader.newest_snapshot()
        finally:
            client.close()
        assert snapshot is not None
        path = folder / f"{snapshot.last_offset + 1:020d}-{snapshot.epoch:010d}.checkpoint"
        assert snapshot.data == path.read_bytes()

    asyncio.run(scenario())


def test_a_lake_of_another_log_of_the_same_cluster_is_not_continued(quorum: conclave.Quorum, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    feed = Feed(lake, quorum.cluster_id, Position(1_000_000, 1))
    feed.add(batch(1_000_000, topic(0)))
    feed.flush()
    with pytest.raises(LakeError, match="Move the lake away"):
        asyncio.run(append(lake, quorum.cluster_id, addresses(quorum), DAYS))


class DeletedLog:
    """A controller whose log begins with a snapshot up to `image`, followed by one batch."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.next = batch(image.offset + 1, topic(9), epoch=image.epoch)

    async def request(self, message: object, *_: object, **__: object) -> object:
        start = self.image.offset + 1
        if isinstance(message, FetchSnapshotRequest):
            data = snapshot_of(self.image).data
            position = message.topics[0].partitions[0].position
            part = FetchSnapshotResponsePartitionSnapshot(
                size=len(data), position=position, unaligned_records=data[position : position + 100]
            )
            return FetchSnapshotResponse(topics=(FetchSnapshotResponseTopicSnapshot(partitions=(part,)),))
        asked = message.topics[0].partitions[0].fetch_offset
        data = FetchResponsePartitionData(high_watermark=start + 1, records=self.next.raw if asked == start else b"")
        if asked < start:
            data = FetchResponsePartitionData(
                high_watermark=start + 1, snapshot_id=FetchResponseSnapshotId(end_offset=start, epoch=self.image.epoch)
            )
        return FetchResponse(responses=(FetchResponseFetchableTopicResponse(partitions=(data,)),))


def test_a_log_that_was_deleted_meanwhile_is_continued_with_its_snapshot() -> None:
    async def scenario() -> None:
        image = replayed(topic(1), topic(2), offset=99)
        reader = LogReader(DeletedLog(image), CLUSTER)  # type: ignore[arg-type]  # stands for the client
        snapshot, following = [each async for each in reader.read(Position(10, 1))]
        assert isinstance(snapshot, LogSnapshot)
        assert (snapshot.last_offset, snapshot.epoch) == (99, 4)
        assert snapshot.data == snapshot_of(image).data
        assert not isinstance(following, LogSnapshot)
        assert following.base_offset == 100

    asyncio.run(scenario())


def test_a_controller_that_cannot_be_reached_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = tmp_path / "lake"
    code = main(["--lake", "nosuch://x", "--cluster", CLUSTER, "--bootstrap", "127.0.0.1:1", "--days", "9"])
    assert code == 1
    assert capsys.readouterr().err.startswith("LakeError: lake 'nosuch://x' cannot be opened")
    assert not lake.exists()


def test_one_web_process_at_a_time_writes_to_a_lake(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/test.db")
    upgrade(database.engine)
    lake, other, now = lake_key("s3://bucket/lake"), lake_key("/data/lake"), utc_now()
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
    quorum: conclave.Quorum, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path / "lake"))
    settings = LakeSettings(lake.location, DAYS, 1, tuple(quorum.bootstrap.split(",")), start_seconds=0)

    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(40):
            while not condition():
                await asyncio.sleep(0.05)

    async def scenario(database: Database) -> None:
        first = LakeKeeper(database, settings, lambda: quorum.cluster_id)
        first.start()
        await until(lambda: bool(lake.records_files(quorum.cluster_id)))
        await first.stop()
        await make_topics(quorum, "late")
        image = await image_with(quorum, {"late"})
        second = LakeKeeper(database, settings, lambda: quorum.cluster_id)
        second.start()
        await until(lambda: lake.position(quorum.cluster_id).next_offset > image.offset)
        await second.stop()
        assert image_at(lake, quorum.cluster_id, image.offset).same_metadata(without_secrets(image))

    database = Database(f"sqlite:///{tmp_path}/test.db")
    upgrade(database.engine)
    asyncio.run(scenario(database))
    database.close()
