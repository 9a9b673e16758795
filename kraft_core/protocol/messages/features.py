"""What a node speaks, which features are finalized, and who is in the cluster (KIP-584, 700).

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated

from kraft_core.protocol.wire import Message, wire


class ApiVersionsRequest(Message):
    """Ask which APIs and versions a node serves; apiKey 18, v0-4. Source: ApiVersionsRequest.json."""

    API_KEY = 18
    VERSIONS = (0, 4)
    FLEXIBLE = 3

    client_software_name: Annotated[str, wire("string", since=3, ignorable=True)] = ""
    client_software_version: Annotated[str, wire("string", since=3, ignorable=True)] = ""


class ApiVersionsResponseApiVersion(Message):
    """An element of ApiVersionsResponse.api_keys."""

    api_key: Annotated[int, wire("int16")] = 0
    min_version: Annotated[int, wire("int16")] = 0
    max_version: Annotated[int, wire("int16")] = 0


class ApiVersionsResponseSupportedFeatureKey(Message):
    """An element of ApiVersionsResponse.supported_features."""

    name: Annotated[str, wire("string", since=3, ignorable=True)] = ""
    min_version: Annotated[int, wire("int16", since=3, ignorable=True)] = 0
    max_version: Annotated[int, wire("int16", since=3, ignorable=True)] = 0


class ApiVersionsResponseFinalizedFeatureKey(Message):
    """An element of ApiVersionsResponse.finalized_features."""

    name: Annotated[str, wire("string", since=3, ignorable=True)] = ""
    max_version_level: Annotated[int, wire("int16", since=3, ignorable=True)] = 0
    min_version_level: Annotated[int, wire("int16", since=3, ignorable=True)] = 0


class ApiVersionsResponse(Message):
    """APIs, versions and features of a node; apiKey 18, v0-4. Source: ApiVersionsResponse.json."""

    API_KEY = 18
    VERSIONS = (0, 4)
    FLEXIBLE = 3

    error_code: Annotated[int, wire("int16")] = 0
    api_keys: Annotated[tuple[ApiVersionsResponseApiVersion, ...], wire("[]ApiVersion")] = ()
    throttle_time_ms: Annotated[int, wire("int32", since=1, ignorable=True)] = 0
    supported_features: Annotated[
        tuple[ApiVersionsResponseSupportedFeatureKey, ...],
        wire("[]SupportedFeatureKey", since=3, tag=0, ignorable=True),
    ] = ()
    finalized_features_epoch: Annotated[int, wire("int64", since=3, tag=1, ignorable=True)] = -1
    finalized_features: Annotated[
        tuple[ApiVersionsResponseFinalizedFeatureKey, ...],
        wire("[]FinalizedFeatureKey", since=3, tag=2, ignorable=True),
    ] = ()
    zk_migration_ready: Annotated[bool, wire("bool", since=3, tag=3, ignorable=True)] = False


class UpdateFeaturesRequestFeatureUpdateKey(Message):
    """An element of UpdateFeaturesRequest.feature_updates."""

    feature: Annotated[str, wire("string")] = ""
    max_version_level: Annotated[int, wire("int16")] = 0
    allow_downgrade: Annotated[bool, wire("bool", until=0)] = False
    upgrade_type: Annotated[int, wire("int8", since=1)] = 1


class UpdateFeaturesRequest(Message):
    """Change finalized feature levels; apiKey 57, v0-2. Source: UpdateFeaturesRequest.json."""

    API_KEY = 57
    VERSIONS = (0, 2)
    FLEXIBLE = 0

    timeout_ms: Annotated[int, wire("int32")] = 60000
    feature_updates: Annotated[tuple[UpdateFeaturesRequestFeatureUpdateKey, ...], wire("[]FeatureUpdateKey")] = ()
    validate_only: Annotated[bool, wire("bool", since=1)] = False


class UpdateFeaturesResponseUpdatableFeatureResult(Message):
    """An element of UpdateFeaturesResponse.results."""

    feature: Annotated[str, wire("string")] = ""
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""


class UpdateFeaturesResponse(Message):
    """Whether the features were changed; apiKey 57, v0-2. Source: UpdateFeaturesResponse.json."""

    API_KEY = 57
    VERSIONS = (0, 2)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""
    results: Annotated[
        tuple[UpdateFeaturesResponseUpdatableFeatureResult, ...],
        wire("[]UpdatableFeatureResult", until=1, ignorable=True),
    ] = ()


class DescribeClusterRequest(Message):
    """Ask for cluster id, controller and nodes; apiKey 60, v0-2. Source: DescribeClusterRequest.json."""

    API_KEY = 60
    VERSIONS = (0, 2)
    FLEXIBLE = 0

    include_cluster_authorized_operations: Annotated[bool, wire("bool")] = False
    endpoint_type: Annotated[int, wire("int8", since=1)] = 1
    include_fenced_brokers: Annotated[bool, wire("bool", since=2)] = False


class DescribeClusterResponseDescribeClusterBroker(Message):
    """An element of DescribeClusterResponse.brokers."""

    broker_id: Annotated[int, wire("int32")] = 0
    host: Annotated[str, wire("string")] = ""
    port: Annotated[int, wire("int32")] = 0
    rack: Annotated[str | None, wire("string", nullable_since=0)] = None
    is_fenced: Annotated[bool, wire("bool", since=2, ignorable=True)] = False


class DescribeClusterResponse(Message):
    """Cluster id, controller and nodes; apiKey 60, v0-2. Source: DescribeClusterResponse.json."""

    API_KEY = 60
    VERSIONS = (0, 2)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = None
    endpoint_type: Annotated[int, wire("int8", since=1, ignorable=True)] = 1
    cluster_id: Annotated[str, wire("string")] = ""
    controller_id: Annotated[int, wire("int32")] = -1
    brokers: Annotated[tuple[DescribeClusterResponseDescribeClusterBroker, ...], wire("[]DescribeClusterBroker")] = ()
    cluster_authorized_operations: Annotated[int, wire("int32")] = -2147483648
