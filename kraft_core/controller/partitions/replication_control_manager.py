"""ReplicationControlManager: what brokers that come, go or fall silent do to ISRs and leaders.

It decides when a broker is fenced, unfenced, shut down or unregistered, and builds the partition changes that follow.
The requests of clients and leaders have modules of their own, which use the builder here: topic_creation,
topic_deletion, alter_partition, assign_replicas_to_dirs, leader_election, alter_partition_reassignments.

All methods read an image and return records. Records keep Kafka's order: a broker leaves its ISRs before the record
that fences it, and is unfenced before the partitions that it then leads. Source: ReplicationControlManager, Kafka
4.3.1.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from kraft_core.controller.brokers.broker_heartbeat_manager import BrokerControlState, BrokerHeartbeatManager
from kraft_core.controller.brokers.cluster_control_manager import check_broker_epoch, metadata_version
from kraft_core.controller.controller_result import ControllerResult
from kraft_core.controller.partitions.brokers_to_isrs import (
    has_leaderships,
    partitions_with_broker_in_directory,
    partitions_with_broker_in_elr,
    partitions_with_broker_in_isr,
)
from kraft_core.controller.partitions.cluster_describer import ClusterDescriber
from kraft_core.controller.partitions.partition_change_builder import Election, PartitionChangeBuilder
from kraft_core.controller.partitions.partition_scan import PartitionScan
from kraft_core.image.metadata_delta import replay_all
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import BrokerHeartbeatResponse, UnregisterBrokerResponse
from kraft_core.protocol.metadata_records import BrokerRegistrationChangeRecord, UnregisterBrokerRecord
from kraft_core.protocol.metadata_version import is_cordoned_log_dirs_supported, is_directory_assignment_supported

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from uuid import UUID

    from kraft_core.controller.configuration_control_manager import ConfigurationControlManager
    from kraft_core.controller.partitions.brokers_to_isrs import PartitionRef
    from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage
    from kraft_core.image.topics_image import PartitionRegistration, TopicImage
    from kraft_core.protocol.messages import BrokerHeartbeatRequest, UnregisterBrokerRequest
    from kraft_core.protocol.metadata_records import MetadataRecord, PartitionChangeRecord

log = logging.getLogger(__name__)

FENCE: Final = 1
UNFENCE: Final = -1
IN_CONTROLLED_SHUTDOWN: Final = 1
"""Values of BrokerRegistrationChangeRecord.fenced and in_controlled_shutdown; 0 leaves the field unchanged."""


class ReplicationControlManager:
    """Rules for the replicas of brokers. It keeps no metadata; its caches can be rebuilt from any image."""

    def __init__(self, configuration: ConfigurationControlManager, heartbeats: BrokerHeartbeatManager) -> None:
        self.configuration = configuration
        self._heartbeats = heartbeats
        self._cluster: ClusterDescriber | None = None
        self.scan = PartitionScan()

    # -- what every change of a partition needs

    def cluster(self, image: MetadataImage) -> ClusterDescriber:
        """Return the view of the image's brokers; images with the same brokers share it."""
        if self._cluster is None or not self._cluster.describes(image):
            self._cluster = ClusterDescriber(image)
        return self._cluster

    def builder(
        self,
        image: MetadataImage,
        topic: TopicImage,
        index: int,
        partition: PartitionRegistration,
        *,
        live: Collection[int] | None = None,
        min_isr: int | None = None,
    ) -> PartitionChangeBuilder:
        """Return a change builder for one partition.

        `live`: the brokers to treat as active, None for those of the image. `min_isr`: the effective
        min.insync.replicas if the caller has it already.
        """
        cluster = self.cluster(image)
        return PartitionChangeBuilder(
            partition,
            topic.id,
            index,
            is_acceptable_leader=cluster.leader_acceptor(partition, live),
            default_dir=cluster.default_dir,
            metadata_version=image.features.metadata_version or 0,
            min_isr=self.effective_min_isr(image, topic) if min_isr is None else min_isr,
            elr_enabled=image.features.elr_enabled,
        )

    def effective_min_isr(self, image: MetadataImage, topic: TopicImage) -> int:
        """Return the topic's min.insync.replicas, at most the number of replicas of its first partition."""
        configured = self.configuration.min_insync_replicas(image, topic.name)
        first = topic.partitions.get(0)
        return configured if first is None else min(configured, len(first.replicas))

    def generate_leader_and_isr_updates(
        self,
        image: MetadataImage,
        partitions: Iterable[PartitionRef],
        *,
        remove: int | None = None,
        add: int | None = None,
        unclean_shutdown: int | None = None,
    ) -> list[MetadataRecord]:
        """Return the changes that the partitions need; a partition without change has no record.

        `remove`: a broker that leaves ISR and leadership. `add`: a broker that counts as live although the image still
        shows it fenced. `unclean_shutdown`: a broker that leaves ISR, ELR and leadership.
        """
        live = set(self.cluster(image).active)
        if add is not None:
            live.add(add)
        gone = {broker_id for broker_id in (remove, unclean_shutdown) if broker_id is not None}
        live -= gone
        unclean = () if unclean_shutdown is None else (unclean_shutdown,)
        records: list[MetadataRecord] = []
        built: dict[tuple[object, ...], PartitionChangeRecord | None] = {}
        topic: TopicImage | None = None
        min_isr, unclean_allowed = 1, False
        for each, index, partition in partitions:
            if each is not topic:
                topic = each
                min_isr = self.effective_min_isr(image, topic)
                unclean_allowed = self.configuration.unclean_leader_election_enabled(image, topic.name)
            state = (min_isr, unclean_allowed, *_state(partition))
            if state not in built:
                builder = self.builder(image, topic, index, partition, live=live, min_isr=min_isr)
                builder.election = Election.UNCLEAN if unclean_allowed else Election.ONLINE
                builder.unclean_shutdown_replicas = unclean
                if not gone.isdisjoint(partition.isr):
                    builder.target_isr = tuple(replica for replica in partition.isr if replica not in gone)
                built[state] = builder.build()
            record = built[state]
            if record is not None:
                records.append(msgspec.structs.replace(record, topic_id=topic.id, partition_id=index))
        return records

    # -- when a broker changes its state

    def process_broker_heartbeat(
        self, image: MetadataImage, request: BrokerHeartbeatRequest
    ) -> ControllerResult[BrokerHeartbeatResponse]:
        """Return the response to a heartbeat and the records of the changes that it causes, usually none.

        Raises KafkaError STALE_BROKER_EPOCH.
        """
        broker = check_broker_epoch(image, request.broker_id, request.broker_epoch)
        current, following = self._heartbeats.next_state(
            broker, request, image.cluster, lambda: has_leaderships(image, broker.id)
        )
        records: list[MetadataRecord] = []
        if current is not following:
            log.info(
                "broker_changes_state",
                extra={"broker_id": broker.id, "from_state": current.value, "to_state": following.value},
            )
            records.extend(self._transition(image, broker.id, following))
        self._heartbeats.update(broker.id, request.current_metadata_offset, fenced=following.fenced)
        level = metadata_version(image)
        if request.offline_log_dirs and is_directory_assignment_supported(level):
            # On the image after the transition: it may have made the broker leader of a partition in such a directory.
            after = replay_all(image, records, image.offset, image.epoch) if records else image
            records.extend(self.handle_directories_offline(after, broker.id, request.offline_log_dirs))
        if request.cordoned_log_dirs is not None and is_cordoned_log_dirs_supported(level):
            records.extend(self.handle_directories_cordoned(image, broker.id, request.cordoned_log_dirs))
        response = BrokerHeartbeatResponse(
            is_caught_up=request.current_metadata_offset >= self._heartbeats.registration_offset(broker),
            is_fenced=following.fenced,
            should_shut_down=following is BrokerControlState.SHUTDOWN_NOW,
        )
        if following is not BrokerControlState.CONTROLLED_SHUTDOWN:
            return ControllerResult(records, response)
        heartbeats = self._heartbeats
        return ControllerResult(
            records, response, appended=lambda offset: heartbeats.begin_controlled_shutdown(broker.id, offset)
        )

    def process_expired_broker_heartbeat(self, image: MetadataImage, request: BrokerHeartbeatRequest) -> None:
        """Record the metadata offset of a heartbeat whose deadline passed in the queue, and nothing else.

        Raises KafkaError STALE_BROKER_EPOCH.
        """
        broker = check_broker_epoch(image, request.broker_id, request.broker_epoch)
        self._heartbeats.update(broker.id, request.current_metadata_offset, fenced=broker.fenced)
        log.warning("heartbeat_timed_out", extra={"broker_id": broker.id, "cause": "the event queue is overloaded"})

    def maybe_fence_one_stale_broker(self, image: MetadataImage, now_ms: int) -> ControllerResult[bool]:
        """Fence the broker whose session expired first; the response is True when another may have expired too."""
        expired = self._heartbeats.remove_expired(now_ms)
        if expired is None:
            return ControllerResult((), response=False)
        broker_id, epoch = expired
        broker = image.cluster.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch or broker.fenced:
            return ControllerResult((), response=True)
        log.info("fencing_silent_broker", extra={"broker_id": broker_id, "broker_epoch": epoch})
        self._heartbeats.update(broker_id, -1, fenced=True)
        return ControllerResult(self.handle_broker_fenced(image, broker_id), response=True)

    def unregister_broker(
        self, image: MetadataImage, request: UnregisterBrokerRequest
    ) -> ControllerResult[UnregisterBrokerResponse]:
        """Remove a broker from ISRs, ELRs and the cluster. Raises KafkaError BROKER_ID_NOT_REGISTERED."""
        broker_id = request.broker_id
        records = self.handle_broker_unregistered(image, broker_id)
        response = UnregisterBrokerResponse(error_message="")
        return ControllerResult(records, response, appended=lambda _: self._heartbeats.forget(broker_id))

    def _transition(self, image: MetadataImage, broker_id: int, following: BrokerControlState) -> list[MetadataRecord]:
        if following is BrokerControlState.UNFENCED:
            return self.handle_broker_unfenced(image, broker_id)
        if following is BrokerControlState.CONTROLLED_SHUTDOWN:
            return self.handle_broker_in_controlled_shutdown(image, broker_id)
        return self.handle_broker_fenced(image, broker_id)

    # -- what the change does to its partitions

    def handle_broker_fenced(self, image: MetadataImage, broker_id: int) -> list[MetadataRecord]:
        """Remove the broker from every ISR and leadership, then fence it. It must be registered."""
        registration = _registration(image, broker_id)
        records = self._removed_from_isrs(image, broker_id)
        change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=registration.epoch, fenced=FENCE)
        return [*records, change]

    def handle_broker_unfenced(self, image: MetadataImage, broker_id: int) -> list[MetadataRecord]:
        """Unfence the broker, then elect a leader in every partition without one that can have one now.

        The leader is usually this broker. Where unclean elections have been enabled since, it may be any live replica.
        """
        registration = _registration(image, broker_id)
        change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=registration.epoch, fenced=UNFENCE)
        leaderless = (
            (found.topic, index, found.topic.partitions[index])
            for found in self.scan.findings(image)
            for index in found.leaderless
        )
        return [change, *self.generate_leader_and_isr_updates(image, leaderless, add=broker_id)]

    def handle_broker_in_controlled_shutdown(self, image: MetadataImage, broker_id: int) -> list[MetadataRecord]:
        """Mark the broker as shutting down, unless it is marked already, and move its leaderships to other brokers."""
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

    def handle_broker_unregistered(self, image: MetadataImage, broker_id: int) -> list[MetadataRecord]:
        """Remove the broker from every ISR, ELR and leadership, then remove its registration.

        Raises KafkaError BROKER_ID_NOT_REGISTERED.
        """
        registration = image.cluster.brokers.get(broker_id)
        if registration is None:
            message = f"Broker ID {broker_id} is not currently registered"
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, message)
        records = self._removed_from_isrs(image, broker_id)
        in_elr = partitions_with_broker_in_elr(image, broker_id)
        records.extend(self.generate_leader_and_isr_updates(image, in_elr, remove=broker_id))
        return [*records, UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=registration.epoch)]

    def handle_broker_shutdown(self, image: MetadataImage, broker_id: int, *, is_clean: bool) -> list[MetadataRecord]:
        """Remove the former incarnation of a broker that registers again.

        After an unclean shutdown its replicas may lack records that they had acknowledged, so with eligible leader
        replicas enabled it leaves the ELRs too. Otherwise it leaves the ISRs only, as when it is fenced.
        """
        if is_clean or not image.features.elr_enabled:
            return self._removed_from_isrs(image, broker_id)
        updates = self.generate_leader_and_isr_updates
        in_isr = partitions_with_broker_in_isr(image, broker_id)
        in_elr = partitions_with_broker_in_elr(image, broker_id)
        return [
            *updates(image, in_isr, unclean_shutdown=broker_id),
            *updates(image, in_elr, unclean_shutdown=broker_id),
        ]

    def handle_directories_offline(
        self, image: MetadataImage, broker_id: int, offline: Collection[UUID]
    ) -> list[MetadataRecord]:
        """Remove the broker from the ISRs of partitions in newly offline directories, and record the remaining ones.

        Directories that are not registered as online are ignored.
        """
        registration = _registration(image, broker_id)
        newly_offline = [directory for directory in registration.directories if directory in offline]
        if not newly_offline:
            return []
        records: list[MetadataRecord] = []
        for directory in newly_offline:
            partitions = partitions_with_broker_in_directory(image, broker_id, directory)
            records.extend(self.generate_leader_and_isr_updates(image, partitions, remove=broker_id))
        online = tuple(directory for directory in registration.directories if directory not in offline)
        change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=registration.epoch, log_dirs=online)
        return [*records, change]

    def handle_directories_cordoned(
        self, image: MetadataImage, broker_id: int, cordoned: Collection[UUID] | None
    ) -> list[MetadataRecord]:
        """Record the directories that get no new replicas, if they differ from the registered ones.

        None means that the broker does not know them yet and changes nothing. An empty list differs from a value that
        was never reported.
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
        in_isr = partitions_with_broker_in_isr(image, broker_id)
        return self.generate_leader_and_isr_updates(image, in_isr, remove=broker_id)


def _state(partition: PartitionRegistration) -> tuple[object, ...]:
    """Return all that a change depends on. Partitions with equal states, which are the rule, get equal changes.

    Directories are compared by identity, because their ids hash slowly and equal ones are usually the same object. The
    image keeps each partition alive while the result is in use.
    """
    return (
        partition.replicas,
        partition.isr,
        partition.leader,
        id(partition.directories),
        partition.removing_replicas,
        partition.adding_replicas,
        partition.elr,
        partition.last_known_elr,
        partition.leader_recovery_state,
    )


def _registration(image: MetadataImage, broker_id: int) -> BrokerRegistration:
    registration = image.cluster.brokers.get(broker_id)
    assert registration is not None, f"broker {broker_id} is not registered"
    return registration
