"""Share groups (KIP-932) as an administrator sees them: members, and start offsets that can be set and deleted.

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated
from uuid import UUID

from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message, wire


class ShareGroupDescribeRequest(Message):
    """Ask for members of share groups; apiKey 77, v1. Source: ShareGroupDescribeRequest.json."""

    API_KEY = 77
    VERSIONS = (1, 1)
    FLEXIBLE = 0

    group_ids: Annotated[tuple[str, ...], wire("[]string")] = ()
    include_authorized_operations: Annotated[bool, wire("bool")] = False


class ShareGroupDescribeResponseTopicPartitions(Message):
    """An element of ShareGroupDescribeResponse.groups[].members[].assignment.topic_partitions."""

    topic_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    topic_name: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[int, ...], wire("[]int32")] = ()


class ShareGroupDescribeResponseAssignment(Message):
    """The value of ShareGroupDescribeResponse.groups[].members[].assignment."""

    topic_partitions: Annotated[tuple[ShareGroupDescribeResponseTopicPartitions, ...], wire("[]TopicPartitions")] = ()


class ShareGroupDescribeResponseMember(Message):
    """An element of ShareGroupDescribeResponse.groups[].members."""

    member_id: Annotated[str, wire("string")] = ""
    rack_id: Annotated[str | None, wire("string", nullable_since=0)] = None
    member_epoch: Annotated[int, wire("int32")] = 0
    client_id: Annotated[str, wire("string")] = ""
    client_host: Annotated[str, wire("string")] = ""
    subscribed_topic_names: Annotated[tuple[str, ...], wire("[]string")] = ()
    assignment: Annotated[ShareGroupDescribeResponseAssignment, wire("Assignment")] = (
        ShareGroupDescribeResponseAssignment()
    )


class ShareGroupDescribeResponseDescribedGroup(Message):
    """An element of ShareGroupDescribeResponse.groups."""

    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = None
    group_id: Annotated[str, wire("string")] = ""
    group_state: Annotated[str, wire("string")] = ""
    group_epoch: Annotated[int, wire("int32")] = 0
    assignment_epoch: Annotated[int, wire("int32")] = 0
    assignor_name: Annotated[str, wire("string")] = ""
    members: Annotated[tuple[ShareGroupDescribeResponseMember, ...], wire("[]Member")] = ()
    authorized_operations: Annotated[int, wire("int32")] = -2147483648


class ShareGroupDescribeResponse(Message):
    """Members of share groups; apiKey 77, v1. Source: ShareGroupDescribeResponse.json."""

    API_KEY = 77
    VERSIONS = (1, 1)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    groups: Annotated[tuple[ShareGroupDescribeResponseDescribedGroup, ...], wire("[]DescribedGroup")] = ()


class DescribeShareGroupOffsetsRequestDescribeShareGroupOffsetsRequestTopic(Message):
    """An element of DescribeShareGroupOffsetsRequest.groups[].topics."""

    topic_name: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[int, ...], wire("[]int32")] = ()


class DescribeShareGroupOffsetsRequestDescribeShareGroupOffsetsRequestGroup(Message):
    """An element of DescribeShareGroupOffsetsRequest.groups."""

    group_id: Annotated[str, wire("string")] = ""
    topics: Annotated[
        tuple[DescribeShareGroupOffsetsRequestDescribeShareGroupOffsetsRequestTopic, ...] | None,
        wire("[]DescribeShareGroupOffsetsRequestTopic", nullable_since=0),
    ] = ()


class DescribeShareGroupOffsetsRequest(Message):
    """Ask for start offsets of share groups; apiKey 90, v0-1. Source: DescribeShareGroupOffsetsRequest.json."""

    API_KEY = 90
    VERSIONS = (0, 1)
    FLEXIBLE = 0

    groups: Annotated[
        tuple[DescribeShareGroupOffsetsRequestDescribeShareGroupOffsetsRequestGroup, ...],
        wire("[]DescribeShareGroupOffsetsRequestGroup"),
    ] = ()


class DescribeShareGroupOffsetsResponseDescribeShareGroupOffsetsResponsePartition(Message):
    """An element of DescribeShareGroupOffsetsResponse.groups[].topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    start_offset: Annotated[int, wire("int64")] = 0
    leader_epoch: Annotated[int, wire("int32")] = 0
    lag: Annotated[int, wire("int64", since=1, ignorable=True)] = -1
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = None


class DescribeShareGroupOffsetsResponseDescribeShareGroupOffsetsResponseTopic(Message):
    """An element of DescribeShareGroupOffsetsResponse.groups[].topics."""

    topic_name: Annotated[str, wire("string")] = ""
    topic_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    partitions: Annotated[
        tuple[DescribeShareGroupOffsetsResponseDescribeShareGroupOffsetsResponsePartition, ...],
        wire("[]DescribeShareGroupOffsetsResponsePartition"),
    ] = ()


