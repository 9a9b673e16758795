"""RangeAssignor: each member gets a run of consecutive partitions of each topic, of the same racks where possible.

Topics with the same number of partitions and the same subscribers are divided alike (co-partitioning), which has
priority over racks; balance within a topic has priority over both. Source: RangeAssignor of Kafka 4.3.1, KIP-881.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.assignors.abstract_partition_assignor import (
    AbstractPartitionAssignor,
    PartitionRacks,
    PartitionsPerTopic,
    sorted_members,
    use_rack_aware_assignment,
)
from kraft_core.clients.consumer.assignors.consumer_partition_assignor import Subscription


class RangeAssignor(AbstractPartitionAssignor):
    """Kafka's rule `range`."""

    name = "range"

    def assign_partitions(
        self, partitions: PartitionsPerTopic, racks: PartitionRacks, subscriptions: Mapping[str, Subscription]
    ) -> Mapping[str, Iterable[TopicPartition]]:
        """Return the partitions of each member, by topic and partition."""
        assignment: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        members = sorted_members(subscriptions)
        subscribed = {member: frozenset(subscriptions[member].topics) for member in members}
        states: list[_TopicState] = []
        for topic, indices in partitions.items():
            consumers = {
                member: subscriptions[member].rack_id or None for member in members if topic in subscribed[member]
            }
            topic_racks = {index: racks[TopicPartition(topic, index)] for index in indices} if racks else {}
            states.append(_TopicState(topic, indices, consumers, topic_racks, assignment))
        if any(state.needs_racks for state in states):
            _assign_with_rack_matching(states)
        for state in states:
            state.assign_ranges(lambda _consumer, _partition: True)
        for assigned in assignment.values():
            assigned.sort()
        return assignment


class _TopicState:
    """One topic: its unassigned partitions, and what each subscriber may still receive."""

    def __init__(
        self,
        topic: str,
        indices: Sequence[int],
        consumers: Mapping[str, str | None],
        racks: Mapping[int, frozenset[str]],
        assignment: Mapping[str, list[TopicPartition]],
    ) -> None:
        self.topic = topic
        self.size = len(indices)
        self.indices = indices
        self.consumers = consumers  # their racks, in the order of the members
        self._racks = racks
        self._assignment = assignment
        self._unassigned = dict.fromkeys(indices)
        self._counts = dict.fromkeys(consumers, 0)
        self._per_consumer, self._consumers_with_extra = divmod(len(indices), len(consumers))
        consumer_racks = {rack for rack in consumers.values() if rack is not None}
        self.needs_racks = use_rack_aware_assignment(
            consumer_racks, {TopicPartition(topic, index): found for index, found in racks.items()}
        )

    def racks_match(self, consumer: str, partition: int) -> bool:
        """Whether the consumer has no rack, or a replica of the partition is in it."""
        rack = self.consumers[consumer]
        return rack is None or rack in self._racks.get(partition, ())

    def assignable(self, consumer: str) -> int:
        """Return how many partitions the consumer may still receive."""
        return max(0, self._per_consumer + (self._consumers_with_extra > 0) - self._counts[consumer])

    def assign(self, consumer: str, indices: Sequence[int]) -> None:
        """Give partitions to a consumer."""
        self._assignment[consumer].extend(TopicPartition(self.topic, index) for index in indices)
        self._counts[consumer] += len(indices)
        if self._counts[consumer] > self._per_consumer:
            self._consumers_with_extra -= 1
        for index in indices:
            del self._unassigned[index]

    def assign_ranges(self, may_assign: Callable[[str, int], bool]) -> None:
        """Give each consumer in turn the first partitions that it may get, up to its share."""
        for consumer in self.consumers:
            candidates = (index for index in self._unassigned if may_assign(consumer, index))
            taken = list(islice(candidates, self.assignable(consumer)))
            if taken:
                self.assign(consumer, taken)


def _assign_with_rack_matching(states: Iterable[_TopicState]) -> None:
    alike: dict[tuple[tuple[str, ...], int], list[_TopicState]] = {}
    for state in states:
        if any(rack is not None for rack in state.consumers.values()):
            alike.setdefault((tuple(state.consumers), state.size), []).append(state)
    for (_, size), co_partitioned in alike.items():
        if len(co_partitioned) > 1:
            _assign_co_partitioned(co_partitioned, size)
        elif co_partitioned[0].needs_racks:
            co_partitioned[0].assign_ranges(co_partitioned[0].racks_match)


def _assign_co_partitioned(states: Sequence[_TopicState], size: int) -> None:
    """Give the partitions with the same number of all these topics to one consumer whose rack suits all of them."""
    remaining = list(states[0].consumers)
    for number in range(size):
        for consumer in remaining:
            if all(
                state.racks_match(consumer, state.indices[number]) and state.assignable(consumer) for state in states
            ):
                for state in states:
                    state.assign(consumer, [state.indices[number]])
                if not any(state.assignable(consumer) for state in states):
                    remaining.remove(consumer)
                break
