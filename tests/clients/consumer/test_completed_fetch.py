"""Records of fetched batches: decoding, bounded polls, aborted transactions, damaged data."""

import gzip
import struct
from typing import Any

import pytest

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.completed_fetch import CompletedFetch
from kraft_core.clients.consumer.consumer_errors import RecordUnreadable
from kraft_core.clients.consumer.consumer_record import ConsumerRecord
from kraft_core.clients.consumer.subscription_state import READ_COMMITTED
from kraft_core.protocol.batch_header import set_crc
from kraft_core.protocol.control_records import ControlRecordType
from kraft_core.protocol.messages import FetchResponseAbortedTransaction
from kraft_core.protocol.primitives import encode_varint
from kraft_core.protocol.record_batch import encode_batch, encode_records, frame_batch

T0 = TopicPartition("t", 0)
END_TXN = b"\x00\x00\x00\x00\x00\x07"


def batch(base: int, count: int, *, producer_id: int = -1, **more: Any) -> bytes:
    values = [f"v{base + index}".encode() for index in range(count)]
    return encode_batch(base, 3, 1_000, values, producer_id=producer_id, **more)


def marker(base: int, producer_id: int, kind: ControlRecordType) -> bytes:
    key = struct.pack(">hh", 0, kind)
    return encode_batch(base, 3, 1_000, [END_TXN], control_keys=[key], is_transactional=True, producer_id=producer_id)


def offsets(records: list[ConsumerRecord[bytes | None, bytes | None]]) -> list[int]:
    return [record.offset for record in records]


def record(
    delta: int, value: bytes, *, timestamp: int = 0, key: bytes | None = None, headers: bytes = b"\x00"
) -> bytes:
    body = b"\x00" + encode_varint(timestamp) + encode_varint(delta)
    body += encode_varint(-1) if key is None else encode_varint(len(key)) + key
    body += encode_varint(len(value)) + value + headers
    return encode_varint(len(body)) + body


def framed(records: list[bytes], *, last_delta: int | None = None, codec: int = 0) -> bytes:
    content = b"".join(records)
    data = bytearray(frame_batch(10, 3, 1_000, len(records), [gzip.compress(content) if codec else content]))
    if last_delta is not None:
        struct.pack_into(">i", data, 23, last_delta)
    data[22] |= codec
    set_crc(data)
    return bytes(data)


def test_a_record_has_all_fields() -> None:
    headers = b"\x04\x02h\x02x\x02n\x01"
    data = framed([record(0, b"v", timestamp=-5, key=b"k", headers=headers), record(1, b"")])
    first, second = CompletedFetch(T0, data, 10).fetch_records(5)
    assert first == ConsumerRecord("t", 0, 10, 995, 0, b"k", b"v", (("h", b"x"), ("n", None)), 3)
    assert second == ConsumerRecord("t", 0, 11, 1_000, 0, None, b"", (), 3)


def test_no_more_records_than_asked_for_and_none_twice() -> None:
    fetch = CompletedFetch(T0, batch(0, 150) + batch(150, 20), 0)
    seen = []
    while not fetch.is_consumed:
        records = fetch.fetch_records(7)
        assert len(records) <= 7
        seen += offsets(records)
    assert seen == list(range(170))
    assert fetch.next_fetch_offset == 170
    assert fetch.last_epoch == 3


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8_191, 8_192, 8_193, 20_000])
@pytest.mark.parametrize("codec", [0, 1])
def test_batches_of_any_length_are_read_whole(count: int, codec: int) -> None:
    values = [b"x" * (index % 300) for index in range(count)]
    data = framed([record(index, value, timestamp=index * 37) for index, value in enumerate(values)], codec=codec)
    records = CompletedFetch(T0, data, 10).fetch_records(10**6)
    assert offsets(records) == list(range(10, 10 + count))
    assert [each.value for each in records] == values
    assert [each.timestamp_ms for each in records] == [1_000 + 37 * index for index in range(count)]


