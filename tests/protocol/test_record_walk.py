"""Checking records in bounded steps: it agrees with the general reader, and no bomb makes a step long."""

import gzip
import struct
import subprocess
import sys
import tracemalloc

import cramjam
import lz4.frame
import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_core.protocol import record_walk
from kraft_core.protocol.batch_header import HEADER_BYTES
from kraft_core.protocol.compression import DECOMPRESSED_BYTES_LEAST, RECORDS_LEAST, decoder_bytes, decompress_chunks
from kraft_core.protocol.errors import CorruptBatch, OversizedBatch
from kraft_core.protocol.primitives import encode_varint
from kraft_core.protocol.record_batch import (
    METADATA_BYTES_MAX,
    PACED_RECORD_BYTES_MAX,
    RecordBatch,
    read_batches,
)
from kraft_core.protocol.record_walk import walk_plain
from tests.broker.crafted import CODECS, XERIAL, crafted, record


def framed(records: bytes, count: int, codec: int = 0, *, is_compressed: bool = False) -> RecordBatch:
    """A batch of these bytes, read."""
    (found,) = read_batches(crafted(records, count, codec=codec, is_compressed=is_compressed))
    return found


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
def test_the_walk_agrees_with_the_general_reader(
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
    if not codec:
        at_once = walk_plain(batch.raw, HEADER_BYTES, len(rows))
        is_small = len(rows) + repeat * sum(len(headers) for *_, headers, _ in drawn) < 4 * record_walk.WALK_RECORDS
        assert at_once == (0, timestamps, offsets, keyless) or (at_once is None and not is_small)


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
def test_both_readers_refuse_malformed_records(data: bytes, codec: int) -> None:
    batch = framed(data, 1, codec)
    with pytest.raises(CorruptBatch):
        walked(batch)
    with pytest.raises(CorruptBatch):
        list(batch.records())
    if not codec:
        assert walk_plain(batch.raw, HEADER_BYTES, 1) is None


def test_records_with_very_many_headers_are_not_checked_at_once() -> None:
    few, many = (record(0, b"k", b"v", [(b"h", b"x")] * count) for count in (60, 64))
    assert walk_plain(framed(few, 1).raw, HEADER_BYTES, 1) is not None
    assert walk_plain(framed(many, 1).raw, HEADER_BYTES, 1) is None


ZSTD_CONTENT = bytes(range(256)) * 40
ZSTD_FRAME = zstd.compress(ZSTD_CONTENT)
SKIPPED_FRAME = b"\x50\x2a\x4d\x18\x04\x00\x00\x00skip"
LARGE_ZSTD_FRAME = zstd.compress(bytes(2**20 + 1))


@pytest.mark.parametrize(
    ("data", "content"),
    [
        (ZSTD_FRAME, ZSTD_CONTENT),
        (ZSTD_FRAME + ZSTD_FRAME, 2 * ZSTD_CONTENT),
        (SKIPPED_FRAME + ZSTD_FRAME, ZSTD_CONTENT),
        (ZSTD_FRAME + SKIPPED_FRAME, ZSTD_CONTENT),
        (LARGE_ZSTD_FRAME, bytes(2**20 + 1)),
        (ZSTD_FRAME[:-1], None),
        (ZSTD_FRAME + b"more", None),
        (ZSTD_FRAME[:5] + b"\x00\x01" + ZSTD_FRAME[7:], None),
        (ZSTD_FRAME[:5] + b"\xff\xff" + ZSTD_FRAME[7:], None),
        (ZSTD_FRAME[:5], None),
    ],
)
def test_zstd_frames_are_read_to_their_end(data: bytes, content: bytes | None) -> None:
    if content is None:
        with pytest.raises(CorruptBatch):
            list(decompress_chunks(4, data, 2**22))
    else:
        assert b"".join(decompress_chunks(4, data, 2**22)) == content
        with pytest.raises(OversizedBatch):
            list(decompress_chunks(4, data, len(content) - 1))


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("data", [b"", b"this was never compressed" * 9], ids=["empty", "plain"])
def test_both_readers_refuse_data_that_is_not_compressed(codec: int, data: bytes) -> None:
    batch = framed(data, 1, codec, is_compressed=True)
    with pytest.raises(CorruptBatch):
        walked(batch)
    with pytest.raises(CorruptBatch):
        list(batch.records())


def test_gzip_of_several_members_is_one_stream() -> None:
    data = record(0, b"k", b"v" * 1000) + record(1, b"k", b"w")
    members = gzip.compress(data[:500]) + gzip.compress(b"") + gzip.compress(data[500:])
    batch = framed(members, 2, 1, is_compressed=True)
    assert walked(batch)[1] == [0, 1]


def test_lz4_blocks_that_build_on_earlier_ones_are_refused_as_apache_does() -> None:
    linked = lz4.frame.compress(record(0, b"k", bytes(200_000)), block_linked=True)
    with pytest.raises(CorruptBatch, match="dependent blocks"):
        walked(framed(linked, 1, 3, is_compressed=True))


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
def test_content_above_the_limit_is_refused_and_never_in_memory(codec: int, size: int) -> None:
    prefix = encode_varint(size - 20) + b"\x00\x00\x00\x01" + encode_varint(size - 30)
    body = zeros(codec, size)
    first = CODECS[codec](prefix)
    body = first + (body[len(XERIAL) :] if codec == 2 else body)
    batch = framed(body, 1, codec, is_compressed=True)
    assert size > max(DECOMPRESSED_BYTES_LEAST, 32 * len(body)) or codec == 2
    tracemalloc.start()
    if codec == 2:  # it cannot contain more than 22 times its size
        with pytest.raises(CorruptBatch):
            walked(batch)
    else:
        with pytest.raises(OversizedBatch):
            walked(batch)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * len(body) + 4 * 2**20


def test_more_records_than_the_bound_are_refused_before_anything_is_decompressed() -> None:
    batch = framed(b"nonsense", RECORDS_LEAST + 1, 4, is_compressed=True)
    with pytest.raises(OversizedBatch, match="1000001 records"):
        walked(batch)
    with pytest.raises(OversizedBatch):
        next(iter(batch.records()))


@pytest.mark.parametrize("codec", [0, 4])
def test_a_record_with_very_many_headers_is_checked_in_steps(codec: int) -> None:
    one = b"\x02h\x01"
    count = 90_000
    body = b"\x00\x00\x00\x01\x01" + encode_varint(count) + one * count
    batch = framed(encode_varint(len(body)) + body, 1, codec)
    steps = sum(1 for _ in batch.walk())
    assert steps > count // record_walk.WALK_RECORDS
    assert walked(batch)[1] == [0]


@pytest.mark.parametrize("per_record", [10, 250_000])
def test_more_headers_than_the_bound_are_refused(per_record: int) -> None:
    headers = encode_varint(per_record) + b"\x00\x01" * per_record
    bodies = [b"\x00\x00" + encode_varint(n) + b"\x01\x01" + headers for n in range(250_000 // per_record)]
    batch = framed(b"".join(encode_varint(len(body)) + body for body in bodies), len(bodies), 4)
    with pytest.raises(OversizedBatch, match="headers"):
        walked(batch)


def test_a_batch_of_the_metadata_log_holds_at_most_what_apaches_controller_writes() -> None:
    """However well a bad leader compresses it."""
    batch = framed(record(0, None, bytes(METADATA_BYTES_MAX)), 1, 4)
    assert batch.size < 1_000
    with pytest.raises(OversizedBatch, match="8388608"):
        batch.values()


def test_a_paced_reader_pauses_within_a_long_record_and_refuses_a_huge_one() -> None:
    long = list(framed(record(0, b"k", bytes(2**20)), 1, 4).paced_records())
    assert next(each for each in long if each is not None).value == bytes(2**20)
    assert long.count(None) > 10
    with pytest.raises(OversizedBatch, match="16777216 are read"):
        list(framed(record(0, b"k", bytes(PACED_RECORD_BYTES_MAX)), 1, 4).paced_records())


@pytest.mark.parametrize("frames_before", [0, 1])
def test_zstd_with_a_wide_window_may_hold_as_much_as_a_decoder_may_take(frames_before: int) -> None:
    def compressed(size: int) -> bytes:
        stream = zstd.ZstdCompressor(22)  # announces 128 MiB for any content
        return ZSTD_FRAME * frames_before + stream.compress(bytes(size)) + stream.flush()

    fits, too_large = compressed(2**24 - 2**20), compressed(2**24 + 1)
    assert sum(map(len, decompress_chunks(4, fits, 2**26))) >= 2**24 - 2**20
    assert 2**24 <= decoder_bytes(4, fits) < 2**25
    with pytest.raises(OversizedBatch, match="a window of more than 16777216 bytes"):
        list(decompress_chunks(4, too_large, 2**26))
    usual = bytes(cramjam.zstd.compress(bytes(2**22)))
    assert sum(map(len, decompress_chunks(4, usual * 10, 2**26))) == 10 * 2**22


def test_a_snappy_decoders_memory_is_that_of_its_largest_block() -> None:
    block = bytes(cramjam.snappy.compress_raw(bytes(2**22)))
    small = bytes(cramjam.snappy.compress_raw(bytes(2**15)))
    framed_blocks = XERIAL + b"".join(struct.pack(">i", len(each)) + each for each in (small, block, small))
    assert 2**22 <= decoder_bytes(2, block) < 2**23
    assert 2**22 <= decoder_bytes(2, framed_blocks) < 2**23
    many = XERIAL + (struct.pack(">i", len(small)) + small) * 2_000
    assert decoder_bytes(2, many) >= 22 * len(many), "not all of them are counted"
    assert decoder_bytes(2, XERIAL + b"\x7f\xff") < 2**20


def test_no_batch_imports_pyarrow() -> None:
    """It takes 40 MB and 0.2 s, most of it on the thread of the event loop."""
    content = bytes(1_000)
    frames = {1: gzip.compress(content), 2: bytes(cramjam.snappy.compress_raw(content)), 4: ZSTD_FRAME}
    frames[3] = lz4.frame.compress(content, block_linked=False)
    code = f"""
import sys
from kraft_core.protocol.compression import decompress_chunks
for codec, data in {frames!r}.items():
    assert b"".join(decompress_chunks(codec, data, 2**20))
print("pyarrow" in sys.modules)
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


@pytest.mark.parametrize(("level", "at_least"), [(3, 2**20), (22, 2**20)])
def test_a_decoders_memory_is_announced(level: int, at_least: int) -> None:
    data = bytes(cramjam.zstd.compress(bytes(2**21), level))
    assert decoder_bytes(4, data) >= at_least
    assert decoder_bytes(4, data + data) >= 2**24, "the data after the first frame may be anything"
    assert decoder_bytes(1, gzip.compress(b"x")) < 2**22
    assert decoder_bytes(0, data) == 0
