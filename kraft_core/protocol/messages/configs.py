"""Dynamic configuration of topics, brokers, groups and metric subscriptions (KIP-133, 339, 1142).

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated

from kraft_core.protocol.wire import Message, wire


class DescribeConfigsRequestDescribeConfigsResource(Message):
    """An element of DescribeConfigsRequest.resources."""

    resource_type: Annotated[int, wire("int8")] = 0
    resource_name: Annotated[str, wire("string")] = ""
    configuration_keys: Annotated[tuple[str, ...] | None, wire("[]string", nullable_since=0)] = ()


class DescribeConfigsRequest(Message):
    """Ask for the configuration of resources; apiKey 32, v1-4. Source: DescribeConfigsRequest.json."""

    API_KEY = 32
    VERSIONS = (1, 4)
    FLEXIBLE = 4

    resources: Annotated[
        tuple[DescribeConfigsRequestDescribeConfigsResource, ...], wire("[]DescribeConfigsResource")
    ] = ()
    include_synonyms: Annotated[bool, wire("bool")] = False
    include_documentation: Annotated[bool, wire("bool", since=3)] = False


class DescribeConfigsResponseDescribeConfigsSynonym(Message):
    """An element of DescribeConfigsResponse.results[].configs[].synonyms."""

    name: Annotated[str, wire("string")] = ""
    value: Annotated[str | None, wire("string", nullable_since=0)] = ""
    source: Annotated[int, wire("int8")] = 0


class DescribeConfigsResponseDescribeConfigsResourceResult(Message):
    """An element of DescribeConfigsResponse.results[].configs."""

    name: Annotated[str, wire("string")] = ""
    value: Annotated[str | None, wire("string", nullable_since=0)] = ""
    read_only: Annotated[bool, wire("bool")] = False
    config_source: Annotated[int, wire("int8")] = -1
    is_sensitive: Annotated[bool, wire("bool")] = False
    synonyms: Annotated[
        tuple[DescribeConfigsResponseDescribeConfigsSynonym, ...], wire("[]DescribeConfigsSynonym")
    ] = ()
    config_type: Annotated[int, wire("int8", since=3, ignorable=True)] = 0
    documentation: Annotated[str | None, wire("string", since=3, nullable_since=0, ignorable=True)] = ""


class DescribeConfigsResponseDescribeConfigsResult(Message):
    """An element of DescribeConfigsResponse.results."""

    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""
    resource_type: Annotated[int, wire("int8")] = 0
    resource_name: Annotated[str, wire("string")] = ""
    configs: Annotated[
        tuple[DescribeConfigsResponseDescribeConfigsResourceResult, ...], wire("[]DescribeConfigsResourceResult")
    ] = ()


class DescribeConfigsResponse(Message):
    """The configuration of resources; apiKey 32, v1-4. Source: DescribeConfigsResponse.json."""

    API_KEY = 32
    VERSIONS = (1, 4)
    FLEXIBLE = 4

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    results: Annotated[tuple[DescribeConfigsResponseDescribeConfigsResult, ...], wire("[]DescribeConfigsResult")] = ()


class AlterConfigsRequestAlterableConfig(Message):
    """An element of AlterConfigsRequest.resources[].configs."""

    name: Annotated[str, wire("string")] = ""
    value: Annotated[str | None, wire("string", nullable_since=0)] = ""


class AlterConfigsRequestAlterConfigsResource(Message):
    """An element of AlterConfigsRequest.resources."""

    resource_type: Annotated[int, wire("int8")] = 0
    resource_name: Annotated[str, wire("string")] = ""
    configs: Annotated[tuple[AlterConfigsRequestAlterableConfig, ...], wire("[]AlterableConfig")] = ()


class AlterConfigsRequest(Message):
    """Replace the whole dynamic configuration of resources; apiKey 33, v0-2. Source: AlterConfigsRequest.json."""

    API_KEY = 33
    VERSIONS = (0, 2)
    FLEXIBLE = 2

    resources: Annotated[tuple[AlterConfigsRequestAlterConfigsResource, ...], wire("[]AlterConfigsResource")] = ()
    validate_only: Annotated[bool, wire("bool")] = False


class AlterConfigsResponseAlterConfigsResourceResponse(Message):
    """An element of AlterConfigsResponse.responses."""

    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""
    resource_type: Annotated[int, wire("int8")] = 0
    resource_name: Annotated[str, wire("string")] = ""


class AlterConfigsResponse(Message):
    """The resources changed, one by one; apiKey 33, v0-2. Source: AlterConfigsResponse.json."""

    API_KEY = 33
    VERSIONS = (0, 2)
    FLEXIBLE = 2

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    responses: Annotated[
        tuple[AlterConfigsResponseAlterConfigsResourceResponse, ...], wire("[]AlterConfigsResourceResponse")
    ] = ()


class IncrementalAlterConfigsRequestAlterableConfig(Message):
    """An element of IncrementalAlterConfigsRequest.resources[].configs."""

    name: Annotated[str, wire("string")] = ""
    config_operation: Annotated[int, wire("int8")] = 0
    value: Annotated[str | None, wire("string", nullable_since=0)] = ""


class IncrementalAlterConfigsRequestAlterConfigsResource(Message):
    """An element of IncrementalAlterConfigsRequest.resources."""

    resource_type: Annotated[int, wire("int8")] = 0
    resource_name: Annotated[str, wire("string")] = ""
    configs: Annotated[tuple[IncrementalAlterConfigsRequestAlterableConfig, ...], wire("[]AlterableConfig")] = ()


class IncrementalAlterConfigsRequest(Message):
    """Set, delete, append or subtract configs; apiKey 44, v0-1. Source: IncrementalAlterConfigsRequest.json."""

    API_KEY = 44
    VERSIONS = (0, 1)
    FLEXIBLE = 1

    resources: Annotated[
        tuple[IncrementalAlterConfigsRequestAlterConfigsResource, ...], wire("[]AlterConfigsResource")
    ] = ()
    validate_only: Annotated[bool, wire("bool")] = False


class IncrementalAlterConfigsResponseAlterConfigsResourceResponse(Message):
    """An element of IncrementalAlterConfigsResponse.responses."""

    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""
    resource_type: Annotated[int, wire("int8")] = 0
    resource_name: Annotated[str, wire("string")] = ""


class IncrementalAlterConfigsResponse(Message):
    """The resources changed, one by one; apiKey 44, v0-1. Source: IncrementalAlterConfigsResponse.json."""

    API_KEY = 44
    VERSIONS = (0, 1)
    FLEXIBLE = 1

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    responses: Annotated[
        tuple[IncrementalAlterConfigsResponseAlterConfigsResourceResponse, ...], wire("[]AlterConfigsResourceResponse")
    ] = ()


class ListConfigResourcesRequest(Message):
    """Ask which resources have a dynamic configuration; apiKey 74, v0-1. Source: ListConfigResourcesRequest.json."""

    API_KEY = 74
    VERSIONS = (0, 1)
    FLEXIBLE = 0

    resource_types: Annotated[tuple[int, ...], wire("[]int8", since=1)] = ()


class ListConfigResourcesResponseConfigResource(Message):
    """An element of ListConfigResourcesResponse.config_resources."""

    resource_name: Annotated[str, wire("string")] = ""
    resource_type: Annotated[int, wire("int8", since=1, ignorable=True)] = 16


class ListConfigResourcesResponse(Message):
    """Resources with a dynamic configuration; apiKey 74, v0-1. Source: ListConfigResourcesResponse.json."""

    API_KEY = 74
    VERSIONS = (0, 1)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    config_resources: Annotated[tuple[ListConfigResourcesResponseConfigResource, ...], wire("[]ConfigResource")] = ()
