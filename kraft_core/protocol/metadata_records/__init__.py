"""The 26 record types of the metadata log, and their frame in a record's value.

A value is a frame version (1), the record's apiKey and version, all unsigned varints, and the body. Record keys and
headers are not used. The version to write depends on metadata.version, see `metadata_version`.

Source: AbstractApiMessageSerde.java and MetadataRecordSerde.java, Kafka 4.3.1.
"""

import struct
from typing import Final, TypeAlias

from kraft_core.protocol.codec import DECODERS, decode_prefix, encode_parts
from kraft_core.protocol.decoder import Decoder
from kraft_core.protocol.errors import DecodeError, MetadataRecordError
from kraft_core.protocol.metadata_records.cluster_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterBrokerRecordBrokerEndpoint,
    RegisterBrokerRecordBrokerFeature,
    RegisterControllerRecord,
    RegisterControllerRecordControllerEndpoint,
    RegisterControllerRecordControllerFeature,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    ZkMigrationStateRecord,
)
from kraft_core.protocol.metadata_records.security_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ClientQuotaRecordEntityData,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from kraft_core.protocol.metadata_records.topic_records import (
    ClearElrRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kraft_core.protocol.primitives import Malformed, decode_uvarint
from kraft_core.protocol.wire import Message

FRAME_VERSION: Final = 1

MetadataRecord: TypeAlias = (
    AbortTransactionRecord
    | AccessControlEntryRecord
    | BeginTransactionRecord
    | BrokerRegistrationChangeRecord
    | ClearElrRecord
    | ClientQuotaRecord
    | ConfigRecord
    | DelegationTokenRecord
    | EndTransactionRecord
    | FeatureLevelRecord
    | FenceBrokerRecord
    | NoOpRecord
    | PartitionChangeRecord
    | PartitionRecord
    | ProducerIdsRecord
    | RegisterBrokerRecord
    | RegisterControllerRecord
    | RemoveAccessControlEntryRecord
    | RemoveDelegationTokenRecord
    | RemoveTopicRecord
    | RemoveUserScramCredentialRecord
    | TopicRecord
    | UnfenceBrokerRecord
    | UnregisterBrokerRecord
    | UserScramCredentialRecord
    | ZkMigrationStateRecord
)

RECORD_CLASSES: Final[dict[int, type[MetadataRecord]]] = {
    record_class.API_KEY: record_class
    for record_class in (
        AbortTransactionRecord,
        AccessControlEntryRecord,
        BeginTransactionRecord,
        BrokerRegistrationChangeRecord,
        ClearElrRecord,
        ClientQuotaRecord,
        ConfigRecord,
        DelegationTokenRecord,
        EndTransactionRecord,
        FeatureLevelRecord,
        FenceBrokerRecord,
        NoOpRecord,
        PartitionChangeRecord,
        PartitionRecord,
        ProducerIdsRecord,
        RegisterBrokerRecord,
        RegisterControllerRecord,
        RemoveAccessControlEntryRecord,
        RemoveDelegationTokenRecord,
        RemoveTopicRecord,
        RemoveUserScramCredentialRecord,
        TopicRecord,
        UnfenceBrokerRecord,
        UnregisterBrokerRecord,
        UserScramCredentialRecord,
        ZkMigrationStateRecord,
    )
}

__all__ = [
    "FRAME_VERSION",
    "RECORD_CLASSES",
    "AbortTransactionRecord",
    "AccessControlEntryRecord",
    "BeginTransactionRecord",
    "BrokerRegistrationChangeRecord",
    "ClearElrRecord",
    "ClientQuotaRecord",
    "ClientQuotaRecordEntityData",
    "ConfigRecord",
    "DelegationTokenRecord",
    "EndTransactionRecord",
    "FeatureLevelRecord",
    "FenceBrokerRecord",
    "MetadataRecord",
    "NoOpRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "RegisterBrokerRecord",
    "RegisterBrokerRecordBrokerEndpoint",
    "RegisterBrokerRecordBrokerFeature",
    "RegisterControllerRecord",
    "RegisterControllerRecordControllerEndpoint",
    "RegisterControllerRecordControllerFeature",
    "RemoveAccessControlEntryRecord",
    "RemoveDelegationTokenRecord",
    "RemoveTopicRecord",
    "RemoveUserScramCredentialRecord",
    "TopicRecord",
    "UnfenceBrokerRecord",
    "UnregisterBrokerRecord",
    "UserScramCredentialRecord",
    "ZkMigrationStateRecord",
    "decode_record",
    "encode_record",
]


def encode_record(record: MetadataRecord, version: int) -> bytes:
    """Return the value of a log record: frame and body.

    Raises EncodeError, and UnsupportedVersion for an unknown version.
    """
    parts = [_FRAMES[record.API_KEY, version]]
    encode_parts(record, version, parts)
    return b"".join(parts)


def decode_record(value: bytes) -> MetadataRecord:
    """Decode the value of a log record.

    Raises MetadataRecordError for another frame version, an unknown apiKey or version, a malformed body, or bytes after
    the body. The node must then stop, because it cannot know what the record changes.
    """
    decoder = _DECODERS.get(value[:3])
    if decoder is None:
        return _decode_unusual(value)
    try:
        record: MetadataRecord
        record, end = decoder(value, 3, len(value))
    except (IndexError, struct.error, Malformed):
        return _decode_unusual(value)
    if end != len(value):
        raise MetadataRecordError(f"{len(value) - end} bytes too many behind a {type(record).__name__}")
    return record


class _Frames(dict[tuple[int, int], bytes]):
    def __missing__(self, key: tuple[int, int]) -> bytes:
        api_key, version = key
        frame = self[key] = bytes((FRAME_VERSION, api_key, max(version, 0) & 127))
        return frame


_FRAMES: Final = _Frames()
_DECODERS: Final[dict[bytes, Decoder]] = {}
"""By the three bytes of the usual frame; filled on first use."""


def _decode_unusual(value: bytes) -> MetadataRecord:
    """Decode a value without a cached decoder. Raises MetadataRecordError for an invalid one."""
    try:
        frame_version, position = decode_uvarint(value, 0)
        api_key, position = decode_uvarint(value, position)
        version, position = decode_uvarint(value, position)
    except (IndexError, Malformed):
        raise MetadataRecordError(f"a value of {len(value)} bytes without a whole frame") from None
    if frame_version != FRAME_VERSION:
        raise MetadataRecordError(f"frame version {frame_version}; only {FRAME_VERSION} is known")
    record_class = RECORD_CLASSES.get(api_key)
    if record_class is None:
        raise MetadataRecordError(f"unknown record apiKey {api_key}")
    first, last = record_class.VERSIONS
    if not first <= version <= last:
        raise MetadataRecordError(f"{record_class.__name__} version {version}; {first} to {last} are known")
    try:
        record, end = decode_prefix(record_class, version, value, position)
    except DecodeError as failure:
        raise MetadataRecordError(failure.message) from None
    if end != len(value):
        raise MetadataRecordError(f"{len(value) - end} bytes too many behind a {record_class.__name__}")
    if position == 3:
        key: tuple[type[Message], int] = (record_class, version)
        _DECODERS[value[:3]] = DECODERS[key]
    return record
