"""Admin's operations on producers and transactions.

Source: DescribeProducersHandler, DescribeTransactionsHandler, ListTransactionsHandler, AbortTransactionHandler,
FenceProducersHandler of Kafka 4.3.1; KIP-664.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from kraft_core.clients.admin.admin_call import (
    AdminCall,
    Broker,
    Coordinator,
    Leader,
    RequestContext,
    Results,
    by_topic,
    error_of,
)
from kraft_core.clients.admin.cluster import ClusterCalls
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.coordinator_lookup import CoordinatorType
from kraft_core.protocol.errors import ErrorCode, KafkaError, UnsupportedVersion
from kraft_core.protocol.messages import (
    DescribeProducersRequest,
    DescribeProducersRequestTopicRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestWritableTxnMarker,
    WriteTxnMarkersRequestWritableTxnMarkerTopic,
    WriteTxnMarkersResponse,
)

_TRANSACTION: Final = partial(Coordinator, CoordinatorType.TRANSACTION)
_FIRST_DURATION_VERSION: Final = 1  # of ListTransactions
_FIRST_PATTERN_VERSION: Final = 2
_ONE_ID_A_REQUEST: Final = 1 << 15
"""A `batched_since` that no version reaches."""


class ProducerState(NamedTuple):
    """An active producer of a partition. -1: no transaction, no record, or unknown. The timestamp is in ms."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: int


class TransactionListing(NamedTuple):
    """A transaction in a list."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transaction. Times are ms; `start_time_ms` is -1 while none is open. `coordinator_id` is a broker's id."""

    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[TopicPartition, ...]


