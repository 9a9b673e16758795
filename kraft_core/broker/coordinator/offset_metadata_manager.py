"""Committed offsets: commit, fetch, deletion and expiry.

Source: OffsetMetadataManager, Kafka 4.3.1; KIP-211 (the retention of offsets starts when the group becomes empty).
"""

from kraft_core.broker.coordinator.classic_group import ClassicGroup, GroupState
from kraft_core.broker.coordinator.group_coordinator_config import GroupCoordinatorConfig, GroupLog, TopicNames
from kraft_core.broker.coordinator.group_metadata_manager import GroupMetadataManager
from kraft_core.broker.coordinator.group_records import CommittedOffset, offset_record
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestOffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseOffsetCommitResponsePartition,
    OffsetCommitResponseOffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponseOffsetDeleteResponsePartition,
    OffsetDeleteResponseOffsetDeleteResponseTopic,
)
from kraft_core.protocol.uuids import ZERO_UUID

OffsetsByPartition = dict[tuple[str, int], CommittedOffset]


class OffsetMetadataManager:
    """Offsets by group and (topic, partition). They are written to the log before they take effect."""

    def __init__(
        self, config: GroupCoordinatorConfig, membership: GroupMetadataManager, group_log: GroupLog, topics: TopicNames
    ) -> None:
        self._config = config
        self._membership = membership
        self._log = group_log
        self._topics = topics
        self.by_group: dict[str, OffsetsByPartition] = {}

    def replay(self, group_id: str, topic: str, partition: int, value: CommittedOffset | None) -> None:
        """Apply a record of the log."""
        if value is not None:
            self.by_group.setdefault(group_id, {})[topic, partition] = value
            return
        offsets = self.by_group.get(group_id)
        if offsets is not None:
            offsets.pop((topic, partition), None)
            if not offsets:
                del self.by_group[group_id]

    def check_commit(self, group: ClassicGroup, request: OffsetCommitRequest, now_ms: int) -> None:
        """Check that the sender may commit for the group, and extend its session.

        Raises KafkaError as `GroupMetadataManager.checked_member`, and REBALANCE_IN_PROGRESS.
        """
        generation = request.generation_id_or_member_epoch
        anonymous = not request.member_id and request.group_instance_id is None
        if generation < 0 and anonymous:
            if group.state is not GroupState.EMPTY:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "The group has members, so only they may commit.")
            return
        member = self._membership.checked_member(group, request.member_id, request.group_instance_id, generation)
        if group.state is GroupState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "The group is rebalancing.")
        self._membership.touch(member, now_ms)

    def commit(self, request: OffsetCommitRequest, now_ms: int) -> OffsetCommitResponse:
        """Write the offsets of a checked request.

        Per partition: OFFSET_METADATA_TOO_LARGE, INVALID_COMMIT_OFFSET_SIZE, UNKNOWN_TOPIC_OR_PARTITION,
        UNKNOWN_TOPIC_ID, or the error of the log.
        """
        codes: list[list[ErrorCode]] = []
        accepted: list[tuple[str, int, CommittedOffset]] = []
        for topic in request.topics:
            name = topic.name or self._topics.topic_name(topic.topic_id) or ""
            own: list[ErrorCode] = []
            for partition in topic.partitions:
                metadata = partition.committed_metadata or ""
                own.append(self._refusal(topic, name, partition.partition_index, metadata))
                if own[-1] is ErrorCode.NONE:
                    value = CommittedOffset(
                        partition.committed_offset, partition.committed_leader_epoch, metadata, now_ms
                    )
                    accepted.append((name, partition.partition_index, value))
            codes.append(own)
        error = ErrorCode.NONE
        if accepted:
            records = [offset_record(request.group_id, *entry) for entry in accepted]
            error = self._log.append(request.group_id, records)
        if error is ErrorCode.MESSAGE_TOO_LARGE:
            error = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        if error is ErrorCode.NONE:
            for name, partition_index, value in accepted:
                self.replay(request.group_id, name, partition_index, value)
        return OffsetCommitResponse(
            topics=tuple(
                OffsetCommitResponseOffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        OffsetCommitResponseOffsetCommitResponsePartition(
                            partition_index=partition.partition_index, error_code=code or error
                        )
                        for partition, code in zip(topic.partitions, own, strict=True)
                    ),
                )
                for topic, own in zip(request.topics, codes, strict=True)
            )
        )

    def _refusal(
        self, topic: OffsetCommitRequestOffsetCommitRequestTopic, name: str, index: int, metadata: str
    ) -> ErrorCode:
        if topic.topic_id != ZERO_UUID and not name:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not self._topics.has_partition(name, index):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if len(metadata) > self._config.offset_metadata_max_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE

    def delete(
        self, group: ClassicGroup, request: OffsetDeleteRequest, subscribed: frozenset[str]
    ) -> OffsetDeleteResponse:
        """Delete offsets; GROUP_SUBSCRIBED_TO_TOPIC for those of topics that the group is subscribed to."""
        topics = []
        deleted: list[tuple[str, int]] = []
        offsets = self.by_group.get(group.group_id, {})
        for topic in request.topics:
            partitions = []
            for partition in topic.partitions:
                number = partition.partition_index
                error = ErrorCode.NONE
                if topic.name in subscribed:
                    error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                elif (topic.name, number) in offsets:
                    deleted.append((topic.name, number))
                partitions.append(
                    OffsetDeleteResponseOffsetDeleteResponsePartition(partition_index=number, error_code=error)
                )
            topics.append(OffsetDeleteResponseOffsetDeleteResponseTopic(name=topic.name, partitions=tuple(partitions)))
        error = self.remove(group.group_id, deleted)
        if error is not ErrorCode.NONE:
            raise KafkaError(error, "The offsets could not be deleted.")
        return OffsetDeleteResponse(topics=tuple(topics))

    def remove(self, group_id: str, partitions: list[tuple[str, int]]) -> ErrorCode:
        """Delete offsets, first in the log. Return the error of the log."""
        if not partitions:
            return ErrorCode.NONE
        error = self._log.append(group_id, [offset_record(group_id, *key, None) for key in partitions])
        if error is ErrorCode.NONE:
            for topic, partition in partitions:
                self.replay(group_id, topic, partition, None)
        return error

    def expired(self, group: ClassicGroup, now_ms: int) -> list[tuple[str, int]]:
        """Return the partitions whose offset has expired.

        In a group with a protocol type all offsets expire after the group was empty for the retention time; in any
        other group each one after its last commit.
        """
        if group.state is not GroupState.EMPTY:
            return []
        oldest = now_ms - self._config.offsets_retention_ms
        offsets = self.by_group.get(group.group_id, {})
        if group.protocol_type is not None:
            return list(offsets) if group.state_since_ms <= oldest else []
        return [key for key, value in offsets.items() if value.commit_timestamp <= oldest]
