"""Sends batches to the leaders of their partitions and takes in the answers: the core of a producer.

Each `step` drains what the accumulator has ready for nodes that can take a request, and completes the batches of
answered requests: acknowledged, queued again after a retriable error, split when the broker finds them too large, or
failed. Without idempotence, order within a partition survives retries only with one request in flight a connection;
then a partition is muted while one of its batches is in flight.

Source: Sender, Kafka 4.3.1; KIP-467 (errors of records), KIP-516 (topic ids), KIP-951 (leaders named in answers).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, cast
from uuid import UUID

from kraft_core.clients.client_metadata import Node, TopicPartition
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import Disconnected, NodeRequest, NodeTimedOut
from kraft_core.clients.producer.producer_batch import ProducerBatch
from kraft_core.clients.producer.record_accumulator import NEVER, RecordAccumulator
from kraft_core.clients.producer.transaction_manager import TransactionManager
from kraft_core.clients.producer.txn_request_sender import TxnRequestSender
from kraft_core.protocol.errors import ErrorCode, KafkaError, RequestTimedOut
from kraft_core.protocol.messages import (
    ProduceRequest,
    ProduceRequestPartitionProduceData,
    ProduceRequestTopicProduceData,
    ProduceResponse,
)
from kraft_core.protocol.messages import ProduceResponsePartitionProduceResponse as PartitionResponse
from kraft_core.security.sasl_client_authenticator import LoginFailed

RequestCompletionHandler = Callable[[NodeRequest, float], None]
"""The context of a request that the sender's `step` completes: called with the request and the time in ms."""

INVALID_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors after which metadata is asked for. Source: the subclasses of InvalidMetadataException."""

_LAST_VERSION_WITH_NAMES: Final = 12
_LAST_VERSION_BEFORE_TRANSACTION_V2: Final = 11


@dataclass(frozen=True, slots=True)
class SenderConfig:
    """The names are those of Kafka's configs with underscores; `acks` is -1 for all."""

    acks: int = -1
    retries: int = 2**31 - 1
    max_request_size: int = 1_048_576
    request_timeout_ms: int = 30_000
    guarantee_message_order: bool = False