class AbortTransactionSpec(NamedTuple):
    """A transaction to abort in one partition, as `describe_producers` shows it."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class ProducerIdAndEpoch(NamedTuple):
    """The producer id and epoch that a transactional id has now."""

    producer_id: int
    epoch: int


class TransactionCalls(ClusterCalls):
    """Producers and transactions."""

    async def describe_producers(
        self, partitions: Collection[TopicPartition]
    ) -> Results[TopicPartition, tuple[ProducerState, ...]]:
        """Return the active producers of partitions, from their leaders."""

        def build(context: RequestContext[TopicPartition]) -> DescribeProducersRequest:
            return DescribeProducersRequest(
                topics=tuple(
                    DescribeProducersRequestTopicRequest(name=topic, partition_indexes=tuple(indexes))
                    for topic, indexes in by_topic(context.keys).items()
                )
            )

        def read(
            answer: DescribeProducersResponse, _context: object
        ) -> dict[TopicPartition, tuple[ProducerState, ...] | KafkaError]:
            return {
                TopicPartition(topic.name, each.partition_index): error_of(each.error_code, each.error_message)
                or tuple(
                    ProducerState(
                        state.producer_id,
                        state.producer_epoch,
                        state.last_sequence,
                        state.last_timestamp,
                        state.coordinator_epoch,
                        state.current_txn_start_offset,
                    )
                    for state in each.active_producers
                )
                for topic in answer.topics
                for each in topic.partitions
            }

        return await self.run(
            AdminCall(request=DescribeProducersRequest, keys=partitions, target=Leader, build=build, read=read)
        )

    async def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        duration_ms: int | None = None,
        transactional_id_pattern: str | None = None,
        broker_ids: Collection[int] | None = None,
    ) -> Results[int, tuple[TransactionListing, ...]]:
        """Return the transactions that each broker coordinates, by broker id, filtered.

        `broker_ids` None asks all brokers. `duration_ms` takes those open for longer (KIP-994), the pattern is a RE2
        of transactional ids (KIP-1152).
        """

        def build(context: RequestContext[int]) -> ListTransactionsRequest:
            if duration_ms is not None and context.version < _FIRST_DURATION_VERSION:
                raise UnsupportedVersion(f"Broker {context.node.id} cannot list transactions by duration.")
            if transactional_id_pattern is not None and context.version < _FIRST_PATTERN_VERSION:
                raise UnsupportedVersion(f"Broker {context.node.id} cannot list transactions by a pattern.")
            return ListTransactionsRequest(
                state_filters=tuple(states),
                producer_id_filters=tuple(producer_ids),
                duration_filter=-1 if duration_ms is None else duration_ms,
                transactional_id_pattern=transactional_id_pattern,
            )

        def read(
            answer: ListTransactionsResponse, context: RequestContext[int]
        ) -> dict[int, tuple[TransactionListing, ...] | KafkaError]:
            found = error_of(answer.error_code) or tuple(
                TransactionListing(each.transactional_id, each.producer_id, each.transaction_state)
                for each in answer.transaction_states
            )
            return dict.fromkeys(context.keys, found)

        keys = await self.broker_ids() if broker_ids is None else broker_ids
        return await self.run(
            AdminCall(request=ListTransactionsRequest, keys=keys, target=Broker, build=build, read=read)
        )

    async def describe_transactions(self, transactional_ids: Collection[str]) -> Results[str, TransactionDescription]:
        """Describe transactions, by transactional id."""

        def build(context: RequestContext[str]) -> DescribeTransactionsRequest:
            return DescribeTransactionsRequest(transactional_ids=tuple(context.keys))

        def read(
            answer: DescribeTransactionsResponse, context: RequestContext[str]
        ) -> dict[str, TransactionDescription | KafkaError]:
            return {
                each.transactional_id: error_of(each.error_code)
                or TransactionDescription(
                    context.node.id,
                    each.transaction_state,
                    each.producer_id,
                    each.producer_epoch,
                    each.transaction_timeout_ms,
                    each.transaction_start_time_ms,
                    tuple(TopicPartition(topic.topic, index) for topic in each.topics for index in topic.partitions),
                )
                for each in answer.transaction_states
            }

        return await self.run(
            AdminCall(
                request=DescribeTransactionsRequest,
                keys=transactional_ids,
                target=_TRANSACTION,
                build=build,
                read=read,
            )
        )

    async def abort_transaction(self, spec: AbortTransactionSpec) -> None:
        """Write an abort marker to a partition whose transaction hangs. Raises KafkaError."""
        topic, index = spec.partition

        def build(_context: RequestContext[TopicPartition]) -> WriteTxnMarkersRequest:
            marker = WriteTxnMarkersRequestWritableTxnMarker(
                producer_id=spec.producer_id,
                producer_epoch=spec.producer_epoch,
                transaction_result=False,
                coordinator_epoch=spec.coordinator_epoch,
                topics=(WriteTxnMarkersRequestWritableTxnMarkerTopic(name=topic, partition_indexes=(index,)),),
            )
            return WriteTxnMarkersRequest(markers=(marker,))

        def read(answer: WriteTxnMarkersResponse, _context: object) -> dict[TopicPartition, KafkaError | None]:
            return {
                TopicPartition(found.name, each.partition_index): error_of(each.error_code)
                for marker in answer.markers
                for found in marker.topics
                for each in found.partitions
            }

        call: AdminCall[TopicPartition, None] = AdminCall(
            request=WriteTxnMarkersRequest,
            keys=(spec.partition,),
            target=Leader,
            build=build,
            read=read,
            retried=frozenset({ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.BROKER_NOT_AVAILABLE}),
        )
        (await self.run(call)).get_or_raise(spec.partition)

    async def fence_producers(
        self, transactional_ids: Collection[str], *, transaction_timeout_ms: int = 60_000
    ) -> Results[str, ProducerIdAndEpoch]:
        """Fence the producers of transactional ids and abort what they have open, by transactional id."""

        def build(context: RequestContext[str]) -> InitProducerIdRequest:
            return InitProducerIdRequest(
                transactional_id=context.keys[0],
                transaction_timeout_ms=transaction_timeout_ms,
                producer_id=-1,
                producer_epoch=-1,
            )

        def read(
            answer: InitProducerIdResponse, context: RequestContext[str]
        ) -> dict[str, ProducerIdAndEpoch | KafkaError]:
            found = error_of(answer.error_code) or ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
            return {context.keys[0]: found}

        return await self.run(
            AdminCall(
                request=InitProducerIdRequest,
                keys=transactional_ids,
                target=_TRANSACTION,
                build=build,
                read=read,
                batched_since=_ONE_ID_A_REQUEST,
                retried=frozenset({ErrorCode.CONCURRENT_TRANSACTIONS}),
            )
        )
