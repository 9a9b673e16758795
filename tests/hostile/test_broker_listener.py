"""The broker's listener under malformed requests: it answers or closes, and keeps running."""

import asyncio
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft_core.protocol.api_keys import ApiKey, apis_of, request_class
from kraft_core.protocol.framing import encode_request
from kraft_core.protocol.messages import ApiVersionsRequest
from tests.hostile.drawn_messages import Draw
from tests.hostile.frames import frame, header
from tests.hostile.twins import CLOSED, SILENT, epoch_at, send
from tests.interop.conclave import call, create_topics, resident_mb
from tests.interop.embedded.embedded_node import EmbeddedNode, running_node
from tests.interop.kafka import PATIENCE_S

SEED = 431
RANDOM_BODIES = 400
DRAWN_REQUESTS = 1_000
RAFT_APIS = {
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.UPDATE_RAFT_VOTER,
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedNode]:
    folder: Path = tmp_path_factory.mktemp("hostile")
    with running_node(folder) as found:
        before = epoch_at(found.controller_port)
        yield found
        assert found.process is not None
        assert found.process.alive, found.process.output
        assert epoch_at(found.controller_port) == before
        assert "Traceback" not in found.process.output, found.process.output


async def is_served(port: int) -> None:
    body = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    assert (await call(port, body, 3, timeout_s=PATIENCE_S)).error_code == 0


NO_REQUESTS = {
    "size -1": struct.pack(">i", -1),
    "size int32 min": struct.pack(">i", -(2**31)),
    "size int32 max": struct.pack(">i", 2**31 - 1),
    "size over the limit": struct.pack(">i", 104_857_601),
    "empty frame": struct.pack(">i", 0),
    "http": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32),
    "unknown api": frame(header(9999, 0)),
    "vote is the controller's": frame(header(52, 2) + bytes(20)),
    "broker registration is the controller's": frame(header(62, 3) + bytes(20)),
    "absurd array in Produce": frame(header(0, 9) + b"\x00\x00\x01\x00\x00\x00\x05\xff\xff\xff\xff\x0f"),
    "absurd array in Metadata": frame(header(3, 12) + b"\xff\xff\xff\xff\x0f"),
    "absurd string in FindCoordinator": frame(header(10, 3) + b"\xff\xff\xff\xff\x0f"),
    "cut JoinGroup": frame(header(11, 7) + b"\x04abc"),
}


@pytest.mark.parametrize("data", NO_REQUESTS.values(), ids=NO_REQUESTS.keys())
def test_a_malformed_request_closes_its_connection(node: EmbeddedNode, data: bytes) -> None:
    assert asyncio.run(send(node.port, data)) == CLOSED
    asyncio.run(is_served(node.port))


@pytest.mark.parametrize("listener", ["broker", "controller"])
def test_random_bodies_of_every_api_are_answered_or_closed(node: EmbeddedNode, listener: str) -> None:
    """Zeros and small bytes make many bodies decodable, so that they reach the code behind."""
    dice = random.Random(SEED)
    port = node.port if listener == "broker" else node.controller_port
    served = sorted((key, api) for key, api in apis_of(listener).items())

    async def one(number: int) -> None:
        api_key, api = served[number % len(served)]
        version = dice.randint(api.min_version, api.max_version)
        flexible = version >= api.flexible_version
        size = dice.randint(0, 120)
        small = bytes(dice.choices((0, 0, 0, 0, 1, 2, 3, 255), k=size))
        body = small if number % 2 else dice.randbytes(size)
        outcome = await send(port, frame(header(api_key, version, flexible=flexible) + body))
        assert outcome != SILENT, f"{ApiKey(api_key).name} version {version} is silent: {body.hex()}"

    async def scenario() -> None:
        for number in range(RANDOM_BODIES):
            await one(number)
        await is_served(port)

    asyncio.run(scenario())


@pytest.mark.parametrize("listener", ["broker", "controller"])
def test_random_requests_that_decode_are_answered_without_a_failover(node: EmbeddedNode, listener: str) -> None:
    """Without raft requests, which may raise the epoch, and Produce, which has no answer with acks=0."""
    dice = random.Random(SEED)
    port = node.port if listener == "broker" else node.controller_port
    left_out = RAFT_APIS | {ApiKey.PRODUCE}
    served = sorted((key, api) for key, api in apis_of(listener).items() if key not in left_out)

    async def scenario() -> None:
        created = await call(port, create_topics(["known", "known2"], partitions=3), 7)
        draw = Draw(dice, tuple(topic.topic_id for topic in created.topics))
        for number in range(DRAWN_REQUESTS):
            api_key, api = served[number % len(served)]
            version = dice.randint(api.min_version, api.max_version)
            message = draw.message(request_class(api_key), version)
            outcome = await send(port, encode_request(message, version, 1, "drawn"))
            assert outcome != SILENT, f"silence after version {version} of {message}"
        await is_served(port)

    asyncio.run(scenario())


def test_announced_gigabytes_and_stalled_clients_take_little_memory_and_block_nobody(node: EmbeddedNode) -> None:
    async def scenario() -> None:
        assert node.process is not None
        await is_served(node.port)
        before = resident_mb(node.process)
        writers = []
        for announced, sent in ((50 * 1024 * 1024, b"\x00"), (1024 * 1024, bytes(512 * 1024))):
            for _ in range(20):
                _, writer = await asyncio.open_connection("127.0.0.1", node.port)
                writer.write(struct.pack(">i", announced) + sent)
                writers.append(writer)
        writers += [(await asyncio.open_connection("127.0.0.1", node.port))[1] for _ in range(150)]
        await is_served(node.port)
        assert resident_mb(node.process) - before < 60
        for writer in writers:
            writer.close()

    asyncio.run(scenario())
