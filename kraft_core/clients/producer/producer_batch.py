"""A batch of records for one partition: records are encoded into it as they come, and its header at the end.

The records stand behind 61 bytes that are kept free for the header, so a batch is built without copying. A compressed
batch collects uncompressed records and is compressed once, in `close`. Values that differ from the one before only in
their content are collected, and encoded together: all but their offset delta is the same.

Source: ProducerBatch, MemoryRecordsBuilder of Kafka 4.3.1.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

from kraft_core.clients.client_metadata import NO_EPOCH, TopicPartition
from kraft_core.clients.producer.produce_request_result import NO_OFFSET, NO_TIMESTAMP, ProduceRequestResult
from kraft_core.clients.producer.producer_id_and_epoch import ProducerIdAndEpoch
from kraft_core.protocol.batch_header import (
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    MAX_SEQUENCE,
    TRANSACTIONAL_MASK,
    set_crc,
)
from kraft_core.protocol.compression import Compression
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.primitives import ONE_BYTE, TWO_BYTES, VARINT_HIGH, VARINT_LOW, encode_varint
from kraft_core.protocol.record_batch import read_batches

Headers = Sequence[tuple[str, bytes | None]]

NO_SEQUENCE: Final = -1

RECORD_OVERHEAD_MAX: Final = 21
"""Upper bound on the bytes of a record other than its key, value and headers. Source: DefaultRecord."""
_VARINT_BYTES_MAX: Final = 5
_CACHED: Final = 4096
_VARINTS: Final = [encode_varint(value) for value in range(_CACHED)]
_ALIKE_MAX: Final = 512
"""Values that are collected before they are encoded."""


class FinalState(Enum):
    """How a batch ended."""

    ABORTED = "aborted"
    FAILED = "failed"
    SUCCEEDED = "succeeded"


def size_upper_bound(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return an upper bound on the bytes of a batch with only this record, without encoding it."""
    size = HEADER_BYTES + RECORD_OVERHEAD_MAX + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        size += 2 * _VARINT_BYTES_MAX + 4 * len(name) + (len(content) if content else 0)
    return size


