"""Passing over the records of a batch in bounded steps: it sees what the general reader sees, and no bomb makes a step long."""

import gzip
import struct
import tracemalloc
from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_core.protocol import record_walk
from kraft_core.protocol.compression import DECOMPRESSED_BYTES_LEAST, RECORDS_LEAST, decoder_bytes
from kraft_core.protocol.errors import CorruptBatch, OversizedBatch
from kraft_core.protocol.primitives import encode_varint
from kraft_core.protocol.record_batch import HEADER_BYTES, RecordBatch, encode_batch, read_batches

XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def xerial(data: bytes, block_bytes: int = 32 * 1024) -> bytes:
    blocks = [
        bytes(cramjam.snappy.compress_raw(data[at : at + block_bytes])) for at in range(0, len(data), block_bytes)
    ]
    return XERIAL + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def lz4(data: bytes) -> bytes:
    return bytes(cramjam.lz4.compress(data)) if data else bytes(cramjam.lz4.compress(b""))


CODECS: dict[int, Callable[[bytes], bytes]] = {
    0: lambda data: data,
    1: gzip.compress,
    2: xerial,
    4: lambda data: bytes(cramjam.zstd.compress(data)),
}


def framed(records: bytes, count: int, codec: int = 0, compress: Callable[[bytes], bytes] | None = None) -> RecordBatch:
    """A batch of these bytes, read without its CRC, which is not looked at here."""
    body = (compress or CODECS[codec])(records)
    raw = bytearray(encode_batch(0, 1, 1_000, [b"v"])[:HEADER_BYTES] + body)
    struct.pack_into(">i", raw, 8, len(raw) - 12)
    struct.pack_into(">h", raw, 21, codec)
    struct.pack_into(">i", raw, 23, count - 1)
    struct.pack_into(">i", raw, 57, count)
    (found,) = read_batches(bytes(raw), verify_crc=False)
    return found


def record(
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[bytes, bytes | None]] | None = None,
    timestamp_delta: int = 0,
) -> bytes:
    def field(data: bytes | None) -> bytes:
        return b"\x01" if data is None else encode_varint(len(data)) + data

    body = b"\x00" + encode_varint(timestamp_delta) + encode_varint(offset_delta) + field(key) + field(value)
    body += encode_varint(len(headers or [])) + b"".join(
        field(name) + field(content) for name, content in headers or []
    )
    return encode_varint(len(body)) + body


def walked(batch: RecordBatch) -> tuple[list[int], list[int], list[int]]:
    timestamps: list[int] = []
    offsets: list[int] = []
    keyless: list[int] = []
    for step in batch.walk():
        assert len(step.offset_deltas) <= record_walk.WALK_RECORDS
        timestamps += step.timestamp_deltas
        offsets += step.offset_deltas
        keyless += step.keyless
    return timestamps, offsets, keyless


FIELDS = st.none() | st.binary(max_size=300) | st.sampled_from([bytes(20_000), bytes(200_000)])
HEADERS = st.lists(st.tuples(st.binary(max_size=20), st.none() | st.binary(max_size=200)), max_size=3)


@settings(deadline=None)
@given(
    drawn=st.lists(st.tuples(FIELDS, FIELDS, HEADERS, st.integers(-(2**40), 2**40)), min_size=1, max_size=20),
    repeat=st.sampled_from([1, 40]),
    codec=st.sampled_from(list(CODECS)),
)
def test_the_walk_sees_what_the_general_reader_sees(
    drawn: list[tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]], int]], repeat: int, codec: int
) -> None:
    if sum(len(key or b"") + len(value or b"") for key, value, _, _ in drawn) > 500_000:
        repeat = 1
    rows = drawn * repeat
    data = b"".join(record(n, key, value, headers, delta) for n, (key, value, headers, delta) in enumerate(rows))
    batch = framed(data, len(rows), codec)
    read = list(batch.records())

    timestamps, offsets, keyless = walked(batch)

    assert [batch.base_timestamp + delta for delta in timestamps] == [found.timestamp for found in read]
    assert offsets == [found.offset for found in read] == list(range(len(rows)))
    assert keyless == [found.offset for found in read if found.key is None]
    assert [(found.key, found.value) for found in read] == [(key, value) for key, value, _, _ in rows]


GOOD = record(0, b"k", b"v")
FAULTS = {
    "no length": b"\x00",
    "negative length": b"\x01",
    "longer than the data": b"\x40" + GOOD[1:],
    "shorter than its fields": bytes([GOOD[0] - 2]) + GOOD[1:],
    "cut": GOOD[:-1],
    "nothing": b"",
    "a length without end": b"\xff" * 6,
    "key beyond its record": record(0, b"kkkkkkkkkkkk", None).replace(b"\x18k", b"\x7ek"),
    "key of -3 bytes": b"\x10\x00\x00\x00\x05\x02v\x00X",
    "value of -2 bytes": b"\x10\x00\x00\x00\x01\x03v\x00X",
    "-1 headers": b"\x10\x00\x00\x00\x01\x02v\x01X",
    "8 headers": b"\x10\x00\x00\x00\x01\x02v\x10X",
    "100 headers": b"\x12\x00\x00\x00\x01\x02v\xc8\x01X",
    "header without a name": b"\x12\x00\x00\x00\x01\x02v\x02\x01\x01",
    "bytes behind the last": GOOD + b"\x00",
    "a second record": GOOD + record(1, b"k", b"v"),
}


