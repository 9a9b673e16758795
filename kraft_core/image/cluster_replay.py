"""Replay of broker and controller registrations. Source: ClusterDelta, BrokerRegistration, Kafka 4.3.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec
from rpds import HashTrieMap

from kraft_core.image.metadata_image import (
    BrokerRegistration,
    ClusterImage,
    ControllerRegistration,
    Endpoint,
    VersionRange,
)
from kraft_core.image.replay_error import ReplayError
from kraft_core.protocol.security_protocol import SECURITY_PROTOCOL_IDS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from kraft_core.protocol.metadata_records import (
        BrokerRegistrationChangeRecord,
        FenceBrokerRecord,
        RegisterBrokerRecord,
        RegisterControllerRecord,
        UnfenceBrokerRecord,
        UnregisterBrokerRecord,
    )


class EndpointData(Protocol):
    """An endpoint in a request or record."""

    @property
    def name(self) -> str:
        """The listener's name."""

    @property
    def host(self) -> str:
        """Where it is reached."""

    @property
    def port(self) -> int:
        """Where it is reached."""

    @property
    def security_protocol(self) -> int:
        """The SecurityProtocol's id."""


class _FeatureData(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def min_supported_version(self) -> int: ...
    @property
    def max_supported_version(self) -> int: ...


def register_broker(cluster: ClusterImage, record: RegisterBrokerRecord) -> ClusterImage:
    """Add a registration, replacing the broker's earlier one."""
    if not all(each.name for each in record.end_points):
        raise ReplayError(f"Broker listeners must be named: {record}")
    registration = BrokerRegistration(
        id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        listeners=_endpoints(record.end_points),
        supported_features=_features(record.features),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        is_migrating_zk_broker=record.is_migrating_zk_broker,
        directories=_sorted_uuids(record.log_dirs),
        cordoned_directories=record.cordoned_log_dirs,
    )
    return msgspec.structs.replace(cluster, brokers=cluster.brokers.insert(registration.id, registration))


def unregister_broker(cluster: ClusterImage, record: UnregisterBrokerRecord) -> ClusterImage:
    """Remove a broker; the epoch must be the registered one."""
    _broker(cluster, record.broker_id, record.broker_epoch, "unregister")
    return msgspec.structs.replace(cluster, brokers=cluster.brokers.remove(record.broker_id))


def fence_broker(cluster: ClusterImage, record: FenceBrokerRecord) -> ClusterImage:
    """Fence a broker; a record of logs before metadata.version 7."""
    broker = _broker(cluster, record.id, record.epoch, "fence")
    return _put(cluster, msgspec.structs.replace(broker, fenced=True))


def unfence_broker(cluster: ClusterImage, record: UnfenceBrokerRecord) -> ClusterImage:
    """Unfence a broker; a record of logs before metadata.version 7."""
    broker = _broker(cluster, record.id, record.epoch, "unfence")
    return _put(cluster, msgspec.structs.replace(broker, fenced=False))


def change_broker_registration(cluster: ClusterImage, record: BrokerRegistrationChangeRecord) -> ClusterImage:
    """Change fencing (1, -1), controlled shutdown (1), online or cordoned directories; 0 and None change nothing."""
    broker = _broker(cluster, record.broker_id, record.broker_epoch, "change")
    if record.fenced not in {-1, 0, 1}:
        raise ReplayError(f"Unknown value {record.fenced} for the field fenced of {record}")
    if record.in_controlled_shutdown not in {0, 1}:
        raise ReplayError(f"Unknown value {record.in_controlled_shutdown} for inControlledShutdown of {record}")
    changed = msgspec.structs.replace(
        broker,
        fenced=broker.fenced if record.fenced == 0 else record.fenced == 1,
        in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown == 1,
        directories=_sorted_uuids(record.log_dirs) if record.log_dirs else broker.directories,
        cordoned_directories=(
            broker.cordoned_directories if record.cordoned_log_dirs is None else record.cordoned_log_dirs
        ),
    )
    return _put(cluster, changed)


def register_controller(cluster: ClusterImage, record: RegisterControllerRecord) -> ClusterImage:
    """Add a controller's registration, replacing its earlier one."""
    registration = ControllerRegistration(
        id=record.controller_id,
        incarnation_id=record.incarnation_id,
        listeners=_endpoints(record.end_points),
        supported_features=_features(record.features),
        zk_migration_ready=record.zk_migration_ready,
    )
    return msgspec.structs.replace(cluster, controllers=cluster.controllers.insert(registration.id, registration))


def _broker(cluster: ClusterImage, broker_id: int, epoch: int, action: str) -> BrokerRegistration:
    broker = cluster.brokers.get(broker_id)
    if broker is None:
        raise ReplayError(f"Tried to {action} broker {broker_id}, but that broker was not registered.")
    if broker.epoch != epoch:
        raise ReplayError(
            f"Tried to {action} broker {broker_id}, but the given epoch, {epoch}, "
            f"did not match the current broker epoch, {broker.epoch}"
        )
    return broker


def _put(cluster: ClusterImage, broker: BrokerRegistration) -> ClusterImage:
    return msgspec.structs.replace(cluster, brokers=cluster.brokers.insert(broker.id, broker))


def _endpoints(endpoints: Sequence[EndpointData]) -> tuple[Endpoint, ...]:
    for each in endpoints:
        if each.security_protocol not in SECURITY_PROTOCOL_IDS:
            raise ReplayError(f"Unknown security protocol {each.security_protocol} in listener {each.name}")
    return tuple(Endpoint(each.name, each.host, each.port, each.security_protocol) for each in endpoints)


def _features(features: Sequence[_FeatureData]) -> HashTrieMap[str, VersionRange]:
    return HashTrieMap(
        {each.name: VersionRange(each.min_supported_version, each.max_supported_version) for each in features}
    )


_SIGN_BITS: Final = 1 << 127 | 1 << 63


def _sorted_uuids(uuids: Sequence[UUID]) -> tuple[UUID, ...]:
    """Sort as Java's Uuid, whose halves are signed."""
    return tuple(sorted(uuids, key=lambda uuid: uuid.int ^ _SIGN_BITS))
