"""The 61-byte header of a record batch (magic 2), read without touching the records behind it.

The broker stores batches as producers sent them, so almost all it ever needs of a batch is here: the log scans headers, assigns
offsets and leader epochs in place (the CRC does not cover them), and leaves the records alone.

Source: DefaultRecordBatch, Kafka 4.3.1.
"""

import os
import struct
from collections.abc import Iterator
from typing import Final

import msgspec

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""Field order: base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and maximum timestamp,
producer id, producer epoch, base sequence, record count."""

HEADER_BYTES: Final = HEADER.size
MAGIC: Final = 2
LOG_OVERHEAD: Final = 12
"""Bytes of base offset and length, which `batch_length` does not count."""
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
MAX_SEQUENCE: Final = 2**31 - 1

_SCAN_BYTES: Final = 64 * 1024


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """What a batch says about itself. Offsets are absolute, timestamps in ms, sizes in bytes."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes on disk and on the wire, header included."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        """Offset of the last record the batch was made with; compaction may have removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & 0x07

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record's timestamp is the batch's maximum timestamp, set by the broker."""
        return bool(self.attributes & 0x08)

    @property
    def is_transactional(self) -> bool:
        """Whether a transactional producer made the batch."""
        return bool(self.attributes & 0x10)

    @property
    def is_control(self) -> bool:
        """Whether the records are markers of the broker, not data."""
        return bool(self.attributes & 0x20)

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer made the batch."""
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; numbers wrap from 2**31 - 1 to 0. -1 without a producer id."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE


def read_header(data: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """Read the header at `position`; the caller made sure that `HEADER_BYTES` are there."""
    return BatchHeader(*HEADER.unpack_from(data, position))


def scan_headers(file_descriptor: int, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each batch that lies wholly in [position, end) of the file.

    Stops quietly at an incomplete or nonsensical header (length too small, a magic other than 2): recovery decides what that means.
    """
    buffer = b""
    buffer_start = position
    while position + HEADER_BYTES <= end:
        relative = position - buffer_start
        if relative + HEADER_BYTES > len(buffer):
            buffer_start, relative = position, 0
            buffer = os.pread(file_descriptor, min(_SCAN_BYTES, end - position), position)
            if len(buffer) < HEADER_BYTES:
                return
        header = read_header(buffer, relative)
        if header.magic != 2 or header.batch_length < HEADER_BYTES - LOG_OVERHEAD or position + header.size > end:
            return
        yield position, header
        position += header.size
