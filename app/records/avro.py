"""Reads Avro's binary encoding, of which anybody who may produce can write any bytes.

Depth, items and bytes are bounded, so that no data and no schema can exhaust the stack, the memory or the time. (The
compiled reader of fastavro 1.13 ends the process on data of 5 kB that nests a recursive type.)

Source: Avro 1.12 specification, sections "Schema Declaration", "Binary encoding" and "Logical Types".
"""

import datetime as dt
import struct
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec

DEPTH_MAX: Final = 64
ITEMS_MAX: Final = 20_000
SCHEMA_DEPTH_MAX: Final = 64

_PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


class AvroError(ValueError):
    """A schema or data is not Avro, or is beyond the bounds."""


class _Data:
    """Bytes being read, and what may still be read of them."""

    __slots__ = ("at", "bytes", "items")

    def __init__(self, data: bytes) -> None:
        self.bytes = data
        self.at = 0
        self.items = ITEMS_MAX

    def take(self, count: int) -> bytes:
        end = self.at + count
        if count < 0 or end > len(self.bytes):
            raise AvroError(f"{count} bytes at position {self.at} of {len(self.bytes)}")
        found, self.at = self.bytes[self.at : end], end
        return found

    def long(self) -> int:
        """Return a zigzag varint of at most 64 bits."""
        value = shift = 0
        while shift < 70:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise AvroError(f"a number of more than 64 bits at position {self.at}")

    def count(self, most: int = 1) -> None:
        """Count items of the result."""
        self.items -= most
        if self.items < 0:
            raise AvroError(f"more than {ITEMS_MAX:,} items")


_Read = Callable[[_Data, int], Any]


class AvroSchema:
    """A parsed schema. `named` are types of schemas that this one refers to, and gets its own. Raises AvroError."""

    def __init__(self, schema: str, named: dict[str, Any] | None = None) -> None:
        self._named: dict[str, Any] = {} if named is None else named
        try:
            self._root = self._resolve(msgspec.json.decode(schema), "", 0)
        except (msgspec.DecodeError, RecursionError, TypeError, KeyError, AttributeError) as error:
            raise AvroError(f"not an Avro schema: {type(error).__name__} {error}") from None

    def decode(self, data: bytes) -> Any:
        """Return the value of some bytes, as JSON can hold it except for numbers. Raises AvroError."""
        reading = _Data(data)
        value = self._read(self._root, reading, DEPTH_MAX)
        if reading.at != len(data):
            raise AvroError(f"{len(data) - reading.at} bytes are left behind the value")
        return value

    # Schemas

    def _resolve(self, schema: Any, namespace: str, depth: int) -> Any:
        """Return a schema with full names of types, and remember the named ones."""
        if depth > SCHEMA_DEPTH_MAX:
            raise AvroError(f"the schema is nested more than {SCHEMA_DEPTH_MAX} deep")
        if isinstance(schema, str):
            return schema if schema in _PRIMITIVES else self._name(schema, namespace)
        if isinstance(schema, list):
            return [self._resolve(each, namespace, depth + 1) for each in schema]
        kind = schema["type"]
        if kind == "array":
            return {**schema, "items": self._resolve(schema["items"], namespace, depth + 1)}
        if kind == "map":
            return {**schema, "values": self._resolve(schema["values"], namespace, depth + 1)}
        if kind in {"record", "error", "enum", "fixed"}:
            return self._declare(schema, namespace, depth)
        return schema if isinstance(kind, str) and kind in _PRIMITIVES else self._resolve(kind, namespace, depth + 1)

    def _declare(self, schema: Mapping[str, Any], namespace: str, depth: int) -> str:
        name = _full_name(schema["name"], schema.get("namespace", namespace))
        made = self._named[name] = dict(schema)
        if schema["type"] in {"record", "error"}:
            made["type"] = "record"
            inner = name.rpartition(".")[0]
            made["fields"] = [
                (str(each["name"]), self._resolve(each["type"], inner, depth + 1)) for each in schema["fields"]
            ]
        return name

    def _name(self, name: str, namespace: str) -> str:
        full = _full_name(name, namespace)
        if full in self._named:
            return full
        if name in self._named:
            return name
        raise AvroError(f"the type '{name[:200]}' is not declared")

    # Data

    def _read(self, schema: Any, data: _Data, depth: int) -> Any:
        data.count()
        if depth <= 0:
            raise AvroError(f"the data is nested more than {DEPTH_MAX} deep")
        if isinstance(schema, list):
            index = data.long()
            if not 0 <= index < len(schema):
                raise AvroError(f"branch {index} of a union of {len(schema)}")
            return self._read(schema[index], data, depth - 1)
        described: Mapping[str, Any] = self._named.get(schema, {"type": schema}) if isinstance(schema, str) else schema
        match described["type"]:
            case "record":
                return {name: self._read(kind, data, depth - 1) for name, kind in described["fields"]}
            case "array":
                return self._blocks(data, lambda: self._read(described["items"], data, depth - 1))
            case "map":
                return dict(self._blocks(data, lambda: (_text(data), self._read(described["values"], data, depth - 1))))
            case "enum":
                index = data.long()
                if not 0 <= index < len(described["symbols"]):
                    raise AvroError(f"symbol {index} of an enum of {len(described['symbols'])}")
                return described["symbols"][index]
            case "fixed":
                return _logical(described, data.take(int(described["size"])))
            case kind:
                return _logical(described, _READERS[kind](data))

    @staticmethod
    def _blocks(data: _Data, read: Callable[[], Any]) -> list[Any]:
        found = []
        while count := data.long():
            if count < 0:
                count = -count
                data.long()  # the size of the block in bytes
            if count > data.items:
                raise AvroError(f"a block of {count} items")
            found += [read() for _ in range(count)]
        return found


def _full_name(name: str, namespace: str | None) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _text(data: _Data) -> str:
    return data.take(data.long()).decode(errors="replace")


_READERS: Final[dict[str, Callable[[_Data], Any]]] = {
    "null": lambda _data: None,
    "boolean": lambda data: data.take(1) != b"\0",
    "int": lambda data: data.long(),
    "long": lambda data: data.long(),
    "float": lambda data: _FLOAT.unpack(data.take(4))[0],
    "double": lambda data: _DOUBLE.unpack(data.take(8))[0],
    "bytes": lambda data: data.take(data.long()),
    "string": _text,
}
_SINCE_EPOCH: Final = {"timestamp-millis": 1_000, "timestamp-micros": 1, "local-timestamp-millis": 1_000}


def _logical(described: Mapping[str, Any], value: Any) -> Any:
    """Return a value as its logical type is written, or as it is."""
    logical = described.get("logicalType")
    try:
        if logical == "decimal" and isinstance(value, bytes):
            scale = int(described.get("scale", 0))
            number = int.from_bytes(value[:1_000], signed=True)
            return str(Decimal(number).scaleb(-scale)) if 0 <= scale <= 1_000 else value
        if logical == "uuid" and isinstance(value, bytes) and len(value) == 16:
            return str(uuid.UUID(bytes=value))
        if logical == "date" and isinstance(value, int):
            return (_EPOCH + dt.timedelta(days=value)).date().isoformat()
        if logical in _SINCE_EPOCH and isinstance(value, int):
            moment = _EPOCH + dt.timedelta(microseconds=value * _SINCE_EPOCH[logical])
            return moment.isoformat().removesuffix("+00:00") + ("" if logical.startswith("local") else "Z")
    except (OverflowError, ArithmeticError):
        return value
    return value