def test_records_before_the_position_are_left_out() -> None:
    assert offsets(CompletedFetch(T0, batch(0, 10), 7).fetch_records(2)) == [7, 8]
    assert offsets(CompletedFetch(T0, batch(0, 10), 7).fetch_records(100)) == [7, 8, 9]


def test_offsets_with_gaps_are_kept_and_the_end_of_the_batch_is_passed() -> None:
    data = framed([record(2, b"a"), record(70, b"b")], last_delta=99)
    fetch = CompletedFetch(T0, data, 10)
    assert offsets(fetch.fetch_records(10)) == [12, 80]
    assert fetch.next_fetch_offset == 110


def test_offsets_that_only_look_complete_are_read_as_they_are() -> None:
    data = framed([record(0, b"a"), record(0, b"b"), record(2, b"c"), record(1, b"d")])
    assert offsets(CompletedFetch(T0, data, 10).fetch_records(10)) == [10, 10, 12, 11]


def test_an_empty_batch_of_a_compacted_log_moves_the_position() -> None:
    data = framed([], last_delta=4)
    fetch = CompletedFetch(T0, data + batch(15, 1), 10)
    assert offsets(fetch.fetch_records(10)) == [15]


def test_records_of_log_append_time_have_the_time_of_the_batch() -> None:
    data = bytearray(framed([record(0, b"a", timestamp=50), record(1, b"b", timestamp=60)]))
    data[22] |= 8
    struct.pack_into(">q", data, 35, 5_000)
    set_crc(data)
    records = CompletedFetch(T0, bytes(data), 10).fetch_records(10)
    assert [(each.timestamp_ms, each.timestamp_type) for each in records] == [(5_000, 1), (5_000, 1)]


def test_aborted_records_are_left_out_with_read_committed_only() -> None:
    data = (
        batch(0, 2, producer_id=1, is_transactional=True)
        + batch(2, 2, producer_id=2, is_transactional=True)
        + marker(4, 1, ControlRecordType.ABORT)
        + batch(5, 1, producer_id=1, is_transactional=True)
        + marker(6, 2, ControlRecordType.COMMIT)
        + batch(7, 1)
        + marker(8, 1, ControlRecordType.COMMIT)
    )
    aborted = [FetchResponseAbortedTransaction(producer_id=1, first_offset=0)]
    fetch = CompletedFetch(T0, data, 0, isolation_level=READ_COMMITTED, aborted=aborted)
    assert offsets(fetch.fetch_records(100)) == [2, 3, 5, 7]
    assert fetch.next_fetch_offset == 9
    assert offsets(CompletedFetch(T0, data, 0, aborted=aborted).fetch_records(100)) == [0, 1, 2, 3, 5, 7]


def test_a_transaction_aborted_later_does_not_hide_an_earlier_one() -> None:
    data = (
        batch(0, 1, producer_id=1, is_transactional=True)
        + marker(1, 1, ControlRecordType.COMMIT)
        + batch(2, 1, producer_id=1, is_transactional=True)
        + marker(3, 1, ControlRecordType.ABORT)
    )
    aborted = [FetchResponseAbortedTransaction(producer_id=1, first_offset=2)]
    fetch = CompletedFetch(T0, data, 0, isolation_level=READ_COMMITTED, aborted=aborted)
    assert offsets(fetch.fetch_records(100)) == [0]


def test_a_bad_crc_is_reported_after_the_records_before_it_and_names_the_offset() -> None:
    damaged = bytearray(batch(5, 3))
    damaged[-2] ^= 1
    fetch = CompletedFetch(T0, batch(0, 5) + bytes(damaged), 0)
    assert len(fetch.fetch_records(100)) == 5
    for _ in range(2):
        with pytest.raises(RecordUnreadable, match="t-0 at offset 5") as refused:
            fetch.fetch_records(100)
        assert refused.value.offset == 5
    unchecked = CompletedFetch(T0, bytes(damaged), 5, check_crcs=False)
    assert len(unchecked.fetch_records(100)) == 3


