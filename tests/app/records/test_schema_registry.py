"""Values decoded by a schema registry over real HTTP; fastavro and Google's runtime write what we read."""

import asyncio
import base64
import contextlib
import datetime as dt
import decimal
import io
import json
import struct
import uuid
from collections.abc import Iterator

import fastavro
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st

from app.records.avro import AvroError, AvroSchema
from app.records.contents import Content, Decoder
from app.records.schema_registry import RegistrySettings, SchemaError, SchemaRegistry
from kraft_core.clients.consumer.clipping_decoder import ClippedRecord
from kraft_core.clients.consumer.consumer_record import ConsumerRecord
from kraft_core.clients.consumer.uniform_records import Raw
from tests.app.records.registry import LOGIN, Registry, running_registry

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["GOOD", "BAD"]}},
        ]}}},
        {"name": "by_name", "type": {"type": "map", "values": "double"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "hash", "type": {"type": "fixed", "name": "Two", "size": 2}},
        {"name": "other", "type": ["null", "Line"]},
        {"name": "uid", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}  # fmt: skip


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as running:
        yield running


def framed(number: int, data: bytes) -> bytes:
    return struct.pack(">bI", 0, number) + data


def avro(schema: object, value: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def record(value: bytes | None, key: bytes | None = None) -> Raw:
    return ConsumerRecord("t", 0, 0, 0, 0, key, value)


def shown(schemas: SchemaRegistry, *records: Raw, value_format: str = "auto") -> list[Content]:
    """Return the values of records as they are shown."""

    async def run() -> list[Content]:
        decoder = Decoder("t", "auto", value_format, schemas)
        await decoder.prepare(records)
        return [decoder.shown(each, 10_000)[1] for each in records]

    return asyncio.run(run())


def test_avro_is_shown_as_json_and_each_schema_is_fetched_once(registry: Registry) -> None:
    registry.add(7, ORDER)
    line = {"amount": decimal.Decimal("-12.50"), "kind": "BAD"}
    value = {
        "id": -(1 << 62),
        "note": "ü",
        "lines": [line, line],
        "by_name": {"a": 1.5},
        "at": dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC),
        "day": dt.date(1969, 12, 31),
        "hash": b"\x00\xff",
        "other": line,
        "uid": uuid.UUID(int=5),
    }
    schemas = SchemaRegistry(RegistrySettings(registry.url))
    data = framed(7, avro(ORDER, value))
    first, second = shown(schemas, record(data), record(data))
    assert first == second
    assert (first.kind, first.note, first.size) == ("Avro", "", len(data))
    expected_line = {"amount": "-12.50", "kind": "BAD"}
    assert json.loads(first.text) == {
        "id": -(1 << 62),
        "note": "ü",
        "lines": [expected_line, expected_line],
        "by_name": {"a": 1.5},
        "at": "2026-01-31T12:00:00Z",
        "day": "1969-12-31",
        "hash": "\x00\\xff",
        "other": expected_line,
        "uid": str(uuid.UUID(int=5)),
    }
    assert registry.requests == ["/schemas/ids/7"]


def test_avro_with_references_to_other_subjects(registry: Registry) -> None:
    address = {"type": "record", "name": "shop.Address", "fields": [{"name": "city", "type": "string"}]}
    customer = {"type": "record", "name": "shop.Customer", "fields": [{"name": "home", "type": "shop.Address"}]}
    registry.answers["/subjects/address%2Fvalue/versions/3"] = {"schema": json.dumps(address)}
    registry.add(8, customer, references=[{"name": "shop.Address", "subject": "address/value", "version": 3}])
    schemas = SchemaRegistry(RegistrySettings(registry.url))
    (content,) = shown(schemas, record(framed(8, b"\x06ABC")))
    assert json.loads(content.text) == {"home": {"city": "ABC"}}


def test_filters_see_what_a_schema_describes(registry: Registry) -> None:
    registry.add(7, {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]})
    schemas = SchemaRegistry(RegistrySettings(registry.url))
    decoder = Decoder("t", schemas=schemas)
    found = record(framed(7, b"\x54"))
    asyncio.run(decoder.prepare([found]))
    assert decoder.searched(found) == (None, b'{"n":42}')


