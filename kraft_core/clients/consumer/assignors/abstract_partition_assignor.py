"""What the assignors of Kafka share: partitions of the subscribed topics, racks, and the order of members.

Source: AbstractPartitionAssignor of Kafka 4.3.1; KIP-345 (static members), KIP-881 (racks).
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.assignors.consumer_partition_assignor import (
    Assignment,
    Cluster,
    ConsumerPartitionAssignor,
    Subscription,
)

PartitionsPerTopic = Mapping[str, tuple[int, ...]]
"""The partitions of each topic, ascending; the topics in the order of their names."""
PartitionRacks = Mapping[TopicPartition, frozenset[str]]
"""The racks of each partition's replicas, offline ones included. Empty if no member has a rack."""


class AbstractPartitionAssignor(ConsumerPartitionAssignor):
    """An assignor that needs the partitions of each topic, and that sends no data with an assignment."""

    def assign(self, cluster: Cluster, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        """Return the assignment of each member. Topics without metadata are left out."""
        names = sorted({topic for subscription in subscriptions.values() for topic in subscription.topics})
        infos = {name: info for name in names if (info := cluster.topics.get(name)) is not None and info.partitions}
        partitions = {name: tuple(sorted(info.partitions)) for name, info in infos.items()}
        racks: PartitionRacks = {}
        if any(subscription.rack_id for subscription in subscriptions.values()):
            rack_of = {node.id: node.rack for node in cluster.nodes.values() if node.rack is not None}
            racks = {
                TopicPartition(name, index): frozenset(rack_of[node] for node in partition.replicas if node in rack_of)
                for name, info in infos.items()
                for index, partition in info.partitions.items()
            }
        assigned = self.assign_partitions(partitions, racks, subscriptions)
        return {member: Assignment(tuple(members_partitions)) for member, members_partitions in assigned.items()}

    @abstractmethod
    def assign_partitions(
        self, partitions: PartitionsPerTopic, racks: PartitionRacks, subscriptions: Mapping[str, Subscription]
    ) -> Mapping[str, Iterable[TopicPartition]]:
        """Return the partitions of each member."""


def use_rack_aware_assignment(consumer_racks: Iterable[str], racks: PartitionRacks) -> bool:
    """Whether racks can improve locality: some partition has replicas on a part of the racks, and racks match."""
    all_racks = frozenset[str]().union(*racks.values())
    return not all_racks.isdisjoint(consumer_racks) and any(found != all_racks for found in racks.values())


def sorted_members(subscriptions: Mapping[str, Subscription]) -> list[str]:
    """Return the member ids: static members by instance id, then the others by member id."""

    def key(member: str) -> tuple[bool, str]:
        instance = subscriptions[member].group_instance_id
        return (True, member) if instance is None else (False, instance)

    return sorted(subscriptions, key=key)
