"""What holds for every assignment: each partition has one owner, balance, stickiness, safe cooperative rebalances."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_core.clients.client_metadata import Node, PartitionInfo, TopicInfo, TopicPartition
from kraft_core.clients.consumer.assignors.assignor_instances import get_assignor_instances
from kraft_core.clients.consumer.assignors.consumer_partition_assignor import (
    Assignment,
    RebalanceProtocol,
    Subscription,
)
from kraft_core.clients.consumer.assignors.cooperative_sticky_assignor import CooperativeStickyAssignor
from kraft_core.clients.consumer.assignors.range_assignor import RangeAssignor
from kraft_core.clients.consumer.assignors.sticky_assignor import StickyAssignor
from kraft_core.configs.config_def import ConfigException
from tests.clients.consumer.groups import SomeCluster

Group = Mapping[str, tuple[str, ...]]
NAMES = ["range", "roundrobin", "sticky", "cooperative-sticky"]


def cluster(sizes: dict[str, int], replicas: Callable[[int], tuple[int, ...]] = lambda _index: (0,)) -> SomeCluster:
    """Topics of these sizes; broker n is in rack `rn`."""
    nodes = {index: Node(index, "host", 9092, f"r{index}") for index in range(3)}
    topics = {
        topic: TopicInfo(topic, partitions={index: PartitionInfo(0, replicas=replicas(index)) for index in range(size)})
        for topic, size in sizes.items()
    }
    return SomeCluster(nodes, topics)


def assign(
    name: str, sizes: dict[str, int], subscriptions: Mapping[str, Subscription]
) -> dict[str, list[TopicPartition]]:
    (assignor,) = get_assignor_instances([name])
    assigned = assignor.assign(cluster(sizes), subscriptions)
    return {member: list(assignment.partitions) for member, assignment in assigned.items()}


def partitions(topic: str, *indices: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, index) for index in indices)


SIZES = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers(1, 9), min_size=1)
TOPICS = st.sets(st.sampled_from(["a", "b", "c", "d", "unknown"]), min_size=1).map(lambda names: tuple(sorted(names)))
GROUPS = st.dictionaries(st.integers(0, 99).map("m{}".format), TOPICS, min_size=1, max_size=8)


@pytest.mark.parametrize("name", NAMES)
@given(sizes=SIZES, group=GROUPS)
def test_each_partition_has_one_owner_that_subscribes_to_it(name: str, sizes: dict[str, int], group: Group) -> None:
    assigned = assign(name, sizes, {member: Subscription(topics) for member, topics in group.items()})
    assert assigned.keys() == group.keys()
    assert all(partition.topic in group[member] for member, owned in assigned.items() for partition in owned)
    subscribed = {topic for topics in group.values() for topic in topics} & sizes.keys()
    everything = sorted(TopicPartition(topic, index) for topic in subscribed for index in range(sizes[topic]))
    assert sorted(partition for owned in assigned.values() for partition in owned) == everything


@pytest.mark.parametrize("name", ["roundrobin", "sticky", "cooperative-sticky"])
@given(sizes=SIZES, members=st.integers(1, 9))
def test_members_with_equal_subscriptions_differ_by_one_partition_at_most(
    name: str, sizes: dict[str, int], members: int
) -> None:
    assigned = assign(name, sizes, {f"m{index}": Subscription(tuple(sizes)) for index in range(members)})
    counts = [len(owned) for owned in assigned.values()]
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@given(sizes=SIZES, group=GROUPS)
def test_no_partition_can_move_to_a_member_with_two_fewer(name: str, sizes: dict[str, int], group: Group) -> None:
    assigned = assign(name, sizes, {member: Subscription(topics) for member, topics in group.items()})
    for owned in assigned.values():
        for partition in owned:
            others = [len(assigned[member]) for member, topics in group.items() if partition.topic in topics]
            assert len(owned) <= min(others) + 1


@given(sizes=SIZES, group=GROUPS)
def test_a_second_rebalance_moves_nothing(sizes: dict[str, int], group: Group) -> None:
    first = assign("cooperative-sticky", sizes, {member: Subscription(topics) for member, topics in group.items()})
    again = {
        member: Subscription(topics, owned_partitions=tuple(first[member]), generation_id=1)
        for member, topics in group.items()
    }
    second = assign("cooperative-sticky", sizes, again)
    assert {m: sorted(owned) for m, owned in second.items()} == {m: sorted(owned) for m, owned in first.items()}


@given(sizes=SIZES, members=st.integers(2, 8))
def test_only_the_partitions_of_a_member_that_left_move(sizes: dict[str, int], members: int) -> None:
    topics = tuple(sizes)
    first = assign("cooperative-sticky", sizes, {f"m{index}": Subscription(topics) for index in range(members)})
    rest = {
        member: Subscription(topics, owned_partitions=tuple(owned), generation_id=1)
        for member, owned in first.items()
        if member != "m0"
    }
    second = assign("cooperative-sticky", sizes, rest)
    assert all(set(first[member]) <= set(owned) for member, owned in second.items())


@given(sizes=SIZES, group=GROUPS, data=st.data())
def test_no_partition_moves_between_members_without_a_round_in_which_nobody_has_it(
    sizes: dict[str, int], group: Group, data: Any
) -> None:
    """KIP-429, with any claims of ownership; the rounds end with everything assigned."""
    subscriptions = {}
    unowned = [TopicPartition(topic, index) for topic, size in sorted(sizes.items()) for index in range(size)]
    for member, topics in group.items():
        owned = data.draw(st.lists(st.sampled_from(unowned), unique=True)) if unowned else []
        unowned = [partition for partition in unowned if partition not in owned]
        subscriptions[member] = Subscription(topics, owned_partitions=tuple(owned), generation_id=1)
    for generation in range(2, 5):
        owners = {partition: member for member, sub in subscriptions.items() for partition in sub.owned_partitions}
        assigned = assign("cooperative-sticky", sizes, subscriptions)
        for member, owned in assigned.items():
            assert all(owners.get(partition, member) == member for partition in owned)
        subscriptions = {
            member: replace(sub, owned_partitions=tuple(assigned[member]), generation_id=generation)
            for member, sub in subscriptions.items()
        }
    subscribed = {topic for topics in group.values() for topic in topics} & sizes.keys()
    assert sum(map(len, assigned.values())) == sum(sizes[topic] for topic in subscribed)


def test_what_two_members_claim_in_one_generation_nobody_gets_in_a_cooperative_round() -> None:
    claimed = partitions("a", 0)
    group = {name: Subscription(("a",), owned_partitions=claimed, generation_id=3) for name in ("m0", "m1")}
    assigned = assign("cooperative-sticky", {"a": 2}, group)
    assert sorted(partition for owned in assigned.values() for partition in owned) == [("a", 1)]


def test_the_newest_generation_keeps_what_an_older_one_claims_too() -> None:
    group = {
        "m0": Subscription(("a",), owned_partitions=partitions("a", 0), generation_id=3),
        "m1": Subscription(("a",), owned_partitions=partitions("a", 0, 1), generation_id=2),
    }
    assigned = assign("cooperative-sticky", {"a": 2}, group)
    assert assigned == {"m0": [("a", 0)], "m1": [("a", 1)]}


@pytest.mark.parametrize("topics", [("a",), ("a", "b")])
def test_owned_partitions_that_no_longer_exist_are_dropped(topics: tuple[str, ...]) -> None:
    """A topic was created again with fewer partitions. Java assigns its partitions to several members here."""
    group = {
        "m0": Subscription(("a",), owned_partitions=partitions("a", 0, 2, 4), generation_id=3),
        "m1": Subscription(topics, owned_partitions=partitions("a", 1, 3, 5), generation_id=3),
    }
    assigned = assign("cooperative-sticky", {"a": 2, "b": 1}, group)
    counts = Counter(partition for owned in assigned.values() for partition in owned)
    assert counts == dict.fromkeys([*partitions("a", 0, 1), *partitions("b", *range(len(topics) - 1))], 1)


def test_a_former_owner_without_a_subscription_gets_nothing() -> None:
    """Java gives the topic to it, since it owned the partitions in an older generation."""
    group = {
        "m0": Subscription(("b",), owned_partitions=partitions("a", *range(6)), generation_id=1),
        "m1": Subscription(("a",), owned_partitions=(), generation_id=2),
        "m2": Subscription(("a", "b"), owned_partitions=(), generation_id=2),
    }
    (assignor,) = get_assignor_instances(["cooperative-sticky"])
    assigned = assignor.assign(cluster({"a": 6, "b": 1}), group)
    assert assigned["m0"].partitions == partitions("b", 0)


def test_range_keeps_partitions_within_racks_and_topics_alike() -> None:
    group = {f"m{index}": Subscription(("a", "b"), rack_id=f"r{2 - index}") for index in range(3)}
    (assignor,) = get_assignor_instances(["range"])
    assigned = assignor.assign(cluster({"a": 3, "b": 3}, replicas=lambda partition: (partition,)), group)
    assert assigned["m0"].partitions == (("a", 2), ("b", 2))
    assert assigned["m1"].partitions == (("a", 1), ("b", 1))


def test_static_members_come_first_by_their_instance_ids() -> None:
    group = {
        "m0": Subscription(("a",)),
        "m1": Subscription(("a",), group_instance_id="z"),
        "m2": Subscription(("a",), group_instance_id="i"),
    }
    assert assign("range", {"a": 3}, group) == {"m2": [("a", 0)], "m1": [("a", 1)], "m0": [("a", 2)]}


@pytest.mark.parametrize("data", [b"\x00", b"\x7f\xff\xff\xff", b"\xff" * 40])
def test_user_data_that_is_none_of_kafkas_counts_as_no_ownership(data: Any) -> None:
    assert StickyAssignor().member_data(Subscription(("a",), user_data=data)) == ((), -1)


def test_user_data_without_a_generation_is_read() -> None:
    """The user data of the first version, KIP-54."""
    old = bytes.fromhex("00000001 0001 61 00000002 00000000 00000001")
    assert StickyAssignor().member_data(Subscription(("a",), user_data=old)) == (list(partitions("a", 0, 1)), -1)


def test_the_generation_of_a_cooperative_member_comes_from_its_user_data_where_the_field_is_missing() -> None:
    assignor = CooperativeStickyAssignor()
    assignor.on_assignment(Assignment(), 7)
    data = assignor.subscription_user_data(("a",))
    assert assignor.member_data(Subscription(("a",), user_data=data)).generation == 7
    assert assignor.member_data(Subscription(("a",), user_data=data, generation_id=9)).generation == 9
    assert assignor.member_data(Subscription(("a",), user_data=b"")).generation == -1


def test_only_the_cooperative_assignor_works_without_giving_everything_up() -> None:
    protocols = [assignor.supported_protocols() for assignor in get_assignor_instances(NAMES)]
    eager, cooperative = RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE
    assert protocols == [(eager,), (eager,), (eager,), (cooperative, eager)]


def test_assignors_are_named_as_rule_as_javas_class_or_given_as_objects() -> None:
    own = StickyAssignor()
    found = get_assignor_instances(["range", "org.apache.kafka.clients.consumer.RoundRobinAssignor", own])
    assert [assignor.name for assignor in found] == ["range", "roundrobin", "sticky"]
    assert found[2] is own


@pytest.mark.parametrize(
    ("strategies", "message"),
    [
        (["rnge"], "Invalid value rnge for configuration partition.assignment.strategy: must be one of range, "),
        (["range", RangeAssignor()], "the assignor name 'range' is used twice"),
        ([], "must name at least one assignor"),
    ],
)
def test_strategies_that_cannot_be_used_are_refused(strategies: list[Any], message: str) -> None:
    with pytest.raises(ConfigException, match=message):
        get_assignor_instances(strategies)
