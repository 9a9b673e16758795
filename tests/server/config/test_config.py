"""server.properties: types, defaults and errors are Kafka's; an error is one line with key, value and the rule."""

import logging
from pathlib import Path

import pytest

from kraft_core.configs.config_def import ConfigType, Value
from kraft_core.server.config.kafka_config import ConfigError, KafkaConfig, Listener, Voter
from kraft_core.server.config.server_properties import definitions, parse_value
from kraft_core.server.config.settings import Setting, Settings
from kraft_core.server.network.listener_limits import SocketServerLimits
from kraft_core.server.node_config import socket_limits

CONTROLLER = {
    "process.roles": "controller",
    "node.id": "3",
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
    "log.dirs": "/data",
}
COMBINED = CONTROLLER | {
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
}
BROKER = CONTROLLER | {"process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:9092"}


def refusal(properties: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        KafkaConfig(properties)
    message = str(caught.value)
    assert "\n" not in message
    return message


def without(properties: dict[str, str], key: str) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name != key}


def test_settings_not_given_have_kafkas_defaults() -> None:
    config = KafkaConfig(CONTROLLER)
    assert config.controller_quorum_election_timeout_ms == 1000
    assert config.broker_session_timeout_ms == 9000
    assert config.socket_request_max_bytes == 104_857_600
    assert config.log_retention_ms == 7 * 24 * 3_600_000
    assert config.log_roll_ms == 7 * 24 * 3_600_000
    assert config.values["log.cleanup.policy"] == ("delete",)
    assert config.metadata_log_dir == Path("/data")
    assert config.broker_rack is None


def test_limits_that_kafka_lacks_by_default_have_a_default() -> None:
    defaults = SocketServerLimits()
    assert socket_limits(KafkaConfig(CONTROLLER)) == defaults
    given = {"queued.max.request.bytes": "104857600", "connections.max.idle.ms": "900"}
    limits = socket_limits(KafkaConfig(CONTROLLER | given))
    assert (limits.max_queued_bytes, limits.connections_max_idle_ms) == (104_857_600, 900)


def test_every_default_passes_its_own_definition() -> None:
    for definition in definitions().values():
        if not definition.is_required:
            parse_value(definition, None)


def test_every_typed_attribute_has_the_type_of_its_definition() -> None:
    expected: dict[ConfigType, type] = {
        ConfigType.SHORT: int,
        ConfigType.INT: int,
        ConfigType.LONG: int,
        ConfigType.DOUBLE: float,
        ConfigType.BOOLEAN: bool,
        ConfigType.STRING: str,
        ConfigType.LIST: tuple,
        ConfigType.PASSWORD: str,
    }
    checked = 0
    for attribute in vars(Settings).values():
        if isinstance(attribute, Setting):
            definition = definitions()[attribute.key]
            written = str(attribute.__orig_class__.__args__[0])  # type: ignore[attr-defined]  # set at run time
            assert expected[definition.type].__name__ in written, attribute.key
            assert ("None" in written) == (definition.default is None and not definition.is_required), attribute.key
            checked += 1
    assert checked > 50


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("node.id", "three", ["node.id", "three", "INT"]),
        ("node.id", "-1", ["node.id", "-1", "at least 0"]),
        ("node.id", "99999999999", ["node.id", "99999999999", "INT"]),
        ("process.roles", "zookeeper", ["process.roles", "zookeeper", "broker", "controller"]),
        ("process.roles", "", ["process.roles"]),
        ("delete.topic.enable", "yes", ["delete.topic.enable", "yes", "true or false"]),
        ("log.message.timestamp.type", "Now", ["log.message.timestamp.type", "Now", "CreateTime, LogAppendTime"]),
        ("log.cleaner.min.cleanable.ratio", "1.5", ["log.cleaner.min.cleanable.ratio", "1.5", "no more than 1"]),
        ("compression.gzip.level", "0", ["compression.gzip.level", "0", "between 1 and 9"]),
        ("metadata.log.segment.bytes", "4096", ["metadata.log.segment.bytes", "4096", "8388608"]),
        ("listeners", "CONTROLLER//:9093", ["listeners", "CONTROLLER//:9093", "NAME://host:port"]),
        ("listeners", "CONTROLLER://:99999", ["listeners", "99999", "NAME://host:port"]),
        ("listeners", "CONTROLLER://:9093,OTHER://:9094", ["OTHER", "listener.security.protocol.map"]),
        ("listeners", "PLAINTEXT://:9093", ["controller.listener.names", "listeners"]),
        ("controller.quorum.bootstrap.servers", "nowhere", ["controller.quorum.bootstrap.servers", "nowhere", "port"]),
        ("controller.quorum.voters", "3:localhost:9093", ["controller.quorum.voters", "{id}@{host}:{port}"]),
        ("controller.quorum.voters", "1@localhost:9093", ["node id 3", "controller.quorum.voters"]),
        ("log.dirs", "", ["log.dirs"]),
        ("create.topic.policy.class.name", "org.example.P", ["create.topic.policy.class.name", "not supported"]),
        (
            "authorizer.class.name",
            "org.example.Acl",
            ["authorizer.class.name", "org.example.Acl", "StandardAuthorizer"],
        ),
        ("listener.security.protocol.map", "CONTROLLER:PLAIN", ["listener.security.protocol.map", "PLAIN", "SASL_SSL"]),
        ("group.coordinator.rebalance.protocols", "consumer", ["classic"]),
    ],
)
def test_a_wrong_value_is_refused_naming_key_value_and_what_is_allowed(key: str, value: str, words: list[str]) -> None:
    message = refusal(CONTROLLER | {key: value})
    for word in words:
        assert word in message


