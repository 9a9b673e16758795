"""The 61-byte header of a record batch (magic 2), read without touching the records behind it.

    base offset i64 | length i32 | leader epoch i32 | magic i8 = 2 | crc u32 | attributes i16 |
    last offset delta i32 | base timestamp i64 | max timestamp i64 | producer id i64 |
    producer epoch i16 | base sequence i32 | record count i32 | records

`length` counts the bytes behind itself. The CRC-32C covers everything behind itself, so base offset and leader epoch
can be set in place without computing it again.

Source: DefaultRecordBatch.java, Kafka 4.3.1; KIP-98.
"""

import struct
from typing import Final

import msgspec
from crc32c import crc32c

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
PREFIX: Final = struct.Struct(">qi")
"""Base offset and length."""
BEFORE_CRC: Final = struct.Struct(">qiibI")
"""The fields up to and with the CRC, to pack a header whose CRC is computed from the rest."""
AFTER_CRC: Final = struct.Struct(">hiqqqhii")

HEADER_BYTES: Final = HEADER.size
LOG_OVERHEAD: Final = PREFIX.size
"""Bytes of base offset and length, which `batch_length` does not count."""
BATCH_LENGTH_MIN: Final = HEADER_BYTES - LOG_OVERHEAD

LEADER_EPOCH_POSITION: Final = 12
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
MAX_TIMESTAMP_POSITION: Final = 35

MAGIC: Final = 2
COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_MASK: Final = 0x08
TRANSACTIONAL_MASK: Final = 0x10
CONTROL_MASK: Final = 0x20
MAX_SEQUENCE: Final = 2**31 - 1


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """The fields of a batch's header. Offsets are absolute, timestamps ms since 1970, producer fields -1 for none."""

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
        """Length of the whole batch in bytes, header included."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        """Offset of the last record the batch was made with; compaction may have removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        """Compression codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; 5 to 7 are not assigned."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record's timestamp is the batch's maximum timestamp, set by the broker."""
        return bool(self.attributes & TIMESTAMP_TYPE_MASK)

    @property
    def is_transactional(self) -> bool:
        """Whether a transactional producer made the batch."""
        return bool(self.attributes & TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        """Whether the records are control records: of the raft layer, or ends of transactions."""
        return bool(self.attributes & CONTROL_MASK)

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
    """Read the header at `position`, where at least `HEADER_BYTES` must remain. Checks nothing; raises struct.error."""
    return BatchHeader(*HEADER.unpack_from(data, position))


def set_crc(batch: bytearray) -> None:
    """Compute the CRC of a whole batch and write it into its header."""
    struct.pack_into(">I", batch, CRC_POSITION, crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]))
