"""Effective values of configs, their sources, and DescribeConfigs."""

from __future__ import annotations

from typing import Any

import pytest

from kraft_core.configs.config_def import ConfigType
from kraft_core.configs.config_resource import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraft_core.configs.describe_configs import describe_configs
from kraft_core.configs.effective_config import (
    ConfigSource,
    NodeConfigs,
    broker_entries,
    default_broker_entries,
    topic_config,
    topic_entries,
)
from kraft_core.controller.access.request_access import RequestAccess
from kraft_core.protocol import messages as m
from kraft_core.protocol.errors import ErrorCode, KafkaError
from tests.controller.partitions.replication_context import ReplicationContext


def test_a_topics_value_comes_from_topic_node_cluster_file_and_default_in_this_order() -> None:
    context = ReplicationContext()
    context.create_assigned("foo", (0,))
    static = {"log.retention.hours": "1"}

    def retention(node_id: int | None, static: dict[str, str]) -> str | None:
        configs = context.image.configs
        return topic_config("retention.ms", configs.of(TOPIC, "foo"), NodeConfigs.of(configs, node_id, static))

    assert retention(None, {}) == "604800000"
    assert retention(0, static) == "3600000"
    context.set_config(BROKER, "", "log.retention.minutes", "2")
    assert retention(0, static) == "120000"
    context.set_config(BROKER, "0", "log.retention.ms", "3")
    assert retention(0, static) == "3"
    context.set_config(TOPIC, "foo", "retention.ms", "4")
    assert retention(0, static) == "4"


