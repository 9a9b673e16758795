"""AlterPartition: the leader's changes of the ISR.

Source: ReplicationControlManager.alterPartition and validateAlterPartitionData, Kafka 4.3.1; KIP-497, KIP-841, KIP-903.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_core.controller.brokers.cluster_control_manager import check_broker_epoch
from kraft_core.controller.controller_result import ControllerResult
from kraft_core.controller.partitions.partition_change_builder import NO_LEADER_CHANGE, Election
from kraft_core.image.topics_delta import merge_partition
from kraft_core.image.topics_image import RECOVERED, RECOVERING
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

if TYPE_CHECKING:
    from kraft_core.controller.partitions.cluster_describer import ClusterDescriber
    from kraft_core.controller.partitions.partition_change_builder import PartitionChangeBuilder
    from kraft_core.controller.partitions.replication_control_manager import ReplicationControlManager
    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.image.topics_image import PartitionRegistration, TopicImage
    from kraft_core.protocol.messages import AlterPartitionRequest, AlterPartitionRequestPartitionData
    from kraft_core.protocol.metadata_records import MetadataRecord

ANY_EPOCH = -1
"""Broker epoch of a follower whose epoch the leader does not know; it is not checked."""


def alter_partition(
    replication: ReplicationControlManager, image: MetadataImage, request: AlterPartitionRequest, version: int
) -> ControllerResult[AlterPartitionResponse]:
    """Change the ISR of each partition; docs/protocol.md, "AlterPartition", lists a partition's errors in order.

    Raises KafkaError STALE_BROKER_EPOCH for the whole request.
    """
    check_broker_epoch(image, request.broker_id, request.broker_epoch)
    records: list[MetadataRecord] = []
    topics = []
    for topic_data in request.topics:
        topic = image.topics.by_id.get(topic_data.topic_id)
        if topic is None:
            partitions = tuple(
                AlterPartitionResponsePartitionData(
                    partition_index=data.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_ID
                )
                for data in topic_data.partitions
            )
        else:
            rules = _Rules(replication, image, topic)
            partitions = tuple(
                _alter(rules, data, request.broker_id, version, records) for data in topic_data.partitions
            )
        topics.append(AlterPartitionResponseTopicData(topic_id=topic_data.topic_id, partitions=partitions))
    return ControllerResult(records, AlterPartitionResponse(error_code=ErrorCode.NONE, topics=tuple(topics)))


class _Rules:
    """What the partitions of a topic share, computed once: a request may name a thousand of them."""

    __slots__ = ("_image", "_min_isr", "_replication", "_unclean", "cluster", "topic")

    def __init__(self, replication: ReplicationControlManager, image: MetadataImage, topic: TopicImage) -> None:
        self._image = image
        self._replication = replication
        self._min_isr = replication.effective_min_isr(image, topic)
        self._unclean = replication.configuration.unclean_leader_election_enabled(image, topic.name)
        self.topic = topic
        self.cluster = replication.cluster(image)

    def builder(self, index: int, partition: PartitionRegistration) -> PartitionChangeBuilder:
        """Return a builder for one of the topic's partitions."""
        builder = self._replication.builder(self._image, self.topic, index, partition, min_isr=self._min_isr)
        if self._unclean:
            builder.election = Election.UNCLEAN
        return builder


def _alter(
    rules: _Rules,
    data: AlterPartitionRequestPartitionData,
    broker_id: int,
    version: int,
    records: list[MetadataRecord],
) -> AlterPartitionResponsePartitionData:
    index = data.partition_index
    partition = rules.topic.partitions.get(index)
    if version < 3:
        new_isr = tuple((replica, ANY_EPOCH) for replica in data.new_isr)
    else:
        new_isr = tuple((state.broker_id, state.broker_epoch) for state in data.new_isr_with_epochs)
    error = _check(rules.cluster, partition, data, new_isr, broker_id)
    if error is not ErrorCode.NONE or partition is None:
        return AlterPartitionResponsePartitionData(partition_index=index, error_code=error)
    builder = rules.builder(index, partition)
    builder.target_isr = tuple(replica for replica, _ in new_isr)
    builder.target_leader_recovery_state = data.leader_recovery_state
    record = builder.build()
    if record is not None:
        records.append(record)
        partition = merge_partition(partition, record)
        if record.leader not in {broker_id, NO_LEADER_CHANGE}:
            # A completed reassignment elected another leader; the sender must read the metadata first.
            return AlterPartitionResponsePartitionData(partition_index=index, error_code=ErrorCode.NEW_LEADER_ELECTED)
    return AlterPartitionResponsePartitionData(
        partition_index=index,
        error_code=ErrorCode.NONE,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _check(
    cluster: ClusterDescriber,
    partition: PartitionRegistration | None,
    data: AlterPartitionRequestPartitionData,
    new_isr: tuple[tuple[int, int], ...],
    broker_id: int,
) -> ErrorCode:
    """Return the first error in the order of docs/protocol.md, "AlterPartition", or NONE."""
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if data.leader_epoch > partition.leader_epoch or data.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # the leader has newer metadata, so another controller is active
    if data.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if data.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    isr = [replica for replica, _ in new_isr]
    if len(set(isr)) != len(isr) or not set(isr).issubset(partition.replicas) or partition.leader not in isr:
        return ErrorCode.INVALID_REQUEST
    state = data.leader_recovery_state
    if state not in {RECOVERED, RECOVERING} or (state == RECOVERING and len(isr) > 1):
        return ErrorCode.INVALID_REQUEST
    if state == RECOVERING and partition.leader_recovery_state == RECOVERED:
        return ErrorCode.INVALID_REQUEST
    for replica, epoch in new_isr:
        registration = cluster.registrations.get(replica)
        if registration is None or not registration.active or epoch not in {ANY_EPOCH, registration.epoch}:
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE
