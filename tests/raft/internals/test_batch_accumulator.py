"""Lists of records on their way into batches. Names in docstrings are Kafka's own tests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_core.protocol.control_records import (
    ControlRecord,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    decode_control,
)
from kraft_core.protocol.errors import (
    BufferExhausted,
    ErrorCode,
    InvalidRequest,
    KafkaError,
    NotController,
    RecordBatchTooLarge,
)
from kraft_core.protocol.record_batch import RecordBatch, encode_batch, read_batches
from kraft_core.raft.internals.batch_accumulator import BatchAccumulator

EPOCH = 7


def batches_of(accumulator: BatchAccumulator, now_ms: int = 5) -> list[RecordBatch]:
    """What is drained, read back with its CRC."""
    return [batch for each in accumulator.drain(now_ms) for batch in read_batches(each.raw)]


def test_several_lists_share_a_batch_as_if_they_were_one() -> None:
    """testMultipleAppendsAreBatched."""
    accumulator = BatchAccumulator(EPOCH, 100)
    assert [accumulator.append(EPOCH, values) for values in ([b"a"], [b"b", b"c"], [b"d"])] == [100, 102, 103]
    (completed,) = accumulator.drain(5)
    assert completed.raw == encode_batch(100, EPOCH, 5, [b"a", b"b", b"c", b"d"])
    assert (completed.base_offset, completed.last_offset, completed.record_count) == (100, 103, 4)
    assert (completed.timestamp_ms, completed.is_control) == (5, False)


def test_nothing_is_drained_twice_and_offsets_continue() -> None:
    """testForceDrainBeforeAppendInSeparateBatches, testIsEmptyAfterDrain."""
    accumulator = BatchAccumulator(EPOCH, 0)
    assert accumulator.drain(1) == []
    accumulator.append(EPOCH, [b"a"])
    assert len(accumulator.drain(1)) == 1
    assert accumulator.drain(1) == []
    assert accumulator.append(EPOCH, [b"b"]) == 1
    assert [batch.base_offset for batch in batches_of(accumulator)] == [1]


def test_a_list_that_does_not_fit_begins_a_new_batch_and_is_never_split() -> None:
    """testCompletedUnderlyingBufferIsNotReused, testSingleBatchAccumulation; a list is one atomic batch."""
    accumulator = BatchAccumulator(EPOCH, 0, max_batch_bytes=300)
    for start in range(3):
        accumulator.append(EPOCH, [b"%d" % start * 50, b"x" * 50])
    batches = batches_of(accumulator)
    assert [(batch.base_offset, batch.last_offset) for batch in batches] == [(0, 3), (4, 5)]
    assert batches[1].raw == encode_batch(4, EPOCH, 5, [b"2" * 50, b"x" * 50])


@given(
    st.lists(st.lists(st.binary(max_size=80), min_size=1, max_size=4), max_size=20),
    st.integers(min_value=150, max_value=600),
)
def test_no_batch_is_too_large_and_no_list_is_split(lists: list[list[bytes]], max_batch_bytes: int) -> None:
    accumulator = BatchAccumulator(EPOCH, 10, max_batch_bytes)
    taken: list[list[bytes]] = []
    ends: list[int] = []
    for values in lists:
        before = accumulator.next_offset
        try:
            ends.append(accumulator.append(EPOCH, values))
            taken.append(values)
        except RecordBatchTooLarge:
            assert accumulator.next_offset == before
            assert len(encode_batch(0, EPOCH, 5, values)) > max_batch_bytes
    batches = batches_of(accumulator)
    assert [value for batch in batches for value in batch.values()] == [value for values in taken for value in values]
    assert all(batch.size <= max_batch_bytes for batch in batches)
    starts = {batch.base_offset for batch in batches}
    for values, end in zip(taken, ends, strict=True):
        assert not starts.intersection(range(end - len(values) + 2, end + 1)), "a list is split over two batches"
    bases = [batch.base_offset for batch in batches]
    assert bases == [10, *(batch.last_offset + 1 for batch in batches)][: len(bases)]


def test_a_list_above_the_maximum_is_refused_and_changes_nothing() -> None:
    """testRecordBatchTooLarge: KafkaRaftClientTest.testAppendFailedWithRecordBatchTooLargeException."""
    accumulator = BatchAccumulator(EPOCH, 0, max_batch_bytes=200)
    accumulator.append(EPOCH, [b"a"])
    with pytest.raises(RecordBatchTooLarge, match="exceeds the maximum of 200") as raised:
        accumulator.append(EPOCH, [b"x" * 100] * 2)
    assert raised.value.code == ErrorCode.RECORD_LIST_TOO_LARGE
    assert accumulator.append(EPOCH, [b"b"]) == 1
    assert [batch.values() for batch in batches_of(accumulator)] == [[b"a", b"b"]]


def test_the_largest_list_that_fits_is_accepted() -> None:
    values = [b"x" * 100, b"y" * 39]
    size = len(encode_batch(0, EPOCH, 5, values))
    assert BatchAccumulator(EPOCH, 0, max_batch_bytes=size).append(EPOCH, values) == 1
    with pytest.raises(RecordBatchTooLarge):
        BatchAccumulator(EPOCH, 0, max_batch_bytes=size - 1).append(EPOCH, values)


def test_waiting_bytes_are_bounded_and_released_by_a_drain() -> None:
    """testAppendWhenBufferIsFull: BufferAllocationException."""
    accumulator = BatchAccumulator(EPOCH, 0, max_batch_bytes=500, max_waiting_bytes=1_000)
    for _ in range(8):
        accumulator.append(EPOCH, [b"x" * 100])
    with pytest.raises(BufferExhausted) as raised:
        accumulator.append(EPOCH, [b"x" * 100])
    assert raised.value.code == ErrorCode.REQUEST_TIMED_OUT
    assert raised.value.retriable
    assert accumulator.next_offset == 8
    drained = accumulator.drain(1)
    assert sum(len(each.raw) for each in drained) <= 1_000
    assert accumulator.append(EPOCH, [b"x" * 100]) == 8


def test_a_list_that_would_share_a_batch_is_refused_when_too_much_waits() -> None:
    """The batch has room for it, the memory has not."""
    accumulator = BatchAccumulator(EPOCH, 0, max_batch_bytes=1_000, max_waiting_bytes=300)
    accumulator.append(EPOCH, [b"x" * 100])
    with pytest.raises(BufferExhausted, match="of 300 bytes wait"):
        accumulator.append(EPOCH, [b"x" * 200])
    assert accumulator.append(EPOCH, [b"x" * 50]) == 1
    assert [batch.record_count for batch in batches_of(accumulator)] == [2]


def test_epochs_are_checked() -> None:
    """testLeaderChangeMessageWritten's counterpart: testAppendWithFencedEpoch, testAppendWithLargerEpoch."""
    accumulator = BatchAccumulator(EPOCH, 0)
    with pytest.raises(NotController, match="epoch 6 is over"):
        accumulator.append(EPOCH - 1, [b"late"])
    with pytest.raises(ValueError, match="larger than the current epoch 7"):
        accumulator.append(EPOCH + 1, [b"early"])
    assert accumulator.drain(1) == []


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(InvalidRequest) as raised:
        BatchAccumulator(EPOCH, 0).append(EPOCH, [])
    assert isinstance(raised.value, KafkaError)


