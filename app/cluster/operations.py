"""What operators do to partitions, brokers and features: reassign, elect, unregister, upgrade.

Partitions succeed and fail one by one: a request for many answers with a result for each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from app.cluster.changes import Changes, raise_for
from kraft_core.image.metadata_image import MetadataImage, PartitionRegistration
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestReassignablePartition,
    AlterPartitionReassignmentsRequestReassignableTopic,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ElectLeadersResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeatureUpdateKey,
    UpdateFeaturesResponse,
)
from kraft_core.protocol.metadata_records import (
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)

Partition = tuple[str, int]
"""Topic name and partition."""
Assignments = Mapping[Partition, Sequence[int] | None]
"""The replicas that partitions shall have; None cancels the reassignment that is under way."""


class ElectionType(IntEnum):
    """Which replica shall lead: the first one, or any that lives, even one that lacks records."""

    PREFERRED = 0
    UNCLEAN = 1


class UpgradeType(IntEnum):
    """What a change of a feature may do."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    """A feature and the level that it shall have; 0 takes it away."""

    name: str
    level: int
    upgrade_type: Literal["UPGRADE", "SAFE_DOWNGRADE", "UNSAFE_DOWNGRADE"] = "UPGRADE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a request about many partitions. `offset` is None when nothing changed."""

    offset: int | None
    failures: dict[Partition, KafkaError]


class Operations(Changes):
    """Changes of partitions, brokers and features."""

    async def alter_reassignments(self, wanted: Assignments, *, may_change_factor: bool = True) -> Outcome:
        """Begin reassignments, or cancel them.

        Per partition: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR,
        NO_REASSIGNMENT_IN_PROGRESS.
        """
        by_topic: dict[str, list[AlterPartitionReassignmentsRequestReassignablePartition]] = {}
        for (topic, index), replicas in wanted.items():
            by_topic.setdefault(topic, []).append(
                AlterPartitionReassignmentsRequestReassignablePartition(
                    partition_index=index, replicas=None if replicas is None else tuple(replicas)
                )
            )
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._timeout_ms,
            allow_replication_factor_change=may_change_factor,
            topics=tuple(
                AlterPartitionReassignmentsRequestReassignableTopic(name=name, partitions=tuple(partitions))
                for name, partitions in by_topic.items()
            ),
        )
        before = self._history.newest_offset
        answer = await self._ask(request, AlterPartitionReassignmentsResponse)
        raise_for(answer.error_code, answer.error_message)
        failures = {
            (topic.name, one.partition_index): KafkaError(ErrorCode(one.error_code), one.error_message or None)
            for topic in answer.responses
            for one in topic.partitions
            if one.error_code
        }
        return await self._outcome(before, list(wanted), failures)

    async def elect_leaders(self, election: ElectionType, partitions: Sequence[Partition]) -> Outcome:
        """Hold an election in each partition.

        Per partition: ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE,
        UNKNOWN_TOPIC_OR_PARTITION.
        """
        by_topic: dict[str, list[int]] = {}
        for topic, index in partitions:
            by_topic.setdefault(topic, []).append(index)
        request = ElectLeadersRequest(
            election_type=election,
            topic_partitions=tuple(
                ElectLeadersRequestTopicPartitions(topic=name, partitions=tuple(indexes))
                for name, indexes in by_topic.items()
            ),
            timeout_ms=self._timeout_ms,
        )
        before = self._history.newest_offset
        answer = await self._ask(request, ElectLeadersResponse)
        raise_for(answer.error_code, None)
        failures = {
            (topic.topic, one.partition_id): KafkaError(ErrorCode(one.error_code), one.error_message or None)
            for topic in answer.replica_election_results
            for one in topic.partition_result
            if one.error_code
        }
        return await self._outcome(before, partitions, failures)

    async def _outcome(
        self, before: int, wanted: Sequence[Partition], failures: dict[Partition, KafkaError]
    ) -> Outcome:
        if len(failures) == len(wanted):
            return Outcome(offset=None, failures=failures)
        topics = self._observer.image.topics
        changed = {
            (topic.id, index)
            for name, index in wanted
            if (name, index) not in failures and (topic := topics.topic(name)) is not None
        }

        def is_of_these(record: MetadataRecord) -> bool:
            return isinstance(record, PartitionChangeRecord) and (record.topic_id, record.partition_id) in changed

        return Outcome(offset=await self._committed(before, is_of_these), failures=failures)

    async def unregister_broker(self, broker_id: int) -> int:
        """Forget a broker: for good once it is stopped. Raises KafkaError BROKER_ID_NOT_REGISTERED."""
        before = self._history.newest_offset
        answer = await self._ask(UnregisterBrokerRequest(broker_id=broker_id), UnregisterBrokerResponse)
        raise_for(answer.error_code, answer.error_message)
        return await self._committed(
            before, lambda record: isinstance(record, UnregisterBrokerRecord) and record.broker_id == broker_id
        )

    async def update_features(self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False) -> int | None:
        """Change feature levels, all or none. Answers None when it was only validated.

        Raises KafkaError INVALID_UPDATE_VERSION, INVALID_REQUEST.
        """
        request = UpdateFeaturesRequest(
            timeout_ms=self._timeout_ms,
            feature_updates=tuple(
                UpdateFeaturesRequestFeatureUpdateKey(
                    feature=update.name,
                    max_version_level=update.level,
                    upgrade_type=UpgradeType[update.upgrade_type],
                )
                for update in updates
            ),
            validate_only=validate_only,
        )
        before = self._history.newest_offset
        answer = await self._ask(request, UpdateFeaturesResponse)
        raise_for(answer.error_code, answer.error_message)
        if validate_only:
            return None
        names = {update.name for update in updates}
        return await self._committed(
            before, lambda record: isinstance(record, FeatureLevelRecord) and record.name in names
        )


def check_assignments(image: MetadataImage, wanted: Assignments) -> dict[Partition, KafkaError]:
    """Look for what the controller would refuse, without asking it: unknown partitions and brokers, repetitions."""
    failures: dict[Partition, KafkaError] = {}
    for (name, index), replicas in wanted.items():
        topic = image.topics.topic(name)
        partition = None if topic is None else topic.partitions.get(index)
        if partition is None:
            error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
        elif replicas is None:
            if partition.is_reassigning:
                continue
            error = KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        else:
            unknown = [each for each in replicas if each not in image.cluster.brokers]
            if replicas and not unknown and len(set(replicas)) == len(replicas):
                continue
            reason = "names no broker" if not replicas else "names a broker more than once"
            if unknown:
                reason = f"includes broker {unknown[0]}, but no such broker is registered"
            error = KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {reason}.")
        failures[name, index] = error
    return failures


def needs_election(partition: PartitionRegistration, election: ElectionType) -> bool:
    """Whether an election could change who leads: the leader is not the first replica, or, for UNCLEAN, nobody leads."""
    is_preferred = election is ElectionType.PREFERRED
    return not (partition.has_preferred_leader if is_preferred else partition.has_leader)


def check_elections(
    image: MetadataImage, election: ElectionType, partitions: Sequence[Partition]
) -> dict[Partition, KafkaError]:
    """Look for what the controller would answer without an election, without asking it: unknown, or not needed."""
    failures: dict[Partition, KafkaError] = {}
    for name, index in partitions:
        topic = image.topics.topic(name)
        partition = None if topic is None else topic.partitions.get(index)
        if partition is None:
            failures[name, index] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif not needs_election(partition, election):
            failures[name, index] = KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    return failures
