"""All config keys of Apache Kafka 4.3.1 by resource type, and the rules between keys.

The tables are parsed on first use. Resource types are the wire's numbers: TOPIC 2, BROKER 4, CLIENT_METRICS 16, GROUP
32. Source: LogConfig.validate, ClientMetricsConfigs.validate, GroupConfig.validate, ControllerConfigurationValidator.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from kraft_core.configs.config_def import ConfigDef, ConfigException, Value, parse_table, parse_type
from kraft_core.configs.config_resource import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraft_core.configs.definitions_broker import BROKER_TABLE
from kraft_core.configs.definitions_coordinator import COORDINATOR_TABLE
from kraft_core.configs.definitions_security import SECURITY_TABLE
from kraft_core.configs.definitions_topic import (
    CLIENT_METRICS_TABLE,
    GROUP_TABLE,
    TOPIC_SYNONYMS,
    TOPIC_TABLE,
)
from kraft_core.protocol.errors import ErrorCode, KafkaError

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION_ENABLE: Final = "unclean.leader.election.enable"
CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"

_TABLES: Final = {
    TOPIC: (TOPIC_TABLE,),
    BROKER: (BROKER_TABLE, SECURITY_TABLE, COORDINATOR_TABLE),
    CLIENT_METRICS: (CLIENT_METRICS_TABLE,),
    GROUP: (GROUP_TABLE,),
}
_MATCH_PARAMETERS: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


@cache
def config_def(resource_type: int) -> ConfigDef:
    """Return the keys of a resource type. Raises KeyError for a type without definitions."""
    return ConfigDef(key for table in _TABLES[resource_type] for key in parse_table(table))


def has_definitions(resource_type: int) -> bool:
    """Return whether the resource type has definitions."""
    return resource_type in _TABLES


_OF_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")
_OF_MECHANISMS: Final = ("sasl.jaas.config", "connections.max.reauth.ms")
"""Broker configs that may have a SASL mechanism's name as a prefix."""


def broker_synonyms(name: str) -> tuple[str, ...]:
    """Return the synonyms of a broker config, highest precedence first.

    Source: DynamicBrokerConfig.brokerConfigSynonyms.
    """
    if name == "log.flush.interval.ms":
        return (name, "log.flush.scheduler.interval.ms")
    for family in ("log.retention", "log.roll.jitter", "log.roll"):
        units = ("ms", "minutes", "hours") if family == "log.retention" else ("ms", "hours")
        synonyms = tuple(f"{family}.{unit}" for unit in units)
        if name in synonyms:
            return synonyms
    of_listener = _OF_LISTENER.fullmatch(name)
    if of_listener is None:
        return (name,)
    base = of_listener[1]
    return (name, next((each for each in _OF_MECHANISMS if base.endswith(each)), base))


def broker_value(name: str, configs: Mapping[str, str]) -> Value:
    """Return the parsed value of a broker config: from `configs`, else its default."""
    key = config_def(BROKER)[name]
    return parse_type(name, configs.get(name, key.default), key.type)


def convert_synonym(value: str, factor: int) -> str:
    """Convert a broker's value to the topic's unit; a negative number means unlimited and becomes -1."""
    if factor == 1:
        return value
    number = int(value)
    return "-1" if number < 0 else str(number * factor)


def default_topic_value(name: str, static_configs: Mapping[str, str]) -> str | None:
    """Return the value of a topic config that is not set, as text: from the node's configs, else the default."""
    for synonym, factor in TOPIC_SYNONYMS.get(name, ()):
        if synonym in static_configs:
            return convert_synonym(static_configs[synonym], factor)
    return config_def(TOPIC)[name].default


def validate_topic_configs(
    configs: Mapping[str, str], existing: Mapping[str, str], static_configs: Mapping[str, str]
) -> None:
    """Validate all configs of a topic together.

    Raises ConfigException (INVALID_CONFIG) for an unknown name, an invalid value, or contradictory values.
    """
    keys = config_def(TOPIC)
    for name in configs:
        if name not in keys:
            raise ConfigException(f"Unknown topic config name: {name}")
    values = {name: keys[name].parse(value) for name, value in configs.items()}

    def value_of(name: str) -> Value:
        if name in values:
            return values[name]
        return parse_type(name, default_topic_value(name, static_configs), keys[name].type)

    if not configs.keys().isdisjoint({"min.compaction.lag.ms", "max.compaction.lag.ms"}):
        low, high = _number(value_of("min.compaction.lag.ms")), _number(value_of("max.compaction.lag.ms"))
        if low > high:
            raise ConfigException(
                f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
            )
    if values.get("remote.storage.enable"):
        _validate_remote_storage({name: value_of(name) for name in _REMOTE_KEYS}, static_configs)
    elif existing.get("remote.storage.enable", "").strip().lower() == "true" and not values.get(
        "remote.log.delete.on.disable"
    ):
        raise ConfigException(
            "It is invalid to disable remote storage without deleting remote data. "
            "If you want to keep the remote data and turn to read only, please set `remote.storage.enable=true,"
            "remote.log.copy.disable=true`. If you want to disable remote storage and delete all remote data, "
            "please set `remote.storage.enable=false,remote.log.delete.on.disable=true`."
        )


