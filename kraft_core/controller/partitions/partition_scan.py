"""Lookup of partitions without leader, not led by the preferred replica, or in reassignment.

A topic image is immutable, so its findings stay valid while the image holds the same object: a scan reads only topics
that changed since the last scan. The findings can be rebuilt from any image.
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
    """Partition indexes of one topic by finding, in order."""

    topic: TopicImage
    leaderless: tuple[int, ...]
    imbalanced: tuple[int, ...]
    reassigning: tuple[int, ...]


class PartitionScan:
    """Keeps the findings of one image and updates them for the next."""

    def __init__(self) -> None:
        self._topics: TopicsImage | None = None
        self._findings: dict[UUID, TopicFindings] = {}

    def findings(self, image: MetadataImage) -> Iterable[TopicFindings]:
        """Return the topics with at least one finding, ordered by topic id."""
        if self._topics is not image.topics:
            self._update(image.topics)
        return [found for found in self._findings.values() if found.leaderless or found.imbalanced or found.reassigning]

    def _update(self, topics: TopicsImage) -> None:
        before, after = self._findings, {}
        for topic_id, topic in sorted(items_of(topics.by_id), key=lambda item: item[0].int):
            found = before.get(topic_id)
            after[topic_id] = found if found is not None and found.topic is topic else _scan_topic(topic)
        self._findings = after
        self._topics = topics


def _scan_topic(topic: TopicImage) -> TopicFindings:
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
