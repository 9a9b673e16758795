"""AlterPartition, elections and reassignments: docs/protocol.md, "Partition changes" and "AlterPartition"."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kraft_core.configs.config_resource import BROKER
from kraft_core.controller.partitions.alter_partition import alter_partition
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AlterPartitionRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequestListPartitionReassignmentsTopics,
)
from tests.controller.partitions.replication_context import ReplicationContext

PREFERRED, UNCLEAN = 0, 1


@pytest.mark.parametrize("version", [2, 3])
def test_a_leader_shrinks_and_grows_its_isr_without_a_new_leader_epoch(version: int) -> None:
    context = ReplicationContext()
    context.create_assigned("foo", (0, 1, 2))
    result = context.alter_partition("foo", (0, 1), version=version)
    assert (result.error_code, result.isr, result.leader_epoch, result.partition_epoch) == (0, (0, 1), 0, 1)
    result = context.alter_partition("foo", (0, 1, 2), version=version)
    assert (result.error_code, result.isr, result.leader_id, result.partition_epoch) == (0, (0, 1, 2), 0, 2)
    assert context.partition("foo").isr == (0, 1, 2)


def test_below_metadata_version_12_a_shrinking_isr_raises_the_leader_epoch() -> None:
    context = ReplicationContext(metadata_version=11)
    context.create_assigned("foo", (0, 1, 2))
    assert context.alter_partition("foo", (0, 1)).leader_epoch == 1
    assert context.alter_partition("foo", (0, 1, 2)).leader_epoch == 1


def test_an_unchanged_isr_is_answered_and_not_recorded() -> None:
    context = ReplicationContext()
    context.create_assigned("foo", (0, 1))
    assert context.alter_partition("foo", (0, 1)).partition_epoch == 0
    assert context.partition("foo").partition_epoch == 0


REFUSED: list[tuple[str, dict[str, Any], ErrorCode]] = [
    ("unknown topic", {"isr": (0,), "topic_id": UUID(int=9)}, ErrorCode.UNKNOWN_TOPIC_ID),
    ("unknown partition", {"isr": (0,), "index": 8}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("future leader epoch", {"isr": (0,), "leader_epoch": 2, "sender": 1}, ErrorCode.NOT_CONTROLLER),
    ("future partition epoch", {"isr": (0,), "partition_epoch": 3, "sender": 1}, ErrorCode.NOT_CONTROLLER),
    ("old leader epoch", {"isr": (1,), "leader_epoch": 0, "sender": 1}, ErrorCode.FENCED_LEADER_EPOCH),
    ("not the leader", {"isr": (1,), "sender": 1, "partition_epoch": 0}, ErrorCode.INVALID_REQUEST),
    ("old partition epoch", {"isr": (0,), "partition_epoch": 1}, ErrorCode.INVALID_UPDATE_VERSION),
    ("without the leader", {"isr": (1, 2)}, ErrorCode.INVALID_REQUEST),
    ("empty", {"isr": ()}, ErrorCode.INVALID_REQUEST),
    ("repeated", {"isr": (0, 1, 1)}, ErrorCode.INVALID_REQUEST),
    ("no replica", {"isr": (0, 3)}, ErrorCode.INVALID_REQUEST),
    ("recovering with two", {"isr": (0, 1), "leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
    ("recovering again", {"isr": (0,), "leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
    ("strange state", {"isr": (0,), "leader_recovery_state": 9}, ErrorCode.INVALID_REQUEST),
    ("old broker epoch", {"isr": (0, 1), "epochs": {1: 1}}, ErrorCode.INELIGIBLE_REPLICA),
]


@pytest.mark.parametrize(("changes", "code"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_wrong_isr_change_gets_the_first_error_that_fits(changes: dict[str, Any], code: ErrorCode) -> None:
    context = ReplicationContext(brokers=(0, 1, 2, 3))
    context.create_assigned("foo", (1, 0, 2))
    context.fence(1)  # leader 0, leader epoch 1, partition epoch 1
    context.unfence(1)
    assert context.alter_partition("foo", (0, 2, 1)).error_code == 0  # partition epoch 2
    before = context.image
    result = context.alter_partition("foo", **changes)
    assert ErrorCode(result.error_code) is code
    assert context.image is before


@pytest.mark.parametrize("state", ["fenced", "shutting down", "unregistered"])
def test_only_live_brokers_join_the_isr(state: str) -> None:
    context = ReplicationContext()
    context.create_assigned("foo", (0, 1, 2))
    if state == "fenced":
        context.fence(2)
    elif state == "shutting down":
        context.shut_down(2)
    else:
        context.apply(context.manager.handle_broker_unregistered(context.image, 2))
    result = context.alter_partition("foo", (0, 1, 2))
    assert ErrorCode(result.error_code) is ErrorCode.INELIGIBLE_REPLICA


def test_a_broker_epoch_of_minus_one_is_not_compared() -> None:
    context = ReplicationContext()
    context.create_assigned("foo", (0, 1))
    context.alter_partition("foo", (0,))
    assert context.alter_partition("foo", (0, 1), epochs={0: -1, 1: -1}).error_code == ErrorCode.NONE


@pytest.mark.parametrize(("broker_id", "broker_epoch"), [(0, 12345), (9, 0)])
def test_a_request_with_another_broker_epoch_is_refused(broker_id: int, broker_epoch: int) -> None:
    context = ReplicationContext()
    request = AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_epoch)
    with pytest.raises(KafkaError) as raised:
        alter_partition(context.manager, context.image, request, 3)
    assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_leader_elected_uncleanly_says_when_it_has_recovered() -> None:
    context = ReplicationContext(brokers=(0, 1))
    context.create_assigned("foo", (0, 1), configs={"unclean.leader.election.enable": "true"})
    context.fence(1)
    context.fence(0)
    context.unfence(1)
    assert context.partition("foo").leader_recovery_state == 1
    assert context.alter_partition("foo", (1,), leader_recovery_state=0).leader_recovery_state == 0


# -- elections


def test_a_preferred_election_elects_the_first_replica() -> None:
    context = ReplicationContext()
    context.create_assigned("foo", (0, 1), (1, 0))
    context.fence(0)
    context.unfence(0)
    assert context.elect(PREFERRED, {"foo": [0, 1]}) == {
        ("foo", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ("foo", 1): ErrorCode.ELECTION_NOT_NEEDED,
    }
    context.alter_partition("foo", (1, 0))
    assert context.elect(PREFERRED, {"foo": [0]}) == {("foo", 0): ErrorCode.NONE}
    assert context.partition("foo").leader == 0


def test_an_election_in_all_partitions_omits_those_that_need_none() -> None:
    context = ReplicationContext()
    context.create_assigned("foo", (0, 1), (1, 0))
    context.create_assigned("bar", (1, 0))
    context.fence(0)
    context.unfence(0)
    context.alter_partition("foo", (1, 0))
    assert context.elect(PREFERRED, None) == {("foo", 0): ErrorCode.NONE}


def test_elections_in_unknown_partitions_and_of_unknown_types_are_refused() -> None:
    context = ReplicationContext()
    context.create_assigned("foo", (0, 1))
    assert context.elect(UNCLEAN, {"foo": [7], "gone": [0]}) == {
        ("foo", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("gone", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    with pytest.raises(KafkaError) as raised:
        context.elections.elect_leaders(context.image, ElectLeadersRequest(election_type=2, topic_partitions=None))
    assert context.elect(2, {}) == {}, "an empty request is not validated"
    assert raised.value.code is ErrorCode.INVALID_REQUEST


def test_an_unclean_election_on_request_needs_no_config_but_a_live_replica() -> None:
    context = ReplicationContext(brokers=(0, 1))
    context.create_assigned("foo", (0, 1))
    assert context.elect(UNCLEAN, {"foo": [0]}) == {("foo", 0): ErrorCode.ELECTION_NOT_NEEDED}
    context.fence(1)
    context.fence(0)
    assert context.elect(UNCLEAN, {"foo": [0]}) == {("foo", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    context.unfence(1)
    assert context.elect(UNCLEAN, {"foo": [0]}) == {("foo", 0): ErrorCode.NONE}
    partition = context.partition("foo")
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (1, (1,), 1)


def test_balancing_moves_a_limited_number_of_partitions_at_a_time() -> None:
    context = ReplicationContext(leader_balance_max_elections=2)
    context.create_assigned("foo", *[(0, 1)] * 5)
    context.fence(0)
    context.unfence(0)
    for index in range(5):
        context.alter_partition("foo", (1, 0), index=index)
    moved = []
    for _ in range(3):
        result = context.elections.maybe_balance_partition_leaders(context.image)
        context.apply(result.records)
        moved.append((len(result.records), result.response))
    assert moved == [(2, True), (2, True), (1, False)]
    assert not context.are_leaders_imbalanced()


def test_the_unclean_check_elects_where_the_topic_or_the_cluster_allows_it() -> None:
    context = ReplicationContext(brokers=(0, 1))
    context.create_assigned("foo", (0, 1))
    context.create_assigned("bar", (0, 1))
    context.fence(1)
    context.fence(0)
    context.unfence(1)
    assert context.are_some_partitions_leaderless()
    assert not context.elections.maybe_elect_unclean_leaders(context.image).records
    context.set_unclean("foo")
    context.commit(context.elections.maybe_elect_unclean_leaders(context.image))
    assert (context.partition("foo").leader, context.partition("bar").leader) == (1, -1)
    context.set_config(BROKER, "", "unclean.leader.election.enable", "true")
    context.commit(context.elections.maybe_elect_unclean_leaders(context.image))
    assert context.partition("bar").leader == 1
    assert not context.are_some_partitions_leaderless()


# -- reassignments


def test_a_reassignment_adds_first_and_removes_when_the_new_replicas_are_in_sync() -> None:
    context = ReplicationContext(brokers=(0, 1, 2, 3))
    context.create_assigned("foo", (0, 1, 2))
    assert context.reassign("foo", (3, 2, 1)).error_code == ErrorCode.NONE
    partition = context.partition("foo")
    assert partition.replicas == (3, 2, 1, 0)
    assert (partition.adding_replicas, partition.removing_replicas, partition.isr) == ((3,), (0,), (0, 1, 2))
    result = context.alter_partition("foo", (0, 1, 2, 3))
    assert ErrorCode(result.error_code) is ErrorCode.NEW_LEADER_ELECTED
    partition = context.partition("foo")
    assert (partition.replicas, partition.isr, partition.leader) == ((3, 2, 1), (1, 2, 3), 3)
    assert (partition.adding_replicas, partition.removing_replicas) == ((), ())
    assert partition.leader_epoch == 1


def test_dropping_a_follower_raises_the_leader_epoch_and_keeps_the_leader() -> None:
    context = ReplicationContext(brokers=(0, 1, 2, 3))
    context.create_assigned("foo", (0, 1, 2))
    context.reassign("foo", (0, 1, 3))
    result = context.alter_partition("foo", (0, 1, 2, 3))
    assert (result.error_code, result.leader_id, result.leader_epoch) == (ErrorCode.NONE, 0, 1)
    assert context.partition("foo").replicas == (0, 1, 3)


def test_reordering_replicas_takes_one_step() -> None:
    context = ReplicationContext()
    context.create_assigned("foo", (0, 1, 2))
    context.reassign("foo", (2, 1, 0))
    partition = context.partition("foo")
    assert (partition.replicas, partition.leader, partition.is_reassigning) == ((2, 1, 0), 0, False)
    assert partition.leader_epoch == 0


def test_a_cancellation_restores_the_original_replicas() -> None:
    context = ReplicationContext(brokers=(0, 1, 2, 3))
    context.create_assigned("foo", (0, 1, 2))
    context.reassign("foo", (3, 1, 2))
    assert context.reassign("foo", None).error_code == ErrorCode.NONE
    partition = context.partition("foo")
    assert (set(partition.replicas), partition.is_reassigning) == ({0, 1, 2}, False)
    assert context.reassign("foo", None).error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_cancellation_must_not_remove_the_only_in_sync_replica() -> None:
    context = ReplicationContext(brokers=(0, 1, 2, 3))
    context.create_assigned("foo", (0, 1))
    context.reassign("foo", (2, 3))
    context.alter_partition("foo", (0, 1, 2))
    context.fence(1)
    context.fence(0)
    assert context.partition("foo").isr == (2,)
    result = context.reassign("foo", None)
    assert ErrorCode(result.error_code) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "unclean leader election" in str(result.error_message)
    context.unfence(0)
    context.set_unclean("foo")
    assert context.reassign("foo", None).error_code == ErrorCode.NONE
    partition = context.partition("foo")
    assert (partition.isr, partition.leader, partition.leader_recovery_state) == ((0,), 0, 1)


def test_a_reassignment_to_the_original_replicas_completes_at_once() -> None:
    context = ReplicationContext(brokers=(0, 1, 2, 3))
    context.create_assigned("foo", (0, 1))
    context.reassign("foo", (2, 3))
    assert context.reassign("foo", (0, 1)).error_code == ErrorCode.NONE
    partition = context.partition("foo")
    assert (partition.replicas, partition.isr, partition.is_reassigning) == ((0, 1), (0, 1), False)


def test_a_smaller_factor_waits_until_all_remaining_replicas_are_in_sync() -> None:
    context = ReplicationContext(brokers=(0, 1, 2, 3, 4))
    context.create_assigned("foo", (0, 1, 2, 3))
    context.alter_partition("foo", (0, 1))
    context.reassign("foo", (1, 2))
    assert context.partition("foo").is_reassigning
    context.alter_partition("foo", (0, 1, 2))
    partition = context.partition("foo")
    assert (partition.replicas, partition.isr, partition.is_reassigning) == ((1, 2), (1, 2), False)


REASSIGNMENT_ERRORS: list[tuple[str, str, int, tuple[int, ...] | None, ErrorCode]] = [
    ("unknown topic", "gone", 0, (0,), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("unknown partition", "foo", 4, (0,), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("nothing to cancel", "foo", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ("empty", "foo", 0, (), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("stranger", "foo", 0, (0, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("negative", "foo", 0, (0, -1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("repeated", "foo", 0, (0, 0), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
]


@pytest.mark.parametrize(
    ("name", "index", "target", "code"),
    [row[1:] for row in REASSIGNMENT_ERRORS],
    ids=[row[0] for row in REASSIGNMENT_ERRORS],
)
def test_a_wrong_reassignment_gets_its_error(
    name: str, index: int, target: tuple[int, ...] | None, code: ErrorCode
) -> None:
    context = ReplicationContext()
    context.create_assigned("foo", (0, 1))
    before = context.image
    assert ErrorCode(context.reassign(name, target, index=index).error_code) is code
    assert context.image is before


def test_the_replication_factor_changes_only_when_allowed_also_while_one_is_running() -> None:
    """KIP-860."""
    context = ReplicationContext(brokers=(0, 1, 2, 3))
    context.create_assigned("foo", (0, 1))
    refused = ErrorCode.INVALID_REPLICATION_FACTOR
    assert context.reassign("foo", (0, 1, 2), allow_factor=False).error_code == refused
    assert context.reassign("foo", (2, 3), allow_factor=False).error_code == ErrorCode.NONE
    assert context.partition("foo").is_reassigning
    assert context.reassign("foo", (1, 2, 3), allow_factor=False).error_code == refused
    assert context.reassign("foo", (1, 3), allow_factor=False).error_code == ErrorCode.NONE


def test_reassignments_in_progress_are_listed_all_or_by_partition() -> None:
    context = ReplicationContext(brokers=(0, 1, 2, 3))
    context.create_assigned("foo", (0, 1), (0, 1))
    context.create_assigned("bar", (0, 1))
    context.reassign("foo", (2, 1), index=1)
    everything = context.reassignments.list(context.image, ListPartitionReassignmentsRequest())
    assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in everything.topics] == [
        ("foo", [1])
    ]
    ongoing = everything.topics[0].partitions[0]
    assert (ongoing.replicas, ongoing.adding_replicas, ongoing.removing_replicas) == ((2, 1, 0), (2,), (0,))
    asked = tuple(
        ListPartitionReassignmentsRequestListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
        for name, indexes in (("foo", (0, 1, 9)), ("bar", (0,)), ("gone", (0,)))
    )
    request = ListPartitionReassignmentsRequest(topics=asked)
    assert context.reassignments.list(context.image, request).topics == everything.topics


def test_a_cancelled_reassignment_keeps_the_eligible_replicas() -> None:
    """Kafka puts the first replica into the ISR, even if it is dead or lags, and clears the ELR."""
    context = ReplicationContext(elr=True)
    context.create_assigned("foo", (0, 1), configs={"min.insync.replicas": "2"})
    context.set_unclean("foo")
    context.reassign("foo", (1, 2))
    context.fence(2)
    for broker_id in (0, 1):
        context.fence(broker_id)
    before = context.partition("foo")
    assert (before.isr, before.leader, before.is_reassigning) == ((), -1, True)
    assert 1 in before.elr
    context.reassign("foo", None)
    after = context.partition("foo")
    assert (after.isr, after.elr, after.leader_recovery_state) == ((), before.elr, 0)
    context.unfence(1)
    assert (context.partition("foo").leader, context.partition("foo").leader_recovery_state) == (1, 0)
