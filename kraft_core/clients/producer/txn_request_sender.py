"""Sends the requests of a TransactionManager, one at a time, to the coordinator that answers them.

`step` also does what an error of the transactions means for the batches: after a fatal one all are failed, after an
abortable one and during an abort those that were never sent. Source: Sender.runOnce and
Sender.maybeSendAndPollTransactionalRequest, Kafka 4.3.1.
"""

from typing import Final

from kraft_core.clients.coordinator_lookup import CoordinatorLookup, CoordinatorType
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import NodeRequest
from kraft_core.clients.producer.record_accumulator import RecordAccumulator
from kraft_core.clients.producer.transaction_errors import (
    IllegalState,
    TransactionAbortable,
    TransactionAborted,
    fatal_error,
)
from kraft_core.clients.producer.transaction_manager import TransactionManager
from kraft_core.clients.producer.txn_request_handlers import TxnRequestHandler
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode, KafkaError, RequestTimedOut

_EPOCH_BUMP_SINCE: Final = 3
"""The first version of InitProducerId that raises the epoch of an id."""

_REFUSED: Final = frozenset({ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})


class TxnRequestSender:
    """The requests of one producer."""

    def __init__(self, manager: TransactionManager, network: NetworkClient, accumulator: RecordAccumulator) -> None:
        self._manager = manager
        self._network = network
        self._accumulator = accumulator
        self._lookups: dict[tuple[CoordinatorType, str], CoordinatorLookup] = {}
        self._waits_for: CoordinatorLookup | None = None
        self._next_attempt_ms: float | None = None
        self._was_refused = False
        self._give_up_ms: float | None = None  # while the producer closes

    def step(self, now_ms: float) -> bool:
        """Do what is due; return whether batches may be sent."""
        manager = self._manager
        self._waits_for = self._next_attempt_ms = None
        manager.maybe_resolve_sequences()
        if self._handle_error():
            return False
        if not self._was_refused or self._accumulator.has_undrained:
            manager.bump_idempotent_epoch_and_reset_id_if_needed()
        self._maybe_abort_for_close(now_ms)
        if manager.in_flight_request is None:
            self._send_next(now_ms)
        return not self._handle_error()

    def next_deadline_ms(self, now_ms: float) -> float | None:
        """Return when `step` has something to do without an event; None for never."""
        times = [self._give_up_ms if self._manager.has_ongoing_transaction else None]
        if self._manager.in_flight_request is None:
            times.append(self._next_attempt_ms)
            times.append(None if self._waits_for is None else self._waits_for.next_deadline_ms(now_ms))
        return min((time for time in times if time is not None), default=None)

    def completed(self, request: NodeRequest, now_ms: float) -> None:
        """Take in the answer to a request, which has this method as its context."""
        handler = self._manager.in_flight_request
        assert handler is not None, "one transactional request is in flight at a time"
        self._manager.in_flight_request = None
        handler.on_complete(request, now_ms)
        key = handler.coordinator_key
        if handler.is_coordinator_lost and key is not None:
            self._lookup(handler.COORDINATOR_TYPE, key).mark_unknown(now_ms)

    def _maybe_abort_for_close(self, now_ms: float) -> None:
        """Abort an open transaction of a producer that is closing, once its records have an outcome.

        After transaction.timeout.ms without success it is left to the coordinator, which aborts it by then.
        """
        manager, accumulator = self._manager, self._accumulator
        if not accumulator.is_closed or accumulator.has_incomplete or not manager.has_ongoing_transaction:
            return
        if self._give_up_ms is None:
            self._give_up_ms = now_ms + manager.transaction_timeout_ms
        if now_ms >= self._give_up_ms:
            manager.close(RequestTimedOut("The transaction was not ended within transaction.timeout.ms."))
        elif not (manager.is_completing or manager.has_pending_requests or manager.in_flight_request is not None):
            try:
                manager.begin_abort()
            except IllegalState as unfinished:
                manager.close(unfinished)

    def _handle_error(self) -> bool:
        """Fail batches and requests after an error; return whether nothing can be sent any more.

        After a refused id the producer returns to its beginning, and can be initialized again.
        """
        manager, error = self._manager, self._manager.last_error
        if error is None:
            if manager.is_aborting:
                self._accumulator.abort_undrained_batches(TransactionAborted())
            return False
        is_refused = manager.has_abortable_error and error.code in _REFUSED
        if manager.has_fatal_error or is_refused:
            manager.fail_pending_requests(error)
            if self._accumulator.has_incomplete:
                self._accumulator.abort_batches(fatal_error(error) if manager.has_fatal_error else error)
            if is_refused:
                self._was_refused = True
                manager.transition_to_uninitialized(error)
            return True
        self._accumulator.abort_undrained_batches(TransactionAbortable(error))
        return False

    def _send_next(self, now_ms: float) -> None:
        manager = self._manager
        handler = manager.next_request(now_ms, has_incomplete_batches=self._accumulator.has_incomplete)
        if handler is None:
            due_ms = manager.next_request_due_ms()
            if due_ms is not None and due_ms > now_ms:
                self._next_attempt_ms = due_ms
            return
        try:
            node_id = self._ready_node(handler, now_ms)
        except KafkaError as error:
            handler.fail_without_coordinator(error)
            return
        if node_id is None:
            manager.enqueue(handler)
            return
        manager.in_flight_request = handler
        self._network.send(handler.node_request(node_id, self.completed), now_ms)

    def _ready_node(self, handler: TxnRequestHandler, now_ms: float) -> int | None:
        """Return the node to ask if it takes a request now. Raises KafkaError if there is no point in waiting."""
        key = handler.coordinator_key
        if key is None:
            node = self._network.least_loaded_node(now_ms)
            if node is not None and self._network.is_ready(node.id, now_ms):
                return node.id
            self._next_attempt_ms = now_ms + self._manager.retry_backoff_ms
            return None
        self._network.metadata.raise_fatal_error()
        self._waits_for = lookup = self._lookup(handler.COORDINATOR_TYPE, key)
        node = lookup.ready_node(now_ms)
        if node is None:
            return None
        if handler.COORDINATOR_TYPE is CoordinatorType.TRANSACTION:
            versions = self._network.versions_of(node.id) or {}
            highest = versions.get(ApiKey.INIT_PRODUCER_ID, (0, 0))[1]
            self._manager.coordinator_supports_bumping_epoch = is_able = highest >= _EPOCH_BUMP_SINCE
            if handler.is_epoch_bump and not is_able:
                text = (
                    f"The transaction coordinator {node.host}:{node.port} cannot raise the epoch of a producer: it has "
                    f"InitProducerId up to version {highest} and version {_EPOCH_BUMP_SINCE} is needed (Kafka 2.5)."
                )
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        return node.id

    def _lookup(self, key_type: CoordinatorType, key: str) -> CoordinatorLookup:
        """Return the lookup of a coordinator; of all groups only the last one is kept."""
        lookup = self._lookups.get((key_type, key))
        if lookup is None:
            for known in [known for known in self._lookups if known[0] is key_type]:
                del self._lookups[known]
            lookup = self._lookups[key_type, key] = CoordinatorLookup(
                self._network, key_type, key, self._accumulator.retry_backoff
            )
        return lookup
