"""A KIP-848 group with one member under test: its coordinator is scripted, and the test sets the time."""

from collections import deque
from dataclasses import replace
from random import Random
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from kraft_core.clients.client_metadata import ClientMetadata, MetadataConfig, TopicPartition
from kraft_core.clients.consumer.auto_offset_reset_strategy import EARLIEST
from kraft_core.clients.consumer.consumer_membership import ConsumerMembership
from kraft_core.clients.consumer.coordinator import Coordinator
from kraft_core.clients.consumer.heartbeat import GroupRebalanceConfig
from kraft_core.clients.consumer.partition_state import FetchPosition
from kraft_core.clients.consumer.subscription_state import SubscriptionPattern, SubscriptionState
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import NetworkConfig
from kraft_core.clients.pending import Pending
from kraft_core.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    MetadataRequest,
    MetadataRequestMetadataRequestTopic,
    MetadataResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponseOffsetCommitResponsePartition,
    OffsetCommitResponseOffsetCommitResponseTopic,
)
from kraft_core.protocol.wire import Message
from tests.clients.virtual_nodes import VirtualNetwork, VirtualNode, metadata

METADATA, COMMIT, FIND, HEARTBEAT = 3, 8, 10, 68
INTERVAL_MS = 5_000
M = TypeVar("M", bound=Message)


def topic_id(name: str) -> UUID:
    return UUID(int=1_000 + ord(name))


