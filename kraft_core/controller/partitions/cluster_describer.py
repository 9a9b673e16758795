"""A view of an image's brokers: which may lead, which may get replicas, and in which directory.

Source: ReplicationControlManager.KRaftClusterDescriber and LeaderAcceptor, ClusterControlManager, Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraft_core.controller.partitions.striped_replica_placer import UsableBroker
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.metadata_version import is_directory_assignment_supported
from kraft_core.protocol.uuids import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from uuid import UUID

    from rpds import HashTrieMap

    from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage
    from kraft_core.image.topics_image import PartitionRegistration


class ClusterDescriber:
    """The registered brokers of one image; reusable for every image that `describes` accepts."""

    __slots__ = ("_default_dirs", "_metadata_version", "_registrations", "active", "usable_brokers")

    def __init__(self, image: MetadataImage) -> None:
        self._registrations: Final = image.cluster.brokers
        self._metadata_version: Final = image.features.metadata_version
        self._default_dirs: Final[dict[int, UUID]] = {}
        brokers = sorted(self._registrations.values(), key=lambda broker: broker.id)
        self.active: Final = frozenset(broker.id for broker in brokers if broker.active)
        """Brokers that are neither fenced nor shutting down."""
        self.usable_brokers: Final = tuple(
            UsableBroker(broker.id, broker.rack, broker.fenced)
            for broker in brokers
            if (broker.fenced or not broker.in_controlled_shutdown) and broker.has_uncordoned_dirs()
        )
        """Brokers that may get new replicas, by id: not shutting down, with a directory that is not cordoned."""

    def describes(self, image: MetadataImage) -> bool:
        """Report whether the image has the same brokers."""
        return (
            self._registrations is image.cluster.brokers and self._metadata_version == image.features.metadata_version
        )

    @property
    def registrations(self) -> HashTrieMap[int, BrokerRegistration]:
        """All registered brokers."""
        return self._registrations

    def default_dir(self, broker_id: int) -> UUID:
        """Return a new replica's directory: the broker's only one, else UNASSIGNED; MIGRATING if none is registered."""
        directory = self._default_dirs.get(broker_id)
        if directory is None:
            directory = self._default_dirs[broker_id] = self._find_default_dir(broker_id)
        return directory

    def _find_default_dir(self, broker_id: int) -> UUID:
        if not is_directory_assignment_supported(self._metadata_version or 0):
            return DIRECTORY_MIGRATING
        registration = self._registrations.get(broker_id)
        if registration is None:
            return DIRECTORY_UNASSIGNED
        if not registration.directories:
            return DIRECTORY_MIGRATING
        return registration.directories[0] if len(registration.directories) == 1 else DIRECTORY_UNASSIGNED

    def leader_acceptor(
        self, partition: PartitionRegistration, live: Collection[int] | None = None
    ) -> Callable[[int], bool]:
        """Return a predicate for brokers that may lead the partition: live, and the replica's directory online.

        `live`: the active brokers, None for those of the image. While a broker is fenced or unfenced, the image still
        shows its former state.
        """
        candidates = self.active if live is None else live
        registrations = self._registrations

        def accepts(broker_id: int) -> bool:
            if broker_id not in candidates:
                return False
            registration = registrations.get(broker_id)
            if registration is None:
                return False
            directory = partition.directory(broker_id)
            return directory is None or registration.has_online_dir(directory)

        return accepts

    def validate_manual_assignment(self, replicas: Iterable[int], replication_factor: int | None) -> None:
        """Validate an assignment from a user.

        Raises KafkaError INVALID_REPLICA_ASSIGNMENT if it is empty, has an unregistered or repeated broker, or not
        `replication_factor` replicas (None: any number).
        """
        ordered = sorted(replicas)
        previous = None
        if not ordered:
            _refuse("The manual partition assignment includes an empty replica list.")
        for broker_id in ordered:
            if broker_id not in self._registrations:
                _refuse(
                    f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
                )
            if broker_id == previous:
                _refuse(f"The manual partition assignment includes the broker {broker_id} more than once.")
            previous = broker_id
        if replication_factor is not None and len(ordered) != replication_factor:
            _refuse(
                f"The manual partition assignment includes a partition with {len(ordered)} replica(s), but this is not "
                f"consistent with previous partitions, which have {replication_factor} replica(s)."
            )


def _refuse(reason: str) -> None:
    raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
