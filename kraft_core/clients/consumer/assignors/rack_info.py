"""The racks of members and partitions, as the sticky assignors use them. Source: AbstractStickyAssignor.RackInfo."""

from collections import Counter
from collections.abc import Mapping, Sequence

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.assignors.abstract_partition_assignor import PartitionRacks, use_rack_aware_assignment
from kraft_core.clients.consumer.assignors.consumer_partition_assignor import Subscription


class RackInfo:
    """Which members are near which partitions. `is_used` is false where racks cannot improve the assignment."""

    def __init__(self, racks: PartitionRacks, subscriptions: Mapping[str, Subscription]) -> None:
        consumer_racks: dict[str, str] = {member: sub.rack_id for member, sub in subscriptions.items() if sub.rack_id}
        self.is_used = use_rack_aware_assignment(consumer_racks.values(), racks)
        self._consumer_racks = consumer_racks if self.is_used else {}
        self._racks = racks

    def is_mismatch(self, consumer: str, partition: TopicPartition) -> bool:
        """Whether the member has a rack and no replica of the partition is in it."""
        rack = self._consumer_racks.get(consumer)
        return rack is not None and rack not in self._racks.get(partition, ())

    def sorted_by_rack_consumers(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions, those with the fewest members in their racks first."""
        if not self.is_used:
            return partitions
        members: Counter[str] = Counter(self._consumer_racks.values())

        def reachable(partition: TopicPartition) -> int:
            return sum(members[rack] for rack in self._racks[partition])

        return sorted(partitions, key=reachable)

    def next_rack_consumer(self, partition: TopicPartition, consumers: Sequence[str], first: int) -> int:
        """Return the index of a consumer in a rack of the partition, searching from `first` round; -1 for none."""
        racks = self._racks[partition]
        if racks:
            for step in range(len(consumers)):
                index = (first + step) % len(consumers)
                if self._consumer_racks.get(consumers[index]) in racks:
                    return index
        return -1
