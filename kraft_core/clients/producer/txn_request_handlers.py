"""The requests of a producer's transactions, and what their answers mean.

A handler builds its message once, so that a retry carries the same producer epoch. After an answer it has completed its
result, or enqueued itself again for later; `is_coordinator_lost` then says whether the coordinator is looked up first.

Errors are of three kinds: retried here without an end (the application's max.block.ms bounds its wait), abortable, and
fatal. Source: the TxnRequestHandlers of TransactionManager, Kafka 4.3.1; KIP-588, KIP-890, KIP-1050.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, Final

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.consumer_group_metadata import ConsumerGroupMetadata
from kraft_core.clients.coordinator_lookup import CoordinatorType
from kraft_core.clients.network_requests import Disconnected, NodeRequest
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata, commit_partition
from kraft_core.clients.producer.producer_id_and_epoch import ProducerIdAndEpoch
from kraft_core.clients.producer.transaction_result import TransactionalRequestResult
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestAddPartitionsToTxnTopic,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kraft_core.protocol.wire import Message

if TYPE_CHECKING:
    from kraft_core.clients.producer.transaction_manager import TransactionManager

ADD_PARTITIONS_RETRY_BACKOFF_MS: Final = 20
"""The wait before the first AddPartitionsToTxn is repeated while the previous transaction is still being completed."""

_INT32_MAX: Final = 2**31 - 1
_V1_MAX_VERSION: Final = {
    AddPartitionsToTxnRequest: 3,  # later versions are for brokers
    EndTxnRequest: 4,
    TxnOffsetCommitRequest: 4,
}
"""The last versions that do not imply transaction version 2."""

_COORDINATOR_LOST: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
_FATAL: Final = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


class Priority(IntEnum):
    """The order of pending requests."""

    INIT_PRODUCER_ID = 1
    ADD_PARTITIONS_OR_OFFSETS = 2
    END_TXN = 3


class TxnRequestHandler(ABC):
    """One request. `not_before_ms` is the earliest time to send it; `order` that of the calls, kept by retries."""

    PRIORITY: ClassVar[Priority] = Priority.ADD_PARTITIONS_OR_OFFSETS
    COORDINATOR_TYPE: ClassVar[CoordinatorType] = CoordinatorType.TRANSACTION
    is_end_txn: ClassVar[bool] = False
    is_epoch_bump: bool = False

    def __init__(self, manager: "TransactionManager", result: TransactionalRequestResult | None = None) -> None:
        self.result = result or TransactionalRequestResult()
        self.not_before_ms: float = 0
        self.is_coordinator_lost = False
        self.order = manager.next_order()
        self._manager = manager
        self._is_v2 = manager.is_transaction_v2_enabled
        self._now_ms: float = 0

    @property
    def coordinator_key(self) -> str | None:
        """What the coordinator is looked up for; None if any node may answer."""
        return self._manager.transactional_id

    @abstractmethod
    def message(self) -> Message:
        """Return the request."""

    @abstractmethod
    def _handle_response(self, answer: Message) -> None:
        """Take in the answer."""

    def node_request(self, node_id: int, context: object) -> NodeRequest:
        """Return the request to a node, in a version that fits the transaction's."""
        message = self.message()
        max_version = None if self._is_v2 else _V1_MAX_VERSION.get(type(message))
        return NodeRequest(node_id, message, context, max_version=max_version)

    def on_complete(self, request: NodeRequest, now_ms: float) -> None:
        """Take in the answer or the error of the request."""
        self._now_ms = now_ms
        self.is_coordinator_lost = False
        if isinstance(request.error, Disconnected):
            self._look_up_and_retry()
        elif request.error is not None:
            self._fatal_error(request.error)
        else:
            assert request.answer is not None, "a request without an error has an answer"
            self._handle_response(request.answer)

    def fail_without_coordinator(self, error: KafkaError) -> None:
        """End the request, because its coordinator cannot be found. Source: FindCoordinatorHandler."""
        if error.code in (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TRANSACTION_ABORTABLE):
            self._abortable_error(error)
        else:
            self._fatal_error(error)

    # Outcomes

    def _done(self) -> None:
        self.result.done()

    def _retry(self, backoff_ms: float | None = None) -> None:
        self.not_before_ms = self._now_ms + (self._manager.retry_backoff_ms if backoff_ms is None else backoff_ms)
        self._manager.enqueue(self)

    def _look_up_and_retry(self) -> None:
        self.is_coordinator_lost = True
        self._retry()

    def _fatal_error(self, error: KafkaError) -> None:
        self._manager.transition_to_fatal_error(error)
        self.result.fail(error)

    def _abortable_error(self, error: KafkaError) -> None:
        self._manager.transition_to_abortable_error(error)
        self.result.fail(error)

    def _abortable_error_if_possible(self, error: KafkaError) -> None:
        self._manager.abortable_error_if_possible(error)
        self.result.fail(error)

    def _handle_common_error(self, code: ErrorCode) -> None:
        """Take in an error that means the same to every request to the transaction coordinator."""
        if code in _COORDINATOR_LOST:
            self._look_up_and_retry()
        elif code.retriable:
            self._retry()
        elif code in _FENCED:
            self._fatal_error(self._fenced())
        elif code == ErrorCode.UNKNOWN_PRODUCER_ID:
            self._abortable_error_if_possible(self._error(code))
        elif code == ErrorCode.TRANSACTION_ABORTABLE:
            self._abortable_error(self._error(code))
        else:
            self._fatal_error(self._error(code))

    def _fenced(self) -> KafkaError:
        name = self._manager.transactional_id
        text = (
            f"A newer producer uses the transactional.id '{name}', or the transaction was aborted by the coordinator."
        )
        return KafkaError(ErrorCode.PRODUCER_FENCED, text)

    def _error(self, code: ErrorCode, text: str = "") -> KafkaError:
        request = type(self.message()).__name__.removesuffix("Request")
        return KafkaError(code, f"{request}: {code.default_message}{text}")


