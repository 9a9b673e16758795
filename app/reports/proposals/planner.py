"""Makes a proposal from a layout and options: a pure function, so that the same input gives the same plan.

1. Derive the rules: takers, replicas that must leave, bands (`rules`).
2. Refuse if no plan can be made.
3. Place what must move (`repair`), then bring the brokers into their bands (`balance`).
4. On a small cluster reduce the moves to the fewest possible (`exact`).
5. Swap replicas within racks until the bytes are even (`swaps`).
6. Distribute the leaders without moving data (`leaders`) and put each first in its replicas.
7. State the numbers before and after, the lower bound, and what is left.
"""

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import compress
from operator import is_not, ne, not_

from app.reports.proposals.balance import balance, outside
from app.reports.proposals.bounds import leader_bound, move_bound
from app.reports.proposals.exact import reduce_moves
from app.reports.proposals.layout import Indexes, Layout
from app.reports.proposals.leaders import LeaderPlan, balanced_leaders
from app.reports.proposals.numbers import bytes_after, bytes_per_broker, crowded_partitions, numbers_of
from app.reports.proposals.options import BALANCE, BYTES, EXPAND, LEADERS, REPAIR, REPLICATION_FACTOR, Options
from app.reports.proposals.proposal import (
    BUDGET,
    EXAMPLES,
    EXCLUDED_TOPIC,
    IN_FLIGHT,
    NO_TARGET,
    OFFLINE,
    OUT_OF_BAND,
    TOO_FEW_BROKERS,
    UNEVEN_BYTES,
    Change,
    Proposal,
    Unsolved,
)
from app.reports.proposals.refusals import refusals
from app.reports.proposals.repair import Failures, add_replicas, drop_replicas, forced_replicas, repair
from app.reports.proposals.rules import rules_of
from app.reports.proposals.state import State
from app.reports.proposals.swaps import ByteBalance, unknown_sizes


def propose(layout: Layout, options: Options, *, exact: bool = True) -> Proposal:
    """Return the plan for `layout`. Takes about 4 s per million partitions with three replicas.

    `exact`: reduce the moves on a small cluster to the fewest.
    """
    with _uncollected():
        return _proposed(layout, options, exact=exact)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Pause the garbage collector: a plan makes no cycles, and looking for some took 0.5 s per million partitions."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _proposed(layout: Layout, options: Options, *, exact: bool) -> Proposal:
    before = layout.targets()
    rules = rules_of(layout, options, before)
    state = State(layout, options, rules, before)
    refused = tuple(refusals(layout, options, rules, unknown_sizes(state) if BYTES in options.goals else ()))
    if refused:
        return Proposal(options=options, offset=layout.offset, epoch=layout.epoch, refused=refused)
    crowded, forced = crowded_partitions(before, rules), forced_replicas(state)
    failures = _move_data(state, forced, crowded)
    perfect = not failures and not outside(state) and state.moves == move_bound(state, forced, crowded)
    proven = perfect or (exact and reduce_moves(state, forced, crowded))
    held = bytes_per_broker(layout, before)
    balanced = _even_bytes(state, failures, held) if BYTES in options.goals else None
    leaders = _leaders(state)
    final = _ordered(state, leaders.leaders) if LEADERS in options.goals else state.target
    crowded_after = {each: moves for each, moves in crowded.items() if each not in state.changed}
    crowded_after |= crowded_partitions(state.target, rules, state.changed)
    bound = move_bound(state, forced, crowded)
    changes = tuple(
        _change(layout, partition, final[partition], leaders.leaders[partition]) for partition in _changed(state, final)
    )
    return Proposal(
        options=options,
        offset=layout.offset,
        epoch=layout.epoch,
        changes=changes,
        elections=_elections(state, final, leaders) if LEADERS in options.goals else (),
        moves=state.moves,
        bytes=state.bytes if layout.sizes is not None else None,
        moves_of_unknown_size=sum(len(each.added) for each in changes if each.size_bytes is None),
        bound=bound,
        exact=state.moves == bound or (proven and not (balanced and balanced.swaps)),
        leader_changes=leaders.changes,
        leader_bound=leader_bound(state, leaders) if LEADERS in options.goals else 0,
        leader_optimum=leaders.optimum if LEADERS in options.goals else None,
        before=numbers_of(layout, rules, before, layout.leader, state.start_count, crowded, held),
        after=numbers_of(
            layout, rules, final, leaders.leaders, state.count, crowded_after, held and bytes_after(state, held)
        ),
        unsolved=tuple(_unsolved(state, forced, crowded, failures, balanced.outside() if balanced else [])),
        swaps=balanced.swaps if balanced else 0,
        byte_shares=balanced.shares() if balanced else (),
    )


def _move_data(state: State, forced: dict[int, Indexes], crowded: dict[int, int]) -> Failures:
    """Make all moves of replicas. Return the partitions whose replicas could not be placed, by reason."""
    options, movable = state.options, state.rules.movable
    wanted = options.replication_factor if REPLICATION_FACTOR in options.goals else None
    must = {partition: brokers for partition, brokers in forced.items() if movable[partition]}
    if wanted is not None:
        drop_replicas(state, wanted, must)
    mend = [each for each in crowded if movable[each]] if REPAIR in options.goals else []
    failures = repair(state, must, mend)
    if wanted is not None:
        for reason, partitions in add_replicas(state, wanted).items():
            failures.setdefault(reason, []).extend(partitions)
    if options.goals & {BALANCE, EXPAND} and not balance(state):
        failures.setdefault(BUDGET, [])
    return failures


