"""Batches that the broker itself writes: records with keys, uncompressed."""

import struct
from collections.abc import Sequence
from typing import Final

import crc32c

from kraft_core.broker.coordinator.coordinator_config import KeyAndValue
from kraft_core.broker.log.batch_header import ATTRIBUTES_POSITION, CRC_POSITION, HEADER, HEADER_BYTES, LOG_OVERHEAD

_MAGIC: Final = 2


def _varint(value: int) -> bytes:
    """A zigzag varint."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def own_batch(records: Sequence[KeyAndValue], timestamp_ms: int) -> bytes:
    """One batch of records with this timestamp; base offset and leader epoch are set when it is appended."""
    assert records, "a batch has at least one record"
    body = bytearray()
    for delta, (key, value) in enumerate(records):
        value_part = b"\x01" if value is None else _varint(len(value)) + value
        record = b"\x00\x00" + _varint(delta) + _varint(len(key)) + key + value_part + b"\x00"
        body += _varint(len(record)) + record
    batch = bytearray(
        HEADER.pack(
            0,
            HEADER_BYTES - LOG_OVERHEAD + len(body),
            -1,
            _MAGIC,
            0,
            0,
            len(records) - 1,
            timestamp_ms,
            timestamp_ms,
            -1,
            -1,
            -1,
            len(records),
        )
    )
    batch += body
    struct.pack_into(">I", batch, CRC_POSITION, crc32c.crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]))
    return bytes(batch)
