"""The metadata image: all metadata at one offset of the log, as an immutable value.

All parts are `msgspec` structs with persistent maps (`rpds.HashTrieMap`), so a new image shares almost everything with
the previous one, and keeping an old image costs one reference. Only `metadata_delta` creates new images.

A map's iteration order is arbitrary, so readers sort it. Equality compares content.
Source: org.apache.kafka.image, Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec
from rpds import HashTrieMap

from kraft_core.image.acls_image import AclsImage, StandardAcl
from kraft_core.image.topics_image import (
    LEADER_NONE,
    RECOVERED,
    RECOVERING,
    PartitionRegistration,
    TopicImage,
    TopicsImage,
    intern_ids,
    intern_uuids,
)

if TYPE_CHECKING:
    from uuid import UUID

__all__ = [
    "LEADER_NONE",
    "RECOVERED",
    "RECOVERING",
    "AclsImage",
    "BrokerRegistration",
    "ClusterImage",
    "ConfigurationsImage",
    "ControllerRegistration",
    "DelegationToken",
    "Endpoint",
    "FeaturesImage",
    "MetadataImage",
    "PartitionRegistration",
    "ScramCredential",
    "StandardAcl",
    "TopicImage",
    "TopicsImage",
    "VersionRange",
    "intern_ids",
    "intern_uuids",
]


class Endpoint(msgspec.Struct, frozen=True, gc=False):
    """A listener of a broker or controller; `security_protocol` is SecurityProtocol's id (0 PLAINTEXT, 1 SSL, …)."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class VersionRange(msgspec.Struct, frozen=True, gc=False):
    """Levels of one feature that a node supports, both ends included."""

    min: int
    max: int

    def contains(self, level: int) -> bool:
        """Return whether `level` is in the range."""
        return self.min <= level <= self.max


class BrokerRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's registration and its current state.

    `epoch`: log offset, unique and increasing per registration. `directories`: the online ones, sorted.
    `cordoned_directories`: None until the broker's heartbeat has reported them. Source: BrokerRegistration.
    """

    id: int
    epoch: int
    incarnation_id: UUID
    listeners: tuple[Endpoint, ...]
    supported_features: HashTrieMap[str, VersionRange]
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    is_migrating_zk_broker: bool = False
    directories: tuple[UUID, ...] = ()
    cordoned_directories: tuple[UUID, ...] | None = None

    @property
    def active(self) -> bool:
        """Whether the broker can lead and be in an ISR: neither fenced nor in controlled shutdown."""
        return not self.fenced and not self.in_controlled_shutdown

    def listener(self, name: str) -> Endpoint | None:
        """Return the endpoint with this listener name."""
        return next((endpoint for endpoint in self.listeners if endpoint.name == name), None)

    def has_online_dir(self, directory: UUID) -> bool:
        """Return whether a replica in `directory` is online.

        Reserved ids: UNASSIGNED (1) and MIGRATING (0) count as online, LOST (2) does not; a broker that registered no
        directories has every directory online. Source: DirectoryId.isOnline.
        """
        number = directory.int
        if number in {0, 1}:
            return True
        if number == 2:  # LOST
            return False
        return not self.directories or directory in self.directories

    def has_uncordoned_dirs(self) -> bool:
        """Return whether new replicas can be placed on the broker (KIP-1066)."""
        if not self.directories or self.cordoned_directories is None:
            return True
        return any(directory not in self.cordoned_directories for directory in self.directories)


class ControllerRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """A controller's registration. Source: ControllerRegistration (KIP-919)."""

    id: int
    incarnation_id: UUID
    listeners: tuple[Endpoint, ...]
    supported_features: HashTrieMap[str, VersionRange]
    zk_migration_ready: bool = False

    def listener(self, name: str) -> Endpoint | None:
        """Return the endpoint with this listener name."""
        return next((endpoint for endpoint in self.listeners if endpoint.name == name), None)


