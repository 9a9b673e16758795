"""Requests that are cheap to send and expensive to serve: other clients wait a bounded time, and no memory is kept.

The goal is a wait of at most 1 s for everything that a client can send in 20 MiB. The asserted bounds are higher, for
busy machines.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft_core.protocol.api_keys import APIS, ApiKey, request_class
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    FindCoordinatorRequest,
    JoinGroupRequest,
    JoinGroupRequestJoinGroupRequestProtocol,
    MetadataRequest,
    MetadataRequestMetadataRequestTopic,
    ProduceRequest,
    ProduceRequestPartitionProduceData,
    ProduceRequestTopicProduceData,
    ProduceResponse,
)
from tests.broker.batches import batch
from tests.hostile.costly_requests import Attack, Bystander, array_paths, attack, strike
from tests.hostile.twins import CLOSED, send
from tests.interop.conclave import call, create_topics, resident_mb
from tests.interop.embedded.embedded_node import EmbeddedNode, running_node
from tests.interop.kafka import PATIENCE_S, wait_until

LONGEST_WAIT_S = 5.0
MEMBERS = 200
MEMBER_BYTES = 900_000


async def has_coordinator(port: int) -> bool:
    """Report whether groups have a coordinator. The request creates __consumer_offsets."""
    found = await call(port, FindCoordinatorRequest(key_type=0, coordinator_keys=("large",)), 4)
    return bool(found.coordinators[0].error_code == ErrorCode.NONE)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedNode]:
    folder: Path = tmp_path_factory.mktemp("costly")
    with running_node(folder) as found:
        asyncio.run(call(found.port, create_topics(["known"], partitions=3), 7))
        wait_until(lambda: asyncio.run(has_coordinator(found.port)), PATIENCE_S, "groups have a coordinator")
        yield found
        assert found.process is not None
        assert found.process.alive, found.process.output
        assert "Traceback" not in found.process.output, found.process.output


DEAREST = {
    "broker": (
        ApiKey.METADATA,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_COMMIT,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ),
    "controller": (ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.ALTER_PARTITION),
}
"""The most expensive APIs. `python -m tests.hostile.explore_costs` tries all APIs and versions."""


def attacks(listener: str) -> Iterator[Attack]:
    """Return an attack per expensive API: its first array is full of different elements."""
    for api_key in DEAREST[listener]:
        version = APIS[api_key].max_version
        path = next(array_paths(request_class(api_key), version))
        yield attack(api_key, version, path, "different")


@pytest.mark.parametrize("listener", ["broker", "controller"])
def test_the_largest_requests_delay_others_only_briefly(node: EmbeddedNode, listener: str) -> None:
    port = node.port if listener == "broker" else node.controller_port

    async def scenario() -> None:
        for each in attacks(listener):
            async with Bystander(node.port) as client, Bystander(node.controller_port) as admin:
                outcome = await strike(port, each.frame)
            waited_s = max(client.longest_s, admin.longest_s)
            assert outcome != "silent", str(each)
            assert waited_s < LONGEST_WAIT_S, f"{each}: others waited {waited_s:.2f} s"

    asyncio.run(scenario())


def test_18_mib_of_topic_names_are_refused_before_they_are_read(node: EmbeddedNode) -> None:
    topics = tuple(MetadataRequestMetadataRequestTopic(name=f"{number:08x}") for number in range(1_600_000))
    frame = encode_request(MetadataRequest(topics=topics), 12, 1, "attack")
    assert len(frame) > 17 * 1024 * 1024

    async def scenario() -> float:
        async with Bystander(node.port) as client:
            assert await strike(node.port, frame) == CLOSED
        return client.longest_s

    assert node.process is not None
    before = resident_mb(node.process)
    assert asyncio.run(scenario()) < LONGEST_WAIT_S
    assert resident_mb(node.process) - before < 10


def test_200_members_of_900_kb_stay_within_the_memory_of_a_group(node: EmbeddedNode) -> None:
    """Without the bound they kept 322 MB."""

    def join() -> bytes:
        protocol = JoinGroupRequestJoinGroupRequestProtocol(name="range", metadata=bytes(MEMBER_BYTES))
        body = JoinGroupRequest(
            group_id="large",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=600_000,
            protocol_type="consumer",
            protocols=(protocol,),
        )
        return encode_request(body, 3, 1, "attack")

    async def scenario() -> int:
        writers = []
        frame = join()
        for _ in range(MEMBERS):
            _, writer = await asyncio.open_connection("127.0.0.1", node.port)
            writer.write(frame)
            await writer.drain()
            writers.append(writer)
        async with Bystander(node.port):
            await asyncio.sleep(0.5)
            assert node.process is not None
            grown = resident_mb(node.process) - before
        for writer in writers:
            writer.close()
        return grown

    assert node.process is not None
    before = resident_mb(node.process)
    assert asyncio.run(scenario()) < 150, "less than was sent"


@pytest.mark.parametrize("client_id", ["__admin_client", "anybody"])
def test_produce_to_internal_topics_is_refused_for_any_client_id(node: EmbeddedNode, client_id: str) -> None:
    data = ProduceRequestPartitionProduceData(index=0, records=batch([b"value"]))
    topic = ProduceRequestTopicProduceData(name="__consumer_offsets", partition_data=(data,))
    frame = encode_request(ProduceRequest(acks=1, timeout_ms=1000, topic_data=(topic,)), 9, 1, client_id)

    answer = asyncio.run(send(node.port, frame))
    assert isinstance(answer, bytes)
    _, response = decode_response(ApiKey.PRODUCE, 9, answer)
    assert isinstance(response, ProduceResponse)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("listener", ["broker", "controller"])
def test_a_topic_named_40000_times_is_described_once(node: EmbeddedNode, listener: str) -> None:
    resource = DescribeConfigsRequestDescribeConfigsResource(
        resource_type=2, resource_name="known", configuration_keys=None
    )
    body = DescribeConfigsRequest(resources=(resource,) * 40_000)
    port = node.port if listener == "broker" else node.controller_port

    async def scenario() -> float:
        async with Bystander(port) as client:
            answer = await call(port, body, 4, timeout_s=PATIENCE_S)
        assert len(answer.results) == 1
        return client.longest_s

    assert asyncio.run(scenario()) < LONGEST_WAIT_S
