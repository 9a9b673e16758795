"""Topics and partitions of the metadata image.

To support a million partitions, a registration is one struct that the garbage collector does not track, and its tuples
are interned, since most partitions share a few distinct replica and directory lists.
Source: TopicsImage, PartitionRegistration, Kafka 4.3.1.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final

import msgspec
from rpds import HashTrieMap

from kraft_core.image.trie_items import items_of, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

LEADER_NONE: Final = -1
RECOVERED: Final = 0
RECOVERING: Final = 1
"""Leader recovery states: RECOVERING after an unclean election, until the leader reports RECOVERED."""

_INTERN_LIMIT: Final = 1 << 17
_interned_ids: dict[tuple[int, ...], tuple[int, ...]] = {}
_interned_brokers: dict[frozenset[int], frozenset[int]] = {}
_interned_uuids: dict[tuple[UUID, ...], tuple[UUID, ...]] = {}


def _id_number(topic: TopicImage) -> int:
    return topic.id.int


def intern_ids(ids: tuple[int, ...]) -> tuple[int, ...]:
    """Return an equal tuple, usually the same object for the same content. Equality never depends on it."""
    if not ids:
        return ()
    if len(_interned_ids) > _INTERN_LIMIT:
        _interned_ids.clear()
    return _interned_ids.setdefault(ids, ids)


def intern_brokers(brokers: frozenset[int]) -> frozenset[int]:
    """Return an equal set, usually the same object for the same content."""
    if len(_interned_brokers) > _INTERN_LIMIT:
        _interned_brokers.clear()
    return _interned_brokers.setdefault(brokers, brokers)


def intern_uuids(uuids: tuple[UUID, ...]) -> tuple[UUID, ...]:
    """Return an equal tuple, mostly the same object for the same content."""
    if not uuids:
        return ()
    if len(_interned_uuids) > _INTERN_LIMIT:
        _interned_uuids.clear()
    return _interned_uuids.setdefault(uuids, uuids)


class PartitionRegistration(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The state of one partition.

    `directories` is parallel to `replicas`, with MIGRATING (zero) for an unknown one. `leader` -1: none.
    `leader_epoch` increases with each new leader, `partition_epoch` with each change.
    """

    replicas: tuple[int, ...]
    directories: tuple[UUID, ...] = ()
    isr: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader: int = LEADER_NONE
    leader_recovery_state: int = RECOVERED
    leader_epoch: int = 0
    partition_epoch: int = 0

    @property
    def has_leader(self) -> bool:
        """Whether the partition has a leader."""
        return self.leader != LEADER_NONE

    @property
    def preferred_replica(self) -> int:
        """First replica of the assignment, -1 without replicas."""
        return self.replicas[0] if self.replicas else LEADER_NONE

    @property
    def has_preferred_leader(self) -> bool:
        """Whether the first replica of the assignment is the leader."""
        return self.leader == self.preferred_replica

    @property
    def is_reassigning(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.removing_replicas or self.adding_replicas)

    def directory(self, broker_id: int) -> UUID | None:
        """Return the directory of this broker's replica; None when the broker is not a replica."""
        if broker_id not in self.replicas:
            return None
        return self.directories[self.replicas.index(broker_id)]


class TopicImage(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One topic and its partitions, by partition index.

    `brokers` makes fencing fast: all brokers with a replica, and possibly some that had one before. So it is not part
    of equality, and its readers check the partitions.
    """

    name: str
    id: UUID
    partitions: HashTrieMap[int, PartitionRegistration] = HashTrieMap()
    brokers: frozenset[int] = frozenset()

    def __eq__(self, other: object) -> bool:
        """Compare name, id and partitions."""
        if not isinstance(other, TopicImage):
            return NotImplemented
        return self is other or (
            self.id == other.id and self.name == other.name and self.partitions == other.partitions
        )

    __hash__ = None  # type: ignore[assignment]  # images are compared, never used as keys

    def sorted_partitions(self) -> list[tuple[int, PartitionRegistration]]:
        """Return the partitions in order of their index."""
        return sorted(items_of(self.partitions), key=itemgetter(0))


class TopicsImage(msgspec.Struct, frozen=True):
    """All topics, by id and by name."""

    by_id: HashTrieMap[UUID, TopicImage] = HashTrieMap()
    by_name: HashTrieMap[str, UUID] = HashTrieMap()

    def topic(self, name: str) -> TopicImage | None:
        """Return a topic by name."""
        topic_id = self.by_name.get(name)
        return None if topic_id is None else self.by_id[topic_id]

    def partition(self, topic_id: UUID, partition_id: int) -> PartitionRegistration | None:
        """Return one partition; None for an unknown topic or index."""
        topic = self.by_id.get(topic_id)
        return None if topic is None else topic.partitions.get(partition_id)

    def partition_count(self) -> int:
        """Return the number of partitions of all topics."""
        return sum(len(topic.partitions) for topic in values_of(self.by_id))

    def topics_of_broker(self, broker_id: int) -> list[TopicImage]:
        """Return the topics that may have a replica on the broker, ordered by topic id. Checks every topic."""
        topics = [topic for topic in values_of(self.by_id) if broker_id in topic.brokers]
        topics.sort(key=_id_number)
        return topics

    def partitions_of_broker(self, broker_id: int) -> Iterator[tuple[TopicImage, int, PartitionRegistration]]:
        """Yield (topic, index, partition) for each partition with a replica on the broker, in a fixed order."""
        for topic in self.topics_of_broker(broker_id):
            for index, partition in topic.sorted_partitions():
                if broker_id in partition.replicas:
                    yield topic, index, partition
