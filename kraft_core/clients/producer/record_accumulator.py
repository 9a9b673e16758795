"""Records on their way: a queue of batches per partition, and which batches can be sent now.

`append` adds a record to the last batch of its partition, or to a new one if the buffer pool has room. `ready` names
the nodes for which batches are due, `drain` takes the batches for them, one per partition, each time from the
partitions that have waited longest. The accumulator sends nothing; times are ms of a monotonic clock.

Source: RecordAccumulator, Kafka 4.3.1; KIP-91 (delivery timeout), KIP-480 and KIP-794 (sticky partitions).
"""

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from kraft_core.clients.client_metadata import ClientMetadata, TopicPartition
from kraft_core.clients.exponential_backoff import ExponentialBackoff
from kraft_core.clients.producer.buffer_pool import BufferPool
from kraft_core.clients.producer.producer_batch import Headers, ProducerBatch, size_upper_bound
from kraft_core.clients.producer.topic_info import NodeLatencyStats, TopicInfo
from kraft_core.clients.producer.transaction_manager import TransactionManager
from kraft_core.protocol.batch_header import MAX_SEQUENCE
from kraft_core.protocol.compression import Compression
from kraft_core.protocol.errors import ErrorCode, KafkaError

UNKNOWN_PARTITION: Final = -1
NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class AccumulatorConfig:
    """Sizes in bytes and times in ms; the names are those of Kafka's configs with underscores."""

    batch_size: int = 16_384
    linger_ms: int = 5
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    delivery_timeout_ms: int = 120_000
    metadata_max_idle_ms: int = 300_000
    max_request_size: int = 1_048_576
    compression: Compression = field(default_factory=Compression)
    adaptive_partitioning: bool = True  # partitioner.adaptive.partitioning.enable
    partition_availability_timeout_ms: int = 0  # partitioner.availability.timeout.ms


@dataclass(frozen=True, slots=True)
class ReadyCheckResult:
    """Nodes with batches that are due, the time at which others are (NEVER for none), and topics without a leader."""

    ready_nodes: set[int]
    next_ready_check_ms: float
    unknown_leader_topics: set[str]


