"""The loader: what Kafka wrote is read as Kafka reads it, and no half of a transaction is ever shown."""

from collections.abc import Callable

import pytest

from kraft_core.image.image_writer import image_records
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.metadata_loader import MetadataLoader
from kraft_core.image.replay_error import ReplayError
from kraft_core.protocol import metadata_records as r
from kraft_core.protocol.control_records import SnapshotFooterRecord, SnapshotHeaderRecord, encode_control
from kraft_core.protocol.metadata_records import MetadataRecord, decode_record
from kraft_core.protocol.record_batch import RecordBatch, encode_batch, read_batches
from tests.image.records import data_batch, partition, topic_id
from tests.protocol.golden import METADATA_LOG, SNAPSHOT

SNAPSHOT_OFFSET = 58
T0 = r.TopicRecord(name="t0", topic_id=topic_id(0))
T1 = r.TopicRecord(name="t1", topic_id=topic_id(1))
BEGIN, END, ABORT = r.BeginTransactionRecord(name="x"), r.EndTransactionRecord(), r.AbortTransactionRecord()


def control(base_offset: int, *records: object, epoch: int = 1) -> RecordBatch:
    pairs = [encode_control(record) for record in records]
    raw = encode_batch(base_offset, epoch, 0, [value for _, value in pairs], control_keys=[key for key, _ in pairs])
    (batch,) = read_batches(raw)
    return batch


def names(image: MetadataImage) -> set[str]:
    return set(image.topics.by_name)


def test_kafkas_log_replays_to_kafkas_own_snapshot() -> None:
    """Both were written by one Apache node: its log up to offset 58, and its snapshot there."""
    loader = MetadataLoader()
    for batch in read_batches(METADATA_LOG.read_bytes()):
        if batch.base_offset < SNAPSHOT_OFFSET:
            loader.apply_batch(batch)
    snapshot = MetadataLoader().load_snapshot(read_batches(SNAPSHOT.read_bytes()), SNAPSHOT_OFFSET, 1)
    assert loader.image == snapshot
    assert snapshot.topics.partition_count() == 8


def test_a_snapshot_has_the_records_that_kafka_writes() -> None:
    """Only the order within a part may differ: Kafka's is that of its hash maps."""

    def in_any_order(record: MetadataRecord) -> str:
        if isinstance(record, r.RegisterBrokerRecord | r.RegisterControllerRecord):
            return repr((record.end_points, sorted(map(repr, record.features)), record.incarnation_id))
        return repr(record)

    batches = list(read_batches(SNAPSHOT.read_bytes()))
    theirs = [decode_record(value) for batch in batches if not batch.is_control for value in batch.values()]
    ours = list(image_records(MetadataLoader().load_snapshot(batches, SNAPSHOT_OFFSET, 1)))
    assert sorted(map(in_any_order, ours)) == sorted(map(in_any_order, theirs))
    parts = list(dict.fromkeys(type(record) for record in theirs if not isinstance(record, r.PartitionRecord)))
    assert list(dict.fromkeys(type(each) for each in ours if not isinstance(each, r.PartitionRecord))) == parts


def test_a_transaction_is_shown_when_it_ends_and_not_before() -> None:
    """KIP-868."""
    loader = MetadataLoader()
    assert loader.apply_batch(data_batch(0, [BEGIN, T0])) is None
    assert loader.in_transaction
    assert loader.apply_batch(data_batch(2, [partition(0, 0)])) is None
    assert names(loader.image) == set()
    assert loader.last_offset == 2
    image = loader.apply_batch(data_batch(3, [END]))
    assert image is not None
    assert (names(image), image.offset) == ({"t0"}, 3)
    assert not loader.in_transaction


def test_an_aborted_transaction_changes_nothing() -> None:
    loader = MetadataLoader()
    loader.apply_batch(data_batch(0, [T1]))
    loader.apply_batch(data_batch(1, [BEGIN, T0]))
    image = loader.apply_batch(data_batch(3, [ABORT]))
    assert image is not None
    assert (names(image), image.offset) == ({"t1"}, 3)


