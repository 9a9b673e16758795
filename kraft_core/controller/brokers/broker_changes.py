"""What a broker's coming and going does to partitions, together with the registration record that says so.

The caller decides when: a session ran out, a heartbeat wants something, an operator unregisters. Each function returns the
records in Kafka's order. A fenced broker is taken out of the ISRs before the record that fences it, an unfenced one gets
its record before the partitions that it leads.

Source: ReplicationControlManager.handleBrokerFenced and its siblings, Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraft_core.controller.partitions.partition_changes import (
    PartitionChanges,
    partitions_in_directory,
    partitions_in_elr,
    partitions_in_isr,
)
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.metadata_records import BrokerRegistrationChangeRecord, UnregisterBrokerRecord

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID

    from kraft_core.controller.partitions.partition_scan import PartitionScan
    from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage
    from kraft_core.protocol.metadata_records import MetadataRecord

FENCE: Final = 1
UNFENCE: Final = -1
IN_CONTROLLED_SHUTDOWN: Final = 1
"""Values of BrokerRegistrationChangeRecord.fenced and in_controlled_shutdown; 0 leaves them as they are."""


class BrokerChanges:
    """Records for brokers that come and go, over any image."""

    def __init__(self, changes: PartitionChanges, scan: PartitionScan) -> None:
        self._changes = changes
        self._scan = scan

    def broker_fenced(self, image: MetadataImage, broker_id: int) -> list[MetadataRecord]:
        """Take the broker out of every ISR and leadership, then fence it. It must be registered."""
        registration = _registration(image, broker_id)
        records = self._removed_from_isrs(image, broker_id)
        change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=registration.epoch, fenced=FENCE)
        return [*records, change]

    def broker_unfenced(self, image: MetadataImage, broker_id: int) -> list[MetadataRecord]:
        """Unfence the broker, then elect leaders in all partitions without one that can have one now.

        Mostly it is this broker; but where unclean elections were allowed meanwhile, it may be any live replica.
        """
        registration = _registration(image, broker_id)
        change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=registration.epoch, fenced=UNFENCE)
        leaderless = (
            (found.topic, index, found.topic.partitions[index])
            for found in self._scan.findings(image)
            for index in found.leaderless
        )
        return [change, *self._changes.leader_and_isr_updates(image, leaderless, add=broker_id)]

    def broker_in_controlled_shutdown(self, image: MetadataImage, broker_id: int) -> list[MetadataRecord]:
        """Mark the broker as shutting down, unless it is marked, and move its leaderships away."""
        registration = _registration(image, broker_id)
        records: list[MetadataRecord] = []
        if not registration.in_controlled_shutdown:
            records.append(
                BrokerRegistrationChangeRecord(
                    broker_id=broker_id,
                    broker_epoch=registration.epoch,
                    in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN,
                )
            )
        return [*records, *self._removed_from_isrs(image, broker_id)]

    def broker_unregistered(self, image: MetadataImage, broker_id: int) -> list[MetadataRecord]:
        """Take the broker out of every ISR, ELR and leadership, then remove its registration.

        Raises KafkaError BROKER_ID_NOT_REGISTERED.
        """
        registration = image.cluster.brokers.get(broker_id)
        if registration is None:
            message = f"Broker ID {broker_id} is not currently registered"
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, message)
        records = self._removed_from_isrs(image, broker_id)
        records.extend(
            self._changes.leader_and_isr_updates(image, partitions_in_elr(image, broker_id), remove=broker_id)
        )
        return [*records, UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=registration.epoch)]

    def broker_shutdown(self, image: MetadataImage, broker_id: int, *, is_clean: bool) -> list[MetadataRecord]:
        """Clean up after a broker that registers again under a new incarnation.

        After an unclean stop its replicas may lack records that they had acknowledged, so with eligible leader replicas on
        it leaves the ELRs too. Without, and after a clean stop, it leaves the ISRs, as when it is fenced.
        """
        if is_clean or not image.features.elr_enabled:
            return self._removed_from_isrs(image, broker_id)
        updates = self._changes.leader_and_isr_updates
        in_isr, in_elr = partitions_in_isr(image, broker_id), partitions_in_elr(image, broker_id)
        return [
            *updates(image, in_isr, unclean_shutdown=broker_id),
            *updates(image, in_elr, unclean_shutdown=broker_id),
        ]

    def directories_offline(
        self, image: MetadataImage, broker_id: int, offline: Collection[UUID]
    ) -> list[MetadataRecord]:
        """Take the broker out of the ISRs of partitions in directories that went offline, and record what is left.

        Directories that are not online anyway change nothing.
        """
        registration = _registration(image, broker_id)
        newly_offline = [directory for directory in registration.directories if directory in offline]
        if not newly_offline:
            return []
        records: list[MetadataRecord] = []
        for directory in newly_offline:
            partitions = partitions_in_directory(image, broker_id, directory)
            records.extend(self._changes.leader_and_isr_updates(image, partitions, remove=broker_id))
        online = tuple(directory for directory in registration.directories if directory not in offline)
        change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=registration.epoch, log_dirs=online)
        return [*records, change]

    def directories_cordoned(
        self, image: MetadataImage, broker_id: int, cordoned: Collection[UUID] | None
    ) -> list[MetadataRecord]:
        """Record the directories that get no new replicas, if they differ from the stored ones.

        None means that the broker does not know yet; an empty list differs from a value never told.
        """
        registration = _registration(image, broker_id)
        stored = registration.cordoned_directories
        if cordoned is None or (stored is not None and set(stored) == set(cordoned)):
            return []
        return [
            BrokerRegistrationChangeRecord(
                broker_id=broker_id, broker_epoch=registration.epoch, cordoned_log_dirs=tuple(cordoned)
            )
        ]

    def _removed_from_isrs(self, image: MetadataImage, broker_id: int) -> list[MetadataRecord]:
        in_isr = partitions_in_isr(image, broker_id)
        return self._changes.leader_and_isr_updates(image, in_isr, remove=broker_id)


def _registration(image: MetadataImage, broker_id: int) -> BrokerRegistration:
    registration = image.cluster.brokers.get(broker_id)
    assert registration is not None, f"no registration of broker {broker_id}"
    return registration
