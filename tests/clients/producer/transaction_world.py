"""A producer with virtual brokers that coordinate transactions: node 2 those of producers, node 1 groups."""

from collections import deque
from copy import deepcopy
from dataclasses import dataclass, field
from uuid import UUID

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.consumer_group_metadata import ConsumerGroupMetadata
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.clients.producer.producer_id_and_epoch import ProducerIdAndEpoch
from kraft_core.clients.producer.transaction_manager import TransactionManager
from kraft_core.clients.producer.transaction_result import TransactionalRequestResult
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.batch_header import BatchHeader, read_header
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponseAddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult,
    EndTxnResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    InitProducerIdResponse,
    MetadataRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTxnOffsetCommitResponseTopic,
)
from kraft_core.protocol.messages import ProduceResponsePartitionProduceResponse as PartitionResponse
from kraft_core.protocol.wire import Message
from tests.clients.producer.producer_world import Sent, World

PARTITION = TopicPartition("t", 0)
TOPICS = {"t": (UUID(int=5), {0: 1, 1: 2})}
GROUP = ConsumerGroupMetadata("readers", 3, "member-1")
OFFSETS = {TopicPartition("in", 0): OffsetAndMetadata(5), TopicPartition("in", 1): OffsetAndMetadata(9, "m", 2)}
VERSIONS = {
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
}


