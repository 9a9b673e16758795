"""Batches we build ourselves; those of Kafka are in `test_metadata_log`."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_core.protocol.compression import decompress_chunks
from kraft_core.protocol.control_records import (
    SnapshotHeaderRecord,
    decode_control,
    encode_control,
)
from kraft_core.protocol.errors import CorruptBatch, ErrorCode, KafkaError
from kraft_core.protocol.primitives import Malformed, decode_uvarint, decode_varint, decode_varlong, encode_varint
from kraft_core.protocol.record_batch import encode_batch, read_batches

OPTIONAL_BYTES = st.none() | st.binary(max_size=200)
PAIRS = st.lists(st.tuples(OPTIONAL_BYTES, OPTIONAL_BYTES), min_size=1, max_size=200)


@given(pairs=PAIRS, base=st.integers(0, 2**40), epoch=st.integers(0, 2**31 - 1), timestamp=st.integers(0, 2**42))
def test_keys_and_values_survive_encoding_and_decoding(
    pairs: list[tuple[bytes | None, bytes | None]], base: int, epoch: int, timestamp: int
) -> None:
    keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    (batch,) = read_batches(encode_batch(base, epoch, timestamp, values, keys=keys, producer_id=5, producer_epoch=1))
    assert (batch.base_offset, batch.leader_epoch, batch.last_offset) == (base, epoch, base + len(pairs) - 1)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 1, -1)
    records = list(batch.records())
    assert [(record.key, record.value) for record in records] == pairs
    assert [record.offset for record in records] == list(range(base, base + len(pairs)))
    assert {record.timestamp for record in records} == {timestamp}
    assert batch.values() == [value for value in values if value is not None]


@given(
    sizes=st.lists(
        st.sampled_from((0, 1, 56, 57, 58, 120, 2040, 2041, 2042, 2047, 2048, 9000)), min_size=1, max_size=40
    )
)
def test_values_without_keys_can_be_read_back_at_every_varint_length(sizes: list[int]) -> None:
    values = [bytes([n % 251]) * size for n, size in enumerate(sizes)]
    (batch,) = read_batches(encode_batch(3, 1, 9, values))
    assert batch.values() == values
    assert [record.value for record in batch.records()] == values


def test_a_batch_of_more_than_a_thousand_records_survives_encoding_and_decoding() -> None:
    values = [str(n).encode() for n in range(20_000)]
    (batch,) = read_batches(encode_batch(0, 1, 9, values))
    assert batch.values() == values
    assert batch.last_offset == 19_999


def test_three_batches_in_one_buffer_are_three_batches() -> None:
    data = b"".join(encode_batch(n, 1, 9, [b"v"]) for n in range(3))
    batches = list(read_batches(data))
    assert [batch.base_offset for batch in batches] == [0, 1, 2]
    assert b"".join(batch.raw for batch in batches) == data
    assert [batch.base_offset for batch in read_batches(data, position=batches[0].size)] == [1, 2]


def test_a_control_batch_contains_its_records_and_is_marked_as_one() -> None:
    key, value = encode_control(SnapshotHeaderRecord(last_contained_log_timestamp=12))
    (batch,) = read_batches(encode_batch(0, 1, 9, [value], control_keys=[key]))
    assert batch.is_control
    (record,) = batch.records()
    assert decode_control(record.key or b"", record.value or b"") == SnapshotHeaderRecord(
        last_contained_log_timestamp=12
    )


def test_a_control_record_of_an_unknown_type_is_none_and_a_newer_version_is_read() -> None:
    assert decode_control(b"\x00\x00\x00\x63", b"\x00\x00") is None
    newer = b"\x00\x07" + (12).to_bytes(8) + b"\x01\x00\x01x"
    assert decode_control(b"\x00\x00\x00\x03", newer) == SnapshotHeaderRecord(
        version=7, last_contained_log_timestamp=12
    )


@pytest.mark.parametrize(
    ("key", "value"), [(b"\x00", b"\x00\x00"), (b"\x00\x00\x00\x03", b""), (b"\x00\x00\x00\x03", b"\x00\x00\x01")]
)
def test_a_cut_control_record_is_corrupt(key: bytes, value: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decode_control(key, value)


def test_gzip_output_beyond_the_limit_is_refused() -> None:
    bomb = gzip.compress(bytes(1_000_000))
    assert b"".join(decompress_chunks(1, bomb, 1_000_000)) == bytes(1_000_000)
    with pytest.raises(CorruptBatch, match="999999"):
        list(decompress_chunks(1, bomb, 999_999))


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_damaged_compressed_data_is_corrupt(codec: int) -> None:
    with pytest.raises(CorruptBatch):
        list(decompress_chunks(codec, b"\xff\xff\xff\xff\x07 this was never compressed", 1_000_000))


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"\x10\x00\x00\x00\x01\x02v\x00X", "its length is not that of its fields"),
        (b"\x10\x00\x00\x00\x01\x02v\x10X", "8 headers"),
        (b"\x10\x00\x00\x00\x01\x02v\x01X", "-1 headers"),
        (b"\x10\x00\x00\x00\x01\x20v\x00X", "a field of 16 bytes"),
        (b"\x10\x00\x00\x00\x01\x03v\x00X", "a field of -2 bytes"),
        (b"\x12\x00\x00\x00\x01\x02v\x02\x01\x01", "a header without a name"),
    ],
)
def test_a_record_whose_fields_contradict_its_length_is_corrupt(record: bytes, reason: str) -> None:
    raw = encode_batch(0, 1, 0, [b"v"])[:61] + record
    raw = raw[:8] + (len(raw) - 12).to_bytes(4) + raw[12:]
    (batch,) = read_batches(raw, verify_crc=False)
    with pytest.raises(CorruptBatch, match=reason):
        batch.values()


def test_an_unknown_compression_is_refused_by_name() -> None:
    with pytest.raises(KafkaError) as failure:
        list(decompress_chunks(7, b"", 1_000_000))
    assert failure.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@given(value=st.integers(-(2**31), 2**31 - 1))
def test_varints_survive_encoding_and_decoding(value: int) -> None:
    data = encode_varint(value)
    assert len(data) <= 5
    assert decode_varint(data, 0) == (value, len(data))


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_varlongs_survive_encoding_and_decoding(value: int) -> None:
    data = encode_varint(value)
    assert len(data) <= 10
    assert decode_varlong(data, 0) == (value, len(data))


def test_varints_that_do_not_end_are_refused() -> None:
    with pytest.raises(Malformed):
        decode_uvarint(b"\xff" * 5 + b"\x01", 0)
    with pytest.raises(Malformed):
        decode_varlong(b"\xff" * 10 + b"\x01", 0)
    with pytest.raises(IndexError):
        decode_uvarint(b"\xff\xff", 0)