def test_records_before_and_after_a_transaction_in_its_batch_are_not_part_of_it() -> None:
    loader = MetadataLoader()
    assert loader.apply_batch(data_batch(0, [T0, BEGIN, T1])) is None
    assert (names(loader.image), loader.image.offset) == ({"t0"}, 0)
    image = loader.apply_batch(data_batch(3, [ABORT, r.TopicRecord(name="t2", topic_id=topic_id(2))]))
    assert image is not None
    assert names(image) == {"t0", "t2"}


@pytest.mark.parametrize("records", [[END], [ABORT], [BEGIN, BEGIN]], ids=["end", "abort", "twice"])
def test_marks_out_of_order_stop_the_loader(records: list[MetadataRecord]) -> None:
    with pytest.raises(ReplayError, match="Encountered"):
        MetadataLoader().apply_batch(data_batch(0, records))


def test_a_record_that_cannot_be_replayed_is_named_by_its_offset() -> None:
    with pytest.raises(ReplayError, match="offset 8: No topic"):
        MetadataLoader().apply_batch(data_batch(7, [T0, partition(5, 0)]))


def test_garbage_in_a_committed_batch_stops_the_loader() -> None:
    (batch,) = read_batches(encode_batch(7, 1, 0, [b"\x01\x63\x00"]))
    with pytest.raises(ReplayError, match="offset 7"):
        MetadataLoader().apply_batch(batch)


def test_a_control_batch_moves_the_offset_alone() -> None:
    loader = MetadataLoader()
    loader.apply_batch(data_batch(0, [T0]))
    before = loader.image
    image = loader.apply_batch(control(1, SnapshotHeaderRecord(), epoch=2))
    assert image is not None
    assert (image.offset, image.epoch) == (1, 2)
    assert image.same_metadata(before)


def test_a_snapshot_replaces_the_whole_image() -> None:
    loader = MetadataLoader()
    loader.apply_batch(data_batch(0, [BEGIN, T0]))
    batches = [control(0, SnapshotHeaderRecord()), data_batch(1, [T1]), control(2, SnapshotFooterRecord())]
    image = loader.load_snapshot(batches, 40, 3)
    assert (names(image), image.offset, image.epoch, loader.in_transaction) == ({"t1"}, 39, 3, False)
    assert loader.apply_batch(data_batch(40, [T0])) is not None


def _cut(batches: list[RecordBatch]) -> list[RecordBatch]:
    return batches[:-1]


def _headless(batches: list[RecordBatch]) -> list[RecordBatch]:
    return batches[1:]


def _footer_first(batches: list[RecordBatch]) -> list[RecordBatch]:
    return [batches[0], batches[2], batches[1]]


@pytest.mark.parametrize("damage", [_cut, _headless, _footer_first])
def test_a_snapshot_without_header_first_and_footer_last_is_refused(
    damage: Callable[[list[RecordBatch]], list[RecordBatch]],
) -> None:
    """A snapshot cut by 30 bytes must not count as a complete one, as it does for Apache's reader."""
    batches = [control(0, SnapshotHeaderRecord()), data_batch(1, [T0]), control(2, SnapshotFooterRecord())]
    loader = MetadataLoader()
    with pytest.raises(ReplayError):
        loader.load_snapshot(damage(batches), 40, 3)
    assert loader.image == MetadataImage.EMPTY


@pytest.mark.parametrize("mark", [BEGIN, END, ABORT], ids=["begin", "end", "abort"])
def test_a_snapshot_holds_no_marks_of_transactions(mark: MetadataRecord) -> None:
    """OffsetControlManager.replay of Kafka."""
    batches = [control(0, SnapshotHeaderRecord()), data_batch(1, [T0, mark]), control(3, SnapshotFooterRecord())]
    loader = MetadataLoader()
    with pytest.raises(ReplayError, match=f"{type(mark).__name__} cannot appear within a snapshot"):
        loader.load_snapshot(batches, 40, 3)
    assert loader.image == MetadataImage.EMPTY


def test_equal_replica_lists_are_one_object() -> None:
    """A million partitions fit only because most share their lists."""
    loader = MetadataLoader()
    loader.apply_batch(data_batch(0, [T0, T1, partition(0, 0, (4, 5, 6))]))
    loader.apply_batch(data_batch(3, [partition(1, 0, (4, 5, 6))]))
    first, second = (loader.image.topics.partition(topic_id(number), 0) for number in (0, 1))
    assert first is not None
    assert second is not None
    assert first.replicas is second.replicas is first.isr
    assert first.directories is second.directories
