"""The lake reads the history of the web process: nothing twice, nothing lost, and no other log."""

import asyncio
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.cluster.log_store import recorder as recorder_module
from app.cluster.log_store.files import LogFiles, StoredLog
from app.reports.lake.append import append
from app.reports.lake.lake import Lake, LakeError, Position
from app.reports.lake.stored_history import LogSnapshot, read, snapshot_before
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.metadata_loader import MetadataLoader
from kraft_core.protocol.metadata_records import FeatureLevelRecord, MetadataRecord
from kraft_core.protocol.record_batch import RecordBatch, read_batches
from kraft_core.storage.files import StorageError
from tests.app.cluster.test_log_store import START_MS, Store, committed, topics
from tests.app.reports.lake.replay import image_at, without_secrets
from tests.app.reports.lake.test_feed import CLUSTER, batch, offsets, topic
from tests.image.records import record_streams

ALL_DAYS = 36_500


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "CHECKPOINT_BYTES", 600)


@settings(max_examples=5, suppress_health_check=list(HealthCheck), deadline=None)
@given(record_streams(), st.integers(0, 2**32))
def test_the_history_in_the_lake_replays_to_the_image_at_every_offset(
    tmp_path_factory: pytest.TempPathFactory, records: list[MetadataRecord], seed: int
) -> None:
    """The lake is brought up to date now and then, with a part that was never read in between."""
    random, folder = Random(seed), tmp_path_factory.mktemp("lake")
    first, later = committed(records, random), committed(topics(12, first=500), random, start=10_000)
    lake = Lake(str(folder / "lake"))

    async def main() -> None:
        store = await Store.open(folder / "log")
        for change in first:
            store.read([change])
            if random.random() < 0.2:
                await store.recorder.written()
                append(lake, CLUSTER, StoredLog(folder / "log"), ALL_DAYS)
        state = MetadataImage(9_999, 1, later[0].before.features)
        store.recorder.snapshot(state, START_MS)
        await store.recorder.written()
        store.read(later)
        await store.recorder.written()
        await store.recorder.stop()

    asyncio.run(main())
    append(lake, CLUSTER, StoredLog(folder / "log"), ALL_DAYS)
    assert append(lake, CLUSTER, StoredLog(folder / "log"), ALL_DAYS) == 0
    found = offsets(lake)
    assert found == sorted(set(found))
    for change in [*random.sample(first, min(5, len(first))), first[-1]]:
        assert image_at(lake, CLUSTER, change.last_offset).same_metadata(without_secrets(change.after))
    for change in random.sample(later, 3):
        assert image_at(lake, CLUSTER, change.last_offset).same_metadata(without_secrets(change.after))


def stored(folder: Path, *batches: RecordBatch, base: int = 0) -> StoredLog:
    """A history of these batches in one file."""
    files = LogFiles(folder)
    files.begin(base)
    files.append(b"".join(each.raw for each in batches), batches[-1].last_offset + 1, batches[-1].leader_epoch)
    files.close()
    return StoredLog(folder)


def read_offsets(log: StoredLog, start: Position) -> list[int]:
    return [each.last_offset for each in read(log, start)]


def test_it_continues_after_its_position_also_where_noops_are_missing(tmp_path: Path) -> None:
    log = stored(tmp_path, batch(0, topic(0), topic(1)), batch(7, topic(2)), batch(8, topic(3), epoch=2))
    assert read_offsets(log, Position(0, 0)) == [1, 7, 8]
    assert read_offsets(log, Position(2, 1)) == [7, 8]
    assert read_offsets(log, Position(5, 1)) == [7, 8], "NoOps up to 4 are in the lake and not in the history"
    assert read_offsets(log, Position(9, 2)) == []
    assert read_offsets(log, Position(20, 2)) == [], "the history lacks what the lake has: it reads that again first"


@pytest.mark.parametrize("position", [Position(1, 1), Position(2, 2), Position(5, 0), Position(8, 2), Position(8, 9)])
def test_a_lake_of_another_log_is_not_continued(tmp_path: Path, position: Position) -> None:
    log = stored(tmp_path, batch(0, topic(0), topic(1)), batch(7, topic(2)), batch(8, topic(3), epoch=2))
    with pytest.raises(LakeError, match="Move the lake away"):
        read_offsets(log, position)


def test_bytes_behind_the_last_whole_batch_are_not_read_yet(tmp_path: Path) -> None:
    log = stored(tmp_path, batch(0, topic(0)), batch(1, topic(1)))
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-3])
    assert read_offsets(log, Position(0, 0)) == [0]


def test_an_empty_history_has_nothing_and_a_gap_without_its_state_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert read_offsets(StoredLog(tmp_path / "empty"), Position(0, 0)) == []
    log = stored(tmp_path / "late", batch(50, topic(0)), base=50)
    with pytest.raises(StorageError, match="no state for offset 0"):
        read_offsets(log, Position(0, 0))
    with pytest.raises(StorageError):
        StoredLog(tmp_path / "absent")


def test_the_state_before_an_offset_is_written_as_a_snapshot(tmp_path: Path) -> None:
    changes = committed(topics(30), Random(3))

    async def main() -> None:
        store = await Store.open(tmp_path)
        store.read(changes)
        await store.recorder.written()
        await store.recorder.stop()

    asyncio.run(main())
    for change in changes[::5]:
        found = snapshot_before(StoredLog(tmp_path), change.last_offset + 1)
        assert isinstance(found, LogSnapshot)
        assert found.last_offset == change.last_offset
        image = MetadataLoader().load_snapshot(read_batches(found.data), found.last_offset + 1, found.epoch)
        assert image.same_metadata(change.after)
    assert snapshot_before(StoredLog(tmp_path), 0) is None


def test_an_old_lake_gets_a_state_so_that_retention_can_delete_what_is_before_it(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    level = FeatureLevelRecord(name="metadata.version", feature_level=30)
    batches = [batch(0, level), *(batch(each, topic(each), time_ms=START_MS + each) for each in range(1, 4))]
    append(lake, CLUSTER, stored(tmp_path / "log", *batches), 30)
    (state,) = lake.records_files(CLUSTER)
    assert (state.first, state.last) == (None, 3)
    assert set(image_at(lake, CLUSTER, 3).topics.by_name) == {"t1", "t2", "t3"}
    assert lake.position(CLUSTER) == Position(4, 1)


def test_a_state_that_no_snapshot_can_express_leaves_the_lake_as_it_is(tmp_path: Path) -> None:
    log = stored(tmp_path, batch(0, topic(0)))
    assert snapshot_before(log, 1) is None  # without metadata.version
