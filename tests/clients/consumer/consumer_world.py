"""A ConsumerCore and virtual brokers that keep logs of partitions, answer fetches by session, and fail on demand."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.consumer_config import ConsumerConfig
from kraft_core.clients.consumer.consumer_core import ConsumerCore
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    FetchRequest,
    FetchResponse,
    FetchResponseFetchableTopicResponse,
    FetchResponsePartitionData,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponseListOffsetsPartitionResponse,
    ListOffsetsResponseListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderEpochResponseOffsetForLeaderTopicResult,
)
from kraft_core.protocol.record_batch import encode_batch
from kraft_core.protocol.wire import Message
from tests.clients.virtual_nodes import VirtualNetwork, VirtualNode, metadata

FETCH, LIST_OFFSETS, METADATA, EPOCHS = 1, 2, 3, 23
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@dataclass
class Log:
    """A partition: its leader, epochs by first offset, and its end. `batch` records make a batch."""

    leader: int = 1
    epoch: int = 0
    end: int = 0
    start: int = 0
    batch: int = 10
    value: bytes = b"v"
    error: ErrorCode = ErrorCode.NONE
    extra: dict[str, Any] = field(default_factory=dict)  # of the next answers
    epoch_ends: dict[int, tuple[int, int]] = field(default_factory=dict)  # asked epoch -> (epoch, end offset)

    def records(self, offset: int) -> bytes:
        """Return the batch with the offset; b"" at the end."""
        if not self.start <= offset < self.end:
            return b""
        base = offset - offset % self.batch
        count = min(self.batch, self.end - base)
        return encode_batch(base, self.epoch, 1_000, [self.value] * count)


class World:
    """Three brokers and one consumer of topic `t`; time stands still unless `run` is given ms."""

    def __init__(self, logs: dict[TopicPartition, Log] | None = None, **configs: Any) -> None:
        self.logs = logs if logs is not None else {T0: Log(end=100)}
        self.nodes = [VirtualNode(number) for number in (1, 2, 3)]
        for node in self.nodes:
            node.versions |= {FETCH: (4, 12), LIST_OFFSETS: (1, 7), EPOCHS: (2, 4)}
            node.handlers |= {
                METADATA: self._metadata,
                FETCH: self._fetcher(node.id),
                LIST_OFFSETS: self._list_offsets,
                EPOCHS: self._epochs,
            }
        self.network = VirtualNetwork(*self.nodes)
        self.sessions: dict[int, dict[TopicPartition, int]] = {}
        self.session_error: ErrorCode = ErrorCode.NONE
        self.held: set[int] = set()  # nodes that do not answer fetches
        given = {name.replace("_", "."): value for name, value in configs.items()}
        config = ConsumerConfig({"bootstrap.servers": "broker-1:9092", "auto.offset.reset": "earliest", **given})
        self.core = ConsumerCore(config, Random(1), lambda: 1_000_000)
        self.now_ms = 1_000.0

    def run(self, ms: float = 0, turns: int = 12) -> None:
        """Let time pass, then take turns until nothing is left to do."""
        self.now_ms += ms
        for _ in range(turns):
            self.network.run(self.core.network, self.now_ms)
            self.core.step(self.now_ms)

    def assign(self, *partitions: TopicPartition) -> None:
        self.core.subscriptions.assign_from_user(partitions)
        self.core.subscription_changed(self.now_ms)
        self.run()

    def poll(self) -> list[int]:
        """Return the offsets of one poll, after the answers that it needs."""
        self.run()
        found = self.core.poll(self.now_ms)
        self.run()
        return [record.offset for records in found.values() for record in records]

    def poll_for_long(self) -> None:
        """Poll for 20 s, for the error that comes."""
        for _ in range(20):
            self.run(1_000)
            self.core.poll(self.now_ms)

    def read(self, count: int) -> list[int]:
        seen: list[int] = []
        for _ in range(count + 5):
            if len(seen) >= count:
                break
            seen += self.poll()
        return seen

    def fetches(self, node_id: int) -> list[FetchRequest]:
        seen: Sequence[Message] = self.nodes[node_id - 1].seen
        return [request for request in seen if isinstance(request, FetchRequest)]

    def _metadata(self, request: Message) -> Message:
        topics: dict[str, dict[int, tuple[int, int]]] = {}
        for (topic, partition), log in self.logs.items():
            topics.setdefault(topic, {})[partition] = log.leader, log.epoch
        answer = metadata(self.nodes, topics)(request)
        assert answer is not None
        return answer

    def _fetcher(self, node_id: int) -> Callable[[Message], Message | None]:
        def answer(request: Message) -> Message | None:
            assert isinstance(request, FetchRequest)
            return None if node_id in self.held else self._fetch(node_id, request)

        return answer

    def _fetch(self, node_id: int, request: FetchRequest) -> FetchResponse:
        if self.session_error:
            error, self.session_error = self.session_error, ErrorCode.NONE
            self.sessions.pop(node_id, None)
            return FetchResponse(error_code=error)
        if request.session_epoch <= 0:
            self.sessions[node_id] = {}
            if request.session_epoch < 0:
                return FetchResponse()
        session = self.sessions[node_id]
        for topic in request.topics:
            for each in topic.partitions:
                session[TopicPartition(topic.topic, each.partition)] = each.fetch_offset
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                session.pop(TopicPartition(forgotten.topic, index), None)
        answers: dict[str, list[FetchResponsePartitionData]] = {}
        for partition, offset in session.items():
            data = self._data(node_id, partition, offset)
            if request.session_epoch <= 0 or data.records or data.error_code or data.preferred_read_replica >= 0:
                answers.setdefault(partition.topic, []).append(data)
        return FetchResponse(
            session_id=7,
            responses=tuple(
                FetchResponseFetchableTopicResponse(topic=topic, partitions=tuple(partitions))
                for topic, partitions in answers.items()
            ),
        )

    def _data(self, node_id: int, partition: TopicPartition, offset: int) -> FetchResponsePartitionData:
        log = self.logs[partition]
        error = log.error
        if not error and log.leader != node_id and log.extra.get("preferred_read_replica") is None:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not error and not log.start <= offset <= log.end:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        fields: dict[str, Any] = {"high_watermark": log.end, "last_stable_offset": log.end, **log.extra}
        if node_id == fields.get("preferred_read_replica"):
            fields.pop("preferred_read_replica")
        elif "preferred_read_replica" in fields or error:
            return FetchResponsePartitionData(
                partition_index=partition.partition, error_code=error, records=b"", **fields
            )
        return FetchResponsePartitionData(
            partition_index=partition.partition, error_code=error, records=log.records(offset), **fields
        )

    def _list_offsets(self, request: Message) -> Message:
        assert isinstance(request, ListOffsetsRequest)
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsResponseListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        self._offset(TopicPartition(topic.name, each.partition_index), each.timestamp)
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def _offset(self, partition: TopicPartition, timestamp: int) -> ListOffsetsResponseListOffsetsPartitionResponse:
        log = self.logs[partition]
        offset = {-2: log.start, -1: log.end}.get(timestamp, -1)
        return ListOffsetsResponseListOffsetsPartitionResponse(
            partition_index=partition.partition, error_code=log.error, offset=offset, leader_epoch=log.epoch
        )

    def _epochs(self, request: Message) -> Message:
        assert isinstance(request, OffsetForLeaderEpochRequest)
        return OffsetForLeaderEpochResponse(
            topics=tuple(
                OffsetForLeaderEpochResponseOffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=tuple(
                        self._epoch_end(TopicPartition(topic.topic, each.partition), each.leader_epoch)
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def _epoch_end(self, partition: TopicPartition, epoch: int) -> OffsetForLeaderEpochResponseEpochEndOffset:
        log = self.logs[partition]
        found, end = log.epoch_ends.get(epoch, (epoch, log.end))
        return OffsetForLeaderEpochResponseEpochEndOffset(
            partition=partition.partition, error_code=log.error, leader_epoch=found, end_offset=end
        )
