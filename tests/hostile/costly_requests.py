"""The most expensive requests that one frame can hold, for every API and version, generated from the schemas.

An attack fills one array of a request, at any depth, with as many of the smallest elements as the API's limits allow.
All are different, or all name the same existing resource. ApiVersions requests of a second client measure the wait of
others.
"""

import asyncio
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self
from uuid import UUID

from kraft_core.protocol.api_keys import ApiKey, request_class
from kraft_core.protocol.framing import encode_request
from kraft_core.protocol.messages import ApiVersionsRequest
from kraft_core.protocol.request_limits import limit_of
from kraft_core.protocol.wire import FieldSpec, Message, fields_of
from tests.interop.kafka import PATIENCE_S

ATTACK_BYTES_MAX = 20 * 1024 * 1024
LONG_NAME_BYTES = 240
INTEGERS = {"int8": 7, "int16": 15, "uint16": 15, "int32": 31, "int64": 63}


@dataclass(frozen=True)
class Attack:
    """One request. `path` names the full array."""

    api_key: ApiKey
    version: int
    path: tuple[str, ...]
    manner: str
    frame: bytes

    def __str__(self) -> str:
        """Return a name for reports."""
        return f"{self.api_key.name} v{self.version} {'.'.join(self.path)} {self.manner} {len(self.frame):,} bytes"


def array_paths(message_class: type[Message], version: int) -> Iterator[tuple[str, ...]]:
    """Yield the path of every array of a message."""
    for spec in fields_of(message_class):
        if not spec.is_present(version):
            continue
        if spec.is_array:
            yield (spec.name,)
        if spec.struct is not None:
            for inner in array_paths(spec.struct, version):
                yield (spec.name, *inner)


class Filler:
    """Builds messages whose array at `path` has `count` elements; other arrays have one."""

    def __init__(self, version: int, manner: str, known: str) -> None:
        self._version = version
        self._manner = manner
        self._known = known
        self._number = 0

    def message(self, message_class: type[Message], path: tuple[str, ...], count: int) -> Message:
        """Return one message."""
        values: dict[str, Any] = {}
        for spec in fields_of(message_class):
            if not spec.is_present(self._version):
                continue
            on_path = bool(path) and spec.name == path[0]
            if spec.wire.tag >= 0 and not on_path:
                continue
            values[spec.name] = self._value(spec, path[1:] if on_path else (), count, on_path=on_path)
        return message_class(**values)

    def _value(self, spec: FieldSpec, path: tuple[str, ...], count: int, *, on_path: bool) -> Any:
        if not spec.is_array:
            return self._one(spec, path, count)
        size = count if on_path and not path else 1
        return tuple(self._one(spec, path, count) for _ in range(size))

    def _one(self, spec: FieldSpec, path: tuple[str, ...], count: int) -> Any:
        self._number += 1
        number = self._number
        if spec.struct is not None:
            return self.message(spec.struct, path, count)
        if spec.kind in INTEGERS:
            if spec.name.endswith(("timeout_ms", "wait_ms")):
                return 10_000
            same = self._manner == "same" or spec.name.endswith(("type", "operation", "state"))
            return 1 if same else number % (1 << INTEGERS[spec.kind])
        match spec.kind:
            case "bool":
                return False
            case "float64":
                return 1.0
            case "uuid":
                return UUID(int=7 if self._manner == "same" else number)
            case "string":
                return self._name(number)
            case _:
                return b"" if self._manner == "same" else b"x"

    def _name(self, number: int) -> str:
        match self._manner:
            case "same":
                return self._known
            case "long":
                return f"{number:x}".rjust(LONG_NAME_BYTES, "a")
            case _:
                return f"{number:x}"


def attack(api_key: ApiKey, version: int, path: tuple[str, ...], manner: str, known: str = "known") -> Attack:
    """Return the largest request that the API's limits and 20 MiB allow."""
    limit = limit_of(api_key)
    max_bytes = min(limit.max_frame_bytes, ATTACK_BYTES_MAX)

    def build(count: int) -> tuple[bytes, int]:
        message = Filler(version, manner, known).message(request_class(api_key), path, count)
        return encode_request(message, version, 1, "attack"), _elements(message, version)

    few, many = build(1), build(101)
    by_elements = (limit.max_elements - few[1]) * 100 / (many[1] - few[1])
    by_bytes = (max_bytes - len(few[0])) * 100 / (len(many[0]) - len(few[0]))
    count = int(min(by_elements, by_bytes * 0.95 - 100)) + 1
    frame, elements = build(count)
    assert elements <= limit.max_elements, f"{api_key.name} {path}: {elements} elements"
    assert len(frame) - 4 <= max_bytes, f"{api_key.name} {path}: {len(frame)} bytes"
    return Attack(api_key, version, path, manner, frame)


def _elements(message: Message, version: int) -> int:
    """Return the number of elements and tagged fields as the decoder counts them."""
    total = 0
    for spec in fields_of(type(message)):
        if not spec.is_present(version):
            continue
        value = getattr(message, spec.name)
        total += spec.wire.tag >= 0 and value != spec.default
        if spec.is_array and value is not None:
            total += len(value)
            if spec.struct is not None:
                total += sum(_elements(each, version) for each in value)
        elif spec.struct is not None and value is not None:
            total += _elements(value, version)
    return total


async def strike(port: int, frame: bytes, timeout_s: float = PATIENCE_S) -> str:
    """Send a frame. Return "closed", "silent" or the size of the answer."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return "closed"
    try:
        writer.write(frame)
        async with asyncio.timeout(timeout_s):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            left = size
            while left:
                left -= len(await reader.readexactly(min(left, 1 << 20)))
    except TimeoutError:
        return "silent"
    except (OSError, asyncio.IncompleteReadError):
        return "closed"
    else:
        return f"{size:,} bytes"
    finally:
        writer.close()


class Bystander:
    """A client that sends ApiVersions continuously. `longest_s` is its longest wait."""

    def __init__(self, port: int) -> None:
        self.longest_s = 0.0
        self._port = port
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Connect, send one request, then continue in the background."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        await self._ask()
        self.longest_s = 0.0
        self._task = asyncio.create_task(self._poll())
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop the requests and close the connection."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()

    async def _poll(self) -> None:
        while True:
            await self._ask()
            await asyncio.sleep(0.002)

    async def _ask(self) -> None:
        began = time.monotonic()
        body = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        self._writer.write(encode_request(body, 3, 1, "bystander"))
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        await self._reader.readexactly(size)
        self.longest_s = max(self.longest_s, time.monotonic() - began)
