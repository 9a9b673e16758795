"""The quality of plans on random clusters: never below the bound, near the exact minimum, and true to their numbers."""

from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array, vstack

from app.reports.leaders import ListedGroups, leader_optimum
from app.reports.proposals.layout import Layout, layout_from_image
from app.reports.proposals.leaders import balanced_leaders
from app.reports.proposals.options import (
    BALANCE,
    DEFAULT_GOALS,
    DRAIN,
    EXPAND,
    REPAIR,
    REPLICATION_FACTOR,
    Options,
)
from app.reports.proposals.planner import propose
from app.reports.proposals.proposal import Proposal
from tests.app.reports.clusters import random_image
from tests.app.reports.proposals.clusters import (
    applied,
    counted,
    crowded_layout,
    rack_limits,
    violated,
    with_full_disks,
)

CLUSTERS = 1_000
ORACLE_CLUSTERS = 100
FULL_CLUSTERS = 60
BAND, RULE = 1_000, 1_000_000


def tolerance(seed: int) -> Options:
    return Options(tolerance_percent=0 if seed % 2 else 5)


def left_over(proposal: Proposal) -> tuple[int, int]:
    after = proposal.after
    return after.rack_moves + after.offline_replicas, after.excess + after.deficit


def check_leaders(layout: Layout, proposal: Proposal) -> None:
    """No distribution has a lower maximum, since some brokers are the only ones that can lead so many partitions."""
    online = [[each for each in replicas if layout.brokers[each].active] for replicas in layout.targets()]
    plan = balanced_leaders(online, layout.leader, len(layout.brokers))
    groups = [(tuple(each), leader) for each, leader in zip(online, layout.leader, strict=True) if each]
    loads = [sum(leader == broker for _, leader in groups) for broker in range(len(layout.brokers))]
    if all(leader in each for each, leader in groups):  # the report leaves no such leader out, and counts no other
        alike = Counter((leader, tuple(sorted(each))) for each, leader in groups)
        listed = ListedGroups([(*key, count) for key, count in alike.items()])
        by_leader = leader_optimum(loads, set(chain.from_iterable(online)), listed)
        assert by_leader.maximum == plan.optimum
    together = sum(bool(each) and set(each) <= set(plan.certificate) for each in online)
    assert plan.optimum == -(-together // len(plan.certificate))
    led = Counter(leader for leader in plan.leaders if leader >= 0)
    assert max(led.values()) == plan.optimum
    assert all(leader in each or not each for leader, each in zip(plan.leaders, online, strict=True))
    assert proposal.after.max_leaders <= proposal.leader_optimum
    assert proposal.leader_bound <= proposal.leader_changes


def check_numbers(layout: Layout, proposal: Proposal) -> None:
    """The plan, applied to the layout, gives the stated numbers."""
    for state, numbers in ((layout, proposal.before), (applied(layout, proposal), proposal.after)):
        for name, values in counted(state).items():
            assert [getattr(row, name) for row in numbers.brokers] == values
        assert numbers.non_preferred == sum(
            replicas[0] != leader for replicas, leader in zip(state.targets(), state.leader, strict=True)
        )
        if layout.brokers[0].rack:
            assert numbers.rack_violated == violated(state)
    moved = sum(len(set(each.proposed) - set(each.current)) for each in proposal.changes)
    assert moved == proposal.moves


def test_a_thousand_plans_are_between_the_bound_and_three_percent_above_the_exact_minimum() -> None:
    greedy_total = exact_total = 0
    for seed in range(CLUSTERS):
        layout, options = crowded_layout(seed), tolerance(seed)
        greedy, exact = propose(layout, options, exact=False), propose(layout, options)
        assert exact.exact
        assert left_over(greedy) == left_over(exact), seed
        assert greedy.bound <= exact.moves <= greedy.moves, seed
        assert exact.after.rack_violated == 0
        check_leaders(layout, greedy)
        check_numbers(layout, exact)
        greedy_total += greedy.moves
        exact_total += exact.moves
    assert exact_total <= greedy_total <= 1.03 * exact_total


class Oracle:
    """The fewest moves as a linear program: a network matrix, so its optimum is a whole number of replicas."""

    def __init__(self, layout: Layout, proposal: Proposal) -> None:
        self.layout = layout
        self.costs: list[int] = []
        self.entries: list[tuple[int, int, int]] = []
        self.limits: list[tuple[float, float]] = []
        places: dict[int, list[int]] = {each: [] for each in range(len(layout.brokers))}
        for replicas in layout.targets():
            self._partition(replicas, places)
        for index, row in enumerate(proposal.before.brokers):
            if row.low is not None:
                self._between(places[index], row.low, row.high, BAND)

    def _partition(self, replicas: tuple[int, ...], places: dict[int, list[int]]) -> None:
        racks: dict[str | None, list[int]] = {}
        for index, broker in enumerate(self.layout.brokers):
            if (broker.eligible and not broker.is_full) or index in replicas:
                leaves = index in replicas and not broker.eligible
                variable = self._variable(RULE if leaves else 0 if index in replicas else 1)
                places[index].append(variable)
                racks.setdefault(broker.rack, []).append(variable)
        self._row([(each, 1) for each in chain.from_iterable(racks.values())], len(replicas), len(replicas))
        for rack, (low, high) in rack_limits(self.layout, len(replicas)).items():
            self._between(racks.get(rack, []), low, high, RULE)

    def _variable(self, cost: int) -> int:
        self.costs.append(cost)
        return len(self.costs) - 1

    def _row(self, terms: list[tuple[int, int]], low: float, high: float) -> None:
        self.entries += [(len(self.limits), variable, factor) for variable, factor in terms]
        self.limits.append((low, high))

    def _between(self, variables: list[int], low: int, high: int, cost: int) -> None:
        terms = [(each, 1) for each in variables]
        self._row([*terms, (self._variable(cost), 1)], low, np.inf)
        self._row([*terms, (self._variable(cost), -1)], -np.inf, high)

    def cost(self) -> int:
        rows, columns, values = zip(*self.entries, strict=True)
        matrix = coo_array((values, (rows, columns)), shape=(len(self.limits), len(self.costs))).tocsr()
        low, high = (np.array(each) for each in zip(*self.limits, strict=True))
        upper, lower = high < np.inf, low > -np.inf
        bounds = [(0, 1 if cost <= 1 else None) for cost in self.costs]
        found = linprog(
            self.costs,
            A_ub=vstack([matrix[upper], -matrix[lower]]),
            b_ub=np.concatenate([high[upper], -low[lower]]),
            bounds=bounds,
            method="highs",
        )
        assert found.success
        return round(found.fun)


def test_the_exact_minimum_is_that_of_a_linear_program() -> None:
    for seed in range(ORACLE_CLUSTERS):
        layout = crowded_layout(seed)
        plan = propose(layout, tolerance(seed))
        rule, band = left_over(plan)
        assert plan.moves + BAND * band + RULE * rule == Oracle(layout, plan).cost(), seed


def test_full_brokers_give_replicas_away_and_get_none() -> None:
    greedy_total = exact_total = given = balanced = 0
    for seed in range(FULL_CLUSTERS):
        layout, options = with_full_disks(crowded_layout(seed), seed), tolerance(seed)
        full = {each.broker_id for each in layout.brokers if each.is_full}
        greedy, exact = propose(layout, options, exact=False), propose(layout, options)
        assert exact.exact, seed
        for plan in (greedy, exact):
            assert plan.bound <= plan.moves, seed
            assert not any(full.intersection(each.added) for each in plan.changes), seed
            check_numbers_of_any(layout, plan)
        assert left_over(exact) <= left_over(greedy), seed
        rule, band = left_over(exact)
        if left_over(greedy) == (rule, band):
            assert greedy.bound <= exact.moves <= greedy.moves, seed
            greedy_total, exact_total = greedy_total + greedy.moves, exact_total + exact.moves
        if not rule:  # otherwise the linear program counts a replica both where it is and where it should be
            assert exact.moves + BAND * band == Oracle(layout, exact).cost(), seed
        given += sum(len(full.intersection(each.removed)) for each in exact.changes)
        balanced += not rule and not band
    assert exact_total <= greedy_total <= 1.03 * exact_total
    assert (given > FULL_CLUSTERS, balanced > FULL_CLUSTERS // 2) == (True, True), (given, balanced)


GOALS: tuple[dict[str, Any], ...] = (
    {},
    {"goals": frozenset({REPAIR})},
    {"goals": frozenset({BALANCE}), "tolerance_percent": 0},
    {"goals": frozenset({DRAIN}), "drain_brokers": frozenset({1})},
    {"goals": DEFAULT_GOALS | {DRAIN}, "drain_brokers": frozenset({2}), "max_moves": 2},
    {"goals": frozenset({DRAIN, BALANCE}), "drain_racks": frozenset({"b"})},
    {"goals": frozenset({EXPAND}), "expand_brokers": frozenset({1})},
    {"goals": frozenset({REPLICATION_FACTOR}), "replication_factor": 2},
    {"goals": DEFAULT_GOALS | {REPLICATION_FACTOR}, "replication_factor": 3},
    {"exclude_brokers": frozenset({1}), "exclude_topics": frozenset({"t0"})},
)


@pytest.mark.parametrize("number", range(len(GOALS)))
def test_every_goal_obeys_the_rules_on_clusters_with_every_special_case(number: int) -> None:
    options = Options(**GOALS[number])
    for seed in range(120):
        layout = layout_from_image(random_image(seed))
        layout = with_full_disks(layout, seed) if seed % 3 == 0 else layout
        plan = propose(layout, options)
        assert plan == propose(replace(layout), options), "not deterministic"
        if plan.refused:
            assert (plan.changes, plan.elections) == ((), ())
            continue
        check_numbers_of_any(layout, plan)
        check_changes(layout, plan)


def check_changes(layout: Layout, plan: Proposal) -> None:
    brokers = {each.broker_id: each for each in layout.brokers}
    at = {layout.key(each): each for each in range(len(layout))}
    still = {*layout.in_flight(), *(each for each in range(len(layout)) if layout.leader[each] < 0)}
    options = plan.options
    for change in plan.changes:
        assert len(set(change.proposed)) == len(change.proposed) > 0
        assert at[change.topic, change.partition] not in still
        assert change.topic not in options.exclude_topics
        for taker in change.added:
            assert brokers[taker].eligible
            assert not brokers[taker].is_full
            assert taker not in options.drain_brokers | options.exclude_brokers
            assert brokers[taker].rack not in options.drain_racks
        assert not set(change.removed) & options.exclude_brokers
        if options.replication_factor is None:
            assert len(change.proposed) == len(change.current)
    assert plan.bound <= plan.moves
    assert plan.leader_bound <= plan.leader_changes
    if options.max_moves is not None:
        assert plan.moves <= options.max_moves
    if not options.goals & {DRAIN, REPLICATION_FACTOR}:
        assert plan.after.rack_moves <= plan.before.rack_moves


def check_numbers_of_any(layout: Layout, plan: Proposal) -> None:
    after = applied(layout, plan)
    assert [row.replicas for row in plan.after.brokers] == counted(after)["replicas"]
    assert [row.preferred for row in plan.after.brokers] == counted(after)["preferred"]
    offline = sum(len(set(after.offline_replicas(each)) & set(after.targets()[each])) for each in range(len(after)))
    assert plan.after.offline_replicas == offline