@pytest.mark.parametrize(
    "record",
    [
        LeaderChangeMessage(leader_id=3),
        VotersRecord(),
        KRaftVersionRecord(kraft_version=1),
        SnapshotHeaderRecord(last_contained_log_timestamp=4),
        SnapshotFooterRecord(),
    ],
    ids=lambda record: type(record).__name__,
)
def test_control_records_are_a_separate_batch_in_order(record: ControlRecord) -> None:
    """testLeaderChangeMessageWritten, testVoterSetWritten, testSnapshotHeader/FooterWritten."""
    accumulator = BatchAccumulator(EPOCH, 20)
    accumulator.append(EPOCH, [b"before"])
    assert accumulator.append_control([record]) == 21
    accumulator.append(EPOCH, [b"after"])
    before, control, after = batches_of(accumulator)
    assert (before.values(), after.values()) == ([b"before"], [b"after"])
    assert control.is_control
    (read,) = control.records()
    assert decode_control(read.key or b"", read.value or b"") == record
    assert [each.base_offset for each in (before, control, after)] == [20, 21, 22]
    assert {each.leader_epoch for each in (before, control, after)} == {EPOCH}


def test_control_records_may_share_their_batch_with_each_other() -> None:
    accumulator = BatchAccumulator(EPOCH, 0)
    assert accumulator.append_control([LeaderChangeMessage(leader_id=3), KRaftVersionRecord(kraft_version=1)]) == 1
    (batch,) = batches_of(accumulator)
    assert batch.record_count == 2
