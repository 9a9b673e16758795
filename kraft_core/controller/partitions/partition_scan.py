"""Finding the few partitions that need attention: without leader, led by another than the preferred replica, reassigning.

Topics are immutable values, so what was found in one stays true as long as the image holds the very same object: a scan
only looks at topics that changed since the scan before. What is remembered can be rebuilt from any image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kraft_core.image.topics_image import LEADER_NONE
from kraft_core.image.trie_items import items_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.image.topics_image import TopicImage, TopicsImage


@dataclass(frozen=True, slots=True)
class TopicFindings:
    """Indexes of one topic's partitions that need attention, in order."""

    topic: TopicImage
    leaderless: tuple[int, ...]
    imbalanced: tuple[int, ...]
    reassigning: tuple[int, ...]


class PartitionScan:
    """Remembers the findings of one image and brings them up to date for the next."""

    def __init__(self) -> None:
        self._topics: TopicsImage | None = None
        self._findings: dict[UUID, TopicFindings] = {}

    def findings(self, image: MetadataImage) -> Iterable[TopicFindings]:
        """Return the topics with at least one such partition, ordered by topic id."""
        if self._topics is not image.topics:
            self._update(image.topics)
        return [found for found in self._findings.values() if found.leaderless or found.imbalanced or found.reassigning]

    def _update(self, topics: TopicsImage) -> None:
        before, after = self._findings, {}
        for topic_id, topic in sorted(items_of(topics.by_id), key=lambda item: item[0].int):
            found = before.get(topic_id)
            after[topic_id] = found if found is not None and found.topic is topic else _look_at(topic)
        self._findings = after
        self._topics = topics


def _look_at(topic: TopicImage) -> TopicFindings:
    leaderless: list[int] = []
    imbalanced: list[int] = []
    reassigning: list[int] = []
    for index, partition in items_of(topic.partitions):
        leader = partition.leader
        if leader != partition.replicas[0]:
            imbalanced.append(index)
            if leader == LEADER_NONE:
                leaderless.append(index)
        if partition.adding_replicas or partition.removing_replicas:
            reassigning.append(index)
    return TopicFindings(topic, *(tuple(sorted(found)) for found in (leaderless, imbalanced, reassigning)))
