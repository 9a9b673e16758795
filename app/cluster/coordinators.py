"""Coordinators that are missing: partitions of their topic without a leader, whose contents no broker lists."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.texts import phrase
from kraft_core.image.metadata_image import MetadataImage


@dataclass(frozen=True, slots=True)
class Missing:
    """How many of the partitions of a coordinator's topic have no leader, and the brokers that had them last."""

    topic: str
    partitions: int
    without_leader: int
    brokers: Sequence[int]

    @property
    def text(self) -> str:
        """The same as a sentence for people."""
        return phrase(
            "%(lost)s of %(all)s partitions of %(topic)s have no leader until broker %(ids)s is back.",
            lost=self.without_leader,
            all=self.partitions,
            topic=self.topic,
            ids=", ".join(map(str, self.brokers)),
        )


def missing_coordinators(image: MetadataImage, topic_name: str) -> Missing | None:
    """Return which coordinators of a topic are missing, None if all are there."""
    topic = image.topics.topic(topic_name)
    lost = [] if topic is None else [each for each in topic.partitions.values() if not each.has_leader]
    if topic is None or not lost:
        return None
    brokers = sorted({each for partition in lost for each in partition.isr or partition.replicas})
    return Missing(topic_name, len(topic.partitions), len(lost), brokers)