@pytest.mark.parametrize(
    "records",
    [
        [record(0, b"a"), b"\x10\x00"],
        [record(0, b"a"), record(1, b"b")[:-1]],
        [record(0, b"a"), record(1, b"b") + b"\x00\x00"],
        [record(0, b"a"), record(1, b"b", headers=b"\x06\x02x")],
        [record(0, b"a"), b"\x0e\x00\x00\x02\x01\x40x\x00"],
    ],
    ids=["length", "cut", "too much", "headers", "value"],
)
@pytest.mark.parametrize("codec", [0, 1])
def test_a_malformed_record_is_reported_after_the_records_before_it(records: list[bytes], codec: int) -> None:
    fetch = CompletedFetch(T0, framed(records, codec=codec), 10)
    assert offsets(fetch.fetch_records(1)) == [10]
    if records[-1].endswith(b"\x00\x00\x00"):
        assert offsets(fetch.fetch_records(1)) == [11]
    with pytest.raises(RecordUnreadable, match=r"offset 1[12]"):
        fetch.fetch_records(100)


def test_data_without_a_whole_batch_is_an_error() -> None:
    with pytest.raises(RecordUnreadable, match="without a whole batch"):
        CompletedFetch(T0, batch(0, 5)[:-1], 0).fetch_records(1)


def test_the_records_of_the_encoder_are_read_back() -> None:
    values = [b"a", None, b"c" * 200]
    keys = [None, b"k", b""]
    data = frame_batch(0, 1, 5, 3, encode_records(values, keys))
    records = CompletedFetch(T0, data, 0).fetch_records(10)
    assert [(each.key, each.value) for each in records] == list(zip(keys, values, strict=True))


