"""Our assignors against those of Apache Kafka 4.3.1 (tests/golden/assignors.txt.gz): the same outcome, by rebalance.

The order of Java's HashMap of members is that of the cases. Where Java's outcome depends on the order of a HashSet of
partitions (which of several moves to take back), equal balance and stickiness is enough.
"""

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kraft_core.clients.client_metadata import Node, PartitionInfo, TopicInfo, TopicPartition
from kraft_core.clients.consumer.assignors.assignor_instances import get_assignor_instances
from kraft_core.clients.consumer.assignors.consumer_partition_assignor import Assignment, Subscription
from kraft_core.clients.consumer.assignors.sticky_assignor import StickyAssignor
from tests.clients.consumer.groups import SomeCluster

Case = dict[str, Any]
Assigned = Mapping[str, set[TopicPartition]]
GOLDEN = Path(__file__).parents[2] / "golden" / "assignors.txt.gz"


def cases(name: str) -> list[Case]:
    with gzip.open(GOLDEN, "rt") as lines:
        return [case for line in lines if (case := json.loads(line))["assignor"] == name]


def cluster_of(case: Case) -> SomeCluster:
    nodes = {index: Node(index, "host", 9092, rack) for index, rack in enumerate(case["racks"])}
    topics = {
        topic: TopicInfo(
            topic,
            partitions={
                index: PartitionInfo(leader=replicas[0], replicas=tuple(replicas))
                for index, replicas in enumerate(partitions)
            },
        )
        for topic, partitions in case["topics"].items()
    }
    return SomeCluster(nodes, topics)


def partitions_of(pairs: Iterable[tuple[str, int]]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(*pair) for pair in pairs)


def subscriptions_of(case: Case) -> dict[str, Subscription]:
    return {
        member: Subscription(
            topics=tuple(topics),
            user_data=None if data is None else bytes.fromhex(data),
            owned_partitions=partitions_of(owned),
            generation_id=generation,
            rack_id=rack,
            group_instance_id=instance,
        )
        for member, topics, data, owned, generation, rack, instance in case["members"]
    }


def outcome(case: Case) -> dict[str, set[TopicPartition]]:
    (assignor,) = get_assignor_instances([case["assignor"]])
    assigned = assignor.assign(cluster_of(case), subscriptions_of(case))
    return {member: set(assignment.partitions) for member, assignment in assigned.items()}


def theirs(case: Case) -> dict[str, set[TopicPartition]]:
    return {member: set(partitions_of(pairs)) for member, pairs in case["assigned"].items()}


def claims_of(case: Case) -> Counter[TopicPartition]:
    """How many members say that they own a partition."""
    return Counter(
        partition for subscription in subscriptions_of(case).values() for partition in subscription.owned_partitions
    )


def kept(case: Case, assigned: Assigned) -> int:
    """How many partitions stay with the member that owned them."""
    (assignor,) = get_assignor_instances([case["assignor"]])
    return sum(
        len(assigned[member] & set(assignor.member_data(subscription).partitions))
        for member, subscription in subscriptions_of(case).items()
    )


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_members_get_exactly_what_javas_assignor_gives_them(name: str) -> None:
    wrong = [case for case in cases(name) if outcome(case) != theirs(case)]
    assert len(cases(name)) == 1000
    assert wrong == []


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_sticky_members_get_what_javas_assignor_gives_them(name: str) -> None:
    """What two members claim nobody gets in a cooperative round; Java may leave it to one of them at once."""
    differing = 0
    for case in cases(name):
        ours, javas = outcome(case), theirs(case)
        if name == "cooperative-sticky":
            disputed = {partition for partition, claims in claims_of(case).items() if claims > 1}
            ours = {member: assigned - disputed for member, assigned in ours.items()}
            javas = {member: assigned - disputed for member, assigned in javas.items()}
        if ours != javas:
            differing += 1  # by the order of a HashSet
            assert [len(ours[member]) for member in javas] == [len(assigned) for assigned in javas.values()]
            assert kept(case, ours) == kept(case, javas)
    assert differing <= 5


def test_user_data_is_javas() -> None:
    """A member's previous assignment, as StickyAssignor writes and reads it."""
    seen = 0
    for case in cases("sticky"):
        for subscription in subscriptions_of(case).values():
            assignor = StickyAssignor()
            data = assignor.member_data(subscription)
            if subscription.user_data is not None:
                seen += 1
                assignor.on_assignment(Assignment(tuple(data.partitions)), data.generation)
            assert assignor.subscription_user_data(subscription.topics) == subscription.user_data
    assert seen > 1000
