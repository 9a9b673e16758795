"""Sequence numbers and batches in flight of each partition, for idempotent and transactional producers.

A sequence number counts the records of one producer id and epoch in one partition; 0 follows 2**31 - 1. So "later" is
decided by the shorter way round (`is_later`), where Kafka compares the plain numbers.

Source: TxnPartitionMap, TxnPartitionEntry, DefaultRecordBatch of Kafka 4.3.1; KIP-98, KIP-360.
"""

from typing import Final

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.producer.produce_request_result import NO_OFFSET
from kraft_core.clients.producer.producer_batch import NO_SEQUENCE, ProducerBatch
from kraft_core.clients.producer.producer_id_and_epoch import NONE, ProducerIdAndEpoch
from kraft_core.protocol.batch_header import MAX_SEQUENCE

BATCHES_THAT_BROKERS_REMEMBER: Final = 5
"""How many batches of a producer a broker finds again as duplicates. Source: ProducerStateEntry."""


def increment_sequence(sequence: int, increment: int) -> int:
    """Return the sequence `increment` records later; negative increments go back. NO_SEQUENCE + 1 is 0."""
    return (sequence + increment) & MAX_SEQUENCE


def is_later(sequence: int, other: int) -> bool:
    """Whether a sequence comes after the other one of the same producer id and epoch; any comes after NO_SEQUENCE."""
    return other == NO_SEQUENCE or 0 < (sequence - other) & MAX_SEQUENCE <= MAX_SEQUENCE >> 1


class TxnPartitionEntry:
    """One partition. `last_acked_sequence` is NO_SEQUENCE and `last_acked_offset` NO_OFFSET before an acknowledgement.

    `in_flight` are the batches that were drained and are not completed yet, in the order of their sequences, also
    while they wait to be sent again. Without any, `last_acked_sequence` + 1 is `next_sequence`.
    """

    __slots__ = ("in_flight", "last_acked_offset", "last_acked_sequence", "next_sequence", "producer_id_and_epoch")

    def __init__(self) -> None:
        self.producer_id_and_epoch = NONE
        self.next_sequence = 0
        self.last_acked_sequence = NO_SEQUENCE
        self.last_acked_offset = NO_OFFSET
        self.in_flight: list[ProducerBatch] = []

    def increment_sequence(self, increment: int) -> None:
        """Take the next `increment` sequences."""
        self.next_sequence = increment_sequence(self.next_sequence, increment)

    def add_in_flight_batch(self, batch: ProducerBatch) -> None:
        """Add a batch in its place: the last one when it is drained, an earlier one when a batch was split."""
        index = len(self.in_flight)
        while index and _is_before(batch, self.in_flight[index - 1]):
            index -= 1
        self.in_flight.insert(index, batch)

    def remove_in_flight_batch(self, batch: ProducerBatch) -> None:
        """Remove a batch; one that is not in flight is ignored."""
        self.in_flight = [each for each in self.in_flight if each is not batch]

    def update_last_acked_sequence(self, sequence: int) -> None:
        """Keep the latest acknowledged sequence."""
        if is_later(sequence, self.last_acked_sequence):
            self.last_acked_sequence = sequence

    def start_sequences_at_beginning(self, producer_id_and_epoch: ProducerIdAndEpoch) -> None:
        """Use another producer id and epoch, and number the batches in flight from 0."""
        sequence = 0
        for batch in self.in_flight:
            batch.reset_producer_state(producer_id_and_epoch, sequence)
            sequence = increment_sequence(sequence, batch.record_count)
        self.producer_id_and_epoch = producer_id_and_epoch
        self.next_sequence = sequence
        self.last_acked_sequence = NO_SEQUENCE

    def adjust_sequences_due_to_failed_batch(self, base_sequence: int, record_count: int) -> None:
        """Close the gap of a batch that the broker refused: later batches move forward by its records."""
        self.increment_sequence(-record_count)
        for batch in self.in_flight:
            if is_later(batch.base_sequence, base_sequence):
                sequence = increment_sequence(batch.base_sequence, -record_count)
                batch.reset_producer_state(ProducerIdAndEpoch(batch.producer_id, batch.producer_epoch), sequence)


class TxnPartitionMap:
    """The entries of all partitions that the producer has written to."""

    def __init__(self) -> None:
        self._entries: dict[TopicPartition, TxnPartitionEntry] = {}

    def get(self, partition: TopicPartition) -> TxnPartitionEntry | None:
        """Return the entry of a partition, None without one."""
        return self._entries.get(partition)

    def get_or_create(self, partition: TopicPartition) -> TxnPartitionEntry:
        """Return the entry of a partition, a new one if needed."""
        entry = self._entries.get(partition)
        if entry is None:
            entry = self._entries[partition] = TxnPartitionEntry()
        return entry

    def remove(self, partition: TopicPartition) -> None:
        """Forget a partition."""
        self._entries.pop(partition, None)

    def reset(self) -> None:
        """Forget all partitions."""
        self._entries.clear()


def _is_before(batch: ProducerBatch, other: ProducerBatch) -> bool:
    ids = batch.producer_id, batch.producer_epoch
    other_ids = other.producer_id, other.producer_epoch
    return is_later(other.base_sequence, batch.base_sequence) if ids == other_ids else ids < other_ids
