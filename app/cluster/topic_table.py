"""All topics as rows, kept current with the image, so that a page of 10,000 topics needs no pass over the image.

A row depends on its topic and on the configs that set its required in-sync replicas, all of them immutable values. It
is rebuilt only when one of them has been replaced. Where the history has every change since the last image, only the
topics that they concern are looked at.

Health has the terms of the placement reports: *offline* has no leader; *under min* has no leader or fewer in-sync
replicas than min(`min.insync.replicas`, replication factor), which is what a broker enforces; *under-replicated* has
fewer in-sync replicas than replicas.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Literal
from uuid import UUID

import msgspec

from app.cluster.history import History, OffsetGone
from app.cluster.topic_changes import topics_of
from kraft_core.configs.config_resource import TOPIC
from kraft_core.configs.effective_config import NodeConfigs, topic_config
from kraft_core.image.metadata_image import MetadataImage, PartitionRegistration, TopicImage
from kraft_core.image.trie_items import items_of
from kraft_core.protocol.internal_topics import INTERNAL_TOPICS
from kraft_core.protocol.uuids import uuid_to_text

SortKey = Literal["name", "partitions", "replication_factor", "trouble", "changed"]
SORT_KEYS: tuple[SortKey, ...] = ("name", "partitions", "replication_factor", "trouble", "changed")
Problem = Literal["offline", "under-min", "under-replicated", "reassigning", "not-preferred"]
_COUNTS = ("partitions", "offline", "under_min", "under_replicated", "reassigning", "not_preferred")
PROBLEMS: tuple[Problem, ...] = ("offline", "under-min", "under-replicated", "reassigning", "not-preferred")
BY_NAME: Final = attrgetter("name")
CHANGED_PART: Final = 16
"""If more than one topic in this many has changed, all rows are compared and sorted, which is less work then."""


@dataclass(frozen=True, slots=True)
class PartitionHealth:
    """Problems of one partition. All False: none."""

    offline: bool
    under_min: bool
    under_replicated: bool
    reassigning: bool
    not_preferred: bool


def replication_factor(partition: PartitionRegistration) -> int:
    """The number of replicas without those being added, as Kafka's own tool counts."""
    return len(partition.replicas) - len(partition.adding_replicas)


def partition_health(partition: PartitionRegistration, min_isr_config: int) -> PartitionHealth:
    """Return the problems of a partition; `min_isr_config` is the topic's effective `min.insync.replicas`."""
    factor = replication_factor(partition)
    offline = not partition.has_leader
    return PartitionHealth(
        offline=offline,
        under_min=offline or len(partition.isr) < min(min_isr_config, factor),
        under_replicated=factor > len(partition.isr),
        reassigning=partition.is_reassigning,
        not_preferred=not partition.has_preferred_leader,
    )


class TopicRow(msgspec.Struct, frozen=True, gc=False):
    """One topic in a list. Counts are partitions unless named otherwise. A struct, because 10,000 are built at once."""

    name: str
    id: UUID
    is_internal: bool
    partitions: int
    replication_factor: int
    min_isr: int
    configs_set: int
    offline: int
    under_min: int
    under_replicated: int
    reassigning: int
    not_preferred: int

    @property
    def topic_id(self) -> str:
        """The id in Kafka's form."""
        return uuid_to_text(self.id)

    @property
    def trouble(self) -> tuple[int, int, int]:
        """Sort key: the worst topics first when reversed."""
        return self.offline, self.under_min, self.under_replicated

    def has(self, problem: Problem) -> bool:
        """Return whether any partition has this problem."""
        return bool(getattr(self, problem.replace("-", "_")))


@dataclass(frozen=True, slots=True)
class ClusterTotals:
    """Sums over all topics, and what each broker holds. Brokers that hold nothing are absent."""

    topics: int
    partitions: int
    replicas: int
    offline: int
    under_min: int
    under_replicated: int
    reassigning: int
    not_preferred: int
    replicas_of: Mapping[int, int]
    leaders_of: Mapping[int, int]
    out_of_sync_of: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class TopicPage:
    """A page of a list: its rows, the number of matching topics, and the number of all topics."""

    rows: Sequence[TopicRow]
    matching: int
    topics: int
    page: int
    pages: int


class _Holdings:
    """What each broker holds of one topic: replicas, leaders, out-of-sync replicas."""

    __slots__ = ("leaders", "out_of_sync", "replicas")

    def __init__(self, topic: TopicImage) -> None:
        self.replicas: dict[int, int] = {}
        self.leaders: dict[int, int] = {}
        self.out_of_sync: dict[int, int] = {}
        for _, partition in items_of(topic.partitions):
            replicas, isr = partition.replicas, partition.isr
            for broker in replicas:
                self.replicas[broker] = self.replicas.get(broker, 0) + 1
                if broker not in isr:
                    self.out_of_sync[broker] = self.out_of_sync.get(broker, 0) + 1
            if partition.has_leader:
                self.leaders[partition.leader] = self.leaders.get(partition.leader, 0) + 1