def test_protobuf_by_descriptors_of_the_registry_with_references_and_nested_types(registry: Registry) -> None:
    other = descriptor_pb2.FileDescriptorProto(name="other.proto", package="shop", syntax="proto3")
    city = other.message_type.add(name="City")
    city.field.add(name="name", number=1, type=9, label=1)
    main = descriptor_pb2.FileDescriptorProto(
        name="main.proto", package="shop", syntax="proto3",
        dependency=["other.proto", "google/protobuf/timestamp.proto"],
    )  # fmt: skip
    main.message_type.add(name="Unused")
    order = main.message_type.add(name="Order")
    order.field.add(name="city", number=1, type=11, label=1, type_name=".shop.City")
    order.field.add(name="at_time", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    inner = order.nested_type.add(name="Inner")
    inner.field.add(name="n", number=1, type=3, label=1)
    registry.answers["/subjects/other/versions/1?format=serialized"] = {
        "schemaType": "PROTOBUF",
        "schema": base64.b64encode(other.SerializeToString()).decode(),
    }
    registry.add_protobuf(9, main, [{"name": "other.proto", "subject": "other", "version": 1}])
    schemas = SchemaRegistry(RegistrySettings(registry.url))
    at = timestamp_pb2.Timestamp(seconds=5).SerializeToString()
    message = b"\x0a\x05\x0a\x03ABC\x12" + bytes([len(at)]) + at
    first, second, third, fourth = shown(
        schemas,
        record(framed(9, b"\x02\x02" + message)),  # one index: 1
        record(framed(9, b"\x04\x02\x00\x08\x07")),  # two indexes: 1, 0
        record(framed(9, b"\x00")),  # the first type
        record(framed(9, b"\x02\x08")),  # no such type
    )
    assert json.loads(first.text) == {"city": {"name": "ABC"}, "at_time": "1970-01-01T00:00:05Z"}
    assert json.loads(second.text) == {"n": "7"}
    assert (third.kind, third.text) == ("Protobuf", "{}")
    assert fourth.kind == "hex"
    assert "not of its Protobuf schema" in fourth.note


def test_json_schema_and_a_login(registry: Registry) -> None:
    registry.login = LOGIN
    registry.add(5, {"type": "object"}, "JSON")
    settings = RegistrySettings(registry.url + "/", "reader", "secret")
    assert "secret" not in repr(settings)
    (content,) = shown(SchemaRegistry(settings), record(framed(5, b'{"a":1}')))
    assert (content.kind, json.loads(content.text)) == ("JSON Schema", {"a": 1})
    (refused,) = shown(SchemaRegistry(RegistrySettings(registry.url)), record(framed(5, b'{"a":1}')))
    assert refused.note == "the schema registry answers with HTTP 401"


def test_a_registry_is_asked_before_it_is_kept(registry: Registry) -> None:
    registry.answers["/schemas/types"] = ["AVRO", "PROTOBUF"]
    asyncio.run(SchemaRegistry(RegistrySettings(registry.url)).check())
    for answer, said in (({"schema": "x"}, "what answers is no schema registry"), (None, "has no /schemas/types")):
        registry.answers["/schemas/types"] = answer
        with pytest.raises(SchemaError, match=said):
            asyncio.run(SchemaRegistry(RegistrySettings(registry.url)).check())


def test_a_registry_that_is_down_costs_a_label_and_the_bytes_are_shown(registry: Registry) -> None:
    with running_registry() as gone:
        url = gone.url
    down, unknown, no_id = (
        *shown(SchemaRegistry(RegistrySettings(url)), record(framed(1, b"abc"))),
        *shown(SchemaRegistry(RegistrySettings(registry.url)), record(framed(1, b"abc")), record(b"\x00ab")),
    )
    assert down.note.startswith("the schema registry cannot be reached")
    assert (down.kind, down.text) == ("hex", "00 00 00 00 01 61 62 63")
    assert unknown.note == "the schema registry has no /schemas/ids/1"
    assert no_id.note == "does not begin with the id of a schema"


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        ({"schema": "{"}, "not an Avro schema"),
        ({"schema": '{"type": "record"}'}, "not an Avro schema"),
        ({"schema": '"unknown.Type"'}, "the type 'unknown.Type' is not declared"),
        ({"schema": json.dumps("int"), "references": [{"name": "x"}]}, "references cannot be read"),
        ({"schema": "x", "schemaType": "XML"}, "of the unknown type XML"),
        ({"schemas": 1}, "something else than a schema"),
        (["schema"], "something else than a schema"),
    ],
)
def test_a_wrong_answer_of_the_registry_is_named(registry: Registry, answer: object, note: str) -> None:
    registry.answers["/schemas/ids/1"] = answer
    (content,) = shown(SchemaRegistry(RegistrySettings(registry.url)), record(framed(1, b"abc")))
    assert note in content.note
    assert content.kind == "hex"