def _even_bytes(state: State, failures: Failures, held: list[int] | None) -> ByteBalance:
    """Make the swaps, and note whether the budget allowed all of them. `held`: bytes by broker before all moves."""
    balanced = ByteBalance(state, held or [0] * len(state.count))
    balanced.even_out()
    if not balanced.within_budget:
        failures.setdefault(BUDGET, [])
    return balanced


def _leaders(state: State) -> LeaderPlan:
    """Return the leaders after the moves: the best distribution if that is a goal, else the present ones."""
    layout, target, movable = state.layout, state.target, state.rules.movable
    if LEADERS not in state.options.goals:
        led = list(layout.leader)
        for partition in state.changed:
            if led[partition] not in target[partition]:
                led[partition] = target[partition][0]
        changes = sum(now != then for now, then in zip(led, layout.leader, strict=True))
        return LeaderPlan(led, 0, 0, (), changes)
    candidates, start = list(target), layout.leader
    away = frozenset(index for index, broker in enumerate(layout.brokers) if not broker.active)
    lost = layout.lost
    if away or lost:
        for partition, replicas in enumerate(candidates):
            if partition in lost or not away.isdisjoint(replicas):
                gone = away.union(lost.get(partition, ()))
                online = tuple(broker for broker in replicas if broker not in gone)
                candidates[partition] = online or tuple(broker for broker in replicas if broker == start[partition])
    for partition in compress(range(len(movable)), map(not_, movable)):
        candidates[partition] = (start[partition],) if start[partition] >= 0 else ()
    return balanced_leaders(candidates, start, len(layout.brokers), state.options.tolerance_percent)


def _ordered(state: State, leaders: list[int]) -> list[Indexes]:
    """Return the targets with the leader of each movable partition first."""
    final = list(state.target)
    movable = state.rules.movable
    firsts = [replicas[0] if replicas else -1 for replicas in final]
    for partition in compress(range(len(leaders)), map(ne, leaders, firsts)):
        leader, replicas = leaders[partition], final[partition]
        if leader >= 0 and movable[partition]:
            final[partition] = (leader, *(broker for broker in replicas if broker != leader))
    return final


def _changed(state: State, final: list[Indexes]) -> list[int]:
    before = state.before
    touched = compress(range(len(final)), map(is_not, before, final))
    return [partition for partition in touched if before[partition] != final[partition]]


def _change(layout: Layout, partition: int, proposed: Indexes, new_leader: int) -> Change:
    topic = layout.topics[layout.topic_of[partition]]
    ids = layout.ids
    led = layout.leader[partition]
    return Change(
        topic.name,
        topic.topic_id,
        layout.number[partition],
        ids(layout.replicas[partition]),
        ids(proposed),
        layout.brokers[led].broker_id if led >= 0 else -1,
        layout.brokers[new_leader].broker_id if new_leader >= 0 else -1,
        layout.sizes[partition] if layout.sizes is not None else None,
    )


def _elections(state: State, final: list[Indexes], leaders: LeaderPlan) -> tuple[tuple[str, int], ...]:
    """Return the partitions whose leader changes to the first of their replicas."""
    return tuple(
        state.layout.key(partition)
        for partition in compress(range(len(final)), map(ne, leaders.leaders, state.layout.leader))
        if final[partition][:1] == (leaders.leaders[partition],)
    )


def _left(state: State, forced: dict[int, Indexes], partition: int) -> int:
    """Return how many replicas of a partition are still missing or where they must not be."""
    options, target = state.options, state.target[partition]
    wanted = options.replication_factor if REPLICATION_FACTOR in options.goals else None
    rf = len(target) if wanted is None else wanted
    kept = [broker for broker in target if broker not in forced.get(partition, ())]
    return max(0, rf - len(kept) + (state.rules.racks.overflow(kept, rf) if REPAIR in options.goals else 0))


def _unsolved(
    state: State, forced: dict[int, Indexes], crowded: dict[int, int], failures: Failures, uneven: list[int]
) -> Iterable[Unsolved]:
    """Return what the plan leaves as it is, by reason."""
    layout, rules = state.layout, state.rules
    hosts = len(layout.brokers) - len(rules.leaving | rules.left)
    in_flight = layout.in_flight()
    offline = [each for each in compress(range(len(layout)), map((-1).__eq__, layout.leader)) if each not in in_flight]
    scope = state.options.partitions
    needy = sorted(
        each for each in {*forced, *crowded} if not rules.movable[each] and (scope is None or layout.key(each) in scope)
    )
    skip = {*in_flight, *offline}
    by_reason = {
        IN_FLIGHT: sorted(in_flight),
        OFFLINE: offline,
        EXCLUDED_TOPIC: [each for each in needy if each not in skip],
        TOO_FEW_BROKERS: [],
    }
    for reason, partitions in failures.items():
        if not partitions:
            by_reason[reason] = []  # the budget ended the plan, and no partition is known to need more
        for partition in partitions if reason == BUDGET else sorted(set(partitions)):
            few = reason == NO_TARGET and len(state.before[partition]) > hosts
            times = 1 if reason == BUDGET else _left(state, forced, partition)
            by_reason.setdefault(TOO_FEW_BROKERS if few else reason, []).extend([partition] * times)
    for reason, partitions in by_reason.items():
        if partitions or reason in failures:
            examples = dict.fromkeys(partitions)
            yield Unsolved(reason, len(partitions), tuple(layout.key(each) for each in [*examples][:EXAMPLES]))
    away = outside(state)
    if away:
        yield Unsolved(OUT_OF_BAND, sum(away.values()), brokers=layout.ids(sorted(away)))
    if uneven:
        yield Unsolved(UNEVEN_BYTES, len(uneven), brokers=layout.ids(sorted(uneven)))
