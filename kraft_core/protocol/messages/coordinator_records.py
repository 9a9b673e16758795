"""Keys and values that the group coordinator writes to __consumer_offsets.

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated
from uuid import UUID

from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message, wire


class OffsetCommitKey(Message):
    """Key of a committed offset, behind an int16 type: 0 or 1; apiKey 1, v0. Source: OffsetCommitKey.json."""

    API_KEY = 1
    VERSIONS = (0, 0)

    group: Annotated[str, wire("string")] = ""
    topic: Annotated[str, wire("string")] = ""
    partition: Annotated[int, wire("int32")] = 0


class OffsetCommitValue(Message):
    """A committed offset, behind an int16 version; apiKey 1, v0-4. Source: OffsetCommitValue.json."""

    API_KEY = 1
    VERSIONS = (0, 4)
    FLEXIBLE = 4

    offset: Annotated[int, wire("int64")] = 0
    leader_epoch: Annotated[int, wire("int32", since=3, ignorable=True)] = -1
    metadata: Annotated[str, wire("string")] = ""
    commit_timestamp: Annotated[int, wire("int64")] = 0
    expire_timestamp: Annotated[int, wire("int64", since=1, until=1, ignorable=True)] = -1
    topic_id: Annotated[UUID, wire("uuid", since=4, tag=0, ignorable=True)] = ZERO_UUID


class GroupMetadataKey(Message):
    """Key of a classic group, behind the int16 type 2; apiKey 2, v0. Source: GroupMetadataKey.json."""

    API_KEY = 2
    VERSIONS = (0, 0)

    group: Annotated[str, wire("string")] = ""


class GroupMetadataValueMemberMetadata(Message):
    """An element of GroupMetadataValue.members."""

    member_id: Annotated[str, wire("string")] = ""
    group_instance_id: Annotated[str | None, wire("string", since=3, nullable_since=3, ignorable=True)] = None
    client_id: Annotated[str, wire("string")] = ""
    client_host: Annotated[str, wire("string")] = ""
    rebalance_timeout: Annotated[int, wire("int32", since=1, ignorable=True)] = -1
    session_timeout: Annotated[int, wire("int32")] = 0
    subscription: Annotated[bytes, wire("bytes")] = b""
    assignment: Annotated[bytes, wire("bytes")] = b""


class GroupMetadataValue(Message):
    """A classic group and its members, behind an int16 version; apiKey 2, v0-4. Source: GroupMetadataValue.json."""

    API_KEY = 2
    VERSIONS = (0, 4)
    FLEXIBLE = 4

    protocol_type: Annotated[str, wire("string")] = ""
    generation: Annotated[int, wire("int32")] = 0
    protocol: Annotated[str | None, wire("string", nullable_since=0)] = ""
    leader: Annotated[str | None, wire("string", nullable_since=0)] = ""
    current_state_timestamp: Annotated[int, wire("int64", since=2, ignorable=True)] = -1
    members: Annotated[tuple[GroupMetadataValueMemberMetadata, ...], wire("[]MemberMetadata")] = ()
