"""A broker's life: it registers, sends heartbeats, is unfenced, shuts down or falls silent.

What each step does to partitions is in broker_changes; here is when it happens. Source: ClusterControlManager.registerBroker,
ReplicationControlManager.processBrokerHeartbeat and maybeFenceOneStaleBroker.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kraft_core.controller.brokers.broker_heartbeat_manager import BrokerControlState, BrokerHeartbeatManager
from kraft_core.controller.brokers.cluster_control_manager import (
    CLEAN_SHUTDOWN_DETECTION_VERSION,
    check_broker_epoch,
    metadata_version,
    registration_record,
)
from kraft_core.controller.controller_result import ControllerResult
from kraft_core.controller.partitions.partition_changes import leads_any
from kraft_core.image.metadata_delta import replay_all
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import BrokerHeartbeatResponse, BrokerRegistrationResponse, UnregisterBrokerResponse
from kraft_core.protocol.metadata_version import is_cordoned_log_dirs_supported, is_directory_assignment_supported

if TYPE_CHECKING:
    from kraft_core.controller.brokers.broker_changes import BrokerChanges
    from kraft_core.controller.controller_config import ControllerConfig
    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.protocol.messages import BrokerHeartbeatRequest, BrokerRegistrationRequest, UnregisterBrokerRequest
    from kraft_core.protocol.metadata_records import MetadataRecord

log = logging.getLogger(__name__)


class BrokerLifecycle:
    """Rules of a broker's life over an image; of its own it keeps only the heartbeats' soft state."""

    def __init__(self, config: ControllerConfig, brokers: BrokerChanges) -> None:
        self._config = config
        self._brokers = brokers
        self.heartbeats = BrokerHeartbeatManager(config.session_timeout_ms)

    def register_broker(
        self,
        image: MetadataImage,
        request: BrokerRegistrationRequest,
        version: int,
        *,
        next_offset: int,
        kraft_version: int,
        now_ms: int,
    ) -> ControllerResult[BrokerRegistrationResponse]:
        """Register a broker, after cleaning up after its last incarnation.

        The registration record comes last, so the records may be cut into batches: a controller that fails in between
        leaves a broker that registers again. Errors: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION while
        another incarnation's session is valid, and those of `registration_record`.
        """
        if request.cluster_id != self._config.cluster_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"Expected cluster ID {self._config.cluster_id}, but got cluster ID {request.cluster_id}",
            )
        broker_id = request.broker_id
        existing = image.cluster.brokers.get(broker_id)
        is_new = existing is None or existing.incarnation_id != request.incarnation_id
        if existing is not None and is_new and self.heartbeats.has_valid_session(broker_id, existing.epoch, now_ms):
            raise KafkaError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                "Another broker is registered with that broker id. If the broker was recently restarted this should "
                "self-resolve once the heartbeat manager expires the broker's session.",
            )
        registration = registration_record(image, request, next_offset, kraft_version)
        records: list[MetadataRecord] = []
        if is_new:
            told_epoch = request.previous_broker_epoch if version >= CLEAN_SHUTDOWN_DETECTION_VERSION else None
            is_clean = existing is not None and existing.epoch == told_epoch
            records.extend(self._brokers.broker_shutdown(image, broker_id, is_clean=is_clean))
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
        return ControllerResult(records, BrokerRegistrationResponse(broker_epoch=registration.broker_epoch))

    def process_heartbeat(
        self, image: MetadataImage, request: BrokerHeartbeatRequest
    ) -> tuple[ControllerResult[BrokerHeartbeatResponse], BrokerControlState]:
        """Answer a heartbeat, and write what it changes. Also returns the state it leads to.

        A heartbeat that changes nothing costs no record. Errors: STALE_BROKER_EPOCH.
        """
        broker = check_broker_epoch(image, request.broker_id, request.broker_epoch)
        now, following = self.heartbeats.next_state(broker, request, image.cluster, lambda: leads_any(image, broker.id))
        records: list[MetadataRecord] = []
        if now is not following:
            log.info(
                "broker_changes_state",
                extra={"broker_id": broker.id, "from_state": now.value, "to_state": following.value},
            )
            records.extend(self._transition(image, broker.id, following))
        self.heartbeats.update(broker.id, request.current_metadata_offset, fenced=following.fenced)
        level = metadata_version(image)
        if request.offline_log_dirs and is_directory_assignment_supported(level):
            # Seen after the transition: what it has just made the broker leader of may lie in such a directory.
            after = replay_all(image, records, image.offset, image.epoch) if records else image
            records.extend(self._brokers.directories_offline(after, broker.id, request.offline_log_dirs))
        if request.cordoned_log_dirs is not None and is_cordoned_log_dirs_supported(level):
            records.extend(self._brokers.directories_cordoned(image, broker.id, request.cordoned_log_dirs))
        response = BrokerHeartbeatResponse(
            is_caught_up=request.current_metadata_offset >= self.heartbeats.registration_offset(broker),
            is_fenced=following.fenced,
            should_shut_down=following is BrokerControlState.SHUTDOWN_NOW,
        )
        return ControllerResult(records, response), following

    def process_expired_heartbeat(self, image: MetadataImage, request: BrokerHeartbeatRequest) -> None:
        """Take in a heartbeat that waited too long: nothing but how far its broker has read. Raises STALE_BROKER_EPOCH."""
        broker = check_broker_epoch(image, request.broker_id, request.broker_epoch)
        self.heartbeats.update(broker.id, request.current_metadata_offset, fenced=broker.fenced)
        log.warning("heartbeat_timed_out", extra={"broker_id": broker.id, "cause": "the event queue is overloaded"})

    def _transition(self, image: MetadataImage, broker_id: int, following: BrokerControlState) -> list[MetadataRecord]:
        if following is BrokerControlState.UNFENCED:
            return self._brokers.broker_unfenced(image, broker_id)
        if following is BrokerControlState.CONTROLLED_SHUTDOWN:
            return self._brokers.broker_in_controlled_shutdown(image, broker_id)
        return self._brokers.broker_fenced(image, broker_id)

    def fence_one_stale_broker(self, image: MetadataImage, now_ms: int) -> ControllerResult[bool]:
        """Fence the longest silent broker whose session is over; one at a time, True when there may be more."""
        expired = self.heartbeats.remove_expired(now_ms)
        if expired is None:
            return ControllerResult((), response=False)
        broker_id, epoch = expired
        broker = image.cluster.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch or broker.fenced:
            return ControllerResult((), response=True)
        log.info("fencing_silent_broker", extra={"broker_id": broker_id, "broker_epoch": epoch})
        self.heartbeats.update(broker_id, -1, fenced=True)
        return ControllerResult(self._brokers.broker_fenced(image, broker_id), response=True)

    def unregister_broker(
        self, image: MetadataImage, request: UnregisterBrokerRequest
    ) -> ControllerResult[UnregisterBrokerResponse]:
        """Take a broker out of ISRs and ELRs and forget it. Errors: BROKER_ID_NOT_REGISTERED."""
        records = self._brokers.broker_unregistered(image, request.broker_id)
        return ControllerResult(records, UnregisterBrokerResponse(error_message=""))
