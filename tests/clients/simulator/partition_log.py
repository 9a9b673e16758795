"""The truth of one partition: its batches, leader, high watermark, producers and transactions.

Replication is a delay between the end of the log and the high watermark. A new leader keeps all committed batches and
any number of the others.

Source: UnifiedLog, ProducerStateManager, ProducerAppendInfo of Kafka 4.3.1.
"""

import struct
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.batch_header import LEADER_EPOCH_POSITION, MAX_SEQUENCE
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.record_batch import RecordBatch, encode_batch, read_batches

COMMIT, ABORT = b"\x00\x00\x00\x01", b"\x00\x00\x00\x00"
"""Keys of the markers that end a transaction."""


@dataclass(slots=True)
class Producer:
    """An idempotent producer in one partition: its last five batches as (first sequence, last sequence, offset)."""

    epoch: int = -1
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))
    transaction_from: int | None = None


@dataclass(slots=True)
class Waiter:
    """A produce request with acks=all that waits until the high watermark reaches an offset."""

    offset: int
    answer: Callable[[ErrorCode], None]


class PartitionLog:
    """One partition. Offsets below `high_watermark` are committed; `visible` is the leader's knowledge of it."""

    def __init__(self, partition: TopicPartition, topic_id: UUID, leader: int) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.leader = leader
        self.epoch = 0
        self.batches: list[RecordBatch] = []
        self.epochs: list[tuple[int, int]] = [(0, 0)]  # epoch, first offset
        self.start = self.end = self.high_watermark = self.visible = 0
        self.producers: dict[int, Producer] = {}
        self.aborted: list[tuple[int, int, int]] = []  # producer id, first and last offset
        self.waiters: list[Waiter] = []
        self.is_short_of_replicas = False
        self.truncations = 0

    # Writing

    def append(self, batch: RecordBatch) -> tuple[int, bool]:
        """Write the batch of a produce request; return its offset and whether it was written before.

        Raises KafkaError of the broker's checks.
        """
        if batch.has_producer_id and not batch.is_control:
            known = self._find_duplicate(batch)
            if known is not None:
                return known, True
            self._check_sequence(batch)
        raw = bytearray(batch.raw)
        struct.pack_into(">q", raw, 0, self.end)
        struct.pack_into(">i", raw, LEADER_EPOCH_POSITION, self.epoch)
        return self._write(bytes(raw)), False

    def _write(self, raw: bytes) -> int:
        (batch,) = read_batches(raw, verify_crc=False)
        self.batches.append(batch)
        self.end = batch.last_offset + 1
        self._note_producer(batch)
        return batch.base_offset

    def _find_duplicate(self, batch: RecordBatch) -> int | None:
        producer = self.producers.get(batch.producer_id)
        if producer is None or producer.epoch != batch.producer_epoch:
            return None
        for first, last, offset in producer.batches:
            if (first, last) == (batch.base_sequence, batch.last_sequence):
                return offset
        return None

    def _check_sequence(self, batch: RecordBatch) -> None:
        producer = self.producers.get(batch.producer_id)
        if producer is None or producer.epoch < 0:
            return
        if batch.producer_epoch < producer.epoch:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
        if batch.producer_epoch > producer.epoch:
            if batch.base_sequence != 0:
                raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        elif batch.base_sequence != ((producer.batches[-1][1] if producer.batches else -1) + 1) & MAX_SEQUENCE:
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    def _note_producer(self, batch: RecordBatch) -> None:
        if not batch.has_producer_id:
            return
        producer = self.producers.setdefault(batch.producer_id, Producer())
        if batch.producer_epoch != producer.epoch:
            producer.epoch = batch.producer_epoch
            producer.batches.clear()
        if batch.is_control:
            self._end_transaction(producer, batch)
            return
        producer.batches.append((batch.base_sequence, batch.last_sequence, batch.base_offset))
        if batch.is_transactional and producer.transaction_from is None:
            producer.transaction_from = batch.base_offset

    def _end_transaction(self, producer: Producer, marker: RecordBatch) -> None:
        (record,) = marker.records()
        if record.key == ABORT and producer.transaction_from is not None:
            self.aborted.append((marker.producer_id, producer.transaction_from, marker.base_offset))
        producer.transaction_from = None

    def end_transaction(self, producer_id: int, producer_epoch: int, timestamp_ms: int, *, commits: bool) -> None:
        """Write the marker of a transaction's end."""
        key = COMMIT if commits else ABORT
        self._write(
            encode_batch(
                self.end,
                self.epoch,
                timestamp_ms,
                [b"\x00\x00\x00\x00\x00\x00"],
                control_keys=[key],
                is_transactional=True,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
            )
        )

    # Replication

    def commit(self, offset: int) -> None:
        """Raise the high watermark, and answer the requests that waited for it."""
        self.high_watermark = max(self.high_watermark, min(offset, self.end))
        self.visible = self.high_watermark
        done = [waiter for waiter in self.waiters if waiter.offset <= self.high_watermark]
        self.waiters = [waiter for waiter in self.waiters if waiter.offset > self.high_watermark]
        for waiter in done:
            waiter.answer(ErrorCode.NONE)

    def elect(self, leader: int, keep: int, visible: int) -> None:
        """Make a broker the leader. It has the batches below offset `keep`, and knows of a commit up to `visible`."""
        self.leader = leader
        self.epoch += 1
        if keep < self.end:
            self._truncate(keep)
        self.epochs.append((self.epoch, self.end))
        self.visible = min(visible, self.high_watermark)
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _truncate(self, offset: int) -> None:
        self.truncations += 1
        batches, self.batches = self.batches, []
        self.producers.clear()
        self.aborted.clear()
        self.end = self.start
        for batch in batches:
            if batch.base_offset >= offset:
                break
            self.batches.append(batch)
            self.end = batch.last_offset + 1
            self._note_producer(batch)
        self.high_watermark = min(self.high_watermark, self.end)
        self.epochs = [(epoch, first) for epoch, first in self.epochs if first <= self.end]

    # Reading

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the oldest open transaction, at most what the leader knows to be committed."""
        open_from = [each.transaction_from for each in self.producers.values() if each.transaction_from is not None]
        return min([*open_from, self.visible])

    def read(self, offset: int, limit: int, max_bytes: int) -> bytes:
        """Return whole batches from the one that contains `offset` on, below `limit`; the first whatever its size."""
        taken: list[bytes] = []
        size = 0
        for batch in self.batches:
            if batch.last_offset < offset:
                continue
            if batch.last_offset >= limit or (taken and size + len(batch.raw) > max_bytes):
                break
            taken.append(batch.raw)
            size += len(batch.raw)
        return b"".join(taken)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to `epoch` that the log has, and the offset at which it ends."""
        found = (-1, -1)
        for index, (each, _) in enumerate(self.epochs):
            if each <= epoch:
                end = self.epochs[index + 1][1] if index + 1 < len(self.epochs) else self.end
                found = (each, end)
        return found

    def boundaries(self, first: int, last: int) -> list[int]:
        """Return the offsets between batches from `first` to `last`, both included where they are such."""
        ends = [self.start, *(batch.last_offset + 1 for batch in self.batches)]
        return [offset for offset in ends if first <= offset <= last]

    def committed_batches(self) -> Iterator[RecordBatch]:
        """Yield the committed batches, markers included."""
        return (batch for batch in self.batches if batch.last_offset < self.high_watermark)

    def is_aborted(self, batch: RecordBatch) -> bool:
        """Return whether the batch belongs to a transaction that was aborted."""
        return batch.is_transactional and any(
            batch.producer_id == producer_id and first <= batch.base_offset <= last
            for producer_id, first, last in self.aborted
        )
