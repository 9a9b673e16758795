"""Topics: creation, deletion, more partitions, deletion of their oldest records.

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated
from uuid import UUID

from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message, wire


class CreateTopicsRequestCreatableReplicaAssignment(Message):
    """An element of CreateTopicsRequest.topics[].assignments."""

    partition_index: Annotated[int, wire("int32")] = 0
    broker_ids: Annotated[tuple[int, ...], wire("[]int32")] = ()


class CreateTopicsRequestCreatableTopicConfig(Message):
    """An element of CreateTopicsRequest.topics[].configs."""

    name: Annotated[str, wire("string")] = ""
    value: Annotated[str | None, wire("string", nullable_since=0)] = ""


class CreateTopicsRequestCreatableTopic(Message):
    """An element of CreateTopicsRequest.topics."""

    name: Annotated[str, wire("string")] = ""
    num_partitions: Annotated[int, wire("int32")] = 0
    replication_factor: Annotated[int, wire("int16")] = 0
    assignments: Annotated[
        tuple[CreateTopicsRequestCreatableReplicaAssignment, ...], wire("[]CreatableReplicaAssignment")
    ] = ()
    configs: Annotated[tuple[CreateTopicsRequestCreatableTopicConfig, ...], wire("[]CreatableTopicConfig")] = ()


class CreateTopicsRequest(Message):
    """Create topics; apiKey 19, v2-7. Source: CreateTopicsRequest.json."""

    API_KEY = 19
    VERSIONS = (2, 7)
    FLEXIBLE = 5

    topics: Annotated[tuple[CreateTopicsRequestCreatableTopic, ...], wire("[]CreatableTopic")] = ()
    timeout_ms: Annotated[int, wire("int32")] = 60000
    validate_only: Annotated[bool, wire("bool")] = False


class CreateTopicsResponseCreatableTopicConfigs(Message):
    """An element of CreateTopicsResponse.topics[].configs."""

    name: Annotated[str, wire("string", since=5, ignorable=True)] = ""
    value: Annotated[str | None, wire("string", since=5, nullable_since=5, ignorable=True)] = ""
    read_only: Annotated[bool, wire("bool", since=5, ignorable=True)] = False
    config_source: Annotated[int, wire("int8", since=5, ignorable=True)] = -1
    is_sensitive: Annotated[bool, wire("bool", since=5, ignorable=True)] = False


class CreateTopicsResponseCreatableTopicResult(Message):
    """An element of CreateTopicsResponse.topics."""

    name: Annotated[str, wire("string")] = ""
    topic_id: Annotated[UUID, wire("uuid", since=7, ignorable=True)] = ZERO_UUID
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""
    topic_config_error_code: Annotated[int, wire("int16", since=5, tag=0, ignorable=True)] = 0
    num_partitions: Annotated[int, wire("int32", since=5, ignorable=True)] = -1
    replication_factor: Annotated[int, wire("int16", since=5, ignorable=True)] = -1
    configs: Annotated[
        tuple[CreateTopicsResponseCreatableTopicConfigs, ...] | None,
        wire("[]CreatableTopicConfigs", since=5, nullable_since=5, ignorable=True, shared=True),
    ] = ()


class CreateTopicsResponse(Message):
    """The topics created, one by one; apiKey 19, v2-7. Source: CreateTopicsResponse.json."""

    API_KEY = 19
    VERSIONS = (2, 7)
    FLEXIBLE = 5

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    topics: Annotated[tuple[CreateTopicsResponseCreatableTopicResult, ...], wire("[]CreatableTopicResult")] = ()


class DeleteTopicsRequestDeleteTopicState(Message):
    """An element of DeleteTopicsRequest.topics."""

    name: Annotated[str | None, wire("string", since=6, nullable_since=6)] = None
    topic_id: Annotated[UUID, wire("uuid", since=6)] = ZERO_UUID


class DeleteTopicsRequest(Message):
    """Delete topics by name or id; apiKey 20, v1-6. Source: DeleteTopicsRequest.json."""

    API_KEY = 20
    VERSIONS = (1, 6)
    FLEXIBLE = 4

    topics: Annotated[tuple[DeleteTopicsRequestDeleteTopicState, ...], wire("[]DeleteTopicState", since=6)] = ()
    topic_names: Annotated[tuple[str, ...], wire("[]string", until=5, ignorable=True)] = ()
    timeout_ms: Annotated[int, wire("int32")] = 0


class DeleteTopicsResponseDeletableTopicResult(Message):
    """An element of DeleteTopicsResponse.responses."""

    name: Annotated[str | None, wire("string", nullable_since=6)] = ""
    topic_id: Annotated[UUID, wire("uuid", since=6, ignorable=True)] = ZERO_UUID
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", since=5, nullable_since=5, ignorable=True)] = None


class DeleteTopicsResponse(Message):
    """The topics deleted, one by one; apiKey 20, v1-6. Source: DeleteTopicsResponse.json."""

    API_KEY = 20
    VERSIONS = (1, 6)
    FLEXIBLE = 4

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    responses: Annotated[tuple[DeleteTopicsResponseDeletableTopicResult, ...], wire("[]DeletableTopicResult")] = ()


class CreatePartitionsRequestCreatePartitionsAssignment(Message):
    """An element of CreatePartitionsRequest.topics[].assignments."""

    broker_ids: Annotated[tuple[int, ...], wire("[]int32")] = ()


class CreatePartitionsRequestCreatePartitionsTopic(Message):
    """An element of CreatePartitionsRequest.topics."""

    name: Annotated[str, wire("string")] = ""
    count: Annotated[int, wire("int32")] = 0
    assignments: Annotated[
        tuple[CreatePartitionsRequestCreatePartitionsAssignment, ...] | None,
        wire("[]CreatePartitionsAssignment", nullable_since=0),
    ] = ()


class CreatePartitionsRequest(Message):
    """Add partitions to topics; apiKey 37, v0-3. Source: CreatePartitionsRequest.json."""

    API_KEY = 37
    VERSIONS = (0, 3)
    FLEXIBLE = 2

    topics: Annotated[tuple[CreatePartitionsRequestCreatePartitionsTopic, ...], wire("[]CreatePartitionsTopic")] = ()
    timeout_ms: Annotated[int, wire("int32")] = 0
    validate_only: Annotated[bool, wire("bool")] = False


class CreatePartitionsResponseCreatePartitionsTopicResult(Message):
    """An element of CreatePartitionsResponse.results."""

    name: Annotated[str, wire("string")] = ""
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = None


class CreatePartitionsResponse(Message):
    """The topics changed, one by one; apiKey 37, v0-3. Source: CreatePartitionsResponse.json."""

    API_KEY = 37
    VERSIONS = (0, 3)
    FLEXIBLE = 2

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    results: Annotated[
        tuple[CreatePartitionsResponseCreatePartitionsTopicResult, ...], wire("[]CreatePartitionsTopicResult")
    ] = ()


class DeleteRecordsRequestDeleteRecordsPartition(Message):
    """An element of DeleteRecordsRequest.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    offset: Annotated[int, wire("int64")] = 0