class InitProducerIdHandler(TxnRequestHandler):
    """Asks for a producer id and epoch; with `current` for the next epoch of that id."""

    PRIORITY = Priority.INIT_PRODUCER_ID

    def __init__(
        self,
        manager: "TransactionManager",
        current: ProducerIdAndEpoch,
        result: TransactionalRequestResult | None = None,
    ) -> None:
        super().__init__(manager, result)
        self.is_epoch_bump = current.is_valid
        self._message = InitProducerIdRequest(
            transactional_id=manager.transactional_id,
            transaction_timeout_ms=manager.transaction_timeout_ms if manager.is_transactional else _INT32_MAX,
            producer_id=current.producer_id,
            producer_epoch=current.epoch,
        )

    def message(self) -> InitProducerIdRequest:
        """Return the request."""
        return self._message

    def _handle_response(self, answer: Message) -> None:
        assert isinstance(answer, InitProducerIdResponse)
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.NONE:
            received = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
            self._manager.initialized(received, is_epoch_bump=self.is_epoch_bump)
            self._done()
        elif code in (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            self._abortable_error(self._error(code))
        elif code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            timeout_ms = self._manager.transaction_timeout_ms
            text = f" transaction.timeout.ms is {timeout_ms}; the broker allows transaction.max.timeout.ms."
            self._fatal_error(self._error(code, text))
        elif code == ErrorCode.UNKNOWN_PRODUCER_ID:
            self._fatal_error(self._error(code))
        else:
            self._handle_common_error(code)


class AddPartitionsToTxnHandler(TxnRequestHandler):
    """Adds partitions to a transaction of version 1; with version 2 the broker does it when it gets their records."""

    def __init__(self, manager: "TransactionManager", partitions: set[TopicPartition]) -> None:
        super().__init__(manager)
        producer_id, epoch = manager.producer_id_and_epoch
        self._partitions = partitions
        self._message = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=manager.transactional_id or "",
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=tuple(
                AddPartitionsToTxnRequestAddPartitionsToTxnTopic(name=name, partitions=tuple(indexes))
                for name, indexes in _by_topic(partitions).items()
            ),
        )

    def message(self) -> AddPartitionsToTxnRequest:
        """Return the request."""
        return self._message

    def _handle_response(self, answer: Message) -> None:
        """Retry as a whole after an error that passes; else note which partitions are part of the transaction."""
        assert isinstance(answer, AddPartitionsToTxnResponse)
        codes = {
            TopicPartition(topic.name, each.partition_index): ErrorCode(each.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }
        for code in codes.values():
            if code == ErrorCode.CONCURRENT_TRANSACTIONS:
                is_first = not self._manager.partitions_in_transaction
                backoff_ms = self._manager.retry_backoff_ms
                self._retry(min(ADD_PARTITIONS_RETRY_BACKOFF_MS, backoff_ms) if is_first else backoff_ms)
                return
            if _is_of_whole_request(code):
                self._handle_common_error(code)
                return
        failed = {partition: code for partition, code in codes.items() if code != ErrorCode.NONE}
        self._manager.partitions_added(self._partitions, is_success=not failed)
        if not failed:
            self._done()
            return
        refused = [each for each, code in failed.items() if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        named = ", ".join(sorted({each.topic for each in refused}) or [f"{t}-{p}" for t, p in sorted(failed)])
        code = failed[refused[0]] if refused else next(iter(failed.values()))
        self._abortable_error(self._error(code, f" Not added: {named}"))


class AddOffsetsToTxnHandler(TxnRequestHandler):
    """Adds a group's offsets to a transaction of version 1, then commits them. The result is that of the commit."""

    def __init__(self, manager: "TransactionManager", commit: "TxnOffsetCommitHandler") -> None:
        super().__init__(manager, commit.result)
        producer_id, epoch = manager.producer_id_and_epoch
        self._commit = commit
        self._message = AddOffsetsToTxnRequest(
            transactional_id=manager.transactional_id or "",
            producer_id=producer_id,
            producer_epoch=epoch,
            group_id=commit.group_id,
        )

    def message(self) -> AddOffsetsToTxnRequest:
        """Return the request."""
        return self._message

    def _handle_response(self, answer: Message) -> None:
        assert isinstance(answer, AddOffsetsToTxnResponse)
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.NONE:
            self._manager.offsets_added(self._commit)
        elif code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            self._abortable_error(self._error(code, f" Group: {self._commit.group_id}"))
        else:
            self._handle_common_error(code)


class TxnOffsetCommitHandler(TxnRequestHandler):
    """Commits offsets at the group's coordinator; a retry names only those that are not committed yet."""

    COORDINATOR_TYPE = CoordinatorType.GROUP

    def __init__(
        self,
        manager: "TransactionManager",
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata,
    ) -> None:
        super().__init__(manager)
        self.group_id = group_metadata.group_id
        self._producer_id_and_epoch = manager.producer_id_and_epoch
        self._pending = dict(offsets)
        self._group = group_metadata

    @property
    def coordinator_key(self) -> str:
        """The group."""
        return self.group_id

    def message(self) -> TxnOffsetCommitRequest:
        """Return the request."""
        producer_id, epoch = self._producer_id_and_epoch
        return TxnOffsetCommitRequest(
            transactional_id=self._manager.transactional_id or "",
            group_id=self.group_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=self._group.generation_id,
            member_id=self._group.member_id,
            group_instance_id=self._group.group_instance_id,
            topics=tuple(
                TxnOffsetCommitRequestTxnOffsetCommitRequestTopic(
                    name=name, partitions=tuple(self._partition(name, index) for index in indexes)
                )
                for name, indexes in _by_topic(self._pending).items()
            ),
        )

    def _partition(self, topic: str, index: int) -> TxnOffsetCommitRequestTxnOffsetCommitRequestPartition:
        offset = self._pending[TopicPartition(topic, index)]
        return commit_partition(TxnOffsetCommitRequestTxnOffsetCommitRequestPartition, index, offset)

    def _handle_response(self, answer: Message) -> None:
        assert isinstance(answer, TxnOffsetCommitResponse)
        for topic in answer.topics:
            for each in topic.partitions:
                code = ErrorCode(each.error_code)
                if code == ErrorCode.NONE:
                    self._pending.pop(TopicPartition(topic.name, each.partition_index), None)
                elif code in _COORDINATOR_LOST or code == ErrorCode.REQUEST_TIMED_OUT:
                    self.is_coordinator_lost = True
                elif not code.retriable:
                    self._fail(code, f" Group: {self.group_id}")
                    return
        if self._pending:
            self._retry()
        else:
            self._done()

    def _fail(self, code: ErrorCode, text: str) -> None:
        if code in (
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.TRANSACTION_ABORTABLE,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
        ):
            self._abortable_error(self._error(code, text))
        else:
            self._fatal_error(self._fenced() if code in _FENCED else self._error(code, text))


class EndTxnHandler(TxnRequestHandler):
    """Commits or aborts the transaction."""

    PRIORITY = Priority.END_TXN
    is_end_txn = True

    def __init__(self, manager: "TransactionManager", *, is_commit: bool) -> None:
        super().__init__(manager)
        producer_id, epoch = manager.producer_id_and_epoch
        self._message = EndTxnRequest(
            transactional_id=manager.transactional_id or "",
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=is_commit,
        )

    def message(self) -> EndTxnRequest:
        """Return the request."""
        return self._message

    def _handle_response(self, answer: Message) -> None:
        assert isinstance(answer, EndTxnResponse)
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.NONE:
            self._manager.transaction_ended(ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch), self.result)
        elif code == ErrorCode.TRANSACTION_ABORTABLE and not self._message.committed:
            self._fatal_error(self._error(code, " The transaction could not be aborted."))  # not to abort in circles
        else:
            self._handle_common_error(code)


def _is_of_whole_request(code: ErrorCode) -> bool:
    """Whether an error of one partition means that the whole request is retried or failed."""
    return (
        code in _FENCED
        or code in _FATAL
        or code.retriable
        or code in (ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.TRANSACTION_ABORTABLE)
    )


def _by_topic(partitions: Mapping[TopicPartition, object] | set[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name, index in sorted(partitions):
        found.setdefault(name, []).append(index)
    return found
