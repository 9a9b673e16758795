"""DescribeConfigs, DescribeLogDirs and ListConfigResources.

Source: ConfigHelper.handleDescribeConfigsRequest and ReplicaManager.describeLogDirs, Kafka 4.3.1; KIP-827 (sizes of the volume).
"""

import shutil
from collections.abc import Iterable
from typing import Final

from kraft_core.broker.apis.context import BrokerContext
from kraft_core.broker.log.unified_log import UnifiedLog
from kraft_core.broker.slices import Work
from kraft_core.configs.config_resource import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraft_core.configs.describe_configs import config_result, first_of_each
from kraft_core.configs.effective_config import (
    ConfigEntry,
    NodeConfigs,
    broker_entries,
    client_metrics_entries,
    default_broker_entries,
    group_entries,
    topic_entries,
)
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseDescribeConfigsResult,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponseDescribeLogDirsPartition,
    DescribeLogDirsResponseDescribeLogDirsResult,
    DescribeLogDirsResponseDescribeLogDirsTopic,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListConfigResourcesResponseConfigResource,
)
from kraft_core.server.network.client_connection import Request

_BROKER_LOGGER: Final = 8
_LISTED_TYPES: Final = (TOPIC, BROKER, CLIENT_METRICS, GROUP)


class DescribeHandler:
    """Answers what is asked about settings and disks."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def configs(self, body: DescribeConfigsRequest, request: Request) -> None:
        """Settings at work, with source and synonyms; each resource once, in slices.

        Per resource: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST,
        UNSUPPORTED_VERSION for a type this broker has none of (broker loggers).
        """
        self._context.work(request, self._configs(body, request))

    def _configs(self, body: DescribeConfigsRequest, request: Request) -> Work[None]:
        results = []
        for resource in first_of_each(body.resources):
            results.append(self._described(body, resource))
            yield 0
        request.respond(DescribeConfigsResponse(results=tuple(results)))

    def _described(
        self, body: DescribeConfigsRequest, resource: DescribeConfigsRequestDescribeConfigsResource
    ) -> DescribeConfigsResponseDescribeConfigsResult:
        try:
            entries = self._entries(resource.resource_type, resource.resource_name)
        except KafkaError as error:
            return DescribeConfigsResponseDescribeConfigsResult(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        keys = None if not resource.configuration_keys else set(resource.configuration_keys)
        return DescribeConfigsResponseDescribeConfigsResult(
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=tuple(
                config_result(entry, synonyms=body.include_synonyms, documentation=body.include_documentation)
                for entry in entries
                if keys is None or entry.name in keys
            ),
        )

    def _entries(self, resource_type: int, name: str) -> Iterable[ConfigEntry]:
        metadata = self._context.metadata
        configs = metadata.image.configs
        nodes: NodeConfigs = metadata.node_configs()
        if resource_type == TOPIC:
            if metadata.image.topics.topic(name) is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
            return topic_entries(configs.of(TOPIC, name), nodes)
        if resource_type == BROKER:
            if not name:
                return default_broker_entries(nodes)
            if name != str(self._context.node_id):
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Unexpected broker id, expected {self._context.node_id} or empty string, but received {name}.",
                )
            return broker_entries(nodes)
        if resource_type == CLIENT_METRICS:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty.")
            return client_metrics_entries(configs.of(CLIENT_METRICS, name))
        if resource_type == GROUP:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty.")
            return group_entries(configs.of(GROUP, name), nodes)
        what = "broker loggers" if resource_type == _BROKER_LOGGER else f"resources of type {resource_type}"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"This broker does not describe {what}.")

    def config_resources(self, body: ListConfigResourcesRequest, version: int) -> ListConfigResourcesResponse:
        """Names of what can be configured: topics and brokers that exist, groups and subscriptions with settings. UNSUPPORTED_VERSION for other types."""
        types = body.resource_types if version >= 1 else (CLIENT_METRICS,)
        wanted = set(types) or set(_LISTED_TYPES)
        if not wanted <= {*_LISTED_TYPES, _BROKER_LOGGER}:
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        image = self._context.metadata.image
        found = [(TOPIC, name) for name in sorted(image.topics.by_name)]
        found += [(BROKER, str(broker_id)) for broker_id in sorted(image.cluster.brokers)]
        found += sorted(key for key in image.configs.by_resource if key[0] in (CLIENT_METRICS, GROUP))
        return ListConfigResourcesResponse(
            config_resources=tuple(
                ListConfigResourcesResponseConfigResource(resource_name=name, resource_type=kind)
                for kind, name in found
                if kind in wanted
            )
        )

    def log_dirs(self, body: DescribeLogDirsRequest, version: int) -> DescribeLogDirsResponse:
        """Each log directory with its volume and its partitions; with a list of topics only those."""
        wanted = (
            None
            if body.topics is None
            else {(topic.topic, index) for topic in body.topics for index in topic.partitions}
        )
        manager = self._context.replicas.logs
        results = []
        for directory in manager.directories:
            by_topic: dict[str, list[UnifiedLog]] = {}
            for key, partition_log in sorted(manager.logs.items()):
                if partition_log.directory.parent == directory.path and (wanted is None or key in wanted):
                    by_topic.setdefault(key[0], []).append(partition_log)
            try:
                usage = shutil.disk_usage(directory.path) if manager.failures.is_online(directory.path) else None
            except OSError:
                usage = None
            if usage is None:
                results.append(
                    DescribeLogDirsResponseDescribeLogDirsResult(
                        error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=str(directory.path.absolute())
                    )
                )
                continue
            cordoned = self._cordoned()
            results.append(
                DescribeLogDirsResponseDescribeLogDirsResult(
                    log_dir=str(directory.path.absolute()),
                    topics=tuple(_directory_topic(name, logs) for name, logs in by_topic.items()),
                    total_bytes=usage.total,
                    usable_bytes=usage.free,
                    is_cordoned=directory.directory_id in cordoned,
                )
            )
        return DescribeLogDirsResponse(results=tuple(results))

    def _cordoned(self) -> frozenset[object]:
        broker = self._context.metadata.image.cluster.brokers.get(self._context.node_id)
        return frozenset() if broker is None else frozenset(broker.cordoned_directories or ())


def _directory_topic(name: str, logs: list[UnifiedLog]) -> DescribeLogDirsResponseDescribeLogDirsTopic:
    return DescribeLogDirsResponseDescribeLogDirsTopic(
        name=name,
        partitions=tuple(
            DescribeLogDirsResponseDescribeLogDirsPartition(
                partition_index=entry.partition, partition_size=entry.size, offset_lag=0
            )
            for entry in logs
        ),
    )
