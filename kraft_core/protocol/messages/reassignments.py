"""Moving replicas (KIP-455).

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated

from kraft_core.protocol.wire import Message, wire


class AlterPartitionReassignmentsRequestReassignablePartition(Message):
    """An element of AlterPartitionReassignmentsRequest.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    replicas: Annotated[tuple[int, ...] | None, wire("[]int32", nullable_since=0)] = None


class AlterPartitionReassignmentsRequestReassignableTopic(Message):
    """An element of AlterPartitionReassignmentsRequest.topics."""

    name: Annotated[str, wire("string")] = ""
    partitions: Annotated[
        tuple[AlterPartitionReassignmentsRequestReassignablePartition, ...], wire("[]ReassignablePartition")
    ] = ()


class AlterPartitionReassignmentsRequest(Message):
    """Start or cancel reassignments; apiKey 45, v0-1. Source: AlterPartitionReassignmentsRequest.json."""

    API_KEY = 45
    VERSIONS = (0, 1)
    FLEXIBLE = 0

    timeout_ms: Annotated[int, wire("int32")] = 60000
    allow_replication_factor_change: Annotated[bool, wire("bool", since=1)] = True
    topics: Annotated[tuple[AlterPartitionReassignmentsRequestReassignableTopic, ...], wire("[]ReassignableTopic")] = ()


class AlterPartitionReassignmentsResponseReassignablePartitionResponse(Message):
    """An element of AlterPartitionReassignmentsResponse.responses[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""


class AlterPartitionReassignmentsResponseReassignableTopicResponse(Message):
    """An element of AlterPartitionReassignmentsResponse.responses."""

    name: Annotated[str, wire("string")] = ""
    partitions: Annotated[
        tuple[AlterPartitionReassignmentsResponseReassignablePartitionResponse, ...],
        wire("[]ReassignablePartitionResponse"),
    ] = ()


class AlterPartitionReassignmentsResponse(Message):
    """The reassignments, one by one; apiKey 45, v0-1. Source: AlterPartitionReassignmentsResponse.json."""

    API_KEY = 45
    VERSIONS = (0, 1)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    allow_replication_factor_change: Annotated[bool, wire("bool", since=1, ignorable=True)] = True
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""
    responses: Annotated[
        tuple[AlterPartitionReassignmentsResponseReassignableTopicResponse, ...], wire("[]ReassignableTopicResponse")
    ] = ()


class ListPartitionReassignmentsRequestListPartitionReassignmentsTopics(Message):
    """An element of ListPartitionReassignmentsRequest.topics."""

    name: Annotated[str, wire("string")] = ""
    partition_indexes: Annotated[tuple[int, ...], wire("[]int32")] = ()


class ListPartitionReassignmentsRequest(Message):
    """Ask for running reassignments; apiKey 46, v0. Source: ListPartitionReassignmentsRequest.json."""

    API_KEY = 46
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    timeout_ms: Annotated[int, wire("int32")] = 60000
    topics: Annotated[
        tuple[ListPartitionReassignmentsRequestListPartitionReassignmentsTopics, ...] | None,
        wire("[]ListPartitionReassignmentsTopics", nullable_since=0),
    ] = None


class ListPartitionReassignmentsResponseOngoingPartitionReassignment(Message):
    """An element of ListPartitionReassignmentsResponse.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    replicas: Annotated[tuple[int, ...], wire("[]int32")] = ()
    adding_replicas: Annotated[tuple[int, ...], wire("[]int32")] = ()
    removing_replicas: Annotated[tuple[int, ...], wire("[]int32")] = ()


class ListPartitionReassignmentsResponseOngoingTopicReassignment(Message):
    """An element of ListPartitionReassignmentsResponse.topics."""

    name: Annotated[str, wire("string")] = ""
    partitions: Annotated[
        tuple[ListPartitionReassignmentsResponseOngoingPartitionReassignment, ...],
        wire("[]OngoingPartitionReassignment"),
    ] = ()


class ListPartitionReassignmentsResponse(Message):
    """The running reassignments; apiKey 46, v0. Source: ListPartitionReassignmentsResponse.json."""

    API_KEY = 46
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""
    topics: Annotated[
        tuple[ListPartitionReassignmentsResponseOngoingTopicReassignment, ...], wire("[]OngoingTopicReassignment")
    ] = ()
