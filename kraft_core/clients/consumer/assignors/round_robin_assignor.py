"""RoundRobinAssignor: all partitions of all topics go to the members in turn.

Source: RoundRobinAssignor of Kafka 4.3.1.
"""

from collections.abc import Iterable, Mapping

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.assignors.abstract_partition_assignor import (
    AbstractPartitionAssignor,
    PartitionRacks,
    PartitionsPerTopic,
    sorted_members,
)
from kraft_core.clients.consumer.assignors.consumer_partition_assignor import Subscription


class RoundRobinAssignor(AbstractPartitionAssignor):
    """Kafka's rule `roundrobin`."""

    name = "roundrobin"

    def assign_partitions(
        self, partitions: PartitionsPerTopic, racks: PartitionRacks, subscriptions: Mapping[str, Subscription]
    ) -> Mapping[str, Iterable[TopicPartition]]:
        """Return the partitions of each member. A member without the topic loses its turn."""
        assignment: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        members = sorted_members(subscriptions)
        topics_of = [frozenset(subscriptions[member].topics) for member in members]
        turn = 0
        for topic, indices in partitions.items():
            for index in indices:
                while topic not in topics_of[turn]:
                    turn = (turn + 1) % len(members)
                assignment[members[turn]].append(TopicPartition(topic, index))
                turn = (turn + 1) % len(members)
        return assignment