class Sender:
    """The rules of a producer's I/O, without I/O. `record_error_count` and `split_count` count since the start."""

    def __init__(
        self,
        config: SenderConfig,
        network: NetworkClient,
        accumulator: RecordAccumulator,
        transaction_manager: TransactionManager | None = None,
    ) -> None:
        self.config = config
        self.network = network
        self.accumulator = accumulator
        self.transaction_manager = transaction_manager
        self._txn_requests = (
            None if transaction_manager is None else TxnRequestSender(transaction_manager, network, accumulator)
        )
        self._in_flight_batches: dict[TopicPartition, list[ProducerBatch]] = {}
        self._seen_changes = 0
        self._next_check_ms: float = NEVER

    # Turns

    def step(self, now_ms: float) -> None:
        """Take in completed requests, expire old batches, and send what is ready."""
        while True:
            for request in self.network.take_completed():
                cast("RequestCompletionHandler", request.context)(request, now_ms)
            if self._txn_requests is not None and not self._txn_requests.step(now_ms):
                self._fail_expired_batches(now_ms)
                self._next_check_ms = NEVER
                return
            if not self._send_producer_data(now_ms):
                return

    def next_deadline_ms(self, now_ms: float) -> float | None:
        """Return when a batch is due or expires, or a transactional request is due; None while there is none."""
        due = min(self._next_check_ms, self.accumulator.next_expiry_time_ms)
        if self._txn_requests is not None:
            txn_due = self._txn_requests.next_deadline_ms(now_ms)
            due = due if txn_due is None else min(due, txn_due)
        return None if due == NEVER else due

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be sent, written or answered, and no transaction is open."""
        if self.transaction_manager is not None and self.transaction_manager.has_ongoing_transaction:
            return False
        return not (self.accumulator.has_incomplete or self._in_flight_batches or self.network.has_unwritten)

    def force_close(self, error: KafkaError) -> None:
        """Fail all records and transactional operations without an outcome."""
        if self.transaction_manager is not None:
            self.transaction_manager.close(error)
        self.accumulator.abort_batches(error)

    # Sending

    def _send_producer_data(self, now_ms: float) -> bool:
        """Send at most one Produce request to each node; return whether there is more to do.

        After an expired batch an error may have to be handled, or the end of a transaction waits for no batch any more.
        """
        accumulator, metadata = self.accumulator, self.network.metadata
        if self._fail_expired_batches(now_ms):
            return True
        if metadata.changes != self._seen_changes:
            self._seen_changes = metadata.changes
            accumulator.forget_idle_topics({partition.topic for partition in self._in_flight_batches}, now_ms)
        if not accumulator.has_undrained:
            self._next_check_ms = NEVER
            return False
        result = accumulator.ready(metadata, now_ms)
        self._next_check_ms = result.next_ready_check_ms
        if result.unknown_leader_topics:
            metadata.want(result.unknown_leader_topics)
            if metadata.update_due_ms(now_ms) is not None:
                metadata.request_update()
        nodes = [node_id for node_id in sorted(result.ready_nodes) if self._is_ready(node_id, now_ms)]
        if not nodes:
            return False
        drained = accumulator.drain(metadata, nodes, self.config.max_request_size, now_ms)
        is_any_sent = False
        for node_id, batches in drained.items():
            if batches:
                is_any_sent = True
                self._send_produce_request(node_id, batches, now_ms)
        return is_any_sent

    def _is_ready(self, node_id: int, now_ms: float) -> bool:
        try:
            is_ready = self.network.is_ready(node_id, now_ms)
        except LoginFailed:  # network.failure_of keeps it
            is_ready = False
        self.accumulator.update_node_latency_stats(node_id, now_ms, can_drain=is_ready)
        if not is_ready:
            connect_due_ms = self.network.connect_due_ms(node_id)
            if connect_due_ms > now_ms:
                self._next_check_ms = min(self._next_check_ms, connect_due_ms)
        return is_ready

    def _send_produce_request(self, node_id: int, batches: list[ProducerBatch], now_ms: float) -> None:
        metadata, manager = self.network.metadata, self.transaction_manager
        by_topic: dict[str, list[ProduceRequestPartitionProduceData]] = {}
        for batch in batches:
            partition = batch.topic_partition
            batch.is_in_flight = True
            self._in_flight_batches.setdefault(partition, []).append(batch)
            if self.config.guarantee_message_order:
                self.accumulator.mute_partition(partition)
            by_topic.setdefault(partition.topic, []).append(
                ProduceRequestPartitionProduceData(index=partition.partition, records=batch.records())
            )
        ids = {topic: metadata.topic_id(topic) for topic in by_topic}
        max_version = None if all(topic_id.int for topic_id in ids.values()) else _LAST_VERSION_WITH_NAMES
        transactional_id = None
        if manager is not None and manager.is_transactional:
            transactional_id = manager.transactional_id
            if not manager.is_transaction_v2_enabled:
                max_version = _LAST_VERSION_BEFORE_TRANSACTION_V2
        message = ProduceRequest(
            transactional_id=transactional_id,
            acks=self.config.acks,
            timeout_ms=self.config.request_timeout_ms,
            topic_data=tuple(
                ProduceRequestTopicProduceData(name=topic, topic_id=ids[topic], partition_data=tuple(data))
                for topic, data in by_topic.items()
            ),
        )
        handler: RequestCompletionHandler = partial(
            self._handle_produce_response,
            {batch.topic_partition: batch for batch in batches},
            {topic_id: topic for topic, topic_id in ids.items()},
        )
        request = NodeRequest(node_id, message, handler, max_version=max_version, expects_answer=self.config.acks != 0)
        self.network.send(request, now_ms)

    # Expiry

    def _fail_expired_batches(self, now_ms: float) -> bool:
        """Fail the batches that reached delivery.timeout.ms; return whether there were any."""
        accumulator = self.accumulator
        if now_ms < accumulator.next_expiry_time_ms:
            return False
        accumulator.reset_next_batch_expiry_time()
        in_flight = self._expired_in_flight_batches(now_ms)
        queued = accumulator.expired_batches(now_ms)
        for batch in queued:
            self._expire(batch, now_ms, deallocate_batch=True)
        for batch in in_flight:
            self._expire(batch, now_ms, deallocate_batch=False)
        return bool(queued or in_flight)

    def _expired_in_flight_batches(self, now_ms: float) -> list[ProducerBatch]:
        expired: list[ProducerBatch] = []
        timeout_ms = self.accumulator.config.delivery_timeout_ms
        for partition, batches in list(self._in_flight_batches.items()):
            late = [batch for batch in batches if batch.has_reached_delivery_timeout(timeout_ms, now_ms)]
            expired += [batch for batch in late if not batch.is_done]
            left = [batch for batch in batches if batch not in late]
            for batch in left:
                self.accumulator.maybe_update_next_batch_expiry_time(batch)
            if left:
                self._in_flight_batches[partition] = left
            else:
                del self._in_flight_batches[partition]
        return expired

    def _expire(self, batch: ProducerBatch, now_ms: float, *, deallocate_batch: bool) -> None:
        leader = self.network.metadata.leader_of(batch.topic_partition)
        cause = "no attempt was answered"
        if leader is None:
            cause = "the partition has no leader"
        elif (failure := batch.last_error or self.network.failure_of(leader.id)) is not None:
            cause = f"the last attempt: {failure}"
        text = (
            f"{batch.record_count} record(s) for {batch.topic_partition.topic}-{batch.topic_partition.partition} "
            f"expired {now_ms - batch.created_ms:.0f} ms after batch creation (delivery.timeout.ms): {cause}"
        )
        self._fail_batch(batch, RequestTimedOut(text), adjust_sequence_numbers=False, deallocate_batch=deallocate_batch)

    # Answers

    def _handle_produce_response(
        self,
        batches: dict[TopicPartition, ProducerBatch],
        topic_names: Mapping[UUID, str],
        request: NodeRequest,
        now_ms: float,
    ) -> None:
        answer = request.answer
        if not isinstance(answer, ProduceResponse):
            response = PartitionResponse(base_offset=-1) if request.error is None else _failed(request.error)
            for batch in batches.values():
                self._complete_batch(batch, response, now_ms)
            return
        leaders: dict[TopicPartition, tuple[int, int]] = {}
        for topic in answer.responses:
            name = topic_names.get(topic.topic_id, topic.name) if topic.topic_id.int else topic.name
            for response in topic.partition_responses:
                partition = TopicPartition(name, response.index)
                answered = batches.pop(partition, None)
                if answered is None:
                    continue
                self._complete_batch(answered, response, now_ms)
                hint = response.current_leader
                if response.error_code in _LEADER_ERRORS and hint.leader_id >= 0 and hint.leader_epoch >= 0:
                    leaders[partition] = hint.leader_id, hint.leader_epoch
        if leaders:
            endpoints = [Node(each.node_id, each.host, each.port, each.rack) for each in answer.node_endpoints]
            self.network.metadata.update_leaders(leaders, endpoints)
        for batch in batches.values():
            missing = KafkaError(ErrorCode.NETWORK_EXCEPTION, "The answer does not mention the partition.")
            self._complete_batch(batch, _failed(missing), now_ms)

    def _complete_batch(self, batch: ProducerBatch, response: PartitionResponse, now_ms: float) -> None:
        """Take in the outcome of an attempt."""
        batch.is_in_flight = False
        code = ErrorCode(response.error_code)
        if code == ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1 and not batch.is_done:
            if self.transaction_manager is not None:
                self.transaction_manager.remove_in_flight_batch(batch)
            self.accumulator.split_and_reenqueue(batch)
            self._maybe_remove_and_deallocate_batch(batch)
        elif code != ErrorCode.NONE:
            batch.last_error = _error(batch, response)
            if self._can_retry(batch, response, now_ms):
                self.accumulator.reenqueue(batch, now_ms)
                self._maybe_remove_from_inflight_batches(batch)
            elif code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                self._succeed(batch, response)
            else:
                self._fail_with_response(batch, response)
            if code in INVALID_METADATA:
                self.network.metadata.request_update()
        else:
            self._succeed(batch, response)
        if self.config.guarantee_message_order:
            self.accumulator.unmute_partition(batch.topic_partition)

    def _can_retry(self, batch: ProducerBatch, response: PartitionResponse, now_ms: float) -> bool:
        if batch.has_reached_delivery_timeout(self.accumulator.config.delivery_timeout_ms, now_ms):
            return False
        if batch.attempts >= self.config.retries or batch.is_done:
            return False
        if self.transaction_manager is not None:
            return self.transaction_manager.can_retry(response, batch)
        return ErrorCode(response.error_code).retriable

    def _succeed(self, batch: ProducerBatch, response: PartitionResponse) -> None:
        if self.transaction_manager is not None:
            self.transaction_manager.handle_completed_batch(batch, response)
        if batch.complete(response.base_offset, response.log_append_time_ms):
            self._maybe_remove_and_deallocate_batch(batch)
        else:
            self.accumulator.deallocate(batch)

    def _fail_with_response(self, batch: ProducerBatch, response: PartitionResponse) -> None:
        """Fail a batch, each record with its own error if the broker names one (KIP-467).

        An earlier attempt may be written, also where the broker refused the last one. Kafka closes the gap of the
        batch's sequences even then, so that another batch with the same ones could count as its duplicate.
        """
        top = _error(batch, response)
        errors: dict[int, KafkaError] = {}
        for each in response.record_errors:
            text = each.batch_index_error_message or response.error_message or top.message
            code = top.code if len(response.record_errors) == 1 else ErrorCode.INVALID_RECORD
            errors[each.batch_index] = KafkaError(code, text)
        rest = top if not errors else KafkaError(top.code, "Not written: other records of the batch are invalid.")
        self._fail_batch(
            batch,
            top,
            lambda index: errors.get(index, rest),
            adjust_sequence_numbers=batch.attempts == 0 and _is_refusal(top.code),
            deallocate_batch=True,
        )

    def _fail_batch(
        self,
        batch: ProducerBatch,
        error: KafkaError,
        error_of: Callable[[int], KafkaError] | None = None,
        *,
        adjust_sequence_numbers: bool,
        deallocate_batch: bool,
    ) -> None:
        if batch.complete_exceptionally(error_of or (lambda _index: error)):
            if self.transaction_manager is not None:
                self.transaction_manager.handle_failed_batch(
                    batch, error, adjust_sequence_numbers=adjust_sequence_numbers
                )
            self._maybe_remove_from_inflight_batches(batch)
            self.accumulator.complete_batch(batch)
        if deallocate_batch:
            self.accumulator.deallocate(batch)

    def _maybe_remove_and_deallocate_batch(self, batch: ProducerBatch) -> None:
        self._maybe_remove_from_inflight_batches(batch)
        self.accumulator.complete_and_deallocate_batch(batch)

    def _maybe_remove_from_inflight_batches(self, batch: ProducerBatch) -> None:
        batches = self._in_flight_batches.get(batch.topic_partition)
        if batches is not None and batch in batches:
            batches.remove(batch)
            if not batches:
                del self._in_flight_batches[batch.topic_partition]


_LEADER_ERRORS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def _failed(error: KafkaError) -> PartitionResponse:
    """Return what stands for a partition's answer when the request failed."""
    code = error.code
    if isinstance(error, NodeTimedOut):
        code = ErrorCode.REQUEST_TIMED_OUT
    elif isinstance(error, Disconnected):
        code = ErrorCode.NETWORK_EXCEPTION
    return PartitionResponse(error_code=code, error_message=error.message, base_offset=-1)


def _is_refusal(code: ErrorCode) -> bool:
    """Whether a broker that answers with an error has certainly not written the batch."""
    return not code.retriable and code != ErrorCode.UNKNOWN_SERVER_ERROR


def _error(batch: ProducerBatch, response: PartitionResponse) -> KafkaError:
    code = ErrorCode(response.error_code)
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return KafkaError(code, f"Not authorized to write to topic {batch.topic_partition.topic}.")
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return KafkaError(code, "Not authorized on the cluster to write with idempotence.")
    return KafkaError(code, response.error_message or None)