class ConsumerGroupWorld:
    """A member, and the broker that coordinates its group.

    `target` is what the coordinator assigns by topic name; None: no change. `codes` are the errors of the next
    heartbeats, `commit_codes` those of the next commits. `epoch` is what successful heartbeats answer.
    """

    def __init__(self, server_assignor: str | None = None, **config: Any) -> None:
        self.node = VirtualNode(1)
        self.node.versions |= {COMMIT: (2, 10), FIND: (0, 6), HEARTBEAT: (0, 1), METADATA: (0, 13)}
        self.topics = {"a": 4, "b": 2}
        self.node.handlers = {
            METADATA: self._metadata,
            COMMIT: self._commit,
            FIND: self._find,
            HEARTBEAT: self._heartbeat,
        }
        self.network = VirtualNetwork(self.node)
        self.random = Random(1)
        known = ClientMetadata([self.node.address], MetadataConfig(), self.random)
        self.client = NetworkClient(known, self.random, NetworkConfig("test"))
        self.subscriptions = SubscriptionState(EARLIEST)
        self.config = replace(GroupRebalanceConfig("g", enable_auto_commit=False), **config)
        self.group = ConsumerMembership(self.client, self.subscriptions, self.config, server_assignor, self.random)
        self.now_ms = 1_000.0
        self.target: dict[str, set[int]] | None = None
        self.epoch = 0
        self.codes: deque[int] = deque()
        self.commit_codes: deque[int] = deque()
        self.find_code = 0
        self.is_silent = False
        self.known_topics: set[str] = set(self.topics)
        self.ids = {name: topic_id(name) for name in self.topics}
        self.calls: list[tuple[str, list[TopicPartition]]] = []
        self.listener_errors: deque[Exception | None] = deque()
        self.holds_callbacks = False

    # The member

    def subscribe(self, *topics: str) -> None:
        self.subscriptions.subscribe(topics)
        self.client.metadata.want_only(topics)
        self.group.subscription_changed(self.now_ms)

    def subscribe_pattern(self, pattern: str) -> None:
        self.subscriptions.subscribe_pattern(SubscriptionPattern(pattern))
        self.client.metadata.want_only(())
        self.group.subscription_changed(self.now_ms)

    def turn(self, *, polls: bool = True) -> None:
        self.client.poll(self.now_ms)
        for request in self.client.take_completed():
            assert callable(request.context)
            request.context(request, self.now_ms)
        membership: Coordinator = self.group
        membership.metadata_changed(self.now_ms)
        membership.step(self.now_ms)
        if polls:
            membership.poll(self.now_ms)
        self.serve()
        self.network.run(self.client, self.now_ms)

    def serve(self) -> None:
        callback = self.group.pending_callback
        if callback is not None and not self.holds_callbacks:
            self.calls.append((callback.kind.name.lower(), list(callback.partitions)))
            error = self.listener_errors.popleft() if self.listener_errors else None
            self.group.callback_completed(callback, error, self.now_ms)

    def run(self, ms: float = 0, turns: int = 12, *, polls: bool = True) -> None:
        self.now_ms += ms
        for _ in range(turns):
            self.turn(polls=polls)

    def joined(self, **target: set[int]) -> "ConsumerGroupWorld":
        """Subscribe to a and b, and take an assignment; return itself."""
        self.subscribe("a", "b")
        self.epoch, self.target = 1, target
        self.run()
        self.run(100)
        assert self.state == "STABLE"
        return self

    def finish(self, pending: Pending[None]) -> None:
        for _ in range(6):
            self.run(50, polls=False)
        assert pending.is_done

    @property
    def state(self) -> str:
        return self.group._members.state.name

    @property
    def owned(self) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for each in self.subscriptions.assigned_partitions():
            found.setdefault(each.topic, set()).add(each.partition)
        return found

    def consume(self, topic: str, partition: int, offset: int) -> None:
        self.subscriptions.seek_validated(TopicPartition(topic, partition), FetchPosition(offset))

    def seen(self, kind: type[M]) -> list[M]:
        return [each for each in self.node.seen if isinstance(each, kind)]

    @property
    def heartbeats(self) -> list[ConsumerGroupHeartbeatRequest]:
        return self.seen(ConsumerGroupHeartbeatRequest)

    # The broker

    def _metadata(self, request: Message) -> Message:
        assert isinstance(request, MetadataRequest)
        names = {self.ids[name]: name for name in self.known_topics}
        asked = [topic.name or names.get(topic.topic_id) for topic in request.topics or ()]
        known = {
            name: dict.fromkeys(range(size), (1, 1)) for name, size in self.topics.items() if name in self.known_topics
        }
        by_name = tuple(MetadataRequestMetadataRequestTopic(name=name) for name in asked if name is not None)
        made = metadata([self.node], known)(MetadataRequest(topics=by_name))
        assert isinstance(made, MetadataResponse)
        with_ids = (
            msgspec.structs.replace(topic, topic_id=self.ids[topic.name]) if topic.name in known else topic
            for topic in made.topics
        )
        return msgspec.structs.replace(made, topics=tuple(with_ids))

    def _find(self, _request: Message) -> Message:
        host, port = self.node.address
        found = FindCoordinatorResponseCoordinator(key="g", node_id=1, host=host, port=port, error_code=self.find_code)
        return FindCoordinatorResponse(coordinators=(found,))

    def _heartbeat(self, request: Message) -> Message | None:
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        if self.is_silent:
            return None
        code = self.codes.popleft() if self.codes else 0
        if code:
            return ConsumerGroupHeartbeatResponse(error_code=code, error_message="the reason")
        assignment = None
        if self.target is not None and request.member_epoch >= 0:
            assignment = ConsumerGroupHeartbeatResponseAssignment(
                topic_partitions=tuple(
                    ConsumerGroupHeartbeatResponseTopicPartitions(
                        topic_id=self.ids[name], partitions=tuple(sorted(indices))
                    )
                    for name, indices in self.target.items()
                )
            )
            self.target = None
        epoch = request.member_epoch if request.member_epoch < 0 else self.epoch
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=INTERVAL_MS,
            assignment=assignment,
        )

    def _commit(self, request: Message) -> Message:
        assert isinstance(request, OffsetCommitRequest)
        code = self.commit_codes.popleft() if self.commit_codes else 0
        return OffsetCommitResponse(
            topics=tuple(
                OffsetCommitResponseOffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        OffsetCommitResponseOffsetCommitResponsePartition(
                            partition_index=each.partition_index, error_code=code
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )
