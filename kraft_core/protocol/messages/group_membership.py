"""Classic groups: coordinator, joining, syncing, heartbeats, leaving.

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated

from kraft_core.protocol.wire import Message, wire


class FindCoordinatorRequest(Message):
    """Ask which broker coordinates a group or transaction; apiKey 10, v0-6. Source: FindCoordinatorRequest.json."""

    API_KEY = 10
    VERSIONS = (0, 6)
    FLEXIBLE = 3

    key: Annotated[str, wire("string", until=3)] = ""
    key_type: Annotated[int, wire("int8", since=1)] = 0
    coordinator_keys: Annotated[tuple[str, ...], wire("[]string", since=4)] = ()


class FindCoordinatorResponseCoordinator(Message):
    """An element of FindCoordinatorResponse.coordinators."""

    key: Annotated[str, wire("string", since=4, ignorable=True)] = ""
    node_id: Annotated[int, wire("int32", since=4, ignorable=True)] = 0
    host: Annotated[str, wire("string", since=4, ignorable=True)] = ""
    port: Annotated[int, wire("int32", since=4, ignorable=True)] = 0
    error_code: Annotated[int, wire("int16", since=4, ignorable=True)] = 0
    error_message: Annotated[str | None, wire("string", since=4, nullable_since=4, ignorable=True)] = ""


class FindCoordinatorResponse(Message):
    """Coordinators; apiKey 10, v0-6. Source: FindCoordinatorResponse.json."""

    API_KEY = 10
    VERSIONS = (0, 6)
    FLEXIBLE = 3

    throttle_time_ms: Annotated[int, wire("int32", since=1, ignorable=True)] = 0
    error_code: Annotated[int, wire("int16", until=3, ignorable=True)] = 0
    error_message: Annotated[str | None, wire("string", since=1, until=3, nullable_since=1, ignorable=True)] = ""
    node_id: Annotated[int, wire("int32", until=3, ignorable=True)] = 0
    host: Annotated[str, wire("string", until=3, ignorable=True)] = ""
    port: Annotated[int, wire("int32", until=3, ignorable=True)] = 0
    coordinators: Annotated[
        tuple[FindCoordinatorResponseCoordinator, ...], wire("[]Coordinator", since=4, ignorable=True)
    ] = ()


class JoinGroupRequestJoinGroupRequestProtocol(Message):
    """An element of JoinGroupRequest.protocols."""

    name: Annotated[str, wire("string")] = ""
    metadata: Annotated[bytes, wire("bytes")] = b""


class JoinGroupRequest(Message):
    """Join a classic group; apiKey 11, v0-9. Source: JoinGroupRequest.json."""

    API_KEY = 11
    VERSIONS = (0, 9)
    FLEXIBLE = 6

    group_id: Annotated[str, wire("string")] = ""
    session_timeout_ms: Annotated[int, wire("int32")] = 0
    rebalance_timeout_ms: Annotated[int, wire("int32", since=1, ignorable=True)] = -1
    member_id: Annotated[str, wire("string")] = ""
    group_instance_id: Annotated[str | None, wire("string", since=5, nullable_since=5)] = None
    protocol_type: Annotated[str, wire("string")] = ""
    protocols: Annotated[tuple[JoinGroupRequestJoinGroupRequestProtocol, ...], wire("[]JoinGroupRequestProtocol")] = ()
    reason: Annotated[str | None, wire("string", since=8, nullable_since=8, ignorable=True)] = None


class JoinGroupResponseJoinGroupResponseMember(Message):
    """An element of JoinGroupResponse.members."""

    member_id: Annotated[str, wire("string")] = ""
    group_instance_id: Annotated[str | None, wire("string", since=5, nullable_since=5, ignorable=True)] = None
    metadata: Annotated[bytes, wire("bytes")] = b""


class JoinGroupResponse(Message):
    """Generation, leader and members of the group; apiKey 11, v0-9. Source: JoinGroupResponse.json."""

    API_KEY = 11
    VERSIONS = (0, 9)
    FLEXIBLE = 6

    throttle_time_ms: Annotated[int, wire("int32", since=2, ignorable=True)] = 0
    error_code: Annotated[int, wire("int16")] = 0
    generation_id: Annotated[int, wire("int32")] = -1
    protocol_type: Annotated[str | None, wire("string", since=7, nullable_since=7, ignorable=True)] = None
    protocol_name: Annotated[str | None, wire("string", nullable_since=7)] = ""
    leader: Annotated[str, wire("string")] = ""
    skip_assignment: Annotated[bool, wire("bool", since=9, ignorable=True)] = False
    member_id: Annotated[str, wire("string")] = ""
    members: Annotated[tuple[JoinGroupResponseJoinGroupResponseMember, ...], wire("[]JoinGroupResponseMember")] = ()


class HeartbeatRequest(Message):
    """Stay in a classic group; apiKey 12, v0-4. Source: HeartbeatRequest.json."""

    API_KEY = 12
    VERSIONS = (0, 4)
    FLEXIBLE = 4

    group_id: Annotated[str, wire("string")] = ""
    generation_id: Annotated[int, wire("int32")] = 0
    member_id: Annotated[str, wire("string")] = ""
    group_instance_id: Annotated[str | None, wire("string", since=3, nullable_since=3)] = None


class HeartbeatResponse(Message):
    """Whether the member may stay; apiKey 12, v0-4. Source: HeartbeatResponse.json."""

    API_KEY = 12
    VERSIONS = (0, 4)
    FLEXIBLE = 4

    throttle_time_ms: Annotated[int, wire("int32", since=1, ignorable=True)] = 0
    error_code: Annotated[int, wire("int16")] = 0


class LeaveGroupRequestMemberIdentity(Message):
    """An element of LeaveGroupRequest.members."""

    member_id: Annotated[str, wire("string", since=3)] = ""
    group_instance_id: Annotated[str | None, wire("string", since=3, nullable_since=3)] = None
    reason: Annotated[str | None, wire("string", since=5, nullable_since=5, ignorable=True)] = None


class LeaveGroupRequest(Message):
    """Leave a classic group; apiKey 13, v0-5. Source: LeaveGroupRequest.json."""

    API_KEY = 13
    VERSIONS = (0, 5)
    FLEXIBLE = 4

    group_id: Annotated[str, wire("string")] = ""
    member_id: Annotated[str, wire("string", until=2)] = ""
    members: Annotated[tuple[LeaveGroupRequestMemberIdentity, ...], wire("[]MemberIdentity", since=3)] = ()


class LeaveGroupResponseMemberResponse(Message):
    """An element of LeaveGroupResponse.members."""

    member_id: Annotated[str, wire("string", since=3, ignorable=True)] = ""
    group_instance_id: Annotated[str | None, wire("string", since=3, nullable_since=3, ignorable=True)] = ""
    error_code: Annotated[int, wire("int16", since=3, ignorable=True)] = 0


class LeaveGroupResponse(Message):
    """The members that left; apiKey 13, v0-5. Source: LeaveGroupResponse.json."""

    API_KEY = 13
    VERSIONS = (0, 5)
    FLEXIBLE = 4

    throttle_time_ms: Annotated[int, wire("int32", since=1, ignorable=True)] = 0
    error_code: Annotated[int, wire("int16")] = 0
    members: Annotated[
        tuple[LeaveGroupResponseMemberResponse, ...], wire("[]MemberResponse", since=3, ignorable=True)
    ] = ()


class SyncGroupRequestSyncGroupRequestAssignment(Message):
    """An element of SyncGroupRequest.assignments."""

    member_id: Annotated[str, wire("string")] = ""
    assignment: Annotated[bytes, wire("bytes")] = b""


class SyncGroupRequest(Message):
    """Hand in or fetch the assignment of a generation; apiKey 14, v0-5. Source: SyncGroupRequest.json."""

    API_KEY = 14
    VERSIONS = (0, 5)
    FLEXIBLE = 4

    group_id: Annotated[str, wire("string")] = ""
    generation_id: Annotated[int, wire("int32")] = 0
    member_id: Annotated[str, wire("string")] = ""
    group_instance_id: Annotated[str | None, wire("string", since=3, nullable_since=3)] = None
    protocol_type: Annotated[str | None, wire("string", since=5, nullable_since=5, ignorable=True)] = None
    protocol_name: Annotated[str | None, wire("string", since=5, nullable_since=5, ignorable=True)] = None
    assignments: Annotated[
        tuple[SyncGroupRequestSyncGroupRequestAssignment, ...], wire("[]SyncGroupRequestAssignment")
    ] = ()


class SyncGroupResponse(Message):
    """The assignment of the member; apiKey 14, v0-5. Source: SyncGroupResponse.json."""

    API_KEY = 14
    VERSIONS = (0, 5)
    FLEXIBLE = 4

    throttle_time_ms: Annotated[int, wire("int32", since=1, ignorable=True)] = 0
    error_code: Annotated[int, wire("int16")] = 0
    protocol_type: Annotated[str | None, wire("string", since=5, nullable_since=5, ignorable=True)] = None
    protocol_name: Annotated[str | None, wire("string", since=5, nullable_since=5, ignorable=True)] = None
    assignment: Annotated[bytes, wire("bytes")] = b""
