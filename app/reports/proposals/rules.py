"""Which brokers and partitions a proposal may touch, the rack rule, and the bands: derived once from the options."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, compress

from app.reports import definitions as d
from app.reports.broker_state import FENCED, UNREGISTERED
from app.reports.proposals.layout import Indexes, Layout
from app.reports.proposals.options import DRAIN, EXPAND, MOVE, REPAIR, REPLICATION_FACTOR, Options


@dataclass(frozen=True, slots=True)
class RackRule:
    """The even spread of replicas over racks, by broker index.

    `rack_of`: rack index, -1 without a rack. `allowed[rf]`: replicas per rack, from most to fewest. Racks that are
    drained are not counted. `counted`: the brokers in the racks. With `racks` 0 every placement is fine.
    """

    rack_of: list[int]
    racks: int
    counted: tuple[int, ...]
    allowed: tuple[tuple[int, ...], ...]

    def overflow(self, brokers: Sequence[int], rf: int) -> int:
        """Return how many of these replicas must change rack in a partition of `rf` replicas."""
        return self._overflow([self.rack_of[broker] for broker in brokers], rf) if self.racks else 0

    def _overflow(self, racks: list[int], rf: int) -> int:
        named = [rack for rack in racks if rack >= 0]
        distinct = set(named)
        if len(distinct) == len(named) and rf <= self.racks:
            return 0
        limits = self.allowed[rf]
        over = 0
        for rank, count in enumerate(sorted(map(named.count, distinct), reverse=True)):
            limit = limits[rank] if rank < len(limits) else 0
            over += count - limit if count > limit else 0
        return over

    def worst(self, brokers: Sequence[int], rack: int, rf: int) -> int:
        """Return the overflow with one more replica in `rack`."""
        racks = [self.rack_of[broker] for broker in brokers]
        racks.append(rack)
        return self._overflow(racks, rf)

    def allows(self, target: Indexes, source: int, destination: int) -> bool:
        """Return whether this move keeps the partition's racks at least as even as they are."""
        out, into = self.rack_of[source], self.rack_of[destination]
        if out == into or not self.racks:
            return True
        if into < 0:
            return False
        left = [broker for broker in target if broker != source]
        if all(self.rack_of[broker] != into for broker in left):
            return True
        rf = len(target)
        return self.worst(left, into, rf) <= self.overflow(target, rf)

    def racks_for(self, target: Indexes, source: int, among: Sequence[int] | None = None) -> list[int]:
        """Return the racks (of `among`) to which a replica may move so that the partition is as even as before.

        -1 stands for the brokers without a rack. A replica in a rack never moves to one of them.
        """
        out = self.rack_of[source]
        if not self.racks:
            return [-1] if among is None else list(among)
        left = [broker for broker in target if broker != source]
        used = {self.rack_of[broker] for broker in left}
        rf = len(target)
        now = -1
        found = []
        for rack in range(-1, self.racks) if among is None else among:
            if rack < 0 <= out:
                continue
            if rack in used and rack != out:
                now = self.overflow(target, rf) if now < 0 else now
                if self.worst(left, rack, rf) > now:
                    continue
            found.append(rack)
        return found


def rack_rule(layout: Layout, drained: frozenset[int], max_rf: int) -> RackRule:
    """Return the rule over the racks with a registered broker that is not in `drained`, for up to `max_rf` replicas."""
    counted = tuple(
        index
        for index, broker in enumerate(layout.brokers)
        if broker.rack and broker.state != UNREGISTERED and index not in drained
    )
    sizes = Counter(layout.brokers[index].rack or "" for index in counted)
    names = sorted(sizes)
    index_of = {name: index for index, name in enumerate(names)}
    rack_of = [index_of.get(broker.rack or "", -1) for broker in layout.brokers]
    widths = [sizes[name] for name in names]
    allowed = tuple(d.even_spread(rf, widths) if names else () for rf in range(max_rf + 1))
    return RackRule(rack_of, len(names), counted, allowed)


@dataclass(frozen=True, slots=True)
class Rules:
    """What the options mean for a layout, by broker and partition index.

    leaving: brokers whose replicas must all move. drained: those of them that the options name.
    excluded: brokers that keep their replicas and get none. takers: brokers that may get replicas. givers: brokers
    with full disks, which may lose replicas and get none. sharers: the takers, and the givers that have at least their
    share. left: the brokers that the movable partitions leave (move). new: of the takers, the only ones that balance
    may fill (expand), else None. movable: 1 for each partition that may change. low, high: bands of the sharers, -1
    for the other brokers.
    """

    racks: RackRule
    leaving: frozenset[int]
    drained: frozenset[int]
    excluded: frozenset[int]
    takers: frozenset[int]
    givers: frozenset[int]
    sharers: frozenset[int]
    left: frozenset[int]
    new: frozenset[int] | None
    movable: bytearray
    low: list[int]
    high: list[int]


def _drained(layout: Layout, options: Options) -> frozenset[int]:
    if DRAIN not in options.goals:
        return frozenset()
    return frozenset(
        index
        for index, broker in enumerate(layout.brokers)
        if broker.broker_id in options.drain_brokers or (broker.rack and broker.rack in options.drain_racks)
    )


