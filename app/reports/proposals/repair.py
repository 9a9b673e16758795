"""The moves that must be: replicas that leave their broker or rack, and a new replication factor."""

from collections.abc import Collection
from itertools import compress
from operator import not_

from app.reports.proposals.layout import Indexes
from app.reports.proposals.options import REPAIR
from app.reports.proposals.proposal import BUDGET, NO_TARGET
from app.reports.proposals.state import State

Failures = dict[str, list[int]]
"""Partitions by reason, one entry per replica that could not be placed."""


def forced_replicas(state: State) -> dict[int, Indexes]:
    """Return the replicas that must leave where they are, by partition; of partitions that cannot change as well."""
    layout, rules, goals = state.layout, state.rules, state.options.goals
    found: dict[int, set[int]] = {}
    if rules.leaving:
        concerned = map(not_, map(rules.leaving.isdisjoint, state.before))
        for partition in compress(range(len(state.before)), concerned):
            found.setdefault(partition, set()).update(rules.leaving.intersection(state.before[partition]))
    if rules.left:
        for partition, replicas in enumerate(state.before):
            if rules.movable[partition] and not rules.left.isdisjoint(replicas):
                found.setdefault(partition, set()).update(rules.left.intersection(replicas))
    if REPAIR in goals:
        for partition, lost in layout.lost.items():
            gone = {
                each
                for each in lost
                if each in state.before[partition] and layout.brokers[each].active and each not in rules.excluded
            }
            if gone:
                found.setdefault(partition, set()).update(gone)
    if state.options.drain_replicas:
        drained: dict[tuple[str, int], set[int]] = {}
        for topic, number, broker in state.options.drain_replicas:
            drained.setdefault((topic, number), set()).add(layout.index_of[broker])
        for partition, replicas in enumerate(state.before):
            gone = drained.get(layout.key(partition), set()).intersection(replicas)
            if gone:
                found.setdefault(partition, set()).update(gone)
    return {partition: tuple(sorted(each)) for partition, each in found.items()}


def repair(state: State, forced: dict[int, Indexes], crowded: Collection[int]) -> Failures:
    """Place the forced replicas elsewhere, and spread the partitions in `crowded` over the racks.

    Partitions with the fewest in-sync replicas come first, so that a budget mends the worst.
    """
    failures: Failures = {}
    in_sync = state.layout.isr
    spread = set(crowded)
    for partition in sorted({*forced, *spread}, key=lambda each: (len(in_sync[each]), each)):
        for source in forced.get(partition, ()):
            if source in state.target[partition]:
                _evict(state, partition, source, failures)
        if partition in spread:
            _spread(state, partition, failures)
    return failures


def _evict(state: State, partition: int, source: int, failures: Failures) -> None:
    """Move a replica off its broker: to a rack that breaks no rule if there is a broker, else within its rack."""
    target, rule = state.target[partition], state.rules.racks
    racks = rule.racks_for(target, source)
    left = [broker for broker in target if broker != source]
    best = rule.overflow(left, len(target))
    even = [rack for rack in racks if rule.worst(left, rack, len(target)) <= best] if best or len(racks) > 1 else racks
    destination = state.destination(partition, even)
    if destination is None:
        destination = state.destination(partition, racks)
    _move(state, partition, source, destination, failures)


def _spread(state: State, partition: int, failures: Failures) -> None:
    """Move replicas of a partition to other racks until it is even."""
    rule = state.rules.racks
    while now := rule.overflow(state.target[partition], len(state.target[partition])):
        target = state.target[partition]
        for source in _by_crowd(state, partition):
            left = [broker for broker in target if broker != source]
            racks = [rack for rack in range(rule.racks) if rule.worst(left, rack, len(target)) < now]
            destination = state.destination(partition, racks)
            if destination is not None:
                break
        else:
            failures.setdefault(NO_TARGET, []).extend([partition] * now)
            return
        if not _move(state, partition, source, destination, failures):
            return


def _by_crowd(state: State, partition: int) -> list[int]:
    """Return the replicas in a rack, those in the most crowded rack first.

    Then: out of sync, on the broker farthest above its band, no leader.
    """
    target, rack_of, rules = state.target[partition], state.rules.racks.rack_of, state.rules
    racks = [rack_of[broker] for broker in target]
    leader, in_sync = state.layout.leader[partition], state.layout.isr[partition]

    def rank(broker: int) -> tuple[int, ...]:
        excess = max(0, state.count[broker] - rules.high[broker])
        return -racks.count(rack_of[broker]), broker in in_sync, -excess, broker == leader, broker

    return sorted((each for each in target if rack_of[each] >= 0 and each not in rules.excluded), key=rank)


def _move(state: State, partition: int, source: int, destination: int | None, failures: Failures) -> bool:
    if destination is None:
        failures.setdefault(NO_TARGET, []).append(partition)
        return False
    if not state.within_budget(partition):
        failures.setdefault(BUDGET, []).append(partition)
        return False
    state.move(partition, source, destination)
    return True


def drop_replicas(state: State, wanted: int, forced: dict[int, Indexes]) -> None:
    """Remove the replicas above the wanted number: those that must leave first, then as the rack rule asks.

    Of the others the leader stays, in-sync replicas stay, and the fullest broker loses its replica.
    """
    for partition, replicas in enumerate(state.before):
        if len(replicas) <= wanted or not state.rules.movable[partition]:
            continue
        left = list(replicas)
        while len(left) > wanted and not state.rules.excluded.issuperset(left):
            left.remove(_least_harm(state, partition, left, wanted, forced.get(partition, ())))
        state.put(partition, tuple(left))


def _least_harm(state: State, partition: int, left: list[int], wanted: int, leaving: Indexes) -> int:
    """Return the replica to remove."""
    rule, leader, in_sync = state.rules.racks, state.layout.leader[partition], state.layout.isr[partition]

    def harm(broker: int) -> tuple[int, ...]:
        rest = [each for each in left if each != broker]
        over = rule.overflow(rest, wanted)
        return broker not in leaving, over, broker == leader, broker in in_sync, -state.fill(broker), broker

    return min((each for each in left if each not in state.rules.excluded), key=harm)


def add_replicas(state: State, wanted: int) -> Failures:
    """Add replicas up to the wanted number on the emptiest brokers that the rack rule allows."""
    failures: Failures = {}
    rule = state.rules.racks
    for partition, replicas in enumerate(state.before):
        if len(replicas) >= wanted or not state.rules.movable[partition]:
            continue
        while len(state.target[partition]) < wanted:
            target = state.target[partition]
            now = rule.overflow(target, wanted)
            racks = [rack for rack in range(rule.racks) if rule.worst(target, rack, wanted) <= now]
            destination = state.destination(partition, racks if rule.racks else [-1])
            if destination is None or not state.within_budget(partition):
                reason = NO_TARGET if destination is None else BUDGET
                failures.setdefault(reason, []).extend([partition] * (wanted - len(target)))
                break
            state.put(partition, (*target, destination))
    return failures