@pytest.mark.parametrize("codec", [0, 1])
def test_runs_of_equal_records_are_read_as_records_of_any_size_are(codec: int) -> None:
    """A run is decoded by columns; each of these batches has one record that differs in one thing."""
    odd: list[dict[str, Any]] = [
        {},
        {"value": b"y" * 99},
        {"value": b"y" * 101},
        {"key": b"kk"},
        {"key": None},
        {"timestamp": 8_500},
        {"timestamp": -3},
        {"headers": b"\x02\x02h\x02x"},
    ]
    for change in odd:
        for position in (0, 1, 63, 64, 150, 199):
            fields: list[dict[str, Any]] = [
                {"value": bytes([index % 256]) * 100, "key": b"k", "timestamp": index // 3} for index in range(200)
            ]
            fields[position] |= change
            data = framed([record(index, **each) for index, each in enumerate(fields)], codec=codec)
            fetch = CompletedFetch(T0, data, 10)
            found = []
            while not fetch.is_consumed:
                found += fetch.fetch_records(90)
            assert offsets(found) == list(range(10, 210))
            assert [each.value for each in found] == [each["value"] for each in fields]
            assert [each.key for each in found] == [each["key"] for each in fields]
            assert [each.timestamp_ms - 1_000 for each in found] == [each["timestamp"] for each in fields]
            assert [bool(each.headers) for each in found] == ["headers" in each for each in fields]


@pytest.mark.parametrize("size", [0, 1, 1_000])
@pytest.mark.parametrize("key", [None, b"", b"key"])
@pytest.mark.parametrize("pace", [0, 1, 40, 300])
def test_runs_are_read_whatever_their_sizes_keys_and_times(size: int, key: bytes | None, pace: int) -> None:
    values = [bytes([index]) * size for index in range(200)]
    data = framed([record(index, value, key=key, timestamp=index * pace) for index, value in enumerate(values)])
    found = CompletedFetch(T0, data, 10).fetch_records(200)
    assert [each.value for each in found] == values
    assert {each.key for each in found} == {key}
    assert [each.timestamp_ms for each in found] == [1_000 + index * pace for index in range(200)]


def test_a_run_of_equal_records_with_a_wrong_offset_is_not_taken_for_sound() -> None:
    records = [record(index, b"x" * 10) for index in range(100)]
    records[99] = record(98, b"x" * 10)
    found = CompletedFetch(T0, framed(records), 10).fetch_records(100)
    assert offsets(found) == [*range(10, 109), 108]


@pytest.mark.parametrize("poll", [1, 7, 50, 10_000])
def test_batches_of_alike_and_of_other_forms_are_read_one_after_the_other(poll: int) -> None:
    """The form of a run is kept for the next batch, which may have other sizes, keys, times or fewer records."""
    plan = [(20, 100), (20, 100), (20, 101), (12, 100), (30, 100), (600, 5), (700, 5), (3, 5), (100, 0), (100, 0)]
    batches, expected = [], []
    for number, (count, size) in enumerate(plan):
        keys = [None if number % 3 else b"k%d" % (index % 10) for index in range(count)]
        values = [None if number == 8 else bytes([index % 251]) * size for index in range(count)]
        batches.append(frame_batch(len(expected), 3, 1_000, count, encode_records(values, keys)))
        expected += list(zip(keys, values, strict=True))
    fetch = CompletedFetch(T0, b"".join(batches), 0)
    found = []
    while not fetch.is_consumed:
        records = fetch.fetch_records(poll)
        assert len(records) <= poll
        found += records
    assert offsets(found) == list(range(len(expected)))
    assert [(each.key, each.value) for each in found] == expected


@pytest.mark.parametrize("length", [b"\x00", b"\x01", b"\x02"])
def test_records_with_lengths_that_are_too_short_are_malformed(length: bytes) -> None:
    records = [length + record(index, b"x")[1:] for index in range(100)]
    with pytest.raises(RecordUnreadable, match="offset 10"):
        CompletedFetch(T0, framed(records), 10).fetch_records(100)


def test_alike_batches_have_the_time_that_the_broker_set_and_hide_what_was_aborted() -> None:
    """As above, with enough records for a run."""
    stamped = bytearray(batch(0, 10))
    stamped[22] |= 8
    struct.pack_into(">q", stamped, 35, 5_000)
    set_crc(stamped)
    ended = bytearray(batch(20, 10))
    struct.pack_into(">i", ended, 23, 14)  # compaction has removed its last records
    set_crc(ended)
    data = (
        bytes(stamped)
        + batch(10, 10, producer_id=1, is_transactional=True)
        + bytes(ended)
        + marker(35, 1, ControlRecordType.ABORT)
        + batch(36, 10, producer_id=1, is_transactional=True)
    )
    aborted = [FetchResponseAbortedTransaction(producer_id=1, first_offset=10)]
    for isolation, hidden in ((READ_COMMITTED, 1), (0, 0)):
        fetch = CompletedFetch(T0, data, 4, isolation_level=isolation, aborted=aborted)
        found = []
        while not fetch.is_consumed:
            found += fetch.fetch_records(9)
        assert offsets(found) == [*range(4, 10 if hidden else 20), *range(20, 30), *range(36, 46)]
        assert {each.timestamp_ms for each in found if each.offset < 10} == {5_000}
        assert {each.timestamp_type for each in found if each.offset < 10} == {1}
        assert {each.timestamp_ms for each in found if each.offset >= 10} == {1_000}
        assert fetch.next_fetch_offset == 46


def test_a_damaged_batch_among_alike_ones_is_reported_after_those_before_it() -> None:
    damaged = bytearray(batch(30, 10))
    damaged[-2] ^= 1
    fetch = CompletedFetch(T0, batch(10, 10) + batch(20, 10) + bytes(damaged), 10)
    assert offsets(fetch.fetch_records(15)) == [*range(10, 25)]
    assert fetch.next_fetch_offset == 25
    assert offsets(fetch.fetch_records(15)) == [*range(25, 30)]
    with pytest.raises(RecordUnreadable, match="t-0 at offset 30"):
        fetch.fetch_records(15)
