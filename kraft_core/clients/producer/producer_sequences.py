"""The producer id and the sequences of each partition: the part of the TransactionManager without requests.

A batch that failed after it was sent leaves its partition *unresolved*: its sequences may be missing in the log. No
further batch is drained until the batches in flight are completed, or one of them is refused for the gap. Kafka raises
the epoch of an idempotent producer at once where the broker refused a batch, and gives new sequences to all in flight;
one of them that was written, but whose answer was lost, is then written twice.
Source: TransactionManager, Kafka 4.3.1; KIP-98, KIP-360.
"""

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.producer.produce_request_result import NO_OFFSET
from kraft_core.clients.producer.producer_batch import NO_SEQUENCE, ProducerBatch
from kraft_core.clients.producer.producer_id_and_epoch import EPOCH_MAX, NONE, ProducerIdAndEpoch
from kraft_core.clients.producer.txn_partition_map import (
    BATCHES_THAT_BROKERS_REMEMBER,
    TxnPartitionMap,
    increment_sequence,
    is_later,
)
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import ProduceResponsePartitionProduceResponse as PartitionResponse


class ProducerSequences:
    """Producer id, epoch and sequences."""

    def __init__(self, *, is_transactional: bool) -> None:
        self.is_transactional = is_transactional
        self.producer_id_and_epoch = NONE
        self._partitions = TxnPartitionMap()
        self._unresolved: set[TopicPartition] = set()
        self._to_rewrite: set[TopicPartition] = set()
        self._is_epoch_bump_required = False

    # Draining

    @property
    def has_producer_id(self) -> bool:
        """Whether a broker gave the producer an id."""
        return self.producer_id_and_epoch.is_valid

    def maybe_update_producer_id_and_epoch(self, partition: TopicPartition) -> None:
        """Number a partition from 0 under the current id, once no batch of the old one is in flight."""
        if self.has_stale_producer_id_and_epoch(partition) and not self.has_inflight_batches(partition):
            self._partitions.get_or_create(partition).start_sequences_at_beginning(self.producer_id_and_epoch)

    def has_stale_producer_id_and_epoch(self, partition: TopicPartition) -> bool:
        """Whether a partition still uses an older producer id or epoch."""
        return self._partitions.get_or_create(partition).producer_id_and_epoch != self.producer_id_and_epoch

    def sequence_number(self, partition: TopicPartition) -> int:
        """Return the sequence of the next batch of a partition."""
        return self._partitions.get_or_create(partition).next_sequence

    def increment_sequence_number(self, partition: TopicPartition, increment: int) -> None:
        """Take the next `increment` sequences of a partition."""
        self._partitions.get_or_create(partition).increment_sequence(increment)

    def add_in_flight_batch(self, batch: ProducerBatch) -> None:
        """Track a batch that has its sequence: it was drained, or split from one that was."""
        assert batch.base_sequence != NO_SEQUENCE, "a batch in flight has a sequence"
        self._partitions.get_or_create(batch.topic_partition).add_in_flight_batch(batch)

    def remove_in_flight_batch(self, batch: ProducerBatch) -> None:
        """Stop tracking a batch."""
        entry = self._partitions.get(batch.topic_partition)
        if entry is not None:
            entry.remove_in_flight_batch(batch)

    def has_inflight_batches(self, partition: TopicPartition) -> bool:
        """Whether batches of a partition were drained and are not completed."""
        entry = self._partitions.get(partition)
        return entry is not None and bool(entry.in_flight)

    def first_in_flight_sequence(self, partition: TopicPartition) -> int:
        """Return the lowest sequence in flight, NO_SEQUENCE without any."""
        entry = self._partitions.get(partition)
        return entry.in_flight[0].base_sequence if entry is not None and entry.in_flight else NO_SEQUENCE

    def is_first_batch_in_flight(self, partition: TopicPartition) -> bool:
        """Whether nothing of a partition is acknowledged under the current id and epoch, and something is in flight.

        The broker may not know the producer then. It takes any sequence of a producer that it does not know, so a
        later batch could be written although the first one was refused, and before it. Kafka sends both.
        """
        entry = self._partitions.get(partition)
        return entry is not None and bool(entry.in_flight) and entry.last_acked_sequence == NO_SEQUENCE

    def must_await_earlier_batches(self, partition: TopicPartition) -> bool:
        """Whether another batch of a partition could make brokers forget the first one in flight.

        Brokers find as many batches again as one connection carries. After a move of the leader batches can be open
        on two connections: no more are sent then than fit, and none behind an acknowledged one that is later than the
        first in flight. Otherwise the first one, sent again, would count as a gap and not as a duplicate. Kafka has
        no such rule.
        """
        entry = self._partitions.get(partition)
        if entry is None or not entry.in_flight:
            return False
        if len(entry.in_flight) >= BATCHES_THAT_BROKERS_REMEMBER:
            return True
        acked = entry.last_acked_sequence
        return acked != NO_SEQUENCE and is_later(acked, entry.in_flight[0].base_sequence)

    def has_unresolved_sequence(self, partition: TopicPartition) -> bool:
        """Whether new batches of a partition wait, because it is unknown which of its sequences are in the log."""
        return partition in self._unresolved

    def mark_sequence_unresolved(self, batch: ProducerBatch) -> None:
        """Hold new batches of a partition back, because one that was sent has failed."""
        self._unresolved.add(batch.topic_partition)

    # Acknowledgements

    def _acknowledge(self, batch: ProducerBatch, base_offset: int) -> None:
        """Take in that a broker wrote a batch; `base_offset` is -1 if it does not say where.

        The answer to one that expired in flight may come when the partition has a new epoch.
        """
        entry = self._partitions.get(batch.topic_partition)
        if entry is not None and entry.producer_id_and_epoch == (batch.producer_id, batch.producer_epoch):
            entry.update_last_acked_sequence(batch.last_sequence)
        if base_offset != NO_OFFSET:
            if entry is None and not self.is_transactional:  # reset while the batch was in flight
                entry = self._partitions.get_or_create(batch.topic_partition)
            if entry is not None:
                entry.last_acked_offset = max(entry.last_acked_offset, base_offset + batch.record_count - 1)
        self.remove_in_flight_batch(batch)

    def _last_acked_offset(self, partition: TopicPartition) -> int:
        entry = self._partitions.get(partition)
        return NO_OFFSET if entry is None else entry.last_acked_offset

    def _is_next_sequence(self, partition: TopicPartition, sequence: int) -> bool:
        """Whether a sequence follows the last acknowledged one."""
        entry = self._partitions.get(partition)
        return sequence == increment_sequence(NO_SEQUENCE if entry is None else entry.last_acked_sequence, 1)

    def _drained_unresolved(self) -> list[tuple[TopicPartition, bool]]:
        """Return the unresolved partitions without batches in flight, and whether all of their batches were written.

        They stop being unresolved with this call.
        """
        drained = [each for each in sorted(self._unresolved) if not self.has_inflight_batches(each)]
        self._unresolved.difference_update(drained)
        return [(each, self._is_next_sequence(each, self.sequence_number(each))) for each in drained]

    def can_retry(self, response: PartitionResponse, batch: ProducerBatch) -> bool:
        """Whether a batch that a broker refused may be sent again.

        For an idempotent producer it may always after a sequence error, under a higher epoch if the sequence is lost.
        """
        code = ErrorCode(response.error_code)
        if code == ErrorCode.UNKNOWN_PRODUCER_ID:
            return self._can_retry_unknown_producer_id(batch, response.log_start_offset)
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return self._can_retry_out_of_order(batch)
        return code.retriable

    def _can_retry_unknown_producer_id(self, batch: ProducerBatch, log_start_offset: int) -> bool:
        partition = batch.topic_partition
        if log_start_offset < 0 or batch.sequence_has_been_reset:
            return True
        if self.is_transactional:
            if self._last_acked_offset(partition) >= log_start_offset:
                return False
            self._start_sequences_at_beginning(partition)  # the records that the broker knew were deleted by age
        elif batch.base_sequence == self.first_in_flight_sequence(partition):
            self._request_idempotent_epoch_bump(partition)
        return True

    def _can_retry_out_of_order(self, batch: ProducerBatch) -> bool:
        """Retry a batch behind others as it is. If it is the first in flight, there is a gap before it in the log.

        Only then nothing in flight can have been written, so that the epoch can be raised without a duplicate.
        """
        partition, sequence = batch.topic_partition, batch.base_sequence
        if self.is_transactional:
            is_behind = batch.sequence_has_been_reset or not self._is_next_sequence(partition, sequence)
            return is_behind and partition not in self._unresolved
        if not batch.sequence_has_been_reset and sequence == self.first_in_flight_sequence(partition):
            self._request_idempotent_epoch_bump(partition)
        return True

    # Starting again

    def _request_idempotent_epoch_bump(self, partition: TopicPartition) -> None:
        """Have the epoch raised, and the batches in flight of a partition numbered from 0."""
        self._is_epoch_bump_required = True
        self._to_rewrite.add(partition)

    def _bump_epoch(self) -> bool:
        """Raise the epoch of an idempotent producer; return False if it was the last one of the id, which is given up.

        Then the partitions that caused it wait for the next id.
        """
        producer_id, epoch = self.producer_id_and_epoch
        self._is_epoch_bump_required = False
        if epoch >= EPOCH_MAX:
            self.producer_id_and_epoch = NONE
            return False
        self._use_producer_id_and_epoch(ProducerIdAndEpoch(producer_id, epoch + 1))
        return True

    def _use_producer_id_and_epoch(self, producer_id_and_epoch: ProducerIdAndEpoch) -> None:
        """Use another id or epoch: at once in the partitions that caused it, in others when nothing is in flight."""
        self.producer_id_and_epoch = producer_id_and_epoch
        for partition in self._to_rewrite:
            self._start_sequences_at_beginning(partition)
            self._unresolved.discard(partition)
        self._to_rewrite.clear()

    def _start_sequences_at_beginning(self, partition: TopicPartition) -> None:
        self._partitions.get_or_create(partition).start_sequences_at_beginning(self.producer_id_and_epoch)

    def _adjust_sequences_due_to_failed_batch(self, batch: ProducerBatch) -> None:
        entry = self._partitions.get(batch.topic_partition)
        if entry is not None:
            entry.adjust_sequences_due_to_failed_batch(batch.base_sequence, batch.record_count)

    def _reset_sequence_for_partition(self, partition: TopicPartition) -> None:
        self._partitions.remove(partition)
        self._unresolved.discard(partition)

    def _reset_sequence_numbers(self) -> None:
        self._partitions.reset()
        self._unresolved.clear()
