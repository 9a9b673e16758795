"""Validation across settings: roles, listeners, the quorum, times, and unsupported settings.

Source: KafkaConfig.validateValues, Kafka 4.3.1.
"""

import logging
from typing import Final

from kraft_core.server.config.abstract_kafka_config import AbstractKafkaConfig
from kraft_core.server.config.listeners import NON_ROUTABLE_HOST
from kraft_core.server.config.server_properties import ConfigError

log = logging.getLogger(__name__)


def _require(condition: object, message: str) -> None:
    if not condition:
        raise ConfigError(message)


def validate(config: AbstractKafkaConfig) -> None:
    """Raise ConfigError for settings that contradict each other or are not supported."""
    values = config.values
    _require(values["node.id"] == values["broker.id"], "You must set `node.id` to the same value as `broker.id`.")
    _require(config.process_roles, 'Missing required configuration "process.roles": it names no role.')
    _require(config.log_dirs, "At least one log directory must be defined via log.dirs or log.dir.")
    _validate_supported(config)
    _validate_quorum(config)
    _validate_listeners(config)
    _validate_times(config)


UNSUPPORTED_CLASSES: Final = (
    "alter.config.policy.class.name",
    "client.quota.callback.class",
    "create.topic.policy.class.name",
)
"""Keys of Java classes that restrict what clients may do; to ignore them would silently allow more."""


def _validate_supported(config: AbstractKafkaConfig) -> None:
    """Refuse settings whose absence would make the cluster less safe than its file says."""
    authorizer = config.values["authorizer.class.name"]
    _require(
        not (authorizer and config.is_broker),
        f"Invalid value {authorizer} for configuration authorizer.class.name: the broker of this version checks no "
        "ACLs; an authorizer is for nodes whose process.roles is controller",
    )
    for key in UNSUPPORTED_CLASSES:
        value = config.originals.get(key, "")
        _require(
            not value, f"Invalid value {value} for configuration {key}: not supported in this version, leave it out"
        )


def _validate_quorum(config: AbstractKafkaConfig) -> None:
    voter_ids = {voter.id for voter in config.controller_quorum_voters}
    roles = config.process_roles
    _require(
        voter_ids or config.controller_quorum_bootstrap_servers,
        "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap "
        "controllers or controller.quorum.voters must contain a parseable set of controllers.",
    )
    _require(config.controller_listener_names, "controller.listener.names must contain at least one value")
    if config.is_controller:
        _require(
            not voter_ids or config.node_id in voter_ids,
            f"If process.roles contains the 'controller' role, the node id {config.node_id} must be included in the "
            f"set of voters controller.quorum.voters={sorted(voter_ids)}",
        )
    else:
        _require(
            config.node_id not in voter_ids,
            f"If process.roles contains just the 'broker' role, the node id {config.node_id} must not be included in "
            f"the set of voters controller.quorum.voters={sorted(voter_ids)}",
        )
        _require(
            not config.controller_quorum_auto_join_enable,
            "controller.quorum.auto.join.enable is only supported when process.roles contains the 'controller' role.",
        )
    assert roles <= {"broker", "controller"}, "the table allows no other role"


def _validate_listeners(config: AbstractKafkaConfig) -> None:
    names = {listener.name for listener in config.listeners}
    controller_names = [name.upper() for name in config.controller_listener_names]
    if config.is_controller:
        _require(
            config.advertised_controller_listeners,
            "controller.listener.names must contain at least one value appearing in the 'listeners' configuration when "
            "running the KRaft controller role",
        )
        _require(
            set(controller_names) <= names,
            "controller.listener.names must only contain values appearing in the 'listeners' configuration when "
            "running the KRaft controller role",
        )
        _require(
            config.is_broker or not config.broker_listeners,
            "The listeners config must only contain KRaft controller listeners from controller.listener.names when "
            "process.roles=controller",
        )
    else:
        _require(
            not config.controller_listeners,
            "controller.listener.names must not contain a value appearing in the 'listeners' configuration when "
            "running KRaft with just the broker role",
        )
        for name in controller_names:
            _require(
                name in config.listener_security_protocol_map,
                f"Controller listener with name {name} defined in controller.listener.names not found in "
                "listener.security.protocol.map",
            )
    if config.is_broker:
        advertised = [listener.name for listener in config.advertised_broker_listeners]
        _require(advertised, "There must be at least one broker advertised listener.")
        _require(
            config.inter_broker_listener_name in advertised,
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options "
            f"based on currently configured listeners are {','.join(advertised)}",
        )
        _require(
            set(advertised) <= names,
            "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. "
            f"Found {','.join(advertised)}. "
            f"The valid options based on the current configuration are {','.join(sorted(names))}",
        )
    for listener in (*config.advertised_broker_listeners, *config.advertised_controller_listeners):
        _require(
            listener.host != NON_ROUTABLE_HOST,
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
        )


def _validate_times(config: AbstractKafkaConfig) -> None:
    values = config.values
    _require(config.log_roll_ms >= 1, "log.roll.ms must be greater than or equal to 1")
    _require(
        config.log_retention_ms >= 1 or config.log_retention_ms == -1,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    _require(
        config.replica_fetch_wait_max_ms <= config.replica_socket_timeout_ms,
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary "
        "socket timeouts",
    )
    _require(
        config.replica_fetch_wait_max_ms <= config.replica_lag_time_max_ms,
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent "
        "changes in ISR",
    )
    if config.broker_heartbeat_interval_ms * 2 > config.broker_session_timeout_ms:
        log.error(
            "heartbeat_interval_too_long",
            extra={
                "broker.heartbeat.interval.ms": config.broker_heartbeat_interval_ms,
                "broker.session.timeout.ms": config.broker_session_timeout_ms,
            },
        )
    _require(
        config.queued_max_request_bytes <= 0 or config.queued_max_request_bytes >= config.socket_request_max_bytes,
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    protocols = values["group.coordinator.rebalance.protocols"]
    assert isinstance(protocols, tuple)
    _require("classic" in protocols, "Disabling the 'classic' protocol is not supported.")
