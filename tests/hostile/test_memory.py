"""Memory of a node under a flood of 20 MiB: at most three times the bytes sent, and released afterwards."""

import asyncio
import itertools
import os
from collections.abc import Iterator

import pytest

from kraft_core.protocol.framing import encode_request
from kraft_core.protocol.messages import FetchRequest, FetchRequestFetchPartition, FetchRequestFetchTopic
from tests.broker.crafted import crafted, record
from tests.hostile.costly_requests import Bystander
from tests.hostile.record_bombs import MIB, bombs
from tests.hostile.test_record_bombs import PRODUCE_BY_NAME, produce, produce_request
from tests.interop.conclave import call, create_topics, resident_mb
from tests.interop.embedded.embedded_node import EmbeddedNode, running_node
from tests.interop.kafka import PATIENCE_S, wait_until

SENT_BYTES = 20 * MIB
CONNECTIONS = 40
FLOOD_S = 4.0
GROWTH_MIB_MAX = 3 * SENT_BYTES / MIB
KEPT_MIB_MAX = 20.0
LONGEST_WAIT_S = 5.0
FETCH_BY_NAME = 12
LARGE_BOMB = crafted(record(0, b"k", os.urandom(900_000) + bytes(50 * MIB)), 1, codec=4)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedNode]:
    with running_node(tmp_path_factory.mktemp("memory")) as found:
        asyncio.run(call(found.port, create_topics(["flooded", "fetched"]), 7))
        usual = crafted(record(0, b"k", bytes(1_000)), 1, codec=4)
        wait_until(lambda: asyncio.run(produce(found.port, "flooded", usual)) == 0, PATIENCE_S, "records are taken")
        yield found
        assert found.process is not None
        assert found.process.alive, found.process.output
        assert "Traceback" not in found.process.output, found.process.output


def growth(node: EmbeddedNode, frames: list[bytes]) -> float:
    """Send SENT_BYTES over many connections. Return the largest growth in MiB, once the memory is released."""
    assert node.process is not None
    process, before = node.process, resident_mb(node.process)

    async def send(some: list[bytes]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
        writer.writelines(some)
        try:
            while await reader.read(65_536):
                pass
        finally:
            writer.transport.abort()

    async def scenario() -> float:
        rations: list[list[bytes]] = [[] for _ in range(CONNECTIONS)]
        sent = 0
        for ration, frame in zip(itertools.cycle(rations), itertools.cycle(frames), strict=False):
            sent += len(frame)
            if sent > SENT_BYTES:
                break
            ration.append(frame)
        most = before
        async with Bystander(node.port) as client:
            flood = [asyncio.create_task(send(ration)) for ration in rations]
            for _ in range(int(FLOOD_S / 0.02)):
                most = max(most, resident_mb(process))
                await asyncio.sleep(0.02)
            for task in flood:
                task.cancel()
            await asyncio.gather(*flood, return_exceptions=True)
        assert client.longest_s < LONGEST_WAIT_S
        return most - before

    grown = asyncio.run(scenario())
    wait_until(lambda: resident_mb(process) < before + KEPT_MIB_MAX, 3 * LONGEST_WAIT_S, "the memory is returned")
    print(f"{grown:.0f} MiB more than {before:.0f}, {resident_mb(process) - before:.0f} MiB afterwards")
    return grown


@pytest.mark.parametrize("batches", [[bomb.batch for bomb in bombs()], [LARGE_BOMB]], ids=["small", "large"])
def test_20_mib_of_record_bombs_take_no_more_than_three_times_their_size(
    node: EmbeddedNode, batches: list[bytes]
) -> None:
    frames = [encode_request(produce_request("flooded", each), PRODUCE_BY_NAME, 1, "flood") for each in batches]
    assert growth(node, frames) < GROWTH_MIB_MAX


def test_unread_fetch_answers_take_a_bounded_amount_of_memory(node: EmbeddedNode) -> None:
    """A hundred bytes request 50 MB, repeatedly. A consumer at the same address is served meanwhile."""
    partition = FetchRequestFetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50 * MIB)
    fetch = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 * MIB,
        topics=(FetchRequestFetchTopic(topic="fetched", partitions=(partition,)),),
    )
    frame = encode_request(fetch, FETCH_BY_NAME, 1, "greedy")

    async def scenario() -> float:
        for _ in range(20):
            assert await produce(node.port, "fetched", crafted(record(0, b"k", os.urandom(1_000_000)), 1)) == 0
        before = most = resident_mb(process)
        writers = []
        async with Bystander(node.port) as client:
            for _ in range(CONNECTIONS):
                reader, writer = await asyncio.open_connection("127.0.0.1", node.port, limit=1)
                reader._transport.pause_reading()  # type: ignore[attr-defined]  # the client does not read
                writer.write(frame * 10)
                writers.append(writer)
            for _ in range(int(FLOOD_S / 0.02)):
                most = max(most, resident_mb(process))
                await asyncio.sleep(0.02)
            answer = await call(node.port, fetch, FETCH_BY_NAME, timeout_s=PATIENCE_S)
        assert answer.responses[0].partitions[0].error_code == 0
        for writer in writers:
            writer.transport.abort()
        print(f"{most - before:.0f} MiB more than {before:.0f}, others waited {client.longest_s * 1000:.0f} ms")
        assert client.longest_s < LONGEST_WAIT_S
        assert most - before < GROWTH_MIB_MAX
        return before

    assert node.process is not None
    process = node.process
    before = asyncio.run(scenario())
    wait_until(lambda: resident_mb(process) < before + KEPT_MIB_MAX, 3 * LONGEST_WAIT_S, "the memory is returned")