@pytest.mark.parametrize("key", ["process.roles", "node.id", "controller.listener.names"])
def test_a_missing_required_setting_is_named(key: str) -> None:
    assert f'"{key}"' in refusal(without(CONTROLLER, key))


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        ("SSL", ["ssl.keystore.location", "a listener with TLS needs a key store"]),
        ("SASL_SSL", ["ssl.keystore.location", "a listener with TLS needs a key store"]),
        ("SASL_PLAINTEXT", ["GSSAPI", "sasl.enabled.mechanisms", "SCRAM-SHA-512"]),
    ],
)
def test_a_secured_listener_without_the_settings_for_it_is_refused(protocol: str, words: list[str]) -> None:
    message = refusal(CONTROLLER | {"listener.security.protocol.map": f"CONTROLLER:{protocol}"})
    for word in words:
        assert word in message


def test_a_broker_needs_a_login_for_a_quorum_that_asks_for_one() -> None:
    message = refusal(BROKER | {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"})
    assert "sasl.mechanism.controller.protocol" in message
    assert "GSSAPI" in message


def test_a_secret_is_never_shown() -> None:
    config = KafkaConfig(CONTROLLER | {"ssl.key.password": "hunter2"})
    assert "hunter2" not in repr(config.public_values())
    assert config.public_values()["ssl.key.password"] == "[hidden]"


def test_a_port_of_two_listeners_is_refused_unless_they_are_of_two_ip_versions() -> None:
    assert "different port" in refusal(COMBINED | {"listeners": "PLAINTEXT://:9093,CONTROLLER://:9093"})
    both = KafkaConfig(COMBINED | {"listeners": "PLAINTEXT://127.0.0.1:9093,CONTROLLER://[::1]:9093"})
    assert both.controller_listeners[0].host == "::1"
    assert str(both.controller_listeners[0]) == "CONTROLLER://[::1]:9093"


def test_listeners_are_split_by_role_and_advertised() -> None:
    config = KafkaConfig(
        COMBINED | {"advertised.listeners": "PLAINTEXT://broker.example:19092,CONTROLLER://quorum.example:19093"}
    )
    assert config.broker_listeners == (Listener("PLAINTEXT", "PLAINTEXT", "", 9092),)
    assert config.controller_listeners == (Listener("CONTROLLER", "PLAINTEXT", "", 9093),)
    assert config.advertised_broker_listeners[0].host == "broker.example"
    assert config.advertised_controller_listeners[0].port == 19093


def test_a_wildcard_controller_listener_is_advertised_as_the_static_voter() -> None:
    config = KafkaConfig(
        without(COMBINED, "controller.quorum.bootstrap.servers")
        | {"controller.quorum.voters": "3@one.example:9093,4@two.example:9093"}
    )
    assert config.controller_quorum_voters[1] == Voter(4, "two.example", 9093)
    assert config.advertised_controller_listeners[0].host == "one.example"


def test_an_unroutable_address_is_never_advertised_to_clients() -> None:
    assert "0.0.0.0" in refusal(COMBINED | {"listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093"})


@pytest.mark.parametrize(
    "voters", ["3", "3@host", "@host:1", "3@:1", "x@host:1", "³@host:1", "3@host:70000", "3@a:1,3@b:2"]
)
def test_wrong_static_voters_are_named(voters: str) -> None:
    assert "controller.quorum.voters" in refusal(CONTROLLER | {"controller.quorum.voters": voters})


def test_a_broker_only_node_must_not_be_a_voter_nor_listen_as_a_controller() -> None:
    assert "must not be included" in refusal(BROKER | {"controller.quorum.voters": "3@localhost:9093"})
    assert "controller.listener.names" in refusal(BROKER | {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"})
    assert "auto.join" in refusal(BROKER | {"controller.quorum.auto.join.enable": "true"})


def test_a_node_without_a_way_to_the_quorum_is_refused() -> None:
    assert "controller.quorum.bootstrap.servers" in refusal(without(CONTROLLER, "controller.quorum.bootstrap.servers"))


def test_broker_id_stands_for_node_id_but_may_not_differ() -> None:
    assert KafkaConfig(without(CONTROLLER, "node.id") | {"broker.id": "7"}).node_id == 7
    assert "broker.id" in refusal(CONTROLLER | {"broker.id": "7"})


@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.minutes": "2", "log.retention.ms": "5"}, 5),
        ({"log.retention.ms": "-1"}, -1),
    ],
)
def test_the_finer_unit_of_a_retention_time_wins(given: dict[str, str], retention_ms: int) -> None:
    assert KafkaConfig(CONTROLLER | given).log_retention_ms == retention_ms


def test_an_unknown_key_is_warned_of_once_and_does_not_stop_the_node(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "server.properties"
    lines = [f"{key}={value}" for key, value in CONTROLLER.items()]
    path.write_text("\n".join([*lines, f"no.such.key.{tmp_path.name}=1", "listener.name.controller.ssl.x=y"]))
    with caplog.at_level(logging.WARNING):
        assert KafkaConfig.load(path).node_id == 3
        KafkaConfig.load(path)
    assert [record.__dict__["key"] for record in caplog.records] == [f"no.such.key.{tmp_path.name}"]


def test_an_unreadable_file_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Cannot read the properties file .*No such file"):
        KafkaConfig.load(tmp_path / "absent")


def test_values_keep_the_types_of_the_table() -> None:
    values: dict[str, Value] = dict(KafkaConfig(CONTROLLER | {"log.segment.bytes": "+2000000"}).values)
    assert values["log.segment.bytes"] == 2_000_000
    assert values["log.cleaner.enable"] is True
    assert len(values) > 300
