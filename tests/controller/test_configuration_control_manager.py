"""Config changes: docs/protocol.md, "Admin operations". After ConfigurationControlManagerTest."""

from __future__ import annotations

from typing import Any

import pytest

from kraft_core.configs.config_resource import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraft_core.controller.access.request_access import RequestAccess
from kraft_core.protocol import messages as m
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.metadata_records import ClearElrRecord, ConfigRecord
from tests.controller.partitions.replication_context import ReplicationContext

SET, DELETE, APPEND, SUBTRACT = range(4)
MIN_ISR = "min.insync.replicas"

Change = tuple[str, int, str | None]


def incremental(
    context: ReplicationContext,
    *resources: tuple[int, str, list[Change]],
    access: RequestAccess | None = None,
    validate_only: bool = False,
) -> list[tuple[ErrorCode, str]]:
    request = m.IncrementalAlterConfigsRequest(
        resources=tuple(
            m.IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=tuple(
                    m.IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ),
            )
            for kind, name, changes in resources
        ),
        validate_only=validate_only,
    )
    result = context.configs.incremental_alter_configs(context.image, request, access or RequestAccess())
    context.apply(result.records)
    return [(ErrorCode(each.error_code), each.error_message or "") for each in result.response.responses]


def legacy(
    context: ReplicationContext, kind: int, name: str, configs: dict[str, str | None], **extra: Any
) -> ErrorCode:
    resource = m.AlterConfigsRequestAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(m.AlterConfigsRequestAlterableConfig(name=key, value=value) for key, value in configs.items()),
    )
    request = m.AlterConfigsRequest(resources=(resource,), **extra)
    response = context.commit(context.configs.legacy_alter_configs(context.image, request))
    return ErrorCode(response.responses[0].error_code)


def topic_context(**settings: Any) -> ReplicationContext:
    context = ReplicationContext(**settings)
    context.create_assigned("foo", (0, 1))
    return context


def configs_of(context: ReplicationContext, kind: int, name: str) -> dict[str, str]:
    return dict(context.image.configs.of(kind, name))


def test_set_and_delete_change_one_key() -> None:
    context = topic_context()
    assert incremental(context, (TOPIC, "foo", [("retention.ms", SET, "5")]))[0][0] is ErrorCode.NONE
    incremental(context, (TOPIC, "foo", [("flush.ms", SET, "7"), ("retention.ms", DELETE, None)]))
    assert configs_of(context, TOPIC, "foo") == {"flush.ms": "7"}


def test_append_and_subtract_edit_lists_beginning_with_the_default() -> None:
    context = topic_context()
    incremental(context, (TOPIC, "foo", [("cleanup.policy", APPEND, "compact")]))
    assert configs_of(context, TOPIC, "foo") == {"cleanup.policy": "delete,compact"}
    again = incremental(context, (TOPIC, "foo", [("cleanup.policy", APPEND, "compact")]))
    assert again == [(ErrorCode.NONE, "")]
    incremental(context, (TOPIC, "foo", [("cleanup.policy", SUBTRACT, "delete,absent")]))
    assert configs_of(context, TOPIC, "foo") == {"cleanup.policy": "compact"}


