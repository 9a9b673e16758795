"""Members of a KIP-848 group through lost answers, cut connections, long pauses and departures, by seed.

The coordinator is a small model of Kafka's: targets by round robin, epochs, revocation before a partition moves. At no
time do two of its members hold the same partition; in the end each partition has one owner.
"""

from dataclasses import dataclass, field
from random import Random

import pytest

from kraft_core.clients.client_metadata import ClientMetadata, MetadataConfig, TopicPartition
from kraft_core.clients.consumer.auto_offset_reset_strategy import EARLIEST
from kraft_core.clients.consumer.consumer_membership import ConsumerMembership
from kraft_core.clients.consumer.heartbeat import GroupRebalanceConfig
from kraft_core.clients.consumer.subscription_state import SubscriptionState
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import NetworkConfig
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from kraft_core.protocol.wire import Message
from tests.clients.consumer.virtual_consumer_group import (
    COMMIT,
    FIND,
    HEARTBEAT,
    METADATA,
    ConsumerGroupWorld,
    topic_id,
)
from tests.clients.virtual_nodes import VirtualNetwork, VirtualNode

PARTITIONS = [TopicPartition("a", index) for index in range(4)] + [TopicPartition("b", index) for index in range(2)]
SESSION_MS, INTERVAL_MS, STEP_MS = 9_000, 1_000, 250


@dataclass
class Seat:
    """A member as the coordinator sees it; `held` is what no other member may get."""

    seen_ms: float
    epoch: int = 0
    previous_epoch: int = -1
    assigned: set[TopicPartition] = field(default_factory=set)
    held: set[TopicPartition] = field(default_factory=set)


class ModelCoordinator:
    def __init__(self) -> None:
        self.now_ms = 0.0
        self.epoch = 0
        self.seats: dict[str, Seat] = {}

    def target(self, member_id: str) -> set[TopicPartition]:
        members = sorted(self.seats)
        return set(PARTITIONS[members.index(member_id) :: len(members)])

    def remove(self, member_id: str) -> None:
        if self.seats.pop(member_id, None) is not None:
            self.epoch += 1

    def expire(self) -> None:
        for member_id, seat in list(self.seats.items()):
            if self.now_ms - seat.seen_ms > SESSION_MS:
                self.remove(member_id)

    def heartbeat(self, request: Message) -> Message:
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        member_id = request.member_id
        if request.member_epoch < 0:
            self.remove(member_id)
            return ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch)
        if request.member_epoch == 0:
            self.seats[member_id] = Seat(self.now_ms)
            self.epoch += 1
        seat = self.seats.get(member_id)
        if seat is None:
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        if request.member_epoch not in {seat.epoch, seat.previous_epoch}:
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH)
        seat.seen_ms = self.now_ms
        before = set(seat.assigned)
        self._reconcile(member_id, seat, request)
        is_told = request.member_epoch == 0 or request.rebalance_timeout_ms >= 0 or seat.assigned != before
        return ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=seat.epoch,
            heartbeat_interval_ms=INTERVAL_MS,
            assignment=_assignment(seat.assigned) if is_told else None,
        )

    def _reconcile(self, member_id: str, seat: Seat, request: ConsumerGroupHeartbeatRequest) -> None:
        owned = None
        if request.topic_partitions is not None:
            names = {topic_id(name): name for name in "ab"}
            owned = {
                TopicPartition(names[each.topic_id], index)
                for each in request.topic_partitions
                for index in each.partitions
            }
        target = self.target(member_id)
        seat.assigned &= target
        if owned is not None:
            seat.held = owned | seat.assigned
        if seat.held - seat.assigned:
            return  # wait until the member has given up the rest
        if seat.epoch != self.epoch:
            seat.previous_epoch, seat.epoch = seat.epoch, self.epoch
        taken = {each for other, theirs in self.seats.items() if other != member_id for each in theirs.held}
        seat.assigned |= target - taken
        seat.held |= seat.assigned


def _assignment(partitions: set[TopicPartition]) -> ConsumerGroupHeartbeatResponseAssignment:
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(index)
    return ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=tuple(
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id(name), partitions=tuple(indices))
            for name, indices in by_topic.items()
        )
    )


