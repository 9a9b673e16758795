"""Operations on single config keys, and the rules for keys and resource names.

Source: ConfigurationControlManager, ControllerConfigurationValidator, Kafka 4.3.1.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kraft_core.configs.alter_config_op import AlterConfigOp
from kraft_core.configs.config_def import ConfigException, ConfigType
from kraft_core.configs.config_resource import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraft_core.configs.definitions import (
    CORDONED_LOG_DIRS,
    MIN_INSYNC_REPLICAS,
    config_def,
    has_definitions,
)
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.metadata_records import ClearElrRecord, ConfigRecord
from kraft_core.protocol.metadata_version import is_cordoned_log_dirs_supported
from kraft_core.protocol.topic_names import validate_topic_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.protocol.metadata_records import MetadataRecord


_KNOWN_OPERATIONS: Final = frozenset(AlterConfigOp)
CONFIG_VALUE_BYTES_MAX: Final = 2**15 - 1
_COMMA: Final = re.compile(r"\s*,\s*")

Operations = dict[str, tuple[int, str | None]]
"""Config name → (operation, value)."""


def validate_broker_resource(name: str) -> None:
    """Validate the name of a broker resource: "" or a non-negative decimal id. Raises KafkaError INVALID_REQUEST."""
    if not name:
        return
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", name) or abs(int(name)) >= 2**31:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number.")
    if int(name) < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid negative broker ID.")


def sort_clear_elr_last(records: Iterable[MetadataRecord]) -> Sequence[MetadataRecord]:
    """Return the records in Kafka's order: all configs, then the ClearElrRecords."""
    return sorted(records, key=lambda record: isinstance(record, ClearElrRecord))


def validate_topic_resource(name: str) -> None:
    """Validate a topic resource's name. Raises KafkaError: INVALID_REQUEST for "", INVALID_TOPIC_EXCEPTION."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    validate_topic_name(name)


def check_broker_change(
    image: MetadataImage,
    resource_name: str,
    name: str,
    value: str | None,
    existing: Mapping[str, str],
    *,
    is_forwarded: bool,
) -> None:
    """Raise ConfigException for a change that eligible leader replicas forbid, or that only the broker can validate.

    The latter are new directories in cordoned.log.dirs.
    """
    if name == MIN_INSYNC_REPLICAS and image.features.elr_enabled:
        if resource_name:
            raise ConfigException(f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled.")
        if value is None:
            raise ConfigException(f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled.")
    if name == CORDONED_LOG_DIRS:
        if not is_cordoned_log_dirs_supported(image.features.metadata_version or 0):
            raise ConfigException(
                f"The {CORDONED_LOG_DIRS} configuration value cannot be set because it requires "
                "metadata.version >= 4.3-IV0"
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


def apply_operation(
    resource_type: int, name: str, current: str | None, operation: int, operand: str | None
) -> str | None:
    """Return the new value of a key; None deletes it. Raises ConfigException or KafkaError INVALID_REQUEST."""
    if operation == AlterConfigOp.DELETE:
        return None
    if operation not in _KNOWN_OPERATIONS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation {operation} for config {name}.")
    if operand is None:
        refuse_null(resource_type, [name])
    if operation == AlterConfigOp.SET:
        return operand
    key = config_def(resource_type).get(name) if has_definitions(resource_type) else None
    if key is None or key.type is not ConfigType.LIST:
        raise ConfigException(f"Can't {AlterConfigOp(operation).name} to key {name} because its type is not LIST.")
    base = current if current is not None else key.default
    items = [item for item in (base or "").split(",") if item]
    for item in (operand or "").split(","):
        if operation == AlterConfigOp.APPEND and item not in items:
            items.append(item)
        elif operation == AlterConfigOp.SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


_TYPE_NAMES: Final = {TOPIC: "topic", BROKER: "broker", CLIENT_METRICS: "client metrics", GROUP: "group"}


def refuse_null(resource_type: int, names: Sequence[str]) -> None:
    """Raise ConfigException if there are names, which are those with null values."""
    if names:
        kind = _TYPE_NAMES.get(resource_type, "resource")
        raise ConfigException(f"Null value not supported for {kind} configs: {','.join(names)}")


def config_record(resource_type: int, resource_name: str, name: str, value: str | None) -> ConfigRecord:
    """Return the record that sets a config, or deletes it if the value is None."""
    return ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
