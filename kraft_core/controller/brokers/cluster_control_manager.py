"""ClusterControlManager: registration of brokers and controllers, and DescribeCluster.

Heartbeats, fencing and unregistration are in replication_control_manager, as in Kafka, because they change partitions.
Source: ClusterControlManager, Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from kraft_core.controller.controller_result import ControllerResult
from kraft_core.protocol.endpoint_type import EndpointType
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    BrokerRegistrationResponse,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponseDescribeClusterBroker,
)
from kraft_core.protocol.metadata_records import (
    RegisterBrokerRecord,
    RegisterBrokerRecordBrokerEndpoint,
    RegisterBrokerRecordBrokerFeature,
    RegisterControllerRecord,
    RegisterControllerRecordControllerEndpoint,
    RegisterControllerRecordControllerFeature,
)
from kraft_core.protocol.metadata_version import (
    KRAFT_VERSION,
    METADATA_VERSION,
    is_controller_registration_supported,
    is_directory_assignment_supported,
)
from kraft_core.protocol.security_protocol import SECURITY_PROTOCOL_IDS
from kraft_core.protocol.uuids import is_reserved

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kraft_core.controller.brokers.broker_heartbeat_manager import BrokerHeartbeatManager
    from kraft_core.controller.controller_config import ControllerConfig
    from kraft_core.controller.controller_request_context import ControllerRequestContext
    from kraft_core.controller.record_writer import RecordWriter
    from kraft_core.image.cluster_replay import EndpointData
    from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage
    from kraft_core.protocol.messages import BrokerRegistrationRequest
    from kraft_core.protocol.metadata_records import MetadataRecord

log = logging.getLogger(__name__)

CLEAN_SHUTDOWN_DETECTION_VERSION: Final = 3
_NOT_ASKED: Final = -(2**31)
"""cluster_authorized_operations when the request does not include them."""


def metadata_version(image: MetadataImage) -> int:
    """Return the finalized metadata.version; on the active controller it is always set."""
    version = image.features.metadata_version
    assert version is not None, "the active controller has written metadata.version on activation"
    return version


def check_broker_epoch(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerRegistration:
    """Return the registration. Raises KafkaError STALE_BROKER_EPOCH if it does not exist or has another epoch."""
    registration = image.cluster.brokers.get(broker_id)
    if registration is None:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if registration.epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {registration.epoch}, but got broker epoch {broker_epoch}",
        )
    return registration


class BrokerShutdownHandler(Protocol):
    """ReplicationControlManager.handle_broker_shutdown. Source: BrokerShutdownHandler."""

    def __call__(self, image: MetadataImage, broker_id: int, *, is_clean: bool) -> list[MetadataRecord]:
        """Return the records that remove the former incarnation of a broker."""


class ClusterControlManager:
    """Registers brokers and lists the controllers.

    `writer` gives the quorum's state: the next offset, which becomes the broker epoch, kraft.version and the leader.
    """

    def __init__(
        self,
        config: ControllerConfig,
        writer: RecordWriter,
        heartbeats: BrokerHeartbeatManager,
        handle_broker_shutdown: BrokerShutdownHandler,
    ) -> None:
        self._config = config
        self._writer = writer
        self._heartbeats = heartbeats
        self._handle_broker_shutdown = handle_broker_shutdown

    def register_broker(
        self, image: MetadataImage, request: BrokerRegistrationRequest, version: int, now_ms: int
    ) -> ControllerResult[BrokerRegistrationResponse]:
        """Register a broker and remove its former incarnation from the ISRs.

        The registration record comes last, so the records may be split into batches: if the controller fails between
        them, the broker registers again.
        Raises KafkaError: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION while the session of another
        incarnation is valid, and the errors of `registration_record`.
        """
        if request.cluster_id != self._config.cluster_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"Expected cluster ID {self._config.cluster_id}, but got cluster ID {request.cluster_id}",
            )
        broker_id = request.broker_id
        existing = image.cluster.brokers.get(broker_id)
        is_new = existing is None or existing.incarnation_id != request.incarnation_id
        if existing is not None and is_new and self._heartbeats.has_valid_session(broker_id, existing.epoch, now_ms):
            raise KafkaError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                "Another broker is registered with that broker id. If the broker was recently restarted this should "
                "self-resolve once the heartbeat manager expires the broker's session.",
            )
        registration = registration_record(image, request, self._writer.next_offset, self._writer.kraft_version)
        records: list[MetadataRecord] = []
        if is_new:
            reported_epoch = request.previous_broker_epoch if version >= CLEAN_SHUTDOWN_DETECTION_VERSION else None
            is_clean = existing is not None and existing.epoch == reported_epoch
            records.extend(self._handle_broker_shutdown(image, broker_id, is_clean=is_clean))
        log.info(
            "registering_broker",
            extra={
                "broker_id": broker_id,
                "broker_epoch": registration.broker_epoch,
                "new_incarnation": is_new,
                "clean_up_records": len(records),
            },
        )
        records.append(registration)

        def appended(last_offset: int) -> None:
            self._heartbeats.registered(broker_id, last_offset, new_incarnation=is_new)

        response = BrokerRegistrationResponse(broker_epoch=registration.broker_epoch)
        return ControllerResult(records, response, appended=appended)

    def describe_cluster(
        self, image: MetadataImage, request: DescribeClusterRequest, version: int, context: ControllerRequestContext
    ) -> DescribeClusterResponse:
        """List the registered controllers that have the request's listener, and the active controller.

        The leader is -1 while it has not registered. The sender's permitted operations are included on request.
        Raises KafkaError: UNSUPPORTED_VERSION below metadata.version 15; MISMATCHED_ENDPOINT_TYPE for brokers,
        UNSUPPORTED_ENDPOINT_TYPE for an unknown type (both INVALID_REQUEST in v0).
        Source: ControllerApis.handleDescribeCluster, AuthHelper.computeDescribeClusterResponse.
        """
        if not is_controller_registration_supported(image.features.metadata_version or 0):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "Direct-to-controller communication is not supported with the current MetadataVersion.",
            )
        wanted = request.endpoint_type
        if wanted != EndpointType.CONTROLLER:
            known = wanted == EndpointType.BROKER
            message = (
                "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER"
                if known
                else f"Unsupported endpoint type {wanted}"
            )
            code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            raise KafkaError(ErrorCode.INVALID_REQUEST if version == 0 else code, message)
        nodes = [
            DescribeClusterResponseDescribeClusterBroker(broker_id=node_id, host=endpoint.host, port=endpoint.port)
            for node_id, controller in sorted(image.cluster.controllers.items(), key=lambda item: item[0])
            if (endpoint := controller.listener(context.listener_name)) is not None
        ]
        leader_id = self._writer.leader_id
        return DescribeClusterResponse(
            error_message=None,
            endpoint_type=EndpointType.CONTROLLER,
            cluster_id=self._config.cluster_id,
            controller_id=leader_id if any(node.broker_id == leader_id for node in nodes) else -1,
            brokers=tuple(nodes),
            cluster_authorized_operations=context.access.cluster_operations()
            if request.include_cluster_authorized_operations
            else _NOT_ASKED,
        )


def registration_record(
    image: MetadataImage, request: BrokerRegistrationRequest, new_epoch: int, kraft_version: int
) -> RegisterBrokerRecord:
    """Validate a registration request and return its record.

    The same incarnation keeps its epoch, fencing and shutdown state; a new one starts fenced with `new_epoch`.
    Raises KafkaError: BROKER_ID_NOT_REGISTERED for a ZooKeeper broker, INVALID_REGISTRATION for invalid directories or
    endpoints or a missing metadata.version, UNSUPPORTED_VERSION for a finalized feature outside the broker's range.
    """
    if request.is_migrating_zk_broker:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers.")
    with_directories = is_directory_assignment_supported(metadata_version(image))
    if with_directories:
        _check_directories(image, request)
    _check_endpoints(request.listeners)
    _check_features(image, request, kraft_version)
    existing = image.cluster.brokers.get(request.broker_id)
    amended = existing if existing is not None and existing.incarnation_id == request.incarnation_id else None
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=new_epoch if amended is None else amended.epoch,
        end_points=tuple(
            RegisterBrokerRecordBrokerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in request.listeners
        ),
        features=tuple(
            RegisterBrokerRecordBrokerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in request.features
        ),
        rack=request.rack,
        fenced=True if amended is None else amended.fenced,
        in_controlled_shutdown=False if amended is None else amended.in_controlled_shutdown,
        log_dirs=request.log_dirs if with_directories else (),
    )


def _check_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    def refuse(message: str) -> NoReturn:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, message)

    if not request.log_dirs:
        refuse("No directories specified in request")
    if any(is_reserved(directory) for directory in request.log_dirs):
        refuse("Reserved directory ID in request")
    wanted = set(request.log_dirs)
    if len(wanted) != len(request.log_dirs):
        refuse("Duplicate directory ID in request")
    for broker in image.cluster.brokers.values():
        taken = wanted.intersection(broker.directories) if broker.id != request.broker_id else None
        if taken:
            refuse(f"Broker {broker.id} is already registered with directory {min(taken)}")


def _check_endpoints(endpoints: Sequence[EndpointData]) -> None:
    """Raise KafkaError INVALID_REGISTRATION for unreachable endpoints; Kafka's ListenerInfo fails unexpectedly."""
    for each in endpoints:
        if each.security_protocol not in SECURITY_PROTOCOL_IDS:
            message = f"Unknown security protocol {each.security_protocol} in listener {each.name}"
        elif not each.name:
            message = "Listeners must be named."
        elif not each.host or each.port == 0:
            message = f"Listener {each.name} has no reachable address: {each.host}:{each.port}"
        else:
            continue
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, message)


