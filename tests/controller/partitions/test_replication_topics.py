"""CreateTopics, DeleteTopics and CreatePartitions: docs/protocol.md, "Admin operations", row by row."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kraft_core.configs.config_resource import BROKER, TOPIC
from kraft_core.configs.effective_config import ConfigSource
from kraft_core.controller.access.request_access import RequestAccess
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestCreatePartitionsAssignment,
    CreatePartitionsRequestCreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsRequestCreatableReplicaAssignment,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsRequestCreatableTopicConfig,
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
)
from kraft_core.protocol.metadata_records import ConfigRecord, PartitionRecord, TopicRecord
from kraft_core.protocol.uuids import DIRECTORY_MIGRATING, ZERO_UUID, random_uuid
from tests.controller.partitions.replication_context import ReplicationContext, directory_of


def config(name: str, value: str | None) -> CreateTopicsRequestCreatableTopicConfig:
    return CreateTopicsRequestCreatableTopicConfig(name=name, value=value)


def assignment(index: int, *broker_ids: int) -> CreateTopicsRequestCreatableReplicaAssignment:
    return CreateTopicsRequestCreatableReplicaAssignment(partition_index=index, broker_ids=broker_ids)


def test_a_topic_is_one_topic_record_its_configs_and_then_its_partitions() -> None:
    context = ReplicationContext()
    topic = CreateTopicsRequestCreatableTopic(
        name="foo", num_partitions=2, replication_factor=3, configs=(config("retention.ms", "5"),)
    )
    result = context.topics.create_topics(context.image, CreateTopicsRequest(topics=(topic,)))
    assert result.is_atomic
    kinds = [type(record) for record in result.records]
    assert kinds == [TopicRecord, ConfigRecord, PartitionRecord, PartitionRecord]
    first = result.records[2]
    assert isinstance(first, PartitionRecord)
    assert sorted(first.replicas) == [0, 1, 2]
    assert first.isr == first.replicas
    assert first.leader == first.replicas[0]
    assert first.directories == tuple(directory_of(replica) for replica in first.replicas)
    assert (first.leader_epoch, first.partition_epoch, first.eligible_leader_replicas) == (0, 0, None)


def test_below_metadata_version_17_records_carry_no_directories() -> None:
    context = ReplicationContext(metadata_version=16)
    assert context.create("foo", 1, 3).error_code == ErrorCode.NONE
    assert context.partition("foo").directories == (DIRECTORY_MIGRATING,) * 3


def test_minus_one_means_the_defaults_of_the_cluster() -> None:
    context = ReplicationContext(default_num_partitions=4, default_replication_factor=2)
    result = context.create("foo")
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 4, 2)
    assert len(context.partition("foo", 3).replicas) == 2


def test_validate_only_answers_the_same_and_writes_nothing() -> None:
    context = ReplicationContext()
    before = context.image
    result = context.create("foo", 2, 3, validate_only=True)
    assert (result.error_code, result.num_partitions) == (ErrorCode.NONE, 2)
    assert context.image is before
    assert context.create("bar", 2, 9, validate_only=True).error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_the_response_lists_every_config_with_its_source_and_reuses_the_list() -> None:
    context = ReplicationContext()
    context.set_config(BROKER, "", "log.retention.hours", "2")
    context.set_config(BROKER, "", "compression.type", "zstd")
    first = context.create("foo", 1, 1, configs=(config("segment.bytes", "2097152"),))
    listed = {entry.name: (entry.value, entry.config_source) for entry in first.configs}
    assert list(listed) == sorted(listed)
    assert len(listed) == 33  # all but the internal one
    assert listed["segment.bytes"] == ("2097152", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert listed["retention.ms"] == ("7200000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert listed["compression.type"] == ("zstd", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert listed["cleanup.policy"] == ("delete", ConfigSource.DEFAULT_CONFIG)
    second = context.create("bar", 1, 1, configs=(config("segment.bytes", "2097152"),))
    assert second.configs is first.configs
    assert context.create("baz", 1, 1).configs is not first.configs


CREATION_ERRORS: list[tuple[str, dict[str, Any], ErrorCode, str]] = [
    ("empty name", {"name": ""}, ErrorCode.INVALID_TOPIC_EXCEPTION, "the empty string is not allowed"),
    ("dot", {"name": "."}, ErrorCode.INVALID_TOPIC_EXCEPTION, "'.' is not allowed"),
    ("dots", {"name": ".."}, ErrorCode.INVALID_TOPIC_EXCEPTION, "'..' is not allowed"),
    ("long", {"name": "x" * 250}, ErrorCode.INVALID_TOPIC_EXCEPTION, "longer than the max allowed length 249"),
    ("slash", {"name": "a/b"}, ErrorCode.INVALID_TOPIC_EXCEPTION, "other than ASCII alphanumerics"),
    ("not UTF-8", {"name": "\ufffd"}, ErrorCode.INVALID_TOPIC_EXCEPTION, "other than ASCII alphanumerics"),
    ("newline", {"name": "foo\n"}, ErrorCode.INVALID_TOPIC_EXCEPTION, "other than ASCII alphanumerics"),
    ("metadata", {"name": "__cluster_metadata"}, ErrorCode.INVALID_REQUEST, "__cluster_metadata is prohibited"),
    ("exists", {"name": "old_topic"}, ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'old_topic' already exists."),
    ("collides", {"name": "old.topic"}, ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with existing topic: old_topic"),
    ("null value", {"configs": (config("a", None),)}, ErrorCode.INVALID_CONFIG, "Null value not supported"),
    ("bad name", {"configs": (config("a", "1"),)}, ErrorCode.INVALID_CONFIG, "Unknown topic config name: a"),
    ("bad value", {"configs": (config("retention.ms", "x"),)}, ErrorCode.INVALID_CONFIG, "Not a number of type LONG"),
    ("factor 0", {"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR, "must be larger than 0, or -1"),
    ("factor -2", {"replication_factor": -2}, ErrorCode.INVALID_REPLICATION_FACTOR, "must be larger than 0, or -1"),
    ("factor 4", {"replication_factor": 4}, ErrorCode.INVALID_REPLICATION_FACTOR, "only 3 broker(s) are registered"),
    ("partitions 0", {"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS, "invalid non-positive value"),
    ("partitions -2", {"num_partitions": -2}, ErrorCode.INVALID_PARTITIONS, "invalid non-positive value"),
    (
        "assignment and count",
        {"assignments": (assignment(0, 0),), "replication_factor": -1, "num_partitions": 1},
        ErrorCode.INVALID_REQUEST,
        "numPartitions was not set to -1",
    ),
    (
        "assignment and factor",
        {"assignments": (assignment(0, 0),), "replication_factor": 1, "num_partitions": -1},
        ErrorCode.INVALID_REQUEST,
        "replication factor was not set to -1",
    ),
]

ASSIGNMENT_ERRORS: list[tuple[str, tuple[Any, ...], str]] = [
    ("twice", (assignment(0, 0), assignment(0, 1)), "multiple manual partition assignments for partition 0"),
    ("gap", (assignment(0, 0), assignment(2, 1)), "consecutive 0-based integer sequence"),
    ("empty", (assignment(0),), "includes an empty replica list"),
    ("unknown broker", (assignment(0, 0, 9),), "includes broker 9, but no such broker is registered"),
    ("repeated broker", (assignment(0, 1, 1),), "includes the broker 1 more than once"),
    ("unequal", (assignment(0, 0, 1), assignment(1, 0)), "1 replica(s), but this is not consistent with previous"),
]


@pytest.mark.parametrize(
    ("changes", "code", "text"), [row[1:] for row in CREATION_ERRORS], ids=[row[0] for row in CREATION_ERRORS]
)
def test_a_topic_that_cannot_be_created_gets_its_error(changes: dict[str, Any], code: ErrorCode, text: str) -> None:
    context = ReplicationContext()
    context.create("old_topic", 1, 1)
    before = context.image
    fields = {"name": "foo", "num_partitions": 1, "replication_factor": 1} | changes
    request = CreateTopicsRequest(topics=(CreateTopicsRequestCreatableTopic(**fields),))
    result = context.commit(context.topics.create_topics(context.image, request)).topics[0]
    assert (ErrorCode(result.error_code), result.name) == (code, fields["name"])
    assert text in str(result.error_message)
    assert context.image is before


@pytest.mark.parametrize(
    ("assignments", "text"), [row[1:] for row in ASSIGNMENT_ERRORS], ids=[row[0] for row in ASSIGNMENT_ERRORS]
)
def test_a_wrong_manual_assignment_is_refused(assignments: tuple[Any, ...], text: str) -> None:
    result = ReplicationContext().create("foo", assignments=assignments)
    assert ErrorCode(result.error_code) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert text in str(result.error_message)


def test_manual_assignments_keep_their_order_and_begin_with_the_live_replicas() -> None:
    context = ReplicationContext()
    context.fence(1)
    context.create_assigned("foo", (1, 2, 0), (2, 0, 1))
    first = context.partition("foo", 0)
    assert (first.replicas, first.isr, first.leader) == ((1, 2, 0), (2, 0), 2)
    assert context.partition("foo", 1).leader == 2


def test_an_assignment_to_fenced_brokers_alone_is_refused() -> None:
    context = ReplicationContext()
    context.fence(1)
    context.shut_down(2)
    result = context.create("foo", assignments=(assignment(0, 1, 2),))
    assert ErrorCode(result.error_code) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "fenced or in controlled shutdown" in str(result.error_message)


def test_placement_fails_while_all_brokers_are_fenced_or_cordoned() -> None:
    context = ReplicationContext(brokers=(0, 1))
    context.fence(0)
    context.cordon(1, [directory_of(1)])
    result = context.create("foo", 1, 1)
    assert ErrorCode(result.error_code) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "All brokers are currently fenced, or have all their log directories cordoned." in str(result.error_message)
    context.cordon(1, [])
    assert context.create("foo", 1, 1).error_code == ErrorCode.NONE


def test_one_bad_topic_does_not_stop_the_others_and_duplicates_come_last() -> None:
    context = ReplicationContext()
    names = ("a", "twice", "b/", "twice", "c")
    topics = tuple(
        CreateTopicsRequestCreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names
    )
    response = context.commit(context.topics.create_topics(context.image, CreateTopicsRequest(topics=topics)))
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("a", 0),
        ("b/", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("c", 0),
        ("twice", ErrorCode.INVALID_REQUEST),
    ]
    assert set(context.image.topics.by_name) == {"a", "c"}


@pytest.mark.parametrize("counts", [(10_001,), (9_000, 1_001), (2**31 - 1, 2**31 - 1)])
def test_more_than_ten_thousand_partitions_are_refused_as_a_whole(counts: tuple[int, ...]) -> None:
    context = ReplicationContext()
    topics = tuple(
        CreateTopicsRequestCreatableTopic(name=f"t{index}", num_partitions=count, replication_factor=1)
        for index, count in enumerate(counts)
    )
    with pytest.raises(KafkaError) as raised:
        context.topics.create_topics(context.image, CreateTopicsRequest(topics=topics))
    assert raised.value.code is ErrorCode.POLICY_VIOLATION


def test_twenty_thousand_topics_in_one_request_are_refused_as_a_whole() -> None:
    context = ReplicationContext()
    topics = tuple(
        CreateTopicsRequestCreatableTopic(name=f"t{index}", assignments=(assignment(0, 0),), num_partitions=-1)
        for index in range(20_000)
    )
    with pytest.raises(KafkaError) as raised:
        context.topics.create_topics(context.image, CreateTopicsRequest(topics=topics))
    assert raised.value.code is ErrorCode.POLICY_VIOLATION


def test_a_name_of_many_dots_collides_like_any_other() -> None:
    context = ReplicationContext()
    context.create("a" + "._" * 20, 1, 1)
    result = context.create("a" + "_." * 20, 1, 1)
    assert ErrorCode(result.error_code) is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_rights_and_quota_are_checked_for_each_topic() -> None:
    context = ReplicationContext()

    def quota(partitions: int) -> None:
        if partitions > 2:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    access = RequestAccess(
        may_create=lambda name: name != "foreign",
        may_describe_configs=lambda name: name != "quiet",
        apply_partition_change_quota=quota,
    )
    topics = tuple(
        CreateTopicsRequestCreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in (("foreign", 1), ("quiet", 1), ("large", 3))
    )
    response = context.commit(context.topics.create_topics(context.image, CreateTopicsRequest(topics=topics), access))
    results = {topic.name: topic for topic in response.topics}
    assert results["foreign"].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert results["large"].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert results["quiet"].topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (results["quiet"].configs, results["quiet"].num_partitions) == ((), -1)
    assert set(context.image.topics.by_name) == {"quiet"}


def test_setting_the_minimum_isr_at_creation_clears_eligible_replicas_when_elr_is_on() -> None:
    context = ReplicationContext(elr=True, min_insync_replicas=1)
    context.create_assigned("foo", (0, 1), configs={"min.insync.replicas": "2"})
    assert context.image.configs.of(TOPIC, "foo")["min.insync.replicas"] == "2"


# -- deletion


def delete(context: ReplicationContext, *states: tuple[str | None, Any], access: RequestAccess | None = None) -> Any:
    request = DeleteTopicsRequest(
        topics=tuple(DeleteTopicsRequestDeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in states)
    )
    result = context.delete_topics(request, 6, access or RequestAccess())
    context.apply(result.records)
    return {(each.name, each.topic_id): ErrorCode(each.error_code) for each in result.response.responses}


def test_topics_are_deleted_by_name_or_by_id_with_their_configs() -> None:
    context = ReplicationContext()
    foo = context.create_assigned("foo", (0,), configs={"retention.ms": "1"})
    bar = context.create_assigned("bar", (0,))
    assert delete(context, ("foo", ZERO_UUID), (None, bar)) == {
        ("foo", foo): ErrorCode.NONE,
        ("bar", bar): ErrorCode.NONE,
    }
    assert not context.image.topics.by_id
    assert not context.image.configs.of(TOPIC, "foo")
    assert context.create("foo", 1, 1).topic_id != foo


def test_each_wrong_deletion_gets_its_error() -> None:
    context = ReplicationContext()
    foo = context.create_assigned("foo", (0,))
    gone = random_uuid(Random(5))
    answers = delete(
        context,
        (None, ZERO_UUID),
        ("foo", foo),
        ("gone", ZERO_UUID),
        (None, gone),
        ("twice", ZERO_UUID),
        ("twice", ZERO_UUID),
    )
    assert answers == {
        (None, ZERO_UUID): ErrorCode.INVALID_REQUEST,
        ("foo", foo): ErrorCode.INVALID_REQUEST,
        ("gone", ZERO_UUID): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (None, gone): ErrorCode.UNKNOWN_TOPIC_ID,
        ("twice", ZERO_UUID): ErrorCode.INVALID_REQUEST,
    }
    assert "foo" in context.image.topics.by_name


def test_a_topic_named_by_name_and_id_is_not_deleted() -> None:
    context = ReplicationContext()
    foo = context.create_assigned("foo", (0,))
    assert delete(context, ("foo", ZERO_UUID), (None, foo)) == {("foo", foo): ErrorCode.INVALID_REQUEST}
    states = (DeleteTopicsRequestDeleteTopicState(name="foo"), DeleteTopicsRequestDeleteTopicState(topic_id=foo))
    answers = context.delete_topics(DeleteTopicsRequest(topics=states), 6).response.responses
    assert len(answers) == 1
    assert "foo" in context.image.topics.by_name


def test_before_version_6_topics_are_deleted_by_name() -> None:
    context = ReplicationContext()
    context.create_assigned("foo", (0,))
    request = DeleteTopicsRequest(topic_names=("foo", "gone"))
    result = context.delete_topics(request, 5)
    codes = {each.name: each.error_code for each in result.response.responses}
    assert codes == {"foo": ErrorCode.NONE, "gone": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
def test_deletion_can_be_switched_off(version: int, code: ErrorCode) -> None:
    context = ReplicationContext(delete_topic_enable=False)
    with pytest.raises(KafkaError) as raised:
        context.delete_topics(DeleteTopicsRequest(topic_names=("foo",)), version)
    assert raised.value.code is code


def test_a_sender_that_may_not_describe_a_topic_does_not_learn_its_id() -> None:
    context = ReplicationContext()
    context.create_assigned("foo", (0,))
    hidden = RequestAccess(may_describe=lambda _: False, may_delete=lambda _: False)
    assert delete(context, ("foo", ZERO_UUID), access=hidden) == {
        ("foo", ZERO_UUID): ErrorCode.TOPIC_AUTHORIZATION_FAILED
    }


# -- more partitions


def grow(context: ReplicationContext, name: str, count: int, *assignments: tuple[int, ...], **extra: Any) -> Any:
    given = tuple(CreatePartitionsRequestCreatePartitionsAssignment(broker_ids=ids) for ids in assignments) or None
    topics = (CreatePartitionsRequestCreatePartitionsTopic(name=name, count=count, assignments=given),)
    request = CreatePartitionsRequest(topics=topics * extra.pop("times", 1), **extra)
    return context.commit(context.topics.create_partitions(context.image, request)).results


def test_new_partitions_get_the_replication_factor_of_the_first() -> None:
    context = ReplicationContext()
    context.create_assigned("foo", (0, 1))
    assert grow(context, "foo", 3)[0].error_code == ErrorCode.NONE
    topic = context.image.topics.topic("foo")
    assert topic is not None
    assert sorted(topic.partitions) == [0, 1, 2]
    assert len(context.partition("foo", 2).replicas) == 2
    assert grow(context, "foo", 4, (2, 0))[0].error_code == ErrorCode.NONE
    assert context.partition("foo", 3).replicas == (2, 0)


def test_new_partitions_start_with_their_live_brokers_in_sync() -> None:
    context = ReplicationContext()
    context.create_assigned("foo", (0, 1))
    context.fence(2)
    grow(context, "foo", 2, (2, 0))
    assert (context.partition("foo", 1).isr, context.partition("foo", 1).leader) == ((0,), 0)


GROWTH_ERRORS: list[tuple[str, str, int, tuple[tuple[int, ...], ...], ErrorCode, str]] = [
    ("unknown", "gone", 2, (), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
    ("same", "foo", 1, (), ErrorCode.INVALID_PARTITIONS, "Topic already has 1 partition(s)."),
    ("fewer", "foo", 0, (), ErrorCode.INVALID_PARTITIONS, "0 would not be an increase"),
    ("too few", "foo", 3, ((0, 1),), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "only 1 assignment(s) were specified"),
    ("factor", "foo", 2, ((0,),), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "which have 2 replica(s)"),
    ("stranger", "foo", 2, ((0, 9),), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker is registered"),
    ("enormous", "foo", 2**31 - 1, (), ErrorCode.POLICY_VIOLATION, "excessively large"),
]


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code", "text"),
    [row[1:] for row in GROWTH_ERRORS],
    ids=[row[0] for row in GROWTH_ERRORS],
)
def test_partitions_that_cannot_be_added_get_their_error(
    name: str, count: int, assignments: tuple[tuple[int, ...], ...], code: ErrorCode, text: str
) -> None:
    context = ReplicationContext()
    context.create_assigned("foo", (0, 1))
    result = grow(context, name, count, *assignments)[0]
    assert ErrorCode(result.error_code) is code
    assert text in str(result.error_message)


def test_growing_a_topic_twice_in_one_request_or_only_trying_changes_nothing() -> None:
    context = ReplicationContext()
    context.create_assigned("foo", (0, 1))
    before = context.image
    assert grow(context, "foo", 3, validate_only=True)[0].error_code == ErrorCode.NONE
    answers = grow(context, "foo", 3, times=2)
    assert [ErrorCode(each.error_code) for each in answers] == [ErrorCode.INVALID_REQUEST]
    assert context.image is before


def test_no_partition_is_added_while_all_brokers_are_fenced() -> None:
    context = ReplicationContext(brokers=(0,))
    context.create_assigned("foo", (0,))
    context.fence(0)
    assert ErrorCode(grow(context, "foo", 2)[0].error_code) is ErrorCode.INVALID_REPLICATION_FACTOR
