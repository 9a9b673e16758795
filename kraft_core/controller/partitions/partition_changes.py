"""What every change of a partition needs: the cluster's view, the effective minimum ISR, a builder that knows both.

Also the changes that follow when a broker or a directory comes or goes: it leaves the ISR of its partitions, and those it
led get another leader; a broker that comes back takes over partitions that nobody leads.

Source: ReplicationControlManager.generateLeaderAndIsrUpdates, Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kraft_core.controller.partitions.cluster_describer import ClusterDescriber
from kraft_core.controller.partitions.partition_change_builder import Election, PartitionChangeBuilder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from uuid import UUID

    from kraft_core.controller.configuration_control_manager import ConfigurationControlManager
    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.image.topics_image import PartitionRegistration, TopicImage
    from kraft_core.protocol.metadata_records import MetadataRecord, PartitionChangeRecord

PartitionRef = tuple["TopicImage", int, "PartitionRegistration"]


class PartitionChanges:
    """Builders and bulk changes over any image. It keeps nothing but the view on the brokers it looked at last."""

    def __init__(self, configuration_control: ConfigurationControlManager) -> None:
        self._configuration_control = configuration_control
        self._cluster: ClusterDescriber | None = None

    def cluster(self, image: MetadataImage) -> ClusterDescriber:
        """Return the view on the image's brokers."""
        if self._cluster is None or not self._cluster.describes(image):
            self._cluster = ClusterDescriber(image)
        return self._cluster

    def unclean_election_enabled(self, image: MetadataImage, topic: str) -> bool:
        """Say whether a topic allows leaders from outside the ISR."""
        return self._configuration_control.unclean_leader_election_enabled(image, topic)

    def builder(
        self,
        image: MetadataImage,
        topic: TopicImage,
        index: int,
        partition: PartitionRegistration,
        *,
        live: Collection[int] | None = None,
        min_isr: int | None = None,
    ) -> PartitionChangeBuilder:
        """Return a builder for one partition; `live` are the brokers to count as active, `min_isr` if known already."""
        cluster = self.cluster(image)
        return PartitionChangeBuilder(
            partition,
            topic.id,
            index,
            is_acceptable_leader=cluster.leader_acceptor(partition, live),
            default_dir=cluster.default_dir,
            metadata_version=image.features.metadata_version or 0,
            min_isr=self.effective_min_isr(image, topic) if min_isr is None else min_isr,
            elr_enabled=image.features.elr_enabled,
        )

    def effective_min_isr(self, image: MetadataImage, topic: TopicImage) -> int:
        """Return min.insync.replicas of a topic, at most the number of replicas of its first partition."""
        configured = self._configuration_control.min_insync_replicas(image, topic.name)
        first = topic.partitions.get(0)
        return configured if first is None else min(configured, len(first.replicas))

    def leader_and_isr_updates(
        self,
        image: MetadataImage,
        partitions: Iterable[PartitionRef],
        *,
        remove: int | None = None,
        add: int | None = None,
        unclean_shutdown: int | None = None,
    ) -> list[MetadataRecord]:
        """Return the changes that these partitions need.

        `remove` leaves the ISR and the leadership; `add` counts as live although the image still shows it fenced;
        `unclean_shutdown` leaves ISR, ELR and leadership. Partitions that need no change get no record.
        """
        live = set(self.cluster(image).active)
        if add is not None:
            live.add(add)
        gone = {broker_id for broker_id in (remove, unclean_shutdown) if broker_id is not None}
        live -= gone
        unclean = () if unclean_shutdown is None else (unclean_shutdown,)
        records: list[MetadataRecord] = []
        built: dict[tuple[object, ...], PartitionChangeRecord | None] = {}
        topic: TopicImage | None = None
        min_isr, unclean_allowed = 1, False
        for each, index, partition in partitions:
            if each is not topic:
                topic = each
                min_isr = self.effective_min_isr(image, topic)
                unclean_allowed = self.unclean_election_enabled(image, topic.name)
            state = (min_isr, unclean_allowed, *_state(partition))
            if state not in built:
                builder = self.builder(image, topic, index, partition, live=live, min_isr=min_isr)
                builder.election = Election.UNCLEAN if unclean_allowed else Election.ONLINE
                builder.unclean_shutdown_replicas = unclean
                if not gone.isdisjoint(partition.isr):
                    builder.target_isr = tuple(replica for replica in partition.isr if replica not in gone)
                built[state] = builder.build()
            record = built[state]
            if record is not None:
                records.append(msgspec.structs.replace(record, topic_id=topic.id, partition_id=index))
        return records


def _state(partition: PartitionRegistration) -> tuple[object, ...]:
    """Everything that a change depends on: partitions that agree in it, as most do with others, change alike.

    Directories count as the same only when they are the same object, which equal ones mostly are: their ids hash slowly.
    The image keeps every partition for as long as the answer is used.
    """
    return (
        partition.replicas,
        partition.isr,
        partition.leader,
        id(partition.directories),
        partition.removing_replicas,
        partition.adding_replicas,
        partition.elr,
        partition.last_known_elr,
        partition.leader_recovery_state,
    )


def partitions_in_isr(image: MetadataImage, broker_id: int) -> Iterator[PartitionRef]:
    """Yield the partitions that have the broker in their ISR."""
    return (ref for ref in image.topics.partitions_of_broker(broker_id) if broker_id in ref[2].isr)


def partitions_in_elr(image: MetadataImage, broker_id: int) -> Iterator[PartitionRef]:
    """Yield the partitions that have the broker among their eligible leader replicas."""
    return (ref for ref in image.topics.partitions_of_broker(broker_id) if broker_id in ref[2].elr)


def partitions_in_directory(image: MetadataImage, broker_id: int, directory: UUID) -> Iterator[PartitionRef]:
    """Yield the partitions whose replica on the broker lies in a log directory."""
    return (ref for ref in image.topics.partitions_of_broker(broker_id) if ref[2].directory(broker_id) == directory)


def leads_any(image: MetadataImage, broker_id: int) -> bool:
    """Say whether the broker leads some partition. Source: BrokersToIsrs.hasLeaderships."""
    return any(partition.leader == broker_id for _, _, partition in image.topics.partitions_of_broker(broker_id))
