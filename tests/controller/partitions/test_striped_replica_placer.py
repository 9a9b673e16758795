"""Placement over racks and brokers; fenced brokers come last and never lead. After StripedReplicaPlacerTest."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_core.controller.partitions.striped_replica_placer import RackList, StripedReplicaPlacer, UsableBroker
from kraft_core.protocol.errors import ErrorCode, KafkaError


class NoRandom(Random):
    """A generator that returns 0 and does not shuffle, so that placements are predictable."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 0

    def shuffle(self, x: object) -> None:
        pass


def brokers(*layout: tuple[int, str | None] | tuple[int, str | None, bool]) -> list[UsableBroker]:
    return [UsableBroker(each[0], each[1], len(each) > 2 and bool(each[2])) for each in layout]


def place(partitions: int, factor: int, usable: list[UsableBroker]) -> list[tuple[int, ...]]:
    return StripedReplicaPlacer(NoRandom()).place(partitions, factor, usable)


def test_racks_and_their_brokers_rotate() -> None:
    usable = brokers(*[(rack * 10 + number, "ABC"[rack]) for rack in range(3) for number in range(3)])
    assert place(3, 3, usable) == [(0, 10, 20), (11, 21, 1), (22, 2, 12)]


def test_the_brokers_of_one_rack_rotate() -> None:
    assert place(5, 3, brokers((3, None), (1, None), (0, None), (4, None), (2, None))) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
    ]


def test_a_fenced_broker_comes_after_all_unfenced_ones_of_its_rack_and_never_leads() -> None:
    usable = brokers((0, "A", True), (1, "A"), (2, "B"), (3, "B", True))
    placed = place(20, 2, usable)
    assert {replicas[0] for replicas in placed} == {1, 2}
    assert {0, 3}.isdisjoint({replica for replicas in placed for replica in replicas})
    assert all(set(replicas) == {0, 1, 2, 3} for replicas in place(4, 4, usable))


def test_a_rack_of_fenced_brokers_provides_no_leader() -> None:
    assert place(3, 2, brokers((0, "A", True), (1, "B"))) == [(1, 0), (1, 0), (1, 0)]


def test_brokers_without_rack_form_a_rack_before_the_named_ones() -> None:
    assert place(1, 3, brokers((1, "B"), (2, None), (3, "A"))) == [(2, 3, 1)]


def test_a_larger_rack_gives_its_further_brokers_last() -> None:
    assert place(1, 4, brokers((0, "A"), (1, "A"), (2, "A"), (10, "B"))) == [(0, 10, 1, 2)]


@pytest.mark.parametrize(
    ("factor", "usable", "text"),
    [
        (0, brokers((0, None)), "the replication factor must be positive"),
        (-1, brokers((0, None)), "the replication factor must be positive"),
        (1, [], "All brokers are currently fenced"),
        (1, brokers((0, None, True)), "All brokers are currently fenced"),
        (3, brokers((0, None), (1, None)), "because only 2 broker(s) are registered"),
    ],
)
def test_impossible_placements_are_refused(factor: int, usable: list[UsableBroker], text: str) -> None:
    with pytest.raises(KafkaError) as raised:
        place(1, factor, usable)
    assert raised.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert text in raised.value.message


def test_leaders_and_replicas_are_spread_evenly() -> None:
    usable = brokers(*[(number, f"rack-{number % 3}") for number in range(6)])
    placed = StripedReplicaPlacer(Random(7)).place(600, 3, usable)
    leaders = Counter(replicas[0] for replicas in placed)
    replicas = Counter(replica for each in placed for replica in each)
    assert set(leaders.values()) == {100}
    assert max(replicas.values()) - min(replicas.values()) <= 30


def test_the_pairs_of_brokers_vary() -> None:
    usable = brokers(*[(number, None) for number in range(4)])
    placed = StripedReplicaPlacer(Random(3)).place(400, 2, usable)
    assert len(set(placed)) == 12  # every ordered pair


def test_a_single_unfenced_broker_leads_every_partition() -> None:
    placed = place(50, 2, brokers((0, None), (1, None, True)))
    assert placed == [(0, 1)] * 50


def test_racks_are_counted_with_and_without_fenced_brokers() -> None:
    racks = RackList(NoRandom(), brokers((0, "A"), (1, "A", True), (2, "B", True)))
    assert (racks.total_broker_count, racks.unfenced_broker_count) == (3, 1)


@given(
    layout=st.lists(st.tuples(st.sampled_from([None, "A", "B", "C", "D"]), st.booleans()), min_size=1, max_size=12),
    factor=st.integers(1, 12),
    partitions=st.integers(1, 40),
    seed=st.integers(0, 2**32),
)
def test_every_placement_obeys_the_rules(
    layout: list[tuple[str | None, bool]], factor: int, partitions: int, seed: int
) -> None:
    usable = [UsableBroker(index, rack, fenced) for index, (rack, fenced) in enumerate(layout)]
    unfenced = {broker.id for broker in usable if not broker.fenced}
    placer = StripedReplicaPlacer(Random(seed))
    if not unfenced or factor > len(usable):
        with pytest.raises(KafkaError):
            placer.place(partitions, factor, usable)
        return
    rack_of = {broker.id: broker.rack for broker in usable}
    racks = set(rack_of.values())
    placed = placer.place(partitions, factor, usable)
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == factor == len(replicas)
        assert replicas[0] in unfenced
        assert set(replicas) <= set(rack_of)
        assert len({rack_of[replica] for replica in replicas}) >= min(factor, len(racks))