@dataclass
class TransactionWorld(World):
    """`errors` are the codes of the next answers, by API; after them, and with 0, a request succeeds."""

    topics: dict[str, tuple[UUID, dict[int, int]]] = field(default_factory=lambda: deepcopy(TOPICS))
    transactional_id: str | None = "copy"
    transaction_version: int = 2
    init_error: int = 0  # of the first InitProducerId
    coordinators: list[int] = field(default_factory=lambda: [1, 2])  # of groups, of transactions

    def new_transaction_manager(self) -> TransactionManager:
        self.errors: dict[int, deque[int]] = {key: deque() for key in VERSIONS}
        if self.init_error:
            self.errors[ApiKey.INIT_PRODUCER_ID].append(self.init_error)
        self.identity = ProducerIdAndEpoch(100, -1)
        for node in self.nodes:
            node.versions |= VERSIONS
            node.features = (1, {"transaction.version": self.transaction_version})
            node.handlers |= {
                ApiKey.FIND_COORDINATOR: self._find_coordinator,
                ApiKey.INIT_PRODUCER_ID: self._init_producer_id,
                ApiKey.ADD_PARTITIONS_TO_TXN: self._add_partitions,
                ApiKey.ADD_OFFSETS_TO_TXN: lambda _: AddOffsetsToTxnResponse(
                    error_code=self._error(ApiKey.ADD_OFFSETS_TO_TXN)
                ),
                ApiKey.END_TXN: self._end_txn,
                ApiKey.TXN_OFFSET_COMMIT: self._txn_offset_commit,
            }
        self.manager = TransactionManager(self.client, self.transactional_id)
        return self.manager

    # The application's side

    def outcome(self, result: TransactionalRequestResult, ms: float = 300) -> None:
        """Let time pass, and raise what the application gets."""
        self.run(ms)
        assert result.is_completed, "the operation has no outcome yet"
        result.is_acked = True
        if result.error is not None:
            raise self.manager.error_for_application(result.error)

    def init(self) -> None:
        self.outcome(self.manager.initialize_transactions())

    def write(self, value: bytes = b"v", partition: int = 0) -> Sent:
        """Send a record within the transaction."""
        sent = self.send("t", partition, value)
        self.manager.maybe_add_partition(TopicPartition("t", partition))
        return sent

    def commit(self, ms: float = 300) -> None:
        self.outcome(self.manager.begin_commit(), ms)

    def abort(self, ms: float = 300) -> None:
        self.outcome(self.manager.begin_abort(), ms)

    def error_of(self, result: TransactionalRequestResult, ms: float = 300) -> KafkaError | None:
        """Return what the application gets as an error."""
        try:
            self.outcome(result, ms)
        except KafkaError as error:
            return error
        return None

    # What the brokers saw

    def requests(self) -> list[str]:
        """Return the names of the requests about transactions and data, in order per node."""
        ignored = (MetadataRequest,)
        seen = [each for node in self.nodes for each in node.seen if each.API_KEY != ApiKey.API_VERSIONS]
        return [type(each).__name__.removesuffix("Request") for each in seen if not isinstance(each, ignored)]

    def seen(self, kind: type[Message]) -> list[Message]:
        return [each for node in self.nodes for each in node.seen if isinstance(each, kind)]

    def forget(self) -> None:
        for node in self.nodes:
            node.seen.clear()

    def headers(self, partition: int = 0) -> list[BatchHeader]:
        return [read_header(batch) for batch in self.batches.get(TopicPartition("t", partition), [])]

    # The brokers' side

    def _error(self, key: int) -> int:
        return self.errors[key].popleft() if self.errors[key] else 0

    def _find_coordinator(self, request: Message) -> FindCoordinatorResponse:
        assert isinstance(request, FindCoordinatorRequest)
        node = self.nodes[self.coordinators[request.key_type] - 1]
        found = FindCoordinatorResponseCoordinator(
            key=request.coordinator_keys[0],
            node_id=node.id,
            host=node.address[0],
            port=node.address[1],
            error_code=self._error(ApiKey.FIND_COORDINATOR),
        )
        return FindCoordinatorResponse(coordinators=(found,))

    def _next_epoch(self) -> ProducerIdAndEpoch:
        self.identity = ProducerIdAndEpoch(self.identity.producer_id, self.identity.epoch + 1)
        return self.identity

    def _init_producer_id(self, _request: Message) -> InitProducerIdResponse:
        error = self._error(ApiKey.INIT_PRODUCER_ID)
        if error:
            return InitProducerIdResponse(error_code=error)
        producer_id, epoch = self._next_epoch()
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)

    def _add_partitions(self, request: Message) -> AddPartitionsToTxnResponse:
        assert isinstance(request, AddPartitionsToTxnRequest)
        error = self._error(ApiKey.ADD_PARTITIONS_TO_TXN)
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=tuple(
                AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=tuple(
                        AddPartitionsToTxnResponseAddPartitionsToTxnPartitionResult(
                            partition_index=index, partition_error_code=error
                        )
                        for index in topic.partitions
                    ),
                )
                for topic in request.v3_and_below_topics
            )
        )

    def _end_txn(self, _request: Message) -> EndTxnResponse:
        error = self._error(ApiKey.END_TXN)
        if error or self.transaction_version < 2:
            return EndTxnResponse(error_code=error)
        producer_id, epoch = self._next_epoch()
        return EndTxnResponse(producer_id=producer_id, producer_epoch=epoch)

    def _txn_offset_commit(self, request: Message) -> TxnOffsetCommitResponse:
        """Refuse the first partition of each request with the next error."""
        assert isinstance(request, TxnOffsetCommitRequest)
        codes = {(topic.name, each.partition_index): 0 for topic in request.topics for each in topic.partitions}
        codes[next(iter(codes))] = self._error(ApiKey.TXN_OFFSET_COMMIT)
        return TxnOffsetCommitResponse(
            topics=tuple(
                TxnOffsetCommitResponseTxnOffsetCommitResponseTopic(
                    name=name,
                    partitions=(
                        TxnOffsetCommitResponseTxnOffsetCommitResponsePartition(partition_index=index, error_code=code),
                    ),
                )
                for (name, index), code in codes.items()
            )
        )


def ready_world(**more: object) -> TransactionWorld:
    world = TransactionWorld(**more)  # type: ignore[arg-type]  # the fields of the world
    world.init()
    world.forget()
    return world


def begun_world(**more: object) -> TransactionWorld:
    world = ready_world(**more)
    world.manager.begin_transaction()
    return world


def refuse(world: TransactionWorld, code: ErrorCode) -> None:
    """Let the next batch be refused."""
    codes = [code]

    def verdict(partition: TopicPartition, _batch: bytes) -> PartitionResponse | None:
        return PartitionResponse(index=partition.partition, error_code=codes.pop()) if codes else None

    world.verdict = verdict
