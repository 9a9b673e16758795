"""A controller under malformed requests: bounded memory, service for others, one log line each without payload."""

import asyncio
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft_core.protocol.api_keys import ApiKey, apis_of
from kraft_core.protocol.codec import encode
from kraft_core.protocol.framing import encode_request
from kraft_core.protocol.messages import ApiVersionsRequest, CreateTopicsRequest
from tests.hostile.frames import frame, header
from tests.hostile.twins import CLOSED, SILENT, epoch_at, send
from tests.interop.conclave import Quorum, call, resident_mb, running_quorum
from tests.interop.kafka import PATIENCE_S

SEED = 4310
RANDOM_BODIES = 400
MEGABYTE = 1024 * 1024


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    folder: Path = tmp_path_factory.mktemp("malformed")
    with running_quorum(folder, 1) as found:
        epoch = epoch_at(found.ports[0])
        yield found
        assert epoch_at(found.ports[0]) == epoch
        assert found.processes[1].alive
        assert "Traceback" not in found.processes[1].output


async def is_served(port: int) -> None:
    body = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = await call(port, body, 3, timeout_s=PATIENCE_S)
    assert answer.error_code == 0


def test_four_hundred_random_bodies_are_answered_or_closed(quorum: Quorum) -> None:
    dice = random.Random(SEED)
    apis = sorted(apis_of("controller").items())

    async def scenario() -> None:
        for _ in range(RANDOM_BODIES):
            api_key, api = dice.choice(apis)
            version = dice.randint(api.min_version, api.max_version)
            body = dice.randbytes(dice.randint(0, 200))
            sent = frame(header(api_key, version, flexible=version >= api.flexible_version) + body)
            assert await send(quorum.ports[0], sent) != SILENT, f"{ApiKey(api_key).name} v{version} {body.hex()}"
        await is_served(quorum.ports[0])

    asyncio.run(scenario())


def test_twenty_frames_that_announce_fifty_megabytes_allocate_nothing(quorum: Quorum) -> None:
    """Apache's node allocates the announced size: the same frames end one with a heap of 384 MB."""

    async def scenario() -> None:
        await is_served(quorum.ports[0])
        before = resident_mb(quorum.processes[1])
        writers = [(await asyncio.open_connection("127.0.0.1", quorum.ports[0]))[1] for _ in range(20)]
        for writer in writers:
            writer.write(struct.pack(">i", 50 * MEGABYTE) + b"\x00")
        await is_served(quorum.ports[0])
        assert resident_mb(quorum.processes[1]) - before < 50
        for writer in writers:
            writer.close()

    asyncio.run(scenario())


def test_clients_that_disconnect_inside_a_frame_leave_nothing_behind(quorum: Quorum) -> None:
    whole = encode_request(CreateTopicsRequest(timeout_ms=100), 7, 7, "x")

    def open_files() -> int:
        return sum(1 for _ in Path(f"/proc/{quorum.processes[1].popen.pid}/fd").iterdir())

    async def scenario() -> None:
        files = open_files()
        for end in range(1, len(whole)):
            _, writer = await asyncio.open_connection("127.0.0.1", quorum.ports[0])
            writer.write(whole[:end])
            await writer.drain()
            writer.transport.abort() if end % 2 else writer.close()
        await is_served(quorum.ports[0])
        async with asyncio.timeout(PATIENCE_S):
            while open_files() > files:
                await asyncio.sleep(0.02)

    asyncio.run(scenario())


def test_announced_gigabytes_and_stalled_clients_take_little_memory_and_block_nobody(quorum: Quorum) -> None:
    async def scenario() -> None:
        await is_served(quorum.ports[0])
        before = resident_mb(quorum.processes[1])
        writers = []
        for announced, sent in ((50 * MEGABYTE, b"\x00"), (MEGABYTE, bytes(MEGABYTE // 2)), (100 * MEGABYTE, b"")):
            for _ in range(20):
                _, writer = await asyncio.open_connection("127.0.0.1", quorum.ports[0])
                writer.write(struct.pack(">i", announced) + sent)
                writers.append(writer)
        for _ in range(150):
            _, writer = await asyncio.open_connection("127.0.0.1", quorum.ports[0])
            writers.append(writer)
        await is_served(quorum.ports[0])
        assert resident_mb(quorum.processes[1]) - before < 60
        for writer in writers:
            writer.close()
        await is_served(quorum.ports[0])

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("sent", "cause"),
    [
        (struct.pack(">i", 2**31 - 1) + b"s3cret-payload", "frame"),
        (b"POST /s3cret-payload HTTP/1.1\r\n\r\n", "frame"),
        (frame(header(9999, 0) + b"s3cret-payload"), "unknown API key 9999"),
        (frame(header(19, 7) + b"\xff\xff\xff\xff\x0fs3cret-payload"), "request cannot be served"),
        (frame(b"\x00\x12s3cret-payload"), "not a request header"),
    ],
    ids=["size", "http", "unknown api", "body", "header"],
)
def test_a_refused_request_leaves_one_line_with_peer_and_cause_and_no_payload(
    quorum: Quorum, sent: bytes, cause: str
) -> None:
    before = len(quorum.processes[1].output.splitlines())
    assert asyncio.run(send(quorum.ports[0], sent)) == CLOSED
    lines = [line for line in quorum.processes[1].output.splitlines()[before:] if "connection_closed" in line]
    assert len(lines) == 1, lines
    assert "client_host=127.0.0.1" in lines[0]
    assert cause in lines[0]
    assert "s3cret" not in quorum.processes[1].output


def test_the_header_of_these_tests_equals_an_encoded_one() -> None:
    """Ensures that requests are not refused because of their header."""
    body = encode(CreateTopicsRequest(timeout_ms=100), 7)
    assert encode_request(CreateTopicsRequest(timeout_ms=100), 7, 7, "x")[4:] == header(19, 7) + body