REFUSED: list[tuple[str, int, str, list[Change], ErrorCode, str]] = [
    ("append to a number", TOPIC, "foo", [("flush.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG, "its type is not LIST"),
    ("append to unknown", TOPIC, "foo", [("x", SUBTRACT, "1")], ErrorCode.INVALID_CONFIG, "Can't SUBTRACT to key x"),
    ("unknown name", TOPIC, "foo", [("x", SET, "1")], ErrorCode.INVALID_CONFIG, "Unknown topic config name: x"),
    ("wrong type", TOPIC, "foo", [("flush.ms", SET, "x")], ErrorCode.INVALID_CONFIG, "Not a number of type LONG"),
    ("out of range", TOPIC, "foo", [("flush.ms", SET, "-1")], ErrorCode.INVALID_CONFIG, "must be at least 0"),
    ("null", TOPIC, "foo", [("flush.ms", SET, None)], ErrorCode.INVALID_CONFIG, "Null value not supported"),
    ("null append", TOPIC, "foo", [("cleanup.policy", APPEND, None)], ErrorCode.INVALID_CONFIG, "Null value"),
    ("too long", BROKER, "", [("custom", SET, "x" * 32768)], ErrorCode.INVALID_CONFIG, "maximum value size of 32767"),
    ("too many bytes", BROKER, "", [("custom", SET, "ä" * 16384)], ErrorCode.INVALID_CONFIG, "size of 32767 bytes"),
    ("unknown operation", TOPIC, "foo", [("flush.ms", 9, "1")], ErrorCode.INVALID_REQUEST, "Unknown operation 9"),
    ("unknown topic", TOPIC, "gone", [("flush.ms", SET, "1")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not exist"),
    ("bad topic name", TOPIC, "a/b", [("flush.ms", SET, "1")], ErrorCode.INVALID_TOPIC_EXCEPTION, "invalid"),
    ("default topic", TOPIC, "", [("flush.ms", SET, "1")], ErrorCode.INVALID_REQUEST, "Default topic resources"),
    ("unknown node", BROKER, "77", [("a", SET, "1")], ErrorCode.BROKER_ID_NOT_REGISTERED, "No node with id 77 found."),
    ("broker name", BROKER, "abc", [("a", SET, "1")], ErrorCode.INVALID_REQUEST, "Unable to parse broker name"),
    ("huge broker id", BROKER, "9" * 30, [("a", SET, "1")], ErrorCode.INVALID_REQUEST, "Unable to parse broker name"),
    ("negative broker", BROKER, "-1", [("a", SET, "1")], ErrorCode.INVALID_REQUEST, "Invalid negative broker ID."),
    ("default group", GROUP, "", [], ErrorCode.INVALID_REQUEST, "Default group resources"),
    ("group name", GROUP, "g", [("a", SET, "1")], ErrorCode.INVALID_CONFIG, "Unknown group config name: a"),
    ("metrics name", CLIENT_METRICS, "", [], ErrorCode.INVALID_REQUEST, "Subscription name can't be empty"),
    ("log level", 8, "3000", [("root", SET, "INFO")], ErrorCode.INVALID_REQUEST, "Unexpected resource type"),
    ("unknown resource type", 5, "x", [("a", SET, "1")], ErrorCode.UNSUPPORTED_VERSION, "Unknown resource type 5."),
]


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code", "text"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_a_change_that_is_not_allowed_gets_its_error(
    kind: int, name: str, changes: list[Change], code: ErrorCode, text: str
) -> None:
    context = topic_context()
    before = context.image
    ((given, message),) = incremental(context, (kind, name, changes))
    assert given is code
    assert text in message
    assert context.image is before


def test_one_wrong_key_refuses_the_whole_resource_and_no_other() -> None:
    context = topic_context()
    context.create_assigned("bar", (0,))
    answers = incremental(
        context,
        (TOPIC, "foo", [("flush.ms", SET, "1"), ("retention.ms", SET, "x")]),
        (TOPIC, "bar", [("flush.ms", SET, "1")]),
    )
    assert [code for code, _ in answers] == [ErrorCode.INVALID_CONFIG, ErrorCode.NONE]
    assert configs_of(context, TOPIC, "foo") == {}
    assert configs_of(context, TOPIC, "bar") == {"flush.ms": "1"}


def test_an_unknown_config_of_an_older_release_blocks_no_change() -> None:
    context = topic_context()
    context.set_config(TOPIC, "foo", "message.format.version", "2.8")
    assert incremental(context, (TOPIC, "foo", [("flush.ms", SET, "1")])) == [(ErrorCode.NONE, "")]
    assert configs_of(context, TOPIC, "foo") == {"flush.ms": "1"}


def test_a_repeated_resource_is_refused_once() -> None:
    context = topic_context()
    change: tuple[int, str, list[Change]] = (TOPIC, "foo", [("flush.ms", SET, "1")])
    assert incremental(context, change, change) == [(ErrorCode.INVALID_REQUEST, "Duplicate resource.")]


def test_validate_only_records_nothing() -> None:
    context = topic_context()
    before = context.image
    assert incremental(context, (TOPIC, "foo", [("flush.ms", SET, "1")]), validate_only=True)[0][0] is ErrorCode.NONE
    assert legacy(context, TOPIC, "foo", {"flush.ms": "1"}, validate_only=True) is ErrorCode.NONE
    assert context.image is before


def test_the_legacy_form_replaces_everything() -> None:
    context = topic_context()
    incremental(context, (TOPIC, "foo", [("flush.ms", SET, "1"), ("retention.ms", SET, "2")]))
    assert legacy(context, TOPIC, "foo", {"flush.ms": "3"}) is ErrorCode.NONE
    assert configs_of(context, TOPIC, "foo") == {"flush.ms": "3"}
    assert legacy(context, TOPIC, "foo", {"flush.ms": None}) is ErrorCode.INVALID_CONFIG
    assert legacy(context, TOPIC, "gone", {}) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_unchanged_values_are_recorded_again_for_brokers_only() -> None:
    """KAFKA-14136."""
    context = topic_context()
    operations: dict[str, tuple[int, str | None]] = {"compression.type": (SET, "gzip")}
    for kind, name, again in ((TOPIC, "foo", 0), (BROKER, "0", 1), (BROKER, "", 1)):
        context.apply(context.configs.incremental_alter_resource(context.image, kind, name, operations))
        assert len(context.configs.incremental_alter_resource(context.image, kind, name, operations)) == again


def test_broker_values_are_left_to_the_broker() -> None:
    context = topic_context()
    assert incremental(context, (BROKER, "0", [("num.io.threads", SET, "many")]))[0][0] is ErrorCode.NONE
    assert incremental(context, (BROKER, "3000", [("a", SET, "1")]))[0][0] is ErrorCode.NONE  # this controller
    voters = RequestAccess(controller_ids=(3001,))
    assert incremental(context, (BROKER, "3001", [("a", SET, "1")]), access=voters)[0][0] is ErrorCode.NONE


def test_a_sender_without_right_gets_the_error_of_the_resource_type() -> None:
    context = topic_context()
    nobody = RequestAccess(may_alter_configs=lambda _kind, _name: False)
    answers = incremental(context, (TOPIC, "foo", []), (GROUP, "g", []), (BROKER, "", []), access=nobody)
    assert [code for code, _ in answers] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ]


def test_more_than_ten_thousand_changes_are_refused() -> None:
    context = topic_context()
    changes: list[Change] = [(f"custom.{index}", SET, "1") for index in range(10_001)]
    with pytest.raises(KafkaError) as raised:
        incremental(context, (BROKER, "", changes))
    assert raised.value.code is ErrorCode.POLICY_VIOLATION


# -- eligible leader replicas


def test_a_changed_minimum_isr_clears_the_affected_eligible_replicas_after_the_configs() -> None:
    context = topic_context(elr=True, min_insync_replicas=1)
    request = m.IncrementalAlterConfigsRequest(
        resources=tuple(
            m.IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=(m.IncrementalAlterConfigsRequestAlterableConfig(name=MIN_ISR, value="2"),),
            )
            for kind, name in ((TOPIC, "foo"), (BROKER, ""))
        )
    )
    records = context.configs.incremental_alter_configs(context.image, request).records
    assert [type(record) for record in records] == [ConfigRecord, ConfigRecord, ClearElrRecord, ClearElrRecord]
    assert [record.topic_name for record in records if isinstance(record, ClearElrRecord)] == ["foo", ""]


def test_without_elr_nothing_is_cleared_and_brokers_may_differ() -> None:
    context = topic_context()
    for kind, name in ((TOPIC, "foo"), (BROKER, ""), (BROKER, "0")):
        records = context.configs.incremental_alter_resource(context.image, kind, name, {MIN_ISR: (SET, "2")})
        assert [type(record) for record in records] == [ConfigRecord]


def test_with_elr_the_cluster_keeps_one_minimum_isr() -> None:
    context = topic_context(elr=True, min_insync_replicas=1)
    assert incremental(context, (BROKER, "", [(MIN_ISR, DELETE, None)])) == [
        (ErrorCode.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
    ]
    assert incremental(context, (BROKER, "0", [(MIN_ISR, SET, "2")])) == [
        (ErrorCode.INVALID_CONFIG, "Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
    ]
    assert legacy(context, BROKER, "", {}) is ErrorCode.INVALID_CONFIG  # would remove min.insync.replicas


def test_enabling_elr_moves_the_minimum_isr_to_the_cluster() -> None:
    context = topic_context(static_configs={MIN_ISR: "2"})
    context.set_config(BROKER, "1", MIN_ISR, "3")
    context.set_config(BROKER, "2", "compression.type", "gzip")
    records = context.configs.elr_safety_records(context.image)
    changed = [
        (record.resource_name, record.name, record.value) for record in records if isinstance(record, ConfigRecord)
    ]
    assert changed == [("", MIN_ISR, "2"), ("1", MIN_ISR, None)]
    context.apply(records)
    assert context.configs.elr_safety_records(context.image) == []


# -- cordoned directories (KIP-1066)


def test_cordoning_through_a_controller_may_only_shrink_and_needs_metadata_version_30() -> None:
    context = topic_context()
    key = "cordoned.log.dirs"
    forwarded = RequestAccess(is_forwarded=True)
    assert incremental(context, (BROKER, "0", [(key, SET, "/a")]))[0][0] is ErrorCode.INVALID_CONFIG
    assert incremental(context, (BROKER, "0", [(key, SET, "/a, /b")]), access=forwarded)[0][0] is ErrorCode.NONE
    assert incremental(context, (BROKER, "0", [(key, SET, "/b")]))[0][0] is ErrorCode.NONE
    assert incremental(context, (BROKER, "0", [(key, SET, "/a")]))[0][0] is ErrorCode.INVALID_CONFIG
    assert incremental(context, (BROKER, "0", [(key, SET, "")]))[0][0] is ErrorCode.NONE
    old = topic_context(metadata_version=29)
    assert incremental(old, (BROKER, "0", [(key, SET, "")]), access=forwarded)[0][0] is ErrorCode.INVALID_CONFIG


# -- rules that tie keys together

TOPIC_RULES: list[tuple[str, dict[str, str], str]] = [
    (
        "compaction lags",
        {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"},
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (9)",
    ),
    ("tiered storage is off", {"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled"),
]
REMOTE_RULES: list[tuple[str, dict[str, str], str]] = [
    ("compacted", {"cleanup.policy": "compact"}, "only supports topics with cleanup.policy=delete"),
    ("local above total", {"retention.ms": "5", "local.retention.ms": "6"}, "more than retention.ms property value: 5"),
    ("local endless", {"retention.bytes": "5", "local.retention.bytes": "-1"}, "must not be -1 as retention.bytes"),
    (
        "copy disabled",
        {"remote.log.copy.disable": "true", "retention.ms": "5", "local.retention.ms": "4"},
        "must be set to the identical value",
    ),
]


@pytest.mark.parametrize(("given", "text"), [row[1:] for row in TOPIC_RULES], ids=[row[0] for row in TOPIC_RULES])
def test_topic_configs_that_contradict_each_other_are_refused(given: dict[str, str], text: str) -> None:
    ((code, message),) = incremental(
        topic_context(), (TOPIC, "foo", [(key, SET, value) for key, value in given.items()])
    )
    assert code is ErrorCode.INVALID_CONFIG
    assert text in message


@pytest.mark.parametrize(("given", "text"), [row[1:] for row in REMOTE_RULES], ids=[row[0] for row in REMOTE_RULES])
def test_tiered_topics_obey_the_rules_of_tiered_storage(given: dict[str, str], text: str) -> None:
    context = topic_context(static_configs={"remote.log.storage.system.enable": "true"})
    base: list[Change] = [("remote.storage.enable", SET, "true")]
    assert incremental(context, (TOPIC, "foo", base), validate_only=True)[0][0] is ErrorCode.NONE
    ((code, message),) = incremental(
        context, (TOPIC, "foo", base + [(key, SET, value) for key, value in given.items()])
    )
    assert code is ErrorCode.INVALID_CONFIG
    assert text in message


def test_tiered_storage_is_switched_off_only_together_with_its_data() -> None:
    context = topic_context(static_configs={"remote.log.storage.system.enable": "true"})
    incremental(context, (TOPIC, "foo", [("remote.storage.enable", SET, "true")]))
    off: list[Change] = [("remote.storage.enable", SET, "false")]
    assert incremental(context, (TOPIC, "foo", off))[0][0] is ErrorCode.INVALID_CONFIG
    assert (
        incremental(context, (TOPIC, "foo", [*off, ("remote.log.delete.on.disable", SET, "true")]))[0][0]
        is ErrorCode.NONE
    )


def test_the_compaction_lag_is_compared_with_the_brokers_config() -> None:
    context = topic_context(static_configs={"log.cleaner.max.compaction.lag.ms": "100"})
    assert (
        incremental(context, (TOPIC, "foo", [("min.compaction.lag.ms", SET, "101")]))[0][0] is ErrorCode.INVALID_CONFIG
    )
    assert incremental(context, (TOPIC, "foo", [("min.compaction.lag.ms", SET, "100")]))[0][0] is ErrorCode.NONE


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("interval.ms", "99", ErrorCode.INVALID_REQUEST),
        ("interval.ms", "3600001", ErrorCode.INVALID_REQUEST),
        ("interval.ms", "x", ErrorCode.INVALID_CONFIG),
        ("interval.ms", "100", ErrorCode.NONE),
        ("strange", "1", ErrorCode.INVALID_REQUEST),
        ("match", "client_id=abc.*,client_source_port=9.*", ErrorCode.NONE),
        ("match", "client_id", ErrorCode.INVALID_CONFIG),
        ("match", "colour=red", ErrorCode.INVALID_CONFIG),
        ("match", "client_id=[", ErrorCode.INVALID_CONFIG),
        ("metrics", "a,b", ErrorCode.NONE),
    ],
)
def test_client_metrics_subscriptions_are_checked(key: str, value: str, code: ErrorCode) -> None:
    """KIP-714."""
    assert incremental(topic_context(), (CLIENT_METRICS, "sub", [(key, SET, value)]))[0][0] is code


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"consumer.session.timeout.ms": "50000"}, ""),
        ({"consumer.session.timeout.ms": "60001"}, "less than or equal to group.consumer.max.session.timeout.ms"),
        ({"consumer.heartbeat.interval.ms": "4999"}, "or equal to group.consumer.min.heartbeat.interval.ms"),
        ({"share.delivery.count.limit": "11"}, "less than or equal to group.share.max.delivery.count.limit"),
        ({"share.assignment.interval.ms": "15001"}, "equal to group.share.max.assignment.interval.ms"),
        ({"streams.num.standby.replicas": "3"}, "less than or equal to group.streams.max.standby.replicas"),
        ({"share.isolation.level": "strict"}, "String must be one of"),
    ],
)
def test_group_configs_keep_to_the_brokers_limits(given: dict[str, str], text: str) -> None:
    changes: list[Change] = [(key, SET, value) for key, value in given.items()]
    ((code, message),) = incremental(topic_context(), (GROUP, "g", changes))
    assert code is (ErrorCode.INVALID_CONFIG if text else ErrorCode.NONE)
    assert text in message


def test_a_session_lasts_longer_than_a_heartbeat_interval() -> None:
    limits = {
        "group.consumer.min.session.timeout.ms": "1",
        "group.consumer.max.heartbeat.interval.ms": "60000",
    }
    context = topic_context(static_configs=limits)
    changes: list[Change] = [
        ("consumer.session.timeout.ms", SET, "6000"),
        ("consumer.heartbeat.interval.ms", SET, "6000"),
    ]
    ((code, message),) = incremental(context, (GROUP, "g", changes))
    assert code is ErrorCode.INVALID_CONFIG
    assert message == "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
