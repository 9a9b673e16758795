"""Partition changes when brokers and directories come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraft_core.configs.config_resource import TOPIC
from kraft_core.controller.partitions.assign_replicas_to_dirs import assign_replicas_to_dirs
from kraft_core.controller.partitions.brokers_to_isrs import has_leaderships
from kraft_core.controller.partitions.cluster_describer import ClusterDescriber
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from kraft_core.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from kraft_core.protocol.uuids import DIRECTORY_LOST, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED
from tests.controller.partitions.replication_context import ReplicationContext, directory_of

if TYPE_CHECKING:
    from uuid import UUID


def test_fencing_takes_a_broker_out_of_the_isr_before_the_record_that_fences_it() -> None:
    context = ReplicationContext()
    context.create_assigned("foo", (0, 1, 2), (1, 0, 2))
    records = context.fence(0)
    assert [type(record) for record in records] == [
        PartitionChangeRecord,
        PartitionChangeRecord,
        BrokerRegistrationChangeRecord,
    ]
    first, second = context.partition("foo", 0), context.partition("foo", 1)
    assert (first.leader, first.isr, first.leader_epoch) == (1, (1, 2), 1)
    assert (second.leader, second.isr, second.leader_epoch) == (1, (1, 2), 0)
    assert context.image.cluster.brokers[0].fenced


def test_the_last_isr_member_stays_without_elr_and_the_partition_has_no_leader() -> None:
    context = ReplicationContext(brokers=(0,))
    context.create_assigned("foo", (0,))
    context.fence(0)
    partition = context.partition("foo")
    assert (partition.leader, partition.isr, partition.elr) == (-1, (0,), ())


def test_with_elr_the_isr_may_become_empty_and_its_last_member_stays_eligible() -> None:
    context = ReplicationContext(elr=True, min_insync_replicas=2)
    context.create_assigned("foo", (0, 1, 2))
    for broker_id in (2, 1, 0):
        context.fence(broker_id)
    partition = context.partition("foo")
    assert (partition.leader, partition.isr, partition.elr) == (-1, (), (0, 1))
    assert partition.last_known_elr == (0,)


def test_an_eligible_replica_leads_again_when_it_is_unfenced() -> None:
    context = ReplicationContext(elr=True, min_insync_replicas=2)
    context.create_assigned("foo", (0, 1, 2))
    for broker_id in (2, 1, 0):
        context.fence(broker_id)
    context.unfence(1)
    partition = context.partition("foo")
    assert (partition.leader, partition.isr, partition.elr) == (1, (1,), (0,))
    assert partition.last_known_elr == ()
    assert partition.leader_recovery_state == 0


def test_unfencing_records_the_registration_first_and_elects_leaders_of_leaderless_partitions() -> None:
    context = ReplicationContext(brokers=(0, 1))
    context.create_assigned("foo", (0, 1))
    context.fence(1)
    context.fence(0)
    assert context.partition("foo").isr == (0,)
    records = context.unfence(0)
    assert [type(record) for record in records] == [BrokerRegistrationChangeRecord, PartitionChangeRecord]
    assert context.partition("foo").leader == 0


def test_unfencing_a_replica_outside_the_isr_elects_nobody() -> None:
    context = ReplicationContext(brokers=(0, 1))
    context.create_assigned("foo", (0, 1))
    context.fence(1)
    context.fence(0)
    assert len(context.unfence(1)) == 1
    assert context.partition("foo").leader == -1


def test_unclean_election_brings_a_leader_from_outside_the_isr_only_where_it_is_enabled() -> None:
    context = ReplicationContext(brokers=(0, 1))
    context.create_assigned("clean", (0, 1))
    context.create_assigned("unclean", (0, 1), configs={"unclean.leader.election.enable": "true"})
    context.fence(1)
    context.fence(0)
    context.unfence(1)
    assert context.partition("clean").leader == -1
    partition = context.partition("unclean")
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (1, (1,), 1)


def test_controlled_shutdown_marks_the_broker_once_and_moves_its_leaderships() -> None:
    context = ReplicationContext()
    context.create_assigned("foo", (0, 1, 2))
    assert has_leaderships(context.image, 0)
    records = context.shut_down(0)
    assert len(context.registration_changes(records)) == 1
    partition = context.partition("foo")
    assert (partition.leader, partition.isr) == (1, (1, 2))
    assert not has_leaderships(context.image, 0)
    assert context.shut_down(0) == []


def test_a_broker_shutting_down_keeps_partitions_without_another_candidate() -> None:
    context = ReplicationContext(brokers=(0,))
    context.create_assigned("foo", (0,))
    context.shut_down(0)
    assert (context.partition("foo").leader, context.partition("foo").isr) == (-1, (0,))


def test_an_unclean_restart_leaves_isr_and_elr_only_with_elr() -> None:
    context = ReplicationContext(elr=True, min_insync_replicas=2)
    context.create_assigned("foo", (0, 1, 2))
    context.fence(2)
    context.fence(1)
    assert context.partition("foo").elr == (1,)
    context.restart(1, is_clean=False)
    assert context.partition("foo").elr == ()
    context.restart(0, is_clean=False)
    partition = context.partition("foo")
    assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (-1, (), (), (0,))


def test_only_the_last_known_leader_leads_a_partition_without_eligible_replicas() -> None:
    context = ReplicationContext(brokers=(0, 1), elr=True, min_insync_replicas=1)
    context.create_assigned("foo", (0, 1))
    context.fence(1)
    context.restart(0, is_clean=False)
    context.unfence(1)
    assert context.partition("foo").leader == -1
    context.unfence(0)
    partition = context.partition("foo")
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (0, (0,), 1)
    assert partition.last_known_elr == ()


def test_a_clean_restart_is_like_fencing() -> None:
    context = ReplicationContext(elr=True, min_insync_replicas=2)
    context.create_assigned("foo", (0, 1, 2))
    context.fence(2)
    context.restart(1, is_clean=True)
    assert (context.partition("foo").isr, context.partition("foo").elr) == ((0,), (1,))


def test_unregistering_leaves_isr_and_elr_and_removes_the_registration() -> None:
    context = ReplicationContext(elr=True, min_insync_replicas=3)
    context.create_assigned("foo", (0, 1, 2))
    records = context.manager.handle_broker_unregistered(context.image, 1)
    assert isinstance(records[-1], UnregisterBrokerRecord)
    context.apply(records)
    assert context.partition("foo").isr == (0, 2)
    assert 1 not in context.image.cluster.brokers


def test_an_unknown_broker_cannot_be_unregistered() -> None:
    context = ReplicationContext()
    with pytest.raises(KafkaError) as raised:
        context.manager.handle_broker_unregistered(context.image, 9)
    assert raised.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_an_offline_directory_affects_only_its_partitions() -> None:
    context = ReplicationContext(brokers=(1, 2))
    context.register(0, directories=[directory_of(0, 1), directory_of(0, 2)])
    context.unfence(0)
    lost, kept = context.create_assigned("lost", (0, 1)), context.create_assigned("kept", (0, 1))
    assign(context, 0, {directory_of(0, 1): [lost], directory_of(0, 2): [kept]})
    records = context.lose_directories(0, directory_of(0, 1))
    assert context.registration_changes(records)[0].log_dirs == (directory_of(0, 2),)
    assert (context.partition("lost").leader, context.partition("lost").isr) == (1, (1,))
    assert context.partition("kept").leader == 0
    assert context.lose_directories(0, directory_of(0, 1)) == []


def test_a_replica_on_an_offline_directory_is_not_elected() -> None:
    context = ReplicationContext(brokers=(1,))
    context.register(0, directories=[directory_of(0, 1), directory_of(0, 2)])
    context.unfence(0)
    topic_id = context.create_assigned("foo", (1, 0))
    assign(context, 0, {directory_of(0, 1): [topic_id]})
    assert context.partition("foo").isr == (1, 0)
    context.lose_directories(0, directory_of(0, 1))
    context.fence(1)
    assert context.partition("foo").leader == -1


def test_an_unclean_election_passes_over_a_replica_on_an_offline_directory() -> None:
    context = ReplicationContext(brokers=(1, 2))
    context.register(0, directories=[directory_of(0, 1), directory_of(0, 2)])
    context.unfence(0)
    topic_id = context.create_assigned("foo", (1, 0, 2), configs={"unclean.leader.election.enable": "true"})
    assign(context, 0, {directory_of(0, 1): [topic_id]})
    context.lose_directories(0, directory_of(0, 1))
    context.alter_partition("foo", (1,))
    context.fence(1)
    assert context.partition("foo").leader == 2


def test_a_broker_shutting_down_gets_no_new_replicas_until_it_is_fenced() -> None:
    context = ReplicationContext()
    context.shut_down(2)
    cluster = ClusterDescriber(context.image)
    assert [broker.id for broker in cluster.usable_brokers] == [0, 1]
    context.fence(2)
    cluster = ClusterDescriber(context.image)
    assert [(broker.id, broker.fenced) for broker in cluster.usable_brokers] == [(0, False), (1, False), (2, True)]


def test_cordoned_directories_are_recorded_when_they_differ_and_null_changes_nothing() -> None:
    context = ReplicationContext()
    directories = context.manager.handle_directories_cordoned
    assert directories(context.image, 0, None) == []
    first = directories(context.image, 0, [])
    assert len(first) == 1
    context.apply(first)
    assert directories(context.image, 0, []) == []
    assert len(directories(context.image, 0, [directory_of(0)])) == 1


def assign(context: ReplicationContext, broker_id: int, wanted: dict[UUID, list[UUID]], **extra: int) -> list[int]:
    """Send AssignReplicasToDirs for partition 0 of each topic; return the error codes."""
    request = AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=extra.get("broker_epoch", context.epoch(broker_id)),
        directories=tuple(
            AssignReplicasToDirsRequestDirectoryData(
                id=directory,
                topics=tuple(
                    AssignReplicasToDirsRequestTopicData(
                        topic_id=topic_id,
                        partitions=(AssignReplicasToDirsRequestPartitionData(partition_index=extra.get("index", 0)),),
                    )
                    for topic_id in topic_ids
                ),
            )
            for directory, topic_ids in wanted.items()
        ),
    )
    response = context.commit(assign_replicas_to_dirs(context.manager, context.image, request))
    return [
        partition.error_code
        for directory in response.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]


def test_assigning_a_directory_raises_the_partition_epoch_only() -> None:
    context = ReplicationContext(brokers=(1, 2))
    context.register(0, directories=[directory_of(0, 1), directory_of(0, 2)])
    context.unfence(0)
    topic_id = context.create_assigned("foo", (0, 1))
    assert context.partition("foo").directories == (DIRECTORY_UNASSIGNED, directory_of(1))
    assert assign(context, 0, {directory_of(0, 2): [topic_id]}) == [0]
    partition = context.partition("foo")
    assert partition.directories == (directory_of(0, 2), directory_of(1))
    assert (partition.partition_epoch, partition.leader_epoch) == (1, 0)
    assert assign(context, 0, {directory_of(0, 2): [topic_id]}) == [0]
    assert context.partition("foo").partition_epoch == 1


def test_a_replica_back_in_an_online_directory_leads_a_leaderless_partition() -> None:
    context = ReplicationContext()
    topic_id = context.create_assigned("foo", (0,))
    assign(context, 0, {DIRECTORY_LOST: [topic_id]})
    assert context.partition("foo").leader == -1
    assign(context, 0, {directory_of(0): [topic_id]})
    assert (context.partition("foo").leader, context.partition("foo").isr) == (0, (0,))


def test_an_offline_or_unknown_directory_is_accepted_and_the_replica_leaves_the_isr() -> None:
    context = ReplicationContext()
    topic_id = context.create_assigned("foo", (0, 1))
    assert assign(context, 0, {DIRECTORY_LOST: [topic_id]}) == [0]
    partition = context.partition("foo")
    assert (partition.leader, partition.isr) == (1, (1,))
    assert partition.directories[0] == DIRECTORY_LOST


def test_assigning_answers_each_unknown_partition_with_its_error() -> None:
    context = ReplicationContext()
    topic_id = context.create_assigned("foo", (0, 1))
    assert assign(context, 0, {directory_of(0): [directory_of(5)]}) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert assign(context, 0, {directory_of(0): [topic_id]}, index=7) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert assign(context, 2, {directory_of(2): [topic_id]}) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    with pytest.raises(KafkaError) as raised:
        assign(context, 0, {}, broker_epoch=12345)
    assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_assigning_directories_needs_metadata_version_17() -> None:
    context = ReplicationContext(metadata_version=16)
    with pytest.raises(KafkaError) as raised:
        assign(context, 0, {})
    assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_new_replicas_are_assigned_to_the_only_directory_or_to_none() -> None:
    context = ReplicationContext(brokers=(1,))
    context.register(0, directories=[directory_of(0, 1), directory_of(0, 2)])
    context.register(2, directories=[])
    cluster = ClusterDescriber(context.image)
    assert cluster.default_dir(1) == directory_of(1)
    assert cluster.default_dir(0) == DIRECTORY_UNASSIGNED
    assert cluster.default_dir(2) == DIRECTORY_MIGRATING
    assert cluster.default_dir(99) == DIRECTORY_UNASSIGNED


def test_the_effective_minimum_isr_is_at_most_the_replication_factor() -> None:
    context = ReplicationContext(elr=True, min_insync_replicas=5)
    context.create_assigned("foo", (0, 1))
    context.create_assigned("own", (0, 1), configs={"min.insync.replicas": "1"})
    topics = context.image.topics
    foo, own = topics.topic("foo"), topics.topic("own")
    assert foo is not None
    assert own is not None
    assert context.manager.effective_min_isr(context.image, foo) == 2
    assert context.manager.effective_min_isr(context.image, own) == 1
    context.set_config(TOPIC, "own", "min.insync.replicas", None)
    assert context.manager.effective_min_isr(context.image, own) == 2