def test_the_first_synonym_wins_within_one_place() -> None:
    nodes = NodeConfigs(cluster={"log.retention.hours": "1", "log.retention.minutes": "1"})
    entry = next(entry for entry in topic_entries({}, nodes) if entry.name == "retention.ms")
    assert (entry.value, entry.source) == ("60000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)


def test_synonyms_name_every_place_strongest_first() -> None:
    nodes = NodeConfigs(
        node={"compression.type": "lz4"}, cluster={"compression.type": "zstd"}, static={"compression.type": "gzip"}
    )
    entry = next(
        entry for entry in topic_entries({"compression.type": "snappy"}, nodes) if entry.name == "compression.type"
    )
    assert entry.value == "snappy"
    assert [(synonym.value, synonym.source) for synonym in entry.synonyms] == [
        ("snappy", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        ("lz4", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("zstd", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("gzip", ConfigSource.STATIC_BROKER_CONFIG),
        ("producer", ConfigSource.DEFAULT_CONFIG),
    ]


def test_a_weaker_setting_is_no_synonym_while_the_named_one_is_not_set() -> None:
    """Kafka begins the list at the setting's own name, and log.retention.ms has no default."""
    entry = next(entry for entry in topic_entries({}, NodeConfigs()) if entry.name == "retention.ms")
    assert (entry.value, entry.synonyms) == ("604800000", ())


def test_internal_configs_are_listed_only_when_set() -> None:
    def names(own: dict[str, str]) -> set[str]:
        return {entry.name for entry in topic_entries(own, NodeConfigs())}

    assert "internal.segment.bytes" not in names({})
    assert "internal.segment.bytes" in names({"internal.segment.bytes": "100"})
    internal = "server.max.startup.time.ms"
    assert internal not in {entry.name for entry in broker_entries(NodeConfigs())}
    assert internal in {entry.name for entry in broker_entries(NodeConfigs(static={internal: "1"}))}


def test_secrets_and_unknown_settings_are_never_shown() -> None:
    static = {"ssl.key.password": "hunter2", "custom.plugin.token": "hunter3", "num.io.threads": " 9 "}
    entries = {entry.name: entry for entry in broker_entries(NodeConfigs(static=static))}
    assert entries["num.io.threads"].value == "9"
    for name in ("ssl.key.password", "custom.plugin.token"):
        assert entries[name].is_sensitive
        assert entries[name].value is None
        assert all(synonym.value is None for synonym in entries[name].synonyms)
    assert "hunter" not in repr([entry.synonyms for entry in entries.values()])


def test_a_listeners_form_of_a_config_has_the_configs_type() -> None:
    """DynamicBrokerConfig.brokerConfigSynonyms."""
    static = {
        "listener.name.client.ssl.client.auth": "required",
        "listener.name.client.plain.sasl.jaas.config": "secret",
        "listener.name.client.no.such.setting": "secret",
        "plain.sasl.jaas.config": "secret",
    }
    entries = {entry.name: entry for entry in broker_entries(NodeConfigs(static=static))}
    auth = entries["listener.name.client.ssl.client.auth"]
    assert (auth.value, auth.is_sensitive, auth.is_read_only, auth.documentation) == ("required", False, True, "")
    assert [(each.name, each.value) for each in auth.synonyms] == [(auth.name, "required"), ("ssl.client.auth", "none")]
    assert auth.type is ConfigType.STRING
    for name in list(static)[1:]:
        assert (entries[name].value, entries[name].is_sensitive) == (None, True)
    assert entries["listener.name.client.plain.sasl.jaas.config"].type is ConfigType.PASSWORD
    assert entries["plain.sasl.jaas.config"].type is None


def test_only_what_can_change_at_run_time_is_not_read_only() -> None:
    entries = {entry.name: entry for entry in broker_entries(NodeConfigs())}
    assert entries["node.id"].is_read_only
    assert not entries["log.retention.ms"].is_read_only
    assert not entries["ssl.keystore.location"].is_read_only


def test_the_default_broker_lists_the_configs_set_for_all() -> None:
    nodes = NodeConfigs(node={"a": "1"}, cluster={"log.retention.ms": "5"})
    (entry,) = default_broker_entries(nodes)
    assert (entry.name, entry.value, entry.source) == (
        "log.retention.ms",
        "5",
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    )


def describe(context: ReplicationContext, kind: int, name: str, **extra: Any) -> Any:
    keys = extra.pop("keys", None)
    access = extra.pop("access", RequestAccess())
    request = m.DescribeConfigsRequest(
        resources=(
            m.DescribeConfigsRequestDescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=keys
            ),
        ),
        **extra,
    )
    image = context.image
    may_describe = access.may_describe_configs_of
    static = {"node.id": "0"}
    return describe_configs(
        image.configs, image.topics.by_name, request, node_id=0, static_configs=static, may_describe=may_describe
    ).results[0]


def described_context() -> ReplicationContext:
    context = ReplicationContext()
    context.create_assigned("foo", (0,), configs={"retention.ms": "5"})
    context.set_config(GROUP, "g", "consumer.session.timeout.ms", "50000")
    context.set_config(CLIENT_METRICS, "sub", "interval.ms", "1000")
    context.set_config(BROKER, "0", "log.retention.ms", "7")
    return context


def test_describing_a_topic_lists_all_or_the_requested_keys() -> None:
    context = described_context()
    result = describe(context, TOPIC, "foo")
    assert (result.error_code, len(result.configs)) == (0, 33)
    (only,) = describe(context, TOPIC, "foo", keys=("retention.ms", "absent"), include_documentation=True).configs
    assert (only.name, only.value, only.config_source, only.config_type) == ("retention.ms", "5", 1, 5)
    assert only.synonyms == ()
    assert "ms" in str(only.documentation)
    (with_synonyms,) = describe(context, TOPIC, "foo", keys=("retention.ms",), include_synonyms=True).configs
    assert [(each.name, each.value, each.source) for each in with_synonyms.synonyms] == [
        ("retention.ms", "5", 1),
        ("log.retention.ms", "7", 2),
        ("log.retention.hours", "168", 5),
    ]
    assert with_synonyms.documentation is None


@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "source"),
    [
        (GROUP, "g", "consumer.session.timeout.ms", "50000", ConfigSource.GROUP_CONFIG),
        (GROUP, "other", "consumer.session.timeout.ms", "45000", ConfigSource.DEFAULT_CONFIG),
        (CLIENT_METRICS, "sub", "interval.ms", "1000", ConfigSource.CLIENT_METRICS_CONFIG),
        (CLIENT_METRICS, "other", "interval.ms", "300000", ConfigSource.DEFAULT_CONFIG),
        (BROKER, "0", "log.retention.ms", "7", ConfigSource.DYNAMIC_BROKER_CONFIG),
        (BROKER, "0", "node.id", "0", ConfigSource.STATIC_BROKER_CONFIG),
        (BROKER, "0", "num.partitions", "1", ConfigSource.DEFAULT_CONFIG),
    ],
)
def test_each_kind_of_resource_is_described(kind: int, name: str, key: str, value: str, source: ConfigSource) -> None:
    (config,) = describe(described_context(), kind, name, keys=(key,)).configs
    assert (config.value, config.config_source) == (value, source)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "1", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (8, "", ErrorCode.INVALID_REQUEST),
    ],
)
def test_resources_that_cannot_be_described_get_an_error(kind: int, name: str, code: ErrorCode) -> None:
    result = describe(described_context(), kind, name)
    assert (ErrorCode(result.error_code), result.configs) == (code, ())


def test_a_request_with_an_unknown_type_is_refused_as_a_whole() -> None:
    """ConfigHelper throws; a request for two resources gets neither."""
    with pytest.raises(KafkaError) as refused:
        describe(described_context(), 99, "x")
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_an_unauthorized_describe_gets_the_error_of_the_resource() -> None:
    context = described_context()
    nobody = RequestAccess(may_describe_configs_of=lambda _kind, _name: False)
    assert describe(context, TOPIC, "foo", access=nobody).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert describe(context, BROKER, "0", access=nobody).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