class ProducerBatch:
    """Records of one partition, and what becomes of them.

    `write_limit` is the size in bytes at which the batch is full; a first record may exceed it. `content_limit` is the
    size at which the uncompressed content is assumed to reach `write_limit` after compression. `allocated` are the
    bytes of the buffer pool that the batch holds. `size` is what the batch has in bytes, uncompressed while it is open.
    """

    __slots__ = (
        "_alike_bytes",
        "_alike_bytes_added",
        "_alike_limit",
        "_alike_value_bytes",
        "_alike_values",
        "_attempts_when_leader_changed",
        "_base_timestamp",
        "_is_header_current",
        "_last_timestamp",
        "_leader_epoch",
        "_max_timestamp",
        "_prefix",
        "_write_limit",
        "allocated",
        "attempts",
        "base_sequence",
        "buffer",
        "compression",
        "content_limit",
        "created_ms",
        "final_state",
        "is_buffer_deallocated",
        "is_closed",
        "is_full",
        "is_in_flight",
        "is_split_batch",
        "is_transactional",
        "last_error",
        "limit",
        "number",
        "producer_epoch",
        "producer_id",
        "record_count",
        "result",
        "retry_due_ms",
        "sequence_has_been_reset",
        "size",
        "topic_partition",
        "uncompressed_bytes",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        created_ms: float,
        write_limit: int,
        compression: Compression,
        *,
        content_limit: int = 0,
        number: int = 0,
        is_split_batch: bool = False,
    ) -> None:
        self.topic_partition = topic_partition
        self.created_ms = created_ms
        self.compression = compression
        self.content_limit = max(content_limit, write_limit)
        self.limit = self.allocated = self._write_limit = write_limit
        self.number = number  # in the order of creation; the parts of a split batch have its number
        self.is_split_batch = is_split_batch
        self.buffer = bytearray(HEADER_BYTES)  # without the values that are collected
        self.size = HEADER_BYTES
        self.uncompressed_bytes = 0
        self.record_count = 0
        self.result = ProduceRequestResult(topic_partition)
        self.attempts = 0
        self.retry_due_ms: float = 0
        self.last_error: KafkaError | None = None  # of the last attempt
        self.final_state: FinalState | None = None
        self.is_full = False
        self.is_closed = False
        self.is_in_flight = False
        self.is_buffer_deallocated = False
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = NO_SEQUENCE
        self.is_transactional = False
        self.sequence_has_been_reset = False
        self._is_header_current = False
        self._base_timestamp = self._max_timestamp = self._last_timestamp = NO_TIMESTAMP
        self._prefix = b"\x00\x00"  # attributes and timestamp delta of a record with the last timestamp
        self._alike_values: list[bytes] = []
        self._alike_value_bytes = 0  # of each of them
        self._alike_bytes = 0  # of each record with them; 0 if the last record has a key, headers or no value
        self._alike_bytes_added = 0
        self._alike_limit = 0
        self._leader_epoch = NO_EPOCH
        self._attempts_when_leader_changed = 0

    # Records

    def try_append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers) -> bool:
        """Encode a record into the batch; False if it has no room. The first record always has room."""
        if self._alike_values:
            self._encode_alike()
        index = self.record_count
        if timestamp != self._last_timestamp:
            self._set_timestamp(timestamp)
        head = self._prefix + (_VARINTS[index] if index < _CACHED else encode_varint(index))
        if key is None:
            head += b"\x01"
        else:
            size = len(key)
            head += (_VARINTS[size] if size < _CACHED else encode_varint(size)) + key
        tail = _encode_headers(headers) if headers else b"\x00"
        if value is None:
            value = b""
            head += b"\x01"
            size = len(head) + len(tail)
        else:
            size = len(value)
            head += _VARINTS[size] if size < _CACHED else encode_varint(size)
            size += len(head) + len(tail)
        record = b"".join((_VARINTS[size] if size < _CACHED else encode_varint(size), head, value, tail))
        end = self.size + len(record)
        if end >= self.limit:
            if end > self.limit and index:
                return False
            self.is_full = self.limit >= self.content_limit
        self.buffer += record
        self.size = end
        self.record_count = index + 1
        self._alike_limit = 0
        self._alike_bytes = len(record) if key is None and value and not headers else 0
        self._alike_value_bytes = len(value)
        if timestamp > self._max_timestamp:  # noqa: PLR1730  # faster than a call, for every record
            self._max_timestamp = timestamp
        return True

    def allow_alike(self, more_bytes: int) -> None:
        """Let `try_append_alike` add records of `more_bytes` in total. Not for full batches."""
        index, bytes_each = self.record_count, self._alike_bytes
        if bytes_each:
            count = min(ONE_BYTE if index <= ONE_BYTE else TWO_BYTES, index + _ALIKE_MAX) - index
            self._alike_limit = min(self.limit, self.size + more_bytes, self.size + count * bytes_each + 1)

    def try_append_alike(self, timestamp: int, value: bytes) -> bool:
        """Add a record with only a value, in short time, if the last one was like it and the batch will not be full.

        False if not, and before `allow_alike`: then `try_append` is for it.
        """
        if timestamp != self._last_timestamp or len(value) != self._alike_value_bytes:
            return False
        size = self.size + self._alike_bytes
        if size >= self._alike_limit:
            return False
        self.size = size
        self.record_count += 1
        self._alike_values.append(value)
        return True

    def take_alike_bytes(self) -> int:
        """Return the bytes of the records that `try_append_alike` added since the last call."""
        if self._alike_values:
            self._encode_alike()
        added, self._alike_bytes_added = self._alike_bytes_added, 0
        return added

    def _encode_alike(self) -> None:
        """Encode the values that were collected."""
        values, self._alike_values = self._alike_values, []
        count = len(values)
        first = self.record_count - count
        self._alike_bytes_added += count * self._alike_bytes
        fields = self._prefix + encode_varint(first) + b"\x01" + encode_varint(self._alike_value_bytes)
        size = encode_varint(len(fields) + self._alike_value_bytes + 1)
        buffer, begin = self.buffer, len(self.buffer)
        buffer += size + fields
        buffer += (b"\x00" + size + fields).join(values)
        buffer += b"\x00"
        delta_at = begin + len(size) + len(self._prefix)
        buffer[delta_at :: self._alike_bytes] = VARINT_LOW[first : first + count]
        if first >= ONE_BYTE:
            buffer[delta_at + 1 :: self._alike_bytes] = VARINT_HIGH[first : first + count]

    def _set_timestamp(self, timestamp: int) -> None:
        if not self.record_count:
            self._base_timestamp = timestamp
        self._last_timestamp = timestamp
        self._prefix = b"\x00" + encode_varint(timestamp - self._base_timestamp)

    def grow(self, more_bytes: int) -> None:
        """Use more bytes of the buffer pool, for a batch whose content is expected to shrink by compression."""
        self.allocated += more_bytes
        self.limit = min(self.content_limit, self.allocated)

    def close_for_record_appends(self) -> None:
        """Take no more records."""
        self.is_full = True
        self._alike_limit = 0

    def close(self) -> None:
        """Compress the records if they are to be, and write the header. After a reset of its sequence: the header."""
        self.close_for_record_appends()
        if not self.is_closed:
            self.is_closed = True
            if self._alike_values:
                self._encode_alike()
            self.uncompressed_bytes = self.size
            if self.compression.codec:
                self.buffer[HEADER_BYTES:] = self.compression.compress(memoryview(self.buffer)[HEADER_BYTES:])
                self.size = len(self.buffer)
        if not self._is_header_current:
            self._write_header()
        self.sequence_has_been_reset = False

    def _write_header(self) -> None:
        attributes = self.compression.codec | (TRANSACTIONAL_MASK if self.is_transactional else 0)
        HEADER.pack_into(
            self.buffer,
            0,
            0,
            len(self.buffer) - LOG_OVERHEAD,
            -1,
            MAGIC,
            0,
            attributes,
            self.record_count - 1,
            self._base_timestamp,
            self._max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        )
        set_crc(self.buffer)
        self._is_header_current = True

    def records(self) -> bytes:
        """Return the batch's bytes. It must be closed."""
        assert self.is_closed, "a batch is closed before it is sent"
        return self.buffer  # type: ignore[return-value]  # only joined into a request, and never changed after

    def estimated_size_in_bytes(self) -> int:
        """Return the size; of a batch that is still open and compresses, its share of the expected compressed size."""
        if self.is_closed or not self.compression.codec:
            return self.size
        return self.size * self._write_limit // max(self.content_limit, 1)

    def compression_ratio(self) -> float:
        """Return compressed by uncompressed size of a closed batch."""
        return (self.size - HEADER_BYTES) / max(1, self.uncompressed_bytes - HEADER_BYTES)

    # Producer state

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; numbers wrap from 2**31 - 1 to 0."""
        return (self.base_sequence + self.record_count - 1) & MAX_SEQUENCE

    @property
    def has_sequence(self) -> bool:
        """Whether sequence numbers were assigned."""
        return self.base_sequence != NO_SEQUENCE

    def set_producer_state(
        self, producer_id_and_epoch: ProducerIdAndEpoch, base_sequence: int, *, is_transactional: bool
    ) -> None:
        """Assign the producer id and epoch, and the sequence number of the first record."""
        self.producer_id, self.producer_epoch = producer_id_and_epoch
        self.base_sequence = base_sequence
        self.is_transactional = is_transactional
        self._is_header_current = False

    def reset_producer_state(self, producer_id_and_epoch: ProducerIdAndEpoch, base_sequence: int) -> None:
        """Assign new ones to a batch that was sent before; `close` writes them."""
        self.sequence_has_been_reset = True
        self.set_producer_state(producer_id_and_epoch, base_sequence, is_transactional=self.is_transactional)

    # Retries

    def reenqueued(self, retry_due_ms: float) -> None:
        """Count a failed attempt; the next one is not before `retry_due_ms` unless the leader changes."""
        self.attempts += 1
        self.retry_due_ms = retry_due_ms

    def maybe_update_leader_epoch(self, leader_epoch: int) -> None:
        """Take note of the partition's leader epoch at the time of an attempt (KIP-951)."""
        if leader_epoch > self._leader_epoch:
            self._attempts_when_leader_changed = self.attempts
            self._leader_epoch = leader_epoch

    def has_leader_changed_for_the_ongoing_retry(self) -> bool:
        """Whether the leader changed since the last attempt, so that the retry does not wait."""
        return self.attempts >= 1 and self.attempts == self._attempts_when_leader_changed

    def has_reached_delivery_timeout(self, delivery_timeout_ms: int, now_ms: float) -> bool:
        """Whether the records are too old to be delivered."""
        return now_ms >= self.created_ms + delivery_timeout_ms  # as the next expiry is computed

    # The end

    @property
    def is_done(self) -> bool:
        """Whether the batch has ended."""
        return self.final_state is not None

    def abort(self, error: KafkaError) -> None:
        """Fail all records of a batch that was not completed."""
        assert self.final_state is None, f"the batch has already {self.final_state}"
        self.close_for_record_appends()
        self.final_state = FinalState.ABORTED
        self.result.done(NO_OFFSET, NO_TIMESTAMP, lambda _index: error)

    def complete(self, base_offset: int, log_append_time: int) -> bool:
        """Acknowledge all records; False if the batch had ended before, by expiry or abort."""
        return self._done(FinalState.SUCCEEDED, base_offset, log_append_time, None)

    def complete_exceptionally(self, error_of: Callable[[int], KafkaError]) -> bool:
        """Fail each record with the error of its index; False if the batch had ended before."""
        return self._done(FinalState.FAILED, NO_OFFSET, NO_TIMESTAMP, error_of)

    def _done(
        self, state: FinalState, base_offset: int, log_append_time: int, error_of: Callable[[int], KafkaError] | None
    ) -> bool:
        if self.final_state is not None:
            assert self.final_state is not FinalState.SUCCEEDED, f"an acknowledged batch cannot have {state} too"
            return False
        self.close_for_record_appends()
        self.final_state = state
        self.result.done(base_offset, log_append_time, error_of)
        return True

    def split(self, write_limit: int) -> list["ProducerBatch"]:
        """Return the records in batches of at most `write_limit` bytes, a single longer record excepted.

        They take over the outcome, and the sequence numbers if there are any.
        """
        assert self.is_closed, "a batch is split after it was sent"
        (whole,) = read_batches(bytes(self.buffer), verify_crc=False)
        parts: list[ProducerBatch] = []
        firsts: list[int] = []
        for index, record in enumerate(whole.records()):
            row = record.timestamp, record.key, record.value, record.headers
            if not parts or not parts[-1].try_append(*row):
                part = ProducerBatch(
                    self.topic_partition,
                    self.created_ms,
                    write_limit,
                    self.compression,
                    number=self.number,
                    is_split_batch=True,
                )
                parts.append(part)
                firsts.append(index)
                part.try_append(*row)
        for first, part in zip(firsts, parts, strict=True):
            part.close_for_record_appends()
            part.allocated = 0
            if self.has_sequence:
                producer = ProducerIdAndEpoch(self.producer_id, self.producer_epoch)
                sequence = (self.base_sequence + first) & MAX_SEQUENCE
                part.set_producer_state(producer, sequence, is_transactional=self.is_transactional)
        self.result.split([(first, part.result) for first, part in zip(firsts, parts, strict=True)])
        return parts

    def max_record_size(self) -> int:
        """Return the size of a batch with only the largest record."""
        (whole,) = read_batches(bytes(self.buffer), verify_crc=False)
        return max(size_upper_bound(record.key, record.value, record.headers) for record in whole.records())


def _encode_headers(headers: Headers) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, content in headers:
        encoded = name.encode()
        parts += (encode_varint(len(encoded)), encoded)
        parts += (b"\x01",) if content is None else (encode_varint(len(content)), content)
    return b"".join(parts)