class FeaturesImage(msgspec.Struct, frozen=True):
    """Finalized features. `metadata_version` is None until the log sets it; `levels` contains the others above 0.

    It does not contain kraft.version, which is in the log's control records.
    """

    metadata_version: int | None = None
    levels: HashTrieMap[str, int] = HashTrieMap()

    def level(self, name: str) -> int:
        """Return the finalized level of a feature; 0 when it is not set."""
        if name == "metadata.version":
            return self.metadata_version or 0
        return self.levels.get(name, 0)

    @property
    def elr_enabled(self) -> bool:
        """Whether eligible leader replicas are enabled (KIP-966)."""
        return self.levels.get("eligible.leader.replicas.version", 0) >= 1


class ClusterImage(msgspec.Struct, frozen=True):
    """The registered nodes."""

    brokers: HashTrieMap[int, BrokerRegistration] = HashTrieMap()
    controllers: HashTrieMap[int, ControllerRegistration] = HashTrieMap()


class ConfigurationsImage(msgspec.Struct, frozen=True):
    """Dynamic configs by (resource type, resource name); the name "" means the default of all brokers.

    A resource without a value is absent.
    """

    by_resource: HashTrieMap[tuple[int, str], HashTrieMap[str, str]] = HashTrieMap()

    EMPTY_RESOURCE: ClassVar[HashTrieMap[str, str]] = HashTrieMap()

    def of(self, resource_type: int, name: str) -> HashTrieMap[str, str]:
        """Return the configs of one resource, empty if it has none."""
        return self.by_resource.get((resource_type, name), self.EMPTY_RESOURCE)


class ScramCredential(msgspec.Struct, frozen=True, gc=False):
    """A user's SCRAM keys; the password itself is not stored."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        """Return a text without key material, for logs and tracebacks."""
        return f"ScramCredential([hidden], iterations={self.iterations})"


class DelegationToken(msgspec.Struct, frozen=True, gc=False):
    """A delegation token; timestamps in ms since 1970. Principals are "User:name"."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int

    def __repr__(self) -> str:
        """Return a text without secrets, for logs and tracebacks."""
        return "DelegationToken([hidden])"


class MetadataImage(msgspec.Struct, frozen=True):
    """All metadata after applying the log up to and including `offset` (-1: nothing), a record of leader epoch `epoch`.

    client_quotas: entity → key → value, an entity being (type, name or None) pairs sorted by type.
    producer_ids: the next producer id to assign, -1 before the first block. scram: mechanism (1 SHA-256, 2 SHA-512)
    → user → credential. delegation_tokens by their id.
    """

    offset: int = -1
    epoch: int = -1
    features: FeaturesImage = FeaturesImage()
    cluster: ClusterImage = ClusterImage()
    topics: TopicsImage = TopicsImage()
    configs: ConfigurationsImage = ConfigurationsImage()
    client_quotas: HashTrieMap[tuple[tuple[str, str | None], ...], HashTrieMap[str, float]] = HashTrieMap()
    producer_ids: int = -1
    acls: AclsImage = AclsImage()
    scram: HashTrieMap[int, HashTrieMap[str, ScramCredential]] = HashTrieMap()
    delegation_tokens: HashTrieMap[str, DelegationToken] = HashTrieMap()

    EMPTY: ClassVar[MetadataImage]

    def same_metadata(self, other: MetadataImage) -> bool:
        """Return whether all content is equal, apart from offset and epoch."""
        return self == msgspec.structs.replace(other, offset=self.offset, epoch=self.epoch)

    def is_replica_online(self, partition: PartitionRegistration, broker_id: int) -> bool:
        """Return whether a replica's broker is unfenced and its log directory online."""
        broker = self.cluster.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return False
        directory = partition.directory(broker_id) if partition.directories else None
        return directory is None or broker.has_online_dir(directory)


MetadataImage.EMPTY = MetadataImage()
