"""Sequence numbers of idempotent producers: order, retries, gaps, lost producer state, higher epochs."""

from random import Random

import pytest

from kraft_core.clients.client_metadata import ClientMetadata, MetadataConfig, TopicPartition
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.producer.producer_batch import ProducerBatch
from kraft_core.clients.producer.producer_id_and_epoch import EPOCH_MAX, ProducerIdAndEpoch
from kraft_core.clients.producer.transaction_manager import TransactionManager
from kraft_core.clients.producer.txn_partition_map import increment_sequence, is_later
from kraft_core.clients.producer.txn_request_handlers import InitProducerIdHandler
from kraft_core.protocol.compression import Compression
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import ProduceResponsePartitionProduceResponse as PartitionResponse

LAST = 2**31 - 1
PARTITION = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def new_manager(producer_id: int = 7, epoch: int = 0) -> TransactionManager:
    random = Random(1)
    network = NetworkClient(ClientMetadata([("broker", 9092)], MetadataConfig(), random), random)
    manager = TransactionManager(network)
    give_id(manager, producer_id, epoch)
    return manager


def give_id(manager: TransactionManager, producer_id: int, epoch: int = 0) -> None:
    manager.bump_idempotent_epoch_and_reset_id_if_needed()
    handler = manager.next_request(0, has_incomplete_batches=False)
    assert isinstance(handler, InitProducerIdHandler)
    assert handler.coordinator_key is None
    manager.initialized(ProducerIdAndEpoch(producer_id, epoch), is_epoch_bump=False)


def drain(manager: TransactionManager, count: int = 1, partition: TopicPartition = PARTITION) -> ProducerBatch:
    """Number a batch as the accumulator does."""
    batch = ProducerBatch(partition, 0, 10_000, Compression())
    for _ in range(count):
        batch.try_append(0, None, b"v", ())
    manager.maybe_update_producer_id_and_epoch(partition)
    sequence = manager.sequence_number(partition)
    batch.set_producer_state(manager.producer_id_and_epoch, sequence, is_transactional=False)
    manager.increment_sequence_number(partition, count)
    manager.add_in_flight_batch(batch)
    return batch


def complete(manager: TransactionManager, batch: ProducerBatch, base_offset: int = 0) -> None:
    manager.handle_completed_batch(batch, PartitionResponse(base_offset=base_offset))


def can_retry(manager: TransactionManager, batch: ProducerBatch, code: ErrorCode, log_start_offset: int = -1) -> bool:
    return manager.can_retry(PartitionResponse(error_code=code, log_start_offset=log_start_offset), batch)


def states(*batches: ProducerBatch) -> list[tuple[int, int]]:
    return [(batch.producer_epoch, batch.base_sequence) for batch in batches]


def test_batches_of_a_partition_follow_each_other_and_partitions_are_apart() -> None:
    manager = new_manager()
    assert states(drain(manager, 3), drain(manager, 2), drain(manager, 5, OTHER)) == [(0, 0), (0, 3), (0, 0)]
    assert manager.sequence_number(PARTITION) == 5
    assert manager.first_in_flight_sequence(PARTITION) == 0


@pytest.mark.parametrize(
    ("sequence", "increment", "then"), [(0, 1, 1), (LAST, 1, 0), (LAST - 1, 4, 2), (1, -3, LAST - 1), (-1, 1, 0)]
)
def test_zero_follows_the_last_sequence(sequence: int, increment: int, then: int) -> None:
    assert increment_sequence(sequence, increment) == then


def test_later_is_the_shorter_way_round() -> None:
    assert is_later(1, 0)
    assert is_later(0, LAST)
    assert is_later(5, -1)
    assert not is_later(LAST, 0)
    assert not is_later(3, 3)