class DescribeShareGroupOffsetsResponseDescribeShareGroupOffsetsResponseGroup(Message):
    """An element of DescribeShareGroupOffsetsResponse.groups."""

    group_id: Annotated[str, wire("string")] = ""
    topics: Annotated[
        tuple[DescribeShareGroupOffsetsResponseDescribeShareGroupOffsetsResponseTopic, ...],
        wire("[]DescribeShareGroupOffsetsResponseTopic"),
    ] = ()
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = None


class DescribeShareGroupOffsetsResponse(Message):
    """Start offsets of share groups; apiKey 90, v0-1. Source: DescribeShareGroupOffsetsResponse.json."""

    API_KEY = 90
    VERSIONS = (0, 1)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    groups: Annotated[
        tuple[DescribeShareGroupOffsetsResponseDescribeShareGroupOffsetsResponseGroup, ...],
        wire("[]DescribeShareGroupOffsetsResponseGroup"),
    ] = ()


class AlterShareGroupOffsetsRequestAlterShareGroupOffsetsRequestPartition(Message):
    """An element of AlterShareGroupOffsetsRequest.topics[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    start_offset: Annotated[int, wire("int64")] = 0


class AlterShareGroupOffsetsRequestAlterShareGroupOffsetsRequestTopic(Message):
    """An element of AlterShareGroupOffsetsRequest.topics."""

    topic_name: Annotated[str, wire("string")] = ""
    partitions: Annotated[
        tuple[AlterShareGroupOffsetsRequestAlterShareGroupOffsetsRequestPartition, ...],
        wire("[]AlterShareGroupOffsetsRequestPartition"),
    ] = ()


class AlterShareGroupOffsetsRequest(Message):
    """Set start offsets of a share group; apiKey 91, v0. Source: AlterShareGroupOffsetsRequest.json."""

    API_KEY = 91
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    group_id: Annotated[str, wire("string")] = ""
    topics: Annotated[
        tuple[AlterShareGroupOffsetsRequestAlterShareGroupOffsetsRequestTopic, ...],
        wire("[]AlterShareGroupOffsetsRequestTopic"),
    ] = ()


class AlterShareGroupOffsetsResponseAlterShareGroupOffsetsResponsePartition(Message):
    """An element of AlterShareGroupOffsetsResponse.responses[].partitions."""

    partition_index: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = None


class AlterShareGroupOffsetsResponseAlterShareGroupOffsetsResponseTopic(Message):
    """An element of AlterShareGroupOffsetsResponse.responses."""

    topic_name: Annotated[str, wire("string")] = ""
    topic_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    partitions: Annotated[
        tuple[AlterShareGroupOffsetsResponseAlterShareGroupOffsetsResponsePartition, ...],
        wire("[]AlterShareGroupOffsetsResponsePartition"),
    ] = ()


class AlterShareGroupOffsetsResponse(Message):
    """Whether start offsets were set; apiKey 91, v0. Source: AlterShareGroupOffsetsResponse.json."""

    API_KEY = 91
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = None
    responses: Annotated[
        tuple[AlterShareGroupOffsetsResponseAlterShareGroupOffsetsResponseTopic, ...],
        wire("[]AlterShareGroupOffsetsResponseTopic"),
    ] = ()


class DeleteShareGroupOffsetsRequestDeleteShareGroupOffsetsRequestTopic(Message):
    """An element of DeleteShareGroupOffsetsRequest.topics."""

    topic_name: Annotated[str, wire("string")] = ""


class DeleteShareGroupOffsetsRequest(Message):
    """Delete a share group's offsets of topics; apiKey 92, v0. Source: DeleteShareGroupOffsetsRequest.json."""

    API_KEY = 92
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    group_id: Annotated[str, wire("string")] = ""
    topics: Annotated[
        tuple[DeleteShareGroupOffsetsRequestDeleteShareGroupOffsetsRequestTopic, ...],
        wire("[]DeleteShareGroupOffsetsRequestTopic"),
    ] = ()


class DeleteShareGroupOffsetsResponseDeleteShareGroupOffsetsResponseTopic(Message):
    """An element of DeleteShareGroupOffsetsResponse.responses."""

    topic_name: Annotated[str, wire("string")] = ""
    topic_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = None


class DeleteShareGroupOffsetsResponse(Message):
    """Whether offsets were deleted; apiKey 92, v0. Source: DeleteShareGroupOffsetsResponse.json."""

    API_KEY = 92
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = None
    responses: Annotated[
        tuple[DeleteShareGroupOffsetsResponseDeleteShareGroupOffsetsResponseTopic, ...],
        wire("[]DeleteShareGroupOffsetsResponseTopic"),
    ] = ()
