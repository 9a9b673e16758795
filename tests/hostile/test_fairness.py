"""Floods of requests to a combined node do not delay its heartbeats, its quorum or other clients."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from kraft_core.protocol.framing import encode_request
from kraft_core.protocol.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    JoinGroupRequest,
    MetadataRequest,
    MetadataRequestMetadataRequestTopic,
)
from kraft_core.protocol.wire import Message
from tests.hostile.costly_requests import Bystander
from tests.hostile.twins import epoch_at
from tests.interop.conclave import resident_mb
from tests.interop.embedded.embedded_node import running_node
from tests.interop.kafka import Process

CONNECTIONS = 200
FLOOD_S = 4.0
LONGEST_WAIT_S = 5.0
GROWTH_MB_MAX = 300
RETURNED_MB_MAX = 12


async def flood(port: int, frame: bytes, until_s: float) -> int:
    """Keep pipelined requests in flight. Return the bytes of the answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = 0
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout_at(until_s):
            writer.write(frame)
            while data := await reader.read(1 << 16):
                received += len(data)
                writer.write(frame)
                await writer.drain()
    writer.transport.abort()
    return received


def requests() -> list[tuple[Message, int]]:
    """Return cheap requests, and requests whose cost grows with their size."""
    names = tuple(MetadataRequestMetadataRequestTopic(name=f"{number:x}") for number in range(200))
    return [
        (ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3),
        (MetadataRequest(topics=names, allow_auto_topic_creation=False), 12),
        (JoinGroupRequest(group_id="", protocol_type="consumer"), 5),
    ]


def test_200_connections_that_pipeline_requests_neither_fence_the_broker_nor_move_the_leader(tmp_path: Path) -> None:
    frames = [encode_request(message, version, 1, "flood") * 16 for message, version in requests()]

    async def scenario(ports: tuple[int, int]) -> float:
        until_s = asyncio.get_running_loop().time() + FLOOD_S
        async with Bystander(ports[0]) as client, Bystander(ports[1]) as admin:
            received = await asyncio.gather(
                *(
                    flood(ports[0] if number % 2 else ports[1], frames[number % 2 * (1 + number % 4 // 2)], until_s)
                    for number in range(CONNECTIONS)
                )
            )
        assert sum(received) > 0
        return max(client.longest_s, admin.longest_s)

    settings = {"broker_session_timeout_ms": 3_000, "broker_heartbeat_interval_ms": 500}
    with running_node(tmp_path, **settings) as node:
        assert node.process is not None
        before = epoch_at(node.controller_port)
        longest_s = asyncio.run(scenario((node.port, node.controller_port)))
        assert epoch_at(node.controller_port) == before
        assert longest_s < LONGEST_WAIT_S
        assert "to_state=fenced" not in node.process.output
        assert "Traceback" not in node.process.output


def large_metadata_request() -> bytes:
    """Return a frame of 0.97 MB with 4,000 names that do not exist."""
    names = tuple(MetadataRequestMetadataRequestTopic(name=f"{number:0240x}") for number in range(4_000))
    return encode_request(MetadataRequest(topics=names, allow_auto_topic_creation=False), 12, 1, "greedy")


def large_create_topics_request() -> bytes:
    """Return a frame of 0.27 MB with 19,900 topics, which is more than the controller creates at once."""
    topics = tuple(
        CreateTopicsRequestCreatableTopic(name=f"{number:x}", num_partitions=1, replication_factor=1)
        for number in range(19_900)
    )
    return encode_request(CreateTopicsRequest(topics=topics, timeout_ms=30_000, validate_only=True), 7, 1, "greedy")


async def write_without_reading(port: int, data: bytes) -> asyncio.StreamWriter:
    """Open a connection that never reads, and write to it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
    reader._transport.pause_reading()  # type: ignore[attr-defined]  # the client does not read
    writer.write(data)
    return writer


@pytest.mark.parametrize("make_request", [large_metadata_request, large_create_topics_request])
def test_the_memory_for_20_mib_of_requests_is_bounded_and_returned(
    tmp_path: Path, make_request: Callable[[], bytes]
) -> None:
    frame = make_request()
    connections = 20 * 1024 * 1024 // len(frame)

    async def scenario(process: Process, port: int) -> tuple[float, float]:
        most = 0.0
        async with Bystander(port) as client:
            writers = [await write_without_reading(port, frame) for _ in range(connections)]
            for _ in range(100):
                most = max(most, resident_mb(process))
                await asyncio.sleep(0.02)
        for writer in writers:
            writer.transport.abort()
        for _ in range(50):
            await asyncio.sleep(0.1)
            left = resident_mb(process)
            if left < before + RETURNED_MB_MAX:
                break
        print(f"{before:.0f} MB, at most {most:.0f}, then {left:.0f}; others waited {client.longest_s * 1000:.0f} ms")
        return most, left

    with running_node(tmp_path) as node:
        assert node.process is not None
        before = resident_mb(node.process)
        for _ in range(2):
            most, left = asyncio.run(scenario(node.process, node.port))
            assert most < before + 3 * 20 * 1.05
            assert left < before + RETURNED_MB_MAX


def test_clients_that_never_read_their_answers_cost_a_bounded_amount_of_memory(tmp_path: Path) -> None:
    frame = large_metadata_request()

    async def scenario(process: Process, port: int) -> float:
        most = 0.0
        writers = [await write_without_reading(port, frame * 3) for _ in range(150)]
        async with Bystander(port) as client:
            for _ in range(int(3 / 0.02)):
                most = max(most, resident_mb(process))
                await asyncio.sleep(0.02)
        for writer in writers:
            writer.transport.abort()
        assert client.longest_s < LONGEST_WAIT_S
        print(f"at most {most:.0f} MB, others waited {client.longest_s * 1000:.0f} ms")
        return most

    with running_node(tmp_path) as node:
        assert node.process is not None
        before = resident_mb(node.process)
        most = asyncio.run(scenario(node.process, node.port))
        assert most - before < GROWTH_MB_MAX
