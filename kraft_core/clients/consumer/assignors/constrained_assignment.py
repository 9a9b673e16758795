"""The assignment of members that all subscribe to the same topics: quotas, owned partitions first, then in turn.

1. Each member keeps what it owns and what its rack allows, up to the quota: as many as possible keep the larger one.
2. With racks, the rest goes in turn to members in a rack of the partition.
3. What is left goes to the members below their quota in turn.

Source: AbstractStickyAssignor.ConstrainedAssignmentBuilder of Kafka 4.3.1.
"""

from collections import deque
from collections.abc import Collection, Mapping

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.assignors.abstract_partition_assignor import PartitionsPerTopic
from kraft_core.clients.consumer.assignors.rack_info import RackInfo


class ConstrainedAssignment:
    """One run of the algorithm. `disputed` partitions belong to nobody before it."""

    def __init__(
        self,
        partitions: PartitionsPerTopic,
        rack_info: RackInfo,
        owned: Mapping[str, Collection[TopicPartition]],
        disputed: Collection[TopicPartition],
    ) -> None:
        self._partitions = partitions
        self._racks = rack_info
        self._owned = owned
        self._disputed = disputed
        total = sum(map(len, partitions.values()))
        self._min_quota, self._members_over_min = divmod(total, len(owned))  # how many may still exceed the minimum
        self._max_quota = self._min_quota + (self._members_over_min > 0)
        self._assignment: dict[str, list[TopicPartition]] = {member: [] for member in owned}
        self._under_min: list[str] = []
        self._at_min: list[str] = []

    def build(self) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member."""
        kept = self._keep_owned()
        unassigned = [
            partition
            for topic, indices in self._partitions.items()
            for index in indices
            if (partition := TopicPartition(topic, index)) not in kept
        ]
        self._under_min.sort()
        self._at_min.sort()
        unassigned = self._racks.sorted_by_rack_consumers(unassigned)
        if self._racks.is_used:
            unassigned = self._assign_within_racks(unassigned)
        self._assign_in_turn(unassigned)
        assert all(len(assigned) >= self._min_quota for assigned in self._assignment.values())
        return self._assignment

    def _keep_owned(self) -> set[TopicPartition]:
        kept: set[TopicPartition] = set()
        for member, claimed in self._owned.items():
            owned = sorted(
                (partition, topic)
                for topic, partition in claimed
                if (topic, partition) not in self._disputed
                and not self._racks.is_mismatch(member, TopicPartition(topic, partition))
            )
            if len(owned) < self._min_quota:
                quota = len(owned)
                self._under_min.append(member)
            elif len(owned) >= self._max_quota and self._members_over_min > 0:
                quota = self._max_quota
                self._member_exceeds_min()
            else:
                quota = self._min_quota
                if self._members_over_min > 0:
                    self._at_min.append(member)
            keeps = [TopicPartition(topic, partition) for partition, topic in owned[:quota]]
            self._assignment[member] = keeps
            kept.update(keeps)
        return kept

    def _member_exceeds_min(self) -> None:
        """Count a member at the larger quota; after the last one all others at the smaller quota are full."""
        self._members_over_min -= 1
        if self._members_over_min == 0:
            self._at_min.clear()

    def _assign_within_racks(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Assign what can be aligned on racks; return the rest."""
        rest: list[TopicPartition] = []
        turn = 0
        for partition in partitions:
            index = self._racks.next_rack_consumer(partition, self._under_min, turn)
            if index >= 0:
                member = self._under_min[index]
                count = len(self._assignment[member]) + 1
                if count >= self._min_quota:
                    del self._under_min[index]
                    if count < self._max_quota and self._members_over_min > 0:
                        self._at_min.append(member)
                else:
                    index += 1
                turn = index % len(self._under_min) if self._under_min else 0
            else:
                index = self._racks.next_rack_consumer(partition, self._at_min, 0)
                if index < 0:
                    rest.append(partition)
                    continue
                member = self._at_min.pop(index)
                self._member_exceeds_min()
            self._assignment[member].append(partition)
        return rest

    def _assign_in_turn(self, partitions: list[TopicPartition]) -> None:
        turn = 0
        at_min = deque(self._at_min)
        for partition in partitions:
            if not self._under_min:
                self._assignment[at_min.popleft()].append(partition)
                continue
            turn %= len(self._under_min)
            member = self._under_min[turn]
            self._assignment[member].append(partition)
            if len(self._assignment[member]) == self._min_quota:
                del self._under_min[turn]
                at_min.append(member)
            else:
                turn += 1