@pytest.mark.parametrize("codec", list(CODECS))
@pytest.mark.parametrize("data", FAULTS.values(), ids=FAULTS.keys())
def test_both_readers_refuse_records_that_do_not_fit(data: bytes, codec: int) -> None:
    batch = framed(data, 1, codec)
    with pytest.raises(CorruptBatch):
        walked(batch)
    with pytest.raises(CorruptBatch):
        list(batch.records())


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("data", [b"", b"this was never compressed" * 9], ids=["empty", "plain"])
def test_both_readers_refuse_data_that_is_not_compressed(codec: int, data: bytes) -> None:
    batch = framed(data, 1, codec, lambda raw: raw)
    with pytest.raises(CorruptBatch):
        walked(batch)
    with pytest.raises(CorruptBatch):
        list(batch.records())


def test_gzip_of_several_members_is_one_stream() -> None:
    data = record(0, b"k", b"v" * 1000) + record(1, b"k", b"w")
    batch = framed(data, 2, 1, lambda raw: gzip.compress(raw[:500]) + gzip.compress(b"") + gzip.compress(raw[500:]))
    assert walked(batch)[1] == [0, 1]


def test_lz4_blocks_that_build_on_earlier_ones_are_refused_as_apache_does() -> None:
    frame = bytearray(lz4(GOOD))
    frame[4] &= ~0x20
    with pytest.raises(CorruptBatch, match="dependent blocks"):
        walked(framed(bytes(frame), 1, 3, lambda raw: raw))


BOMBS = {
    "gzip of zeros": (1, 200 * 2**20),
    "zstd of zeros": (4, 400 * 2**20),
    "snappy of zeros": (2, 100 * 2**20),
}


def zeros(codec: int, size: int) -> bytes:
    """`size` zeros, compressed without having them all in memory for long."""
    if codec == 1:
        member = gzip.compress(bytes(2**20))
        return member * (size // 2**20)
    if codec == 4:
        member = bytes(cramjam.zstd.compress(bytes(2**20)))
        return member * (size // 2**20)
    block = bytes(cramjam.snappy.compress_raw(bytes(2**15)))
    return XERIAL + (struct.pack(">i", len(block)) + block) * (size // 2**15)


@pytest.mark.parametrize(("codec", "size"), BOMBS.values(), ids=BOMBS.keys())
def test_content_beyond_the_bound_is_refused_and_never_held(codec: int, size: int) -> None:
    prefix = encode_varint(size - 20) + b"\x00\x00\x00\x01" + encode_varint(size - 30)
    body = zeros(codec, size)
    first = CODECS[codec](prefix)
    body = first + (body[len(XERIAL) :] if codec == 2 else body)
    batch = framed(body, 1, codec, lambda raw: raw)
    assert size > max(DECOMPRESSED_BYTES_LEAST, 32 * len(body)) or codec == 2
    tracemalloc.start()
    if codec == 2:  # it cannot hold more than 22 times its size
        with pytest.raises(CorruptBatch):
            walked(batch)
    else:
        with pytest.raises(OversizedBatch):
            walked(batch)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * len(body) + 4 * 2**20


def test_more_records_than_the_bound_are_refused_before_anything_is_decompressed() -> None:
    batch = framed(b"", RECORDS_LEAST + 1, 4, lambda raw: b"nonsense")
    with pytest.raises(OversizedBatch, match="1000001 records"):
        walked(batch)
    with pytest.raises(OversizedBatch):
        next(iter(batch.records()))


def test_a_record_of_a_million_headers_is_passed_over_in_steps() -> None:
    one = b"\x02h\x01"
    count = 300_000
    body = b"\x00\x00\x00\x01\x01" + encode_varint(count) + one * count
    batch = framed(encode_varint(len(body)) + body, 1, 4)
    steps = sum(1 for _ in batch.walk())
    assert steps > count // record_walk.WALK_RECORDS
    assert walked(batch)[1] == [0]


@pytest.mark.parametrize(("level", "at_least"), [(3, 2**20), (22, 2**20)])
def test_a_decoders_memory_is_announced(level: int, at_least: int) -> None:
    data = bytes(cramjam.zstd.compress(bytes(2**21), level))
    assert decoder_bytes(4, data) >= at_least
    assert decoder_bytes(4, data + data) >= 2**27, "what comes behind the first frame may be anything"
    assert decoder_bytes(1, gzip.compress(b"x")) < 2**22
    assert decoder_bytes(0, data) == 0
