"""Functions that compiled codecs call: varints, length prefixes, interned values.

Lengths in flexible versions are "compact": an unsigned varint of length + 1, 0 for null (KIP-482).
Source: ByteUtils.java and ByteBufferAccessor.java, Kafka 4.3.1.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

STRING_BYTES_MAX: Final = 32767
_INTERN_ENTRIES_MAX: Final = 65536
_INTERN_BYTES_MAX: Final = 256
_VARINT_BYTES_MAX: Final = 5
_VARLONG_BYTES_MAX: Final = 10
_SAFE: Final = UUID(int=0).is_safe


class Malformed(Exception):  # noqa: N818  caught inside the package and turned into DecodeError
    """Bytes violate the format; the codec adds message, field and position."""


ONE_BYTE: Final = 64
TWO_BYTES: Final = 8_192
"""Numbers from 0 to before these have varints of at most one and two bytes."""
VARINT_LOW: Final = bytes(2 * n if n < ONE_BYTE else 2 * n & 127 | 128 for n in range(TWO_BYTES))
VARINT_HIGH: Final = bytes(2 * n >> 7 for n in range(TWO_BYTES))
"""First and second byte of the varint of each number before TWO_BYTES, to write the varints of a range by columns."""


def encode_uvarint(value: int) -> bytes:
    """Encode an unsigned varint: seven bits per byte, the lowest first. Raises ValueError for a negative value."""
    if value < 0:
        raise ValueError(f"{value} is negative")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_varint(value: int) -> bytes:
    """Encode a signed varint or varlong (zigzag)."""
    return encode_uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


def decode_uvarint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Decode an unsigned varint of at most 5 bytes and 32 bits; return it and the position after it.

    Raises Malformed for a longer one, IndexError when the data ends within it.
    """
    value = shift = 0
    for index in range(position, position + _VARINT_BYTES_MAX):
        byte = data[index]
        value |= (byte & 127) << shift
        if byte < 128:
            if value >> 32:
                break
            return value, index + 1
        shift += 7
    raise Malformed("a varint longer than 32 bits")


def decode_varint(data: bytes, position: int) -> tuple[int, int]:
    """Decode a signed varint (zigzag) of at most 32 bits. Returns and raises as `decode_uvarint`."""
    value = data[position]
    if value < 128:
        return (value >> 1) ^ -(value & 1), position + 1
    value, position = decode_uvarint(data, position)
    return (value >> 1) ^ -(value & 1), position


def decode_varlong(data: bytes, position: int) -> tuple[int, int]:
    """Decode a signed varint (zigzag) of at most 64 bits. Returns and raises as `decode_uvarint`."""
    value = data[position]
    if value < 128:
        return (value >> 1) ^ -(value & 1), position + 1
    value = shift = 0
    for index in range(position, position + _VARLONG_BYTES_MAX):
        byte = data[index]
        value |= (byte & 127) << shift
        if byte < 128:
            if value >> 64:
                break
            return (value >> 1) ^ -(value & 1), index + 1
        shift += 7
    raise Malformed("a varlong longer than 64 bits")


def decode_string_length(data: bytes, position: int) -> tuple[int, int]:
    """Decode a compact string length (length + 1) of more than one byte."""
    value, position = decode_uvarint(data, position)
    if value > STRING_BYTES_MAX + 1:
        raise Malformed(f"a string of {value - 1} bytes; {STRING_BYTES_MAX} are allowed")
    return value, position


def skip_tags(count: int, data: bytes | memoryview, position: int) -> int:
    """Skip a tag section without known tags; `count` is its first byte, already read."""
    if count > 127:
        count, position = decode_uvarint(data, position - 1)
    return skip_counted_tags(count, data, position)


def skip_counted_tags(count: int, data: bytes | memoryview, position: int) -> int:
    """Skip `count` tagged fields."""
    for _ in range(count):
        _tag, position = decode_uvarint(data, position)
        length, position = decode_uvarint(data, position)
        position += length
        if position > len(data):
            raise Malformed(f"a tagged field of {length} bytes, {position - len(data)} more than there are")
    return position


