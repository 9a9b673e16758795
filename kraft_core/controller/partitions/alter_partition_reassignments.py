"""AlterPartitionReassignments and ListPartitionReassignments.

Source: ReplicationControlManager.alterPartitionReassignments, listPartitionReassignments, Kafka 4.3.1; KIP-455,
KIP-860.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_core.controller.controller_result import ControllerResult, check_record_count
from kraft_core.controller.partitions.partition_change_builder import Election
from kraft_core.controller.partitions.partition_reassignment_replicas import (
    PartitionReassignmentReplicas,
    PartitionReassignmentRevert,
)
from kraft_core.image.topics_image import RECOVERING
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AlterPartitionReassignmentsResponse,
    AlterPartitionReassignmentsResponseReassignablePartitionResponse,
    AlterPartitionReassignmentsResponseReassignableTopicResponse,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponseOngoingPartitionReassignment,
    ListPartitionReassignmentsResponseOngoingTopicReassignment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kraft_core.controller.partitions.replication_control_manager import ReplicationControlManager
    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.image.topics_image import PartitionRegistration, TopicImage
    from kraft_core.protocol.messages import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsRequestReassignablePartition,
        ListPartitionReassignmentsRequest,
    )
    from kraft_core.protocol.metadata_records import MetadataRecord, PartitionChangeRecord


class PartitionReassignments:
    """Starts, cancels and lists reassignments. AlterPartition completes them."""

    def __init__(self, replication: ReplicationControlManager) -> None:
        self._replication = replication

    def alter(
        self, image: MetadataImage, request: AlterPartitionReassignmentsRequest
    ) -> ControllerResult[AlterPartitionReassignmentsResponse]:
        """Start the reassignment of each partition to its target replicas, or cancel it if the target is null.

        Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, NO_REASSIGNMENT_IN_PROGRESS, INVALID_REPLICA_ASSIGNMENT,
        INVALID_REPLICATION_FACTOR. Raises KafkaError POLICY_VIOLATION for too many changes.
        """
        records: list[MetadataRecord] = []
        topics = []
        for topic in request.topics:
            partitions = []
            for target in topic.partitions:
                code, message = ErrorCode.NONE, None
                try:
                    record = self._alter(
                        image, topic.name, target, may_change_factor=request.allow_replication_factor_change
                    )
                    if record is not None:
                        records.append(record)
                except KafkaError as error:
                    code, message = error.code, error.message
                partitions.append(
                    AlterPartitionReassignmentsResponseReassignablePartitionResponse(
                        partition_index=target.partition_index, error_code=code, error_message=message
                    )
                )
            topics.append(
                AlterPartitionReassignmentsResponseReassignableTopicResponse(
                    name=topic.name, partitions=tuple(partitions)
                )
            )
        check_record_count(len(records))
        response = AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_code=ErrorCode.NONE,
            error_message=None,
            responses=tuple(topics),
        )
        return ControllerResult.atomic_of(records, response)

    def list(
        self, image: MetadataImage, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        """List the reassignments in progress, of the named partitions or of all; unknown partitions are omitted."""
        wanted: Iterable[tuple[TopicImage | None, Iterable[int]]]
        if request.topics is None:
            wanted = ((found.topic, found.reassigning) for found in self._replication.scan.findings(image))
        else:
            wanted = ((image.topics.topic(topic.name), topic.partition_indexes) for topic in request.topics)
        topics = []
        for topic, indexes in wanted:
            if topic is None:
                continue
            ongoing = tuple(
                ListPartitionReassignmentsResponseOngoingPartitionReassignment(
                    partition_index=index,
                    replicas=partition.replicas,
                    adding_replicas=partition.adding_replicas,
                    removing_replicas=partition.removing_replicas,
                )
                for index in indexes
                if (partition := topic.partitions.get(index)) is not None and partition.is_reassigning
            )
            if ongoing:
                topics.append(
                    ListPartitionReassignmentsResponseOngoingTopicReassignment(name=topic.name, partitions=ongoing)
                )
        return ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None, topics=tuple(topics))

    def _alter(
        self,
        image: MetadataImage,
        name: str,
        target: AlterPartitionReassignmentsRequestReassignablePartition,
        *,
        may_change_factor: bool,
    ) -> PartitionChangeRecord | None:
        topic = image.topics.topic(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
        index = target.partition_index
        partition = topic.partitions.get(index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
        if target.replicas is None:
            return self._cancel(image, topic, index, partition)
        return self._change(image, topic, index, partition, target.replicas, may_change_factor=may_change_factor)

    def _cancel(
        self, image: MetadataImage, topic: TopicImage, index: int, partition: PartitionRegistration
    ) -> PartitionChangeRecord | None:
        if not partition.is_reassigning:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        revert = PartitionReassignmentRevert.of(partition, elr_enabled=image.features.elr_enabled)
        unclean_allowed = self._replication.configuration.unclean_leader_election_enabled(image, topic.name)
        if revert.is_unclean and not unclean_allowed:
            message = (
                f"Unable to revert partition assignment for {topic.name}:{index} because it would require an unclean "
                "leader election."
            )
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        builder = self._replication.builder(image, topic, index, partition)
        if unclean_allowed:
            builder.election = Election.UNCLEAN
        if revert.is_unclean:  # unlike Kafka: the replica may lack records
            builder.target_leader_recovery_state = RECOVERING
        builder.target_isr = revert.isr
        builder.target_replicas = revert.replicas
        builder.target_removing = ()
        builder.target_adding = ()
        return builder.build()

    def _change(
        self,
        image: MetadataImage,
        topic: TopicImage,
        index: int,
        partition: PartitionRegistration,
        target: tuple[int, ...],
        *,
        may_change_factor: bool,
    ) -> PartitionChangeRecord | None:
        self._replication.cluster(image).validate_manual_assignment(target, None)
        if not may_change_factor:
            kept = {*partition.replicas, *partition.adding_replicas} - set(partition.removing_replicas)
            if len(kept) != len(target):
                message = f"The replication factor is changed from {len(kept)} to {len(target)}"
                raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
        reassignment = PartitionReassignmentReplicas.to(partition, target)
        builder = self._replication.builder(image, topic, index, partition)
        # Set even when empty: on the way back to the original replicas Kafka keeps the old adding list for good.
        builder.target_replicas = reassignment.replicas
        builder.target_removing = reassignment.removing
        builder.target_adding = reassignment.adding
        return builder.build()
