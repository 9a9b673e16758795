"""Validation of a producer's batch, and the fields that the broker sets in it.

Every record is checked, compressed or not: structure, offset deltas 0 to n - 1, timestamps, and keys on a compacted
topic. Records are stored as they were sent. The CRC covers everything after the CRC field, so base offset and leader
epoch are set in place. LogAppendTime and the correction of a wrong maximum timestamp, as in Apache, need a new CRC.

Stricter than Apache on purpose. Rejected are: wrong offset deltas (Apache stores them in plain batches and recompresses
other batches), wrong lengths of compressed records, batches with LogAppendTime, bytes after the batch, content beyond
`compression.decompressed_bytes_max` or `records_max`. Data that cannot be decompressed are INVALID_RECORD, where Apache
answers UNKNOWN_SERVER_ERROR.

Source: LogValidator, ProduceRequest.validateRecords and UnifiedLog.analyzeAndValidateRecords, Kafka 4.3.1; KIP-467.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import crc32c

from kraft_core.broker.log.log_config import LogConfig
from kraft_core.broker.slices import Work
from kraft_core.protocol.batch_header import (
    ATTRIBUTES_POSITION,
    BATCH_LENGTH_MIN,
    HEADER_BYTES,
    LEADER_EPOCH_POSITION,
    MAGIC,
    MAX_TIMESTAMP_POSITION,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    read_header,
    set_crc,
)
from kraft_core.protocol.compression import decoder_bytes
from kraft_core.protocol.errors import CorruptBatch, ErrorCode, KafkaError, OversizedBatch
from kraft_core.protocol.record_walk import WALK_RECORDS, Walked, walk_plain, walk_records

ZSTD: Final = 4
RECORD_ERRORS_MAX: Final = 1000
"""Upper bound of invalid records listed per batch; each takes some 100 bytes in the response."""

_NEWEST_CODEC: Final = 4
_NO_TIMESTAMP: Final = -1
_TRIAL_STEPS: Final = 40
"""Some 1 MiB of content. Such a batch need not wait for memory; more steps would block the loop for longer."""
_TRIAL_RECORDS: Final = 16 * WALK_RECORDS
_TRIAL_BYTES: Final = 128 * 1024
"""A larger batch seldom has so little content, so it is not tried first."""
_SHOWN_ERRORS: Final = 3


@dataclass(frozen=True, slots=True)
class ProducedBatch:
    """A valid batch and its header."""

    data: bytes
    header: BatchHeader


class InvalidRecords(KafkaError):  # noqa: N818  Kafka's errors have no suffix
    """Invalid records of a batch, as (number in the batch, reason) of at most RECORD_ERRORS_MAX of them."""

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[tuple[int, str], ...]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def validate_produced(data: bytes, config: LogConfig, now_ms: int, partition: str = "") -> Work[ProducedBatch]:
    """Check the records of one partition of a Produce request: exactly one complete, valid batch.

    The work yields as `Slices` requires; `partition` is "topic-0", for messages. Raises KafkaError CORRUPT_MESSAGE,
    INVALID_RECORD, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE, INVALID_TIMESTAMP, and
    InvalidRecords for faults of single records.
    """
    header = _check_frame(data, config)
    _check_header(header)
    try:
        checked = _try_at_once(data, header, config, now_ms, partition)
        if checked is None:
            checked = _CheckedRecords(header, config, now_ms, partition)
            yield decoder_bytes(header.codec, memoryview(data)[HEADER_BYTES:])
            for walked in _walk(data, header):
                checked.add(walked)
                yield 0
    except OversizedBatch as error:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"The batch is refused: {error.reason}.") from None
    except CorruptBatch as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"The batch cannot be read: {error.reason}.") from None
    checked.raise_errors()
    if len(data) > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"The batch has {len(data)} bytes, the topic's segment.bytes is {config.segment_bytes}.",
        )
    if config.log_append_time or checked.max_timestamp == header.max_timestamp:
        return ProducedBatch(data, header)
    corrected = bytearray(data)
    struct.pack_into(">q", corrected, MAX_TIMESTAMP_POSITION, checked.max_timestamp)
    set_crc(corrected)
    return ProducedBatch(bytes(corrected), read_header(corrected))


def _check_frame(data: bytes, config: LogConfig) -> BatchHeader:
    """Check that the data are one batch. The checks have the order of Apache's."""
    if len(data) < HEADER_BYTES:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"The data have {len(data)} bytes; a record batch has at least {HEADER_BYTES}."
        )
    header = read_header(data)
    if header.batch_length < BATCH_LENGTH_MIN:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"The batch declares {header.size} bytes; the minimum is {HEADER_BYTES}."
        )
    if header.magic != MAGIC:
        code = ErrorCode.CORRUPT_MESSAGE if header.magic > MAGIC else ErrorCode.INVALID_RECORD
        raise KafkaError(code, f"Record batches of magic {header.magic} are not accepted, only {MAGIC}.")
    if header.size != len(data):
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"A produce request must contain exactly one batch per partition; the batch declares {header.size} bytes, "
            f"the data have {len(data)}.",
        )
    if header.base_offset != 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"The base offset of a produced batch must be 0, it is {header.base_offset}."
        )
    if len(data) > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The batch has {len(data)} bytes, the topic's max.message.bytes is {config.max_message_bytes}.",
        )
    if crc32c.crc32c(memoryview(data)[ATTRIBUTES_POSITION:]) != header.crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "The batch does not match its CRC.")
    return header


