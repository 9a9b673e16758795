"""QuorumController: the active controller of the metadata quorum, and the same object in waiting on every other node.

A write is judged against the tip, the image with everything appended so far. Its records are appended at once, as one
atomic batch or several, and its answer is kept back until the log has committed them. An answer without records may rest
on uncommitted state, so it waits for the newest append too. When leadership is lost, what waits is answered
NOT_CONTROLLER: it may or may not commit.

The node calls: `handle` for each request, `poll` when time has passed, `on_leader` once everything before its epoch is
committed and replayed, `on_resign`, `on_commit` as the committed image moves; and it collects `take_responses`.
Source: QuorumController, Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from kraft_core.controller.activation import activation_records
from kraft_core.controller.controller_operations import (
    READS,
    WRITES,
    Call,
    Managers,
    Written,
    check_size,
    early_answer,
)
from kraft_core.controller.controller_result import ControllerResult
from kraft_core.controller.deferred_event_queue import DeferredAnswer, DeferredEventQueue
from kraft_core.controller.error_responses import error_response
from kraft_core.controller.periodic_tasks import PeriodicTask, PeriodicTasks
from kraft_core.controller.quorum_controller_metrics import QuorumControllerMetrics
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.replay_error import ReplayError
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import BrokerHeartbeatRequest
from kraft_core.protocol.metadata_records import NoOpRecord

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from kraft_core.controller.controller_config import ControllerConfig
    from kraft_core.controller.controller_result import RequestContext
    from kraft_core.controller.record_writer import RecordWriter
    from kraft_core.protocol.metadata_records import MetadataRecord
    from kraft_core.protocol.wire import Message

log = logging.getLogger(__name__)

_INACTIVE: Final = -1
_FENCE_CHECKS_PER_SESSION: Final = 8


class QuorumController:
    """One node's controller; see the module.

    `wants_resign` is set when a manager failed in a way it should not: the node shall give up leadership, so that another
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
        self._deferred = DeferredEventQueue()
        self._responses: list[tuple[int, Message]] = []
        self._periodic = PeriodicTasks(self._periodic_tasks())

    @property
    def is_active(self) -> bool:
        """Whether this controller has claimed the leadership."""
        return self._claim_epoch != _INACTIVE

    def last_contact_ms(self, broker_id: int) -> int | None:
        """Return when the active controller last heard of a broker, for metrics."""
        return self._managers.lifecycle.heartbeats.last_contact_ms(broker_id)

    # -- what the node tells

    def handle(self, request_id: int, message: Message, version: int, context: RequestContext, now_ms: int) -> None:
        """Take in one request; its answer comes with `take_responses`, now or later.

        Any failure is an answer too. Raises ReplayError when a record cannot be replayed: the process must end.
        """
        kind = type(message)
        self.metrics.operations_started += 1
        try:
            if kind is BrokerHeartbeatRequest:
                self._note_contact(message, now_ms)
            read = READS.get(kind)
            if read is not None:
                call = Call(self._committed, message, version, context, now_ms)
                self._responses.append((request_id, read(self._managers, call)))
                return
            call = Call(self._writer.tip, message, version, context, now_ms)
            answer = early_answer(self._managers, call)
            if answer is not None:
                self._responses.append((request_id, answer))
                return
            self._check_may_write(message, context, now_ms)
            write = WRITES.get(kind)
            if write is None:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{kind.__name__} is not served by the controller.")
            written = write(self._managers, call)
            check_size(message, written.result)
        except KafkaError as error:
            self._fail(request_id, message, version, error.code, error.message)
            return
        except Exception:  # a fault of ours: answer, and let another controller take over
            log.exception("unexpected_error", extra={"request": kind.__name__, "epoch": self._claim_epoch})
            self.wants_resign = self.is_active
            self._fail(request_id, message, version, ErrorCode.UNKNOWN_SERVER_ERROR, None)
            return
        self._finish(request_id, message, version, written)

    def poll(self, now_ms: int) -> None:
        """Do the periodic work that is due."""
        for task in self._periodic.due(now_ms):
            self.metrics.operations_started += 1
            try:
                result = task.run(now_ms)
            except Exception:  # one task's fault must not stop the controller; it is tried again much later
                log.exception("periodic_task_failed", extra={"task": task.name})
                self._periodic.reschedule(task, now_ms, failed=True)
                continue
            self._periodic.reschedule(task, now_ms, immediate=result.response)
            if result.records:
                try:
                    self._append(result)
                except KafkaError as error:
                    log.info("append_refused", extra={"task": task.name, "reason": error.message})
                    return

    def next_deadline_ms(self) -> int:
        """Return when `poll` is wanted at the latest; very large while not active."""
        return self._periodic.next_deadline_ms()

    def on_leader(self, epoch: int, now_ms: int, *, in_transaction: bool = False) -> None:
        """Become active in `epoch`: the committed image is the whole log, and the tip.

        `in_transaction`: the log ends inside a metadata transaction, which is aborted first.
        """
        if self.is_active:
            self.on_resign(now_ms)
        self.metrics.operations_started += 1
        log.info("becoming_active", extra={"epoch": epoch, "next_offset": self._writer.next_offset})
        self._claim_epoch = epoch
        self.wants_resign = False
        self._last_append = -1
        self._managers.lifecycle.heartbeats.activate(self._committed, now_ms)
        records = activation_records(
            self._committed.features.metadata_version,
            in_transaction=in_transaction,
            bootstrap_features=self._config.bootstrap_features,
            bootstrap_records=self._bootstrap_records,
            min_insync_replicas=self._config.min_insync_replicas,
        )
        if records.records:
            self._append(records)
        self._periodic.activate(now_ms)

    def on_resign(self, now_ms: int) -> None:
        """Stop being active; answers that wait become NOT_CONTROLLER."""
        if not self.is_active:
            return
        self.metrics.operations_started += 1
        log.info("renouncing_leadership", extra={"epoch": self._claim_epoch, "waiting_answers": len(self._deferred)})
        self._claim_epoch = _INACTIVE
        self.wants_resign = False
        self._last_append = -1
        self._periodic.deactivate()
        self._managers.lifecycle.heartbeats.deactivate()
        error = KafkaError(ErrorCode.NOT_CONTROLLER, "No controller appears to be active.")
        for answer in self._deferred.fail_all():
            self._fail(answer.request_id, answer.request, answer.version, error.code, error.message)

    def on_commit(self, image: MetadataImage, now_ms: int) -> None:
        """Take the newest committed image, and give the answers that waited for its offset."""
        self.metrics.operations_started += 1
        self._committed = image
        for answer in self._deferred.complete_up_to(image.offset):
            self._responses.append((answer.request_id, answer.response))

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
                self._managers.lifecycle.heartbeats.touch(broker.id, broker.epoch, now_ms)

    def _check_may_write(self, message: Message, context: RequestContext, now_ms: int) -> None:
        if not self.is_active:
            leader_id = self._writer.leader_id
            hint = f"The active controller appears to be node {leader_id}."
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER, hint if leader_id >= 0 else "No controller appears to be active."
            )
        if now_ms > context.deadline_ms:
            self.metrics.operations_timed_out += 1
            self.metrics.timed_out_heartbeats += type(message) is BrokerHeartbeatRequest
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The request timed out before the controller began with it.")

    def _finish(self, request_id: int, message: Message, version: int, written: Written) -> None:
        """Append what an operation wants, and answer when the log allows."""
        result = written.result
        if result.records:
            try:
                last_offset = self._append(result)
            except KafkaError as error:
                self._fail(request_id, message, version, error.code, error.message)
                return
        else:
            last_offset = self._writer.next_offset - 1
        if written.appended is not None:
            written.appended(last_offset)
        pending = self._last_append > self._committed.offset
        if not pending or (not result.records and self._rests_on_committed(message)):
            self._responses.append((request_id, result.response))
            return
        self._deferred.add(DeferredAnswer(self._last_append, request_id, message, version, result.response))

    def _rests_on_committed(self, message: Any) -> bool:
        """Say whether the answer follows from committed state alone: a heartbeat of a broker that nobody is changing."""
        if type(message) is not BrokerHeartbeatRequest:
            return False
        committed = self._committed.cluster.brokers.get(message.broker_id)
        return committed is not None and committed is self._writer.tip.cluster.brokers.get(message.broker_id)

    def _append(self, result: ControllerResult[Any]) -> int:
        """Append records as one batch, or in several if the result allows; returns the last offset.

        Raises KafkaError when the node leads no more, ReplayError when the tip cannot follow.
        """
        records = result.records
        size = self._config.max_records_per_batch
        if result.is_atomic and len(records) > size:
            raise ReplayError(f"Attempted to atomically commit {len(records)} records, of at most {size} in a batch")
        for start in range(0, len(records), size):
            self._last_append = self._writer.append(records[start : start + size])
        return self._last_append

    def _fail(self, request_id: int, message: Message, version: int, code: int, words: str | None) -> None:
        self._responses.append((request_id, error_response(message, version, code, words)))

    # -- periodic work

    def _periodic_tasks(self) -> list[PeriodicTask]:
        config, managers = self._config, self._managers
        balance_ms = config.leader_imbalance_check_interval_ms if config.auto_leader_rebalance_enable else 0
        return [
            PeriodicTask("writeNoOpRecord", config.max_idle_interval_ms, lambda _: _no_op()),
            PeriodicTask(
                "maybeFenceStaleBroker",
                max(1, config.session_timeout_ms // _FENCE_CHECKS_PER_SESSION),
                lambda now_ms: managers.lifecycle.fence_one_stale_broker(self._writer.tip, now_ms),
            ),
            PeriodicTask(
                "electPreferred",
                balance_ms,
                lambda _: managers.replication.maybe_balance_partition_leaders(self._writer.tip),
            ),
            PeriodicTask(
                "electUnclean",
                config.unclean_leader_election_interval_ms,
                lambda _: managers.replication.maybe_elect_unclean_leaders(self._writer.tip),
            ),
            PeriodicTask(
                "expireDelegationTokens",
                config.delegation_token_expiry_check_interval_ms,
                lambda now_ms: managers.delegation_tokens.sweep_expired(self._writer.tip, now_ms),
            ),
        ]


def _no_op() -> ControllerResult[bool]:
    return ControllerResult((NoOpRecord(),), response=False)
