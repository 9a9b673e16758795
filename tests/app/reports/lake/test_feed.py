"""The change feed in the lake: each offset once, whatever kills its writer, and enough to compute each state."""

import datetime as dt
import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.reports.lake import feed as feeds
from app.reports.lake.feed import Feed
from app.reports.lake.lake import Lake, LakeError, Position
from app.reports.lake.stored_history import LogSnapshot
from kraft_core.image.image_writer import image_records
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.metadata_loader import MetadataLoader
from kraft_core.protocol import metadata_records as r
from kraft_core.protocol.control_records import SnapshotFooterRecord, SnapshotHeaderRecord, encode_control_batch
from kraft_core.protocol.errors import MetadataRecordError
from kraft_core.protocol.metadata_records import MetadataRecord
from kraft_core.protocol.record_batch import RecordBatch, encode_batch, read_batches
from tests.app.reports.lake.replay import image_at, without_secrets
from tests.image.records import record_streams, topic_id

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
NOON = int(dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC).timestamp() * 1000)
DAY_MS = 86_400_000
GOLDEN = Path(__file__).parents[3] / "golden" / "metadata"
MARKS = (r.BeginTransactionRecord(name="x"), r.EndTransactionRecord(), r.AbortTransactionRecord())


def batch(base_offset: int, *records: MetadataRecord, epoch: int = 1, time_ms: int = NOON) -> RecordBatch:
    values = [r.encode_record(record, type(record).VERSIONS[1]) for record in records]
    (found,) = read_batches(encode_batch(base_offset, epoch, time_ms, values))
    return found


def topic(number: int) -> MetadataRecord:
    return r.TopicRecord(name=f"t{number}", topic_id=topic_id(number))


def snapshot_of(image: MetadataImage, time_ms: int = NOON) -> LogSnapshot:
    header = encode_control_batch(0, image.epoch, time_ms, [SnapshotHeaderRecord(last_contained_log_timestamp=time_ms)])
    data = batch(1, r.NoOpRecord(), *image_records(image), epoch=image.epoch)
    footer = encode_control_batch(data.last_offset + 1, image.epoch, time_ms, [SnapshotFooterRecord()])
    return LogSnapshot(image.offset, image.epoch, header + data.raw + footer)


def offsets(lake: Lake) -> list[int]:
    files = [file for file in lake.records_files(CLUSTER) if file.first is not None]
    return [offset for file in files for offset in lake.read(file.path)["offset"].to_pylist()]


def write(lake: Lake, *batches: RecordBatch) -> None:
    feed = Feed(lake, CLUSTER, lake.position(CLUSTER))
    for each in batches:
        if each.base_offset >= feed.position.next_offset:
            feed.add(each)
    feed.flush()


def cut(stream: list[MetadataRecord], rng: Random) -> list[RecordBatch]:
    """Return the stream as batches of random sizes, some in transactions, some of which are aborted."""
    batches: list[RecordBatch] = []
    offset, epoch = 0, 1

    def put(*records: MetadataRecord) -> None:
        nonlocal offset
        batches.append(batch(offset, *records, epoch=epoch, time_ms=NOON + offset * 3_600_000))
        offset += len(records)

    while stream:
        size = rng.randint(1, 8)
        part, stream = stream[:size], stream[size:]
        kind = rng.random()
        if kind < 0.2:
            put(MARKS[0], *part[:1])
            put(*part[1:], MARKS[1])
        elif kind < 0.3:
            put(MARKS[0], topic(1000))
            put(topic(1001), MARKS[2], *part)
        else:
            put(*part)
        epoch += rng.random() < 0.1
    return batches


@settings(max_examples=10, deadline=None)
@given(stream=record_streams(), rng=st.randoms(use_true_random=False))
def test_replay_of_the_feed_equals_the_image_at_every_offset(stream: list[MetadataRecord], rng: Random) -> None:
    """The writer is killed at random places: what it has not written is then read again."""
    with TemporaryDirectory() as folder:
        lake, loader = Lake(folder), MetadataLoader()
        images: list[MetadataImage] = []
        batches = cut(stream, rng)
        for each in batches:
            image = loader.apply_batch(each)
            images += [] if image is None else [image]
        feed = Feed(lake, CLUSTER, None)
        for number, each in enumerate(batches):
            if rng.random() < 0.2:  # killed, and started again
                feed = Feed(lake, CLUSTER, lake.position(CLUSTER))
                for again in batches[:number]:
                    if again.base_offset >= feed.position.next_offset:
                        feed.add(again)
            feed.add(each)
            if rng.random() < 0.3:
                feed.flush()
                feed = Feed(lake, CLUSTER, lake.position(CLUSTER))
                for again in batches[: number + 1]:
                    if again.base_offset >= feed.position.next_offset:
                        feed.add(again)
            known = [image for image in images if image.offset < feed.position.next_offset]
            if rng.random() < 0.1 and known:
                feed.add_snapshot(snapshot_of(known[-1]))
        feed.flush()
        found = offsets(lake)
        assert found == sorted(set(found))
        for image in rng.sample(images, min(6, len(images))) + images[-1:]:
            assert image_at(lake, CLUSTER, image.offset).same_metadata(without_secrets(image)), image.offset


