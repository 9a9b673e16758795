"""Committed offsets of groups.

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated
from uuid import UUID

from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message, wire


class OffsetCommitRequestOffsetCommitRequestPartition(Message):
    """An element of OffsetCommitRequest.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    committed_offset: Annotated[int, wire("int64")] = 0
    committed_leader_epoch: Annotated[int, wire("int32", since=6, ignorable=True)] = -1
    committed_metadata: Annotated[str | None, wire("string", nullable_since=0)] = ""


class OffsetCommitRequestOffsetCommitRequestTopic(Message):
    """An element of OffsetCommitRequest.topics."""

    name: Annotated[str, wire("string", until=9, ignorable=True)] = ""
    topic_id: Annotated[UUID, wire("uuid", since=10, ignorable=True)] = ZERO_UUID
    partitions: Annotated[
        tuple[OffsetCommitRequestOffsetCommitRequestPartition, ...], wire("[]OffsetCommitRequestPartition")
    ] = ()


class OffsetCommitRequest(Message):
    """Commit offsets of a group; apiKey 8, v2-10. Source: OffsetCommitRequest.json."""

    API_KEY = 8
    VERSIONS = (2, 10)
    FLEXIBLE = 8

    group_id: Annotated[str, wire("string")] = ""
    generation_id_or_member_epoch: Annotated[int, wire("int32")] = -1
    member_id: Annotated[str, wire("string")] = ""
    group_instance_id: Annotated[str | None, wire("string", since=7, nullable_since=7)] = None
    retention_time_ms: Annotated[int, wire("int64", until=4, ignorable=True)] = -1
    topics: Annotated[tuple[OffsetCommitRequestOffsetCommitRequestTopic, ...], wire("[]OffsetCommitRequestTopic")] = ()


class OffsetCommitResponseOffsetCommitResponsePartition(Message):
    """An element of OffsetCommitResponse.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0


class OffsetCommitResponseOffsetCommitResponseTopic(Message):
    """An element of OffsetCommitResponse.topics."""

    name: Annotated[str, wire("string", until=9, ignorable=True)] = ""
    topic_id: Annotated[UUID, wire("uuid", since=10, ignorable=True)] = ZERO_UUID
    partitions: Annotated[
        tuple[OffsetCommitResponseOffsetCommitResponsePartition, ...], wire("[]OffsetCommitResponsePartition")
    ] = ()


class OffsetCommitResponse(Message):
    """The partitions, one by one; apiKey 8, v2-10. Source: OffsetCommitResponse.json."""

    API_KEY = 8
    VERSIONS = (2, 10)
    FLEXIBLE = 8

    throttle_time_ms: Annotated[int, wire("int32", since=3, ignorable=True)] = 0
    topics: Annotated[
        tuple[OffsetCommitResponseOffsetCommitResponseTopic, ...], wire("[]OffsetCommitResponseTopic")
    ] = ()


class OffsetFetchRequestOffsetFetchRequestTopic(Message):
    """An element of OffsetFetchRequest.topics."""

    name: Annotated[str, wire("string", until=7)] = ""
    partition_indexes: Annotated[tuple[int, ...], wire("[]int32", until=7)] = ()


class OffsetFetchRequestOffsetFetchRequestTopics(Message):
    """An element of OffsetFetchRequest.groups[].topics."""

    name: Annotated[str, wire("string", since=8, until=9, ignorable=True)] = ""
    topic_id: Annotated[UUID, wire("uuid", since=10, ignorable=True)] = ZERO_UUID
    partition_indexes: Annotated[tuple[int, ...], wire("[]int32", since=8)] = ()


class OffsetFetchRequestOffsetFetchRequestGroup(Message):
    """An element of OffsetFetchRequest.groups."""

    group_id: Annotated[str, wire("string", since=8)] = ""
    member_id: Annotated[str | None, wire("string", since=9, nullable_since=9, ignorable=True)] = None
    member_epoch: Annotated[int, wire("int32", since=9, ignorable=True)] = -1
    topics: Annotated[
        tuple[OffsetFetchRequestOffsetFetchRequestTopics, ...] | None,
        wire("[]OffsetFetchRequestTopics", since=8, nullable_since=8),
    ] = ()


class OffsetFetchRequest(Message):
    """Ask for committed offsets of groups; apiKey 9, v1-10. Source: OffsetFetchRequest.json."""

    API_KEY = 9
    VERSIONS = (1, 10)
    FLEXIBLE = 6

    group_id: Annotated[str, wire("string", until=7)] = ""
    topics: Annotated[
        tuple[OffsetFetchRequestOffsetFetchRequestTopic, ...] | None,
        wire("[]OffsetFetchRequestTopic", until=7, nullable_since=2),
    ] = ()
    groups: Annotated[
        tuple[OffsetFetchRequestOffsetFetchRequestGroup, ...], wire("[]OffsetFetchRequestGroup", since=8)
    ] = ()
    require_stable: Annotated[bool, wire("bool", since=7)] = False


class OffsetFetchResponseOffsetFetchResponsePartition(Message):
    """An element of OffsetFetchResponse.topics[].partitions."""

    partition_index: Annotated[int, wire("int32", until=7, ignorable=True)] = 0
    committed_offset: Annotated[int, wire("int64", until=7, ignorable=True)] = 0
    committed_leader_epoch: Annotated[int, wire("int32", since=5, until=7, ignorable=True)] = -1
    metadata: Annotated[str | None, wire("string", until=7, nullable_since=0, ignorable=True)] = ""
    error_code: Annotated[int, wire("int16", until=7, ignorable=True)] = 0


class OffsetFetchResponseOffsetFetchResponseTopic(Message):
    """An element of OffsetFetchResponse.topics."""

    name: Annotated[str, wire("string", until=7, ignorable=True)] = ""
    partitions: Annotated[
        tuple[OffsetFetchResponseOffsetFetchResponsePartition, ...],
        wire("[]OffsetFetchResponsePartition", until=7, ignorable=True),
    ] = ()


class OffsetFetchResponseOffsetFetchResponsePartitions(Message):
    """An element of OffsetFetchResponse.groups[].topics[].partitions."""

    partition_index: Annotated[int, wire("int32", since=8, ignorable=True)] = 0
    committed_offset: Annotated[int, wire("int64", since=8, ignorable=True)] = 0
    committed_leader_epoch: Annotated[int, wire("int32", since=8, ignorable=True)] = -1
    metadata: Annotated[str | None, wire("string", since=8, nullable_since=8, ignorable=True)] = ""
    error_code: Annotated[int, wire("int16", since=8, ignorable=True)] = 0


class OffsetFetchResponseOffsetFetchResponseTopics(Message):
    """An element of OffsetFetchResponse.groups[].topics."""

    name: Annotated[str, wire("string", since=8, until=9, ignorable=True)] = ""
    topic_id: Annotated[UUID, wire("uuid", since=10, ignorable=True)] = ZERO_UUID
    partitions: Annotated[
        tuple[OffsetFetchResponseOffsetFetchResponsePartitions, ...],
        wire("[]OffsetFetchResponsePartitions", since=8, ignorable=True),
    ] = ()


class OffsetFetchResponseOffsetFetchResponseGroup(Message):
    """An element of OffsetFetchResponse.groups."""

    group_id: Annotated[str, wire("string", since=8, ignorable=True)] = ""
    topics: Annotated[
        tuple[OffsetFetchResponseOffsetFetchResponseTopics, ...],
        wire("[]OffsetFetchResponseTopics", since=8, ignorable=True),
    ] = ()
    error_code: Annotated[int, wire("int16", since=8, ignorable=True)] = 0


class OffsetFetchResponse(Message):
    """Committed offsets of groups; apiKey 9, v1-10. Source: OffsetFetchResponse.json."""

    API_KEY = 9
    VERSIONS = (1, 10)
    FLEXIBLE = 6

    throttle_time_ms: Annotated[int, wire("int32", since=3, ignorable=True)] = 0
    topics: Annotated[
        tuple[OffsetFetchResponseOffsetFetchResponseTopic, ...],
        wire("[]OffsetFetchResponseTopic", until=7, ignorable=True),
    ] = ()
    error_code: Annotated[int, wire("int16", since=2, until=7, ignorable=True)] = 0
    groups: Annotated[
        tuple[OffsetFetchResponseOffsetFetchResponseGroup, ...],
        wire("[]OffsetFetchResponseGroup", since=8, ignorable=True),
    ] = ()


class OffsetDeleteRequestOffsetDeleteRequestPartition(Message):
    """An element of OffsetDeleteRequest.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0


