"""Every version of every message, byte for byte as Kafka's own classes write it."""

import base64
from itertools import groupby
from typing import Any

import pytest

from kraft_core.protocol import control_records, messages, metadata_records
from kraft_core.protocol.api_keys import APIS, request_class, response_class
from kraft_core.protocol.codec import decode, encode
from kraft_core.protocol.uuids import uuid_to_text
from kraft_core.protocol.wire import FieldSpec, Message, fields_of
from tests.protocol.golden import Vector, snake_case, vectors

VECTORS = {name: list(lines) for name, lines in groupby(sorted(vectors(), key=lambda v: v.name), lambda v: v.name)}


def class_of(name: str) -> type[Message]:
    module = next((m for m in (metadata_records, control_records) if hasattr(m, name)), messages)
    found: type[Message] = getattr(module, name)
    return found


def assert_shown(message: Message, version: int, shown: dict[str, Any], path: str) -> None:
    """Compare a decoded message with Kafka's JSON of it; Kafka leaves out tagged fields that have their default."""
    values = {snake_case(name): value for name, value in shown.items()}
    for spec in fields_of(type(message)):
        ours = getattr(message, spec.name)
        if not spec.is_present(version) or (spec.wire.tag >= 0 and spec.name not in values):
            assert ours == spec.default, f"{path}.{spec.name}"
        else:
            assert_value(spec, ours, version, values.pop(spec.name), f"{path}.{spec.name}")
    left = {name for name, value in values.items() if name != "unknown_tagged_fields"}
    assert not left, f"{path}: Kafka has {left}"


def assert_value(spec: FieldSpec, ours: Any, version: int, shown: Any, path: str) -> None:
    if ours is None or shown is None:
        assert ours is None, path
        assert shown is None, path
        return
    if not spec.is_array:
        assert_element(spec, ours, version, shown, path)
        return
    assert len(ours) == len(shown), path
    for element, shown_element in zip(ours, shown, strict=True):
        assert_element(spec, element, version, shown_element, path)


def assert_element(spec: FieldSpec, ours: Any, version: int, shown: Any, path: str) -> None:
    if isinstance(ours, Message):
        assert_shown(ours, version, shown, path)
    elif spec.kind == "records":
        assert shown == "", "Kafka's converter shows no records; the bytes were compared"
    elif spec.kind == "bytes":
        assert ours == base64.b64decode(shown), path
    elif spec.kind == "uuid":
        assert uuid_to_text(ours) == shown, path
    else:
        assert ours == shown, path


@pytest.mark.parametrize("name", VECTORS)
def test_bytes_and_values_are_those_of_kafka(name: str) -> None:
    message_class = class_of(name)
    for vector in VECTORS[name]:
        message = decode(message_class, vector.version, vector.data)
        assert encode(message, vector.version) == vector.data, vector
        assert_shown(message, vector.version, vector.shown, name)


def test_every_version_of_every_message_is_compared_with_kafka() -> None:
    classes = [kind(key) for key in APIS for kind in (request_class, response_class)]
    classes += metadata_records.RECORD_CLASSES.values()
    expected = {(c.__name__, version) for c in classes for version in range(c.VERSIONS[0], c.VERSIONS[1] + 1)}
    compared = {(vector.name, vector.version) for lines in VECTORS.values() for vector in lines}
    assert expected <= compared


def test_a_changed_byte_is_detected() -> None:
    vector = Vector(
        "TopicRecord", 0, b"\x02a" + bytes(15) + b"\x07\x00", {"name": "a", "topicId": "AAAAAAAAAAAAAAAAAAAACA"}
    )
    message = decode(class_of(vector.name), 0, vector.data)
    with pytest.raises(AssertionError, match="topic_id"):
        assert_shown(message, 0, vector.shown, vector.name)
