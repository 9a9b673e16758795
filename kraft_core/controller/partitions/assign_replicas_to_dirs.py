"""AssignReplicasToDirs: the log directory of each replica (KIP-858).

Source: ReplicationControlManager.handleAssignReplicasToDirs, Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_core.controller.brokers.cluster_control_manager import check_broker_epoch
from kraft_core.controller.controller_result import ControllerResult
from kraft_core.image.topics_delta import merge_partition
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from kraft_core.protocol.metadata_version import is_directory_assignment_supported

if TYPE_CHECKING:
    from uuid import UUID

    from kraft_core.controller.partitions.brokers_to_isrs import PartitionRef
    from kraft_core.controller.partitions.replication_control_manager import ReplicationControlManager
    from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage
    from kraft_core.image.topics_image import TopicImage
    from kraft_core.protocol.messages import AssignReplicasToDirsRequest
    from kraft_core.protocol.metadata_records import MetadataRecord


def assign_replicas_to_dirs(
    replication: ReplicationControlManager, image: MetadataImage, request: AssignReplicasToDirsRequest
) -> ControllerResult[AssignReplicasToDirsResponse]:
    """Record in which log directory a broker keeps its replicas.

    Errors of a partition: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER when the broker has no
    replica of it. A directory that the broker did not register is accepted, and the replica counts as offline. A
    replica that comes online may become leader of a partition without one; in Kafka such a partition waits for the next
    election. Raises KafkaError: UNSUPPORTED_VERSION below metadata.version 17, STALE_BROKER_EPOCH.
    """
    if not is_directory_assignment_supported(image.features.metadata_version or 0):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    registration = check_broker_epoch(image, request.broker_id, request.broker_epoch)
    assignment = _Assignment(replication, image, registration)
    response = AssignReplicasToDirsResponse(
        error_code=ErrorCode.NONE,
        directories=tuple(
            AssignReplicasToDirsResponseDirectoryData(
                id=directory.id,
                topics=tuple(
                    AssignReplicasToDirsResponseTopicData(
                        topic_id=topic.topic_id,
                        partitions=tuple(
                            AssignReplicasToDirsResponsePartitionData(
                                partition_index=each.partition_index,
                                error_code=assignment.assign(directory.id, topic.topic_id, each.partition_index),
                            )
                            for each in topic.partitions
                        ),
                    )
                    for topic in directory.topics
                ),
            )
            for directory in request.directories
        ),
    )
    return ControllerResult(assignment.all_records(), response)


class _Assignment:
    """The records of one request, and the partitions that an offline or a new directory affects."""

    def __init__(
        self, replication: ReplicationControlManager, image: MetadataImage, registration: BrokerRegistration
    ) -> None:
        self._replication = replication
        self._image = image
        self._registration = registration
        self._records: list[MetadataRecord] = []
        self._offline: dict[tuple[UUID, int], PartitionRef] = {}
        self._leaderless: dict[tuple[UUID, int], PartitionRef] = {}

    def assign(self, directory: UUID, topic_id: UUID, index: int) -> ErrorCode:
        """Assign one replica of the broker to the directory."""
        topic = self._image.topics.by_id.get(topic_id)
        return ErrorCode.UNKNOWN_TOPIC_ID if topic is None else self._assign(directory, topic, index)

    def _assign(self, directory: UUID, topic: TopicImage, index: int) -> ErrorCode:
        partition = topic.partitions.get(index)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._registration.id not in partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        builder = self._replication.builder(self._image, topic, index, partition)
        builder.set_directory(self._registration.id, directory)
        record = builder.build()
        if record is not None:
            self._records.append(record)
            partition = merge_partition(partition, record)
        if not self._registration.has_online_dir(directory):
            self._offline[topic.id, index] = (topic, index, partition)
        elif not partition.has_leader:
            self._leaderless[topic.id, index] = (topic, index, partition)
        return ErrorCode.NONE

    def all_records(self) -> list[MetadataRecord]:
        """Return the assignments, followed by the changes of leaders and ISRs that they cause."""
        updates = self._replication.generate_leader_and_isr_updates
        return [
            *self._records,
            *updates(self._image, self._offline.values(), remove=self._registration.id),
            *updates(self._image, self._leaderless.values()),
        ]
