"""Registration of brokers and controllers with the active controller (KIP-631, 919).

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated
from uuid import UUID

from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message, wire


class BrokerRegistrationRequestListener(Message):
    """An element of BrokerRegistrationRequest.listeners."""

    name: Annotated[str, wire("string")] = ""
    host: Annotated[str, wire("string")] = ""
    port: Annotated[int, wire("uint16")] = 0
    security_protocol: Annotated[int, wire("int16")] = 0


class BrokerRegistrationRequestFeature(Message):
    """An element of BrokerRegistrationRequest.features."""

    name: Annotated[str, wire("string")] = ""
    min_supported_version: Annotated[int, wire("int16")] = 0
    max_supported_version: Annotated[int, wire("int16")] = 0


class BrokerRegistrationRequest(Message):
    """Register a broker with the active controller; apiKey 62, v0-4. Source: BrokerRegistrationRequest.json."""

    API_KEY = 62
    VERSIONS = (0, 4)
    FLEXIBLE = 0

    broker_id: Annotated[int, wire("int32")] = 0
    cluster_id: Annotated[str, wire("string")] = ""
    incarnation_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    listeners: Annotated[tuple[BrokerRegistrationRequestListener, ...], wire("[]Listener")] = ()
    features: Annotated[tuple[BrokerRegistrationRequestFeature, ...], wire("[]Feature")] = ()
    rack: Annotated[str | None, wire("string", nullable_since=0)] = ""
    is_migrating_zk_broker: Annotated[bool, wire("bool", since=1)] = False
    log_dirs: Annotated[tuple[UUID, ...], wire("[]uuid", since=2, ignorable=True)] = ()
    previous_broker_epoch: Annotated[int, wire("int64", since=3, ignorable=True)] = -1


class BrokerRegistrationResponse(Message):
    """The epoch of the registered broker; apiKey 62, v0-4. Source: BrokerRegistrationResponse.json."""

    API_KEY = 62
    VERSIONS = (0, 4)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    broker_epoch: Annotated[int, wire("int64")] = -1


class BrokerHeartbeatRequest(Message):
    """A broker's heartbeat with the state it requests; apiKey 63, v0-2. Source: BrokerHeartbeatRequest.json."""

    API_KEY = 63
    VERSIONS = (0, 2)
    FLEXIBLE = 0

    broker_id: Annotated[int, wire("int32")] = 0
    broker_epoch: Annotated[int, wire("int64")] = -1
    current_metadata_offset: Annotated[int, wire("int64")] = 0
    want_fence: Annotated[bool, wire("bool")] = False
    want_shut_down: Annotated[bool, wire("bool")] = False
    offline_log_dirs: Annotated[tuple[UUID, ...], wire("[]uuid", since=1, tag=0)] = ()
    cordoned_log_dirs: Annotated[tuple[UUID, ...] | None, wire("[]uuid", since=2, nullable_since=2, tag=1)] = None


class BrokerHeartbeatResponse(Message):
    """The broker's state in the controller; apiKey 63, v0-2. Source: BrokerHeartbeatResponse.json."""

    API_KEY = 63
    VERSIONS = (0, 2)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    is_caught_up: Annotated[bool, wire("bool")] = False
    is_fenced: Annotated[bool, wire("bool")] = True
    should_shut_down: Annotated[bool, wire("bool")] = False


class UnregisterBrokerRequest(Message):
    """Unregister a broker; apiKey 64, v0. Source: UnregisterBrokerRequest.json."""

    API_KEY = 64
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    broker_id: Annotated[int, wire("int32")] = 0


class UnregisterBrokerResponse(Message):
    """Whether the broker was unregistered; apiKey 64, v0. Source: UnregisterBrokerResponse.json."""

    API_KEY = 64
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""


class ControllerRegistrationRequestListener(Message):
    """An element of ControllerRegistrationRequest.listeners."""

    name: Annotated[str, wire("string")] = ""
    host: Annotated[str, wire("string")] = ""
    port: Annotated[int, wire("uint16")] = 0
    security_protocol: Annotated[int, wire("int16")] = 0


class ControllerRegistrationRequestFeature(Message):
    """An element of ControllerRegistrationRequest.features."""

    name: Annotated[str, wire("string")] = ""
    min_supported_version: Annotated[int, wire("int16")] = 0
    max_supported_version: Annotated[int, wire("int16")] = 0


class ControllerRegistrationRequest(Message):
    """Register a controller with the active controller; apiKey 70, v0. Source: ControllerRegistrationRequest.json."""

    API_KEY = 70
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    controller_id: Annotated[int, wire("int32")] = 0
    incarnation_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    zk_migration_ready: Annotated[bool, wire("bool")] = False
    listeners: Annotated[tuple[ControllerRegistrationRequestListener, ...], wire("[]Listener")] = ()
    features: Annotated[tuple[ControllerRegistrationRequestFeature, ...], wire("[]Feature")] = ()


class ControllerRegistrationResponse(Message):
    """Whether the controller was registered; apiKey 70, v0. Source: ControllerRegistrationResponse.json."""

    API_KEY = 70
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""
