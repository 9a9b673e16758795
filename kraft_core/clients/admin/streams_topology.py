"""The topology of a Kafka Streams application and the tasks of its members, as values (KIP-1071)."""

from collections.abc import Iterator
from dataclasses import dataclass

from kraft_core.clients.client_metadata import TopicPartition

Task = tuple[str, int]
"""A subtopology's id and the number of a partition."""


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of a topology whose tasks are assigned together. Topics are names."""

    id: str
    source_topics: tuple[str, ...]
    repartition_source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    changelog_topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Topology:
    """A topology. `subtopologies` is empty while its topics are missing or do not fit."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]

    def partitions_of(self, tasks: tuple[Task, ...]) -> Iterator[TopicPartition]:
        """Yield the partitions that tasks read."""
        topics = {each.id: (*each.source_topics, *each.repartition_source_topics) for each in self.subtopologies}
        for subtopology, index in tasks:
            for topic in topics.get(subtopology, ()):
                yield TopicPartition(topic, index)


@dataclass(frozen=True, slots=True)
class MemberTasks:
    """The tasks of a member: those it runs, keeps copies of, and prepares."""

    active: tuple[Task, ...]
    standby: tuple[Task, ...]
    warmup: tuple[Task, ...]
