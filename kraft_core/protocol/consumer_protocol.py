"""What classic consumers put in their group's JoinGroup and SyncGroup: a message behind an int16 version.

A version newer than ours is read as our newest: newer fields are at the end. Source: ConsumerProtocol, Kafka 4.3.1.
"""

import struct
from typing import Final, TypeVar

from kraft_core.protocol.codec import decode_prefix, encode
from kraft_core.protocol.errors import DecodeError
from kraft_core.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription

PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of groups of consumers."""

_VERSION: Final = struct.Struct(">h")
_Behind = TypeVar("_Behind", ConsumerProtocolSubscription, ConsumerProtocolAssignment)


def encode_consumer_protocol(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment) -> bytes:
    """Return the message behind its newest version."""
    version = message.VERSIONS[1]
    return _VERSION.pack(version) + encode(message, version)


def decode_consumer_protocol(message_class: type[_Behind], data: bytes) -> _Behind:
    """Return the message in `data`. Raises DecodeError."""
    if len(data) < _VERSION.size:
        raise DecodeError(message_class.__name__, "version", 0, "the data ends here")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(message_class.__name__, "version", 0, f"{version} is no version")
    message, _ = decode_prefix(message_class, min(version, message_class.VERSIONS[1]), data, _VERSION.size)
    return message
