"""A virtual group coordinator with one real member under test, and scripted answers."""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

from kraft_core.clients.client_metadata import ClientMetadata, MetadataConfig, TopicPartition
from kraft_core.clients.consumer.assignors.consumer_partition_assignor import (
    Assignment,
    Cluster,
    ConsumerPartitionAssignor,
    RebalanceProtocol,
    Subscription,
)
from kraft_core.clients.consumer.auto_offset_reset_strategy import EARLIEST
from kraft_core.clients.consumer.consumer_coordinator import ConsumerCoordinator
from kraft_core.clients.consumer.consumer_protocol import decode_assignment, encode_assignment, encode_subscription
from kraft_core.clients.consumer.coordinator import Coordinator, RebalanceCallback
from kraft_core.clients.consumer.heartbeat import GroupRebalanceConfig
from kraft_core.clients.consumer.partition_state import FetchPosition
from kraft_core.clients.consumer.subscription_state import SubscriptionState
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import NetworkConfig
from kraft_core.protocol.messages import (
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseJoinGroupResponseMember,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponseOffsetCommitResponsePartition,
    OffsetCommitResponseOffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseOffsetFetchResponseGroup,
    OffsetFetchResponseOffsetFetchResponsePartitions,
    OffsetFetchResponseOffsetFetchResponseTopics,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kraft_core.protocol.wire import Message
from tests.clients.virtual_nodes import VirtualNetwork, VirtualNode, metadata

COMMIT, FETCH, FIND, JOIN, HEARTBEAT, LEAVE, SYNC = 8, 9, 10, 11, 12, 13, 14
M = TypeVar("M", bound=Message)


class DealAssignor(ConsumerPartitionAssignor):
    """Gives each topic's partitions to its subscribers in turn, sorted by member id."""

    name = "deal"

    def assign(self, cluster: Cluster, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        given: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        for topic in sorted({topic for each in subscriptions.values() for topic in each.topics}):
            members = sorted(member for member, each in subscriptions.items() if topic in each.topics)
            info = cluster.topics.get(topic)
            for index in sorted(() if info is None else info.partitions):
                given[members[index % len(members)]].append(TopicPartition(topic, index))
        return {member: Assignment(tuple(partitions)) for member, partitions in given.items()}


class PatientAssignor(DealAssignor):
    """The same for cooperative members: a partition that has another owner is given to nobody yet."""

    name = "patient"

    def supported_protocols(self) -> tuple[RebalanceProtocol, ...]:
        return (RebalanceProtocol.COOPERATIVE,)

    def assign(self, cluster: Cluster, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        owners = {each: member for member, has in subscriptions.items() for each in has.owned_partitions}
        wanted = super().assign(cluster, subscriptions)
        return {
            member: Assignment(tuple(each for each in has.partitions if owners.get(each, member) == member))
            for member, has in wanted.items()
        }


class World:
    """One consumer's coordinator and two virtual brokers; broker 2 coordinates.

    `answers[api key]` are error codes or responses for the next requests; without one the request succeeds. `others`
    are the subscriptions of further members by id; `assigned` overrides what SyncGroup answers.
    """

    def __init__(self, *assignors: ConsumerPartitionAssignor, partitions: int = 2, **config: Any) -> None:
        self.nodes = [VirtualNode(1), VirtualNode(2)]
        self.answers: dict[int, deque[int | Message]] = {
            key: deque() for key in (COMMIT, FETCH, FIND, JOIN, HEARTBEAT, LEAVE, SYNC)
        }
        self.topics = {"t": dict.fromkeys(range(partitions), (1, 1))}
        self.others: dict[str, Subscription] = {}
        self.assigned: Sequence[TopicPartition] | None = None
        self.leader = "me"
        self.generation = 0
        self.coordinator_id = 2
        self.committed: dict[TopicPartition, int] = {}
        versions = {COMMIT: (2, 9), FETCH: (1, 9), FIND: (0, 6), JOIN: (0, 9), HEARTBEAT: (0, 4), LEAVE: (0, 5)}
        for node in self.nodes:
            node.versions |= versions | {SYNC: (0, 5)}
            node.handlers[3] = metadata(self.nodes, self.topics)
            for key in self.answers:
                node.handlers[key] = lambda request, key=key: self.answer(key, request)
        self.network = VirtualNetwork(*self.nodes)
        random = Random(1)
        known = ClientMetadata([self.nodes[0].address], MetadataConfig(), random)
        self.client = NetworkClient(known, random, NetworkConfig("test"))
        self.subscriptions = SubscriptionState(EARLIEST)
        self.group = ConsumerCoordinator(
            self.client,
            self.subscriptions,
            assignors or [DealAssignor()],
            replace(GroupRebalanceConfig("g"), **config),
            random,
        )
        self.now_ms = 1_000.0
        self.calls: list[tuple[str, list[TopicPartition]]] = []
        self.listener_error: Exception | None = None
        self.holds_callbacks = False

    # The member

    def subscribe(self, *topics: str) -> None:
        self.subscriptions.subscribe(topics)
        self.client.metadata.want_only(topics)
        self.group.subscription_changed(self.now_ms)

    def subscribe_pattern(self, pattern: str) -> None:
        self.subscriptions.subscribe_pattern(re.compile(pattern))
        self.client.metadata.want_only(None)
        self.group.subscription_changed(self.now_ms)

    def turn(self, *, polls: bool = True) -> None:
        self.client.poll(self.now_ms)
        for request in self.client.take_completed():
            assert callable(request.context)
            request.context(request, self.now_ms)
        self._match_pattern()
        membership: Coordinator = self.group
        membership.step(self.now_ms)
        if polls:
            membership.poll(self.now_ms)
        callback = membership.pending_callback
        if callback is not None and not self.holds_callbacks:
            self.serve(callback)
        self.network.run(self.client, self.now_ms)

    def _match_pattern(self) -> None:
        """Do what the consumer's core does with new metadata."""
        if self.subscriptions.has_pattern_subscription:
            names = filter(self.subscriptions.matches_subscribed_pattern, self.client.metadata.topics)
            if self.subscriptions.subscribe_from_pattern(names):
                self.group.subscription_changed(self.now_ms)
        self.group.metadata_changed(self.now_ms)

    def serve(self, callback: RebalanceCallback) -> None:
        self.calls.append((callback.kind.name.lower(), list(callback.partitions)))
        error, self.listener_error = self.listener_error, None
        self.group.callback_completed(callback, error, self.now_ms)

    def run(self, ms: float = 0, turns: int = 12, *, polls: bool = True) -> None:
        """Advance the time, and take turns."""
        self.now_ms += ms
        for _ in range(turns):
            self.turn(polls=polls)

    def pass_time(self, ms: float, *, polls: bool = True, step_ms: float = 100) -> None:
        for _ in range(int(ms / step_ms)):
            self.run(step_ms, 3, polls=polls)

    def joined(self, *topics: str) -> "World":
        """Subscribe and join; return itself."""
        self.subscribe(*(topics or ("t",)))
        self.run()
        self.run(100)
        assert self.group.state.name == "STABLE", self.group.state
        return self

    @property
    def owned(self) -> list[int]:
        return [each.partition for each in self.subscriptions.assigned_partitions()]

    def consume(self, partition: int, offset: int) -> None:
        """Hand records out up to `offset`."""
        self.subscriptions.seek_validated(TopicPartition("t", partition), FetchPosition(offset))

    def seen(self, kind: type[M]) -> list[M]:
        return [each for node in self.nodes for each in node.seen if isinstance(each, kind)]

    def forget_seen(self) -> None:
        for node in self.nodes:
            node.seen.clear()

    # The coordinator

    def answer(self, key: int, request: Message) -> Message | None:
        scripted = self.answers[key].popleft() if self.answers[key] else 0
        if isinstance(scripted, Message):
            return scripted
        if scripted == SILENT:
            return None
        made: Message | None = getattr(self, f"_answer_{key}")(request, scripted)
        return made

    def _answer_10(self, _request: Message, code: int) -> Message:
        name = f"broker-{self.coordinator_id}"
        found = FindCoordinatorResponseCoordinator(
            key="g", node_id=self.coordinator_id, host=name, port=9092, error_code=code
        )
        return FindCoordinatorResponse(coordinators=(found,))

    def _answer_11(self, request: Message, code: int) -> Message:
        assert isinstance(request, JoinGroupRequest)
        if code:
            return JoinGroupResponse(error_code=code, member_id="me")
        self.generation += 1
        mine = JoinGroupResponseJoinGroupResponseMember(member_id="me", metadata=request.protocols[0].metadata)
        others = (
            JoinGroupResponseJoinGroupResponseMember(member_id=name, metadata=encode_subscription(each))
            for name, each in self.others.items()
        )
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=request.protocols[0].name,
            leader=self.leader,
            member_id="me",
            members=(mine, *others) if self.leader == "me" else (),
        )

    def _answer_14(self, request: Message, code: int) -> Message:
        assert isinstance(request, SyncGroupRequest)
        given = {each.member_id: each.assignment for each in request.assignments}.get("me", b"")
        if self.assigned is not None or not given:
            given = encode_assignment(Assignment(tuple(self.assigned or ())))
        return SyncGroupResponse(error_code=code, assignment=given)

    def _answer_12(self, _request: Message, code: int) -> Message:
        return HeartbeatResponse(error_code=code)

    def _answer_13(self, _request: Message, code: int) -> Message:
        return LeaveGroupResponse(error_code=code)

    def _answer_8(self, request: Message, code: int) -> Message:
        assert isinstance(request, OffsetCommitRequest)
        if not code:
            for topic in request.topics:
                for each in topic.partitions:
                    self.committed[TopicPartition(topic.name, each.partition_index)] = each.committed_offset
        topics = tuple(
            OffsetCommitResponseOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetCommitResponseOffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=code
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
        return OffsetCommitResponse(topics=topics)

    def _answer_9(self, request: Message, code: int) -> Message:
        assert isinstance(request, OffsetFetchRequest)
        topics = tuple(
            OffsetFetchResponseOffsetFetchResponseTopics(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponseOffsetFetchResponsePartitions(
                        partition_index=index,
                        committed_offset=self.committed.get(TopicPartition(topic.name, index), -1),
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in request.groups[0].topics or ()
        )
        group = OffsetFetchResponseOffsetFetchResponseGroup(group_id="g", topics=topics, error_code=code)
        return OffsetFetchResponse(groups=(group,))


SILENT = 1_000
"""A scripted answer that never comes."""


def assignment_of(request: SyncGroupRequest, member_id: str) -> list[TopicPartition]:
    """Return what a leader's SyncGroup gives a member."""
    data = {each.member_id: each.assignment for each in request.assignments}[member_id]
    return list(decode_assignment(data).partitions)
