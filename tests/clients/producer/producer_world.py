"""A sender with virtual brokers that keep what they are sent, for tests without sockets and clocks."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from kraft_core.clients.client_metadata import ClientMetadata, MetadataConfig, TopicPartition
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import NetworkConfig
from kraft_core.clients.producer.buffer_pool import BufferPool
from kraft_core.clients.producer.producer_batch import Headers
from kraft_core.clients.producer.record_accumulator import AccumulatorConfig, RecordAccumulator
from kraft_core.clients.producer.sender import Sender, SenderConfig
from kraft_core.clients.producer.transaction_manager import TransactionManager
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseMetadataResponseBroker,
    MetadataResponseMetadataResponsePartition,
    MetadataResponseMetadataResponseTopic,
    ProduceRequest,
    ProduceResponse,
    ProduceResponsePartitionProduceResponse,
    ProduceResponseTopicProduceResponse,
)
from kraft_core.protocol.record_batch import Record, read_batches
from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message
from tests.clients.virtual_nodes import VirtualNetwork, VirtualNode

PartitionAnswer = ProduceResponsePartitionProduceResponse
Verdict = Callable[[TopicPartition, bytes], PartitionAnswer | None]
"""Decides about a batch: an answer with an error, None for what a healthy leader does."""


@dataclass
class Sent:
    """The outcome of one record: `offset`, or `error`; neither while it is open."""

    partition: TopicPartition
    value: bytes | None
    offset: int | None = None
    error: KafkaError | None = None


@dataclass
class World:
    """Topics name -> (id, partition -> leader); nodes keep the batches of each partition in `logs`."""

    topics: dict[str, tuple[UUID, dict[int, int]]]
    accumulator_config: AccumulatorConfig = field(default_factory=AccumulatorConfig)
    sender_config: SenderConfig = field(default_factory=SenderConfig)
    network_config: NetworkConfig = field(default_factory=lambda: NetworkConfig("test"))
    buffer_memory: int = 32 * 1024 * 1024
    produce_versions: tuple[int, int] = (3, 13)

    def __post_init__(self) -> None:
        self.epoch = 1
        self.nodes = [VirtualNode(number) for number in (1, 2)]
        for node in self.nodes:
            node.versions[ApiKey.PRODUCE] = self.produce_versions
            node.handlers[ApiKey.METADATA] = self._metadata
            node.handlers[ApiKey.PRODUCE] = self._produce
        self.network = VirtualNetwork(*self.nodes)
        random = Random(5)
        self.metadata = ClientMetadata([self.nodes[0].address], MetadataConfig(), random)
        self.client = NetworkClient(self.metadata, random, self.network_config)
        self.pool = BufferPool(self.buffer_memory)
        manager = self.new_transaction_manager()
        self.accumulator = RecordAccumulator(self.accumulator_config, self.metadata, self.pool, random, manager)
        self.sender = Sender(self.sender_config, self.client, self.accumulator, manager)
        self.now_ms = 1_000.0
        self.logs: dict[TopicPartition, list[Record]] = {}
        self.batches: dict[TopicPartition, list[bytes]] = {}
        self.verdict: Verdict = lambda _partition, _batch: None
        self.is_answering = True
        self.metadata.want(self.topics)
        self.run()

    def new_transaction_manager(self) -> TransactionManager | None:
        return None

    # The client's side

    def send(
        self,
        topic: str = "t",
        partition: int = 0,
        value: bytes | None = b"v",
        *,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp: int = 7,
    ) -> Sent:
        """Append a record, which must have room."""
        batch = self.accumulator.append(topic, partition, timestamp, key, value, headers, self.now_ms)
        assert batch is not None, "the pool is exhausted"
        sent = Sent(batch.topic_partition, value)
        index, result = batch.record_count - 1, batch.result

        def done() -> None:
            final, place = result.resolve(index)
            if final.error_of is not None:
                sent.error = final.error_of(place)
            else:
                sent.offset = final.base_offset + place if final.base_offset >= 0 else -1

        result.when_done(index, done)
        return sent

    def run(self, ms: float = 0) -> None:
        """Let time pass in steps at the client's deadlines, and do all that is due."""
        end_ms = self.now_ms + ms
        while True:
            self.turn()
            dues = (self.client.next_deadline_ms(self.now_ms), self.sender.next_deadline_ms(self.now_ms))
            due = min((each for each in dues if each is not None), default=end_ms)
            if due >= end_ms and self.now_ms >= end_ms:
                return
            self.now_ms = max(min(due, end_ms), self.now_ms + 0.1) if due < end_ms else end_ms

    def turn(self) -> None:
        for _ in range(50):
            self.sender.step(self.now_ms)
            self.client.poll(self.now_ms)
            before = len(self.network.connects), sum(len(node.seen) for node in self.nodes)
            self.network.run(self.client, self.now_ms)
            if before == (len(self.network.connects), sum(len(node.seen) for node in self.nodes)):
                self.sender.step(self.now_ms)
                self.network.run(self.client, self.now_ms)
                return

    def values(self, topic: str = "t", partition: int = 0) -> list[bytes | None]:
        return [record.value for record in self.logs.get(TopicPartition(topic, partition), [])]

    def produce_requests(self) -> list[ProduceRequest]:
        return [request for node in self.nodes for request in node.seen if isinstance(request, ProduceRequest)]

    # The brokers' side

    def move_leader(self, topic: str, partition: int, leader: int) -> None:
        self.topics[topic][1][partition] = leader
        self.epoch += 1

    def _metadata(self, request: Message) -> MetadataResponse:
        assert isinstance(request, MetadataRequest)
        return MetadataResponse(
            cluster_id="a-cluster",
            brokers=tuple(
                MetadataResponseMetadataResponseBroker(node_id=node.id, host=node.address[0], port=node.address[1])
                for node in self.nodes
            ),
            topics=tuple(self._topic(each.name or "") for each in request.topics or ()),
        )

    def _topic(self, name: str) -> MetadataResponseMetadataResponseTopic:
        topic_id, leaders = self.topics.get(name, (ZERO_UUID, {}))
        return MetadataResponseMetadataResponseTopic(
            name=name,
            topic_id=topic_id,
            error_code=0 if name in self.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            partitions=tuple(
                MetadataResponseMetadataResponsePartition(
                    partition_index=index, leader_id=leader, leader_epoch=self.epoch, replica_nodes=(1, 2)
                )
                for index, leader in leaders.items()
            ),
        )

    def _produce(self, request: Message) -> ProduceResponse | None:
        assert isinstance(request, ProduceRequest)
        names = {topic_id: name for name, (topic_id, _) in self.topics.items()}
        answers = []
        for topic in request.topic_data:
            name = topic.name or names.get(topic.topic_id, "?")
            answers.append(
                ProduceResponseTopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=tuple(
                        self._append(TopicPartition(name, each.index), each.records or b"")
                        for each in topic.partition_data
                    ),
                )
            )
        return ProduceResponse(responses=tuple(answers)) if self.is_answering and request.acks else None

    def _append(self, partition: TopicPartition, data: bytes) -> PartitionAnswer:
        refused = self.verdict(partition, data)
        if refused is not None:
            return refused
        (batch,) = read_batches(bytes(data))
        log = self.logs.setdefault(partition, [])
        base_offset = len(log)
        log += batch.records()
        self.batches.setdefault(partition, []).append(bytes(data))
        return PartitionAnswer(index=partition.partition, base_offset=base_offset)