def test_a_clipped_value_is_not_decoded(registry: Registry) -> None:
    registry.add(7, '"string"')
    clipped = ClippedRecord("t", 0, 0, 0, 0, None, framed(7, b"\x06ABC"), (), None, -1, 100_000, True)
    (content,) = shown(SchemaRegistry(RegistrySettings(registry.url)), clipped)
    assert (content.note, content.size) == ("too long to be decoded here", 100_000)


NESTED = json.dumps({"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]})


@pytest.mark.parametrize(
    ("schema", "data", "message"),
    [
        (NESTED, b"\x02" * 100_000 + b"\x00", "nested more than"),
        ('{"type": "array", "items": "null"}', b"\xfe\xff\xff\xff\x0f\x00", "a block of"),
        (
            '{"type": "array", "items": {"type": "array", "items": "null"}}',
            b"\xa0\x1f" + b"\x88\x27" * 2_000,
            "more than|block",
        ),
        ('"string"', b"\x0aab", "bytes at position"),
        ('"string"', b"\x01", "bytes at position"),
        ('"bytes"', b"\xff" * 11, "more than 64 bits"),
        ('["null"]', b"\x02", "branch 1 of a union of 1"),
        ('{"type": "enum", "name": "E", "symbols": ["A"]}', b"\x02", "symbol 1 of an enum of 1"),
        ('"int"', b"\x00\x00", "1 bytes are left behind"),
    ],
)  # fmt: skip
def test_hostile_avro_is_refused(schema: str, data: bytes, message: str) -> None:
    with pytest.raises(AvroError, match=message):
        AvroSchema(schema).decode(data)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_avro_error(data: bytes) -> None:
    with contextlib.suppress(AvroError):
        AvroSchema(json.dumps(ORDER)).decode(data)


VALUES = st.fixed_dictionaries(
    {
        "flag": st.booleans(),
        "big": st.integers(-(1 << 63), (1 << 63) - 1),
        "text": st.text(),
        "raw": st.binary(),
        "many": st.lists(st.none() | st.floats(allow_nan=False) | st.text(), max_size=5),
        "named": st.dictionaries(st.text(), st.lists(st.integers(-100, 100), max_size=3), max_size=3),
    }
)
DRAWN = {
    "type": "record",
    "name": "Drawn",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "big", "type": "long"},
        {"name": "text", "type": "string"},
        {"name": "raw", "type": "bytes"},
        {"name": "many", "type": {"type": "array", "items": ["null", "double", "string"]}},
        {"name": "named", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
    ],
}


@given(VALUES)
def test_what_fastavro_writes_is_read(value: dict[str, object]) -> None:
    assert AvroSchema(json.dumps(DRAWN)).decode(avro(DRAWN, value)) == value