_REMOTE_KEYS: Final = (
    "cleanup.policy",
    "local.retention.bytes",
    "local.retention.ms",
    "remote.log.copy.disable",
    "retention.bytes",
    "retention.ms",
)


def _validate_remote_storage(values: Mapping[str, Value], static_configs: Mapping[str, str]) -> None:
    if static_configs.get("remote.log.storage.system.enable", "false").strip().lower() != "true":
        raise ConfigException(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log "
            "storage."
        )
    if values["cleanup.policy"] not in {(), ("delete",)}:
        raise ConfigException(
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
        )
    for unit in ("bytes", "ms"):
        total, local = _number(values[f"retention.{unit}"]), _number(values[f"local.retention.{unit}"])
        prefix = f"Invalid value {local} for configuration local.retention.{unit}: "
        if total > -1 and local != -2:
            if local == -1:
                raise ConfigException(f"{prefix}Value must not be -1 as retention.{unit} value is set as {total}.")
            if local > total:
                raise ConfigException(f"{prefix}Value must not be more than retention.{unit} property value: {total}")
        if values["remote.log.copy.disable"] and local not in {-2, total}:
            raise ConfigException(
                f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and "
                f"`retention.{unit}` must "
                f"be set to the identical value because there will be no more logs copied to the remote storage."
            )


def validate_client_metrics_configs(name: str, configs: Mapping[str, str]) -> None:
    """Validate a client-metrics subscription (KIP-714).

    Raises KafkaError INVALID_REQUEST for a missing name, an unknown key or an interval outside 100 to 3600000 ms, and
    ConfigException for a wrong type or an invalid match pattern.
    """
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    keys = config_def(CLIENT_METRICS)
    for key in configs:
        if key not in keys:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
    values = {key: keys[key].parse(value) for key, value in configs.items()}
    interval = values.get("interval.ms")
    if interval is not None and not 100 <= _number(interval) <= 3_600_000:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        )
    patterns = values.get("match") or ()
    assert isinstance(patterns, tuple)
    for pattern in patterns:
        parameter, _, expression = pattern.partition("=")
        if parameter.strip() not in _MATCH_PARAMETERS or not expression or "=" in expression:
            raise ConfigException(f"Illegal client matching pattern: {pattern}")
        try:
            re.compile(expression.strip())
        except re.error:
            raise ConfigException(f"Illegal client matching pattern: {pattern}") from None


_GROUP_LIMITS: Final = (
    ("consumer", "heartbeat.interval.ms"),
    ("consumer", "session.timeout.ms"),
    ("consumer", "assignment.interval.ms"),
    ("share", "heartbeat.interval.ms"),
    ("share", "session.timeout.ms"),
    ("share", "record.lock.duration.ms"),
    ("share", "delivery.count.limit"),
    ("share", "partition.max.record.locks"),
    ("share", "assignment.interval.ms"),
    ("streams", "heartbeat.interval.ms"),
    ("streams", "session.timeout.ms"),
    ("streams", "assignment.interval.ms"),
)


def validate_group_configs(configs: Mapping[str, str], static_configs: Mapping[str, str]) -> None:
    """Validate the configs of a group against their types and the broker's limits for groups.

    An assignment interval is checked only if it is set; the others are checked with their defaults. Raises
    ConfigException.
    """
    keys = config_def(GROUP)
    for name in configs:
        if name not in keys:
            raise ConfigException(f"Unknown group config name: {name}")
    given = {name: keys[name].parse(value) for name, value in configs.items()}

    def value_of(name: str) -> float:
        return _number(given[name] if name in given else keys.default_value(name))

    for kind, name in _GROUP_LIMITS:
        config = f"{kind}.{name}"
        if name == "assignment.interval.ms" and config not in given:
            continue
        low, high = f"group.{kind}.min.{name}", f"group.{kind}.max.{name}"
        if value_of(config) < _number(broker_value(low, static_configs)):
            raise ConfigException(f"{config} must be greater than or equal to {low}")
        if value_of(config) > _number(broker_value(high, static_configs)):
            raise ConfigException(f"{config} must be less than or equal to {high}")
    standby = "group.streams.max.standby.replicas"
    if value_of("streams.num.standby.replicas") > _number(broker_value(standby, static_configs)):
        raise ConfigException(f"streams.num.standby.replicas must be less than or equal to {standby}")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if value_of(session) <= value_of(heartbeat):
            raise ConfigException(f"{session} must be greater than {heartbeat}")


def _number(value: Value) -> float:
    assert isinstance(value, int | float)
    return value
