"""The placement of a cluster's partitions at one offset, in columns: what a proposal is computed from.

Brokers, topics and partitions have dense indexes: brokers in order of id, topics in order of name, partitions in order
of (topic, number). Columns have one value per partition, numbers in arrays of 4 bytes each; what few partitions have is
in a dict by partition index. With the plan, a partition of three replicas takes about 220 bytes of memory.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from uuid import UUID

from app.reports.broker_state import ACTIVE, UNREGISTERED, broker_state
from kraft_core.configs.config_resource import BROKER, TOPIC
from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage, PartitionRegistration, TopicImage
from kraft_core.image.trie_items import values_of

Indexes = tuple[int, ...]
"""Broker indexes in order of preference."""

MAX_USED_PERCENT = 90
"""A log directory that is this full, or would become so, takes no more replicas."""


@dataclass(frozen=True, slots=True)
class DirectorySpace:
    """The size of a log directory's volume and what is free of it, in bytes. Source: DescribeLogDirs v4 (KIP-827)."""

    total_bytes: int
    usable_bytes: int

    @property
    def room_bytes(self) -> int:
        """What new replicas may take until the volume is MAX_USED_PERCENT full."""
        return max(0, self.usable_bytes - self.total_bytes * (100 - MAX_USED_PERCENT) // 100)


@dataclass(frozen=True, slots=True)
class LayoutBroker:
    """A broker, registered or only named in an assignment (state UNREGISTERED).

    `eligible`: ACTIVE, with an online and uncordoned log directory. `free_bytes`: what new replicas may take until a
    directory is MAX_USED_PERCENT full; None if unknown. A broker chooses the directory of a new replica by number of
    replicas, so with several directories the fullest one counts for all.
    """

    broker_id: int
    rack: str | None
    state: str
    eligible: bool
    free_bytes: int | None = None

    @property
    def active(self) -> bool:
        """Whether its replicas are online, as far as the broker's state tells."""
        return self.state == ACTIVE

    @property
    def is_full(self) -> bool:
        """Whether no replica fits any more: it may lose replicas and gets none."""
        return self.free_bytes is not None and self.free_bytes <= 0


@dataclass(frozen=True, slots=True)
class LayoutTopic:
    """A topic. `min_isr` is the effective `min.insync.replicas`; None where the source does not have it."""

    name: str
    topic_id: UUID
    min_isr: int | None = None


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The placement at one offset of the metadata log.

    Columns: `topic_of` (index of the topic), `number` (partition number in the topic), `replicas` and `isr` (broker
    indexes), `leader` (broker index or -1), `sizes` (bytes of one replica, None if unknown; the whole column is None
    when no size is known). Sparse: `adding` and `removing` of partitions in reassignment, `lost` (replicas in a log
    directory that is offline or unknown to its broker, whatever the broker's state).
    """

    offset: int
    epoch: int
    brokers: tuple[LayoutBroker, ...]
    topics: tuple[LayoutTopic, ...]
    topic_of: "array[int]"
    number: "array[int]"
    replicas: list[Indexes]
    isr: list[Indexes]
    leader: "array[int]"
    adding: dict[int, Indexes] = field(default_factory=dict)
    removing: dict[int, Indexes] = field(default_factory=dict)
    lost: dict[int, Indexes] = field(default_factory=dict)
    sizes: list[int | None] | None = None

    def __len__(self) -> int:
        return len(self.replicas)

    @cached_property
    def index_of(self) -> dict[int, int]:
        """Broker index by broker id."""
        return {broker.broker_id: index for index, broker in enumerate(self.brokers)}

    def targets(self) -> list[Indexes]:
        """Return each partition's replicas without those being removed (T): where it is or will be."""
        found = list(self.replicas)
        for partition, removing in self.removing.items():
            found[partition] = tuple(broker for broker in found[partition] if broker not in removing)
        return found

    def in_flight(self) -> set[int]:
        """Return the partitions with a reassignment in progress."""
        return {*self.adding, *self.removing}

    def offline_replicas(self, partition: int) -> Indexes:
        """Return the replicas on a broker that is not active, or in a lost directory."""
        lost = self.lost.get(partition, ())
        return tuple(each for each in self.replicas[partition] if each in lost or not self.brokers[each].active)

    def ids(self, indexes: Sequence[int]) -> tuple[int, ...]:
        """Return the broker ids of indexes."""
        brokers = self.brokers
        return tuple([brokers[index].broker_id for index in indexes])

    def key(self, partition: int) -> tuple[str, int]:
        """Return the (topic, partition number) of a partition index."""
        return self.topics[self.topic_of[partition]].name, self.number[partition]


def layout_from_image(
    image: MetadataImage,
    sizes: Mapping[tuple[UUID, int], int] | None = None,
    space: Mapping[int, Mapping[UUID, DirectorySpace]] | None = None,
) -> Layout:
    """Return the layout of a metadata image.

    `sizes`: known sizes of partitions in bytes, by (topic id, number). `space`: known directories, by broker id and
    directory id. Takes about 2 s per million partitions.
    """
    topics = sorted(values_of(image.topics.by_id), key=lambda topic: topic.name)
    rows = [(index, number, each) for index, topic in enumerate(topics) for number, each in topic.sorted_partitions()]
    registrations = [each for _, _, each in rows]
    seen = {broker for replicas in {each.replicas for each in registrations} for broker in replicas}
    brokers = tuple(
        _broker(image.cluster.brokers.get(broker_id), broker_id, (space or {}).get(broker_id, {}))
        for broker_id in sorted({*image.cluster.brokers, *seen})
    )
    index_of = {broker.broker_id: index for index, broker in enumerate(brokers)}
    translated: dict[tuple[int, ...], Indexes] = {}

    def indexes(ids: tuple[int, ...]) -> Indexes:
        found = translated.get(ids)
        if found is None:
            found = translated[ids] = tuple(index_of[broker] for broker in ids if broker in index_of)
        return found

    return Layout(
        offset=image.offset,
        epoch=image.epoch,
        brokers=brokers,
        topics=tuple(LayoutTopic(topic.name, topic.id, _min_isr(image, topic)) for topic in topics),
        topic_of=array("i", (index for index, _, _ in rows)),
        number=array("i", (number for _, number, _ in rows)),
        replicas=[indexes(each.replicas) for each in registrations],
        isr=[indexes(each.isr) for each in registrations],
        leader=array("i", (index_of.get(each.leader, -1) for each in registrations)),
        adding={at: indexes(each.adding_replicas) for at, each in enumerate(registrations) if each.adding_replicas},
        removing={
            at: indexes(each.removing_replicas) for at, each in enumerate(registrations) if each.removing_replicas
        },
        lost={at: indexes(gone) for at, gone in _lost(image.cluster.brokers, registrations).items()},
        sizes=[sizes.get((topics[index].id, number)) for index, number, _ in rows] if sizes else None,
    )


def _min_isr(image: MetadataImage, topic: TopicImage) -> int:
    key = "min.insync.replicas"
    return int(image.configs.of(TOPIC, topic.name).get(key) or image.configs.of(BROKER, "").get(key) or 1)


def _broker(found: BrokerRegistration | None, broker_id: int, space: Mapping[UUID, DirectorySpace]) -> LayoutBroker:
    if found is None:
        return LayoutBroker(broker_id, None, UNREGISTERED, eligible=False)
    state = broker_state(found)
    eligible = state == ACTIVE and found.has_uncordoned_dirs()
    return LayoutBroker(broker_id, found.rack or None, state, eligible, free_bytes(found, space))


def free_bytes(broker: BrokerRegistration, space: Mapping[UUID, DirectorySpace]) -> int | None:
    """Return what new replicas may take on a broker (see LayoutBroker), None unless all its directories are known."""
    cordoned = broker.cordoned_directories or ()
    usable = [space.get(each) for each in broker.directories if each not in cordoned]
    free = [each.room_bytes for each in usable if each is not None]
    return min(free) * len(free) if free and len(free) == len(usable) else None


def _lost(
    brokers: Mapping[int, BrokerRegistration], partitions: Sequence[PartitionRegistration]
) -> dict[int, tuple[int, ...]]:
    """Return the ids of the replicas in a directory that is not online, by index of the partition."""
    found: dict[int, tuple[int, ...]] = {}
    known: dict[tuple[tuple[int, ...], int], tuple[int, ...]] = {}
    for index, each in enumerate(partitions):
        key = each.replicas, id(each.directories)  # the image keeps these tuples alive and shares equal ones
        gone = known.get(key)
        if gone is None:
            gone = known[key] = tuple(
                broker_id
                for broker_id, directory in zip(each.replicas, each.directories, strict=False)
                if (broker := brokers.get(broker_id)) is not None and not broker.has_online_dir(directory)
            )
        if gone:
            found[index] = gone
    return found
