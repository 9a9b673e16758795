"""Admin's operations on the leaders and replicas of partitions.

Source: KafkaAdminClient, ElectionType, NewPartitionReassignment of Kafka 4.3.1; KIP-455, KIP-460.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from kraft_core.clients.admin.admin_call import (
    CONTROLLER,
    AdminCall,
    AdminCalls,
    RequestContext,
    Results,
    by_topic,
    error_of,
    single,
)
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.errors import ErrorCode, KafkaError, UnsupportedVersion
from kraft_core.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestReassignablePartition,
    AlterPartitionReassignmentsRequestReassignableTopic,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequestListPartitionReassignmentsTopics,
    ListPartitionReassignmentsResponse,
)

Reassignments = Mapping[tuple[str, int], Sequence[int] | None]
"""The new replicas of partitions, by (topic, partition); None cancels the running reassignment."""


class ElectionType(IntEnum):
    """Whether the preferred replica is elected, or any replica at all, which may lose records."""

    PREFERRED = 0
    UNCLEAN = 1


class PartitionReassignment(NamedTuple):
    """A running reassignment: all replicas, and those that are added and removed."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class PartitionCalls(AdminCalls):
    """Elections and reassignments."""

    async def elect_leaders(
        self, election_type: ElectionType, partitions: Collection[TopicPartition] | None
    ) -> Results[TopicPartition, None]:
        """Elect leaders, by partition; None: of all partitions, and the results have those that were elected.

        ELECTION_NOT_NEEDED is the error of a partition whose leader is the right one already. Raises KafkaError if all
        elections are refused.
        """

        def build(context: RequestContext[None]) -> ElectLeadersRequest:
            if election_type and not context.version:
                raise UnsupportedVersion("The broker elects preferred leaders only.")
            return elect_leaders_request(election_type, partitions, context.timeout_ms)

        def read(answer: ElectLeadersResponse) -> Results[TopicPartition, None] | KafkaError:
            return error_of(answer.error_code) or Results(election_results(answer))

        found = await self.run_single(single(ElectLeadersRequest(), read, CONTROLLER, build=build))
        if partitions is None:
            not_needed = ErrorCode.ELECTION_NOT_NEEDED
            return Results({key: error for key, error in found.items() if error is None or error.code != not_needed})
        return found

    async def alter_partition_reassignments(
        self, reassignments: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Results[TopicPartition, None]:
        """Move partitions to other replicas, by partition; None cancels a running reassignment."""

        def build(context: RequestContext[TopicPartition]) -> AlterPartitionReassignmentsRequest:
            wanted: Reassignments = {key: reassignments[key] for key in context.keys}
            return alter_partition_reassignments_request(wanted, context.timeout_ms)

        def read(
            answer: AlterPartitionReassignmentsResponse, context: RequestContext[TopicPartition]
        ) -> dict[TopicPartition, KafkaError | None]:
            error = error_of(answer.error_code, answer.error_message)
            return reassignment_results(answer) if error is None else dict.fromkeys(context.keys, error)

        return await self.run(
            AdminCall(
                request=AlterPartitionReassignmentsRequest,
                keys=reassignments,
                target=lambda _: CONTROLLER,
                build=build,
                read=read,
            )
        )

    async def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the running reassignments, of these partitions or of all. Raises KafkaError."""
        topics = (
            None
            if partitions is None
            else tuple(
                ListPartitionReassignmentsRequestListPartitionReassignmentsTopics(
                    name=topic, partition_indexes=tuple(indexes)
                )
                for topic, indexes in by_topic(partitions).items()
            )
        )

        def build(context: RequestContext[None]) -> ListPartitionReassignmentsRequest:
            return ListPartitionReassignmentsRequest(timeout_ms=context.timeout_ms, topics=topics)

        def read(
            answer: ListPartitionReassignmentsResponse,
        ) -> dict[TopicPartition, PartitionReassignment] | KafkaError:
            return error_of(answer.error_code, answer.error_message) or {
                TopicPartition(topic.name, each.partition_index): PartitionReassignment(
                    each.replicas, each.adding_replicas, each.removing_replicas
                )
                for topic in answer.topics
                for each in topic.partitions
            }

        return await self.run_single(single(ListPartitionReassignmentsRequest(), read, CONTROLLER, build=build))


def elect_leaders_request(
    election_type: ElectionType, partitions: Iterable[tuple[str, int]] | None, timeout_ms: int
) -> ElectLeadersRequest:
    """Return the request that elects leaders of partitions, or of all for None."""
    return ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=None
        if partitions is None
        else tuple(
            ElectLeadersRequestTopicPartitions(topic=topic, partitions=tuple(indexes))
            for topic, indexes in by_topic(partitions).items()
        ),
        timeout_ms=timeout_ms,
    )


def election_results(answer: ElectLeadersResponse) -> dict[TopicPartition, KafkaError | None]:
    """Return the error of each election, None for a leader that was elected."""
    return {
        TopicPartition(topic.topic, each.partition_id): error_of(each.error_code, each.error_message)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }


def alter_partition_reassignments_request(
    reassignments: Reassignments, timeout_ms: int, *, may_change_factor: bool = True
) -> AlterPartitionReassignmentsRequest:
    """Return the request that starts and cancels reassignments.

    Without `may_change_factor` the controller refuses another number of replicas (KIP-860).
    """
    return AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms,
        allow_replication_factor_change=may_change_factor,
        topics=tuple(
            AlterPartitionReassignmentsRequestReassignableTopic(
                name=topic, partitions=tuple(_move(index, reassignments[topic, index]) for index in indexes)
            )
            for topic, indexes in by_topic(reassignments).items()
        ),
    )


def reassignment_results(answer: AlterPartitionReassignmentsResponse) -> dict[TopicPartition, KafkaError | None]:
    """Return the error of each partition's change, None for success."""
    return {
        TopicPartition(topic.name, each.partition_index): error_of(each.error_code, each.error_message)
        for topic in answer.responses
        for each in topic.partitions
    }


def _move(index: int, replicas: Sequence[int] | None) -> AlterPartitionReassignmentsRequestReassignablePartition:
    return AlterPartitionReassignmentsRequestReassignablePartition(
        partition_index=index, replicas=None if replicas is None else tuple(replicas)
    )
