"""Partitions: reassigned, and their leaders elected, through the active controller.

Partitions succeed and fail individually: a request for many returns a result for each.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.cluster.changes import Changes, raise_for
from kraft_core.clients.admin.partitions import (
    ElectionType,
    Reassignments,
    alter_partition_reassignments_request,
    elect_leaders_request,
    election_results,
    reassignment_results,
)
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.image.metadata_image import PartitionRegistration
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.messages import AlterPartitionReassignmentsResponse, ElectLeadersResponse
from kraft_core.protocol.metadata_records import (
    MetadataRecord,
    PartitionChangeRecord,
)

Partition = tuple[str, int]
"""Topic name and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a request about many partitions. `offset` is None when nothing changed."""

    offset: int | None
    failures: dict[Partition, KafkaError]

    @classmethod
    def of_batches(cls, done: Iterable["Outcome"]) -> "Outcome":
        """Return the results of several requests about different partitions, in their order, as one."""
        offset: int | None = None
        failures: dict[Partition, KafkaError] = {}
        for each in done:
            offset = offset if each.offset is None else each.offset
            failures |= each.failures
        return cls(offset=offset, failures=failures)


class PartitionAdmin(Changes):
    """Reassignments and elections."""

    async def alter_reassignments(
        self, wanted: Reassignments, *, may_change_factor: bool = True, validate_only: bool = False
    ) -> Outcome:
        """Start reassignments, or cancel them.

        Errors per partition: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR,
        NO_REASSIGNMENT_IN_PROGRESS.
        """
        request = alter_partition_reassignments_request(wanted, self._timeout_ms, may_change_factor=may_change_factor)
        before = self._history.newest_offset
        answer = await self._ask(request, AlterPartitionReassignmentsResponse, dry_run=validate_only)
        raise_for(answer.error_code, answer.error_message)
        failures = _failures(reassignment_results(answer))
        return await self._outcome(before, list(wanted), failures, validate_only=validate_only)

    async def elect_leaders(
        self, election: ElectionType, partitions: Sequence[Partition], *, validate_only: bool = False
    ) -> Outcome:
        """Elect a leader in each partition.

        Errors per partition: ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE,
        UNKNOWN_TOPIC_OR_PARTITION.
        """
        request = elect_leaders_request(election, partitions, self._timeout_ms)
        before = self._history.newest_offset
        answer = await self._ask(request, ElectLeadersResponse, dry_run=validate_only)
        raise_for(answer.error_code, None)
        failures = _failures(election_results(answer))
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


def _failures(results: Mapping[TopicPartition, KafkaError | None]) -> dict[Partition, KafkaError]:
    return {partition: error for partition, error in results.items() if error is not None}


def needs_election(partition: PartitionRegistration, election: ElectionType) -> bool:
    """Whether an election could change the leader: it is not the preferred replica, or, for UNCLEAN, there is none."""
    is_preferred = election is ElectionType.PREFERRED
    return not (partition.has_preferred_leader if is_preferred else partition.has_leader)
