"""DescribeConfigs, DescribeLogDirs and ListConfigResources.

Source: ConfigHelper.handleDescribeConfigsRequest and ReplicaManager.describeLogDirs, Kafka 4.3.1; KIP-827 (sizes of
volumes).
"""

import shutil
from pathlib import Path
from typing import Final

from kraft_core.broker.apis.context import BrokerContext
from kraft_core.broker.log.unified_log import UnifiedLog
from kraft_core.broker.slices import Work
from kraft_core.configs.config_resource import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from kraft_core.configs.describe_configs import described_resources
from kraft_core.controller.error_responses import error_response
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponseDescribeLogDirsPartition,
    DescribeLogDirsResponseDescribeLogDirsResult,
    DescribeLogDirsResponseDescribeLogDirsTopic,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListConfigResourcesResponseConfigResource,
)
from kraft_core.server.network.request import Request
from kraft_core.server.runtime_logger_manager import RuntimeLoggerManager

_LISTED_TYPES: Final = (TOPIC, BROKER, CLIENT_METRICS, GROUP)


class DescribeHandler:
    """Answers DescribeConfigs, ListConfigResources and DescribeLogDirs."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._loggers = RuntimeLoggerManager(context.node_id)

    def configs(self, body: DescribeConfigsRequest, request: Request) -> Work[None]:
        """Answer DescribeConfigs, one resource per step. Errors are those of `described_resources`."""
        metadata = self._context.metadata
        results = []
        try:
            for result in described_resources(
                metadata.image.configs,
                metadata.image.topics.by_name,
                body,
                node_id=self._context.node_id,
                static_configs=metadata.static_configs,
                loggers=self._loggers.levels(),
            ):
                results.append(result)
                yield 0
        except KafkaError as error:
            request.respond(error_response(body, request.header.api_version, error.code))
            return
        request.respond(DescribeConfigsResponse(results=tuple(results)))

    def config_resources(self, body: ListConfigResourcesRequest, version: int) -> ListConfigResourcesResponse:
        """List the resources that have configs: all topics and brokers, and groups and subscriptions with configs.

        UNSUPPORTED_VERSION for other types.
        """
        types = body.resource_types if version >= 1 else (CLIENT_METRICS,)
        wanted = set(types) or set(_LISTED_TYPES)
        if not wanted <= {*_LISTED_TYPES, BROKER_LOGGER}:
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

    def log_dirs(self, body: DescribeLogDirsRequest, request: Request) -> Work[None]:
        """Return each log directory with its volume and partitions, one partition per step.

        If the request lists topics, only their partitions are returned.
        """
        by_directory = yield from self._logs_by_directory(body)
        manager = self._context.replicas.logs
        results = []
        for directory in manager.directories:
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
            topics = []
            for name, logs in by_directory.get(directory.path, {}).items():
                topic = yield from _directory_topic(name, logs)
                topics.append(topic)
            results.append(
                DescribeLogDirsResponseDescribeLogDirsResult(
                    log_dir=str(directory.path.absolute()),
                    topics=tuple(topics),
                    total_bytes=usage.total,
                    usable_bytes=usage.free,
                    is_cordoned=directory.directory_id in self._cordoned(),
                )
            )
        request.respond(DescribeLogDirsResponse(results=tuple(results)))

    def _logs_by_directory(self, body: DescribeLogDirsRequest) -> Work[dict[Path, dict[str, list[UnifiedLog]]]]:
        """Return the requested logs by log directory and topic, sorted by topic and partition."""
        wanted: set[tuple[str, int]] = set()
        for topic in body.topics or ():
            wanted.update((topic.topic, index) for index in topic.partitions)
            yield 0
        found: dict[Path, dict[str, list[UnifiedLog]]] = {}
        for key, partition_log in sorted(self._context.replicas.logs.logs.items()):
            if body.topics is None or key in wanted:
                found.setdefault(partition_log.directory.parent, {}).setdefault(key[0], []).append(partition_log)
            yield 0
        return found

    def _cordoned(self) -> frozenset[object]:
        broker = self._context.metadata.image.cluster.brokers.get(self._context.node_id)
        return frozenset() if broker is None else frozenset(broker.cordoned_directories or ())


def _directory_topic(name: str, logs: list[UnifiedLog]) -> Work[DescribeLogDirsResponseDescribeLogDirsTopic]:
    partitions = []
    for entry in logs:
        partitions.append(
            DescribeLogDirsResponseDescribeLogDirsPartition(
                partition_index=entry.partition, partition_size=entry.size, offset_lag=0
            )
        )
        yield 0
    return DescribeLogDirsResponseDescribeLogDirsTopic(name=name, partitions=tuple(partitions))
