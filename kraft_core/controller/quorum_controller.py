"""QuorumController: it runs on every node and is active on the leader only.

## The event queue
Requests are appended with their deadline. The completion of an activation is prepended, so it runs before all pending
requests. Periodic tasks are deferred events under their names. Commits and leader changes bypass the queue, because
they have happened already; Kafka queues them behind the requests, which delays responses.

## Writes
A write is validated against the tip, the image with everything appended so far. Its records are appended at once, in
one atomic batch or several, and its response is deferred until they are committed. A response without records may
depend on uncommitted state, so it waits for the newest append. When leadership is lost, deferred responses become
NOT_CONTROLLER: their records may or may not commit.

## The node's calls
`handle` for each request, `poll` to run events, `on_leader` when all records before its epoch are committed and
replayed, `on_resign`, `on_commit`, `close`, and `take_responses`. Source: QuorumController, Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from kraft_core.controller.activation_records_generator import activation_records
from kraft_core.controller.controller_operations import (
    READS,
    WRITES,
    Call,
    Managers,
    check_size,
    early_answer,
)
from kraft_core.controller.error_responses import error_response
from kraft_core.controller.periodic_task_control_manager import PeriodicTaskControlManager, periodic_tasks
from kraft_core.controller.queue.controller_events import NOT_STARTED, OperationEvent, RequestEvent
from kraft_core.controller.queue.deferred_event_queue import DeferredEventQueue, DeferredResponse
from kraft_core.controller.queue.event_queue import EventQueue, Interrupted, RejectedExecution, earliest_deadline
from kraft_core.controller.quorum_controller_metrics import QuorumControllerMetrics
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.replay_error import ReplayError
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import BrokerHeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from kraft_core.controller.controller_config import ControllerConfig
    from kraft_core.controller.controller_request_context import ControllerRequestContext
    from kraft_core.controller.controller_result import ControllerResult
    from kraft_core.controller.record_writer import RecordWriter
    from kraft_core.protocol.metadata_records import MetadataRecord
    from kraft_core.protocol.wire import Message

log = logging.getLogger(__name__)

RECORDS_PER_COST: Final = 8
"""Number of records that take about as long to append and replay as a small request takes to validate."""
NO_ACTIVE_CONTROLLER: Final = "No controller appears to be active."
_INACTIVE: Final = -1


class QuorumController:
    """The controller of one node; see the module.

    `wants_resign` is set after an unexpected failure: the node must resign, so that another controller takes over.
    """

    def __init__(
        self,
        config: ControllerConfig,
        random: Random,
        writer: RecordWriter,
        bootstrap_records: Sequence[MetadataRecord] = (),
    ) -> None:
        self.wants_resign = False
        self.metrics = QuorumControllerMetrics()
        self._config = config
        self._writer = writer
        self._bootstrap_records = tuple(bootstrap_records)
        self._managers = Managers(config, random, writer)
        self._claim_epoch = _INACTIVE
        self._committed = MetadataImage.EMPTY
        self._last_append = -1
        self._queue = EventQueue()
        self._fault: Exception | None = None
        self._deferred = DeferredEventQueue()
        self._responses: list[tuple[int, Message]] = []
        self._periodic = PeriodicTaskControlManager(
            periodic_tasks(self._managers), self._schedule_deferred, self._queue.cancel_deferred
        )

    @property
    def is_active(self) -> bool:
        """Whether this controller is active."""
        return self._claim_epoch != _INACTIVE

    def last_contact_ms(self, broker_id: int) -> int | None:
        """Return the time of the broker's last contact with the active controller, None without one; for metrics."""
        return self._managers.heartbeats.last_contact_ms(broker_id)

    # -- calls of the node

    def handle(
        self, request_id: int, message: Message, version: int, context: ControllerRequestContext, now_ms: int
    ) -> None:
        """Accept a request. Its response, or its error, appears in `take_responses`, now or after a later `poll`."""
        received_ms = now_ms if context.received_ms is None else context.received_ms
        event = RequestEvent(request_id, message, version, context, received_ms, self._serve, self._fail)
        if type(message) is BrokerHeartbeatRequest:
            self._note_contact(message, now_ms)
        try:
            answer = early_answer(self._managers, message, context)
        except Exception as error:  # noqa: BLE001  # every failure becomes a response
            self._fail(event, error)
            return
        if answer is None:
            self._queue.append(event, context.deadline_ms)
        else:
            self._responses.append((request_id, answer))

    def poll(self, now_ms: int, budget: int) -> int:
        """Run due events until their cost reaches `budget`; return the cost: 1 for an event, more for large writes.

        Each event sees the records of the events before it. Raises the fault if records cannot be appended or replayed:
        no further event runs and the process must stop.
        """
        used = self._queue.run(now_ms, budget)
        if self._fault is not None:
            raise self._fault
        return used

    def next_deadline_ms(self, now_ms: int) -> int:
        """Return the latest time for the next `poll`: `now_ms` while an event is pending, NEVER_MS for never."""
        return self._queue.next_deadline_ms(now_ms)

    def on_leader(self, epoch: int, now_ms: int, *, in_transaction: bool = False) -> None:
        """Become active in `epoch`; the next `poll` completes it. The committed image contains the whole log.

        `in_transaction`: the log ends inside a metadata transaction, which is aborted first.
        """
        if self.is_active:
            self.on_resign(now_ms)
        self.metrics.operations_started += 1
        log.info("becoming_active", extra={"epoch": epoch, "next_offset": self._writer.next_offset})
        self._claim_epoch = epoch
        self.wants_resign = False
        self._last_append = -1
        self._managers.heartbeats.activate(self._committed, now_ms)
        self._queue.prepend(
            OperationEvent(
                f"completeActivation[{epoch}]",
                lambda now_ms: self._complete_activation(epoch, now_ms, in_transaction=in_transaction),
                self._operation_failed,
            )
        )

    def on_resign(self, now_ms: int) -> None:
        """Become inactive; deferred responses become NOT_CONTROLLER."""
        if not self.is_active:
            return
        self.metrics.operations_started += 1
        log.info("renouncing_leadership", extra={"epoch": self._claim_epoch, "waiting_answers": len(self._deferred)})
        self._claim_epoch = _INACTIVE
        self.wants_resign = False
        self._last_append = -1
        self._periodic.deactivate()
        self._managers.heartbeats.deactivate()
        for answer in self._deferred.fail_all():
            self._answer_error(answer.request, ErrorCode.NOT_CONTROLLER, NO_ACTIVE_CONTROLLER)
            self._note_end(answer.request, now_ms)

    def on_commit(self, image: MetadataImage, now_ms: int) -> None:
        """Replace the committed image, and send the responses deferred until its offset."""
        self.metrics.operations_started += 1
        self._committed = image
        for answer in self._deferred.complete_up_to(image.offset):
            self._responses.append((answer.request.request_id, answer.response))
            self._note_end(answer.request, now_ms)

    def close(self, now_ms: int) -> None:
        """Accept no more events, and run or reject the pending ones. Deferred responses are dropped."""
        self._queue.begin_shutdown()
        while self._queue:
            self.poll(now_ms, len(self._queue))

    def take_responses(self) -> list[tuple[int, Message]]:
        """Return the responses since the last call as (request id, response), in order."""
        responses, self._responses = self._responses, []
        return responses

    # -- requests

    def _note_contact(self, request: Any, now_ms: int) -> None:
        """Record the contact before the heartbeat is queued, so that a slow controller does not fence a live broker."""
        if self.is_active:
            broker = self._writer.tip.cluster.brokers.get(request.broker_id)
            if broker is not None and broker.epoch == request.broker_epoch:
                self._managers.heartbeats.touch(broker.id, broker.epoch, now_ms)

    def _serve(self, event: RequestEvent, now_ms: int) -> None:
        """Run the request's operation. Raises KafkaError, and any exception of a faulty manager."""
        self.metrics.operations_started += 1
        self.metrics.event_queue_time.update(now_ms - event.received_ms)
        message = event.message
        kind = type(message)
        read = READS.get(kind)
        if read is not None:
            call = Call(self._committed, message, event.version, event.context, now_ms)
            self._answer(event, read(self._managers, call))
            return
        if not self.is_active or self.wants_resign:
            leader_id = self._writer.leader_id
            hint = f"The active controller appears to be node {leader_id}."
            raise KafkaError(ErrorCode.NOT_CONTROLLER, hint if leader_id >= 0 else NO_ACTIVE_CONTROLLER)
        write = WRITES.get(kind)
        if write is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{kind.__name__} is not served by the controller.")
        result = write(self._managers, Call(self._writer.tip, message, event.version, event.context, now_ms))
        check_size(message, result)
        self._finish(event, result)

    def _finish(self, event: RequestEvent, result: ControllerResult[Message]) -> None:
        """Append the records of an operation, and defer its response until the log has committed them."""
        last_offset = self._append(result) if result.records else self._writer.next_offset - 1
        event.cost += len(result.records) // RECORDS_PER_COST
        if result.appended is not None:
            result.appended(last_offset)
        pending = self._last_append > self._committed.offset
        if not pending or (not result.records and self._rests_on_committed(event.message)):
            self._answer(event, result.response)
            return
        self._deferred.add(DeferredResponse(self._last_append, event, result.response))

    def _rests_on_committed(self, message: Any) -> bool:
        """Report whether the response depends on committed state only: a heartbeat without pending broker change."""
        if type(message) is not BrokerHeartbeatRequest:
            return False
        committed = self._committed.cluster.brokers.get(message.broker_id)
        return committed is not None and committed is self._writer.tip.cluster.brokers.get(message.broker_id)

    def _append(self, result: ControllerResult[Any]) -> int:
        """Append the records, as one batch or as several if the result allows it; return the last offset.

        Raises KafkaError when the node no longer leads. Any other failure is fatal, because tip and log may differ.
        """
        records = result.records
        size = self._config.max_records_per_batch
        try:
            if result.is_atomic and len(records) > size:
                raise ReplayError(
                    f"Attempted to atomically commit {len(records)} records, of at most {size} in a batch"
                )
            for start in range(0, len(records), size):
                self._last_append = self._writer.append(records[start : start + size])
        except KafkaError:
            raise
        except Exception as error:
            self._stop(error)
            raise
        return self._last_append

    def _stop(self, fault: Exception) -> None:
        """Run no further event; `poll` raises the fault. Source: ProcessTerminatingFaultHandler."""
        self._fault = fault
        self._queue.interrupt()

    # -- responses

    def _answer(self, event: RequestEvent, response: Message) -> None:
        self._responses.append((event.request_id, response))
        self.metrics.ended_in_step += 1

    def _answer_error(self, event: RequestEvent, code: int, words: str | None) -> None:
        self._responses.append((event.request_id, error_response(event.message, event.version, code, words)))

    def _note_end(self, event: RequestEvent, now_ms: int) -> None:
        """Record the processing time of a request whose response was deferred."""
        self.metrics.event_queue_processing_time.update(now_ms - event.started_ms)

    def _fail(self, event: RequestEvent, error: Exception) -> None:
        """Respond with the error of a failed request. Source: EventHandlerExceptionInfo."""
        has_started = event.started_ms != NOT_STARTED
        self.metrics.ended_in_step += has_started
        match error:
            case KafkaError():
                self._answer_error(event, error.code, error.message)
            case TimeoutError() if not has_started:
                self._timed_out(event)
            case RejectedExecution():
                self._answer_error(event, ErrorCode.REQUEST_TIMED_OUT, "The controller is shutting down.")
            case Interrupted():
                self._answer_error(event, ErrorCode.UNKNOWN_SERVER_ERROR, None)
            case _:  # a bug: respond, and resign so that another controller takes over
                extra = {"request": type(event.message).__name__, "epoch": self._claim_epoch}
                log.error("unexpected_error", exc_info=error, extra=extra)
                self.metrics.faults += 1
                self.wants_resign = self.is_active
                self._answer_error(event, ErrorCode.UNKNOWN_SERVER_ERROR, None)

    def _timed_out(self, event: RequestEvent) -> None:
        """Respond REQUEST_TIMED_OUT to an expired request; the metadata offset of a heartbeat is still recorded."""
        self.metrics.operations_timed_out += 1
        self._answer_error(event, ErrorCode.REQUEST_TIMED_OUT, None)
        if isinstance(event.message, BrokerHeartbeatRequest):
            self.metrics.timed_out_heartbeats += 1
            if self.is_active:
                self._managers.replication.process_expired_broker_heartbeat(self._writer.tip, event.message)

    # -- activation and periodic tasks

    def _complete_activation(self, epoch: int, now_ms: int, *, in_transaction: bool) -> None:
        """Append the activation records, and start the periodic tasks."""
        if epoch != self._claim_epoch:
            return
        self.metrics.operations_started += 1
        try:
            result = activation_records(
                self._committed.features.metadata_version,
                in_transaction=in_transaction,
                bootstrap_features=self._config.bootstrap_features,
                bootstrap_records=self._bootstrap_records,
                min_insync_replicas=self._config.min_insync_replicas,
            )
        except Exception as error:
            self._stop(error)
            raise
        if result.records:
            self._append(result)
        self._periodic.activate(now_ms)
        self.metrics.ended_in_step += 1

    def _schedule_deferred(self, tag: str, at_ms: int, operation: Callable[[int], ControllerResult[Any]]) -> None:
        def operate(now_ms: int) -> None:
            self.metrics.operations_started += 1
            self.metrics.ended_in_step += 1
            result = operation(now_ms)
            if result.records:
                self._append(result)

        self._queue.schedule_deferred(
            tag, earliest_deadline(at_ms), OperationEvent(tag, operate, self._operation_failed)
        )

    def _operation_failed(self, name: str, error: Exception) -> None:
        """Log the failure. A failed periodic task does not stop the controller: it is retried much later."""
        if isinstance(error, KafkaError | RejectedExecution | Interrupted):
            log.info("operation_refused", extra={"operation": name, "reason": str(error)})
        elif error is not self._fault:
            self.metrics.faults += 1
            log.error("operation_failed", exc_info=error, extra={"operation": name})