def test_acknowledgements_and_order_in_flight_survive_the_wrap() -> None:
    manager = new_manager()
    manager.maybe_update_producer_id_and_epoch(PARTITION)
    manager.increment_sequence_number(PARTITION, LAST - 1)
    first, second, third = drain(manager, 1), drain(manager, 2), drain(manager, 3)
    assert states(first, second, third) == [(0, LAST - 1), (0, LAST), (0, 1)]
    for batch in (third, second, first):  # as after retries
        manager.remove_in_flight_batch(batch)
        manager.add_in_flight_batch(batch)
    assert manager.first_in_flight_sequence(PARTITION) == LAST - 1
    complete(manager, first)
    complete(manager, second)
    assert manager.first_in_flight_sequence(PARTITION) == 1
    manager.mark_sequence_unresolved(third)
    complete(manager, third)
    manager.maybe_resolve_sequences()
    manager.bump_idempotent_epoch_and_reset_id_if_needed()
    assert manager.producer_id_and_epoch.epoch == 0  # the last acknowledged sequence is known: no gap


def test_a_later_batch_is_retried_as_it_is_until_the_earlier_one_is_written() -> None:
    manager = new_manager()
    first, second = drain(manager), drain(manager)
    assert can_retry(manager, second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert can_retry(manager, first, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    manager.bump_idempotent_epoch_and_reset_id_if_needed()
    assert states(first, second) == [(0, 0), (0, 1)]


def test_a_gap_before_the_next_batch_raises_the_epoch_and_numbers_what_is_in_flight_from_0() -> None:
    manager = new_manager()
    first, second, third = drain(manager), drain(manager, 2), drain(manager)
    complete(manager, first)
    elsewhere = drain(manager, 1, OTHER)
    assert can_retry(manager, second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    manager.bump_idempotent_epoch_and_reset_id_if_needed()
    assert states(second, third, elsewhere) == [(1, 0), (1, 2), (0, 0)]
    assert manager.sequence_number(PARTITION) == 3
    assert manager.has_stale_producer_id_and_epoch(OTHER)
    complete(manager, elsewhere)
    assert states(drain(manager, 1, OTHER)) == [(1, 0)]


def test_a_refused_batch_leaves_a_gap_that_raises_the_epoch_once_the_next_batch_meets_it() -> None:
    manager = new_manager()
    first, second, third = drain(manager), drain(manager), drain(manager)
    manager.handle_failed_batch(first, KafkaError(ErrorCode.MESSAGE_TOO_LARGE), adjust_sequence_numbers=True)
    manager.bump_idempotent_epoch_and_reset_id_if_needed()
    assert states(second, third) == [(0, 1), (0, 2)]
    assert manager.has_unresolved_sequence(PARTITION)
    assert can_retry(manager, second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    manager.bump_idempotent_epoch_and_reset_id_if_needed()
    assert states(second, third) == [(1, 0), (1, 1)]
    assert manager.last_error is None


def test_a_gap_after_a_new_epoch_raises_it_again() -> None:
    manager = new_manager()
    complete(manager, drain(manager, 5))
    batch = drain(manager)
    for epoch in (1, 2):
        assert can_retry(manager, batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        manager.bump_idempotent_epoch_and_reset_id_if_needed()
        assert states(batch) == [(epoch, 0)]
        batch.close()  # as when it is drained again


def test_a_batch_that_may_be_written_keeps_its_sequence_when_a_later_one_is_refused() -> None:
    """Its answer was lost, so that another sequence could write it twice."""
    manager = new_manager()
    lost, refused, behind = drain(manager), drain(manager), drain(manager)
    assert can_retry(manager, lost, ErrorCode.NETWORK_EXCEPTION)
    manager.handle_failed_batch(refused, KafkaError(ErrorCode.INVALID_RECORD), adjust_sequence_numbers=True)
    assert can_retry(manager, behind, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    manager.maybe_resolve_sequences()
    manager.bump_idempotent_epoch_and_reset_id_if_needed()
    assert states(lost, behind) == [(0, 0), (0, 2)]
    complete(manager, lost)
    assert can_retry(manager, behind, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    manager.bump_idempotent_epoch_and_reset_id_if_needed()
    assert states(behind) == [(1, 0)]


def test_a_refused_batch_with_nothing_behind_it_raises_the_epoch() -> None:
    manager = new_manager()
    complete(manager, drain(manager))
    manager.handle_failed_batch(drain(manager), KafkaError(ErrorCode.INVALID_RECORD), adjust_sequence_numbers=True)
    manager.maybe_resolve_sequences()
    manager.bump_idempotent_epoch_and_reset_id_if_needed()
    assert states(drain(manager)) == [(1, 0)]


def test_lost_producer_state_raises_the_epoch_once_the_log_start_is_known() -> None:
    manager = new_manager()
    first, second = drain(manager), drain(manager)
    complete(manager, first, base_offset=100)
    assert can_retry(manager, second, ErrorCode.UNKNOWN_PRODUCER_ID)
    manager.bump_idempotent_epoch_and_reset_id_if_needed()
    assert states(second) == [(0, 1)]
    assert can_retry(manager, second, ErrorCode.UNKNOWN_PRODUCER_ID, log_start_offset=101)
    manager.bump_idempotent_epoch_and_reset_id_if_needed()
    assert states(second) == [(1, 0)]
    assert can_retry(manager, second, ErrorCode.UNKNOWN_PRODUCER_ID, log_start_offset=101)  # an answer to the old one
    manager.bump_idempotent_epoch_and_reset_id_if_needed()
    assert states(second) == [(1, 0)]


def test_an_expired_batch_holds_its_partition_back_until_later_ones_are_written() -> None:
    manager = new_manager()
    first, second = drain(manager), drain(manager)
    manager.handle_failed_batch(first, KafkaError(ErrorCode.REQUEST_TIMED_OUT), adjust_sequence_numbers=False)
    manager.maybe_resolve_sequences()
    assert manager.has_unresolved_sequence(PARTITION)
    assert not manager.has_unresolved_sequence(OTHER)
    complete(manager, second)  # so the broker has the first one
    manager.maybe_resolve_sequences()
    manager.bump_idempotent_epoch_and_reset_id_if_needed()
    assert not manager.has_unresolved_sequence(PARTITION)
    assert states(drain(manager)) == [(0, 2)]


def test_expired_batches_that_nothing_resolves_raise_the_epoch() -> None:
    manager = new_manager()
    batch = drain(manager)
    manager.handle_failed_batch(batch, KafkaError(ErrorCode.REQUEST_TIMED_OUT), adjust_sequence_numbers=False)
    manager.maybe_resolve_sequences()
    manager.bump_idempotent_epoch_and_reset_id_if_needed()
    assert states(drain(manager)) == [(1, 0)]


def test_the_batch_after_an_expired_one_shows_the_gap() -> None:
    manager = new_manager()
    first, second, third = drain(manager), drain(manager), drain(manager)
    manager.handle_failed_batch(first, KafkaError(ErrorCode.REQUEST_TIMED_OUT), adjust_sequence_numbers=False)
    assert can_retry(manager, third, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    manager.bump_idempotent_epoch_and_reset_id_if_needed()
    assert states(second, third) == [(0, 1), (0, 2)]
    assert can_retry(manager, second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    manager.bump_idempotent_epoch_and_reset_id_if_needed()
    assert states(second, third) == [(1, 0), (1, 1)]
    complete(manager, second)
    assert not manager.has_unresolved_sequence(PARTITION)


def test_after_the_last_epoch_batches_wait_for_another_producer_id() -> None:
    manager = new_manager(epoch=EPOCH_MAX)
    first, second = drain(manager), drain(manager)
    complete(manager, first)
    assert can_retry(manager, second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    manager.bump_idempotent_epoch_and_reset_id_if_needed()
    assert not manager.has_producer_id
    assert (second.producer_id, *states(second)) == (7, (EPOCH_MAX, 1))
    give_id(manager, producer_id=8)
    assert (second.producer_id, *states(second)) == (8, (0, 0))
    assert states(drain(manager)) == [(0, 1)]


def test_the_partition_waits_after_any_batch_that_failed_with_a_sequence() -> None:
    manager = new_manager()
    first, second = drain(manager), drain(manager)
    manager.handle_failed_batch(first, KafkaError(ErrorCode.NETWORK_EXCEPTION), adjust_sequence_numbers=False)
    assert manager.has_unresolved_sequence(PARTITION)
    complete(manager, second)
    manager.maybe_resolve_sequences()
    assert not manager.has_unresolved_sequence(PARTITION)


def test_sequences_are_not_used_again_while_batches_are_in_flight_behind_one_without_producer_state() -> None:
    """A new batch with the sequence of one in flight would count as its duplicate."""
    manager = new_manager()
    first, second = drain(manager), drain(manager)
    error = KafkaError(ErrorCode.UNKNOWN_PRODUCER_ID)
    manager.handle_failed_batch(first, error, adjust_sequence_numbers=True)
    manager.maybe_resolve_sequences()
    assert manager.has_unresolved_sequence(PARTITION)
    manager.handle_failed_batch(second, error, adjust_sequence_numbers=True)
    manager.maybe_resolve_sequences()
    manager.bump_idempotent_epoch_and_reset_id_if_needed()
    assert states(drain(manager)) == [(1, 0)]


def test_an_answer_to_a_batch_of_an_older_epoch_acknowledges_nothing_of_the_new_one() -> None:
    manager = new_manager()
    late = drain(manager, 9)
    manager.handle_failed_batch(late, KafkaError(ErrorCode.REQUEST_TIMED_OUT), adjust_sequence_numbers=False)
    manager.maybe_resolve_sequences()
    manager.bump_idempotent_epoch_and_reset_id_if_needed()
    drain(manager)
    complete(manager, late)
    assert manager.is_first_batch_in_flight(PARTITION)


@pytest.mark.parametrize("code", [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION])
def test_an_idempotent_producer_fails_when_it_may_not_or_cannot_write(code: ErrorCode) -> None:
    manager = new_manager()
    manager.handle_failed_batch(drain(manager), KafkaError(code), adjust_sequence_numbers=True)
    assert manager.has_fatal_error
    assert not manager.is_send_to_partition_allowed(PARTITION)


def test_errors_of_batches_leave_an_idempotent_producer_usable() -> None:
    manager = new_manager()
    error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    manager.handle_failed_batch(drain(manager), error, adjust_sequence_numbers=True)
    manager.maybe_add_partition(PARTITION)
    assert manager.is_send_to_partition_allowed(PARTITION)


def test_nothing_is_in_flight_beside_the_first_batch_of_a_partition_that_a_broker_may_not_know() -> None:
    """A broker takes any sequence of a producer that it does not know: the second batch would be written alone."""
    manager = new_manager()
    assert not manager.is_first_batch_in_flight(PARTITION)
    first = drain(manager)
    assert manager.is_first_batch_in_flight(PARTITION)
    assert not manager.is_first_batch_in_flight(OTHER)
    complete(manager, first)
    drain(manager)
    assert not manager.is_first_batch_in_flight(PARTITION)


def test_batches_wait_while_a_later_one_is_written_and_an_earlier_one_open() -> None:
    """After a move of the leader the later one may have another connection."""
    manager = new_manager()
    complete(manager, drain(manager))
    first, second, third = (drain(manager) for _ in range(3))
    assert not manager.must_await_earlier_batches(PARTITION)
    complete(manager, third)
    assert manager.must_await_earlier_batches(PARTITION)
    complete(manager, first)
    assert manager.must_await_earlier_batches(PARTITION)
    complete(manager, second)
    assert not manager.must_await_earlier_batches(PARTITION)


def test_five_batches_of_a_partition_are_in_flight_and_not_six() -> None:
    manager = new_manager()
    batches = [drain(manager) for _ in range(4)]
    assert not manager.must_await_earlier_batches(PARTITION)
    batches.append(drain(manager))
    assert manager.must_await_earlier_batches(PARTITION)
    assert not manager.must_await_earlier_batches(OTHER)
    complete(manager, batches[0])
    assert not manager.must_await_earlier_batches(PARTITION)
