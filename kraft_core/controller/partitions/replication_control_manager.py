"""ReplicationControlManager: topics, partitions, replicas and their leaders.

The one door to the modules that each do a part: topic_creation, topic_deletion, alter_partition, leader_election,
reassignment_control, broker_changes. Every method takes the tip image and a request, and returns records and a response;
nothing here changes an image or remembers metadata, but for caches that any image can rebuild.

Failures of one topic or partition are in the response. A KafkaError that is raised concerns the whole request, and belongs
at the top of its response.

Source: ReplicationControlManager, Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_core.controller.brokers.broker_changes import BrokerChanges
from kraft_core.controller.controller_result import ControllerResult
from kraft_core.controller.partitions.alter_partition import alter_partition
from kraft_core.controller.partitions.leader_election import LeaderElection
from kraft_core.controller.partitions.partition_changes import PartitionChanges, PartitionRef, leads_any
from kraft_core.controller.partitions.partition_scan import PartitionScan
from kraft_core.controller.partitions.reassignment_control import ReassignmentControl
from kraft_core.controller.partitions.striped_replica_placer import StripedReplicaPlacer
from kraft_core.controller.partitions.topic_access import EVERYTHING, TopicAccess
from kraft_core.controller.partitions.topic_creation import TopicCreation
from kraft_core.controller.partitions.topic_deletion import delete_topics
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
    from random import Random
    from uuid import UUID

    from kraft_core.controller.configuration_control_manager import ConfigurationControlManager
    from kraft_core.controller.controller_config import ControllerConfig
    from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage
    from kraft_core.image.topics_image import TopicImage
    from kraft_core.protocol.messages import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
        AlterPartitionRequest,
        AlterPartitionResponse,
        AssignReplicasToDirsRequest,
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        CreateTopicsRequest,
        CreateTopicsResponse,
        DeleteTopicsRequest,
        DeleteTopicsResponse,
        ElectLeadersRequest,
        ElectLeadersResponse,
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )
    from kraft_core.protocol.metadata_records import MetadataRecord


class ReplicationControlManager:
    """Answers everything about topics and partitions.

    `random` is the node's own generator: it draws topic ids and where placement begins.
    `brokers` knows what a broker's coming and going does to partitions, `elections` holds the periodic elections.
    """

    def __init__(
        self, config: ControllerConfig, configuration_control: ConfigurationControlManager, random: Random
    ) -> None:
        self._config = config
        self._random = random
        self.changes = PartitionChanges(configuration_control)
        self._scan = PartitionScan()
        placer = StripedReplicaPlacer(random)
        self._creation = TopicCreation(config, configuration_control, placer, random)
        self._reassignments = ReassignmentControl(self.changes, self._scan)
        self.brokers = BrokerChanges(self.changes, self._scan)
        self.elections = LeaderElection(self.changes, self._scan, config.leader_balance_max_elections)

    def create_topics(
        self, image: MetadataImage, request: CreateTopicsRequest, access: TopicAccess = EVERYTHING
    ) -> ControllerResult[CreateTopicsResponse]:
        """CreateTopics, versions 2 to 7; validate-only answers the same and writes nothing."""
        return self._creation.create_topics(image, self.changes.cluster(image), request, access)

    def create_partitions(
        self, image: MetadataImage, request: CreatePartitionsRequest, access: TopicAccess = EVERYTHING
    ) -> ControllerResult[CreatePartitionsResponse]:
        """CreatePartitions, versions 0 to 3; validate-only answers the same and writes nothing."""
        return self._creation.create_partitions(image, self.changes.cluster(image), request, access)

    def delete_topics(
        self, image: MetadataImage, request: DeleteTopicsRequest, version: int, access: TopicAccess = EVERYTHING
    ) -> ControllerResult[DeleteTopicsResponse]:
        """DeleteTopics, versions 1 to 6, by name or by id."""
        enabled = self._config.delete_topic_enable
        return delete_topics(image, request, version, is_enabled=enabled, random=self._random, access=access)

    def alter_partition(
        self, image: MetadataImage, request: AlterPartitionRequest, version: int
    ) -> ControllerResult[AlterPartitionResponse]:
        """AlterPartition, versions 2 and 3: a leader's new ISRs."""
        return alter_partition(image, self.changes, request, version)

    def elect_leaders(
        self, image: MetadataImage, request: ElectLeadersRequest
    ) -> ControllerResult[ElectLeadersResponse]:
        """ElectLeaders, versions 0 to 2."""
        return self.elections.elect_leaders(image, request)

    def maybe_balance_partition_leaders(self, image: MetadataImage) -> ControllerResult[bool]:
        """Bring leadership back to preferred replicas; the response says whether to run again at once."""
        return self.elections.maybe_balance_partition_leaders(image)

    def maybe_elect_unclean_leaders(self, image: MetadataImage) -> ControllerResult[bool]:
        """Elect leaders from outside the ISR where topics allow it; the response says whether to run again at once."""
        return self.elections.maybe_elect_unclean_leaders(image)

    def alter_partition_reassignments(
        self, image: MetadataImage, request: AlterPartitionReassignmentsRequest
    ) -> ControllerResult[AlterPartitionReassignmentsResponse]:
        """AlterPartitionReassignments, versions 0 and 1: begin or cancel."""
        return self._reassignments.alter_partition_reassignments(image, request)

    def list_partition_reassignments(
        self, image: MetadataImage, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        """ListPartitionReassignments, version 0, as this image has them."""
        return self._reassignments.list_partition_reassignments(image, request)

    def has_leaderships(self, image: MetadataImage, broker_id: int) -> bool:
        """Say whether a broker still leads some partition: its controlled shutdown waits until it does not."""
        return leads_any(image, broker_id)

    def assign_replicas_to_dirs(
        self, image: MetadataImage, request: AssignReplicasToDirsRequest
    ) -> ControllerResult[AssignReplicasToDirsResponse]:
        """Record in which log directory a broker keeps its replicas.

        Per partition: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER when the broker has no replica
        of it. A directory that the broker did not register is accepted, and the replica counts as offline. A replica that
        comes online may lead a partition that nobody leads; in Kafka such a partition waits for the next occasion.
        Raises KafkaError: UNSUPPORTED_VERSION below metadata.version 17, STALE_BROKER_EPOCH.
        """
        if not is_directory_assignment_supported(image.features.metadata_version or 0):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
        broker_id = request.broker_id
        registration = self.changes.cluster(image).check_broker_epoch(broker_id, request.broker_epoch)
        records: list[MetadataRecord] = []
        offline: dict[tuple[UUID, int], PartitionRef] = {}
        leaderless: dict[tuple[UUID, int], PartitionRef] = {}
        directories = []
        for directory in request.directories:
            topics = []
            for topic_data in directory.topics:
                topic = image.topics.by_id.get(topic_data.topic_id)
                partitions = tuple(
                    AssignReplicasToDirsResponsePartitionData(
                        partition_index=data.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_ID
                        if topic is None
                        else self._assign(
                            image, registration, directory.id, topic, data.partition_index, records, offline, leaderless
                        ),
                    )
                    for data in topic_data.partitions
                )
                topics.append(
                    AssignReplicasToDirsResponseTopicData(topic_id=topic_data.topic_id, partitions=partitions)
                )
            directories.append(AssignReplicasToDirsResponseDirectoryData(id=directory.id, topics=tuple(topics)))
        records.extend(self.changes.leader_and_isr_updates(image, offline.values(), remove=broker_id))
        records.extend(self.changes.leader_and_isr_updates(image, leaderless.values()))
        response = AssignReplicasToDirsResponse(error_code=ErrorCode.NONE, directories=tuple(directories))
        return ControllerResult(records, response)

    def _assign(
        self,
        image: MetadataImage,
        registration: BrokerRegistration,
        directory: UUID,
        topic: TopicImage,
        index: int,
        records: list[MetadataRecord],
        offline: dict[tuple[UUID, int], PartitionRef],
        leaderless: dict[tuple[UUID, int], PartitionRef],
    ) -> ErrorCode:
        partition = topic.partitions.get(index)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if registration.id not in partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        builder = self.changes.builder(image, topic, index, partition)
        builder.set_directory(registration.id, directory)
        record = builder.build()
        if record is not None:
            records.append(record)
            partition = merge_partition(partition, record)
        if not registration.has_online_dir(directory):
            offline[topic.id, index] = (topic, index, partition)
        elif not partition.has_leader:
            leaderless[topic.id, index] = (topic, index, partition)
        return ErrorCode.NONE
