"""Each goal of a proposal on layouts that are worked by hand."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from app.reports.proposals.layout import Layout, layout_from_image
from app.reports.proposals.options import (
    BALANCE,
    DRAIN,
    EXPAND,
    LEADERS,
    MOVE,
    REPAIR,
    REPLICATION_FACTOR,
    InvalidOptionsError,
    Options,
)
from app.reports.proposals.planner import propose
from app.reports.proposals.proposal import BUDGET, IN_FLIGHT, NO_TARGET, OFFLINE, Proposal
from kraft_core.image.metadata_image import BrokerRegistration, PartitionRegistration
from tests.app.reports.clusters import broker, directory, image, partition

SIX = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}


def brokers(racks: dict[int, str | None], **changed: dict[str, Any]) -> list[BrokerRegistration]:
    return [broker(each, rack, **changed.get(f"b{each}", {})) for each, rack in racks.items()]


def layout_of(
    racks: dict[int, Any], topics: dict[str, list[PartitionRegistration]], size: int = 0, **changed: dict[str, Any]
) -> Layout:
    """A layout with these racks by broker id; `b3={"fenced": True}` changes broker 3; `size` of every replica."""
    metadata = image(brokers(racks, **changed), topics)
    sizes = {(each.id, number): size for each in metadata.topics.by_id.values() for number in range(20)}
    return layout_from_image(metadata, sizes if size else None)


def plan(layout: Layout, *goals: str, **options: Any) -> Proposal:
    return propose(layout, Options(goals=frozenset(goals), **options))


def proposed(proposal: Proposal) -> dict[tuple[str, int], tuple[int, ...]]:
    return {(each.topic, each.partition): each.proposed for each in proposal.changes}


def reasons(proposal: Proposal) -> dict[str, int]:
    return {each.reason: each.count for each in proposal.unsolved}


def test_repair_spreads_a_partition_over_the_racks_with_one_move() -> None:
    layout = layout_of(SIX, {"t": [partition("1 2 3", leader=1), partition("1 3 5")]})
    found = plan(layout, REPAIR)
    # replica 2 leaves rack a, since 1 leads; rack c has no replica of it, and broker 6 is empty
    assert proposed(found) == {("t", 0): (1, 6, 3)}
    assert (found.moves, found.bound, found.exact, found.unsolved) == (1, 1, True, ())
    assert (found.before.rack_moves, found.after.rack_moves) == (1, 0)


def test_repair_replaces_replicas_on_fenced_and_unregistered_brokers_and_in_lost_directories() -> None:
    moved = {"directories": (UUID(int=77),)}
    topics = {"t": [partition("3 1 5", isr="1 5"), partition("1 9", isr="1"), partition("5 1", isr="1", leader=1)]}
    found = plan(layout_of(SIX, topics, b3={"fenced": True}, b5=moved), REPAIR)
    assert (found.before.offline_replicas, found.after.offline_replicas) == (4, 0)
    assert (found.moves, found.bound) == (4, 4)
    assert proposed(found)["t", 0] == (4, 1, 6)  # each within its rack, so that the rule holds


def test_repair_leaves_replicas_on_a_broker_that_is_shutting_down() -> None:
    found = plan(layout_of(SIX, {"t": [partition("1 3 5")]}, b3={"in_controlled_shutdown": True}), REPAIR)
    assert found.changes == ()


def test_repair_never_breaks_the_rack_rule_when_a_whole_rack_is_fenced() -> None:
    found = plan(layout_of(SIX, {"t": [partition("1 3 5")]}, b5={"fenced": True}, b6={"fenced": True}), REPAIR)
    assert found.changes == ()
    assert reasons(found) == {NO_TARGET: 1}
    assert found.unsolved[0].examples == (("t", 0),)


def test_balance_moves_only_what_is_above_the_bands() -> None:
    four = dict.fromkeys((1, 2, 3, 4))
    layout = layout_of(four, {"t": [partition("1 2") for _ in range(6)]})
    found = plan(layout, BALANCE, tolerance_percent=0)
    # 12 replicas over 4 brokers: 3 each; brokers 1 and 2 have 6
    assert (found.moves, found.bound) == (6, 6)
    assert [row.replicas for row in found.after.brokers] == [3, 3, 3, 3]
    assert plan(layout, BALANCE, tolerance_percent=34).moves == 2  # bands from 1 to 5


def test_balance_of_racks_that_cannot_be_even_moves_nothing() -> None:
    racks = {1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
    layout = layout_of(racks, {"t": [partition("1 2 4"), partition("1 3 5")]})
    assert plan(layout, BALANCE, tolerance_percent=0).moves == 0


def test_leaders_are_spread_without_moving_data() -> None:
    layout = layout_of(SIX, {"t": [partition("1 3 5"), partition("1 4 6"), partition("1 3 6"), partition("3 1 5")]})
    found = plan(layout, LEADERS)
    assert (found.moves, found.leader_optimum, found.after.max_leaders) == (0, 1, 1)
    assert (found.leader_changes, found.leader_bound) == (2, 2)
    assert found.after.non_preferred == 0
    assert all(sorted(each.current) == sorted(each.proposed) for each in found.changes)
    assert set(found.elections) <= {("t", number) for number in range(4)}
    assert len(found.elections) == 2


def test_leaders_on_their_way_back_need_an_election_and_no_new_order() -> None:
    layout = layout_of(SIX, {"t": [partition("1 3 5", leader=3), partition("3 1 5")]})
    found = plan(layout, LEADERS)
    assert found.changes == ()
    assert found.elections == (("t", 0),)


def test_the_tolerance_spares_leaders_that_are_nearly_even() -> None:
    topics = {"t": [*[partition("1 2")] * 52, *[partition("2 1")] * 48]}
    layout = layout_of({1: None, 2: None}, topics)
    assert plan(layout, LEADERS).leader_changes == 0  # 52 of 100 is within 5 % of 50
    exact = plan(layout, LEADERS, tolerance_percent=0)
    assert (exact.leader_changes, exact.leader_bound, exact.after.max_leaders, exact.leader_optimum) == (2, 2, 50, 50)


def test_drain_empties_brokers_and_keeps_the_racks() -> None:
    layout = layout_of(SIX, {"t": [partition("1 3 5"), partition("2 4 6"), partition("1 4 6")]})
    found = plan(layout, DRAIN, drain_brokers=frozenset({1}))
    assert proposed(found) == {("t", 0): (2, 3, 5), ("t", 2): (2, 4, 6)}
    assert (found.moves, found.bound) == (2, 2)
    assert found.after.rack_moves == 0


def test_drain_of_a_rack_spreads_over_the_others() -> None:
    layout = layout_of(SIX, {"t": [partition("1 3"), partition("1 5"), partition("3 5")]})
    found = plan(layout, DRAIN, drain_racks=frozenset({"a"}))
    assert {row.replicas for row in found.after.brokers if row.rack == "a"} == {0}
    assert proposed(found) == {("t", 0): (6, 3), ("t", 1): (4, 5)}


def test_drained_replicas_move_off_their_broker_which_gets_none() -> None:
    layout = layout_of(SIX, {"t": [partition("1 3"), partition("1 3"), partition("2 3")]})
    found = plan(layout, DRAIN, drain_replicas=frozenset({("t", 1, 1)}))
    assert proposed(found) == {("t", 1): (5, 3)}
    found = plan(layout, DRAIN, drain_replicas=frozenset({("t", 1, 1), ("t", 2, 2)}))
    assert {broker for each in found.changes for broker in each.added}.isdisjoint({1, 2})


def test_drain_is_refused_when_too_few_brokers_would_be_left() -> None:
    found = plan(layout_of({1: None, 2: None}, {"t": [partition("1 2")]}), DRAIN, drain_brokers=frozenset({2}))
    assert found.refused == ("Partition t-0 has 2 replicas, and only 1 brokers would be left to hold them.",)
    assert found.changes == ()


def test_expand_moves_to_the_new_brokers_only() -> None:
    racks = {1: None, 2: None, 3: None, 4: None}
    layout = layout_of(racks, {"t": [partition("1 2"), partition("2 3"), partition("3 1"), partition("1 2")]})
    found = plan(layout, EXPAND, tolerance_percent=0)
    assert [row.replicas for row in found.after.brokers] == [2, 2, 2, 2]
    assert (found.moves, found.bound) == (2, 2)
    assert {broker for each in found.changes for broker in each.added} == {4}


def test_the_replication_factor_rises_in_the_racks_that_have_no_replica() -> None:
    layout = layout_of(SIX, {"t": [partition("1 3"), partition("3 1")], "other": [partition("5")]})
    found = plan(layout, REPLICATION_FACTOR, replication_factor=3, topics=frozenset({"t"}))
    assert proposed(found) == {("t", 0): (1, 3, 6), ("t", 1): (3, 1, 5)}
    assert (found.moves, found.bound) == (2, 2)


def test_the_replication_factor_falls_without_copies_and_keeps_leaders() -> None:
    layout = layout_of(SIX, {"t": [partition("1 2 3", leader=2), partition("1 3 5", isr="1 5")]})
    found = plan(layout, REPLICATION_FACTOR, replication_factor=2)
    assert proposed(found) == {("t", 0): (2, 3), ("t", 1): (1, 5)}
    assert found.moves == 0


def test_a_partition_in_flight_or_without_leader_is_left_alone_and_stated() -> None:
    topics = {"t": [partition("1 2 3", adding="3", removing="1"), partition("1 2", isr="", leader=-1)]}
    found = plan(layout_of(SIX, topics), REPAIR)
    assert found.changes == ()
    assert reasons(found) == {IN_FLIGHT: 1, OFFLINE: 1}


def test_a_budget_mends_the_worst_partitions_first() -> None:
    topics = {"t": [partition("1 3 5"), partition("1 3 5", isr="3 5"), partition("1 3 5", isr="5")]}
    layout = layout_of(SIX, topics, size=10, b1={"fenced": True})
    found = plan(layout, REPAIR, max_bytes=20)
    assert sorted(proposed(found)) == [("t", 1), ("t", 2)]
    assert (found.moves, found.bytes, reasons(found)) == (2, 20, {BUDGET: 1})


@pytest.mark.parametrize(
    "state", [{"fenced": True}, {"in_controlled_shutdown": True}, {"cordoned_directories": (directory(2),)}]
)
def test_a_broker_that_must_not_take_replicas_is_never_a_target(state: dict[str, Any]) -> None:
    layout = layout_of(SIX, {"t": [partition("1 3 5")]}, b2=state)
    found = plan(layout, DRAIN, drain_brokers=frozenset({1}))
    assert found.changes == ()
    assert reasons(found) == {NO_TARGET: 1}


def test_an_excluded_broker_keeps_its_replicas_and_gets_none() -> None:
    three = {1: None, 2: None, 3: None, 4: None}
    layout = layout_of(three, {"t": [partition("1"), partition("1"), partition("1"), partition("2")]})
    found = plan(layout, BALANCE, tolerance_percent=0, exclude_brokers=frozenset({2, 4}))
    assert [row.replicas for row in found.after.brokers] == [2, 1, 1, 0]


@pytest.mark.parametrize(
    ("full", "after", "moves"),
    [
        # 12 replicas over 3 brokers: 4 each
        ({1}, [4, 4, 4], 4),
        ({2}, [4, 4, 4], 4),
        ({3}, [6, 6, 0], 2),  # it has too few and can get none, so the other two share all 12
        ({1, 3}, [6, 6, 0], 2),
        ({1, 2}, [4, 4, 4], 4),
        ({2, 3}, [8, 4, 0], 0),  # nor can broker 2 get any: nothing that is left could be better
    ],
)
def test_a_full_broker_gives_what_is_above_its_share_and_gets_nothing(
    full: set[int], after: list[int], moves: int
) -> None:
    topic = [*([partition("1")] * 8), *([partition("2")] * 4)]
    layout = with_full(layout_of(dict.fromkeys((1, 2, 3)), {"t": topic}), full)
    found = plan(layout, BALANCE, tolerance_percent=0)
    assert [row.replicas for row in found.after.brokers] == after
    assert (found.moves, found.bound, found.exact) == (moves, moves, True)


def with_full(layout: Layout, full: set[int]) -> Layout:
    """The layout with these brokers full."""
    rows = tuple(replace(each, free_bytes=0) if each.broker_id in full else each for each in layout.brokers)
    return replace(layout, brokers=rows)


def test_a_drained_broker_and_a_new_one_leave_full_brokers_out() -> None:
    layout = with_full(layout_of(dict.fromkeys((1, 2, 3, 4)), {"t": [partition("1 2")] * 6}), {1, 3})
    drained = plan(layout, DRAIN, drain_brokers=frozenset({1}))
    assert [row.replicas for row in drained.after.brokers] == [0, 6, 0, 6]
    expanded = plan(layout, EXPAND, tolerance_percent=0)
    # broker 3 has nothing and can get nothing: brokers 1, 2 and 4 share 12
    assert [row.replicas for row in expanded.after.brokers] == [4, 4, 0, 4]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"goals": frozenset({"tidy"})}, "goal 'tidy' is unknown"),
        ({"goals": frozenset({DRAIN})}, "needs brokers"),
        ({"tolerance_percent": 101}, "tolerance_percent is 101; allowed: 0 to 100"),
        ({"max_moves": -1}, "max_moves is -1"),
        ({"goals": frozenset({REPLICATION_FACTOR}), "replication_factor": 64}, "64 is out of range"),
        ({"goals": frozenset({EXPAND, BALANCE})}, "exclude each other"),
    ],
)
def test_wrong_options_are_refused_with_the_value(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidOptionsError, match=text):
        Options(**options)


def test_names_that_are_not_in_the_cluster_are_refused() -> None:
    layout = layout_of(SIX, {"t": [partition("1 3 5")]})
    assert plan(layout, DRAIN, drain_brokers=frozenset({70})).refused == ("Broker 70 is not in the cluster.",)
    assert plan(layout, DRAIN, drain_racks=frozenset({"z"})).refused == ("No broker is in rack 'z'.",)
    assert plan(layout, REPAIR, topics=frozenset({"x"})).refused == ("Topic 'x' does not exist.",)


def test_move_takes_the_partitions_in_scope_to_the_targets_and_no_other_and_keeps_replicas_there() -> None:
    topics = {"t": [partition("1 3 5"), partition("2 4 6")], "u": [partition("1 3 5")]}
    found = plan(layout_of(SIX, topics), MOVE, target_brokers=frozenset({1, 4, 6}), topics=frozenset({"t"}))
    assert proposed(found) == {("t", 0): (1, 4, 6), ("t", 1): (1, 4, 6)}
    assert (found.moves, found.bound, found.exact, found.unsolved) == (3, 3, True, ())
    one = plan(layout_of(SIX, topics), MOVE, target_brokers=frozenset({2, 4, 6}), partitions=frozenset({("u", 0)}))
    assert proposed(one) == {("u", 0): (2, 4, 6)}


def test_move_goes_into_one_rack_when_all_targets_are_there_and_spreads_over_them() -> None:
    topics = {"t": [partition("1"), partition("1"), partition("3"), partition("3")]}
    found = plan(layout_of(SIX, topics), MOVE, target_brokers=frozenset({5, 6}))
    assert sorted(each[0] for each in proposed(found).values()) == [5, 5, 6, 6]


def test_move_is_refused_with_too_few_targets_and_leaves_what_no_target_may_take() -> None:
    topics = {"t": [partition("1 3 5")]}
    refused = plan(layout_of(SIX, topics), MOVE, target_brokers=frozenset({1, 2}))
    assert refused.refused == ("Partition t-0 has 3 replicas, and only 2 brokers would be left to hold them.",)
    assert plan(layout_of(SIX, topics), MOVE, target_brokers=frozenset({9})).refused[0] == (
        "Broker 9 is not in the cluster."
    )
    fenced = layout_of(SIX, {"t": [partition("1")]}, b5={"fenced": True})
    assert plan(fenced, MOVE, target_brokers=frozenset({5})).refused != ()
    unknown = plan(layout_of(SIX, topics), REPAIR, partitions=frozenset({("t", 7)}))
    assert unknown.refused == ("Partition t-7 does not exist.",)


@pytest.mark.parametrize(
    "options",
    [
        {"goals": frozenset({MOVE})},
        {"goals": frozenset({REPAIR}), "target_brokers": frozenset({1})},
        {"goals": frozenset({MOVE, BALANCE}), "target_brokers": frozenset({1})},
    ],
)
def test_move_and_targets_go_together_and_with_leaders_only(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionsError):
        Options(**options)