def test_the_feed_of_apaches_log_replays_to_apaches_snapshot(tmp_path: Path) -> None:
    lake = Lake(f"file://{tmp_path}/lake")
    log = list(read_batches((GOLDEN / "00000000000000000000.log").read_bytes()))
    write(lake, *log)
    checkpoint = read_batches((GOLDEN / "00000000000000000058-0000000001.checkpoint").read_bytes())
    expected = without_secrets(MetadataLoader().load_snapshot(checkpoint, 58, 1))
    assert image_at(lake, CLUSTER, 57).same_metadata(expected)
    assert lake.position(CLUSTER) == Position(log[-1].last_offset + 1, log[-1].leader_epoch)


def test_rows_have_the_records_fields_and_the_folders_the_cluster_and_the_date(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    change = r.PartitionChangeRecord(topic_id=topic_id(1), partition_id=3, leader=-1, isr=(2, 4))
    fenced = r.BrokerRegistrationChangeRecord(broker_id=7, broker_epoch=9, fenced=-1)
    write(lake, batch(0, topic(1), epoch=5), batch(1, r.NoOpRecord(), change, fenced, epoch=5))
    (file,) = lake.records_files(CLUSTER)
    name = "00000000000000000000-00000000000000000003-0000000005.parquet"
    assert file.path == f"{tmp_path}/records/cluster={CLUSTER}/date=2026-03-01/{name}"
    first, second, third = lake.read(file.path).to_pylist()
    assert (first["offset"], first["type"], first["topic"], first["origin"]) == (0, "TOPIC_RECORD", "t1", "log")
    assert first["time"] == dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
    assert (second["offset"], second["epoch"], second["topic_id"]) == (2, 5, first["topic_id"])
    assert (second["partition"], second["leader"], second["isr"], second["replicas"]) == (3, -1, [2, 4], None)
    assert json.loads(second["data"])["isr"] == [2, 4]
    assert (third["broker_id"], third["fenced"], third["leader"], third["schema_version"]) == (7, False, None, 1)


def test_a_leader_that_is_unchanged_is_null_and_no_leader_is_minus_one(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    changes = [r.PartitionChangeRecord(topic_id=topic_id(1), partition_id=3, leader=leader) for leader in (-2, -1, 4)]
    write(lake, batch(0, *changes))
    (file,) = lake.records_files(CLUSTER)
    assert lake.read(file.path)["leader"].to_pylist() == [None, -1, 4]


def test_the_lake_has_no_secrets(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    secret = b"a-very-secret-value"
    scram = r.UserScramCredentialRecord(
        name="ada", mechanism=1, salt=secret, stored_key=secret, server_key=secret, iterations=4096
    )
    config = r.ConfigRecord(resource_type=4, resource_name="1", name="ssl.key.password", value=secret.decode())
    write(lake, batch(0, scram, config))
    (file,) = lake.records_files(CLUSTER)
    assert secret.decode() not in str(lake.read(file.path).to_pylist())
    assert "[redacted]" in str(lake.read(file.path)["data"].to_pylist())


def test_a_transaction_is_in_one_file_and_an_aborted_one_in_none(tmp_path: Path) -> None:
    begin, end, abort = MARKS
    batches = [
        batch(0, topic(0), begin, topic(1)),
        batch(3, topic(2), end),
        batch(5, begin, topic(3)),
        batch(7, abort, topic(4)),
    ]
    for written in range(1, 5):
        lake = Lake(str(tmp_path / str(written)))
        write(lake, *batches[:written])
        assert offsets(lake) == [[], [0, 2, 3], [0, 2, 3], [0, 2, 3, 8]][written - 1]
        write(lake, *batches)
        assert offsets(lake) == [0, 2, 3, 8]


def test_a_record_of_a_newer_kafka_stops_the_feed_after_what_comes_before_it(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    feed = Feed(lake, CLUSTER, None)
    feed.add(batch(0, topic(0)))
    (unknown,) = read_batches(encode_batch(1, 1, NOON, [r.encode_record(topic(1), 0), b"\x01\x63\x00"]))
    with pytest.raises(MetadataRecordError):
        feed.add(unknown)
    feed.flush()
    assert lake.position(CLUSTER) == Position(1, 1)
    assert offsets(lake) == [0]


def test_a_gap_in_the_log_is_filled_by_a_snapshot(tmp_path: Path) -> None:
    lake, loader = Lake(str(tmp_path)), MetadataLoader()
    write(lake, batch(0, topic(0), topic(1)))
    image = loader.load_snapshot(read_batches(snapshot_of(replayed(topic(1), topic(2), offset=99)).data), 100, 4)
    feed = Feed(lake, CLUSTER, lake.position(CLUSTER))
    feed.add_snapshot(snapshot_of(image))
    feed.add(batch(100, topic(3), epoch=4))
    feed.flush()
    assert [(file.first, file.last) for file in lake.records_files(CLUSTER)] == [(0, 1), (None, 99), (100, 100)]
    assert set(image_at(lake, CLUSTER, 1).topics.by_name) == {"t0", "t1"}
    assert set(image_at(lake, CLUSTER, 99).topics.by_name) == {"t1", "t2"}
    assert set(image_at(lake, CLUSTER, 100).topics.by_name) == {"t1", "t2", "t3"}


def replayed(*records: MetadataRecord, offset: int) -> MetadataImage:
    loader = MetadataLoader()
    level = r.FeatureLevelRecord(name="metadata.version", feature_level=30)
    image = loader.apply_batch(batch(offset - len(records), level, *records, epoch=4))
    assert image is not None
    return image


def test_what_a_killed_writer_left_is_deleted_and_written_again(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    write(lake, batch(0, topic(0)))
    write(lake, batch(1, topic(1)))
    newest = Path(lake.records_files(CLUSTER)[-1].path)
    newest.write_bytes(newest.read_bytes()[:-9])
    part = newest.with_name(f".part-{newest.name}")
    part.touch()
    assert sorted(lake.repair(CLUSTER)) == sorted([str(part), str(newest)])
    write(lake, batch(1, topic(1)))
    assert offsets(lake) == [0, 1]
    assert lake.repair(CLUSTER) == []


def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(str(tmp_path))

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail)
    with pytest.raises(OSError, match="No space left"):
        write(lake, batch(0, topic(0)))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_files_end_with_the_date_and_with_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "ROWS_MAX", 2)
    lake = Lake(str(tmp_path))
    times = [NOON, NOON, NOON, NOON + DAY_MS, NOON + DAY_MS]
    write(lake, *(batch(number, topic(number), time_ms=time_ms) for number, time_ms in enumerate(times)))
    assert [(file.first, file.last, file.date.day) for file in lake.records_files(CLUSTER)] == [
        (0, 1, 1),
        (2, 2, 1),
        (3, 4, 2),
    ]


def test_noops_are_not_read_again_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "SILENT_OFFSETS_MAX", 3)
    lake = Lake(str(tmp_path))
    write(lake, batch(0, *(r.NoOpRecord(),) * 3))
    assert lake.position(CLUSTER) is None
    write(lake, batch(0, *(r.NoOpRecord(),) * 3), batch(3, r.NoOpRecord()))
    assert lake.position(CLUSTER) == Position(4, 1)


def test_retention_keeps_what_the_first_kept_state_is_computed_from(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    feed = Feed(lake, CLUSTER, None)
    feed.add(batch(0, r.NoOpRecord()))
    for day in range(6):
        feed.add(batch(day + 1, topic(day), time_ms=NOON + day * DAY_MS))
        if day == 2:
            feed.add_snapshot(snapshot_of(replayed(topic(0), topic(1), topic(2), offset=3), NOON + 2 * DAY_MS))
    feed.flush()
    first_kept = dt.date(2026, 3, 5)
    assert lake.delete_before(CLUSTER, first_kept) == 3
    assert [(file.first, file.last) for file in lake.records_files(CLUSTER)] == [(None, 3), (4, 4), (5, 5), (6, 6)]
    assert set(image_at(lake, CLUSTER, 5).topics.by_name) == {f"t{number}" for number in range(5)}
    assert lake.delete_before(CLUSTER, first_kept) == 0


def test_a_lake_without_any_snapshot_keeps_the_log_from_its_start(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    write(lake, *(batch(day, topic(day), time_ms=NOON + day * DAY_MS) for day in range(3)))
    assert lake.delete_before(CLUSTER, dt.date(2026, 4, 1)) == 0


def test_a_location_that_cannot_be_opened_is_named() -> None:
    with pytest.raises(LakeError, match="lake 'nosuch://x' cannot be opened"):
        Lake("nosuch://x")
