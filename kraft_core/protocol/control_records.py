"""Control records: the records that raft and transactions write into logs.

A control record's key is an int16 version (0) and an int16 type; its value is a message whose first field repeats the
version. LeaderChange, KRaftVersion and Voters are in the metadata log, SnapshotHeader and SnapshotFooter in snapshots;
the end of a transaction is in topic partitions only.

Source: ControlRecordType.java and the schemas named below, Kafka 4.3.1.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, Final, TypeAlias
from uuid import UUID

from kraft_core.protocol.codec import decode_prefix, encode
from kraft_core.protocol.errors import CorruptBatch, DecodeError
from kraft_core.protocol.record_batch import encode_batch
from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message, wire

_KEY: Final = struct.Struct(">hh")


class ControlRecordType(IntEnum):
    """The type in a control record's key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class LeaderChangeMessageVoter(Message):
    """An element of LeaderChangeMessage.voters."""

    voter_id: Annotated[int, wire("int32")] = 0
    voter_directory_id: Annotated[UUID, wire("uuid", since=1)] = ZERO_UUID


class LeaderChangeMessage(Message):
    """A leader was elected; the first record of its epoch; v0-1. Source: LeaderChangeMessage.json."""

    VERSIONS = (0, 1)
    FLEXIBLE = 0

    version: Annotated[int, wire("int16")] = 0
    leader_id: Annotated[int, wire("int32")] = 0
    voters: Annotated[tuple[LeaderChangeMessageVoter, ...], wire("[]Voter")] = ()
    granting_voters: Annotated[tuple[LeaderChangeMessageVoter, ...], wire("[]Voter")] = ()


class KRaftVersionRecord(Message):
    """The finalized kraft.version; v0. Source: KRaftVersionRecord.json."""

    VERSIONS = (0, 0)
    FLEXIBLE = 0

    version: Annotated[int, wire("int16")] = 0
    kraft_version: Annotated[int, wire("int16")] = 0


class VotersRecordEndpoint(Message):
    """An element of VotersRecord.voters[].endpoints."""

    name: Annotated[str, wire("string")] = ""
    host: Annotated[str, wire("string")] = ""
    port: Annotated[int, wire("uint16")] = 0


class VotersRecordKRaftVersionFeature(Message):
    """The value of VotersRecord.voters[].kraft_version_feature."""

    min_supported_version: Annotated[int, wire("int16")] = 0
    max_supported_version: Annotated[int, wire("int16")] = 0


class VotersRecordVoter(Message):
    """An element of VotersRecord.voters."""

    voter_id: Annotated[int, wire("int32")] = 0
    voter_directory_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    endpoints: Annotated[tuple[VotersRecordEndpoint, ...], wire("[]Endpoint")] = ()
    kraft_version_feature: Annotated[VotersRecordKRaftVersionFeature, wire("KRaftVersionFeature")] = (
        VotersRecordKRaftVersionFeature()
    )


class VotersRecord(Message):
    """The voter set from here on; v0. Source: VotersRecord.json."""

    VERSIONS = (0, 0)
    FLEXIBLE = 0

    version: Annotated[int, wire("int16")] = 0
    voters: Annotated[tuple[VotersRecordVoter, ...], wire("[]Voter")] = ()


class SnapshotHeaderRecord(Message):
    """First record of a snapshot; v0. Source: SnapshotHeaderRecord.json."""

    VERSIONS = (0, 0)
    FLEXIBLE = 0

    version: Annotated[int, wire("int16")] = 0
    last_contained_log_timestamp: Annotated[int, wire("int64")] = 0


class SnapshotFooterRecord(Message):
    """Last record of a snapshot; v0. Source: SnapshotFooterRecord.json."""

    VERSIONS = (0, 0)
    FLEXIBLE = 0

    version: Annotated[int, wire("int16")] = 0


class EndTxnMarker(Message):
    """End of a transaction in a partition: commit or abort, by the type in the key; v0. Source: EndTxnMarker.json."""

    VERSIONS = (0, 0)

    coordinator_epoch: Annotated[int, wire("int32")] = 0


ControlRecord: TypeAlias = (
    LeaderChangeMessage | KRaftVersionRecord | VotersRecord | SnapshotHeaderRecord | SnapshotFooterRecord
)

_TYPES: Final[dict[type[ControlRecord], ControlRecordType]] = {
    LeaderChangeMessage: ControlRecordType.LEADER_CHANGE,
    SnapshotHeaderRecord: ControlRecordType.SNAPSHOT_HEADER,
    SnapshotFooterRecord: ControlRecordType.SNAPSHOT_FOOTER,
    KRaftVersionRecord: ControlRecordType.KRAFT_VERSION,
    VotersRecord: ControlRecordType.KRAFT_VOTERS,
}
_CLASSES: Final = {kind: record_class for record_class, kind in _TYPES.items()}


def encode_control(record: ControlRecord) -> tuple[bytes, bytes]:
    """Return key and value of a control record, in the version of its first field."""
    return _KEY.pack(0, _TYPES[type(record)]), encode(record, record.version)


def encode_control_batch(
    base_offset: int, leader_epoch: int, timestamp_ms: int, records: Sequence[ControlRecord]
) -> bytes:
    """Encode control records as one batch with this timestamp."""
    pairs = [encode_control(record) for record in records]
    keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    return encode_batch(base_offset, leader_epoch, timestamp_ms, values, control_keys=keys)


def decode_control(key: bytes, value: bytes) -> ControlRecord | None:
    """Decode a control record; None for an unknown type, which readers skip.

    A newer version of a known type is decoded as the newest known one, since versions only add tagged fields.
    Raises CorruptBatch for a malformed key or value.
    """
    if len(key) < _KEY.size or len(value) < 2:
        raise CorruptBatch(0, f"a control record with a key of {len(key)} and a value of {len(value)} bytes")
    _version, kind = _KEY.unpack_from(key)
    record_class = _CLASSES.get(kind)
    if record_class is None:
        return None
    version = int.from_bytes(value[:2], signed=True)
    if version < 0:
        raise CorruptBatch(0, f"a {record_class.__name__} of version {version}")
    try:
        record, _ = decode_prefix(record_class, min(version, record_class.VERSIONS[1]), value)
    except DecodeError as failure:
        raise CorruptBatch(0, failure.message) from None
    return record
