"""The state of an idempotent or transactional producer: what may be sent, under which id, epoch and sequence.

- The RecordAccumulator asks it what may be drained, and numbers the batches (methods of ProducerSequences).
- The Sender reports each batch as completed or failed, and asks whether a failed one may be sent again (`can_retry`).
- The application's calls (`begin_transaction` and so on) check the state and enqueue requests.
- TxnRequestSender sends these requests, one at a time in the order of `Priority`; the handlers in
  `txn_request_handlers` take in the answers.

Nothing here does I/O or reads a clock. Source: TransactionManager, Kafka 4.3.1; KIP-98, KIP-360, KIP-447, KIP-588,
KIP-890, KIP-1050. Two-phase commit (KIP-939) is left out.
"""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.consumer_group_metadata import ConsumerGroupMetadata
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.clients.producer.producer_batch import ProducerBatch
from kraft_core.clients.producer.producer_id_and_epoch import NONE, ProducerIdAndEpoch
from kraft_core.clients.producer.producer_sequences import ProducerSequences
from kraft_core.clients.producer.transaction_errors import IllegalState, TransactionAbortable, fatal_error
from kraft_core.clients.producer.transaction_result import TransactionalRequestResult
from kraft_core.clients.producer.transaction_state import State, TransactionState
from kraft_core.clients.producer.txn_request_handlers import (
    AddOffsetsToTxnHandler,
    AddPartitionsToTxnHandler,
    EndTxnHandler,
    InitProducerIdHandler,
    TxnOffsetCommitHandler,
    TxnRequestHandler,
)
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import ProduceResponsePartitionProduceResponse as PartitionResponse

