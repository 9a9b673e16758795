"""The small tables to which every engine reduces a snapshot, and from which the report's body is built.

Brokers, racks and states are indexes: `broker_idx` of the snapshot, the position in `Brokers.racks`, and the position
in `Aggregates.states`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app.reports import definitions as d
from app.reports.leaders import LeaderOptimum
from app.reports.states import PartitionState

Row = Mapping[str, Any]

TOPICS_LISTED = 100
"""The length of each ranking of topics."""
EXAMPLES = 10
"""The partitions named in each row of what_if."""
PAIRS_LISTED = 20
"""The length of the list of the worst pairs of brokers."""
PAIRS_BROKERS_MAX = 60
"""With more brokers, pairs are not listed one by one, and the report has no matrix of them."""
CUBE_RACKS_MAX = 16
"""With more racks there is no cube: it would have almost as many rows as there are partitions."""


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers of the snapshot, by dense index, and their racks."""

    rows: Sequence[Row]

    @property
    def racks(self) -> list[str]:
        """Sorted names of the racks with a registered broker."""
        return sorted({row["rack"] for row in self.rows if row["rack"]})

    def rack_of(self) -> list[int]:
        """Rack index of each broker, -1 without a rack."""
        index_of = {rack: index for index, rack in enumerate(self.racks)}
        return [index_of.get(row["rack"], d.NO_RACK) for row in self.rows]

    def rack_sizes(self) -> list[int]:
        """The number of registered brokers per rack."""
        counts = Counter(self.rack_of())
        return [counts[index] for index in range(len(self.racks))]

    def eligible(self) -> dict[int, str | None]:
        """Index and rack of each broker that may take replicas."""
        return {row["broker_idx"]: row["rack"] for row in self.rows if row["eligible"]}

    def active(self) -> list[bool]:
        """Whether each broker is active, so that it can lead."""
        return [row["state"] == "ACTIVE" for row in self.rows]

    def ids(self, indexes: Iterable[int]) -> list[int]:
        """Return the broker ids of indexes."""
        return [self.rows[index]["broker_id"] for index in indexes]

    def allowed(self) -> list[tuple[int, ...]]:
        """Return the even spread over the racks by number of replicas, from 0 to the largest number judged."""
        sizes = self.rack_sizes()
        return [d.even_spread(replicas, sizes) for replicas in range(min(len(self.rows), d.RF_MAX) + 1)]


class Judged(NamedTuple):
    """Partitions that share a state and a verdict of the rack rule."""

    state: int
    rack_verdict: str
    rack_moves: int
    partitions: int


class Held(NamedTuple):
    """Partitions of one state that a broker holds at one position of their assignment."""

    broker: int
    state: int
    position: int
    partitions: int


class RackHit(NamedTuple):
    """Partitions of one state with exactly the positions in the bit mask `lost` in a rack."""

    rack: int
    state: int
    lost: int
    partitions: int


class CubeRow(NamedTuple):
    """Partitions of one state whose replicas are in these racks, by position."""

    state: int
    racks: tuple[int, ...]
    partitions: int


class Pair(NamedTuple):
    """Two brokers, `first` < `second`, and the partitions with both.

    `down`, `refused` and `lost` are what the loss of both does to these beyond the sum of what the loss of each does:
    added to the effects of each single loss on all partitions, they give the effect of losing both.
    """

    first: int
    second: int
    shared: int
    """Partitions with both in their target."""
    down: int
    refused: int
    lost: int


class PairLoss(NamedTuple):
    """Two brokers, `first` < `second`, the partitions with both in their target, and what the loss of both does."""

    first: int
    second: int
    shared: int
    down: int
    refused: int
    lost: int


@dataclass(frozen=True, slots=True)
class PairSummary:
    """All pairs of brokers in numbers, of which there are few however many brokers there are."""

    sharing: int
    """Pairs with a common partition in its target."""
    losing: int
    """Pairs whose loss newly leaves some partition without any replica."""
    stopping: int
    """Pairs whose loss newly makes some partition refuse writes."""
    width: Mapping[int, int]
    """With how many others each broker shares a partition; only brokers that do."""
    worst: Sequence[PairLoss]
    """The pairs whose loss does most harm, the worst first, up to PAIRS_LISTED."""


class TopicRow(NamedTuple):
    """A topic's counts. `brokers_used` and `replicas_min` are over eligible brokers, all others over all brokers."""

    topic: str
    partitions: int
    replicas: int
    replication_factor: int
    """The largest of its partitions."""
    rf1: int
    rf_is_min_isr: int
    brokers_used: int
    replicas_min: int
    replicas_max: int
    excess: int
    leaders_max: int
    leader_skew: int


class Size(NamedTuple):
    """The known bytes of a broker's replicas in targets, and how many of these replicas have a known size."""

    bytes: int
    known: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregates:
    """Everything that an engine counts."""

    states: Sequence[PartitionState] = ()
    judged: Sequence[Judged] = ()
    held: Sequence[Held] = ()
    rack_hits: Sequence[RackHit] = ()
    cube: Sequence[CubeRow] | None = None
    pairs: Sequence[Pair] = ()
    pair_summary: PairSummary | None = None
    """In place of `pairs`, where an engine has only counted them."""
    copysets: Mapping[int, int] = field(default_factory=dict)
    """The number of distinct targets by their size."""
    hottest_without_broker: Mapping[int, int] = field(default_factory=dict)
    """The most leaders of a broker that takes over from each lost broker, which it then has."""
    hottest_without_rack: Mapping[int, int] = field(default_factory=dict)
    leaders: LeaderOptimum = field(default_factory=LeaderOptimum)
    topics: Sequence[TopicRow] = ()
    """The topics of all rankings, see `ranked_topics`."""
    sizes: Mapping[int, Size] = field(default_factory=dict)
    broker_examples: Mapping[int, Sequence[Row]] = field(default_factory=dict)
    rack_examples: Mapping[int, Sequence[Row]] = field(default_factory=dict)


REASONS = ("offline", "under_min", "rack", "under_replicated", "rack_unknown")
"""Why a partition is listed as a violation, the most severe first. Each is listed once."""


def reason(state: PartitionState, rack_verdict: str, *, has_racks: bool) -> str | None:
    """Return why a partition is a violation, or None. Racks count only where some broker has one."""
    if state.leader < 0:
        return "offline"
    if state.margin < 0:
        return "under_min"
    if has_racks and rack_verdict == d.RACK_VIOLATED:
        return "rack"
    if state.replication_factor > state.in_sync:
        return "under_replicated"
    return "rack_unknown" if has_racks and rack_verdict == d.RACK_UNKNOWN else None


TOPIC_RANKINGS = ("excess", "leader_skew", "rf1", "rf_is_min_isr")


def ranked_topics(rows: Iterable[TopicRow]) -> list[tuple[TopicRow, list[str]]]:
    """Return the worst topics of each ranking, each once, with the rankings that list it, the most excess first."""
    every = list(rows)
    listed: dict[str, list[str]] = {}
    for name in TOPIC_RANKINGS:
        worst = sorted((row for row in every if getattr(row, name)), key=lambda row: (-getattr(row, name), row.topic))
        for row in worst[:TOPICS_LISTED]:
            listed.setdefault(row.topic, []).append(name)
    chosen = [row for row in every if row.topic in listed]
    chosen.sort(key=lambda row: (-row.excess, -row.leader_skew, -row.rf1, -row.rf_is_min_isr, row.topic))
    return [(row, listed[row.topic]) for row in chosen]