def _check_features(image: MetadataImage, request: BrokerRegistrationRequest, kraft_version: int) -> None:
    finalized = {**image.features.levels, METADATA_VERSION: metadata_version(image), KRAFT_VERSION: kraft_version}
    offered = {each.name: (each.min_supported_version, each.max_supported_version) for each in request.features}
    for name, (low, high) in offered.items():
        _check_feature(finalized, name, low, high)
    if METADATA_VERSION not in offered:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"Request features do not contain '{METADATA_VERSION}'")
    for name, level in sorted(finalized.items()):
        if level != 0 and name not in offered:
            _check_feature(finalized, name, 0, 0)


def _check_feature(finalized: Mapping[str, int], name: str, low: int, high: int) -> None:
    level = finalized.get(name, 0)
    if not low <= level <= high:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Unable to register because the broker does not support finalized version {level} of {name}. "
            f"The broker wants a version between {low} and {high}, inclusive.",
        )


def register_controller(
    image: MetadataImage, request: ControllerRegistrationRequest
) -> ControllerResult[ControllerRegistrationResponse]:
    """Record a controller's incarnation, endpoints and features (KIP-919).

    Raises KafkaError: UNSUPPORTED_VERSION below metadata.version 15; INVALID_REGISTRATION for unreachable endpoints.
    """
    if not is_controller_registration_supported(metadata_version(image)):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller registrations.",
        )
    _check_endpoints(request.listeners)
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=tuple(
            RegisterControllerRecordControllerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in request.listeners
        ),
        features=tuple(
            RegisterControllerRecordControllerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in request.features
        ),
    )
    return ControllerResult([record], ControllerRegistrationResponse(error_message=""), is_atomic=True)
