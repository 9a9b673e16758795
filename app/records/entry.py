"""Keys, values and headers as people enter them, and as REST v3 does."""

import base64
import binascii
from typing import Final, Literal

import msgspec

from app.texts import phrase
from kraft_core.clients.consumer.consumer_record import Headers

EntryType = Literal["text", "json", "hex", "base64", "int32", "int64", "null"]
ENTRY_TYPES: Final[tuple[EntryType, ...]] = ("text", "json", "hex", "base64", "int32", "int64", "null")
_BITS: Final[dict[str, int]] = {"int32": 32, "int64": 64}


class EntryError(ValueError):
    """A text is not of its type. The message has the text and what is allowed."""


def entered(what: str, text: str, kind: EntryType) -> bytes | None:
    """Return the bytes of a key or value; line ends become line feeds. `what` names it in errors. Raises EntryError."""
    text = text.replace("\r\n", "\n")
    if kind == "null":
        if text:
            raise EntryError(
                phrase(
                    "%(what)s: null has no text; remove '%(text)s' or choose another type.", what=what, text=text[:40]
                )
            )
        return None
    try:
        match kind:
            case "text":
                return text.encode()
            case "json":
                msgspec.json.decode(text)
                return text.encode()
            case "hex":
                return bytes.fromhex(text)
            case "base64":
                return base64.b64decode(text.encode(), validate=True)
            case _:
                return int(text).to_bytes(_BITS[kind] // 8, signed=True)
    except (msgspec.DecodeError, RecursionError) as error:
        raise EntryError(phrase("%(what)s: not JSON: %(error)s.", what=what, error=error)) from None
    except UnicodeEncodeError:
        raise EntryError(phrase("%(what)s: the text cannot be written as UTF-8.", what=what)) from None
    except (binascii.Error, ValueError, OverflowError):
        allowed = {
            "hex": phrase("pairs of hexadecimal digits, as 00 ff"),
            "base64": phrase("base64, as AP8="),
            "int32": _range(32),
            "int64": _range(64),
        }[kind]
        raise EntryError(
            phrase("%(what)s: '%(text)s' is not %(allowed)s.", what=what, text=text[:40], allowed=allowed)
        ) from None


def _range(bits: int) -> str:
    most = 1 << bits - 1
    return phrase("a number from %(least)s to %(most)s", least=f"{-most:,}", most=f"{most - 1:,}")


def entered_headers(text: str) -> Headers:
    """Return the headers of lines NAME=VALUE; NAME alone has the content null. Raises EntryError."""
    found: list[tuple[str, bytes | None]] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        if not line:
            continue
        name, separator, value = line.partition("=")
        if not name:
            raise EntryError(
                phrase(
                    "Headers: '%(text)s' has no name; allowed are lines NAME=VALUE, and NAME for null.", text=line[:40]
                )
            )
        try:
            name.encode()
            found.append((name, value.encode() if separator else None))
        except UnicodeEncodeError:
            raise EntryError(phrase("Headers: the text cannot be written as UTF-8.")) from None
    return tuple(found)


def rest_body(key: bytes | None, value: bytes | None, headers: Headers, partition: int | None) -> dict[str, object]:
    """Return the body of REST v3's request that writes a record."""
    body: dict[str, object] = {} if partition is None else {"partition_id": partition}
    if headers:
        body["headers"] = [{"name": name, "value": _base64(content)} for name, content in headers]
    return {**body, "key": _typed(key), "value": _typed(value)}


def _typed(data: bytes | None) -> dict[str, object]:
    if data is None:
        return {"type": "BINARY", "data": None}
    try:
        return {"type": "STRING", "data": data.decode()}
    except UnicodeDecodeError:
        return {"type": "BINARY", "data": _base64(data)}


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
