"""Our error responses compared with those of Kafka's request classes."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from kraft_core.controller.error_responses import error_response
from kraft_core.protocol.api_keys import APIS, ApiKey, request_class, response_class
from kraft_core.protocol.codec import decode, encode
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.wire import Message
from tests.interop import kafka
from tests.protocol.golden import Vector, vectors

pytestmark = pytest.mark.interop

REFUSED_BY_KAFKA = {ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS}
"""Requests whose examples contain enum values that Kafka's classes reject."""


def comparable(value: Any, name: str = "") -> Any:
    """Remove the text of messages; only its presence is compared."""
    if name == "error_message":
        return value is not None
    if isinstance(value, tuple):
        return [comparable(each) for each in value]
    if isinstance(value, Message):
        return {field: comparable(getattr(value, field), field) for field in value.__struct_fields__}
    return value


def test_every_error_is_where_kafka_puts_it(tmp_path: Path) -> None:
    names = {request_class(key).__name__: key for key, api in APIS.items() if "controller" in api.listeners}
    examples: list[tuple[ApiKey, Vector]] = [
        (names[vector.name], vector) for vector in vectors() if vector.name in names
    ]
    requests, responses = tmp_path / "requests.txt", tmp_path / "responses.txt"
    requests.write_text("".join(f"{int(key)} {each.version} {each.data.hex()}\n" for key, each in examples))
    program = Path(__file__).with_name("ErrorResponses.java")
    command = kafka.java(str(program), str(requests), str(responses))
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert outcome.returncode == 0, outcome.stderr
    compared = 0
    for (key, example), line in zip(examples, responses.read_text().splitlines(), strict=True):
        if line.startswith("-"):
            assert key in REFUSED_BY_KAFKA, f"{key.name} v{example.version}: {line}"
            continue
        theirs = decode(response_class(key), example.version, bytes.fromhex(line))
        request = decode(request_class(key), example.version, example.data)
        answer = error_response(request, example.version, ErrorCode.NOT_CONTROLLER, "why")
        ours = decode(type(answer), example.version, encode(answer, example.version))
        assert comparable(ours) == comparable(theirs), f"{key.name} v{example.version}"
        compared += 1
    assert compared > 100
