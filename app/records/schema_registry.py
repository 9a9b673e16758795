"""Schemas of a registry with Confluent's API, by their ids, and the values that they describe.

A value in Confluent's wire format begins with a zero byte and the id of its schema as int32; in Protobuf the path to
the message type follows. Schemas never change, so they are kept; failures are kept for a few seconds. A registry that
cannot be reached costs the decoding and nothing else.

Protobuf schemas are asked for as serialized FileDescriptorProtos (`format=serialized`), so that no compiler is needed.
"""

import asyncio
import base64
import http.client
import json
import ssl
import struct
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from app.config import Settings
from app.records.avro import AvroError, AvroSchema
from app.texts import phrase
from kraft_core.protocol.primitives import Malformed, decode_varint

TIMEOUT_SECONDS: Final = 3.0
ANSWER_BYTES_MAX: Final = 4 << 20
SCHEMAS_MAX: Final = 1_000
REFERENCES_MAX: Final = 100
FAILURE_SECONDS: Final = 10.0
CONCURRENCY: Final = 4
IDS_AT_ONCE: Final = 50
_HEADER: Final = struct.Struct(">bI")


class SchemaError(Exception):
    """A value cannot be decoded with its schema. The text says why."""


class RegistryUnreachableError(SchemaError):
    """The registry did not answer, or not as one."""


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """Where the registry is. `ca_file` is a PEM file of trusted certificates, None for the system's."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    ca_file: Path | None = None

    @classmethod
    def of(cls, settings: Settings) -> "RegistrySettings | None":
        """Return the registry of a cluster's settings, None if they have none."""
        if settings.schema_registry_url is None:
            return None
        password = settings.schema_registry_password
        return cls(
            settings.schema_registry_url,
            settings.schema_registry_user,
            "" if password is None else password.get_secret_value(),
            settings.schema_registry_ca,
        )


Decode = Callable[[bytes], Any]
"""Returns a value as JSON can hold it. Raises SchemaError."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema by its kind (Avro, Protobuf, JSON Schema), and how its values are decoded."""

    kind: str
    decode: Decode


def schema_id(data: bytes) -> int | None:
    """Return the id of the schema of a value in Confluent's wire format, None if it cannot be one."""
    if len(data) < _HEADER.size or data[0] != 0:
        return None
    return int(_HEADER.unpack_from(data)[1])


class SchemaRegistry:
    """The schemas of one registry, as far as they were needed. Used on the event loop."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._fetch = _Fetcher(settings)
        self._schemas: OrderedDict[int, Schema] = OrderedDict()
        self._failures: dict[int, tuple[float, SchemaError]] = {}
        self._limit = asyncio.Semaphore(CONCURRENCY)

    async def check(self) -> None:
        """Ask the registry for the types of schemas that it knows. Raises SchemaError unless it answers as one."""
        found = await asyncio.to_thread(self._fetch.any, "/schemas/types")
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise RegistryUnreachableError(phrase("what answers is no schema registry"))

    async def load(self, values: Iterable[bytes]) -> None:
        """Fetch the schemas of some values, as far as they are unknown: at most IDS_AT_ONCE of them."""
        now = time.monotonic()
        self._failures = {each: failure for each, failure in self._failures.items() if now < failure[0]}
        ids = {found for value in values if (found := schema_id(value)) is not None}
        wanted = sorted(ids - self._schemas.keys() - self._failures.keys())[:IDS_AT_ONCE]
        await asyncio.gather(*(self._load(each) for each in wanted))

    def decode(self, data: bytes) -> tuple[str, Any]:
        """Return the kind of the schema and the value. Raises SchemaError, also for schemas that are not loaded."""
        number = schema_id(data)
        if number is None:
            raise SchemaError(phrase("does not begin with the id of a schema"))
        schema = self._schemas.get(number)
        if schema is None:
            raise (
                self._failures[number][1]
                if number in self._failures
                else SchemaError(phrase("schema %(id)s not loaded", id=number))
            )
        self._schemas.move_to_end(number)
        return schema.kind, schema.decode(data[_HEADER.size :])

    async def _load(self, number: int) -> None:
        try:
            async with self._limit:
                self._schemas[number] = await asyncio.to_thread(_schema, self._fetch, number)
        except SchemaError as error:
            self._failures[number] = (time.monotonic() + FAILURE_SECONDS, error)
        while len(self._schemas) > SCHEMAS_MAX:
            self._schemas.popitem(last=False)


class _Fetcher:
    """One request to the registry at a time, in a thread."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._parts = urlsplit(settings.url)
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if settings.user:
            login = base64.b64encode(f"{settings.user}:{settings.password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {login}"
        self._tls = ssl.create_default_context(cafile=settings.ca_file) if self._parts.scheme == "https" else None

    def __call__(self, path: str) -> dict[str, Any]:
        """Return the JSON object of a schema. Raises SchemaError."""
        found = self.any(path)
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise RegistryUnreachableError(phrase("the schema registry answers with something else than a schema"))
        return found

    def any(self, path: str) -> Any:
        """Return JSON, None if the answer is none. Raises SchemaError."""
        host, port = self._parts.hostname or "", self._parts.port
        connection = (
            http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
            if self._tls is None
            else http.client.HTTPSConnection(host, port, timeout=TIMEOUT_SECONDS, context=self._tls)
        )
        try:
            connection.request("GET", self._parts.path.rstrip("/") + path, headers=self._headers)
            answer = connection.getresponse()
            content = answer.read(ANSWER_BYTES_MAX + 1)
        except (OSError, http.client.HTTPException) as error:
            raise RegistryUnreachableError(
                phrase("the schema registry cannot be reached: %(error)s", error=error)
            ) from None
        finally:
            connection.close()
        if answer.status == http.HTTPStatus.NOT_FOUND:
            raise SchemaError(phrase("the schema registry has no %(path)s", path=path.partition("?")[0]))
        if answer.status != http.HTTPStatus.OK:
            raise RegistryUnreachableError(
                phrase("the schema registry answers with HTTP %(status)s", status=answer.status)
            )
        try:
            return msgspec.json.decode(content) if len(content) <= ANSWER_BYTES_MAX else None
        except (msgspec.DecodeError, RecursionError):
            return None


def _schema(fetch: _Fetcher, number: int) -> Schema:
    found = fetch(f"/schemas/ids/{number}")
    match found.get("schemaType", "AVRO"):
        case "AVRO":
            return _avro(fetch, found)
        case "JSON":
            return Schema("JSON Schema", _json_value)
        case "PROTOBUF":
            return _protobuf(fetch, fetch(f"/schemas/ids/{number}?format=serialized"))
        case other:
            raise SchemaError(phrase("schema %(id)s is of the unknown type %(type)s", id=number, type=str(other)[:50]))


def _references(
    fetch: _Fetcher, found: Mapping[str, Any], query: str, use: Callable[[str, Mapping[str, Any]], object]
) -> None:
    """Call `use` with the name and the answer of each schema that one refers to, those they refer to first."""
    seen: set[str] = set()

    def walk(schema: Mapping[str, Any]) -> None:
        for each in schema.get("references") or ():
            name = str(each["name"])
            if name in seen:
                continue
            seen.add(name)
            if len(seen) > REFERENCES_MAX:
                raise SchemaError(phrase("the schema refers to more than %(most)s others", most=REFERENCES_MAX))
            inner = fetch(f"/subjects/{quote(str(each['subject']), safe='')}/versions/{int(each['version'])}{query}")
            walk(inner)
            use(name, inner)

    try:
        walk(found)
    except (KeyError, TypeError, ValueError) as error:
        raise SchemaError(phrase("the schema's references cannot be read: %(error)s", error=error)) from None


def _avro(fetch: _Fetcher, found: Mapping[str, Any]) -> Schema:
    named: dict[str, Any] = {}
    try:
        _references(fetch, found, "", lambda _name, inner: AvroSchema(inner["schema"], named))
        schema = AvroSchema(found["schema"], named)
    except AvroError as error:
        raise SchemaError(str(error)) from None

    def decode(data: bytes) -> Any:
        try:
            return schema.decode(data)
        except (AvroError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise SchemaError(phrase("not of its Avro schema: %(error)s", error=error)) from None

    return Schema("Avro", decode)


def _json_value(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise SchemaError(phrase("not JSON: %(error)s", error=error)) from None


def _protobuf(fetch: _Fetcher, found: Mapping[str, Any]) -> Schema:
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
    from google.protobuf.message import DecodeError

    pool = descriptor_pool.DescriptorPool()

    def add(name: str, schema: Mapping[str, Any]) -> Any:
        file = descriptor_pb2.FileDescriptorProto()
        try:
            file.ParseFromString(base64.b64decode(schema["schema"], validate=True))
            file.name = name
            for dependency in file.dependency:
                _add_well_known(pool, dependency)
            pool.Add(file)
        except (DecodeError, ValueError, TypeError) as error:
            raise SchemaError(
                phrase("the registry gives no usable descriptor of %(name)s: %(error)s", name=name, error=error)
            ) from None
        return file

    _references(fetch, found, "?format=serialized", add)
    file = add("default", found)
    try:
        types = pool.FindFileByName(file.name).message_types_by_name
    except (KeyError, TypeError) as error:
        raise SchemaError(phrase("the registry's descriptor is incomplete: %(error)s", error=error)) from None
    top = [types[each.name] for each in file.message_type]

    def decode(data: bytes) -> Any:
        try:
            described, start = _message_type(top, data)
            message = message_factory.GetMessageClass(described)()
            message.ParseFromString(data[start:])
            return json.loads(
                json_format.MessageToJson(message, preserving_proto_field_name=True, descriptor_pool=pool)
            )
        except (DecodeError, Malformed, IndexError, ValueError, TypeError, RecursionError, json_format.Error) as error:
            raise SchemaError(phrase("not of its Protobuf schema: %(error)s", error=error)) from None

    return Schema("Protobuf", decode)


def _add_well_known(pool: Any, name: str) -> None:
    """Add a file of Google's own that this one depends on, such as google/protobuf/timestamp.proto."""
    from google.protobuf import (  # noqa: F401  # their import makes them known to the default pool
        any_pb2,
        descriptor_pb2,
        descriptor_pool,
        duration_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )

    if not name.startswith("google/protobuf/"):
        return
    try:
        known = descriptor_pool.Default().FindFileByName(name)
    except KeyError:
        return
    file = descriptor_pb2.FileDescriptorProto()
    known.CopyToProto(file)
    for dependency in file.dependency:
        _add_well_known(pool, dependency)
    pool.Add(file)


def _message_type(top: list[Any], data: bytes) -> tuple[Any, int]:
    """Return the type that a value names by indexes, and where the message begins."""
    count, at = decode_varint(data, 0)
    indexes = []
    if not 0 <= count <= 64:
        raise Malformed(f"{count} message indexes")
    for _ in range(count):
        index, at = decode_varint(data, at)
        indexes.append(index)
    found: Any = None
    for index in indexes or [0]:
        if index < 0:
            raise Malformed(f"message index {index}")
        found = (top if found is None else list(found.nested_types))[index]
    return found, at