class Prefixes(dict[int, bytes]):
    """Length prefixes, the short ones cached: `prefixes[len(value)]`."""

    def __init__(self, make: Callable[[int], bytes]) -> None:
        super().__init__((n, make(n)) for n in range(256))
        self._make = make

    def __missing__(self, length: int) -> bytes:
        return self._make(length)


def _string_length(length: int) -> bytes:
    if length > STRING_BYTES_MAX:
        raise ValueError(f"a string of {length} bytes; {STRING_BYTES_MAX} are allowed")
    return struct.pack(">h", length)


def _compact_string_length(length: int) -> bytes:
    if length > STRING_BYTES_MAX:
        raise ValueError(f"a string of {length} bytes; {STRING_BYTES_MAX} are allowed")
    return encode_uvarint(length + 1)


UVARINT: Final = Prefixes(encode_uvarint)
COMPACT_LENGTH: Final = Prefixes(lambda length: encode_uvarint(length + 1))
COMPACT_STRING_LENGTH: Final = Prefixes(_compact_string_length)
STRING_LENGTH: Final = Prefixes(_string_length)
INT32_LENGTH: Final = Prefixes(struct.Struct(">i").pack)


class ArrayWriters(dict[int, Callable[..., bytes]]):
    """By element count: a function that packs prefix and elements of a fixed-width array in one call.

    It is called as `writers[len(values)](prefix, *values)`; the prefix is the count in the old encoding and count + 1
    in the compact one.
    """

    def __init__(self, code: str, *, compact: bool) -> None:
        super().__init__()
        self._code = code
        self._compact = compact

    def __missing__(self, count: int) -> Callable[..., bytes]:
        if not self._compact or count < 127:
            writer: Callable[..., bytes] = struct.Struct(f">{'B' if self._compact else 'i'}{count}{self._code}").pack
            if count < 64:
                self[count] = writer
            return writer
        pack = struct.Struct(f">{count}{self._code}").pack
        return lambda prefix, *values: encode_uvarint(prefix) + pack(*values)


class IntArrays(dict[bytes, tuple[int, ...]]):
    """By their bytes: decoded integer arrays. Short ones are cached, so equal replica lists are one tuple."""

    def __init__(self, code: str, size: int) -> None:
        super().__init__()
        self._code = code
        self._size = size

    def __missing__(self, raw: bytes) -> tuple[int, ...]:
        values: tuple[int, ...] = struct.unpack(f">{len(raw) // self._size}{self._code}", raw)
        if len(raw) <= _INTERN_BYTES_MAX:
            if len(self) >= _INTERN_ENTRIES_MAX:
                self.clear()
            self[raw] = values
        return values


class Uuids(dict[bytes, UUID]):
    """By their 16 bytes: cached uuid objects, since creating one takes ten times as long as a look-up."""

    def __missing__(self, raw: bytes) -> UUID:
        value = UUID.__new__(UUID)
        object.__setattr__(value, "int", int.from_bytes(raw))
        object.__setattr__(value, "is_safe", _SAFE)
        if len(self) >= _INTERN_ENTRIES_MAX:
            self.clear()
        self[raw] = value
        return value


class UuidArrays(dict[bytes, tuple[UUID, ...]]):
    """By their bytes: decoded uuid arrays, the short ones cached."""

    def __init__(self, uuids: Uuids) -> None:
        super().__init__()
        self._uuids = uuids

    def __missing__(self, raw: bytes) -> tuple[UUID, ...]:
        values = tuple([self._uuids[raw[at : at + 16]] for at in range(0, len(raw), 16)])
        if len(raw) <= _INTERN_BYTES_MAX:
            if len(self) >= _INTERN_ENTRIES_MAX:
                self.clear()
            self[raw] = values
        return values


UUIDS: Final = Uuids()
UUID_ARRAYS: Final = UuidArrays(UUIDS)


def encode_uuids(values: Sequence[UUID]) -> bytes:
    """Encode uuids consecutively, without a length."""
    return b"".join([value.int.to_bytes(16) for value in values])
