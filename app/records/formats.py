"""How `conclave consume` prints a record: kcat's format strings, or one JSON object per line.

`conclave produce --json` reads the same objects.
"""

import base64
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from kraft_core.clients.consumer.consumer_record import ConsumerRecord

Record = ConsumerRecord[bytes | None, bytes | None]
Formatter = Callable[[Record], bytes]

DEFAULT_FORMAT: Final = r"%s\n"
_TOKEN: Final = re.compile(r"%(.?)|\\x([0-9a-fA-F]{2})|\\(.?)|([^%\\]+)", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")


class FormatTextError(ValueError):
    """A format string has an unknown token; the message names it and what is allowed."""


def unescaped(text: str) -> bytes:
    r"""Return text with the escapes of format strings resolved: a separator. Raises FormatTextError."""
    return b"".join(
        bytes([int(match[2], 16)])
        if match[2] is not None
        else _escape(match[3])
        if match[3] is not None
        else match[0].encode()
        for match in _TOKEN.finditer(text)
    )


def format_of(text: str, *, null: bytes = b"") -> Formatter:
    r"""Compile a format string of kcat's: a function from a record to the bytes to print.

    Tokens: %s value, %S its length, %R its length as big-endian int32, %k key, %K its length, %T timestamp in ms,
    %h headers as name=value,…, %t topic, %p partition, %o offset, %% a percent sign, \n, \r, \t, \0, \\, \xNN. Lengths
    of null are -1; `null` is printed for null keys and values. Raises FormatTextError.
    """
    parts = [_part(match, null) for match in _TOKEN.finditer(text)]

    def formatted(record: Record) -> bytes:
        return b"".join([part if isinstance(part, bytes) else part(record) for part in parts])

    return formatted


def _part(match: re.Match[str], null: bytes) -> bytes | Formatter:
    letter, code, escape, plain = match.groups()
    if plain is not None:
        return plain.encode()
    if code is not None:
        return bytes([int(code, 16)])
    if escape is not None:
        return _escape(escape)
    if letter == "%":
        return b"%"
    tokens = _tokens(null)
    if letter not in tokens:
        raise FormatTextError(f"unknown token '%{letter}': allowed are %{', %'.join(tokens)} and %%")
    return tokens[letter]


def _escape(letter: str) -> bytes:
    if letter not in _ESCAPES:
        raise FormatTextError(rf"unknown escape '\{letter}': allowed are \n, \r, \t, \0, \\ and \xNN")
    return _ESCAPES[letter]


def _tokens(null: bytes) -> dict[str, Formatter]:
    return {
        "s": lambda record: null if record.value is None else record.value,
        "S": lambda record: b"%d" % _length(record.value),
        "R": lambda record: _length(record.value).to_bytes(4, signed=True),
        "k": lambda record: null if record.key is None else record.key,
        "K": lambda record: b"%d" % _length(record.key),
        "T": lambda record: b"%d" % record.timestamp_ms,
        "h": lambda record: b",".join(
            b"%b=%b" % (name.encode(), null if value is None else value) for name, value in record.headers
        ),
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
    }


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def json_line(record: Record) -> bytes:
    """Return a record as a JSON object and a line feed.

    Keys, values and header values that are not UTF-8 have the suffix `_base64` on their name and are in base64.
    """
    return msgspec.json.encode(json_record(record)) + b"\n"


def json_record(record: Record) -> dict[str, Any]:
    """Return a record as the object of `json_line`."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": _TIMESTAMP_TYPES[record.timestamp_type],
        **_json_field("key", record.key),
        **_json_field("value", record.value),
        "headers": [{"name": name, **_json_field("value", value)} for name, value in record.headers],
    }


def _json_field(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
