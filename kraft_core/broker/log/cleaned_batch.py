"""Batches written by compaction, with some of their records or none.

The bytes of a record stay as they are, and with them its offset delta. A compressed batch is compressed again with
gzip, whatever its codec was; readers support every codec.

Source: MemoryRecords.filterTo, Kafka 4.3.1.
"""

import zlib
from collections.abc import Callable, Collection
from typing import Final

from kraft_core.protocol.batch_header import (
    BATCH_LENGTH_MIN,
    COMPRESSION_MASK,
    HEADER,
    HEADER_BYTES,
    BatchHeader,
    set_crc,
)
from kraft_core.protocol.compression import decompressed_bytes_max
from kraft_core.protocol.primitives import encode_varint
from kraft_core.protocol.record_walk import whole_records

_GZIP: Final = 1
_GZIP_WINDOW: Final = 31  # zlib's number for a gzip header and the largest window


def with_records(header: BatchHeader, raw: bytes, kept: Collection[int], step: Callable[[], None]) -> bytes:
    """Return the batch with only the records at the positions `kept`, or unchanged where that would not be smaller.

    `step` is called for each record and each decompressed piece. Raises as `whole_records` does.
    """
    compressor = zlib.compressobj(wbits=_GZIP_WINDOW) if header.codec else None
    parts: list[bytes] = []
    size = index = 0
    for data, begin, end in whole_records(
        raw, HEADER_BYTES, header.codec, header.record_count, decompressed_bytes_max(len(raw))
    ):
        step()
        if not end:
            continue
        if index in kept:
            record = encode_varint(end - begin) + data[begin:end]
            size += len(record)
            parts.append(record if compressor is None else compressor.compress(record))
        index += 1
    if compressor is not None:
        parts.append(compressor.flush())
    rebuilt = _with_body(header, b"".join(parts), len(kept), _GZIP if compressor is not None else 0)
    is_readable = compressor is None or size <= decompressed_bytes_max(len(rebuilt))
    return rebuilt if len(rebuilt) <= len(raw) and is_readable else raw


def empty_batch(header: BatchHeader) -> bytes:
    """Return a batch without records that keeps the last offset and a producer's last sequence."""
    return _with_body(header, b"", 0, 0)


def _with_body(header: BatchHeader, body: bytes, count: int, codec: int) -> bytes:
    data = bytearray(
        HEADER.pack(
            header.base_offset,
            BATCH_LENGTH_MIN + len(body),
            header.leader_epoch,
            header.magic,
            0,
            header.attributes & ~COMPRESSION_MASK | codec,
            header.last_offset_delta,
            header.base_timestamp,
            header.max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            count,
        )
    )
    data += body
    set_crc(data)
    return bytes(data)
