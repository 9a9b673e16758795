"""QuorumController: the active controller of the metadata quorum, and the same object in waiting on every other node.

Everything it does by itself or for others goes through its event queue. A request is appended with its deadline; what
completes the activation is prepended, so that it comes before whatever waits; periodic tasks are deferred events under
their names. What raft tells is done at once, before what waits: it has happened already. Kafka queues that behind the
requests, which makes answers wait for strangers' requests, and refuses those that came just before an activation.

A write is judged against the tip, the image with everything appended so far. Its records are appended at once, as one
atomic batch or several, and its answer is kept back until the log has committed them. An answer without records may rest
on uncommitted state, so it waits for the newest append too. When leadership is lost, what waits for the log is answered
NOT_CONTROLLER: it may or may not commit. So is what waits in the queue, in its turn.

The node calls: `handle` for each request, `poll` to let some of what is due run, `on_leader` once everything before its
epoch is committed and replayed, `on_resign`, `on_commit` as the committed image moves, `close` when nothing more may
run; and it collects `take_responses`. Source: QuorumController, Kafka 4.3.1.
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
from kraft_core.controller.queue.deferred_event_queue import DeferredAnswer, DeferredEventQueue
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
"""Appending and replaying so many records takes as long as judging a small request, or a little longer."""
NO_ACTIVE_CONTROLLER: Final = "No controller appears to be active."
_INACTIVE: Final = -1


class QuorumController:
    """One node's controller; see the module.

    `wants_resign` is set when an event failed in a way it should not: the node shall give up leadership, so that another
    controller tries.
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
        """Whether this controller has claimed the leadership."""
        return self._claim_epoch != _INACTIVE

    def last_contact_ms(self, broker_id: int) -> int | None:
        """Return when the active controller last heard of a broker, for metrics."""
        return self._managers.heartbeats.last_contact_ms(broker_id)

    # -- what the node tells

    def handle(
        self, request_id: int, message: Message, version: int, context: ControllerRequestContext, now_ms: int
    ) -> None:
        """Take in one request. Its answer comes with `take_responses`, now or after some `poll`; any failure is one too."""
        received_ms = now_ms if context.received_ms is None else context.received_ms
        event = RequestEvent(request_id, message, version, context, received_ms, self._serve, self._fail)
        if type(message) is BrokerHeartbeatRequest:
            self._note_contact(message, now_ms)
        try:
            answer = early_answer(self._managers, message, context)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is an answer
            self._fail(event, error)
            return
        if answer is None:
            self._queue.append(event, context.deadline_ms)
        else:
            self._responses.append((request_id, answer))

    def poll(self, now_ms: int, budget: int) -> int:
        """Run what is due until `budget` is used up; returns what was used: 1 for an event, more for one that writes much.

        What one event appends the next one sees. When records cannot be appended or replayed as they should, nothing more
        runs and this raises why: the process must end.
        """
        used = self._queue.run(now_ms, budget)
        if self._fault is not None:
            raise self._fault
        return used

    def next_deadline_ms(self, now_ms: int) -> int:
        """Return when `poll` is wanted at the latest: `now_ms` while something waits, NEVER_MS for not at all."""
        return self._queue.next_deadline_ms(now_ms)

    def on_leader(self, epoch: int, now_ms: int, *, in_transaction: bool = False) -> None:
        """Become active in `epoch`: the committed image is the whole log, and the tip. The next `poll` completes it.

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
        """Stop being active; answers that wait for the log become NOT_CONTROLLER."""
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
        """Take the newest committed image, and give the answers that waited for its offset."""
        self.metrics.operations_started += 1
        self._committed = image
        for answer in self._deferred.complete_up_to(image.offset):
            self._responses.append((answer.request.request_id, answer.response))
            self._note_end(answer.request, now_ms)

    def close(self, now_ms: int) -> None:
        """Take nothing more, and let all that waits run or be refused; what waits for the log is not answered."""
        self._queue.begin_shutdown()
        while self._queue:
            self.poll(now_ms, len(self._queue))

    def take_responses(self) -> list[tuple[int, Message]]:
        """Return the answers given since the last call, in order."""
        responses, self._responses = self._responses, []
        return responses

    # -- requests

    def _note_contact(self, request: Any, now_ms: int) -> None:
        """Note that a broker lives, before anything else is asked, so that a slow controller fences nobody."""
        if self.is_active:
            broker = self._writer.tip.cluster.brokers.get(request.broker_id)
            if broker is not None and broker.epoch == request.broker_epoch:
                self._managers.heartbeats.touch(broker.id, broker.epoch, now_ms)

    def _serve(self, event: RequestEvent, now_ms: int) -> None:
        """Answer a request, or let its answer wait for the log. Raises KafkaError and what a faulty manager raises."""
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
        self._deferred.add(DeferredAnswer(self._last_append, event, result.response))

    def _rests_on_committed(self, message: Any) -> bool:
        """Say whether the answer follows from committed state alone: a heartbeat of a broker that nobody is changing."""
        if type(message) is not BrokerHeartbeatRequest:
            return False
        committed = self._committed.cluster.brokers.get(message.broker_id)
        return committed is not None and committed is self._writer.tip.cluster.brokers.get(message.broker_id)

    def _append(self, result: ControllerResult[Any]) -> int:
        """Append records as one batch, or in several if the result allows; returns the last offset.

        Raises KafkaError when the node leads no more. Whatever else goes wrong is fatal: the tip may not be the log's.
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
        """Let nothing more run; `poll` raises what happened. Source: ProcessTerminatingFaultHandler."""
        self._fault = fault
        self._queue.interrupt()

    # -- answers

    def _answer(self, event: RequestEvent, response: Message) -> None:
        self._responses.append((event.request_id, response))
        self.metrics.ended_in_step += 1

    def _answer_error(self, event: RequestEvent, code: int, words: str | None) -> None:
        self._responses.append((event.request_id, error_response(event.message, event.version, code, words)))

    def _note_end(self, event: RequestEvent, now_ms: int) -> None:
        """Note the processing time of a request whose answer waited for the log."""
        self.metrics.event_queue_processing_time.update(now_ms - event.started_ms)

    def _fail(self, event: RequestEvent, error: Exception) -> None:
        """Answer what went wrong with a request. Source: EventHandlerExceptionInfo."""
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
            case _:  # a fault of ours: answer, and let another controller take over
                extra = {"request": type(event.message).__name__, "epoch": self._claim_epoch}
                log.error("unexpected_error", exc_info=error, extra=extra)
                self.metrics.faults += 1
                self.wants_resign = self.is_active
                self._answer_error(event, ErrorCode.UNKNOWN_SERVER_ERROR, None)

    def _timed_out(self, event: RequestEvent) -> None:
        """Answer a request that was not begun in time; a heartbeat still tells how far its broker has read."""
        self.metrics.operations_timed_out += 1
        self._answer_error(event, ErrorCode.REQUEST_TIMED_OUT, None)
        if isinstance(event.message, BrokerHeartbeatRequest):
            self.metrics.timed_out_heartbeats += 1
            if self.is_active:
                self._managers.replication.process_expired_broker_heartbeat(self._writer.tip, event.message)

    # -- what the controller does by itself

    def _complete_activation(self, epoch: int, now_ms: int, *, in_transaction: bool) -> None:
        """Write what a new active controller has to say first, and begin with the periodic tasks."""
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
        """Log it. A periodic task's fault must not stop the controller: it is tried again much later."""
        if isinstance(error, KafkaError | RejectedExecution | Interrupted):
            log.info("operation_refused", extra={"operation": name, "reason": str(error)})
        elif error is not self._fault:
            self.metrics.faults += 1
            log.error("operation_failed", exc_info=error, extra={"operation": name})
