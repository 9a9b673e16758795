"""How keys and values are shown: decoded by a format, and as text that shows what it hides."""

import base64
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from app.records.schema_registry import SchemaError, SchemaRegistry, schema_id
from app.texts import phrase, sentence_of
from kraft_core.broker.coordinator.group_records import GroupRecord, OffsetRecord, read_record
from kraft_core.clients.consumer.clipping_decoder import ClippedRecord
from kraft_core.clients.consumer.uniform_records import Raw
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.internal_topics import CONSUMER_OFFSETS
from kraft_core.protocol.primitives import Malformed

Format = Literal["auto", "text", "json", "hex", "base64", "integer", "schema"]
FORMATS: Final[tuple[Format, ...]] = ("auto", "text", "json", "hex", "base64", "integer", "schema")
INTEGER_SIZES: Final = frozenset({1, 2, 4, 8})

_HIDDEN: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Content:
    """A key, a value or the content of a header, as it is shown.

    `kind`: null, empty, text, JSON, hex, base64, integer, Avro, Protobuf, JSON Schema or group record. `size` is that
    of the bytes, -1 for null. `text` has at most the wanted length, and then `is_cut`. `note` says why the wanted
    format is not shown.
    """

    kind: str
    text: str
    size: int
    is_cut: bool = False
    note: str = ""


class Decoder:
    """Decodes the records of one topic by the formats of keys and values."""

    def __init__(
        self,
        topic: str,
        key_format: Format = "auto",
        value_format: Format = "auto",
        schemas: SchemaRegistry | None = None,
    ) -> None:
        self._is_groups = topic == CONSUMER_OFFSETS
        self._key_format = key_format
        self._value_format = value_format
        self._schemas = schemas

    async def prepare(self, records: Iterable[Raw]) -> None:
        """Fetch the schemas that these records need."""
        if self._schemas is None or self._is_groups:
            return
        wanted = [
            content
            for record in records
            for content, chosen in ((record.key, self._key_format), (record.value, self._value_format))
            if content is not None and chosen in {"auto", "schema"}
        ]
        await self._schemas.load(wanted)

    def searched(self, record: Raw) -> tuple[bytes | None, bytes | None]:
        """Return key and value as filters see them: the JSON of those that a schema describes, else the bytes."""
        if self._is_groups and (decoded := _group_record(record)) is not None:
            key, value = decoded
            return _json(key), None if value is None else _json(value)
        return self._searched(record.key, self._key_format), self._searched(record.value, self._value_format)

    def _searched(self, data: bytes | None, chosen: Format) -> bytes | None:
        if data is None or self._schemas is None or chosen not in {"auto", "schema"} or schema_id(data) is None:
            return data
        try:
            return _json(self._schemas.decode(data)[1])
        except SchemaError:
            return data

    def shown(self, record: Raw, most: int) -> tuple[Content, Content]:
        """Return key and value with at most `most` characters."""
        key_size, value_size = sizes_of(record)
        if self._is_groups and (decoded := _group_record(record)) is not None:
            key, value = decoded
            return (
                _cut(phrase("group record"), _pretty(key), key_size, most),
                _cut(phrase("group record"), _pretty(value), value_size, most) if value is not None else _null(),
            )
        return (
            self._content(record.key, key_size, self._key_format, most),
            self._content(record.value, value_size, self._value_format, most),
        )

    def _content(self, data: bytes | None, size: int, chosen: Format, most: int) -> Content:
        if data is None:
            return _null()
        if not size:
            return Content(phrase("empty"), "", 0)
        note: str = ""
        if size != len(data):
            note = phrase("the first %(part)s of %(size)s bytes", part=f"{len(data):,}", size=f"{size:,}")
        if chosen == "schema" or (chosen == "auto" and self._schemas is not None and data[0] == 0):
            try:
                kind, value = self._by_schema(data, is_whole=not note)
            except SchemaError as error:
                note = sentence_of(error)
            else:
                return _cut(kind, _pretty(value), size, most)
        return content_of(data, chosen, most, size=size, note=note)

    def _by_schema(self, data: bytes, *, is_whole: bool) -> tuple[str, Any]:
        if self._schemas is None:
            raise SchemaError(phrase("no schema registry is configured (schema_registry_url)"))
        if not is_whole:
            raise SchemaError(phrase("too long to be decoded here"))
        return self._schemas.decode(data)


