"""The report's engine in plain Python: the reference for the others, and what a page computes before the first run."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

from app.reports import definitions as d
from app.reports.aggregates import (
    CUBE_RACKS_MAX,
    EXAMPLES,
    Aggregates,
    Brokers,
    CubeRow,
    Held,
    Judged,
    Pair,
    RackHit,
    Row,
    Size,
    TopicRow,
)
from app.reports.leaders import LeaderOptimum, ListedGroups, leader_optimum
from app.reports.states import LEADER, TARGET, VERDICTS, Outcomes, PartitionState, codes_of

Ids = tuple[int, ...]


class Placement(NamedTuple):
    """A partition's registration, with brokers as indexes; leader -1: none."""

    replicas: Ids
    isr: Ids
    elr: Ids
    adding: Ids
    removing: Ids
    offline: Ids
    leader: int


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with its partitions: number, placement and size in bytes, None if unknown."""

    name: str
    min_isr_config: int
    unclean: bool
    partitions: Sequence[tuple[int, Placement, int | None]]


class Shape(NamedTuple):
    """Partitions with equal replicas and equal state."""

    replicas: Ids
    state: int

    def target(self, states: Sequence[PartitionState]) -> Ids:
        """Return the brokers of the target."""
        codes = states[self.state].codes
        return tuple(broker for broker, code in zip(self.replicas, codes, strict=True) if code & TARGET)


@dataclass(slots=True)
class Shapes:
    """The topics as counts of shapes. `states` is sorted, so that every engine numbers the states alike."""

    states: list[PartitionState] = field(default_factory=list)
    counts: Counter[Shape] = field(default_factory=Counter)
    by_topic: list[tuple[str, Counter[Shape]]] = field(default_factory=list)
    where: dict[Shape, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    sizes: Counter[int] = field(default_factory=Counter)
    known: Counter[int] = field(default_factory=Counter)


def sort_key(state: PartitionState) -> tuple[object, ...]:
    """Return the key by which every engine sorts the states."""
    return state.codes, state.replication_factor, state.min_isr_config, state.unclean


def shapes_of(topics: Iterable[Topic], *, elr: bool) -> Shapes:
    """Return the shapes of topics. `elr`: whether the cluster has eligible leader replicas enabled."""
    found: dict[tuple[Placement, int, bool], PartitionState] = {}
    listed: list[tuple[str, list[tuple[int, Placement, int | None, PartitionState]]]] = []
    interned: dict[PartitionState, PartitionState] = {}
    for topic in topics:
        rows = []
        for number, placement, size in topic.partitions:
            key = placement, topic.min_isr_config, topic.unclean
            state = found.get(key)
            if state is None:
                state = _state(placement, topic, elr=elr)
                state = found[key] = interned.setdefault(state, state)
            rows.append((number, placement, size, state))
        listed.append((topic.name, rows))
    shapes = Shapes(sorted(interned, key=sort_key))
    index = {id(interned[state]): number for number, state in enumerate(shapes.states)}
    for name, rows in listed:
        own: Counter[Shape] = Counter()
        for number, placement, size, state in rows:
            shape = Shape(placement.replicas, index[id(state)])
            own[shape] += 1
            shapes.where[shape].append((name, number))
            if size is not None:
                for broker in shape.target(shapes.states):
                    shapes.sizes[broker] += size
                    shapes.known[broker] += 1
        shapes.counts.update(own)
        shapes.by_topic.append((name, own))
    return shapes


def _state(placement: Placement, topic: Topic, *, elr: bool) -> PartitionState:
    codes = codes_of(
        placement.replicas,
        in_sync=placement.isr,
        eligible=placement.elr if elr else (),
        adding=placement.adding,
        removing=placement.removing,
        offline=placement.offline,
        leader=placement.leader,
    )
    factor = len(placement.replicas) - len(placement.adding)
    return PartitionState(codes, factor, topic.min_isr_config, topic.unclean)


def aggregate(shapes: Shapes, brokers: Brokers) -> Aggregates:
    """Return all aggregates of a snapshot."""
    states, outcomes = shapes.states, Outcomes(shapes.states)
    rack_of = brokers.rack_of()
    heirs = _Heirs(shapes, outcomes, rack_of)
    targets = {shape.target(states) for shape in shapes.counts}
    sizes = {broker: Size(shapes.sizes[broker], known) for broker, known in shapes.known.items()}
    examples = _Examples(shapes, outcomes, rack_of)
    return Aggregates(
        states=states,
        judged=judge(shapes, brokers),
        held=hold(shapes),
        rack_hits=hit(shapes, rack_of),
        cube=cube(shapes, rack_of) if len(brokers.racks) <= CUBE_RACKS_MAX else None,
        pairs=pair(shapes, outcomes),
        copysets=Counter(len(target) for target in {tuple(sorted(target)) for target in targets}),
        hottest_without_broker=heirs.hottest(heirs.by_broker),
        hottest_without_rack=heirs.hottest(heirs.by_rack),
        leaders=optimum(shapes, brokers),
        topics=[topic_row(name, own, states, brokers) for name, own in shapes.by_topic],
        sizes=sizes,
        broker_examples=examples.worst(examples.by_broker),
        rack_examples=examples.worst(examples.by_rack),
    )


def judge(shapes: Shapes, brokers: Brokers) -> list[Judged]:
    """Return the partitions by state and verdict of the rack rule."""
    allowed, rack_of = brokers.allowed(), brokers.rack_of()
    counts: Counter[tuple[int, str, int]] = Counter()
    verdicts: dict[Ids, tuple[str, int]] = {}
    for shape, count in shapes.counts.items():
        racks = tuple(sorted(rack_of[broker] for broker in shape.target(shapes.states)))
        if racks not in verdicts:
            limits = allowed[len(racks)] if len(racks) < len(allowed) else ()
            verdicts[racks] = d.rack_judgement(racks, limits)
        counts[shape.state, *verdicts[racks]] += count
    return [Judged(*key, count) for key, count in sorted(counts.items())]


def hold(shapes: Shapes) -> list[Held]:
    """Return the partitions by broker, state and position."""
    counts: Counter[tuple[int, int, int]] = Counter()
    for shape, count in shapes.counts.items():
        for position, broker in enumerate(shape.replicas):
            counts[broker, shape.state, position] += count
    return [Held(*key, count) for key, count in sorted(counts.items())]


def positions_by_rack(replicas: Ids, rack_of: Sequence[int]) -> dict[int, int]:
    """Return the bit mask of the positions in each rack."""
    masks: dict[int, int] = {}
    for position, broker in enumerate(replicas):
        if rack_of[broker] != d.NO_RACK:
            masks[rack_of[broker]] = masks.get(rack_of[broker], 0) | 1 << position
    return masks


def hit(shapes: Shapes, rack_of: Sequence[int]) -> list[RackHit]:
    """Return the partitions by rack, state and positions in the rack."""
    counts: Counter[tuple[int, int, int]] = Counter()
    for shape, count in shapes.counts.items():
        for rack, mask in positions_by_rack(shape.replicas, rack_of).items():
            counts[rack, shape.state, mask] += count
    return [RackHit(*key, count) for key, count in sorted(counts.items())]


def cube(shapes: Shapes, rack_of: Sequence[int]) -> list[CubeRow]:
    """Return the partitions by state and the racks of their positions."""
    counts: Counter[tuple[int, Ids]] = Counter()
    for shape, count in shapes.counts.items():
        counts[shape.state, tuple(rack_of[broker] for broker in shape.replicas)] += count
    return [CubeRow(*key, count) for key, count in sorted(counts.items())]


def pair(shapes: Shapes, outcomes: Outcomes) -> list[Pair]:
    """Return every two brokers with a common partition."""
    effects: dict[tuple[int, int, int], tuple[int, int, int, int]] = {}
    sums: dict[tuple[int, int], list[int]] = {}
    for shape, count in shapes.counts.items():
        for one, other in combinations(range(len(shape.replicas)), 2):
            key = shape.state, one, other
            effect = effects.get(key)
            if effect is None:
                effect = effects[key] = pair_effect(outcomes, *key)
            first, second = shape.replicas[one], shape.replicas[other]
            total = sums.setdefault((first, second) if first < second else (second, first), [0, 0, 0, 0])
            for index, value in enumerate(effect):
                total[index] += value * count
    return [Pair(*key, *total) for key, total in sorted(sums.items())]


def pair_effect(outcomes: Outcomes, state: int, one: int, other: int) -> tuple[int, int, int, int]:
    """Return shared, down, refused and lost of `Pair` for one partition and two of its positions."""
    codes = outcomes.states[state].codes
    both = outcomes.newly(state, 1 << one | 1 << other)
    first, second = outcomes.newly(state, 1 << one), outcomes.newly(state, 1 << other)
    down, refused, lost = (all_ - a - b for all_, a, b in zip(both, first, second, strict=True))
    return int(bool(codes[one] & codes[other] & TARGET)), down, refused, lost


class _Heirs:
    """Which brokers take over leadership when a broker or rack is lost."""

    def __init__(self, shapes: Shapes, outcomes: Outcomes, rack_of: Sequence[int]) -> None:
        self.led: Counter[int] = Counter()
        self.by_broker: Counter[tuple[int, int]] = Counter()
        self.by_rack: Counter[tuple[int, int]] = Counter()
        for (replicas, state), count in shapes.counts.items():
            position = outcomes.states[state].leader
            if position < 0:
                continue
            leader = replicas[position]
            self.led[leader] += count
            heir = outcomes.after(state, 1 << position).heir
            if heir >= 0:
                self.by_broker[leader, replicas[heir]] += count
            rack = rack_of[leader]
            if rack != d.NO_RACK:
                heir = outcomes.after(state, positions_by_rack(replicas, rack_of)[rack]).heir
                if heir >= 0:
                    self.by_rack[rack, replicas[heir]] += count

    def hottest(self, taken: Mapping[tuple[int, int], int]) -> dict[int, int]:
        """Return the most leaders that a broker has after taking over from each lost domain."""
        found: dict[int, int] = {}
        for (domain, heir), more in taken.items():
            found[domain] = max(found.get(domain, 0), self.led[heir] + more)
        return found


class _Examples:
    """The partitions that the loss of a broker or rack harms."""

    def __init__(self, shapes: Shapes, outcomes: Outcomes, rack_of: Sequence[int]) -> None:
        self.by_broker: dict[int, list[tuple[int, str, int]]] = defaultdict(list)
        self.by_rack: dict[int, list[tuple[int, str, int]]] = defaultdict(list)
        for (replicas, state), where in shapes.where.items():
            for position, broker in enumerate(replicas):
                self._add(self.by_broker[broker], outcomes, state, 1 << position, where)
            for rack, mask in positions_by_rack(replicas, rack_of).items():
                self._add(self.by_rack[rack], outcomes, state, mask, where)

    @staticmethod
    def _add(
        rows: list[tuple[int, str, int]], outcomes: Outcomes, state: int, lost: int, where: list[tuple[str, int]]
    ) -> None:
        if any(outcomes.newly(state, lost)):
            rank = VERDICTS.index(outcomes.after(state, lost).verdict)
            rows += [(rank, topic, partition) for topic, partition in where]

    @staticmethod
    def worst(rows: Mapping[int, list[tuple[int, str, int]]]) -> dict[int, list[Row]]:
        """Return the first page of each domain, the worst verdicts first."""
        return {domain: [example(*row) for row in sorted(listed)[:EXAMPLES]] for domain, listed in rows.items()}


def example(rank: int, topic: str, partition: int) -> dict[str, Any]:
    """Return a row of `partitions` in what_if."""
    return {"topic": topic, "partition": partition, "verdict": VERDICTS[rank]}


def optimum(shapes: Shapes, brokers: Brokers) -> LeaderOptimum:
    """Return the best distribution of leaders among active brokers of the targets."""
    active = brokers.active()
    alike: Counter[tuple[int, Ids]] = Counter()
    loads = [0] * len(active)
    holders: set[int] = set()
    for shape, count in shapes.counts.items():
        options = tuple(broker for broker in shape.target(shapes.states) if active[broker])
        if not options:
            continue
        position = shapes.states[shape.state].leader
        leader = shape.replicas[position] if position >= 0 else -1
        start = leader if leader in options else options[0]
        alike[start, tuple(sorted(options))] += count
        loads[start] += count
        holders.update(options)
    return leader_optimum(loads, holders, ListedGroups([(*key, count) for key, count in sorted(alike.items())]))


def topic_row(name: str, own: Mapping[Shape, int], states: Sequence[PartitionState], brokers: Brokers) -> TopicRow:
    """Return the counts of one topic."""
    held: Counter[int] = Counter()
    led: Counter[int] = Counter()
    partitions = single = last = factor = 0
    for shape, count in own.items():
        state = states[shape.state]
        partitions += count
        factor = max(factor, state.replication_factor)
        single += count if state.replication_factor == 1 else 0
        last += count if state.replication_factor == state.min_isr else 0
        for broker, code in zip(shape.replicas, state.codes, strict=True):
            held[broker] += count if code & TARGET else 0
            led[broker] += count if code & LEADER else 0
    eligible = set(brokers.eligible())
    used = [held[broker] for broker in eligible if held[broker]]
    width = max(1, len(eligible))
    fair, fair_leaders = -(-held.total() // width), -(-partitions // width)
    return TopicRow(
        topic=name,
        partitions=partitions,
        replicas=held.total(),
        replication_factor=factor,
        rf1=single,
        rf_is_min_isr=last,
        brokers_used=len(used),
        replicas_min=min(used) if used and len(used) == len(eligible) else 0,
        replicas_max=max(held.values(), default=0),
        excess=sum(max(0, count - fair) for count in held.values()),
        leaders_max=max(led.values(), default=0),
        leader_skew=max(0, max(led.values(), default=0) - fair_leaders),
    )
