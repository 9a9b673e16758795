"""What clients learn about topics and brokers (KIP-966 for DescribeTopicPartitions).

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated
from uuid import UUID

from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message, wire


class MetadataRequestMetadataRequestTopic(Message):
    """An element of MetadataRequest.topics."""

    topic_id: Annotated[UUID, wire("uuid", since=10, ignorable=True)] = ZERO_UUID
    name: Annotated[str | None, wire("string", nullable_since=10)] = ""


class MetadataRequest(Message):
    """Ask for brokers, topics and partition leaders; apiKey 3, v0-13. Source: MetadataRequest.json."""

    API_KEY = 3
    VERSIONS = (0, 13)
    FLEXIBLE = 9

    topics: Annotated[
        tuple[MetadataRequestMetadataRequestTopic, ...] | None, wire("[]MetadataRequestTopic", nullable_since=1)
    ] = ()
    allow_auto_topic_creation: Annotated[bool, wire("bool", since=4)] = True
    include_cluster_authorized_operations: Annotated[bool, wire("bool", since=8, until=10)] = False
    include_topic_authorized_operations: Annotated[bool, wire("bool", since=8)] = False


class MetadataResponseMetadataResponseBroker(Message):
    """An element of MetadataResponse.brokers."""

    node_id: Annotated[int, wire("int32")] = 0
    host: Annotated[str, wire("string")] = ""
    port: Annotated[int, wire("int32")] = 0
    rack: Annotated[str | None, wire("string", since=1, nullable_since=1, ignorable=True)] = None


class MetadataResponseMetadataResponsePartition(Message):
    """An element of MetadataResponse.topics[].partitions."""

    error_code: Annotated[int, wire("int16")] = 0
    partition_index: Annotated[int, wire("int32")] = 0
    leader_id: Annotated[int, wire("int32")] = 0
    leader_epoch: Annotated[int, wire("int32", since=7, ignorable=True)] = -1
    replica_nodes: Annotated[tuple[int, ...], wire("[]int32")] = ()
    isr_nodes: Annotated[tuple[int, ...], wire("[]int32")] = ()
    offline_replicas: Annotated[tuple[int, ...], wire("[]int32", since=5, ignorable=True)] = ()


class MetadataResponseMetadataResponseTopic(Message):
    """An element of MetadataResponse.topics."""

    error_code: Annotated[int, wire("int16")] = 0
    name: Annotated[str | None, wire("string", nullable_since=12)] = ""
    topic_id: Annotated[UUID, wire("uuid", since=10, ignorable=True)] = ZERO_UUID
    is_internal: Annotated[bool, wire("bool", since=1, ignorable=True)] = False
    partitions: Annotated[
        tuple[MetadataResponseMetadataResponsePartition, ...], wire("[]MetadataResponsePartition")
    ] = ()
    topic_authorized_operations: Annotated[int, wire("int32", since=8, ignorable=True)] = -2147483648


class MetadataResponse(Message):
    """Brokers, topics and partition leaders; apiKey 3, v0-13. Source: MetadataResponse.json."""

    API_KEY = 3
    VERSIONS = (0, 13)
    FLEXIBLE = 9

    throttle_time_ms: Annotated[int, wire("int32", since=3, ignorable=True)] = 0
    brokers: Annotated[tuple[MetadataResponseMetadataResponseBroker, ...], wire("[]MetadataResponseBroker")] = ()
    cluster_id: Annotated[str | None, wire("string", since=2, nullable_since=2, ignorable=True)] = None
    controller_id: Annotated[int, wire("int32", since=1, ignorable=True)] = -1
    topics: Annotated[tuple[MetadataResponseMetadataResponseTopic, ...], wire("[]MetadataResponseTopic")] = ()
    cluster_authorized_operations: Annotated[int, wire("int32", since=8, until=10, ignorable=True)] = -2147483648
    error_code: Annotated[int, wire("int16", since=13, ignorable=True)] = 0


class DescribeTopicPartitionsRequestTopicRequest(Message):
    """An element of DescribeTopicPartitionsRequest.topics."""

    name: Annotated[str, wire("string")] = ""


class DescribeTopicPartitionsRequestCursor(Message):
    """The value of DescribeTopicPartitionsRequest.cursor."""

    topic_name: Annotated[str, wire("string")] = ""
    partition_index: Annotated[int, wire("int32")] = 0


class DescribeTopicPartitionsRequest(Message):
    """Ask for the partitions of topics, page by page; apiKey 75, v0. Source: DescribeTopicPartitionsRequest.json."""

    API_KEY = 75
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    topics: Annotated[tuple[DescribeTopicPartitionsRequestTopicRequest, ...], wire("[]TopicRequest")] = ()
    response_partition_limit: Annotated[int, wire("int32")] = 2000
    cursor: Annotated[DescribeTopicPartitionsRequestCursor | None, wire("Cursor", nullable_since=0)] = None


class DescribeTopicPartitionsResponseDescribeTopicPartitionsResponsePartition(Message):
    """An element of DescribeTopicPartitionsResponse.topics[].partitions."""

    error_code: Annotated[int, wire("int16")] = 0
    partition_index: Annotated[int, wire("int32")] = 0
    leader_id: Annotated[int, wire("int32")] = 0
    leader_epoch: Annotated[int, wire("int32")] = -1
    replica_nodes: Annotated[tuple[int, ...], wire("[]int32")] = ()
    isr_nodes: Annotated[tuple[int, ...], wire("[]int32")] = ()
    eligible_leader_replicas: Annotated[tuple[int, ...] | None, wire("[]int32", nullable_since=0)] = None
    last_known_elr: Annotated[tuple[int, ...] | None, wire("[]int32", nullable_since=0)] = None
    offline_replicas: Annotated[tuple[int, ...], wire("[]int32")] = ()


class DescribeTopicPartitionsResponseDescribeTopicPartitionsResponseTopic(Message):
    """An element of DescribeTopicPartitionsResponse.topics."""

    error_code: Annotated[int, wire("int16")] = 0
    name: Annotated[str | None, wire("string", nullable_since=0)] = ""
    topic_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    is_internal: Annotated[bool, wire("bool")] = False
    partitions: Annotated[
        tuple[DescribeTopicPartitionsResponseDescribeTopicPartitionsResponsePartition, ...],
        wire("[]DescribeTopicPartitionsResponsePartition"),
    ] = ()
    topic_authorized_operations: Annotated[int, wire("int32")] = -2147483648


class DescribeTopicPartitionsResponseCursor(Message):
    """The value of DescribeTopicPartitionsResponse.next_cursor."""

    topic_name: Annotated[str, wire("string")] = ""
    partition_index: Annotated[int, wire("int32")] = 0


class DescribeTopicPartitionsResponse(Message):
    """A page of partitions, with their ELR; apiKey 75, v0. Source: DescribeTopicPartitionsResponse.json."""

    API_KEY = 75
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    topics: Annotated[
        tuple[DescribeTopicPartitionsResponseDescribeTopicPartitionsResponseTopic, ...],
        wire("[]DescribeTopicPartitionsResponseTopic"),
    ] = ()
    next_cursor: Annotated[DescribeTopicPartitionsResponseCursor | None, wire("Cursor", nullable_since=0)] = None
