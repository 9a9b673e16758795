"""DescribeConfigs, answered from an image and the node's configs.

Source: ConfigHelper, Kafka 4.3.1.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kraft_core.configs.config_resource import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from kraft_core.configs.effective_config import (
    ConfigEntry,
    ConfigSource,
    NodeConfigs,
    broker_entries,
    client_metrics_entries,
    default_broker_entries,
    group_entries,
    topic_entries,
)
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    DescribeConfigsResponse,
    DescribeConfigsResponseDescribeConfigsResourceResult,
    DescribeConfigsResponseDescribeConfigsResult,
    DescribeConfigsResponseDescribeConfigsSynonym,
)
from kraft_core.protocol.topic_names import validate_topic_name

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping

    from kraft_core.configs.config_resource import DynamicConfigs
    from kraft_core.protocol.messages import DescribeConfigsRequest, DescribeConfigsRequestDescribeConfigsResource

_NO_CONFIGS: Final[Mapping[str, str]] = MappingProxyType({})
_KINDS: Final = frozenset({TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP})
_UNAUTHORIZED: Final = {TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED, GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED}


def _first_of_each(
    resources: Iterable[DescribeConfigsRequestDescribeConfigsResource],
) -> Iterable[DescribeConfigsRequestDescribeConfigsResource]:
    """Return each resource once, so that a request that repeats one 50,000 times costs no more than one."""
    found: dict[tuple[int, str], DescribeConfigsRequestDescribeConfigsResource] = {}
    for resource in resources:
        found.setdefault((resource.resource_type, resource.resource_name), resource)
    return found.values()


def _may_describe_all(_resource_type: int, _name: str) -> bool:
    return True


def describe_configs(
    configs: DynamicConfigs,
    topics: Container[str],
    request: DescribeConfigsRequest,
    *,
    node_id: int,
    static_configs: Mapping[str, str] = _NO_CONFIGS,
    loggers: Mapping[str, str] = _NO_CONFIGS,
    may_describe: Callable[[int, str], bool] = _may_describe_all,
) -> DescribeConfigsResponse:
    """Return the results of `described_resources` as one response. Raises KafkaError as it does."""
    results = described_resources(
        configs,
        topics,
        request,
        node_id=node_id,
        static_configs=static_configs,
        loggers=loggers,
        may_describe=may_describe,
    )
    return DescribeConfigsResponse(results=tuple(results))


def described_resources(
    configs: DynamicConfigs,
    topics: Container[str],
    request: DescribeConfigsRequest,
    *,
    node_id: int,
    static_configs: Mapping[str, str],
    loggers: Mapping[str, str],
    may_describe: Callable[[int, str], bool] = _may_describe_all,
) -> Iterator[DescribeConfigsResponseDescribeConfigsResult]:
    """Yield the configs of each resource, sorted by name, with source, synonyms and documentation where requested.

    `topics` contains the names of all topics, `static_configs` the configs in the node's file, `loggers` its log levels
    by logger; `may_describe` takes a resource's type and name. Only the broker itself describes its configs. Errors per
    resource: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST for an invalid name, and the
    authorization errors. Raises KafkaError INVALID_REQUEST, before the first result, for an unknown resource type.
    """
    if any(resource.resource_type not in _KINDS for resource in request.resources):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    nodes = NodeConfigs.of(configs, node_id, static_configs)
    for resource in _first_of_each(request.resources):
        kind, name = resource.resource_type, resource.resource_name
        try:
            if not may_describe(kind, name):
                raise KafkaError(_UNAUTHORIZED.get(kind, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
            entries = _entries(configs, topics, kind, name, node_id, nodes, loggers)
        except KafkaError as error:
            yield DescribeConfigsResponseDescribeConfigsResult(
                error_code=error.code, error_message=error.message, resource_type=kind, resource_name=name
            )
            continue
        keys = frozenset(resource.configuration_keys or ())
        yield DescribeConfigsResponseDescribeConfigsResult(
            error_code=ErrorCode.NONE,
            error_message="",
            resource_type=kind,
            resource_name=name,
            configs=tuple(
                _config_result(entry, synonyms=request.include_synonyms, documentation=request.include_documentation)
                for entry in entries
                if not keys or entry.name in keys
            ),
        )


def _entries(
    configs: DynamicConfigs,
    topics: Container[str],
    kind: int,
    name: str,
    node_id: int,
    nodes: NodeConfigs,
    loggers: Mapping[str, str],
) -> list[ConfigEntry]:
    own = configs.of(kind, name)
    if kind == TOPIC:
        validate_topic_name(name)
        if name not in topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        return topic_entries(own, nodes)
    if kind == BROKER and not name:
        return default_broker_entries(nodes)
    if kind in {BROKER, BROKER_LOGGER}:
        _check_is_this_node(kind, name, node_id)
        return broker_entries(nodes) if kind == BROKER else _logger_entries(loggers)
    if not name:
        what = "Client metrics subscription" if kind == CLIENT_METRICS else "Group"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{what} name must not be empty")
    return client_metrics_entries(own) if kind == CLIENT_METRICS else group_entries(own, nodes)


def _check_is_this_node(kind: int, name: str, node_id: int) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", name) or not -(2**31) <= int(name) < 2**31:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != node_id:
        expected = f"{node_id} or empty string," if kind == BROKER else f"{node_id}"
        message = f"Unexpected broker id, expected {expected} but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _logger_entries(loggers: Mapping[str, str]) -> list[ConfigEntry]:
    return [
        ConfigEntry(name, level, ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG, is_sensitive=False, is_read_only=False)
        for name, level in sorted(loggers.items())
    ]


def _config_result(
    entry: ConfigEntry, *, synonyms: bool, documentation: bool
) -> DescribeConfigsResponseDescribeConfigsResourceResult:
    """Return one config of a DescribeConfigs response, with what the request asked for."""
    return DescribeConfigsResponseDescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=tuple(
            DescribeConfigsResponseDescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in (entry.synonyms if synonyms else ())
        ),
        config_type=0 if entry.type is None else entry.type,
        documentation=entry.documentation if documentation else None,
    )
