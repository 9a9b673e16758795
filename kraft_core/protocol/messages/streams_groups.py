"""Groups of Kafka Streams applications (KIP-1071) as an administrator sees them: topology, and tasks of members.

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated

from kraft_core.protocol.wire import Message, wire


class StreamsGroupDescribeRequest(Message):
    """Ask for members of streams groups; apiKey 89, v0. Source: StreamsGroupDescribeRequest.json."""

    API_KEY = 89
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    group_ids: Annotated[tuple[str, ...], wire("[]string")] = ()
    include_authorized_operations: Annotated[bool, wire("bool")] = False


class StreamsGroupDescribeResponseKeyValue(Message):
    """An element of StreamsGroupDescribeResponse.groups[].members[].client_tags, and a config of a topic."""

    key: Annotated[str, wire("string")] = ""
    value: Annotated[str, wire("string")] = ""


class StreamsGroupDescribeResponseTopicInfo(Message):
    """An element of StreamsGroupDescribeResponse.groups[].topology.subtopologies[].state_changelog_topics."""

    name: Annotated[str, wire("string")] = ""
    partitions: Annotated[int, wire("int32")] = 0
    replication_factor: Annotated[int, wire("int16")] = 0
    topic_configs: Annotated[tuple[StreamsGroupDescribeResponseKeyValue, ...], wire("[]KeyValue")] = ()


class StreamsGroupDescribeResponseSubtopology(Message):
    """An element of StreamsGroupDescribeResponse.groups[].topology.subtopologies."""

    subtopology_id: Annotated[str, wire("string")] = ""
    source_topics: Annotated[tuple[str, ...], wire("[]string")] = ()
    repartition_sink_topics: Annotated[tuple[str, ...], wire("[]string")] = ()
    state_changelog_topics: Annotated[tuple[StreamsGroupDescribeResponseTopicInfo, ...], wire("[]TopicInfo")] = ()
    repartition_source_topics: Annotated[tuple[StreamsGroupDescribeResponseTopicInfo, ...], wire("[]TopicInfo")] = ()


class StreamsGroupDescribeResponseTopology(Message):
    """The value of StreamsGroupDescribeResponse.groups[].topology."""

    epoch: Annotated[int, wire("int32")] = 0
    subtopologies: Annotated[
        tuple[StreamsGroupDescribeResponseSubtopology, ...] | None, wire("[]Subtopology", nullable_since=0)
    ] = None


class StreamsGroupDescribeResponseEndpoint(Message):
    """The value of StreamsGroupDescribeResponse.groups[].members[].user_endpoint."""

    host: Annotated[str, wire("string")] = ""
    port: Annotated[int, wire("uint16")] = 0


class StreamsGroupDescribeResponseTaskOffset(Message):
    """An element of StreamsGroupDescribeResponse.groups[].members[].task_offsets."""

    subtopology_id: Annotated[str, wire("string")] = ""
    partition: Annotated[int, wire("int32")] = 0
    offset: Annotated[int, wire("int64")] = 0


class StreamsGroupDescribeResponseTaskIds(Message):
    """An element of StreamsGroupDescribeResponse.groups[].members[].assignment.active_tasks."""

    subtopology_id: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[int, ...], wire("[]int32")] = ()


class StreamsGroupDescribeResponseAssignment(Message):
    """The value of StreamsGroupDescribeResponse.groups[].members[].assignment."""

    active_tasks: Annotated[tuple[StreamsGroupDescribeResponseTaskIds, ...], wire("[]TaskIds")] = ()
    standby_tasks: Annotated[tuple[StreamsGroupDescribeResponseTaskIds, ...], wire("[]TaskIds")] = ()
    warmup_tasks: Annotated[tuple[StreamsGroupDescribeResponseTaskIds, ...], wire("[]TaskIds")] = ()


class StreamsGroupDescribeResponseMember(Message):
    """An element of StreamsGroupDescribeResponse.groups[].members."""

    member_id: Annotated[str, wire("string")] = ""
    member_epoch: Annotated[int, wire("int32")] = 0
    instance_id: Annotated[str | None, wire("string", nullable_since=0)] = None
    rack_id: Annotated[str | None, wire("string", nullable_since=0)] = None
    client_id: Annotated[str, wire("string")] = ""
    client_host: Annotated[str, wire("string")] = ""
    topology_epoch: Annotated[int, wire("int32")] = 0
    process_id: Annotated[str, wire("string")] = ""
    user_endpoint: Annotated[StreamsGroupDescribeResponseEndpoint | None, wire("Endpoint", nullable_since=0)] = None
    client_tags: Annotated[tuple[StreamsGroupDescribeResponseKeyValue, ...], wire("[]KeyValue")] = ()
    task_offsets: Annotated[tuple[StreamsGroupDescribeResponseTaskOffset, ...], wire("[]TaskOffset")] = ()
    task_end_offsets: Annotated[tuple[StreamsGroupDescribeResponseTaskOffset, ...], wire("[]TaskOffset")] = ()
    assignment: Annotated[StreamsGroupDescribeResponseAssignment, wire("Assignment")] = (
        StreamsGroupDescribeResponseAssignment()
    )
    target_assignment: Annotated[StreamsGroupDescribeResponseAssignment, wire("Assignment")] = (
        StreamsGroupDescribeResponseAssignment()
    )
    is_classic: Annotated[bool, wire("bool")] = False


class StreamsGroupDescribeResponseDescribedGroup(Message):
    """An element of StreamsGroupDescribeResponse.groups."""

    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = None
    group_id: Annotated[str, wire("string")] = ""
    group_state: Annotated[str, wire("string")] = ""
    group_epoch: Annotated[int, wire("int32")] = 0
    assignment_epoch: Annotated[int, wire("int32")] = 0
    topology: Annotated[StreamsGroupDescribeResponseTopology | None, wire("Topology", nullable_since=0)] = None
    members: Annotated[tuple[StreamsGroupDescribeResponseMember, ...], wire("[]Member")] = ()
    authorized_operations: Annotated[int, wire("int32")] = -2147483648


class StreamsGroupDescribeResponse(Message):
    """Members of streams groups; apiKey 89, v0. Source: StreamsGroupDescribeResponse.json."""

    API_KEY = 89
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    groups: Annotated[tuple[StreamsGroupDescribeResponseDescribedGroup, ...], wire("[]DescribedGroup")] = ()