def _movable(layout: Layout, options: Options) -> bytearray:
    movable = bytearray(b"\x01") * len(layout)
    for partition in layout.in_flight():
        movable[partition] = 0
    for partition in compress(range(len(layout)), map((-1).__eq__, layout.leader)):
        movable[partition] = 0
    if options.topics is not None or options.exclude_topics:
        touched = [
            name not in options.exclude_topics and (options.topics is None or name in options.topics)
            for name in (topic.name for topic in layout.topics)
        ]
        for partition, topic in enumerate(layout.topic_of):
            if not touched[topic]:
                movable[partition] = 0
    if options.partitions is not None:
        for partition in range(len(layout)):
            if movable[partition] and layout.key(partition) not in options.partitions:
                movable[partition] = 0
    return movable


def rules_of(layout: Layout, options: Options, target: list[Indexes]) -> Rules:
    """Return the rules for `target` (see `Layout.targets`)."""
    drained = _drained(layout, options)
    leaving = set(drained)
    if REPAIR in options.goals:
        leaving |= {index for index, broker in enumerate(layout.brokers) if broker.state in {FENCED, UNREGISTERED}}
    excluded = frozenset(layout.index_of[each] for each in options.exclude_brokers if each in layout.index_of)
    leaving -= excluded
    targets = {layout.index_of[each] for each in options.target_brokers if each in layout.index_of}
    left = frozenset(range(len(layout.brokers))) - targets if MOVE in options.goals else frozenset()
    partly = {layout.index_of[broker] for _, _, broker in options.drain_replicas if broker in layout.index_of}
    usable = frozenset(
        index
        for index, broker in enumerate(layout.brokers)
        if broker.eligible and index not in drained | left and index not in excluded and index not in partly
    )
    full = frozenset(index for index in usable if layout.brokers[index].is_full)
    takers, movable = usable - full, _movable(layout, options)
    sharers, low, high = _sharers(layout, options, target, left.union(leaving), takers, full, movable)
    new = None
    if EXPAND in options.goals:
        named = {layout.index_of[each] for each in options.expand_brokers if each in layout.index_of}
        used = set(chain.from_iterable(set(target))) if not options.expand_brokers else set()
        new = frozenset(takers & named if options.expand_brokers else takers - used)
    max_rf = max(max(map(len, target), default=0), options.replication_factor or 0)
    racks = rack_rule(layout, drained | left, max_rf)
    return Rules(racks, frozenset(leaving), drained, excluded, takers, full, sharers, left, new, movable, low, high)


def _sharers(
    layout: Layout,
    options: Options,
    target: list[Indexes],
    leaving: frozenset[int],
    takers: frozenset[int],
    full: frozenset[int],
    movable: bytearray,
) -> tuple[frozenset[int], list[int], list[int]]:
    """Return the takers with the full brokers that have at least their share, and the bands of all of them.

    A full broker with less can get nothing, so it keeps its replicas, and the others share the rest. That raises their
    shares.
    """
    held = Counter(chain.from_iterable(target)) if full else Counter[int]()
    while True:
        low, high = _bands(layout, options, target, leaving, takers | full, movable)
        enough = frozenset(index for index in full if held[index] >= low[index])
        if enough == full:
            return takers | full, low, high
        full = enough


def _bands(
    layout: Layout,
    options: Options,
    target: list[Indexes],
    leaving: frozenset[int],
    sharers: frozenset[int],
    movable: bytearray,
) -> tuple[list[int], list[int]]:
    """Return the lowest and highest number of replicas of each of the sharers, -1 for other brokers.

    They share all replicas except those that other brokers keep. One rack per broker if one of them has none.
    """
    staying = frozenset(range(len(layout.brokers))) - sharers - leaving
    wanted = options.replication_factor if REPLICATION_FACTOR in options.goals else None
    factors: Counter[int] = Counter()
    if not staying and wanted is None and all(movable):
        factors.update(map(len, target))
    else:
        for partition, replicas in enumerate(target):
            kept = staying if movable[partition] else staying | leaving
            rf = wanted if wanted is not None and movable[partition] else len(replicas)
            factors[max(0, rf - sum(broker in kept for broker in replicas))] += 1
    rack_names = {index: layout.brokers[index].rack for index in sharers}
    low, high = [-1] * len(layout.brokers), [-1] * len(layout.brokers)
    for ids, share in _shares(factors, rack_names):
        each = share / len(ids) if ids else Fraction(0)
        slack = each * options.tolerance_percent / 100
        for index in ids:
            low[index] = int(each - slack)
            high[index] = -int(-(each + slack) // 1)
    return low, high


def _shares(factors: Counter[int], rack_names: dict[int, str | None]) -> list[tuple[list[int], Fraction]]:
    groups: dict[str, list[int]] = {}
    rackless = not all(rack_names.values())
    for index in sorted(rack_names):
        groups.setdefault(str(index) if rackless else rack_names[index] or "", []).append(index)
    sizes = [len(ids) for ids in groups.values()]
    return list(zip(groups.values(), d.rack_shares(factors, sizes), strict=True))
