"""A node under more connections than it allows: existing clients are served, logs roll, administrators connect."""

import asyncio
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from kraft_core.clients.kafka_client import ConnectionLost, KafkaConnection
from kraft_core.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsRequestCreatableTopicConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    ProduceRequest,
    ProduceRequestPartitionProduceData,
    ProduceRequestTopicProduceData,
    ProduceResponse,
)
from tests.broker.batches import batch
from tests.interop.conclave import call
from tests.interop.embedded.embedded_node import EmbeddedNode, running_node
from tests.interop.kafka import PATIENCE_S

FILES = 256
CONNECTIONS = 1_000
API_VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@pytest.fixture(autouse=True)
def many_files_for_the_test() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4 * CONNECTIONS, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def crowd(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Open many connections, most of which are never accepted."""
    begun = []
    for _ in range(count):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", port))
        begun.append(one)
    try:
        yield begun
    finally:
        for one in begun:
            one.close()


def produce(topic_id: UUID, value: bytes) -> ProduceRequest:
    data = ProduceRequestPartitionProduceData(index=0, records=batch([value]))
    topic = ProduceRequestTopicProduceData(topic_id=topic_id, partition_data=(data,))
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=(topic,))


async def serves(connection: KafkaConnection) -> bool:
    answer = await asyncio.wait_for(connection.request(API_VERSIONS), PATIENCE_S)
    assert isinstance(answer, ApiVersionsResponse)
    return answer.error_code == 0


def segments(node: EmbeddedNode) -> int:
    return len(list((node.data / "rolling-0").glob("*.log")))


async def create_rolling(port: int) -> UUID:
    config = CreateTopicsRequestCreatableTopicConfig(name="segment.bytes", value=str(1024 * 1024))
    topic = CreateTopicsRequestCreatableTopic(name="rolling", num_partitions=1, replication_factor=1, configs=(config,))
    created = await call(port, CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 7)
    assert created.topics[0].error_code == 0
    topic_id: UUID = created.topics[0].topic_id
    return topic_id


@pytest.mark.parametrize("crowded", ["broker", "controller"])
def test_a_node_with_256_files_serves_and_rolls_logs_under_1000_connections(tmp_path: Path, crowded: str) -> None:
    async def scenario(node: EmbeddedNode) -> None:
        topic_id = await create_rolling(node.port)
        client = await KafkaConnection.open("127.0.0.1", node.port, "client")
        assert await serves(client)
        assert segments(node) == 1
        with crowd(node.port if crowded == "broker" else node.controller_port, CONNECTIONS):
            await asyncio.sleep(1.0)
            for _ in range(3):
                answer = await asyncio.wait_for(client.request(produce(topic_id, bytes(600_000))), PATIENCE_S)
                assert isinstance(answer, ProduceResponse)
                assert answer.responses[0].partition_responses[0].error_code == 0
            assert segments(node) > 1
            assert await serves(client)
            admin = await KafkaConnection.open("127.0.0.1", node.controller_port, "admin")
            assert await serves(admin)
            admin.close()
        client.close()

    with running_node(tmp_path, max_files=FILES) as node:
        assert node.process is not None
        asyncio.run(scenario(node))
        assert node.process.alive, node.process.output
        assert "Traceback" not in node.process.output
        assert node.process.output.count("connections_refused") <= 3, "one warning for each cause"


def test_connection_limits_of_addresses_can_change_at_run_time(tmp_path: Path) -> None:
    async def connections(port: int, count: int) -> int:
        """Return how many of `count` simultaneous connections are served."""
        opened = []
        for _ in range(count):
            try:
                opened.append(await KafkaConnection.open("127.0.0.1", port, "many"))
            except ConnectionLost:
                continue
        for each in opened:
            each.close()
        return len(opened)

    async def scenario(node: EmbeddedNode) -> None:
        assert await connections(node.port, 8) == 5
        change = IncrementalAlterConfigsRequestAlterableConfig(
            name="max.connections.per.ip.overrides", config_operation=0, value="127.0.0.1:7"
        )
        resource_ = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=4, resource_name="1", configs=(change,)
        )
        altered = await call(node.controller_port, IncrementalAlterConfigsRequest(resources=(resource_,)), 1)
        assert altered.responses[0].error_code == 0
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while (served := await connections(node.port, 9)) != 7:
            assert asyncio.get_running_loop().time() < deadline, served
            await asyncio.sleep(0.05)

    with running_node(tmp_path, max_connections_per_ip=5) as node:
        asyncio.run(scenario(node))
