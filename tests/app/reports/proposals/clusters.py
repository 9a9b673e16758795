"""Random clusters of 6 to 12 brokers whose replicas are crowded on some of them, and plain re-counting of layouts."""

import random
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from app.reports.proposals.layout import Indexes, Layout, layout_from_image
from app.reports.proposals.proposal import Proposal
from tests.app.reports.clusters import broker, image, partition


def crowded_layout(seed: int) -> Layout:
    """Two to four racks or none; skewed brokers, some violations of the rack rule, at times a fenced broker."""
    rng = random.Random(seed)
    racks, count = rng.choice([0, 2, 3, 3, 4]), rng.randint(6, 12)
    rack_of = {each: f"r{each if each < racks else rng.randrange(racks)}" if racks else None for each in range(count)}
    weight = [rng.random() ** rng.choice([1, 2, 3]) + 0.05 for _ in range(count)]
    brokers = [broker(each, rack_of[each], fenced=each > racks and rng.random() < 0.05) for each in range(count)]
    topics = {}
    for topic in range(rng.randint(1, 4)):
        rf = rng.choice([1, 2, 3, 3, 3])
        partitions = []
        for _ in range(rng.randint(3, 15)):
            replicas: list[int] = []
            while len(replicas) < rf:
                (each,) = rng.choices(range(count), weight)
                crowded = racks and rack_of[each] in {rack_of[other] for other in replicas} and len(replicas) < racks
                if each not in replicas and not (crowded and rng.random() < 0.9):
                    replicas.append(each)
            partitions.append(partition(" ".join(map(str, replicas)), leader=rng.choice(replicas)))
        topics[f"t{topic}"] = partitions
    return layout_from_image(image(brokers, topics))


def with_full_disks(layout: Layout, seed: int) -> Layout:
    """The layout with about a quarter of its brokers full."""
    rng = random.Random(seed)
    brokers = tuple(replace(each, free_bytes=0) if rng.random() < 0.25 else each for each in layout.brokers)
    return replace(layout, brokers=brokers)


def with_replicas(layout: Layout, changed: Mapping[int, Indexes], leaders: Mapping[int, int]) -> Layout:
    """The layout after these assignments are complete, all of them in sync, and led by `leaders`.

    Leaders are unchanged where `leaders` has none, except that a leader which is no longer a replica is replaced
    by the first replica. `lost` is forgotten for moved replicas.
    """
    replicas, isr, leader = list(layout.replicas), list(layout.isr), array("i", layout.leader)
    lost = dict(layout.lost)
    for at, assigned in changed.items():
        kept = set(layout.replicas[at])
        in_sync = {*isr[at], *(each for each in assigned if each not in kept)}
        replicas[at] = assigned
        isr[at] = tuple(each for each in assigned if each in in_sync)
        if leader[at] >= 0 and leader[at] not in assigned:
            leader[at] = assigned[0]
        still = tuple(each for each in lost.pop(at, ()) if each in assigned)
        if still:
            lost[at] = still
    for at, chosen in leaders.items():
        leader[at] = chosen
    return replace(layout, replicas=replicas, isr=isr, leader=leader, lost=lost)


def applied(layout: Layout, proposal: Proposal) -> Layout:
    """The layout after all assignments and elections of the plan."""
    at = {layout.key(each): each for each in range(len(layout))}
    index_of = layout.index_of
    changed = {
        at[change.topic, change.partition]: tuple(index_of[each] for each in change.proposed)
        for change in proposal.changes
    }
    leaders = {at[change.topic, change.partition]: index_of.get(change.new_leader, -1) for change in proposal.changes}
    leaders |= {at[key]: changed.get(at[key], layout.replicas[at[key]])[0] for key in proposal.elections}
    return with_replicas(layout, changed, leaders)


def rack_limits(layout: Layout, rf: int) -> dict[str, tuple[int, int]]:
    """The fewest and most replicas of a partition in each rack: as even as the racks' brokers allow."""
    sizes = Counter(each.rack for each in layout.brokers if each.rack and each.state != "UNREGISTERED")
    even = dict.fromkeys(sizes, 0)
    level = 0
    while sum(min(level + 1, size) for size in sizes.values()) <= rf and level < rf:
        level += 1
    spare = rf - sum(min(level, size) for size in sizes.values())
    return {rack: (min(level, sizes[rack]), min(level + (spare > 0), sizes[rack])) for rack in even}


def violated(layout: Layout) -> int:
    """The number of partitions outside the limits, where all replicas are in a rack."""
    found = 0
    for replicas in layout.targets():
        racks = Counter(layout.brokers[each].rack for each in replicas)
        limits = rack_limits(layout, len(replicas))
        found += any(not low <= racks[rack] <= high for rack, (low, high) in limits.items())
    return found


def counted(layout: Layout) -> dict[str, list[int]]:
    """Replicas, leaders and preferred leaders by broker index."""
    targets, brokers = layout.targets(), range(len(layout.brokers))
    replicas, leaders = Counter(chain.from_iterable(targets)), Counter(layout.leader)
    preferred = Counter(each[0] for each in targets)
    return {
        name: [each[broker] for broker in brokers]
        for name, each in (("replicas", replicas), ("leaders", leaders), ("preferred", preferred))
    }
