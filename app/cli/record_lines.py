"""What `conclave produce` reads: records as lines of text or JSON."""

import base64
import binascii
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

Header = tuple[str, bytes | None]

LINE_BYTES_MAX: Final = 100 * 1024 * 1024
"""Longest line. No broker accepts a larger request with its default settings."""


class InputError(ValueError):
    """A line is no record; the message has its number."""


@dataclass(frozen=True, slots=True)
class ProducedRecord:
    """A record to send. None as `partition` and `timestamp_ms`: the producer chooses."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


LineParser = Callable[[bytes, int], ProducedRecord]
"""Makes a record of a line and its number. Raises InputError."""


class LineSplitter:
    """Cuts a stream of bytes into lines, without their line feeds."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self.lines = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Return the lines that `data` completes. Raises InputError for a line over LINE_BYTES_MAX."""
        first, *others = data.split(b"\n")
        self._rest.append(first)
        self._rest_bytes += len(first)
        if self._rest_bytes > LINE_BYTES_MAX:
            raise InputError(f"line {self.lines + 1} is longer than {LINE_BYTES_MAX} bytes")
        for other in others:
            yield self._take()
            self._rest, self._rest_bytes = [other], len(other)

    def end(self) -> Iterator[bytes]:
        """Return the last line, if the stream did not end with a line feed."""
        if self._rest_bytes:
            yield self._take()

    def _take(self) -> bytes:
        self.lines += 1
        line = b"".join(self._rest)
        self._rest, self._rest_bytes = [], 0
        return line


def text_parser(
    *, key_separator: bytes | None, key: bytes | None, headers: tuple[Header, ...], empty_is_null: bool
) -> LineParser:
    """Return a parser of plain lines.

    With `key_separator`, the key is the text before the first separator, which every line must have. `key` is the key
    of all other records, `headers` those of all records. With `empty_is_null`, empty keys and values become null.
    """

    def parse(line: bytes, number: int) -> ProducedRecord:
        value: bytes | None = line
        found = key
        if key_separator is not None:
            found, separator, value = line.partition(key_separator)
            if not separator:
                raise InputError(f"line {number} has no key separator {key_separator.decode(errors='replace')!r}")
        if empty_is_null:
            return ProducedRecord(found or None, value or None, headers)
        return ProducedRecord(found, value, headers)

    return parse


class _JsonHeader(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    value: str | None = None
    value_base64: str | None = None


class _JsonRecord(msgspec.Struct, forbid_unknown_fields=True):
    """The object that `consume --json` prints. Where the record was read does not matter."""

    key: str | None = None
    key_base64: str | None = None
    value: str | None = None
    value_base64: str | None = None
    headers: list[_JsonHeader] = []
    partition: int | None = None
    timestamp_ms: int | None = None
    topic: str | None = None
    offset: int | None = None
    timestamp_type: str | None = None


def json_parser(*, key: bytes | None, headers: tuple[Header, ...]) -> LineParser:
    """Return a parser of JSON lines, such as `conclave consume --json` prints.

    `key` is the key of objects without one, `headers` are added to those of the object. The topic, partition, offset
    and timestamp of an object that was consumed are not taken over.
    """
    decoder = msgspec.json.Decoder(_JsonRecord)

    def parse(line: bytes, number: int) -> ProducedRecord:
        try:
            found = decoder.decode(line)
            own = tuple((each.name, _bytes(each.value, each.value_base64)) for each in found.headers)
            own_key = _bytes(found.key, found.key_base64)
            value = _bytes(found.value, found.value_base64)
        except (msgspec.MsgspecError, binascii.Error, UnicodeError) as error:
            raise InputError(f"line {number} is no JSON record: {error}") from None
        was_consumed = found.offset is not None
        return ProducedRecord(
            key if own_key is None else own_key,
            value,
            (*headers, *own),
            None if was_consumed else found.partition,
            None if was_consumed else found.timestamp_ms,
        )

    return parse


def _bytes(text: str | None, encoded: str | None) -> bytes | None:
    if encoded is not None:
        return base64.b64decode(encoded, validate=True)
    return None if text is None else text.encode()
