"""Leader elections: on request, periodically of preferred replicas, and periodically unclean ones.

Source: ReplicationControlManager.electLeaders, maybeBalancePartitionLeaders, maybeElectUncleanLeaders, Kafka 4.3.1.
"""

from __future__ import annotations

from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING

from kraft_core.controller.controller_result import ControllerResult, check_record_count
from kraft_core.controller.partitions.partition_change_builder import Election
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    ElectLeadersResponse,
    ElectLeadersResponsePartitionResult,
    ElectLeadersResponseReplicaElectionResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kraft_core.controller.partitions.replication_control_manager import ReplicationControlManager
    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.protocol.messages import ElectLeadersRequest
    from kraft_core.protocol.metadata_records import MetadataRecord, PartitionChangeRecord

    _Elect = Callable[[int], PartitionChangeRecord]


class ElectionType(IntEnum):
    """Election type of an ElectLeaders request."""

    PREFERRED = 0
    UNCLEAN = 1


class LeaderElection:
    """Elections in the partitions of an image."""

    def __init__(self, replication: ReplicationControlManager, max_elections: int) -> None:
        self._replication = replication
        self._max_elections = max_elections

    def elect_leaders(
        self, image: MetadataImage, request: ElectLeadersRequest
    ) -> ControllerResult[ElectLeadersResponse]:
        """Hold an election in the named partitions, or in all partitions if the list is null.

        Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, ELECTION_NOT_NEEDED (omitted when all are elected),
        PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE.
        Raises KafkaError: INVALID_REQUEST for an unknown election type, POLICY_VIOLATION for too many changes.
        """
        if request.topic_partitions == ():
            return ControllerResult([], ElectLeadersResponse())
        try:
            election = ElectionType(request.election_type)
        except ValueError:
            reason = f"Unknown election type {request.election_type}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, reason) from None
        wanted: Iterable[tuple[str, Iterable[int]]]
        if request.topic_partitions is None:
            by_name = sorted(image.topics.by_name)
            wanted = ((name, _indexes(image, name)) for name in by_name)
        else:
            wanted = ((topic.topic, topic.partitions) for topic in request.topic_partitions)
        records: list[MetadataRecord] = []
        results = []
        for name, indexes in wanted:
            partitions = []
            elect = self._elections_of(image, name, election)
            for index in indexes:
                code, message = _try_elect(elect, index, records)
                if code is ErrorCode.ELECTION_NOT_NEEDED and request.topic_partitions is None:
                    continue
                partitions.append(
                    ElectLeadersResponsePartitionResult(partition_id=index, error_code=code, error_message=message)
                )
            results.append(ElectLeadersResponseReplicaElectionResult(topic=name, partition_result=tuple(partitions)))
        check_record_count(len(records))
        response = ElectLeadersResponse(error_code=ErrorCode.NONE, replica_election_results=tuple(results))
        return ControllerResult(records, response)

    def maybe_balance_partition_leaders(self, image: MetadataImage) -> ControllerResult[bool]:
        """Elect the preferred replica where it is in sync, in up to `max_elections` partitions.

        The response is True when partitions may remain, so that the task runs again immediately.
        """
        records: list[MetadataRecord] = []
        for found in self._replication.scan.findings(image):
            for index in found.imbalanced:
                if len(records) >= self._max_elections:
                    return ControllerResult(records, response=True)
                partition = found.topic.partitions[index]
                builder = self._replication.builder(image, found.topic, index, partition)
                builder.election = Election.PREFERRED
                record = builder.build()
                if record is not None:
                    records.append(record)
        return ControllerResult(records, len(records) >= self._max_elections)

    def maybe_elect_unclean_leaders(self, image: MetadataImage) -> ControllerResult[bool]:
        """Elect any live replica in partitions without leader, where the topic allows it, up to `max_elections`.

        The response is True when partitions may remain, so that the task runs again immediately.
        """
        records: list[MetadataRecord] = []
        for found in self._replication.scan.findings(image):
            name = found.topic.name
            if not found.leaderless or not self._replication.configuration.unclean_leader_election_enabled(image, name):
                continue
            elect = self._elections_of(image, name, ElectionType.UNCLEAN)
            for index in found.leaderless:
                if len(records) >= self._max_elections:
                    return ControllerResult(records, response=True)
                _try_elect(elect, index, records)
        return ControllerResult(records, len(records) >= self._max_elections)

    def _elections_of(self, image: MetadataImage, name: str, election: ElectionType) -> _Elect:
        """Return the function that elects the leader of a partition of this topic; it raises KafkaError if none is."""
        topic = image.topics.topic(name)
        if topic is None:
            return partial(_no_topic, name)
        is_preferred = election is ElectionType.PREFERRED
        min_isr = self._replication.effective_min_isr(image, topic)

        def elect(index: int) -> PartitionChangeRecord:
            partition = topic.partitions.get(index)
            if partition is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
            if partition.has_preferred_leader if is_preferred else partition.has_leader:
                raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
            builder = self._replication.builder(image, topic, index, partition, min_isr=min_isr)
            builder.election = Election.PREFERRED if is_preferred else Election.UNCLEAN
            record = builder.build()
            if record is None:
                raise KafkaError(
                    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
                    if is_preferred
                    else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
                )
            return record

        return elect


def _no_topic(name: str, _index: int) -> PartitionChangeRecord:
    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")


def _try_elect(elect: _Elect, index: int, records: list[MetadataRecord]) -> tuple[ErrorCode, str | None]:
    try:
        records.append(elect(index))
    except KafkaError as error:
        return error.code, error.message
    return ErrorCode.NONE, None


def _indexes(image: MetadataImage, name: str) -> Iterable[int]:
    topic = image.topics.topic(name)
    return () if topic is None else sorted(topic.partitions)
