"""Counts of partitions without a leader and of partitions not led by their preferred replica.

Successive images share unchanged topics, so a topic that is the same object as in the last image is not recounted.
Source: ControllerMetadataMetrics and ControllerMetricsChanges, Kafka 4.3.1.
"""

from dataclasses import dataclass
from uuid import UUID

from kraft_core.image.metadata_image import MetadataImage, TopicImage
from kraft_core.image.trie_items import items_of, values_of


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """`imbalanced` partitions are not led by their preferred replica; as in Kafka, those without a leader count too."""

    topics: int = 0
    partitions: int = 0
    offline: int = 0
    imbalanced: int = 0


class PartitionCounter:
    """Counts one image after the other; not thread-safe."""

    def __init__(self) -> None:
        self._known: dict[UUID, tuple[TopicImage, PartitionCounts]] = {}
        self._image: MetadataImage | None = None
        self._counts = PartitionCounts()

    def count(self, image: MetadataImage) -> PartitionCounts:
        """Return the counts of all partitions."""
        if self._image is not None and self._image.topics is image.topics:
            return self._counts
        known, self._known = self._known, {}
        partitions = offline = imbalanced = 0
        for topic_id, topic in items_of(image.topics.by_id):
            before = known.get(topic_id)
            counts = before[1] if before is not None and before[0] is topic else _count(topic)
            self._known[topic_id] = topic, counts
            partitions += counts.partitions
            offline += counts.offline
            imbalanced += counts.imbalanced
        self._image = image
        self._counts = PartitionCounts(len(self._known), partitions, offline, imbalanced)
        return self._counts


def _count(topic: TopicImage) -> PartitionCounts:
    offline = imbalanced = 0
    for partition in values_of(topic.partitions):
        offline += not partition.has_leader
        imbalanced += partition.leader != partition.replicas[0]
    return PartitionCounts(1, len(topic.partitions), offline, imbalanced)
