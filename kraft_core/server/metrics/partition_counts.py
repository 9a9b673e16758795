"""How many partitions are without a leader, or led by another broker than their preferred one.

Images share what did not change, so a topic that is the same object as last time is not counted again.
Source: ControllerMetadataMetrics and ControllerMetricsChanges, Kafka 4.3.1.
"""

from dataclasses import dataclass
from uuid import UUID

from kraft_core.image.metadata_image import MetadataImage, TopicImage
from kraft_core.image.trie_items import items_of, values_of


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """`imbalanced`: not led by their preferred replica, those without a leader included, as Kafka counts them."""

    topics: int = 0
    partitions: int = 0
    offline: int = 0
    imbalanced: int = 0


class PartitionCounter:
    """Counts an image; meant to be called with one image after the other, by one thread at a time."""

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
