"""What StickyAssignor and CooperativeStickyAssignor share: previous owners, and the choice of the algorithm.

Members keep their partitions as far as balance allows. Where members disagree about a partition's owner, the newest
generation is right; within one generation nobody is. Unlike Java's class, owned partitions that do not exist any more
are dropped (Java assigns partitions twice after a topic was created again with fewer), and no state is kept between
assignments. Source: AbstractStickyAssignor of Kafka 4.3.1; KIP-54, KIP-341.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.assignors.abstract_partition_assignor import (
    AbstractPartitionAssignor,
    PartitionRacks,
    PartitionsPerTopic,
)
from kraft_core.clients.consumer.assignors.constrained_assignment import ConstrainedAssignment
from kraft_core.clients.consumer.assignors.consumer_partition_assignor import DEFAULT_GENERATION, Subscription
from kraft_core.clients.consumer.assignors.general_assignment import GeneralAssignment, PreviousOwners
from kraft_core.clients.consumer.assignors.rack_info import RackInfo


class MemberData(NamedTuple):
    """What a member owned in a generation, as it says itself. -1: no generation."""

    partitions: Iterable[TopicPartition]
    generation: int = DEFAULT_GENERATION


class AbstractStickyAssignor(AbstractPartitionAssignor):
    """A rule that changes as little as possible."""

    @abstractmethod
    def member_data(self, subscription: Subscription) -> MemberData:
        """Return what the member owned, from the fields or the user data of its subscription."""

    def assign_partitions(
        self, partitions: PartitionsPerTopic, racks: PartitionRacks, subscriptions: Mapping[str, Subscription]
    ) -> Mapping[str, Iterable[TopicPartition]]:
        """Return the partitions of each member."""
        members = {member: self.member_data(subscription) for member, subscription in subscriptions.items()}
        claims = Claims(partitions, subscriptions, members)
        rack_info = RackInfo(racks, subscriptions)
        assignment: Mapping[str, Iterable[TopicPartition]]
        if _are_equal(subscriptions):
            assignment = ConstrainedAssignment(partitions, rack_info, claims.owned, claims.disputed).build()
        else:
            previous = claims.previous()
            assignment = GeneralAssignment(partitions, rack_info, claims.owned, subscriptions, previous).build()
        return self.adjusted(assignment, claims)

    def adjusted(
        self, assignment: Mapping[str, Iterable[TopicPartition]], claims: "Claims"
    ) -> Mapping[str, Iterable[TopicPartition]]:
        """Return what the members may have at once."""
        return assignment


def _are_equal(subscriptions: Mapping[str, Subscription]) -> bool:
    """Whether all members subscribe to the same topics."""
    return len({frozenset(subscription.topics) for subscription in subscriptions.values()}) == 1


class Claims:
    """Who owned which of the existing partitions. `disputed`: claimed by two members of one generation."""

    def __init__(
        self,
        partitions: PartitionsPerTopic,
        subscriptions: Mapping[str, Subscription],
        members: Mapping[str, MemberData],
    ) -> None:
        self._members = members
        self._topics = {member: frozenset(subscription.topics) for member, subscription in subscriptions.items()}
        self.owned: dict[str, dict[TopicPartition, None]] = {member: {} for member in members}
        self.disputed: set[TopicPartition] = set()
        self._owner_of: dict[TopicPartition, str] = {}
        existing = {topic: frozenset(indices) for topic, indices in partitions.items()}
        for member, data in members.items():
            for partition in data.partitions:
                if partition.partition in existing.get(partition.topic, ()):
                    self._claim(partition, member, data.generation, subscriptions)

    def _claim(
        self, partition: TopicPartition, member: str, generation: int, subscriptions: Mapping[str, Subscription]
    ) -> None:
        other = self._owner_of.get(partition)
        if other is not None:
            # The generation of the subscription's field even where the user data has another one, as in Java.
            other_generation = subscriptions[other].generation_id
            if generation < other_generation:
                return
            self.owned[other].pop(partition, None)
            self._owner_of[partition] = member
            if generation == other_generation:
                self.disputed.add(partition)
                return
        self.owned[member][partition] = None
        self._owner_of[partition] = member

    def is_free_for(self, partition: TopicPartition, member: str) -> bool:
        """Whether no other member owns the partition, nor several claim it."""
        return partition not in self.disputed and self._owner_of.get(partition, member) == member

    def previous(self) -> PreviousOwners:
        """Return the owners of an older generation than the newest that still subscribe to the topic."""
        newest = max(data.generation for data in self._members.values())
        owners: dict[TopicPartition, tuple[str, int]] = {}
        for member, data in self._members.items():
            if data.generation >= newest:
                continue
            for partition in data.partitions:
                if partition.topic not in self._topics[member]:
                    continue
                if partition not in owners or data.generation > owners[partition][1]:
                    owners[partition] = member, data.generation
        return {partition: member for partition, (member, _) in owners.items()}