class OffsetDeleteRequestOffsetDeleteRequestTopic(Message):
    """An element of OffsetDeleteRequest.topics."""

    name: Annotated[str, wire("string")] = ""
    partitions: Annotated[
        tuple[OffsetDeleteRequestOffsetDeleteRequestPartition, ...], wire("[]OffsetDeleteRequestPartition")
    ] = ()


class OffsetDeleteRequest(Message):
    """Delete committed offsets of a group; apiKey 47, v0. Source: OffsetDeleteRequest.json."""

    API_KEY = 47
    VERSIONS = (0, 0)

    group_id: Annotated[str, wire("string")] = ""
    topics: Annotated[tuple[OffsetDeleteRequestOffsetDeleteRequestTopic, ...], wire("[]OffsetDeleteRequestTopic")] = ()


class OffsetDeleteResponseOffsetDeleteResponsePartition(Message):
    """An element of OffsetDeleteResponse.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0


class OffsetDeleteResponseOffsetDeleteResponseTopic(Message):
    """An element of OffsetDeleteResponse.topics."""

    name: Annotated[str, wire("string")] = ""
    partitions: Annotated[
        tuple[OffsetDeleteResponseOffsetDeleteResponsePartition, ...], wire("[]OffsetDeleteResponsePartition")
    ] = ()


class OffsetDeleteResponse(Message):
    """The partitions, one by one; apiKey 47, v0. Source: OffsetDeleteResponse.json."""

    API_KEY = 47
    VERSIONS = (0, 0)

    error_code: Annotated[int, wire("int16")] = 0
    throttle_time_ms: Annotated[int, wire("int32")] = 0
    topics: Annotated[
        tuple[OffsetDeleteResponseOffsetDeleteResponseTopic, ...], wire("[]OffsetDeleteResponseTopic")
    ] = ()
