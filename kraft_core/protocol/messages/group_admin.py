"""Groups, seen by administrators.

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated

from kraft_core.protocol.wire import Message, wire


class DescribeGroupsRequest(Message):
    """Ask for members of classic groups; apiKey 15, v0-6. Source: DescribeGroupsRequest.json."""

    API_KEY = 15
    VERSIONS = (0, 6)
    FLEXIBLE = 5

    groups: Annotated[tuple[str, ...], wire("[]string")] = ()
    include_authorized_operations: Annotated[bool, wire("bool", since=3)] = False


class DescribeGroupsResponseDescribedGroupMember(Message):
    """An element of DescribeGroupsResponse.groups[].members."""

    member_id: Annotated[str, wire("string")] = ""
    group_instance_id: Annotated[str | None, wire("string", since=4, nullable_since=4, ignorable=True)] = None
    client_id: Annotated[str, wire("string")] = ""
    client_host: Annotated[str, wire("string")] = ""
    member_metadata: Annotated[bytes, wire("bytes")] = b""
    member_assignment: Annotated[bytes, wire("bytes")] = b""


class DescribeGroupsResponseDescribedGroup(Message):
    """An element of DescribeGroupsResponse.groups."""

    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", since=6, nullable_since=6, ignorable=True)] = None
    group_id: Annotated[str, wire("string")] = ""
    group_state: Annotated[str, wire("string")] = ""
    protocol_type: Annotated[str, wire("string")] = ""
    protocol_data: Annotated[str, wire("string")] = ""
    members: Annotated[tuple[DescribeGroupsResponseDescribedGroupMember, ...], wire("[]DescribedGroupMember")] = ()
    authorized_operations: Annotated[int, wire("int32", since=3, ignorable=True)] = -2147483648


class DescribeGroupsResponse(Message):
    """Members of classic groups; apiKey 15, v0-6. Source: DescribeGroupsResponse.json."""

    API_KEY = 15
    VERSIONS = (0, 6)
    FLEXIBLE = 5

    throttle_time_ms: Annotated[int, wire("int32", since=1, ignorable=True)] = 0
    groups: Annotated[tuple[DescribeGroupsResponseDescribedGroup, ...], wire("[]DescribedGroup")] = ()


class ListGroupsRequest(Message):
    """Ask for the groups of a broker; apiKey 16, v0-5. Source: ListGroupsRequest.json."""

    API_KEY = 16
    VERSIONS = (0, 5)
    FLEXIBLE = 3

    states_filter: Annotated[tuple[str, ...], wire("[]string", since=4)] = ()
    types_filter: Annotated[tuple[str, ...], wire("[]string", since=5)] = ()


class ListGroupsResponseListedGroup(Message):
    """An element of ListGroupsResponse.groups."""

    group_id: Annotated[str, wire("string")] = ""
    protocol_type: Annotated[str, wire("string")] = ""
    group_state: Annotated[str, wire("string", since=4, ignorable=True)] = ""
    group_type: Annotated[str, wire("string", since=5, ignorable=True)] = ""


class ListGroupsResponse(Message):
    """The groups of a broker; apiKey 16, v0-5. Source: ListGroupsResponse.json."""

    API_KEY = 16
    VERSIONS = (0, 5)
    FLEXIBLE = 3

    throttle_time_ms: Annotated[int, wire("int32", since=1, ignorable=True)] = 0
    error_code: Annotated[int, wire("int16")] = 0
    groups: Annotated[tuple[ListGroupsResponseListedGroup, ...], wire("[]ListedGroup")] = ()


class DeleteGroupsRequest(Message):
    """Delete empty groups; apiKey 42, v0-2. Source: DeleteGroupsRequest.json."""

    API_KEY = 42
    VERSIONS = (0, 2)
    FLEXIBLE = 2

    groups_names: Annotated[tuple[str, ...], wire("[]string")] = ()


class DeleteGroupsResponseDeletableGroupResult(Message):
    """An element of DeleteGroupsResponse.results."""

    group_id: Annotated[str, wire("string")] = ""
    error_code: Annotated[int, wire("int16")] = 0


class DeleteGroupsResponse(Message):
    """The groups deleted, one by one; apiKey 42, v0-2. Source: DeleteGroupsResponse.json."""

    API_KEY = 42
    VERSIONS = (0, 2)
    FLEXIBLE = 2

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    results: Annotated[tuple[DeleteGroupsResponseDeletableGroupResult, ...], wire("[]DeletableGroupResult")] = ()
