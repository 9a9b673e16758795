"""The consumer rebalance protocol of KIP-848, and what classic consumers put in their metadata.

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated
from uuid import UUID

from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message, wire


class ConsumerGroupHeartbeatRequestTopicPartitions(Message):
    """An element of ConsumerGroupHeartbeatRequest.topic_partitions."""

    topic_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    partitions: Annotated[tuple[int, ...], wire("[]int32")] = ()


class ConsumerGroupHeartbeatRequest(Message):
    """Join, stay in or leave a consumer group; apiKey 68, v0-1. Source: ConsumerGroupHeartbeatRequest.json."""

    API_KEY = 68
    VERSIONS = (0, 1)
    FLEXIBLE = 0

    group_id: Annotated[str, wire("string")] = ""
    member_id: Annotated[str, wire("string")] = ""
    member_epoch: Annotated[int, wire("int32")] = 0
    instance_id: Annotated[str | None, wire("string", nullable_since=0)] = None
    rack_id: Annotated[str | None, wire("string", nullable_since=0)] = None
    rebalance_timeout_ms: Annotated[int, wire("int32")] = -1
    subscribed_topic_names: Annotated[tuple[str, ...] | None, wire("[]string", nullable_since=0)] = None
    subscribed_topic_regex: Annotated[str | None, wire("string", since=1, nullable_since=1)] = None
    server_assignor: Annotated[str | None, wire("string", nullable_since=0)] = None
    topic_partitions: Annotated[
        tuple[ConsumerGroupHeartbeatRequestTopicPartitions, ...] | None, wire("[]TopicPartitions", nullable_since=0)
    ] = None


class ConsumerGroupHeartbeatResponseTopicPartitions(Message):
    """An element of ConsumerGroupHeartbeatResponse.assignment.topic_partitions."""

    topic_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    partitions: Annotated[tuple[int, ...], wire("[]int32")] = ()


class ConsumerGroupHeartbeatResponseAssignment(Message):
    """The value of ConsumerGroupHeartbeatResponse.assignment."""

    topic_partitions: Annotated[
        tuple[ConsumerGroupHeartbeatResponseTopicPartitions, ...], wire("[]TopicPartitions")
    ] = ()


class ConsumerGroupHeartbeatResponse(Message):
    """Member epoch and assignment; apiKey 68, v0-1. Source: ConsumerGroupHeartbeatResponse.json."""

    API_KEY = 68
    VERSIONS = (0, 1)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = None
    member_id: Annotated[str | None, wire("string", nullable_since=0)] = None
    member_epoch: Annotated[int, wire("int32")] = 0
    heartbeat_interval_ms: Annotated[int, wire("int32")] = 0
    assignment: Annotated[ConsumerGroupHeartbeatResponseAssignment | None, wire("Assignment", nullable_since=0)] = None


class ConsumerGroupDescribeRequest(Message):
    """Ask for members of consumer groups; apiKey 69, v0-1. Source: ConsumerGroupDescribeRequest.json."""

    API_KEY = 69
    VERSIONS = (0, 1)
    FLEXIBLE = 0

    group_ids: Annotated[tuple[str, ...], wire("[]string")] = ()
    include_authorized_operations: Annotated[bool, wire("bool")] = False


class ConsumerGroupDescribeResponseTopicPartitions(Message):
    """An element of ConsumerGroupDescribeResponse.groups[].members[].assignment.topic_partitions."""

    topic_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    topic_name: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[int, ...], wire("[]int32")] = ()


class ConsumerGroupDescribeResponseAssignment(Message):
    """The value of ConsumerGroupDescribeResponse.groups[].members[].assignment."""

    topic_partitions: Annotated[
        tuple[ConsumerGroupDescribeResponseTopicPartitions, ...], wire("[]TopicPartitions")
    ] = ()


class ConsumerGroupDescribeResponseMember(Message):
    """An element of ConsumerGroupDescribeResponse.groups[].members."""

    member_id: Annotated[str, wire("string")] = ""
    instance_id: Annotated[str | None, wire("string", nullable_since=0)] = None
    rack_id: Annotated[str | None, wire("string", nullable_since=0)] = None
    member_epoch: Annotated[int, wire("int32")] = 0
    client_id: Annotated[str, wire("string")] = ""
    client_host: Annotated[str, wire("string")] = ""
    subscribed_topic_names: Annotated[tuple[str, ...], wire("[]string")] = ()
    subscribed_topic_regex: Annotated[str | None, wire("string", nullable_since=0)] = None
    assignment: Annotated[ConsumerGroupDescribeResponseAssignment, wire("Assignment")] = (
        ConsumerGroupDescribeResponseAssignment()
    )
    target_assignment: Annotated[ConsumerGroupDescribeResponseAssignment, wire("Assignment")] = (
        ConsumerGroupDescribeResponseAssignment()
    )
    member_type: Annotated[int, wire("int8", since=1, ignorable=True)] = -1


class ConsumerGroupDescribeResponseDescribedGroup(Message):
    """An element of ConsumerGroupDescribeResponse.groups."""

    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = None
    group_id: Annotated[str, wire("string")] = ""
    group_state: Annotated[str, wire("string")] = ""
    group_epoch: Annotated[int, wire("int32")] = 0
    assignment_epoch: Annotated[int, wire("int32")] = 0
    assignor_name: Annotated[str, wire("string")] = ""
    members: Annotated[tuple[ConsumerGroupDescribeResponseMember, ...], wire("[]Member")] = ()
    authorized_operations: Annotated[int, wire("int32")] = -2147483648


class ConsumerGroupDescribeResponse(Message):
    """Members of consumer groups; apiKey 69, v0-1. Source: ConsumerGroupDescribeResponse.json."""

    API_KEY = 69
    VERSIONS = (0, 1)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    groups: Annotated[tuple[ConsumerGroupDescribeResponseDescribedGroup, ...], wire("[]DescribedGroup")] = ()


class ConsumerProtocolAssignmentTopicPartition(Message):
    """An element of ConsumerProtocolAssignment.assigned_partitions."""

    topic: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[int, ...], wire("[]int32")] = ()


class ConsumerProtocolAssignment(Message):
    """What a classic consumer was assigned, behind an int16 version; v0-3. Source: ConsumerProtocolAssignment.json."""

    VERSIONS = (0, 3)

    assigned_partitions: Annotated[tuple[ConsumerProtocolAssignmentTopicPartition, ...], wire("[]TopicPartition")] = ()
    user_data: Annotated[bytes | None, wire("bytes", nullable_since=0)] = None


class ConsumerProtocolSubscriptionTopicPartition(Message):
    """An element of ConsumerProtocolSubscription.owned_partitions."""

    topic: Annotated[str, wire("string", since=1)] = ""
    partitions: Annotated[tuple[int, ...], wire("[]int32", since=1)] = ()


class ConsumerProtocolSubscription(Message):
    """A classic consumer's subscription, after an int16 version; v0-3. Source: ConsumerProtocolSubscription.json."""

    VERSIONS = (0, 3)

    topics: Annotated[tuple[str, ...], wire("[]string")] = ()
    user_data: Annotated[bytes | None, wire("bytes", nullable_since=0)] = None
    owned_partitions: Annotated[
        tuple[ConsumerProtocolSubscriptionTopicPartition, ...], wire("[]TopicPartition", since=1, ignorable=True)
    ] = ()
    generation_id: Annotated[int, wire("int32", since=2, ignorable=True)] = -1
    rack_id: Annotated[str | None, wire("string", since=3, nullable_since=3, ignorable=True)] = None
