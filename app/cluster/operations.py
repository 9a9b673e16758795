"""What operators do to partitions, brokers and features: reassign, elect, unregister, upgrade.

Partitions succeed and fail one by one: a request for many answers with a result for each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal

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

TOPICS_SHOWN: Final = 10

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


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUse:
    """Why a broker should not be forgotten. `topics`: names of those with replicas on it, sorted."""

    broker_id: int
    is_live: bool
    replicas: int
    leaders: int
    topics: tuple[str, ...]

    @property
    def is_any(self) -> bool:
        """Whether the broker is in use at all."""
        return self.is_live or self.replicas > 0

    @property
    def reasons(self) -> list[str]:
        """Each reason in words."""
        found = []
        if self.is_live:
            found.append(f"Broker {self.broker_id} is live: stop it first.")
        if self.replicas:
            shown = ", ".join(self.topics[:TOPICS_SHOWN])
            more = f" and {len(self.topics) - TOPICS_SHOWN} more" if len(self.topics) > TOPICS_SHOWN else ""
            found.append(
                f"Broker {self.broker_id} holds {self.replicas} replicas and leads {self.leaders} partitions, of "
                f"{shown}{more}: move them first."
            )
        return found


class BrokerInUseError(Exception):
    """A broker that is live or holds replicas is not forgotten without force."""

    def __init__(self, use: BrokerUse) -> None:
        super().__init__(" ".join(use.reasons))
        self.use = use


def broker_use(image: MetadataImage, broker_id: int) -> BrokerUse:
    """Return what a broker is used for; nothing for one that is not registered."""
    broker = image.cluster.brokers.get(broker_id)
    held = [(topic.name, partition) for topic, _, partition in image.topics.partitions_of_broker(broker_id)]
    return BrokerUse(
        broker_id=broker_id,
        is_live=broker is not None and not broker.fenced,
        replicas=len(held),
        leaders=sum(partition.leader == broker_id for _, partition in held),
        topics=tuple(sorted({name for name, _ in held})),
    )


class Operations(Changes):
    """Changes of partitions, brokers and features."""

    async def alter_reassignments(
        self, wanted: Assignments, *, may_change_factor: bool = True, validate_only: bool = False
    ) -> Outcome:
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
        answer = await self._ask(request, AlterPartitionReassignmentsResponse, dry_run=validate_only)
        raise_for(answer.error_code, answer.error_message)
        failures = {
            (topic.name, one.partition_index): KafkaError(ErrorCode(one.error_code), one.error_message or None)
            for topic in answer.responses
            for one in topic.partitions
            if one.error_code
        }
        return await self._outcome(before, list(wanted), failures, validate_only=validate_only)

    async def elect_leaders(
        self, election: ElectionType, partitions: Sequence[Partition], *, validate_only: bool = False
    ) -> Outcome:
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
        answer = await self._ask(request, ElectLeadersResponse, dry_run=validate_only)
        raise_for(answer.error_code, None)
        failures = {
            (topic.topic, one.partition_id): KafkaError(ErrorCode(one.error_code), one.error_message or None)
            for topic in answer.replica_election_results
            for one in topic.partition_result
            if one.error_code
        }
        return await self._outcome(before, partitions, failures, validate_only=validate_only)

    async def _outcome(
        self, before: int, wanted: Sequence[Partition], failures: dict[Partition, KafkaError], *, validate_only: bool
    ) -> Outcome:
        if validate_only or len(failures) == len(wanted):
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

    async def unregister_broker(
        self, broker_id: int, *, force: bool = False, validate_only: bool = False
    ) -> int | None:
        """Forget a broker: for good once it is stopped. Answers None when it was only validated.

        Raises BrokerInUseError, unless forced, for one that is live or holds replicas; KafkaError BROKER_ID_NOT_REGISTERED.
        """
        use = broker_use(self._observer.image, broker_id)
        if use.is_any and not force:
            raise BrokerInUseError(use)
        before = self._history.newest_offset
        request = UnregisterBrokerRequest(broker_id=broker_id)
        answer = await self._ask(request, UnregisterBrokerResponse, dry_run=validate_only)
        raise_for(answer.error_code, answer.error_message)
        if validate_only:
            return None
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


def needs_election(partition: PartitionRegistration, election: ElectionType) -> bool:
    """Whether an election could change who leads: the leader is not the first replica, or, for UNCLEAN, nobody leads."""
    is_preferred = election is ElectionType.PREFERRED
    return not (partition.has_preferred_leader if is_preferred else partition.has_leader)
