"""Brokers and controllers as members of the cluster: registration, and who is who by DescribeCluster.

What happens to partitions when a broker comes or goes is in broker_lifecycle. Source: ClusterControlManager.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NoReturn

from kraft_core.controller.controller_result import ControllerResult
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
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
from kraft_core.protocol.uuids import is_reserved

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kraft_core.image.cluster_replay import EndpointData
    from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage
    from kraft_core.protocol.messages import BrokerRegistrationRequest

log = logging.getLogger(__name__)

CLEAN_SHUTDOWN_DETECTION_VERSION: Final = 3
_SECURITY_PROTOCOLS: Final = range(4)  # PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
_CONTROLLER_ENDPOINTS: Final = 2
_BROKER_ENDPOINTS: Final = 1
_NOT_ASKED: Final = -(2**31)
"""The set of operations in an answer to who did not ask for it."""


def metadata_version(image: MetadataImage) -> int:
    """Return the finalized metadata.version, which an active controller always knows."""
    version = image.features.metadata_version
    assert version is not None, "the active controller has written metadata.version on activation"
    return version


def check_broker_epoch(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerRegistration:
    """Return the broker's registration. Raises STALE_BROKER_EPOCH when it is unknown or of another epoch."""
    registration = image.cluster.brokers.get(broker_id)
    if registration is None:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if registration.epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {registration.epoch}, but got broker epoch {broker_epoch}",
        )
    return registration


def registration_record(
    image: MetadataImage, request: BrokerRegistrationRequest, new_epoch: int, kraft_version: int
) -> RegisterBrokerRecord:
    """Check a registration request and say it as a record.

    The same incarnation as before keeps its epoch, fencing and shutdown state; another begins fenced with `new_epoch`.
    Errors: BROKER_ID_NOT_REGISTERED for a ZooKeeper broker, INVALID_REGISTRATION for wrong directories or no
    metadata.version, UNSUPPORTED_VERSION for a finalized feature outside the broker's range.
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
    """Refuse endpoints that nobody can connect to. Source: ListenerInfo, where it is an unexpected exception."""
    for each in endpoints:
        if each.security_protocol not in _SECURITY_PROTOCOLS:
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
    """Write down a controller's incarnation, endpoints and features (KIP-919).

    Errors: UNSUPPORTED_VERSION below metadata.version 15; INVALID_REGISTRATION for unreachable endpoints.
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


def describe_cluster(
    image: MetadataImage,
    request: DescribeClusterRequest,
    *,
    version: int,
    cluster_id: str,
    leader_id: int,
    listener_name: str,
    operations: Callable[[], int],
) -> DescribeClusterResponse:
    """List the registered controllers that have the listener the request came in by, and the active one.

    The leader is -1 while it has not registered. `operations` lists what the asker may do, if it wants to know.
    Errors: UNSUPPORTED_VERSION below metadata.version 15;
    MISMATCHED_ENDPOINT_TYPE for brokers, UNSUPPORTED_ENDPOINT_TYPE for what is neither (INVALID_REQUEST in v0).
    Source: ControllerApis.handleDescribeCluster, AuthHelper.computeDescribeClusterResponse.
    """
    if not is_controller_registration_supported(image.features.metadata_version or 0):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "Direct-to-controller communication is not supported with the current MetadataVersion.",
        )
    wanted = request.endpoint_type
    if wanted != _CONTROLLER_ENDPOINTS:
        known = wanted == _BROKER_ENDPOINTS
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
        if (endpoint := controller.listener(listener_name)) is not None
    ]
    return DescribeClusterResponse(
        error_message=None,
        endpoint_type=_CONTROLLER_ENDPOINTS,
        cluster_id=cluster_id,
        controller_id=leader_id if any(node.broker_id == leader_id for node in nodes) else -1,
        brokers=tuple(nodes),
        cluster_authorized_operations=operations() if request.include_cluster_authorized_operations else _NOT_ASKED,
    )
