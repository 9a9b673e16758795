"""Writing records and finding offsets.

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated
from uuid import UUID

from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message, wire


class ProduceRequestPartitionProduceData(Message):
    """An element of ProduceRequest.topic_data[].partition_data."""

    index: Annotated[int, wire("int32")] = 0
    records: Annotated[bytes | None, wire("records", nullable_since=0)] = b""


class ProduceRequestTopicProduceData(Message):
    """An element of ProduceRequest.topic_data."""

    name: Annotated[str, wire("string", until=12, ignorable=True)] = ""
    topic_id: Annotated[UUID, wire("uuid", since=13, ignorable=True)] = ZERO_UUID
    partition_data: Annotated[tuple[ProduceRequestPartitionProduceData, ...], wire("[]PartitionProduceData")] = ()


class ProduceRequest(Message):
    """Write record batches; apiKey 0, v3-13. Source: ProduceRequest.json."""

    API_KEY = 0
    VERSIONS = (3, 13)
    FLEXIBLE = 9

    transactional_id: Annotated[str | None, wire("string", nullable_since=3)] = None
    acks: Annotated[int, wire("int16")] = 0
    timeout_ms: Annotated[int, wire("int32")] = 0
    topic_data: Annotated[tuple[ProduceRequestTopicProduceData, ...], wire("[]TopicProduceData")] = ()


class ProduceResponseBatchIndexAndErrorMessage(Message):
    """An element of ProduceResponse.responses[].partition_responses[].record_errors."""

    batch_index: Annotated[int, wire("int32", since=8, ignorable=True)] = 0
    batch_index_error_message: Annotated[str | None, wire("string", since=8, nullable_since=8, ignorable=True)] = None


class ProduceResponseLeaderIdAndEpoch(Message):
    """The value of ProduceResponse.responses[].partition_responses[].current_leader."""

    leader_id: Annotated[int, wire("int32", since=10, ignorable=True)] = -1
    leader_epoch: Annotated[int, wire("int32", since=10, ignorable=True)] = -1


class ProduceResponsePartitionProduceResponse(Message):
    """An element of ProduceResponse.responses[].partition_responses."""

    index: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    base_offset: Annotated[int, wire("int64")] = 0
    log_append_time_ms: Annotated[int, wire("int64")] = -1
    log_start_offset: Annotated[int, wire("int64", since=5, ignorable=True)] = -1
    record_errors: Annotated[
        tuple[ProduceResponseBatchIndexAndErrorMessage, ...],
        wire("[]BatchIndexAndErrorMessage", since=8, ignorable=True),
    ] = ()
    error_message: Annotated[str | None, wire("string", since=8, nullable_since=8, ignorable=True)] = None
    current_leader: Annotated[
        ProduceResponseLeaderIdAndEpoch, wire("LeaderIdAndEpoch", since=10, tag=0, ignorable=True)
    ] = ProduceResponseLeaderIdAndEpoch()


class ProduceResponseTopicProduceResponse(Message):
    """An element of ProduceResponse.responses."""

    name: Annotated[str, wire("string", until=12, ignorable=True)] = ""
    topic_id: Annotated[UUID, wire("uuid", since=13, ignorable=True)] = ZERO_UUID
    partition_responses: Annotated[
        tuple[ProduceResponsePartitionProduceResponse, ...], wire("[]PartitionProduceResponse")
    ] = ()


class ProduceResponseNodeEndpoint(Message):
    """An element of ProduceResponse.node_endpoints."""

    node_id: Annotated[int, wire("int32", since=10, ignorable=True)] = 0
    host: Annotated[str, wire("string", since=10, ignorable=True)] = ""
    port: Annotated[int, wire("int32", since=10, ignorable=True)] = 0
    rack: Annotated[str | None, wire("string", since=10, nullable_since=10, ignorable=True)] = None


class ProduceResponse(Message):
    """Offsets of the written batches; apiKey 0, v3-13. Source: ProduceResponse.json."""

    API_KEY = 0
    VERSIONS = (3, 13)
    FLEXIBLE = 9

    responses: Annotated[tuple[ProduceResponseTopicProduceResponse, ...], wire("[]TopicProduceResponse")] = ()
    throttle_time_ms: Annotated[int, wire("int32")] = 0
    node_endpoints: Annotated[
        tuple[ProduceResponseNodeEndpoint, ...], wire("[]NodeEndpoint", since=10, tag=0, ignorable=True)
    ] = ()


class ListOffsetsRequestListOffsetsPartition(Message):
    """An element of ListOffsetsRequest.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    current_leader_epoch: Annotated[int, wire("int32", since=4, ignorable=True)] = -1
    timestamp: Annotated[int, wire("int64")] = 0


