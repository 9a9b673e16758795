"""Groups and offsets as records of __consumer_offsets, in Kafka's formats.

A key is an int16 type and a body: type 0 or 1 is an offset, 2 a classic group. A value is an int16 version and a body.
A null value deletes.

Source: GroupCoordinatorRecordHelpers and CoordinatorRecordSerde, Kafka 4.3.1.
"""

import struct
from dataclasses import dataclass
from typing import Final

from kraft_core.broker.coordinator.classic_group import ClassicGroup, GroupState, Member
from kraft_core.broker.coordinator.group_coordinator_config import KeyAndValue
from kraft_core.protocol.codec import decode, encode
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    GroupMetadataKey,
    GroupMetadataValue,
    GroupMetadataValueMemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

_TYPE: Final = struct.Struct(">h")
_OFFSET_TYPES: Final = (0, 1)
_GROUP_TYPE: Final = 2
_OFFSET_VALUE_VERSION: Final = 3
_GROUP_VALUE_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A committed offset. `leader_epoch` is -1 when unknown, `commit_timestamp` is in ms."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """A record of one offset; a None value deletes it."""

    group_id: str
    topic: str
    partition: int
    value: CommittedOffset | None


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A record of one group; a None value deletes it."""

    group_id: str
    value: GroupMetadataValue | None


def offset_record(group_id: str, topic: str, partition: int, value: CommittedOffset | None) -> KeyAndValue:
    """Encode a committed offset, or its deletion."""
    key = _TYPE.pack(1) + encode(OffsetCommitKey(group=group_id, topic=topic, partition=partition), 0)
    if value is None:
        return key, None
    body = OffsetCommitValue(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp=value.commit_timestamp,
    )
    return key, _TYPE.pack(_OFFSET_VALUE_VERSION) + encode(body, _OFFSET_VALUE_VERSION)


def group_record(group: ClassicGroup) -> KeyAndValue:
    """Encode a group with its members and their assignments."""
    members = tuple(
        GroupMetadataValueMemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol),
            assignment=member.assignment,
        )
        for member in group.members.values()
    )
    body = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.state_since_ms,
        members=members,
    )
    key = _TYPE.pack(_GROUP_TYPE) + encode(GroupMetadataKey(group=group.group_id), 0)
    return key, _TYPE.pack(_GROUP_VALUE_VERSION) + encode(body, _GROUP_VALUE_VERSION)


def group_tombstone(group_id: str) -> KeyAndValue:
    """Encode the deletion of a group."""
    return _TYPE.pack(_GROUP_TYPE) + encode(GroupMetadataKey(group=group_id), 0), None


def read_record(key: bytes, value: bytes | None) -> OffsetRecord | GroupRecord | None:
    """Decode a record; None for an unknown type, for example of a newer group protocol.

    Raises KafkaError when a record of a known type does not decode.
    """
    if len(key) < _TYPE.size:
        return None
    (record_type,) = _TYPE.unpack_from(key)
    if record_type in _OFFSET_TYPES:
        offset_key = decode(OffsetCommitKey, 0, key, _TYPE.size)
        return OffsetRecord(offset_key.group, offset_key.topic, offset_key.partition, _read_offset(value))
    if record_type == _GROUP_TYPE:
        group_key = decode(GroupMetadataKey, 0, key, _TYPE.size)
        if value is None:
            return GroupRecord(group_key.group, None)
        version = _version(value)
        return GroupRecord(group_key.group, decode(GroupMetadataValue, version, value, _TYPE.size))
    return None


def _version(value: bytes) -> int:
    if len(value) < _TYPE.size:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"A value of {len(value)} bytes has no version.")
    (version,) = _TYPE.unpack_from(value)
    return int(version)


def _read_offset(value: bytes | None) -> CommittedOffset | None:
    if value is None:
        return None
    version = _version(value)
    body = decode(OffsetCommitValue, version, value, _TYPE.size)
    return CommittedOffset(body.offset, body.leader_epoch, body.metadata, body.commit_timestamp)


def restore_group(record: GroupRecord, now_ms: int) -> ClassicGroup:
    """Return the group of a record: stable if it has members, else empty. Sessions start at `now_ms`."""
    value = record.value
    assert value is not None, "a deleted group is not restored"
    group = ClassicGroup(
        group_id=record.group_id,
        state=GroupState.STABLE if value.members else GroupState.EMPTY,
        state_since_ms=value.current_state_timestamp if value.current_state_timestamp >= 0 else now_ms,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
    )
    for entry in value.members:
        member = Member(
            member_id=entry.member_id,
            group_instance_id=entry.group_instance_id,
            client_id=entry.client_id,
            client_host=entry.client_host,
            rebalance_timeout_ms=entry.rebalance_timeout if entry.rebalance_timeout >= 0 else entry.session_timeout,
            session_timeout_ms=entry.session_timeout,
            protocols=((value.protocol or "", entry.subscription),),
            assignment=entry.assignment,
            session_deadline_ms=now_ms + entry.session_timeout,
        )
        group.add(member)
    group.leader = value.leader if value.leader in group.members else next(iter(group.members), None)
    return group
