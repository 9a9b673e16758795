"""kio reads and writes the same messages: random vectors of every API and version both know.

kio refuses some values that Kafka allows (unknown error codes, negative timestamps), so the vectors here
avoid them; `test_golden_messages` has them.
"""

import io
import re
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from kraft_core.protocol.api_keys import APIS, ApiKey, request_class, response_class
from kraft_core.protocol.codec import decode, encode
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.wire import FieldSpec, Message
from tests.protocol import vectors

CASES = [
    (key, kind, version)
    for key, api in APIS.items()
    for kind in ("request", "response")
    for version in range(api.min_version, api.max_version + 1)
]
TIMESTAMP = re.compile(r"timestamp(_ms)?$|_ms$")


@dataclass(frozen=True)
class Drawn:
    """A random message and its bytes as we write them."""

    message: Message
    data: bytes


def kio_friendly(spec: FieldSpec, version: int, random: Random, depth: int) -> Any:
    """Draw a value that kio accepts as well."""
    if spec.kind == "int16" and spec.name.endswith("error_code"):
        return random.choice((-1, 0, 41, 42, 133))
    if spec.kind == "int64" and TIMESTAMP.search(spec.name):
        return random.choice((0, 1, 1_700_000_000_123))
    if spec.kind == "uuid":
        return UUID(int=random.choice((0, random.getrandbits(128))))
    return vectors.random_element(spec, version, random, depth, kio_friendly)


@cache
def kio_codec(key: ApiKey, kind: str, version: int) -> tuple[Any, Any]:
    load = load_request_schema if kind == "request" else load_response_schema
    schema: Any = load(int(key), version)
    return entity_reader(schema), entity_writer(schema)


def through_kio(key: ApiKey, kind: str, version: int, data: bytes) -> bytes:
    read, write = kio_codec(key, kind, version)
    entity, size = read(data, 0)
    assert size == len(data)
    out = io.BytesIO()
    write(out, entity)
    return out.getvalue()


@pytest.mark.parametrize(("key", "kind", "version"), CASES, ids=lambda value: getattr(value, "name", str(value)))
def test_kio_decodes_the_bytes_and_encodes_the_same(key: ApiKey, kind: str, version: int) -> None:
    message_class = request_class(key) if kind == "request" else response_class(key)
    random = Random(f"{key} {kind} {version}")
    for _ in range(8):
        message = vectors.random_message(message_class, version, random, element=kio_friendly)
        data = encode(message, version)
        assert through_kio(key, kind, version, data) == data
        assert decode(message_class, version, data) == message


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(min_value=0), case=st.sampled_from(CASES))
def test_kio_agrees_on_any_seed(seed: int, case: tuple[ApiKey, str, int]) -> None:
    key, kind, version = case
    message_class = request_class(key) if kind == "request" else response_class(key)
    message = vectors.random_message(message_class, version, Random(seed), element=kio_friendly)
    data = encode(message, version)
    assert through_kio(key, kind, version, data) == data
    assert decode(message_class, version, data) == message


def test_error_codes_are_those_of_kio() -> None:
    ours = {code.name.lower(): (code.value, code.retriable) for code in ErrorCode}
    theirs = {code.name: (code.value, code.retriable) for code in KioErrorCode}
    assert ours == theirs
