"""Requests and responses as frames: size, header, body.

A frame is an int32 size and that many bytes. The encoders in this module add the size; `connection` removes it before
decoding. The client id keeps the old string encoding in flexible headers. A response to ApiVersions always has header
version 0, because the client does not know the server's versions yet (KIP-511).

Source: RequestHeader.json, ResponseHeader.json and ApiKeys.requestHeaderVersion, Kafka 4.3.1.
"""

import struct
from typing import Final, NamedTuple

from kraft_core.protocol import primitives
from kraft_core.protocol.api_keys import APIS, ApiKey, is_flexible, request_class, response_class
from kraft_core.protocol.codec import decode, decode_prefix, encode, encode_parts
from kraft_core.protocol.errors import DecodeError, InvalidFrame
from kraft_core.protocol.request_limits import limit_of
from kraft_core.protocol.wire import Message

__all__ = [
    "RequestHeader",
    "decode",
    "decode_prefix",
    "decode_request_body",
    "decode_request_header",
    "decode_response",
    "encode",
    "encode_parts",
    "encode_request",
    "encode_response",
]

_REQUEST_HEADER: Final = struct.Struct(">hhih")
_REQUEST_PREFIX: Final = struct.Struct(">hhi")
_SIZE: Final = struct.Struct(">i")
_JOINED_SIZE_MAX: Final = 16384
HEADER_TAGS_MAX: Final = 100
"""Maximum number of tagged fields in a request header; Kafka 4.3.1 defines none."""


class RequestHeader(NamedTuple):
    """A request's header; `client_id` is None when the client sent none."""

    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None


def _frame(parts: list[bytes]) -> bytes:
    """Join parts with their size, for which `parts[0]` is the placeholder. Large parts are copied once."""
    if len(parts) < 64 and sum(map(len, parts)) > _JOINED_SIZE_MAX:
        parts[0] = _SIZE.pack(sum(map(len, parts)))
        return b"".join(parts)
    body = b"".join(parts)
    return _SIZE.pack(len(body)) + body


def encode_request(body: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return a complete request frame, including its size. Raises as `codec.encode`."""
    api_key = ApiKey(body.API_KEY)
    client = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(client)
    tags = b"\x00" if is_flexible(api_key, version) else b""
    parts = [b"", _REQUEST_HEADER.pack(api_key, version, correlation_id, length), client + tags]
    encode_parts(body, version, parts)
    return _frame(parts)


def encode_response(body: Message, header: RequestHeader | tuple[int, int], correlation_id: int | None = None) -> bytes:
    """Return a complete response frame, including its size, for a request header or an (api key, version) pair.

    `correlation_id` is required only with a pair. Raises as `codec.encode`.
    """
    api_key, version = ApiKey(header[0]), header[1]
    if correlation_id is None:
        assert isinstance(header, RequestHeader), "a pair needs a correlation id"
        correlation_id = header.correlation_id
    head = _SIZE.pack(correlation_id)
    if is_flexible(api_key, version) and api_key is not ApiKey.API_VERSIONS:
        head += b"\x00"
    parts = [b"", head]
    encode_parts(body, version, parts)
    return _frame(parts)


def decode_request_header(frame: bytes) -> tuple[RequestHeader, int]:
    """Decode the header of a request frame (without its size); return it and the position of the body.

    The version may be unsupported, which the caller must handle. Raises InvalidFrame for an incomplete header or an
    unknown API key, since then the rest cannot be decoded either.
    """
    try:
        key, version, correlation_id = _REQUEST_PREFIX.unpack_from(frame)
        api_key = ApiKey(key)
        flexible = is_flexible(api_key, version)
        client_id, position = _client_id(frame, _REQUEST_PREFIX.size)
        if flexible:
            tags = frame[position]
            position += 1
            if tags > HEADER_TAGS_MAX:
                raise primitives.Malformed(f"more than {HEADER_TAGS_MAX} tagged fields")
            if tags:
                position = primitives.skip_tags(tags, frame, position)
    except (struct.error, IndexError):
        raise InvalidFrame(f"a request of {len(frame)} bytes ends in its header") from None
    except (ValueError, KeyError):
        raise InvalidFrame(f"a request with the unknown API key {key}") from None
    except primitives.Malformed as failure:
        raise InvalidFrame(f"a request header with {failure}") from None
    return RequestHeader(api_key, version, correlation_id, client_id), position


def _client_id(frame: bytes, position: int) -> tuple[str | None, int]:
    length = int.from_bytes(frame[position : position + 2], signed=True)
    position += 2
    if length == -1:
        return None, position
    end = position + length
    if not position <= end <= len(frame):
        raise primitives.Malformed(f"a client id of {length} bytes")
    return frame[position:end].decode("utf-8", "replace"), end


def decode_request_body(header: RequestHeader, frame: bytes, offset: int) -> Message:
    """Decode the body of a request; bytes after it are ignored, as in Kafka.

    Raises DecodeError, also for more elements than the API's limit (`request_limits`), and UnsupportedVersion.
    """
    api_key = header.api_key
    room = limit_of(api_key).max_elements
    body, _ = decode_prefix(request_class(api_key), header.api_version, frame, offset, room)
    return body


def decode_response(api_key: int, version: int, frame: bytes | memoryview) -> tuple[int, Message]:
    """Decode a response frame (without its size); return correlation id and body.

    An ApiVersions response with UNSUPPORTED_VERSION is in version 0 whatever the request's version (KIP-511): a body
    that does not decode as `version` is decoded as version 0. Raises DecodeError.
    """
    key = ApiKey(api_key)
    message_class = response_class(key)
    name = message_class.__name__
    if len(frame) < _SIZE.size:
        raise DecodeError(name, "(header)", 0, f"a response of {len(frame)} bytes")
    (correlation_id,) = _SIZE.unpack_from(frame)
    offset = _SIZE.size
    if key is ApiKey.API_VERSIONS:
        if frame[offset : offset + 2] == b"\x00\x23":
            version = 0
    elif is_flexible(key, version):
        try:
            offset = primitives.skip_tags(frame[offset], frame, offset + 1)
        except (IndexError, primitives.Malformed):
            raise DecodeError(name, "(header)", offset, "cut or malformed tags") from None
    body, _ = decode_prefix(message_class, version, frame, offset)
    return correlation_id, body


assert all(api.min_version <= api.max_version for api in APIS.values())