def content_of(data: bytes | None, chosen: Format, most: int, *, size: int | None = None, note: str = "") -> Content:
    """Return bytes in a format; in hexadecimal, with a note, those that are not of it.

    `auto` and `schema` choose JSON, text or hexadecimal. `size` is the whole size if `data` is only a beginning.
    """
    if data is None:
        return _null()
    size = len(data) if size is None else size
    if not data:
        return Content(phrase("empty"), "", 0)
    match chosen:
        case "hex":
            return _cut("hex", data[:most].hex(" "), size, most, note, more=len(data) > most)
        case "base64":
            return _cut("base64", base64.b64encode(data[:most]).decode(), size, most, note, more=len(data) > most)
        case "integer":
            if len(data) in INTEGER_SIZES:
                return Content(phrase("integer"), str(int.from_bytes(data, signed=True)), size, note=note)
            return _unfit(
                data, size, most, phrase("%(size)s bytes are not an integer of 1, 2, 4 or 8 bytes", size=size)
            )
        case "json":
            text = _json_text(data, only_containers=False)
            return (
                _unfit(data, size, most, note or phrase("not JSON")) if text is None else _cut("JSON", text, size, most)
            )
        case "text":
            return _cut(phrase("text"), _decoded(data[: most * 4]), size, most, note, more=len(data) > most * 4)
        case _:
            return _guessed(data, size, most, note)


def _guessed(data: bytes, size: int, most: int, note: str) -> Content:
    text = _json_text(data, only_containers=True)
    if text is not None:
        return _cut("JSON", text, size, most, note)
    beginning = data[: most * 4]
    try:
        text = beginning.decode()
    except UnicodeDecodeError as error:
        # A beginning may end within a character.
        if len(beginning) == size or error.start < len(beginning) - 3:
            return _cut("hex", data[:most].hex(" "), size, most, note, more=len(data) > most)
        text = beginning[: error.start].decode()
    if _CONTROLS.search(text):
        return _cut("hex", data[:most].hex(" "), size, most, note, more=len(data) > most)
    return _cut(phrase("text"), text, size, most, note, more=len(beginning) < size)


def sizes_of(record: Raw) -> tuple[int, int]:
    """Return the sizes of key and value in bytes, -1 for null."""
    if isinstance(record, ClippedRecord):
        return record.key_size, record.value_size
    return -1 if record.key is None else len(record.key), -1 if record.value is None else len(record.value)


def visible(text: str) -> str:
    r"""Return text with control characters and marks that reorder or hide text written as \u202e."""
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _null() -> Content:
    return Content("null", "", -1)


def _cut(kind: str, text: str, size: int, most: int, note: str = "", *, more: bool = False) -> Content:
    return Content(kind, visible(text[:most]), size, more or len(text) > most, note)


def _unfit(data: bytes, size: int, most: int, note: str) -> Content:
    return _cut("hex", data[:most].hex(" "), size, most, note, more=len(data) > most)


def _decoded(data: bytes) -> str:
    r"""Return UTF-8 as text, with other bytes as \xff."""
    return data.decode(errors="backslashreplace")


def _json_text(data: bytes, *, only_containers: bool) -> str | None:
    """Return JSON indented, with its numbers as they are; None if it is not JSON."""
    if only_containers and data.lstrip()[:1] not in {b"{", b"["}:
        return None
    try:
        msgspec.json.decode(data)
        return msgspec.json.format(data, indent=2).decode()
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _json(value: Any) -> bytes:
    return msgspec.json.encode(_with_text(value))


def _with_text(value: Any) -> Any:
    """Return a value with bytes as text."""
    if isinstance(value, bytes):
        return _decoded(value)
    if isinstance(value, dict):
        return {name: _with_text(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_text(each) for each in value]
    return value


def _pretty(value: Any) -> str:
    return msgspec.json.format(_json(value), indent=2).decode()


def _group_record(record: Raw) -> tuple[Any, Any] | None:
    """Return key and value of a record of __consumer_offsets, None if it cannot be decoded here."""
    if record.key is None or isinstance(record, ClippedRecord):
        return None
    try:
        found = read_record(record.key, record.value)
    except (KafkaError, Malformed):
        return None
    match found:
        case OffsetRecord():
            key: dict[str, object] = {"group": found.group_id, "topic": found.topic, "partition": found.partition}
            return key, None if found.value is None else _fields(found.value)
        case GroupRecord():
            return {"group": found.group_id}, None if found.value is None else msgspec.to_builtins(found.value)
        case _:
            return None


def _fields(value: Any) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__slots__}
