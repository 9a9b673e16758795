"""Records that a leader has accepted and not written yet.

    append(epoch, values) ─┐ several lists share a batch up to its maximum size
    append(epoch, values) ─┴─> batch being built ──> drain ──> CompletedBatch, as bytes for the log
    append_control(records) ─────────────────────────> a separate batch, in order

A list is never split over batches, so it is committed as a whole or not at all. Offsets are assigned at once. There is
no linger: everything is drained at the end of the step. Source: BatchAccumulator and BatchBuilder of Kafka 4.3.1.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from kraft_core.protocol.batch_header import CONTROL_MASK, HEADER_BYTES
from kraft_core.protocol.control_records import ControlRecord, encode_control
from kraft_core.protocol.errors import BufferExhausted, InvalidRequest, NotController, RecordBatchTooLarge
from kraft_core.protocol.record_batch import encode_records, frame_batch

MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
MAX_WAITING_BYTES: Final = 10 * MAX_BATCH_BYTES
"""Upper bound on waiting bytes. Source: KafkaRaftClient, which allows ten batches."""


class CompletedBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch that is ready to be written."""

    base_offset: int
    last_offset: int
    timestamp_ms: int
    is_control: bool
    raw: bytes

    @property
    def record_count(self) -> int:
        """Number of records in the batch."""
        return self.last_offset - self.base_offset + 1


class _Batch:
    """A batch being built."""

    __slots__ = ("attributes", "base_offset", "count", "parts", "size")

    def __init__(self, base_offset: int, attributes: int = 0) -> None:
        self.base_offset = base_offset
        self.attributes = attributes
        self.count = 0
        self.size = HEADER_BYTES
        self.parts: list[bytes] = []


class BatchAccumulator:
    """The waiting records of one leader in one epoch. Sizes are bytes on disk."""

    __slots__ = ("_batches", "_max_batch_bytes", "_max_waiting_bytes", "_waiting_bytes", "epoch", "next_offset")

    def __init__(
        self,
        epoch: int,
        base_offset: int,
        max_batch_bytes: int = MAX_BATCH_BYTES,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
    ) -> None:
        self.epoch = epoch
        self.next_offset = base_offset
        self._max_batch_bytes = max_batch_bytes
        self._max_waiting_bytes = max_waiting_bytes
        self._waiting_bytes = 0
        self._batches: list[_Batch] = []

    def append(self, epoch: int, values: Sequence[bytes]) -> int:
        """Accept records that must be committed together; return the offset that the last one will have.

        Raises without accepting anything: NotController for an epoch that is over, InvalidRequest for no records,
        RecordBatchTooLarge above the maximum size of a batch, BufferExhausted above MAX_WAITING_BYTES, ValueError for a
        future epoch.
        """
        if epoch < self.epoch:
            raise NotController(f"Append failed because epoch {epoch} is over: the leader's is {self.epoch}.")
        if epoch > self.epoch:
            raise ValueError(f"Append in epoch {epoch}, which is larger than the current epoch {self.epoch}.")
        if not values:
            raise InvalidRequest("Append failed because there are no records.")
        batch = self._batches[-1] if self._batches else None
        first_delta = batch.count if batch is not None and not batch.attributes else 0
        parts = encode_records(values, first_delta=first_delta)
        size = sum(map(len, parts))
        if batch is None or batch.attributes or batch.size + size > self._max_batch_bytes:
            if first_delta:  # the records need a batch without those before them
                parts = encode_records(values)
                size = sum(map(len, parts))
            batch = None
            self._check(size + HEADER_BYTES)
        elif self._waiting_bytes + size > self._max_waiting_bytes:
            raise self._exhausted(size)
        return self._take(batch or self._begin(), parts, size, len(values))

    def append_control(self, records: Sequence[ControlRecord]) -> int:
        """Accept control records as a separate batch; return the offset that the last one will have.

        No limit applies: only raft writes them, and they are few and small.
        """
        assert records, "a control batch has at least one record"
        pairs = [encode_control(record) for record in records]
        parts = encode_records([value for _, value in pairs], [key for key, _ in pairs])
        return self._take(self._begin(CONTROL_MASK), parts, sum(map(len, parts)), len(records))

    def _check(self, batch_bytes: int) -> None:
        """Raise unless a new batch of this size is allowed."""
        if batch_bytes > self._max_batch_bytes:
            raise RecordBatchTooLarge(
                f"A batch of {batch_bytes} bytes is needed, which exceeds the maximum of {self._max_batch_bytes}."
            )
        if self._waiting_bytes + batch_bytes > self._max_waiting_bytes:
            raise self._exhausted(batch_bytes)

    def _exhausted(self, size: int) -> BufferExhausted:
        waiting, most = self._waiting_bytes, self._max_waiting_bytes
        return BufferExhausted(f"Append of {size} bytes failed: {waiting} of {most} bytes wait to be written.")

    def _begin(self, attributes: int = 0) -> _Batch:
        batch = _Batch(self.next_offset, attributes)
        self._batches.append(batch)
        self._waiting_bytes += HEADER_BYTES
        return batch

    def _take(self, batch: _Batch, parts: list[bytes], size: int, count: int) -> int:
        batch.parts += parts
        batch.size += size
        batch.count += count
        self._waiting_bytes += size
        self.next_offset += count
        return self.next_offset - 1

    def drain(self, now_ms: int) -> list[CompletedBatch]:
        """Remove and return everything that waits, as batches with this timestamp."""
        batches, self._batches = self._batches, []
        self._waiting_bytes = 0
        return [
            CompletedBatch(
                each.base_offset,
                each.base_offset + each.count - 1,
                now_ms,
                bool(each.attributes),
                frame_batch(each.base_offset, self.epoch, now_ms, each.count, each.parts, attributes=each.attributes),
            )
            for each in batches
        ]