def _problem_counts(topic: TopicImage, min_isr: int) -> dict[str, int]:
    """Return the number of partitions with each problem. The common case, no problem at all, is fast."""
    offline = under_min = under_replicated = reassigning = not_preferred = 0
    for _, partition in items_of(topic.partitions):
        replicas = partition.replicas
        if (
            replicas
            and partition.leader == replicas[0]
            and len(partition.isr) == len(replicas)
            and not partition.adding_replicas
            and not partition.removing_replicas
        ):
            continue
        health = partition_health(partition, min_isr)
        offline += health.offline
        under_min += health.under_min
        under_replicated += health.under_replicated
        reassigning += health.reassigning
        not_preferred += health.not_preferred
    return {
        "offline": offline,
        "under_min": under_min,
        "under_replicated": under_replicated,
        "reassigning": reassigning,
        "not_preferred": not_preferred,
    }


class _Entry:
    """A row with its sources. The holdings of brokers are computed when totals are first requested."""

    __slots__ = ("_holdings", "configs", "min_isr_default", "row", "topic")

    def __init__(self, topic: TopicImage, configs: Mapping[str, str], min_isr_default: str | None) -> None:
        self.topic = topic
        self.configs = configs
        self.min_isr_default = min_isr_default
        self._holdings: _Holdings | None = None
        min_isr = int(configs.get("min.insync.replicas") or min_isr_default or 1)
        first = topic.partitions.get(0)
        self.row = TopicRow(
            name=topic.name,
            id=topic.id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=len(topic.partitions),
            replication_factor=replication_factor(first) if first is not None else 0,
            min_isr=min_isr,
            configs_set=len(configs),
            **_problem_counts(topic, min_isr),
        )

    @property
    def holdings(self) -> _Holdings:
        """What each broker holds of the topic."""
        if self._holdings is None:
            self._holdings = _Holdings(self.topic)
        return self._holdings


