"""What a producer's batch must be before it may enter a log, and the stamps it gets on the way in.

The CRC covers everything behind the CRC field, so base offset and leader epoch are set in place; only LogAppendTime changes covered bytes and
computes a new CRC. Records are not decompressed, with one exception: on a compacted topic every record needs a key.

Source: LogValidator, ProduceRequest.validateRecords and UnifiedLog.analyzeAndValidateRecords, Kafka 4.3.1.
"""

import struct
from typing import Final

import crc32c

from kraft_core.broker.log.batch_header import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER_BYTES,
    BatchHeader,
    read_header,
)
from kraft_core.broker.log.log_config import LogConfig
from kraft_core.protocol.errors import CorruptBatch, ErrorCode, KafkaError
from kraft_core.protocol.record_batch import read_batches

_LOG_APPEND_TIME: Final = 0x08
_NEWEST_CODEC: Final = 4
ZSTD: Final = 4
_LEADER_EPOCH_POSITION: Final = 12
_MAX_TIMESTAMP_POSITION: Final = 35


def validate_produced(data: bytes, config: LogConfig, now_ms: int) -> BatchHeader:
    """Check the records of one partition of a Produce request: exactly one batch, whole, intact and allowed by the topic.

    Raises KafkaError CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE, INVALID_TIMESTAMP.
    """
    if len(data) < HEADER_BYTES:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{len(data)} bytes are no record batch.")
    header = read_header(data)
    if header.magic != 2:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"Record batches of magic {header.magic} are not accepted, only 2.")
    if header.size > len(data) or header.size < HEADER_BYTES:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"The batch says it has {header.size} bytes, {len(data)} came.")
    if header.size != len(data):
        raise KafkaError(ErrorCode.INVALID_RECORD, "A produce request must hold exactly one batch per partition.")
    if len(data) > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The batch has {len(data)} bytes, the topic's max.message.bytes is {config.max_message_bytes}.",
        )
    if crc32c.crc32c(memoryview(data)[ATTRIBUTES_POSITION:]) != header.crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "The batch does not match its CRC.")
    _check_counts(data, header)
    _check_timestamps(header, config, now_ms)
    if config.is_compacted:
        _check_keys(data)
    return header


def _check_counts(data: bytes, header: BatchHeader) -> None:
    if header.codec > _NEWEST_CODEC:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Compression codec {header.codec} is unknown.")
    if header.is_control:
        raise KafkaError(ErrorCode.INVALID_RECORD, "Clients are not allowed to write control records.")
    if header.record_count < 1 or header.last_offset_delta + 1 != header.record_count:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"The batch says it has {header.record_count} records and a last offset delta of {header.last_offset_delta}.",
        )
    if header.has_producer_id and header.base_sequence < 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, "A batch with a producer id needs a sequence number.")
    if header.codec == 0 and _count_records(data) != header.record_count:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"The batch does not hold the {header.record_count} records it announces."
        )


def _count_records(data: bytes) -> int:
    """Walk over the records by their lengths; -1 when a length is nonsense or the last record does not end with the batch."""
    position, end, count = HEADER_BYTES, len(data), 0
    while position < end:
        value = shift = 0
        while True:
            if position >= end or shift > 28:
                return -1
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        length = (value >> 1) ^ -(value & 1)
        if length < 0:
            return -1
        position += length
        count += 1
    return count if position == end else -1


def _check_timestamps(header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    if config.log_append_time:
        return
    if header.is_log_append_time:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "Only the broker may set the timestamp type to LogAppendTime.")
    too_old = header.base_timestamp >= 0 and now_ms - header.base_timestamp > config.timestamp_before_max_ms
    too_new = header.max_timestamp >= 0 and header.max_timestamp - now_ms > config.timestamp_after_max_ms
    if too_old or too_new:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"Timestamps {header.base_timestamp} to {header.max_timestamp} are out of range at {now_ms}: allowed are "
            f"{config.timestamp_before_max_ms} ms before and {config.timestamp_after_max_ms} ms after.",
        )


def _check_keys(data: bytes) -> None:
    try:
        for batch in read_batches(data, verify_crc=False):
            if any(record.key is None for record in batch.records()):
                raise KafkaError(ErrorCode.INVALID_RECORD, "A compacted topic cannot accept a record without a key.")
    except CorruptBatch as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def stamp(data: bytes, header: BatchHeader, base_offset: int, leader_epoch: int, append_time_ms: int | None) -> bytes:
    """The batch as it goes to the log: offset and epoch assigned, and with `append_time_ms` the broker's time on every record."""
    stamped = bytearray(data)
    struct.pack_into(">q", stamped, 0, base_offset)
    struct.pack_into(">i", stamped, _LEADER_EPOCH_POSITION, leader_epoch)
    if append_time_ms is not None:
        struct.pack_into(">h", stamped, ATTRIBUTES_POSITION, header.attributes | _LOG_APPEND_TIME)
        struct.pack_into(">q", stamped, _MAX_TIMESTAMP_POSITION, append_time_ms)
        struct.pack_into(">I", stamped, CRC_POSITION, crc32c.crc32c(memoryview(stamped)[ATTRIBUTES_POSITION:]))
    return bytes(stamped)
