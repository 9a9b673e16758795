"""Encoding and decoding of messages, for one version at a time.

Encoders and decoders are compiled on first use and cached; a process pays only for the messages that it uses.
"""

import struct
from typing import Any, Final, TypeVar

from kraft_core.protocol.codegen import explain
from kraft_core.protocol.decoder import UNLIMITED_ROOM, VIEWED, Decoder, compile_decoder
from kraft_core.protocol.encoder import Encoder, UnsupportedField, compile_encoder
from kraft_core.protocol.errors import DecodeError, EncodeError, ErrorCode, UnsupportedVersion
from kraft_core.protocol.primitives import Malformed
from kraft_core.protocol.wire import Message

M = TypeVar("M", bound=Message)

_ENCODE_FAILURES: Final = (struct.error, TypeError, AttributeError, ValueError, OverflowError)


def _check_version(message_class: type[Message], version: int) -> None:
    first, last = message_class.VERSIONS
    if not first <= version <= last:
        name = message_class.__name__
        raise UnsupportedVersion(f"{name} version {version} is outside the supported range {first} to {last}")


class _Encoders(dict[tuple[type[Message], int], Encoder]):
    def __missing__(self, key: tuple[type[Message], int]) -> Encoder:
        message_class, version = key
        _check_version(message_class, version)
        encoder = compile_encoder(message_class, version, flexible=version >= message_class.FLEXIBLE)
        self[key] = encoder
        return encoder


class _Decoders(dict[tuple[type[Message], int], Decoder]):
    def __missing__(self, key: tuple[type[Message], int]) -> Decoder:
        message_class, version = key
        _check_version(message_class, version)
        decoder = compile_decoder(message_class, version, flexible=version >= message_class.FLEXIBLE)
        self[key] = decoder
        return decoder


ENCODERS: Final = _Encoders()
DECODERS: Final = _Decoders()


def encode_parts(message: Message, version: int, parts: list[bytes]) -> None:
    """Append the encoded message to `parts`, without copying large byte fields.

    Raises EncodeError when a value does not fit its field, or (with UNSUPPORTED_VERSION) when a non-ignorable field
    that this version lacks is set, and UnsupportedVersion.
    """
    encoder = ENCODERS[type(message), version]
    try:
        encoder(message, parts)
    except UnsupportedField as failure:
        field, _ = explain(failure.__traceback__)
        reason = f"version {version} cannot carry this field, and it has a value"
        raise EncodeError(type(message).__name__, field, reason, ErrorCode.UNSUPPORTED_VERSION) from None
    except _ENCODE_FAILURES as failure:
        field, _ = explain(failure.__traceback__)
        raise EncodeError(type(message).__name__, field, str(failure)) from failure


def encode(message: Message, version: int) -> bytes:
    """Encode a message body, without header or size. Raises as `encode_parts`."""
    parts: list[bytes] = []
    encode_parts(message, version, parts)
    return b"".join(parts)


def decode_prefix(
    message_class: type[M], version: int, data: bytes | memoryview, offset: int = 0, room: int = UNLIMITED_ROOM
) -> tuple[M, int]:
    """Decode a message that begins at `offset`; return it and the position after it.

    `room` is the maximum number of array elements and tagged fields of a request; other messages are not limited.
    Raises DecodeError with message, field and position, and UnsupportedVersion.
    """
    decoder = DECODERS[message_class, version]
    if type(data) is not bytes and message_class.__name__ not in VIEWED:
        data = bytes(data)
    try:
        decoded: tuple[M, int]
        decoded = decoder(data, offset, len(data)) if room == UNLIMITED_ROOM else decoder(data, offset, len(data), room)
    except (IndexError, struct.error) as failure:
        raise _decode_error(message_class, failure, "the data ends here", offset) from None
    except Malformed as failure:
        raise _decode_error(message_class, failure, str(failure), offset) from None
    return decoded


def _decode_error(message_class: type[Any], failure: Exception, reason: str, offset: int) -> DecodeError:
    field, position = explain(failure.__traceback__)
    return DecodeError(message_class.__name__, field, max(position, offset), reason)


def decode(message_class: type[M], version: int, data: bytes, offset: int = 0) -> M:
    """Decode a message that extends from `offset` to the end of the data.

    Raises DecodeError, also for remaining bytes, and UnsupportedVersion.
    """
    message, end = decode_prefix(message_class, version, data, offset)
    if end != len(data):
        raise DecodeError(message_class.__name__, "(end)", end, f"{len(data) - end} bytes too many")
    return message
