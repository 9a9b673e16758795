"""Dynamic configs: who may set what to what, and the records that do it.

Topic, client-metrics and group configs are checked in full here. Of broker configs only the name of the resource is
checked, because the broker itself validates what it applies; and they are recorded again even when unchanged, because a
new record makes the broker read its key files once more (KAFKA-14136).

With eligible leader replicas on, min.insync.replicas must exist for the cluster and may not differ between brokers, and a
change of it empties the eligible replicas it concerns (ClearElrRecord).

Source: ConfigurationControlManager, ControllerConfigurationValidator, Kafka 4.3.1.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kraft_core.controller.config_def import ConfigException, ConfigType
from kraft_core.controller.config_definitions import (
    CORDONED_LOG_DIRS,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
    config_def,
    default_topic_value,
    has_definitions,
    validate_client_metrics_configs,
    validate_group_configs,
    validate_topic_configs,
)
from kraft_core.controller.effective_config import ConfigEntry, NodeConfigs, topic_config, topic_entries
from kraft_core.controller.topic_names import validate_topic_name
from kraft_core.image.metadata_image import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.metadata_records import ClearElrRecord, ConfigRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kraft_core.controller.controller_config import ControllerConfig
    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.protocol.metadata_records import MetadataRecord

BROKER_LOGGER: Final = 8
SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3
_OPERATION_NAMES: Final = {APPEND: "APPEND", SUBTRACT: "SUBTRACT"}

METADATA_VERSION_4_3_IV0: Final = 30  # cordoned log directories (KIP-1066)
CONFIG_VALUE_BYTES_MAX: Final = 2**15 - 1
_COMMA: Final = re.compile(r"\s*,\s*")
_CACHED_ENTRY_SETS_MAX: Final = 256

Operations = dict[str, tuple[int, str | None]]


class ConfigurationControlManager:
    """Judges config changes against an image. It keeps nothing but a cache of listings that images can rebuild."""

    def __init__(self, config: ControllerConfig) -> None:
        self._config = config
        self._entries: dict[frozenset[tuple[str, str]], tuple[ConfigEntry, ...]] = {}
        self._nodes = NodeConfigs(static=config.static_configs)

    def node_configs(self, image: MetadataImage) -> NodeConfigs:
        """Return the broker settings that this controller applies; the same object as long as they are the same."""
        configs = image.configs
        node, cluster = configs.of(BROKER, str(self._config.node_id)), configs.of(BROKER, "")
        if self._nodes.node is not node or self._nodes.cluster is not cluster:
            self._nodes = NodeConfigs(node, cluster, self._config.static_configs)
            self._entries.clear()
        return self._nodes

    def min_insync_replicas(self, image: MetadataImage, topic: str) -> int:
        """Return min.insync.replicas at work for a topic."""
        value = topic_config(MIN_INSYNC_REPLICAS, image.configs.of(TOPIC, topic), self.node_configs(image))
        return int(value or "1")

    def unclean_leader_election_enabled(self, image: MetadataImage, topic: str) -> bool:
        """Say whether a replica outside the ISR may become leader by itself."""
        nodes = self.node_configs(image)
        value = topic_config(UNCLEAN_LEADER_ELECTION_ENABLE, image.configs.of(TOPIC, topic), nodes)
        return (value or "").strip().lower() == "true"

    def effective_topic_configs(
        self, image: MetadataImage, creation_configs: Mapping[str, str]
    ) -> tuple[ConfigEntry, ...]:
        """List the configs that a new topic with these values has; equal values give the same tuple."""
        nodes = self.node_configs(image)
        distinct = frozenset(creation_configs.items())
        entries = self._entries.get(distinct)
        if entries is None:
            if len(self._entries) >= _CACHED_ENTRY_SETS_MAX:
                self._entries.clear()
            entries = self._entries[distinct] = tuple(topic_entries(creation_configs, nodes))
        return entries

    def incremental_alter_resource(
        self,
        image: MetadataImage,
        resource_type: int,
        resource_name: str,
        operations: Operations,
        *,
        is_new: bool = False,
        is_forwarded: bool = False,
        controller_ids: Collection[int] = (),
    ) -> list[MetadataRecord]:
        """Return the records that carry out operations on one resource: name → (operation, value).

        `is_new`: the resource is created by the same request, so it need not exist. `is_forwarded`: a broker has already
        checked what only it can check. `controller_ids`: voters, whose configs may be set although they are no brokers.

        Raises KafkaError: INVALID_CONFIG (unknown name, wrong value, null, too long, APPEND or SUBTRACT on what is no
        list), INVALID_REQUEST (bad resource name or operation), UNKNOWN_TOPIC_OR_PARTITION, BROKER_ID_NOT_REGISTERED.
        """
        current = image.configs.of(resource_type, resource_name)
        changes: dict[str, str | None] = {}
        for name, (operation, operand) in operations.items():
            value = _apply(resource_type, name, current.get(name), operation, operand)
            if value != current.get(name) or resource_type == BROKER:
                changes[name] = value
        self._validate(image, resource_type, resource_name, changes, is_forwarded=is_forwarded)
        if not is_new:
            self._check_exists(image, resource_type, resource_name, controller_ids)
        return self._records(image, resource_type, resource_name, changes)

    def legacy_alter_resource(
        self,
        image: MetadataImage,
        resource_type: int,
        resource_name: str,
        configs: Mapping[str, str | None],
        *,
        is_forwarded: bool = False,
        controller_ids: Collection[int] = (),
    ) -> list[MetadataRecord]:
        """Return the records that replace all configs of one resource by these.

        Raises KafkaError as `incremental_alter_resource` does.
        """
        _refuse_null(resource_type, [name for name, value in configs.items() if value is None])
        current = image.configs.of(resource_type, resource_name)
        changes: dict[str, str | None] = {
            name: value for name, value in configs.items() if value != current.get(name) or resource_type == BROKER
        }
        changes.update({name: None for name in sorted(current) if name not in configs})
        self._validate(image, resource_type, resource_name, changes, is_forwarded=is_forwarded)
        self._check_exists(image, resource_type, resource_name, controller_ids)
        return self._records(image, resource_type, resource_name, changes)

    def elr_safety_records(self, image: MetadataImage) -> list[MetadataRecord]:
        """Return what must be written before eligible leader replicas are switched on; nothing when it is there.

        min.insync.replicas is set for the cluster, from server.properties if it says so, and removed from each broker.
        """
        records: list[MetadataRecord] = []
        if MIN_INSYNC_REPLICAS not in image.configs.of(BROKER, ""):
            value = default_topic_value(MIN_INSYNC_REPLICAS, self._config.static_configs)
            records.append(_config_record(BROKER, "", MIN_INSYNC_REPLICAS, value))
        names = sorted(name for kind, name in image.configs.by_resource if kind == BROKER and name)
        records.extend(
            _config_record(BROKER, name, MIN_INSYNC_REPLICAS, None)
            for name in names
            if MIN_INSYNC_REPLICAS in image.configs.of(BROKER, name)
        )
        return records

    def _validate(
        self,
        image: MetadataImage,
        resource_type: int,
        resource_name: str,
        changes: Mapping[str, str | None],
        *,
        is_forwarded: bool,
    ) -> None:
        existing = image.configs.of(resource_type, resource_name)
        configs = dict(existing)
        for name, value in changes.items():
            if resource_type == BROKER:
                _check_broker_change(image, resource_name, name, value, existing, is_forwarded=is_forwarded)
            if value is None:
                configs.pop(name, None)
            elif len(value) > CONFIG_VALUE_BYTES_MAX or len(value.encode()) > CONFIG_VALUE_BYTES_MAX:
                raise ConfigException(
                    f"The configuration value cannot be added because it exceeds the maximum value size of "
                    f"{CONFIG_VALUE_BYTES_MAX} bytes."
                )
            else:
                configs[name] = value
        if resource_type == TOPIC:
            _validate_topic_resource(resource_name)
            validate_topic_configs(configs, existing, self._config.static_configs)
        elif resource_type == BROKER:
            validate_broker_resource(resource_name)
        elif resource_type == CLIENT_METRICS:
            validate_client_metrics_configs(resource_name, configs)
        elif resource_type == GROUP:
            if not resource_name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
            validate_group_configs(configs, self._config.static_configs)
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")

    def _check_exists(
        self, image: MetadataImage, resource_type: int, resource_name: str, controller_ids: Collection[int]
    ) -> None:
        if resource_type == TOPIC and resource_name not in image.topics.by_name:
            message = f"The topic '{resource_name}' does not exist."
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        if resource_type == BROKER and resource_name:
            node_id = int(resource_name)
            cluster = image.cluster
            if (
                node_id not in cluster.brokers
                and node_id not in cluster.controllers
                and node_id != self._config.node_id
                and node_id not in controller_ids
            ):
                raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {node_id} found.")

    def _records(
        self, image: MetadataImage, resource_type: int, resource_name: str, changes: Mapping[str, str | None]
    ) -> list[MetadataRecord]:
        records: list[MetadataRecord] = [
            _config_record(resource_type, resource_name, name, value) for name, value in changes.items()
        ]
        if image.features.elr_enabled and MIN_INSYNC_REPLICAS in changes:
            records.append(ClearElrRecord(topic_name=resource_name if resource_type == TOPIC else ""))
        return records


def validate_broker_resource(name: str) -> None:
    """Check the name of a broker resource: "" or a decimal id that is not negative. Raises INVALID_REQUEST."""
    if not name:
        return
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", name) or abs(int(name)) >= 2**31:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number.")
    if int(name) < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid negative broker ID.")


def sort_clear_elr_last(records: Iterable[MetadataRecord]) -> Sequence[MetadataRecord]:
    """Order the records of several resources as Kafka does: all configs, then the ClearElrRecords."""
    return sorted(records, key=lambda record: isinstance(record, ClearElrRecord))


def _validate_topic_resource(name: str) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    validate_topic_name(name)


def _check_broker_change(
    image: MetadataImage,
    resource_name: str,
    name: str,
    value: str | None,
    existing: Mapping[str, str],
    *,
    is_forwarded: bool,
) -> None:
    if name == MIN_INSYNC_REPLICAS and image.features.elr_enabled:
        if resource_name:
            raise ConfigException(f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled.")
        if value is None:
            raise ConfigException(f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled.")
    if name == CORDONED_LOG_DIRS:
        if (image.features.metadata_version or 0) < METADATA_VERSION_4_3_IV0:
            raise ConfigException(
                f"The {CORDONED_LOG_DIRS} configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
            )
        wanted = (value or "").strip()
        if wanted and not is_forwarded:
            held = existing.get(CORDONED_LOG_DIRS)
            current = set(_COMMA.split(held.strip())) if held is not None else set()
            if not current.issuperset(_COMMA.split(wanted)):
                raise ConfigException(
                    f"When updating {CORDONED_LOG_DIRS} via controllers,  the new value must be a subset of the "
                    "current configuration value."
                )


def _apply(resource_type: int, name: str, current: str | None, operation: int, operand: str | None) -> str | None:
    """Return the new value of a key; None deletes it."""
    if operation == DELETE:
        return None
    if operation not in {SET, APPEND, SUBTRACT}:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation {operation} for config {name}.")
    if operand is None:
        _refuse_null(resource_type, [name])
    if operation == SET:
        return operand
    key = config_def(resource_type).get(name) if has_definitions(resource_type) else None
    if key is None or key.type is not ConfigType.LIST:
        raise ConfigException(f"Can't {_OPERATION_NAMES[operation]} to key {name} because its type is not LIST.")
    base = current if current is not None else key.default
    items = [item for item in (base or "").split(",") if item]
    for item in (operand or "").split(","):
        if operation == APPEND and item not in items:
            items.append(item)
        elif operation == SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


_TYPE_NAMES: Final = {TOPIC: "topic", BROKER: "broker", CLIENT_METRICS: "client metrics", GROUP: "group"}


def _refuse_null(resource_type: int, names: Sequence[str]) -> None:
    if names:
        kind = _TYPE_NAMES.get(resource_type, "resource")
        raise ConfigException(f"Null value not supported for {kind} configs: {','.join(names)}")


def _config_record(resource_type: int, resource_name: str, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