class DeleteRecordsRequestDeleteRecordsTopic(Message):
    """An element of DeleteRecordsRequest.topics."""

    name: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[DeleteRecordsRequestDeleteRecordsPartition, ...], wire("[]DeleteRecordsPartition")] = ()


class DeleteRecordsRequest(Message):
    """Delete the oldest records of partitions; apiKey 21, v0-2. Source: DeleteRecordsRequest.json."""

    API_KEY = 21
    VERSIONS = (0, 2)
    FLEXIBLE = 2

    topics: Annotated[tuple[DeleteRecordsRequestDeleteRecordsTopic, ...], wire("[]DeleteRecordsTopic")] = ()
    timeout_ms: Annotated[int, wire("int32")] = 0


class DeleteRecordsResponseDeleteRecordsPartitionResult(Message):
    """An element of DeleteRecordsResponse.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    low_watermark: Annotated[int, wire("int64")] = 0
    error_code: Annotated[int, wire("int16")] = 0


class DeleteRecordsResponseDeleteRecordsTopicResult(Message):
    """An element of DeleteRecordsResponse.topics."""

    name: Annotated[str, wire("string")] = ""
    partitions: Annotated[
        tuple[DeleteRecordsResponseDeleteRecordsPartitionResult, ...], wire("[]DeleteRecordsPartitionResult")
    ] = ()


class DeleteRecordsResponse(Message):
    """The new low watermarks; apiKey 21, v0-2. Source: DeleteRecordsResponse.json."""

    API_KEY = 21
    VERSIONS = (0, 2)
    FLEXIBLE = 2

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    topics: Annotated[
        tuple[DeleteRecordsResponseDeleteRecordsTopicResult, ...], wire("[]DeleteRecordsTopicResult")
    ] = ()