class Member(ConsumerGroupWorld):
    """A member of the simulation, with connections of its own to the shared coordinator."""

    def __init__(self, coordinator: ModelCoordinator, random: Random) -> None:
        super().__init__()
        self.node = VirtualNode(1)
        self.node.versions |= {COMMIT: (2, 10), FIND: (0, 6), HEARTBEAT: (0, 1), METADATA: (0, 13)}
        self.coordinator = coordinator
        self.random = random
        self.loss = 0.0
        self.node.handlers = {
            METADATA: self._metadata,
            COMMIT: self._commit,
            FIND: self._find,
            HEARTBEAT: self._heartbeat_or_loss,
        }
        self.network = VirtualNetwork(self.node)
        known = ClientMetadata([self.node.address], MetadataConfig(), random)
        self.client = NetworkClient(known, random, NetworkConfig("test", request_timeout_ms=2_000))
        self.subscriptions = SubscriptionState(EARLIEST)
        config = GroupRebalanceConfig("g", rebalance_timeout_ms=6_000, enable_auto_commit=False)
        self.group = ConsumerMembership(self.client, self.subscriptions, config, None, random)
        self.paused_until_ms = 0.0
        self.subscribe("a", "b")

    def _heartbeat_or_loss(self, request: Message) -> Message | None:
        """Answer; or take the request and lose the answer, or lose both."""
        if self.random.random() < self.loss / 2:
            return None
        answer = self.coordinator.heartbeat(request)
        return None if self.random.random() < self.loss else answer

    @property
    def member_id(self) -> str:
        return self.group._members.member_id

    def usable(self) -> set[TopicPartition]:
        """What it believes to own, also while it is being given up."""
        return set(self.subscriptions.assigned_partitions())


class Simulation:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.coordinator = ModelCoordinator()
        self.members = [Member(self.coordinator, self.random) for _ in range(3)]
        self.now_ms = 1_000.0

    def step(self, *, with_faults: bool) -> None:
        self.now_ms += STEP_MS
        self.coordinator.now_ms = self.now_ms
        self.coordinator.expire()
        for member in list(self.members):
            member.loss = 0.3 if with_faults else 0.0
            if with_faults:
                self._disturb(member)
            elif member.paused_until_ms > self.now_ms:
                member.paused_until_ms = 0
            if self.now_ms >= member.paused_until_ms:
                member.now_ms = self.now_ms
                for _ in range(4):
                    member.turn(polls=not with_faults or self.random.random() < 0.8)
                    self.check()

    def _disturb(self, member: Member) -> None:
        dice = self.random.random()
        if dice < 0.02:
            member.network.cut(member.client, 1, self.now_ms)
        elif dice < 0.03:
            member.paused_until_ms = self.now_ms + self.random.choice([3_000, 8_000, 15_000])
        elif dice < 0.035 and len(self.members) > 1:
            self.members.remove(member)  # killed
        elif dice < 0.045 and len(self.members) < 5:
            self.members.append(Member(self.coordinator, self.random))
        elif dice < 0.05:
            member.coordinator.remove(member.member_id)  # fenced by an admin

    def check(self) -> None:
        seen: dict[TopicPartition, str] = {}
        for member in self.members:
            seat = self.coordinator.seats.get(member.member_id)
            if seat is None or seat.epoch == 0 or not member.group._members.is_in_group:
                continue  # the coordinator does not count on it
            if member.group._members.member_epoch not in {seat.epoch, seat.previous_epoch}:
                continue  # it will be fenced
            for partition in member.usable():
                assert partition not in seen, f"{partition} of {member.member_id} and {seen[partition]}"
                seen[partition] = member.member_id


@pytest.mark.parametrize("seeds", [range(start, start + 10) for start in range(0, 40, 10)], ids=str)
def test_a_partition_has_one_owner_at_any_time_and_in_the_end(seeds: range) -> None:
    for seed in seeds:
        simulation = Simulation(seed)
        for _ in range(160):
            simulation.step(with_faults=True)
        for _ in range(140):
            simulation.step(with_faults=False)
        states = {member.state for member in simulation.members}
        assert states == {"STABLE"}, f"seed {seed}: {states}"
        owned = sorted(each for member in simulation.members for each in member.usable())
        assert owned == sorted(PARTITIONS), f"seed {seed}"
