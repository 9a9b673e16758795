"""Our config definitions against those of Apache Kafka 4.3.1 (tests/golden/config_definitions.txt.gz)."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

import pytest

from kraft_core.configs.config_def import ConfigException, ConfigKey, ConfigType, UpdateMode, parse_type
from kraft_core.configs.config_resource import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraft_core.configs.definitions import broker_synonyms, broker_value, config_def, convert_synonym
from kraft_core.configs.definitions_topic import TOPIC_SYNONYMS, group_synonym
from kraft_core.configs.effective_config import normalize
from kraft_core.configs.supported_configs import is_supported_config, supported_configs

GOLDEN = Path(__file__).parents[1] / "golden" / "config_definitions.txt.gz"
KINDS = {"broker": BROKER, "topic": TOPIC, "client-metrics": CLIENT_METRICS, "group": GROUP}
MODES = {"ro": UpdateMode.READ_ONLY, "pb": UpdateMode.PER_BROKER, "cw": UpdateMode.CLUSTER_WIDE}


@cache
def golden(tag: str) -> list[list[str]]:
    lines = gzip.decompress(GOLDEN.read_bytes()).decode().split("\n")
    rows = [line.split("\t") for line in lines if line]
    return [row[1:] for row in rows if row[0] == tag]


def test_an_image_holds_the_configs_that_are_defined_and_those_of_plugins_of_brokers() -> None:
    assert is_supported_config(TOPIC, "retention.ms")
    assert not is_supported_config(TOPIC, "message.format.version")
    assert is_supported_config(BROKER, "key.of.a.plugin")
    assert not is_supported_config(3, "retention.ms")
    assert supported_configs(GROUP) == set(config_def(GROUP))


def keys_of(kind: str) -> dict[str, ConfigKey]:
    return dict(config_def(KINDS[kind]))


@pytest.mark.parametrize("kind", KINDS)
def test_the_names_are_kafkas(kind: str) -> None:
    assert sorted(keys_of(kind)) == [row[1] for row in golden("K") if row[0] == kind]


@pytest.mark.parametrize("kind", KINDS)
def test_type_default_importance_valid_values_and_update_mode_are_kafkas(kind: str) -> None:
    keys = keys_of(kind)
    for _, name, type_name, default, importance, valid, internal, mode in (r for r in golden("K") if r[0] == kind):
        key = keys[name]
        expected = None if default in {"\\N", "\\R"} else default
        ours = (
            key.type,
            normalize(key, key.default),
            key.is_required,
            key.importance,
            key.is_internal,
            key.update_mode,
        )
        theirs = (
            ConfigType[type_name],
            expected,
            default == "\\R",
            importance,
            internal == "true",
            MODES[mode],
        )
        assert ours == theirs, name
        if name not in {
            "controller.quorum.voters",
            "controller.quorum.bootstrap.servers",
        }:  # the raft settings check these
            assert key.valid_values == valid, name


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_values_are_allowed_and_refused_as_by_kafka(kind: str) -> None:
    (values,) = golden("X")
    assert len(values) == 76
    wrong = []
    keys = keys_of(kind)
    for _, name, verdicts in (row for row in golden("V") if row[0] == kind):
        if name in {"controller.quorum.voters", "controller.quorum.bootstrap.servers"}:
            continue
        for value, verdict in zip(values, verdicts, strict=True):
            if is_allowed(keys[name], value) != (verdict == "1"):
                wrong.append((name, value, verdict))
    assert wrong == []


def is_allowed(key: ConfigKey, value: str) -> bool:
    try:
        key.parse(value)
    except ConfigException:
        return False
    return True


def test_topics_and_groups_fall_back_on_kafkas_broker_settings() -> None:
    theirs = {row[1]: tuple(row[2:]) for row in golden("S") if row[0] == "topic"}
    ours = {
        name: tuple(f"{synonym}*{convert_synonym('1', factor)}" for synonym, factor in synonyms)
        for name, synonyms in TOPIC_SYNONYMS.items()
    }
    assert ours == theirs
    groups = {row[1]: row[2] for row in golden("S") if row[0] == "group"}
    assert {name: f"{group_synonym(name)}*1" for name in keys_of("group") if group_synonym(name)} == groups


def test_synonyms_of_broker_configs_are_kafkas() -> None:
    theirs = {row[0]: tuple(row[1:]) for row in golden("B")}
    ours = {name: broker_synonyms(name) for name in keys_of("broker") if len(broker_synonyms(name)) > 1}
    assert ours == theirs


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_has_a_description(kind: str) -> None:
    for name, key in keys_of(kind).items():
        assert key.documentation[:1].isupper(), name
        assert key.documentation.endswith("."), name


def test_every_default_is_allowed_by_its_own_rules() -> None:
    for kind in KINDS:
        for key in keys_of(kind).values():
            if key.default is not None:
                key.parse(key.default)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("1", "1.0"), ("0.50", "0.5"), ("1e7", "1.0E7"), ("0.0001", "1.0E-4"), ("12345678", "1.2345678E7")],
)
def test_doubles_are_shown_as_java_shows_them(text: str, shown: str) -> None:
    assert normalize(config_def(BROKER)["log.cleaner.io.max.bytes.per.second"], text) == shown


def test_synonyms_of_unlimited_stay_unlimited() -> None:
    assert convert_synonym("-1", 3_600_000) == "-1"
    assert convert_synonym("168", 3_600_000) == "604800000"
    assert convert_synonym("delete", 1) == "delete"


def test_values_are_parsed_and_null_stays_null() -> None:
    assert parse_type("x", None, ConfigType.LONG) is None
    assert parse_type("x", " a , b ", ConfigType.LIST) == ("a", "b")
    assert parse_type("x", " FALSE ", ConfigType.BOOLEAN) is False
    assert broker_value("log.retention.hours", {}) == 168
    assert broker_value("log.retention.hours", {"log.retention.hours": "5"}) == 5


def test_secrets_are_sensitive() -> None:
    sensitive = {name for name, key in keys_of("broker").items() if key.is_sensitive}
    assert {"ssl.key.password", "sasl.jaas.config", "delegation.token.secret.key"} <= sensitive
    assert "ssl.keystore.location" not in sensitive