class ListOffsetsRequestListOffsetsTopic(Message):
    """An element of ListOffsetsRequest.topics."""

    name: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[ListOffsetsRequestListOffsetsPartition, ...], wire("[]ListOffsetsPartition")] = ()


class ListOffsetsRequest(Message):
    """Ask for offsets by timestamp; apiKey 2, v1-11. Source: ListOffsetsRequest.json."""

    API_KEY = 2
    VERSIONS = (1, 11)
    FLEXIBLE = 6

    replica_id: Annotated[int, wire("int32")] = 0
    isolation_level: Annotated[int, wire("int8", since=2)] = 0
    topics: Annotated[tuple[ListOffsetsRequestListOffsetsTopic, ...], wire("[]ListOffsetsTopic")] = ()
    timeout_ms: Annotated[int, wire("int32", since=10, ignorable=True)] = 0


class ListOffsetsResponseListOffsetsPartitionResponse(Message):
    """An element of ListOffsetsResponse.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    timestamp: Annotated[int, wire("int64")] = -1
    offset: Annotated[int, wire("int64")] = -1
    leader_epoch: Annotated[int, wire("int32", since=4, ignorable=True)] = -1


class ListOffsetsResponseListOffsetsTopicResponse(Message):
    """An element of ListOffsetsResponse.topics."""

    name: Annotated[str, wire("string")] = ""
    partitions: Annotated[
        tuple[ListOffsetsResponseListOffsetsPartitionResponse, ...], wire("[]ListOffsetsPartitionResponse")
    ] = ()


class ListOffsetsResponse(Message):
    """Offsets by timestamp; apiKey 2, v1-11. Source: ListOffsetsResponse.json."""

    API_KEY = 2
    VERSIONS = (1, 11)
    FLEXIBLE = 6

    throttle_time_ms: Annotated[int, wire("int32", since=2, ignorable=True)] = 0
    topics: Annotated[tuple[ListOffsetsResponseListOffsetsTopicResponse, ...], wire("[]ListOffsetsTopicResponse")] = ()


class OffsetForLeaderEpochRequestOffsetForLeaderPartition(Message):
    """An element of OffsetForLeaderEpochRequest.topics[].partitions."""

    partition: Annotated[int, wire("int32")] = 0
    current_leader_epoch: Annotated[int, wire("int32")] = -1
    leader_epoch: Annotated[int, wire("int32")] = 0


class OffsetForLeaderEpochRequestOffsetForLeaderTopic(Message):
    """An element of OffsetForLeaderEpochRequest.topics."""

    topic: Annotated[str, wire("string")] = ""
    partitions: Annotated[
        tuple[OffsetForLeaderEpochRequestOffsetForLeaderPartition, ...], wire("[]OffsetForLeaderPartition")
    ] = ()


class OffsetForLeaderEpochRequest(Message):
    """Ask where leader epochs end; apiKey 23, v2-4. Source: OffsetForLeaderEpochRequest.json."""

    API_KEY = 23
    VERSIONS = (2, 4)
    FLEXIBLE = 4

    replica_id: Annotated[int, wire("int32", since=3, ignorable=True)] = -2
    topics: Annotated[tuple[OffsetForLeaderEpochRequestOffsetForLeaderTopic, ...], wire("[]OffsetForLeaderTopic")] = ()


class OffsetForLeaderEpochResponseEpochEndOffset(Message):
    """An element of OffsetForLeaderEpochResponse.topics[].partitions."""

    error_code: Annotated[int, wire("int16")] = 0
    partition: Annotated[int, wire("int32")] = 0
    leader_epoch: Annotated[int, wire("int32")] = -1
    end_offset: Annotated[int, wire("int64")] = -1


class OffsetForLeaderEpochResponseOffsetForLeaderTopicResult(Message):
    """An element of OffsetForLeaderEpochResponse.topics."""

    topic: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[OffsetForLeaderEpochResponseEpochEndOffset, ...], wire("[]EpochEndOffset")] = ()


class OffsetForLeaderEpochResponse(Message):
    """Ends of leader epochs; apiKey 23, v2-4. Source: OffsetForLeaderEpochResponse.json."""

    API_KEY = 23
    VERSIONS = (2, 4)
    FLEXIBLE = 4

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    topics: Annotated[
        tuple[OffsetForLeaderEpochResponseOffsetForLeaderTopicResult, ...], wire("[]OffsetForLeaderTopicResult")
    ] = ()