class RecordAccumulator:
    """The batches of one producer. `random` is drawn from for partitions and for jitter.

    `open_batches` has, by topic, the last batch that `append` put a record into whose partition it chose, if the value
    had the size of the one before: another one may be added with the batch's `try_append_alike` instead.
    """

    def __init__(
        self,
        config: AccumulatorConfig,
        metadata: ClientMetadata,
        free: BufferPool,
        random: Random,
        transaction_manager: TransactionManager | None = None,
    ) -> None:
        self.config = config
        self.free = free
        self.transaction_manager = transaction_manager
        self.next_expiry_time_ms: float = NEVER
        self.is_closed = False
        self.last_batch_number = 0
        self.open_batches: dict[str, ProducerBatch] = {}
        self._metadata = metadata
        self._random = random
        self.retry_backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, random)
        self._topics: dict[str, TopicInfo] = {}
        self._queued: dict[TopicPartition, deque[ProducerBatch]] = {}  # not empty ones; the next to be drained first
        self._incomplete: dict[ProducerBatch, None] = {}
        self._muted: set[TopicPartition] = set()
        self._flushes_in_progress = 0
        self._node_stats = NodeLatencyStats(config.partition_availability_timeout_ms)

    # Appending

    def append(
        self,
        topic: str,
        partition: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        now_ms: float,
        granted: int = 0,
    ) -> ProducerBatch | None:
        """Add a record -> its batch, in which it is the last; None if a new batch is needed and the pool has no room.

        UNKNOWN_PARTITION lets the built-in partitioner choose. `granted` are bytes that the caller has reserved for a
        new batch (see `needed_bytes`); they are used or returned to the pool. The topic's metadata must be known.
        Raises KafkaError once the accumulator is closed.
        """
        if self.is_closed:
            self.free.deallocate(granted)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The producer was closed while send was in progress.")
        info = self._topics.get(topic) or self.use_topic(topic, now_ms)
        sticky = info.partitioner if partition < 0 else None
        is_repeated = False
        if sticky is not None:
            if (opened := self.open_batches.pop(topic, None)) is not None:
                sticky.produced_bytes += opened.take_alike_bytes()
            if value is not None:
                is_repeated = len(value) == info.value_bytes
                info.value_bytes = len(value)
        while True:
            if sticky is not None:
                if sticky.partition < 0:
                    info.draw_partition(self._metadata, self._node_stats)
                partition = sticky.partition
            batches = info.batches.get(partition)
            if batches:
                batch = batches[-1]
                if not batch.is_full:
                    before = batch.size
                    if batch.try_append(timestamp, key, value, headers) or (
                        self._grow(batch) and batch.try_append(timestamp, key, value, headers)
                    ):
                        if sticky is not None:
                            sticky.produced_bytes += batch.size - before
                            if is_repeated or sticky.produced_bytes >= sticky.sticky_batch_size:
                                self._maybe_switch(topic, info, batch, may_open=is_repeated)
                        if granted:
                            self.free.deallocate(granted)
                        return batch
                    batch.close_for_record_appends()
            if sticky is None or not sticky.is_switch_due(all_batches_full=True):
                break
            info.draw_partition(self._metadata, self._node_stats)
        size = self.needed_bytes(key, value, headers)
        if granted < size and not self.free.allocate(size):
            return None
        batch = self._new_batch(TopicPartition(topic, partition), info, size, now_ms)
        batch.try_append(timestamp, key, value, headers)
        if sticky is not None:
            sticky.produced_bytes += batch.size
            self._maybe_switch(topic, info, batch, may_open=is_repeated)
        return batch

    def _maybe_switch(self, topic: str, info: TopicInfo, batch: ProducerBatch, *, may_open: bool) -> None:
        """Draw another partition for records without a key if this one has got enough; else the batch may be open."""
        sticky = info.partitioner
        if sticky.is_switch_due(all_batches_full=batch.is_full):
            info.draw_partition(self._metadata, self._node_stats)
        elif may_open and not batch.is_full:
            batch.allow_alike(2 * sticky.sticky_batch_size - sticky.produced_bytes)
            self.open_batches[topic] = batch

    def use_topic(self, topic: str, now_ms: float) -> TopicInfo:
        """Take note that a topic is used, so that its metadata is kept."""
        info = self._topics.get(topic)
        if info is None:
            is_adaptive = self.config.adaptive_partitioning
            info = TopicInfo(topic, self.config.batch_size, self._random, is_adaptive=is_adaptive)
            self._topics[topic] = info
        info.last_used_ms = now_ms
        return info

    def forget_idle_topics(self, in_flight: Collection[str], now_ms: float) -> None:
        """Forget the topics that were not used for metadata.max.idle.ms, and their metadata (KIP-526)."""
        idle_ms = self.config.metadata_max_idle_ms
        used = {partition.topic for partition in self._queued}.union(in_flight)
        idle = {
            topic for topic, info in self._topics.items() if now_ms - info.last_used_ms >= idle_ms and topic not in used
        }
        for topic in idle:
            del self._topics[topic]
            self.open_batches.pop(topic, None)
        if idle and self._metadata.wanted is not None:
            self._metadata.want_only(set(self._metadata.wanted) - idle)

    def needed_bytes(self, key: bytes | None, value: bytes | None, headers: Headers) -> int:
        """Return the bytes of the pool that a new batch with this record takes."""
        return max(self.config.batch_size, size_upper_bound(key, value, headers))

    def _new_batch(self, partition: TopicPartition, info: TopicInfo, size: int, now_ms: float) -> ProducerBatch:
        config = self.config
        content_limit = size
        if config.compression.codec:
            content_limit = info.content_limit(size, config.max_request_size)
        info.last_used_ms = now_ms
        self.last_batch_number += 1
        batch = ProducerBatch(
            partition,
            now_ms,
            size,
            config.compression,
            content_limit=content_limit,
            number=self.last_batch_number,
        )
        self._queue(partition).append(batch)
        self._incomplete[batch] = None
        self.next_expiry_time_ms = min(self.next_expiry_time_ms, now_ms + config.delivery_timeout_ms)
        return batch

    def _grow(self, batch: ProducerBatch) -> bool:
        """Reserve more memory for a batch that compresses, so that its uncompressed records stay within the pool."""
        size = self.config.batch_size
        if batch.allocated >= batch.content_limit or not size or not self.free.allocate(size):
            return False
        batch.grow(size)
        return True

    def update_node_latency_stats(self, node_id: int, now_ms: float, *, can_drain: bool) -> None:
        """Take note that a node had batches to send, and whether it could take them."""
        self._node_stats.update(node_id, now_ms, can_drain=can_drain)

    def _queue(self, partition: TopicPartition) -> deque[ProducerBatch]:
        """Return a partition's batches, and take note that it has some."""
        info = self._topics[partition.topic]
        queue = info.batches.get(partition.partition)
        if queue is None:
            queue = info.batches[partition.partition] = deque()
        self._queued.setdefault(partition, queue)
        return queue

    # Sending

    def ready(self, metadata: ClientMetadata, now_ms: float) -> ReadyCheckResult:
        """Find the nodes with batches that are due: full, lingered, needed for a flush, or when memory is short."""
        manager = self.transaction_manager
        is_urgent = (
            self.free.queued > 0
            or self.is_closed
            or self._flushes_in_progress > 0
            or (manager is not None and manager.is_completing)
        )
        result = ReadyCheckResult(set(), NEVER, set())
        next_check_ms = NEVER
        for info in self._topics.values():
            info.has_load_stats = False
        for partition, batches in self._queued.items():
            known = metadata.partition(partition)
            if known is None or known.leader not in metadata.nodes:
                result.unknown_leader_topics.add(partition.topic)
                continue
            if known.leader in result.ready_nodes or partition in self._muted:
                continue
            batch = batches[0]
            batch.maybe_update_leader_epoch(known.leader_epoch)
            if self._is_backing_off(batch, now_ms):
                due_ms = batch.retry_due_ms
            elif is_urgent or batch.attempts or len(batches) > 1 or batch.is_full:
                due_ms = now_ms
            else:
                due_ms = batch.created_ms + self.config.linger_ms
            if due_ms <= now_ms:
                result.ready_nodes.add(known.leader)
            else:
                next_check_ms = min(next_check_ms, due_ms)
        return ReadyCheckResult(result.ready_nodes, next_check_ms, result.unknown_leader_topics)

    def _is_backing_off(self, batch: ProducerBatch, now_ms: float) -> bool:
        return (
            batch.attempts > 0 and now_ms < batch.retry_due_ms and not batch.has_leader_changed_for_the_ongoing_retry()
        )

    def drain(
        self, metadata: ClientMetadata, nodes: Collection[int], max_size: int, now_ms: float
    ) -> dict[int, list[ProducerBatch]]:
        """Take batches for these nodes, closed: one per partition, at most `max_size` bytes a node but at least one."""
        drained: dict[int, list[ProducerBatch]] = {node_id: [] for node_id in nodes}
        sizes = dict.fromkeys(nodes, 0)
        for partition, batches in list(self._queued.items()):
            known = metadata.partition(partition)
            if known is None or known.leader not in sizes or partition in self._muted:
                continue
            node_id, first = known.leader, batches[0]
            first.maybe_update_leader_epoch(known.leader_epoch)
            if self._is_backing_off(first, now_ms):
                continue
            if drained[node_id] and sizes[node_id] + first.estimated_size_in_bytes() > max_size:
                del sizes[node_id]  # the node is full
                continue
            if self._should_stop_drain_batches_for_partition(first, partition):
                continue
            self._take_first(partition, batches)
            self._assign_sequence(first)
            was_closed = first.is_closed
            first.close()
            if not was_closed and self.config.compression.codec:
                self._topics[partition.topic].observe_compression(first)
            sizes[node_id] += first.size
            drained[node_id].append(first)
        return drained

    def _take_first(self, partition: TopicPartition, batches: deque[ProducerBatch]) -> None:
        """Remove the first batch; the partition's other batches wait behind the other partitions."""
        batches.popleft()
        del self._queued[partition]
        if batches:
            self._queued[partition] = batches

    def _should_stop_drain_batches_for_partition(self, first: ProducerBatch, partition: TopicPartition) -> bool:
        """Whether the transaction manager does not allow the partition's first batch to be sent now."""
        manager = self.transaction_manager
        if manager is None:
            return False
        if not manager.is_send_to_partition_allowed(partition) or not manager.producer_id_and_epoch.is_valid:
            return True
        if not first.has_sequence:
            if manager.has_inflight_batches(partition) and manager.has_stale_producer_id_and_epoch(partition):
                return True
            if manager.is_first_batch_in_flight(partition) or manager.must_await_earlier_batches(partition):
                return True
            return manager.has_unresolved_sequence(partition)
        first_in_flight = manager.first_in_flight_sequence(partition)
        return first_in_flight >= 0 and first.base_sequence != first_in_flight

    def _assign_sequence(self, batch: ProducerBatch) -> None:
        manager = self.transaction_manager
        if manager is None or batch.has_sequence:
            return
        partition = batch.topic_partition
        producer = manager.producer_id_and_epoch
        manager.maybe_update_producer_id_and_epoch(partition)
        sequence = manager.sequence_number(partition)
        batch.set_producer_state(producer, sequence, is_transactional=manager.is_transactional)
        manager.increment_sequence_number(partition, batch.record_count)
        manager.add_in_flight_batch(batch)

    # After an attempt

    def reenqueue(self, batch: ProducerBatch, now_ms: float) -> None:
        """Queue a batch again, before those that were never sent, for a retry after the back-off."""
        batch.reenqueued(now_ms + self.retry_backoff.after(batch.attempts))
        self._put_back(batch)

    def split_and_reenqueue(self, batch: ProducerBatch) -> int:
        """Queue the records of a batch that the broker found too large in smaller batches; return how many."""
        self._topics[batch.topic_partition.topic].observe_split(batch)
        target = self.config.batch_size
        if batch.is_split_batch or batch.size <= target:
            target = max(batch.max_record_size(), batch.size // 2)
        parts = batch.split(target)
        for part in reversed(parts):
            self._incomplete[part] = None
            if self.transaction_manager is not None:
                self.transaction_manager.add_in_flight_batch(part)
            self._put_back(part)
        return len(parts)

    def _put_back(self, batch: ProducerBatch) -> None:
        """Put a batch in its place: before those created later; with sequence numbers, behind those with lower ones.

        So a queue is in the order in which its batches expire, where Kafka puts each batch without a sequence first.
        """
        queue = self._queue(batch.topic_partition)
        position = 0
        if self.transaction_manager is not None:
            assert batch.has_sequence, "a batch of an idempotent producer is queued again with its sequence"
            while position < len(queue) and queue[position].has_sequence and _is_before(queue[position], batch):
                position += 1
        else:
            while position < len(queue) and queue[position].number < batch.number:
                position += 1
        queue.insert(position, batch)

    def expired_batches(self, now_ms: float) -> list[ProducerBatch]:
        """Take the batches that are too old to be delivered out of their queues."""
        expired: list[ProducerBatch] = []
        for partition, batches in list(self._queued.items()):
            while batches and batches[0].has_reached_delivery_timeout(self.config.delivery_timeout_ms, now_ms):
                expired.append(batches.popleft())
            if batches:
                self.maybe_update_next_batch_expiry_time(batches[0])
            else:
                del self._queued[partition]
        return expired

    def reset_next_batch_expiry_time(self) -> None:
        """Forget the next expiry, before all batches are looked at."""
        self.next_expiry_time_ms = NEVER

    def maybe_update_next_batch_expiry_time(self, batch: ProducerBatch) -> None:
        """Take note of when a batch expires."""
        expiry_ms = batch.created_ms + self.config.delivery_timeout_ms
        self.next_expiry_time_ms = min(self.next_expiry_time_ms, expiry_ms)

    def mute_partition(self, partition: TopicPartition) -> None:
        """Hold a partition's batches back until the one in flight is answered."""
        self._muted.add(partition)

    def unmute_partition(self, partition: TopicPartition) -> None:
        """Let a partition's batches be sent again."""
        self._muted.discard(partition)

    # The end of batches

    def complete_and_deallocate_batch(self, batch: ProducerBatch) -> None:
        """Forget a batch and return its memory."""
        self.complete_batch(batch)
        self.deallocate(batch)

    def complete_batch(self, batch: ProducerBatch) -> None:
        """Forget a batch; its memory is still used by a request in flight."""
        self._incomplete.pop(batch, None)

    def deallocate(self, batch: ProducerBatch) -> None:
        """Return a batch's memory to the pool, once."""
        if not batch.is_buffer_deallocated:
            batch.is_buffer_deallocated = True
            self.free.deallocate(batch.allocated)

    @property
    def has_undrained(self) -> bool:
        """Whether batches wait to be sent."""
        return bool(self._queued)

    @property
    def has_incomplete(self) -> bool:
        """Whether batches have no outcome yet."""
        return bool(self._incomplete)

    def has_incomplete_until(self, number: int) -> bool:
        """Whether a batch with a number up to this one has no outcome yet."""
        return any(batch.number <= number for batch in self._incomplete)

    def begin_flush(self) -> int:
        """Send all batches without linger until `end_flush`; return the number of the last of them."""
        self._flushes_in_progress += 1
        for batches in self._queued.values():
            batches[-1].close_for_record_appends()
        return self.last_batch_number

    def end_flush(self) -> None:
        """End a flush that was begun."""
        self._flushes_in_progress -= 1

    def abort_batches(self, error: KafkaError) -> None:
        """Fail all batches without an outcome."""
        self._abort(list(self._incomplete), error)

    def abort_undrained_batches(self, error: KafkaError) -> None:
        """Fail the batches that were never sent."""
        if self.transaction_manager is not None:
            self._abort([batch for batch in self._incomplete if not batch.has_sequence], error)
        else:
            self._abort([batch for batch in self._incomplete if not batch.is_closed], error)

    def _abort(self, aborted: Iterable[ProducerBatch], error: KafkaError) -> None:
        for batch in aborted:
            queue = self._queued.get(batch.topic_partition)
            if queue is not None and batch in queue:
                queue.remove(batch)
                if not queue:
                    del self._queued[batch.topic_partition]
            batch.abort(error)
            self.complete_batch(batch)
            if not batch.is_in_flight:
                self.deallocate(batch)

    def close(self) -> None:
        """Refuse further records; those already taken are sent without linger."""
        self.is_closed = True
        self.open_batches.clear()


def _is_before(batch: ProducerBatch, other: ProducerBatch) -> bool:
    """Whether a batch has the lower sequence numbers, which wrap from 2**31 - 1 to 0."""
    return 0 < (other.base_sequence - batch.base_sequence) & MAX_SEQUENCE <= MAX_SEQUENCE >> 1
