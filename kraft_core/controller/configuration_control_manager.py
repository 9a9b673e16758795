"""Validation of dynamic config changes, and their records.

- Topic, client-metrics and group configs are validated completely.
- For broker configs only the resource name is validated; the broker validates the values that it applies. They are
  recorded even when unchanged, because a new record makes the broker reload its key files (KAFKA-14136).
- With eligible leader replicas enabled, min.insync.replicas must be set for the cluster and may not differ between
  brokers. A change of it clears the eligible leader replicas that it affects (ClearElrRecord).

Source: ConfigurationControlManager, ControllerConfigurationValidator, Kafka 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from kraft_core.configs.config_def import ConfigException
from kraft_core.configs.config_resource import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from kraft_core.configs.definitions import (
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
    default_topic_value,
    validate_client_metrics_configs,
    validate_group_configs,
    validate_topic_configs,
)
from kraft_core.configs.describe_configs import describe_configs
from kraft_core.configs.effective_config import ConfigEntry, NodeConfigs, topic_config, topic_entries
from kraft_core.controller.access.request_access import EVERYTHING, RequestAccess
from kraft_core.controller.config_operations import (
    CONFIG_VALUE_BYTES_MAX,
    Operations,
    apply_operation,
    check_broker_change,
    config_record,
    refuse_null,
    sort_clear_elr_last,
    validate_broker_resource,
    validate_topic_resource,
)
from kraft_core.controller.controller_result import ControllerResult, check_record_count
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AlterConfigsResponse,
    AlterConfigsResponseAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)
from kraft_core.protocol.metadata_records import ClearElrRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kraft_core.controller.controller_config import ControllerConfig
    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.protocol.messages import (
        AlterConfigsRequest,
        DescribeConfigsRequest,
        DescribeConfigsResponse,
        IncrementalAlterConfigsRequest,
    )
    from kraft_core.protocol.metadata_records import MetadataRecord

_CACHED_ENTRY_SETS_MAX: Final = 256

_Resource = tuple[int, str]
_Outcome = tuple[int, str, ErrorCode, str | None]
_Change = TypeVar("_Change")
_UNAUTHORIZED: Final = {
    TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
}
_RESOURCE_TYPES: Final = frozenset({TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP})


class ConfigurationControlManager:
    """Validates config changes against an image. It keeps only a cache of listings, rebuilt from any image."""

    def __init__(self, config: ControllerConfig) -> None:
        self._config = config
        self._entries: dict[frozenset[tuple[str, str]], tuple[ConfigEntry, ...]] = {}
        self._nodes = NodeConfigs(static=config.static_configs)

    def node_configs(self, image: MetadataImage) -> NodeConfigs:
        """Return the broker configs that this controller applies; the same object while they are unchanged."""
        configs = image.configs
        node, cluster = configs.of(BROKER, str(self._config.node_id)), configs.of(BROKER, "")
        if self._nodes.node is not node or self._nodes.cluster is not cluster:
            self._nodes = NodeConfigs(node, cluster, self._config.static_configs)
            self._entries.clear()
        return self._nodes

    def min_insync_replicas(self, image: MetadataImage, topic: str) -> int:
        """Return the effective min.insync.replicas of a topic."""
        value = topic_config(MIN_INSYNC_REPLICAS, image.configs.of(TOPIC, topic), self.node_configs(image))
        return int(value or "1")

    def unclean_leader_election_enabled(self, image: MetadataImage, topic: str) -> bool:
        """Report whether a replica outside the ISR may become leader without an operator's request."""
        nodes = self.node_configs(image)
        value = topic_config(UNCLEAN_LEADER_ELECTION_ENABLE, image.configs.of(TOPIC, topic), nodes)
        return (value or "").strip().lower() == "true"

    def effective_topic_configs(
        self, image: MetadataImage, creation_configs: Mapping[str, str]
    ) -> tuple[ConfigEntry, ...]:
        """List the effective configs of a new topic with these values; equal values give the same tuple."""
        nodes = self.node_configs(image)
        distinct = frozenset(creation_configs.items())
        entries = self._entries.get(distinct)
        if entries is None:
            if len(self._entries) >= _CACHED_ENTRY_SETS_MAX:
                self._entries.clear()
            entries = self._entries[distinct] = tuple(topic_entries(creation_configs, nodes))
        return entries

    def incremental_alter_configs(
        self, image: MetadataImage, request: IncrementalAlterConfigsRequest, access: RequestAccess = EVERYTHING
    ) -> ControllerResult[IncrementalAlterConfigsResponse]:
        """Apply IncrementalAlterConfigs, versions 0 and 1; each resource changes completely or not at all.

        Errors of a resource: those of `incremental_alter_resource`, INVALID_REQUEST if it is repeated,
        UNSUPPORTED_VERSION for an unknown type. The server handles log levels (BROKER_LOGGER).
        Raises KafkaError POLICY_VIOLATION if the request is too large.
        """
        changes: list[tuple[_Resource, Operations]] = [
            (
                (resource.resource_type, resource.resource_name),
                {config.name: (config.config_operation, config.value) for config in resource.configs},
            )
            for resource in request.resources
        ]

        def alter(resource: _Resource, operations: Operations) -> list[MetadataRecord]:
            return self.incremental_alter_resource(
                image,
                *resource,
                operations,
                is_forwarded=access.is_forwarded,
                controller_ids=access.controller_ids,
            )

        records, outcomes = _alter_each(changes, alter, access)
        responses = tuple(
            IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
                resource_type=kind, resource_name=name, error_code=code, error_message=message
            )
            for kind, name, code, message in outcomes
        )
        response = IncrementalAlterConfigsResponse(responses=responses)
        return ControllerResult.atomic_of(() if request.validate_only else records, response)

    def legacy_alter_configs(
        self, image: MetadataImage, request: AlterConfigsRequest, access: RequestAccess = EVERYTHING
    ) -> ControllerResult[AlterConfigsResponse]:
        """Apply AlterConfigs, versions 0 to 2: replace all configs of each resource. Errors as for the other form."""
        changes: list[tuple[_Resource, dict[str, str | None]]] = [
            (
                (resource.resource_type, resource.resource_name),
                {config.name: config.value for config in resource.configs},
            )
            for resource in request.resources
        ]

        def alter(resource: _Resource, configs: dict[str, str | None]) -> list[MetadataRecord]:
            return self.legacy_alter_resource(
                image, *resource, configs, is_forwarded=access.is_forwarded, controller_ids=access.controller_ids
            )

        records, outcomes = _alter_each(changes, alter, access)
        responses = tuple(
            AlterConfigsResponseAlterConfigsResourceResponse(
                resource_type=kind, resource_name=name, error_code=code, error_message=message
            )
            for kind, name, code, message in outcomes
        )
        return ControllerResult.atomic_of(
            () if request.validate_only else records, AlterConfigsResponse(responses=responses)
        )

    def describe_configs(
        self,
        image: MetadataImage,
        request: DescribeConfigsRequest,
        access: RequestAccess = EVERYTHING,
        log_levels: Mapping[str, str] = MappingProxyType({}),
    ) -> DescribeConfigsResponse:
        """Answer DescribeConfigs, versions 1 to 4, with the configs of the image; `log_levels` are this node's."""
        config = self._config
        return describe_configs(
            image.configs,
            image.topics.by_name,
            request,
            node_id=config.node_id,
            static_configs=config.static_configs,
            loggers=log_levels,
            may_describe=access.may_describe_configs_of,
        )

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
        """Return the records for the operations on one resource: name → (operation, value).

        `is_new`: the same request creates the resource, so it need not exist. `is_forwarded`: a broker has already
        validated what only it can. `controller_ids`: the voters, whose configs may be set although they are no brokers.

        Raises KafkaError: INVALID_CONFIG (unknown name, invalid value, null, too long, APPEND or SUBTRACT on a value
        that is not a list), INVALID_REQUEST (invalid resource name or operation), UNKNOWN_TOPIC_OR_PARTITION,
        BROKER_ID_NOT_REGISTERED.
        """
        current = image.configs.of(resource_type, resource_name)
        changes: dict[str, str | None] = {}
        for name, (operation, operand) in operations.items():
            value = apply_operation(resource_type, name, current.get(name), operation, operand)
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
        """Return the records that replace all configs of one resource.

        Raises KafkaError as `incremental_alter_resource` does.
        """
        refuse_null(resource_type, [name for name, value in configs.items() if value is None])
        current = image.configs.of(resource_type, resource_name)
        changes: dict[str, str | None] = {
            name: value for name, value in configs.items() if value != current.get(name) or resource_type == BROKER
        }
        changes.update({name: None for name in sorted(current) if name not in configs})
        self._validate(image, resource_type, resource_name, changes, is_forwarded=is_forwarded)
        self._check_exists(image, resource_type, resource_name, controller_ids)
        return self._records(image, resource_type, resource_name, changes)

    def elr_safety_records(self, image: MetadataImage) -> list[MetadataRecord]:
        """Return the records that must precede the activation of eligible leader replicas, if any are missing.

        They set min.insync.replicas for the cluster, from server.properties or its default, and remove it from each
        broker.
        """
        records: list[MetadataRecord] = []
        if MIN_INSYNC_REPLICAS not in image.configs.of(BROKER, ""):
            value = default_topic_value(MIN_INSYNC_REPLICAS, self._config.static_configs)
            records.append(config_record(BROKER, "", MIN_INSYNC_REPLICAS, value))
        names = sorted(name for kind, name in image.configs.by_resource if kind == BROKER and name)
        records.extend(
            config_record(BROKER, name, MIN_INSYNC_REPLICAS, None)
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
                check_broker_change(image, resource_name, name, value, existing, is_forwarded=is_forwarded)
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
            validate_topic_resource(resource_name)
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
            config_record(resource_type, resource_name, name, value) for name, value in changes.items()
        ]
        if image.features.elr_enabled and MIN_INSYNC_REPLICAS in changes:
            records.append(ClearElrRecord(topic_name=resource_name if resource_type == TOPIC else ""))
        return records


def _alter_each(
    changes: Sequence[tuple[_Resource, _Change]],
    alter: Callable[[_Resource, _Change], list[MetadataRecord]],
    access: RequestAccess,
) -> tuple[Sequence[MetadataRecord], list[_Outcome]]:
    """Alter the resources independently; return the records of the successful ones and the outcome of each."""
    counts = Counter(resource for resource, _ in changes)
    records: list[MetadataRecord] = []
    outcomes: dict[_Resource, _Outcome] = {}
    for resource, change in changes:
        kind, name = resource
        code, message = ErrorCode.NONE, None
        try:
            if kind not in _RESOURCE_TYPES:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unknown resource type {kind}.")
            if counts[resource] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate resource.")
            if kind == BROKER_LOGGER:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Unexpected resource type BROKER_LOGGER.")
            if not access.may_alter_configs(kind, name):
                raise KafkaError(_UNAUTHORIZED.get(kind, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
            records.extend(alter(resource, change))
        except KafkaError as error:
            code, message = error.code, error.message
        outcomes[resource] = (kind, name, code, message)
    check_record_count(len(records))
    return sort_clear_elr_last(records), list(outcomes.values())
