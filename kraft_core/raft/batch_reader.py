"""Committed batches for a listener: read from the log, or from the leader's memory if it appended them itself.

Source: BatchReader, RecordsBatchReader, MemoryBatchReader of Kafka 4.3.1.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, Protocol, Self, TypeVar

from kraft_core.protocol.record_batch import RecordBatch, read_batches
from kraft_core.raft.internals.batch_accumulator import CompletedBatch
from kraft_core.raft.raft_log import RaftLog

Batch = TypeVar("Batch", RecordBatch, CompletedBatch)

READ_BYTES: Final = 256 * 1024
"""Upper bound on a reader's bytes, except for one larger batch. A listener replays this many in about 30 ms."""


class BatchReader(Protocol):
    """Contiguous committed batches, all known when the reader is created. The listener must close it, read or not."""

    @property
    def base_offset(self) -> int:
        """Offset of the first record."""

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""

    @property
    def last_timestamp(self) -> int:
        """Time at which the last batch was appended, in ms."""

    @property
    def size_bytes(self) -> int:
        """Size of all batches in bytes."""

    def __iter__(self) -> Iterator[RecordBatch]:
        """Iterate over the batches in order."""

    def close(self) -> None:
        """Report that all batches were handled. A second call does nothing."""


class _HeldBatches(ABC, Generic[Batch]):
    """Base of both readers: the batches, and the function to call on close."""

    __slots__ = ("_batches", "_on_close")

    def __init__(self, batches: Sequence[Batch], on_close: Callable[[BatchReader], None]) -> None:
        assert batches, "a reader has at least one batch"
        self._batches: Sequence[Batch] = batches
        self._on_close: Callable[[BatchReader], None] | None = on_close

    @property
    def base_offset(self) -> int:
        """See BatchReader."""
        return self._batches[0].base_offset

    @property
    def last_offset(self) -> int:
        """See BatchReader."""
        return self._batches[-1].last_offset

    @property
    @abstractmethod
    def last_timestamp(self) -> int:
        """See BatchReader."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """See BatchReader."""

    @abstractmethod
    def __iter__(self) -> Iterator[RecordBatch]:
        """See BatchReader."""

    def close(self) -> None:
        """See BatchReader."""
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close(self)


class RecordsBatchReader(_HeldBatches[RecordBatch]):
    """The whole batches of a piece of the log that are below the high watermark; their CRCs have been checked."""

    __slots__ = ()

    @classmethod
    def of(cls, log: RaftLog, offset: int, high_watermark: int, on_close: Callable[[BatchReader], None]) -> Self | None:
        """Return a reader from `offset`; None if no whole batch from there is committed. Raises CorruptBatch."""
        batches = []
        for batch in read_batches(log.read(offset, READ_BYTES)):
            if batch.last_offset >= high_watermark:
                break
            batches.append(batch)
        return cls(batches, on_close) if batches else None

    @property
    def last_timestamp(self) -> int:
        """See BatchReader."""
        return self._batches[-1].max_timestamp

    @property
    def size_bytes(self) -> int:
        """See BatchReader."""
        return sum(batch.size for batch in self._batches)

    def __iter__(self) -> Iterator[RecordBatch]:
        return iter(self._batches)


class MemoryBatchReader(_HeldBatches[CompletedBatch]):
    """Batches that the leader appended itself: nothing is read from the log, and they are decoded only on iteration."""

    __slots__ = ()

    @property
    def last_timestamp(self) -> int:
        """See BatchReader."""
        return self._batches[-1].timestamp_ms

    @property
    def size_bytes(self) -> int:
        """See BatchReader."""
        return sum(len(batch.raw) for batch in self._batches)

    def __iter__(self) -> Iterator[RecordBatch]:
        for batch in self._batches:
            yield from read_batches(batch.raw, verify_crc=False)
