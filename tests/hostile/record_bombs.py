"""Record batches of up to 1 MiB that cost a reader far more than their sender."""

import functools
import gzip
import struct
from dataclasses import dataclass

import cramjam

from kraft_core.protocol.batch_header import set_crc
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.primitives import encode_varint
from kraft_core.protocol.record_batch import read_batches
from tests.broker.crafted import crafted, record, sized, zstd

MIB = 1024 * 1024
MANY = 200_000


@dataclass(frozen=True)
class Bomb:
    """A batch and the expected answer to its Produce request."""

    name: str
    batch: bytes
    answer: ErrorCode


def value_of_zeros(size: int) -> bytes:
    """Return a record with a key and a value of `size` zeros."""
    return record(0, b"k", bytes(size))


def records(count: int) -> bytes:
    """Return the smallest possible records. The last one is a millisecond later."""
    return b"".join([record(delta, b"", None) for delta in range(count - 1)]) + record(count - 1, b"", None, None, 1)


def headers(count: int) -> bytes:
    """Return a record with a key and empty headers."""
    return sized(b"\x00\x00\x00\x02k\x01" + encode_varint(count) + b"\x00\x01" * count)


@functools.cache
def many_records() -> bytes:
    """Return 0.2 MB of valid records that take seconds to read at once. Timestamps: 1,000; the last: 1,001."""
    return crafted(records(MANY), MANY, codec=4, max_timestamp=1_001)


@functools.cache
def bombs() -> tuple[Bomb, ...]:
    """Return one bomb of each kind."""
    too_large, invalid, good = ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD, ErrorCode.NONE
    many = value_of_zeros(100 * MIB)
    wide = bytes(cramjam.zstd.compress(value_of_zeros(60 * MIB), 22))
    return (
        Bomb("zstd, 100 MiB", crafted(many, 1, codec=4), too_large),
        Bomb("zstd, 60 MiB", crafted(value_of_zeros(60 * MIB), 1, codec=4), good),
        Bomb("zstd, 60 MiB, a window of 128 MiB", crafted(wide, 1, codec=4, is_compressed=True), too_large),
        Bomb("gzip, 100 MiB", crafted(gzip.compress(many, 1), 1, codec=1, is_compressed=True), too_large),
        Bomb(
            "snappy, 19 MiB",
            crafted(bytes(cramjam.snappy.compress_raw(value_of_zeros(19 * MIB))), 1, codec=2, is_compressed=True),
            good,
        ),
        Bomb("very many records", many_records(), good),
        Bomb("records that repeat", crafted(record(0, b"", None) * 1_000_000, 1_000_000, codec=4), invalid),
        Bomb("two thousand million announced", crafted(zstd(many), 2**31 - 1, codec=4, is_compressed=True), too_large),
        Bomb("100,000 headers", crafted(headers(100_000), 1, codec=4), good),
        Bomb("20,000,000 headers", crafted(headers(20_000_000), 1, codec=4), too_large),
    )


def stored(batch: bytes, base_offset: int) -> bytes:
    """Return the batch as a log stores it."""
    changed = bytearray(batch)
    struct.pack_into(">q", changed, 0, base_offset)
    struct.pack_into(">i", changed, 12, 0)
    set_crc(changed)
    return bytes(changed)


def append_to_log(log: bytes, batches: list[bytes]) -> bytes:
    """Append batches to a segment."""
    offset = max((batch.last_offset + 1 for batch in read_batches(log)), default=0)
    for batch in batches:
        log += stored(batch, offset)
        offset += int.from_bytes(batch[23:27], signed=True) + 1
    return log
