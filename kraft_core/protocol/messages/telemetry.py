"""Client metrics (KIP-714).

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated
from uuid import UUID

from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message, wire


class GetTelemetrySubscriptionsRequest(Message):
    """Ask which metrics the cluster wants; apiKey 71, v0. Source: GetTelemetrySubscriptionsRequest.json."""

    API_KEY = 71
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    client_instance_id: Annotated[UUID, wire("uuid")] = ZERO_UUID


class GetTelemetrySubscriptionsResponse(Message):
    """The metrics the cluster wants; apiKey 71, v0. Source: GetTelemetrySubscriptionsResponse.json."""

    API_KEY = 71
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    client_instance_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    subscription_id: Annotated[int, wire("int32")] = 0
    accepted_compression_types: Annotated[tuple[int, ...], wire("[]int8")] = ()
    push_interval_ms: Annotated[int, wire("int32")] = 0
    telemetry_max_bytes: Annotated[int, wire("int32")] = 0
    delta_temporality: Annotated[bool, wire("bool")] = False
    requested_metrics: Annotated[tuple[str, ...], wire("[]string")] = ()


class PushTelemetryRequest(Message):
    """Send client metrics; apiKey 72, v0. Source: PushTelemetryRequest.json."""

    API_KEY = 72
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    client_instance_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    subscription_id: Annotated[int, wire("int32")] = 0
    terminating: Annotated[bool, wire("bool")] = False
    compression_type: Annotated[int, wire("int8")] = 0
    metrics: Annotated[bytes, wire("bytes")] = b""


class PushTelemetryResponse(Message):
    """Whether the metrics were accepted; apiKey 72, v0. Source: PushTelemetryResponse.json."""

    API_KEY = 72
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