FATAL: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Errors of a batch after which the producer cannot continue; after others a transaction can still be aborted."""

_TRANSACTION_VERSION: Final = "transaction.version"


@dataclass(frozen=True, slots=True)
class _PendingTransition:
    """A call whose outcome the application has not seen yet."""

    result: TransactionalRequestResult
    state: State
    operation: str


class TransactionManager(ProducerSequences):
    """The state of one producer. `transactional_id` None makes it idempotent without transactions.

    `network` names the cluster's finalized features; the times are ms.
    """

    def __init__(
        self,
        network: NetworkClient,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        retry_backoff_ms: float = 100,
    ) -> None:
        super().__init__(is_transactional=transactional_id is not None)
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.retry_backoff_ms = retry_backoff_ms
        self.is_transaction_v2_enabled = False
        self.coordinator_supports_bumping_epoch = False
        self.in_flight_request: TxnRequestHandler | None = None
        self.partitions_in_transaction: set[TopicPartition] = set()
        self._network = network
        self._state = TransactionState(transactional_id)
        self._pending_requests: list[tuple[int, int, TxnRequestHandler]] = []  # a heap: priority, order, request
        self._requests_created = 0
        self._new_partitions: set[TopicPartition] = set()
        self._pending_partitions: set[TopicPartition] = set()
        self._pending_transition: _PendingTransition | None = None
        self._is_transaction_started = False
        self._features_epoch = -1

    # State

    @property
    def last_error(self) -> KafkaError | None:
        """The error of the error states, else None."""
        return self._state.last_error

    @property
    def has_fatal_error(self) -> bool:
        """Whether the producer can do nothing but close."""
        return self._state.current is State.FATAL_ERROR

    @property
    def has_abortable_error(self) -> bool:
        """Whether the transaction can only be aborted."""
        return self._state.current is State.ABORTABLE_ERROR

    @property
    def is_aborting(self) -> bool:
        """Whether the transaction is being aborted."""
        return self._state.current is State.ABORTING_TRANSACTION

    @property
    def is_completing(self) -> bool:
        """Whether the transaction is being committed or aborted: batches no longer wait for linger.ms."""
        return self._state.current in (State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION)

    @property
    def has_ongoing_transaction(self) -> bool:
        """Whether a transaction was begun and is not ended."""
        return self._state.current is State.IN_TRANSACTION or self.is_completing or self.has_abortable_error

    @property
    def has_pending_requests(self) -> bool:
        """Whether requests wait to be sent."""
        return bool(self._pending_requests)

    def is_send_to_partition_allowed(self, partition: TopicPartition) -> bool:
        """Whether batches of a partition may be drained: never before it is part of the transaction."""
        if self.has_fatal_error:
            return False
        return not self.is_transactional or partition in self.partitions_in_transaction

    # The application's calls

    def initialize_transactions(self) -> TransactionalRequestResult:
        """Ask for an id and epoch; this fences older producers with the same transactional.id and aborts for them.

        Raises IllegalState, ProducerFailed and TransactionAbortable, as do all calls of the application.
        """
        self.maybe_fail_with_error()

        def start() -> TransactionalRequestResult:
            self._state.require(State.INITIALIZING, "init_transactions()")
            self._state.move(State.INITIALIZING)
            return self._enqueue(InitProducerIdHandler(self, NONE))

        return self._cached_result(start, State.INITIALIZING, "init_transactions()")

    def begin_transaction(self) -> None:
        """Begin a transaction; nothing is sent yet."""
        self._ensure_transactional()
        self.maybe_fail_with_error()
        self._refuse_if_pending("begin_transaction()")
        self._state.require(State.IN_TRANSACTION, "begin_transaction()")
        self._state.move(State.IN_TRANSACTION)

    def begin_commit(self) -> TransactionalRequestResult:
        """Commit once all batches are written."""

        def start() -> TransactionalRequestResult:
            self.maybe_fail_with_error()
            self._state.require(State.COMMITTING_TRANSACTION, "commit_transaction()")
            self._state.move(State.COMMITTING_TRANSACTION)
            return self._begin_completing(is_commit=True)

        return self._cached_result(start, State.COMMITTING_TRANSACTION, "commit_transaction()")

    def begin_abort(self) -> TransactionalRequestResult:
        """Abort; batches that were not sent are dropped."""

        def start() -> TransactionalRequestResult:
            if not self.has_abortable_error:
                self.maybe_fail_with_error()
            self._state.require(State.ABORTING_TRANSACTION, "abort_transaction()")
            self._state.move(State.ABORTING_TRANSACTION)
            self._new_partitions.clear()
            return self._begin_completing(is_commit=False)

        return self._cached_result(start, State.ABORTING_TRANSACTION, "abort_transaction()")

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: ConsumerGroupMetadata
    ) -> TransactionalRequestResult:
        """Commit a consumer group's offsets as part of the transaction."""
        self._ensure_transactional()
        self.maybe_fail_with_error()
        self._refuse_if_pending("send_offsets_to_transaction()")
        if self._state.current is not State.IN_TRANSACTION:
            state = self._state.current.value
            raise IllegalState(f"send_offsets_to_transaction() needs a transaction; the producer is {state}.")
        commit = TxnOffsetCommitHandler(self, offsets, group_metadata)
        if self.is_transaction_v2_enabled:
            self._is_transaction_started = True
            return self._enqueue(commit)
        return self._enqueue(AddOffsetsToTxnHandler(self, commit))

    def check_send(self) -> None:
        """Check that a record may be sent now, which needs a transaction if the producer is transactional."""
        if self._state.last_error is not None:
            self.maybe_fail_with_error()
        if not self.is_transactional:
            return
        if self._pending_transition is not None:
            self._refuse_if_pending("send()")
        if self._state.current is not State.IN_TRANSACTION:
            state = self._state.current.value
            raise IllegalState(f"send() of a transactional producer needs a transaction; the producer is {state}.")

    def maybe_add_partition(self, partition: TopicPartition) -> None:
        """Make a partition part of the transaction, because a record was queued for it."""
        self.check_send()
        if not self.is_transactional or partition in self.partitions_in_transaction:
            return
        if self.is_transaction_v2_enabled:
            self.partitions_in_transaction.add(partition)
        elif partition not in self._pending_partitions:
            self._new_partitions.add(partition)

    def maybe_fail_with_error(self) -> None:
        """Raise the error that the application must handle first: TransactionAbortable or ProducerFailed."""
        error = self._state.last_error
        if error is not None:
            raise self.error_for_application(error)

    def error_for_application(self, error: KafkaError) -> KafkaError:
        """Return what to raise for an error of an operation: which class depends on what is still possible."""
        if self.has_fatal_error:
            return fatal_error(error)
        return TransactionAbortable(error) if self.has_abortable_error and self.is_transactional else error

    # Errors

    def transition_to_abortable_error(self, error: KafkaError) -> None:
        """Only allow the transaction to be aborted; no change while that happens already, or after a fatal error."""
        if not (self.is_aborting or self.has_fatal_error):
            self._state.move(State.ABORTABLE_ERROR, error)

    def transition_to_fatal_error(self, error: KafkaError) -> None:
        """Allow nothing but closing the producer."""
        if not self.has_fatal_error:
            self._state.move(State.FATAL_ERROR, error)
        if self._pending_transition is not None:
            self._pending_transition.result.fail(error)

    def transition_to_uninitialized(self, error: KafkaError) -> None:
        """Return to the beginning after an authorization error, so that init_transactions() can be called again."""
        self._state.move(State.UNINITIALIZED)
        if self._pending_transition is not None:
            self._pending_transition.result.fail(error)

    def abortable_error_if_possible(self, error: KafkaError) -> None:
        """Allow the transaction to be aborted if the epoch is raised afterwards, by us or the broker; else fail."""
        if not (self.coordinator_supports_bumping_epoch or self.is_transaction_v2_enabled):
            self.transition_to_fatal_error(error)
            return
        if self._must_bump_epoch_on_error:
            self._is_epoch_bump_required = True
        self.transition_to_abortable_error(error)

    def maybe_transition_to_error_state(self, error: KafkaError) -> None:
        """Take in the error of a batch or of a record that could not be appended."""
        if error.code in FATAL:
            self.transition_to_fatal_error(error)
        elif self.is_transactional and self.has_ongoing_transaction:
            if self._must_bump_epoch_on_error:
                self._is_epoch_bump_required = True
            self.transition_to_abortable_error(error)

    @property
    def _must_bump_epoch_on_error(self) -> bool:
        """Whether the client raises the epoch after an error; with TV2 the broker does at each end (KIP-890)."""
        return self.coordinator_supports_bumping_epoch and not self.is_transaction_v2_enabled

    # Batches

    def add_in_flight_batch(self, batch: ProducerBatch) -> None:
        """Track a batch that has its sequence; with TV2 its leader begins the transaction.

        Kafka counts the transaction as begun when a record is queued. An abort without any batch is then refused for
        good if the coordinator still writes the markers of the last commit.
        """
        super().add_in_flight_batch(batch)
        self._is_transaction_started = True

    def handle_completed_batch(self, batch: ProducerBatch, response: PartitionResponse) -> None:
        """Take in that a batch was written, at the answer's base offset or -1 if the broker does not say where."""
        self._acknowledge(batch, response.base_offset)

    def handle_failed_batch(self, batch: ProducerBatch, error: KafkaError, *, adjust_sequence_numbers: bool) -> None:
        """Take in that a batch failed for good; `adjust_sequence_numbers` if the broker certainly did not write it.

        Without transactions its partition waits in any case, because batches in flight behind it have sequences.
        """
        self.maybe_transition_to_error_state(error)
        self.remove_in_flight_batch(batch)
        if self.has_fatal_error:
            return
        if self.is_transactional and error.code == ErrorCode.UNKNOWN_PRODUCER_ID:
            self._reset_sequence_for_partition(batch.topic_partition)  # the broker has no state, and takes 0
        elif self.is_transactional and adjust_sequence_numbers:
            self._adjust_sequences_due_to_failed_batch(batch)
        elif batch.has_sequence:  # it was sent
            self.mark_sequence_unresolved(batch)

    def maybe_resolve_sequences(self) -> None:
        """Decide about partitions with expired batches, as soon as nothing of them is in flight."""
        for partition, were_all_written in self._drained_unresolved():
            if were_all_written:
                continue
            if self.is_transactional:
                name = f"{partition.topic}-{partition.partition}"
                text = f"Records of {name} were sent and expired; whether they are written is unknown."
                self.abortable_error_if_possible(KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))
            else:
                self._request_idempotent_epoch_bump(partition)

    def bump_idempotent_epoch_and_reset_id_if_needed(self) -> None:
        """Raise the epoch if an error asks for it, and ask for a producer id without one. Not for transactions."""
        if self.is_transactional:
            return
        if self._is_epoch_bump_required and not self._bump_epoch():
            self._state.move(State.UNINITIALIZED)
        if self._state.current is not State.INITIALIZING and not self.has_producer_id:
            self._state.move(State.INITIALIZING)
            self._enqueue(InitProducerIdHandler(self, NONE))

    # Requests

    def next_request(self, now_ms: float, *, has_incomplete_batches: bool) -> TxnRequestHandler | None:
        """Return the next request and forget it; None while there is none, or it has to wait.

        The end of a transaction waits for all batches. It is not sent at all if nothing was written.
        """
        if self._new_partitions:
            self._enqueue_new_partitions()
        while self._pending_requests:
            handler = self._pending_requests[0][2]
            if handler.not_before_ms > now_ms or (handler.is_end_txn and has_incomplete_batches):
                return None
            heapq.heappop(self._pending_requests)
            error = self._state.last_error
            if error is not None:
                handler.result.fail(error)
            elif handler.is_end_txn and not self._is_transaction_started:
                self.transaction_ended(NONE, handler.result)
            else:
                return handler
        return None

    def next_request_due_ms(self) -> float | None:
        """Return from when on the next request may be sent; None without one."""
        return self._pending_requests[0][2].not_before_ms if self._pending_requests else None

    def next_order(self) -> int:
        """Return the number of the next request."""
        self._requests_created += 1
        return self._requests_created

    def enqueue(self, handler: TxnRequestHandler) -> None:
        """Put a request in its place: by priority, then in the order of the calls."""
        heapq.heappush(self._pending_requests, (handler.PRIORITY, handler.order, handler))

    def fail_pending_requests(self, error: KafkaError) -> None:
        """Fail all requests that wait."""
        while self._pending_requests:
            heapq.heappop(self._pending_requests)[2].result.fail(error)

    def close(self, error: KafkaError) -> None:
        """Fail everything that is not completed: the producer closes without waiting."""
        if self.in_flight_request is not None:
            self.in_flight_request.result.fail(error)
        self.fail_pending_requests(error)
        self.transition_to_fatal_error(error)

    # Answers, called by the handlers

    def initialized(self, producer_id_and_epoch: ProducerIdAndEpoch, *, is_epoch_bump: bool) -> None:
        """Take the id and epoch of InitProducerId."""
        self._use_producer_id_and_epoch(producer_id_and_epoch)
        if is_epoch_bump:
            self._reset_sequence_numbers()
        elif self.is_transactional:
            self._update_transaction_version(is_initialization=True)
        self._state.move(State.READY)

    def partitions_added(self, partitions: set[TopicPartition], *, is_success: bool) -> None:
        """Take the outcome of AddPartitionsToTxn; after a failure other batches in flight can still be sent again."""
        self._pending_partitions -= partitions
        if is_success:
            self.partitions_in_transaction |= partitions
            self._is_transaction_started = True

    def offsets_added(self, commit: TxnRequestHandler) -> None:
        """Commit the offsets of a group that is now part of the transaction."""
        self._is_transaction_started = True
        self.enqueue(commit)

    def transaction_ended(self, producer_id_and_epoch: ProducerIdAndEpoch, result: TransactionalRequestResult) -> None:
        """Take the end of the transaction; with TV2 a valid id and epoch is the next one, else NONE.

        If an error or an upgrade asks for it, the epoch is raised before `result` is done.
        """
        if producer_id_and_epoch.is_valid:
            self._use_producer_id_and_epoch(producer_id_and_epoch)
            self._reset_sequence_numbers()
        self._is_transaction_started = False
        self._new_partitions.clear()
        self._pending_partitions.clear()
        self.partitions_in_transaction.clear()
        if self._is_epoch_bump_required:
            self._is_epoch_bump_required = False
            self._state.move(State.INITIALIZING)
            self.enqueue(InitProducerIdHandler(self, self.producer_id_and_epoch, result))
        else:
            self._state.move(State.READY)
            result.done()

    # Internals

    def _enqueue(self, handler: TxnRequestHandler) -> TransactionalRequestResult:
        self.enqueue(handler)
        return handler.result

    def _enqueue_new_partitions(self) -> None:
        self._pending_partitions |= self._new_partitions
        self._new_partitions.clear()
        self.enqueue(AddPartitionsToTxnHandler(self, set(self._pending_partitions)))

    def _begin_completing(self, *, is_commit: bool) -> TransactionalRequestResult:
        """Enqueue EndTxn, in the version that the transaction began with."""
        if self._new_partitions:
            self._enqueue_new_partitions()
        end = EndTxnHandler(self, is_commit=is_commit)
        self._update_transaction_version()
        return self._enqueue(end)

    def _update_transaction_version(self, *, is_initialization: bool = False) -> None:
        """Use TV2 if the cluster has finalized it. An upgrade in between raises the epoch, to fence what TV1 left."""
        if self._network.finalized_features_epoch <= self._features_epoch:
            return
        self._features_epoch = self._network.finalized_features_epoch
        was_enabled = self.is_transaction_v2_enabled
        self.is_transaction_v2_enabled = self._network.finalized_features.get(_TRANSACTION_VERSION, 0) >= 2
        if self.is_transaction_v2_enabled and not was_enabled and not is_initialization:
            self._is_epoch_bump_required = True

    def _ensure_transactional(self) -> None:
        if not self.is_transactional:
            raise IllegalState("The producer has no transactional.id; set it to use transactions.")

    def _refuse_if_pending(self, operation: str) -> None:
        pending = self._pending_transition
        if pending is None:
            return
        if not pending.result.is_acked:
            raise IllegalState(
                f"{operation} is not allowed: {pending.operation} has not returned. Repeat {pending.operation}."
            )
        self._pending_transition = None

    def _cached_result(
        self, start: Callable[[], TransactionalRequestResult], state: State, operation: str
    ) -> TransactionalRequestResult:
        """Begin an operation, or return the result of the same one if its outcome was not seen yet."""
        self._ensure_transactional()
        pending = self._pending_transition
        if pending is not None and pending.state is state and not pending.result.is_acked:
            return pending.result
        self._refuse_if_pending(operation)
        result = start()
        self._pending_transition = _PendingTransition(result, state, operation)
        return result