class TopicTable:
    """The rows of the newest image. Not thread-safe: it is used on the event loop only."""

    def __init__(self) -> None:
        self._image: MetadataImage | None = None
        self._min_isr_default: str | None = None
        self._entries: dict[UUID, _Entry] = {}
        self._sorted: list[TopicRow] = []
        self._totals: ClusterTotals | None = None
        self._sums = _Sums()
        self._uncounted: set[UUID] | None = None  # None: perhaps all

    def refresh(self, image: MetadataImage, history: History | None = None) -> None:
        """Update the rows to `image`.

        Costs the changed topics where `history` has every change since the last image, else one comparison per topic.
        """
        known = self._image
        self._image = image
        if known is not None and known.topics is image.topics and known.configs is image.configs:
            return
        self._totals = None
        before, self._min_isr_default = self._min_isr_default, _min_isr_default(image)
        changed = None
        if known is not None and history is not None and before == self._min_isr_default:
            changed = _changed_topics(known, image, history)
        if changed is None or len(changed) * CHANGED_PART > len(self._entries):
            self._compare_all(image)
        else:
            self._replace(image, changed)

    def _compare_all(self, image: MetadataImage) -> None:
        entries: dict[UUID, _Entry] = {}
        for topic_id, topic in items_of(image.topics.by_id):
            configs = image.configs.of(TOPIC, topic.name)
            entry = self._entries.get(topic_id)
            if (
                entry is None
                or entry.topic is not topic
                or entry.configs is not configs
                or entry.min_isr_default != self._min_isr_default
            ):
                entry = _Entry(topic, configs, self._min_isr_default)
            entries[topic_id] = entry
        self._entries = entries
        self._sorted = sorted((entry.row for entry in entries.values()), key=BY_NAME)
        self._uncounted = None

    def _replace(self, image: MetadataImage, changed: Collection[UUID]) -> None:
        for entry in [self._entries.pop(topic_id) for topic_id in changed if topic_id in self._entries]:
            del self._sorted[bisect_left(self._sorted, entry.row.name, key=BY_NAME)]
        for topic_id in changed:
            topic = image.topics.by_id.get(topic_id)
            if topic is not None:
                entry = _Entry(topic, image.configs.of(TOPIC, topic.name), self._min_isr_default)
                self._entries[topic_id] = entry
                insort(self._sorted, entry.row, key=BY_NAME)
        if self._uncounted is not None:
            self._uncounted.update(changed)

    @property
    def rows(self) -> Sequence[TopicRow]:
        """All rows by name. They change with the next refresh."""
        return self._sorted

    def row(self, topic_id: UUID) -> TopicRow | None:
        """Return one topic's row, or None."""
        entry = self._entries.get(topic_id)
        return None if entry is None else entry.row

    def totals(self) -> ClusterTotals:
        """Return sums over all topics. After a change, only changed topics are counted again."""
        if self._totals is None:
            self._totals = self._sums.follow(self._entries, self._uncounted)
            self._uncounted = set()
        return self._totals

    def page(
        self,
        *,
        search: str = "",
        sort: SortKey = "name",
        descending: bool = False,
        problem: Problem | None = None,
        internal: bool = True,
        page: int = 1,
        page_size: int = 50,
        changed: Mapping[UUID, int] | None = None,
    ) -> TopicPage:
        """Return the sorted rows whose name contains `search` in any case. Pages beyond the last are the last one.

        `changed` has the times for the sort by last change.
        """
        needle = search.strip().lower()
        rows: list[TopicRow] = [
            row
            for row in self._sorted
            if (not needle or needle in row.name.lower())
            and (problem is None or row.has(problem))
            and (internal or not row.is_internal)
        ]
        times = changed or {}
        if sort == "changed":
            rows.sort(key=lambda row: times.get(row.id, 0), reverse=descending)
        elif sort != "name":
            rows.sort(key=lambda row: getattr(row, sort), reverse=descending)
        elif descending:
            rows.reverse()
        pages = max(1, -(-len(rows) // page_size))
        page = min(max(1, page), pages)
        start = (page - 1) * page_size
        return TopicPage(rows[start : start + page_size], len(rows), len(self._sorted), page, pages)


class _Sums:
    """Running sums over entries. A changed entry is subtracted and added again; the others are not visited."""

    __slots__ = ("_counted", "_counts", "_leaders", "_out_of_sync", "_replicas")

    def __init__(self) -> None:
        self._counted: dict[UUID, _Entry] = {}
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._replicas: dict[int, int] = {}
        self._leaders: dict[int, int] = {}
        self._out_of_sync: dict[int, int] = {}

    def follow(self, entries: Mapping[UUID, _Entry], changed: Collection[UUID] | None) -> ClusterTotals:
        """Update the sums to `entries`, of which only `changed` differ (None: perhaps all), and return them."""
        for topic_id in changed if changed is not None else self._counted.keys() | entries.keys():
            before, after = self._counted.get(topic_id), entries.get(topic_id)
            if before is after:
                continue
            if before is not None:
                self._add(before, -1)
                del self._counted[topic_id]
            if after is not None:
                self._add(after, 1)
                self._counted[topic_id] = after
        replicas_of = _without_zeros(self._replicas)
        return ClusterTotals(
            topics=len(entries),
            replicas=sum(replicas_of.values()),
            replicas_of=replicas_of,
            leaders_of=_without_zeros(self._leaders),
            out_of_sync_of=_without_zeros(self._out_of_sync),
            **self._counts,
        )

    def _add(self, entry: _Entry, sign: int) -> None:
        for name in _COUNTS:
            self._counts[name] += sign * getattr(entry.row, name)
        holdings = entry.holdings
        for sums, held in (
            (self._replicas, holdings.replicas),
            (self._leaders, holdings.leaders),
            (self._out_of_sync, holdings.out_of_sync),
        ):
            for broker, count in held.items():
                sums[broker] = sums.get(broker, 0) + sign * count


def _min_isr_default(image: MetadataImage) -> str | None:
    return topic_config("min.insync.replicas", {}, NodeConfigs.of(image.configs))


def _changed_topics(known: MetadataImage, image: MetadataImage, history: History) -> set[UUID] | None:
    """Return the topics that may differ between two images, None where the history does not lead from one to the other.

    The images of its changes are compared, since an observer may have loaded a snapshot in between.
    """
    try:
        changes = history.since(known.offset + 1)
    except OffsetGone:
        return None
    topics, configs = known.topics, known.configs
    changed: set[UUID] = set()
    for change in changes:
        if change.offset > image.offset:  # known already, and not yet part of what is published
            break
        if change.before.topics is not topics or change.before.configs is not configs:
            return None
        topics, configs = change.after.topics, change.after.configs
        changed.update(topics_of(change))
    return changed if topics is image.topics and configs is image.configs else None


def _without_zeros(sums: Mapping[int, int]) -> dict[int, int]:
    return {broker: count for broker, count in sums.items() if count}