def _check_header(header: BatchHeader) -> None:
    if header.codec > _NEWEST_CODEC:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Compression codec {header.codec} is unknown; known are 0 to {_NEWEST_CODEC}.",
        )
    if header.record_count < 1 or header.last_offset_delta + 1 != header.record_count:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"The batch declares {header.record_count} records and a last offset delta of {header.last_offset_delta}.",
        )
    if header.is_control:
        raise KafkaError(ErrorCode.INVALID_RECORD, "Clients are not allowed to write control records.")
    if header.has_producer_id and header.base_sequence < 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"A batch with a producer id needs a sequence number, not {header.base_sequence}."
        )
    if header.is_log_append_time:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "Only the broker may set the timestamp type to LogAppendTime.")


def _walk(data: bytes, header: BatchHeader) -> Iterator[Walked]:
    return walk_records(data, HEADER_BYTES, header.codec, header.record_count)


def _try_at_once(
    data: bytes, header: BatchHeader, config: LogConfig, now_ms: int, partition: str
) -> "_CheckedRecords | None":
    """Validate a batch that takes a few steps. Return None, without leaving a decoder behind, when it takes more."""
    if header.codec and (header.record_count > _TRIAL_RECORDS or len(data) > _TRIAL_BYTES):
        return None
    checked = _CheckedRecords(header, config, now_ms, partition)
    if not header.codec:
        at_once = walk_plain(data, HEADER_BYTES, header.record_count)
        if at_once is None:
            return None
        checked.add(at_once)
        return checked
    for step, walked in enumerate(_walk(data, header)):
        if step == _TRIAL_STEPS:
            return None
        checked.add(walked)
    return checked


class _CheckedRecords:
    """What is known of the records so far."""

    def __init__(self, header: BatchHeader, config: LogConfig, now_ms: int, partition: str) -> None:
        self.max_timestamp = _NO_TIMESTAMP
        self._header = header
        self._partition = partition
        self._needs_keys = config.is_compacted
        self._checks_time = not config.log_append_time
        self._oldest = max(now_ms - config.timestamp_before_max_ms, -(2**63))
        self._newest = min(now_ms + config.timestamp_after_max_ms, 2**63 - 1)
        self._code = ErrorCode.INVALID_RECORD
        self._error_count = 0
        self._errors: list[tuple[int, str]] = []

    def add(self, walked: Walked) -> None:
        """Add the next records. Raises CorruptBatch for offset deltas that are not 0 to n - 1."""
        first, deltas, offsets, keyless = walked
        if not offsets:
            return
        end = first + len(offsets)
        if offsets != list(range(first, end)):
            wrong = next(index for index, offset in enumerate(offsets, first) if offset != index)
            raise CorruptBatch(0, f"record {wrong} has the offset delta {offsets[wrong - first]}")
        base = self._header.base_timestamp
        newest, oldest = base + max(deltas), base + min(deltas)
        self.max_timestamp = max(self.max_timestamp, newest)
        late = self._checks_time and (newest > self._newest or oldest < self._oldest)
        if late or (keyless and self._needs_keys):
            self._note_errors(walked)

    def _note_errors(self, walked: Walked) -> None:
        base = self._header.base_timestamp
        keyless = frozenset(walked.keyless) if self._needs_keys else frozenset()
        for index, delta in enumerate(walked.timestamp_deltas, walked.first):
            timestamp = base + delta
            if index in keyless:
                self._note(
                    index, f"Compacted topic cannot accept message without key in topic partition {self._partition}"
                )
            elif self._checks_time and timestamp != _NO_TIMESTAMP and not self._oldest <= timestamp <= self._newest:
                self._code = ErrorCode.INVALID_TIMESTAMP
                self._note(
                    index,
                    f"Timestamp {timestamp} of message with offset {index} is out of range. "
                    f"The timestamp should be within [{self._oldest}, {self._newest}]",
                )

    def _note(self, index: int, reason: str) -> None:
        self._error_count += 1
        if len(self._errors) < RECORD_ERRORS_MAX:
            self._errors.append((index, reason))

    def raise_errors(self) -> None:
        """Raise InvalidRecords if some records are invalid, with Apache's text."""
        if not self._errors:
            return
        if self._code is ErrorCode.INVALID_TIMESTAMP:
            message = "One or more records have been rejected due to invalid timestamp"
        else:
            shown = ", ".join(
                f"RecordError(batchIndex={index}, message='{reason}')" for index, reason in self._errors[:_SHOWN_ERRORS]
            )
            message = (
                f"One or more records have been rejected due to {self._error_count} record errors in total, "
                f"and only showing the first three errors at most: [{shown}]"
            )
        raise InvalidRecords(self._code, message, tuple(self._errors))


def stamp(
    data: bytes, header: BatchHeader, base_offset: int, leader_epoch: int, append_time_ms: int | None
) -> bytearray:
    """Return the batch as written to the log: with offset, epoch and, if `append_time_ms` is given, that timestamp."""
    stamped = bytearray(data)
    struct.pack_into(">q", stamped, 0, base_offset)
    struct.pack_into(">i", stamped, LEADER_EPOCH_POSITION, leader_epoch)
    if append_time_ms is not None:
        struct.pack_into(">h", stamped, ATTRIBUTES_POSITION, header.attributes | TIMESTAMP_TYPE_MASK)
        struct.pack_into(">q", stamped, MAX_TIMESTAMP_POSITION, append_time_ms)
        set_crc(stamped)
    return stamped
