"""Changes of the voter set (KIP-853, 1186).

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated
from uuid import UUID

from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message, wire


class AddRaftVoterRequestListener(Message):
    """An element of AddRaftVoterRequest.listeners."""

    name: Annotated[str, wire("string")] = ""
    host: Annotated[str, wire("string")] = ""
    port: Annotated[int, wire("uint16")] = 0


class AddRaftVoterRequest(Message):
    """Add a caught-up observer to the voter set; apiKey 80, v0-1. Source: AddRaftVoterRequest.json."""

    API_KEY = 80
    VERSIONS = (0, 1)
    FLEXIBLE = 0

    cluster_id: Annotated[str | None, wire("string", nullable_since=0)] = ""
    timeout_ms: Annotated[int, wire("int32")] = 0
    voter_id: Annotated[int, wire("int32")] = 0
    voter_directory_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    listeners: Annotated[tuple[AddRaftVoterRequestListener, ...], wire("[]Listener")] = ()
    ack_when_committed: Annotated[bool, wire("bool", since=1)] = True


class AddRaftVoterResponse(Message):
    """Whether the voter was added; apiKey 80, v0-1. Source: AddRaftVoterResponse.json."""

    API_KEY = 80
    VERSIONS = (0, 1)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""


class RemoveRaftVoterRequest(Message):
    """Remove a voter from the voter set; apiKey 81, v0. Source: RemoveRaftVoterRequest.json."""

    API_KEY = 81
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    cluster_id: Annotated[str | None, wire("string", nullable_since=0)] = ""
    voter_id: Annotated[int, wire("int32")] = 0
    voter_directory_id: Annotated[UUID, wire("uuid")] = ZERO_UUID


class RemoveRaftVoterResponse(Message):
    """Whether the voter was removed; apiKey 81, v0. Source: RemoveRaftVoterResponse.json."""

    API_KEY = 81
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""


class UpdateRaftVoterRequestListener(Message):
    """An element of UpdateRaftVoterRequest.listeners."""

    name: Annotated[str, wire("string")] = ""
    host: Annotated[str, wire("string")] = ""
    port: Annotated[int, wire("uint16")] = 0


class UpdateRaftVoterRequestKRaftVersionFeature(Message):
    """The value of UpdateRaftVoterRequest.kraft_version_feature."""

    min_supported_version: Annotated[int, wire("int16")] = 0
    max_supported_version: Annotated[int, wire("int16")] = 0


class UpdateRaftVoterRequest(Message):
    """Update the sender's endpoints and supported kraft.version; apiKey 82, v0. Source: UpdateRaftVoterRequest.json."""

    API_KEY = 82
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    cluster_id: Annotated[str | None, wire("string", nullable_since=0)] = ""
    current_leader_epoch: Annotated[int, wire("int32")] = 0
    voter_id: Annotated[int, wire("int32")] = 0
    voter_directory_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    listeners: Annotated[tuple[UpdateRaftVoterRequestListener, ...], wire("[]Listener")] = ()
    kraft_version_feature: Annotated[UpdateRaftVoterRequestKRaftVersionFeature, wire("KRaftVersionFeature")] = (
        UpdateRaftVoterRequestKRaftVersionFeature()
    )


class UpdateRaftVoterResponseCurrentLeader(Message):
    """The value of UpdateRaftVoterResponse.current_leader."""

    leader_id: Annotated[int, wire("int32")] = -1
    leader_epoch: Annotated[int, wire("int32")] = -1
    host: Annotated[str, wire("string")] = ""
    port: Annotated[int, wire("int32")] = 0


class UpdateRaftVoterResponse(Message):
    """Whether the voter was updated, and the leader; apiKey 82, v0. Source: UpdateRaftVoterResponse.json."""

    API_KEY = 82
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    current_leader: Annotated[UpdateRaftVoterResponseCurrentLeader, wire("CurrentLeader", tag=0)] = (
        UpdateRaftVoterResponseCurrentLeader()
    )
