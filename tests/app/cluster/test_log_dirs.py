"""Sizes of log directories: from a real broker, and from brokers that do not answer."""

import asyncio
from collections.abc import Coroutine
from typing import Any
from uuid import UUID

import msgspec
import pytest
from rpds import HashTrieMap

from app.cluster.broker_answers import CONCURRENCY
from app.cluster.broker_requests import BrokerRequests
from app.cluster.log_dirs import BrokerLogDirs, LogDirs, topic_size
from app.rest.schemas.brokers import LogDirectoryDataList
from kraft_core.clients.producer.kafka_producer import KafkaProducer
from kraft_core.image.metadata_image import BrokerRegistration, Endpoint
from kraft_core.protocol.security_protocol import SecurityProtocol
from kraft_core.security.listener_security import PLAINTEXT_CLIENT
from tests.app.live import CombinedNode, LiveWeb

TOPIC = "sizes"


@pytest.fixture(scope="module", autouse=True)
def records(web: LiveWeb, node: CombinedNode) -> None:
    body = {"topic_name": TOPIC, "partitions_count": 2}
    assert web.client.post(f"{web.cluster}/topics", json=body).status_code == 201

    async def write() -> None:
        async with KafkaProducer({"bootstrap.servers": node.broker}) as producer:
            for number in range(200):
                await producer.send(TOPIC, value=b"x" * 1_000, partition=number % 2)

    asyncio.run(write())


def bytes_on_disk(node: CombinedNode, partition: int) -> int:
    folder = node.config.parent / "data" / f"{TOPIC}-{partition}"
    return sum(file.stat().st_size for file in folder.glob("*.log"))


def ask(web: LiveWeb) -> LogDirs:
    cluster = web.services.cluster
    found: dict[int, LogDirs] = web.call(cluster.log_dirs.of([cluster.image.cluster.brokers[1]], 20, fresh_seconds=0))
    return found[1]


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_sizes_are_those_of_the_files(web: LiveWeb, node: CombinedNode) -> None:
    found = ask(web)
    assert [found.sizes.of(TOPIC, index) for index in (0, 1)] == [bytes_on_disk(node, index) for index in (0, 1)]
    assert (found.sizes.of(TOPIC, 2), found.sizes.of("none", 0)) == (None, None)
    whole = sum(bytes_on_disk(node, index) for index in (0, 1))
    assert found.sizes.of_topic(TOPIC) == whole
    assert (topic_size(TOPIC, [found, found, LogDirs()]), topic_size(TOPIC, [LogDirs()])) == (2 * whole, None)
    assert topic_size(f"{TOPIC}0", [found]) is None
    assert sum(size for topic, _, size, _ in found.sizes if topic == TOPIC) > 200_000
    assert found.size_bytes == sum(size for _, _, size, _ in found.sizes)


def test_rest_and_pages_have_the_directory_with_its_bytes(web: LiveWeb, node: CombinedNode) -> None:
    size = ask(web).size_bytes
    answer = web.client.get(f"{web.cluster}/brokers/1/log-directories")
    (directory,) = LogDirectoryDataList.model_validate_json(answer.content).data
    assert directory.log_dir == str(node.config.parent / "data")
    assert directory.directory_id is not None
    assert directory.size_bytes == size
    assert directory.total_bytes is not None
    assert directory.usable_bytes is not None
    assert directory.total_bytes >= directory.usable_bytes > 0
    assert directory.asked_at is not None
    page = web.client.get("/brokers/1").text
    assert f'<td class="mono">{directory.log_dir}</td>' in page
    assert "from the broker." in page
    assert directory.directory_id in page


def registration(
    broker_id: int, port: int, protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
) -> BrokerRegistration:
    endpoint = Endpoint(name=protocol.name, host="127.0.0.1", port=port, security_protocol=protocol)
    return BrokerRegistration(
        id=broker_id,
        epoch=1,
        incarnation_id=UUID(int=broker_id),
        listeners=(endpoint,),
        supported_features=HashTrieMap(),
        fenced=False,
    )


def test_brokers_that_do_not_answer_cost_their_own_cells_only(web: LiveWeb) -> None:
    real = web.services.cluster.image.cluster.brokers[1]

    async def work() -> None:
        connected, ended = 0, list[asyncio.StreamWriter]()

        async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connected
            connected += 1
            await reader.read()
            writer.close()
            await writer.wait_closed()
            ended.append(writer)

        server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        log_dirs = BrokerLogDirs(BrokerRequests(PLAINTEXT_CLIENT))
        answered = await log_dirs.of([real], 20)
        silent = [registration(number, port) for number in range(2, 40)]
        found = await log_dirs.of([real, *silent], 0.5)
        assert found[1].dirs == answered[1].dirs
        assert [found[each.id].asked_at for each in silent] == [None] * 38
        while connected < CONCURRENCY:
            await asyncio.sleep(0.01)
        assert connected == CONCURRENCY, "the other brokers wait for their turn"
        await log_dirs.stop()
        while len(ended) < connected:
            await asyncio.sleep(0.01)
        server.close()

    run(work())


def test_an_answer_stays_with_its_age_when_the_broker_dies(web: LiveWeb) -> None:
    real = web.services.cluster.image.cluster.brokers[1]
    dead = msgspec.structs.replace(real, listeners=(Endpoint(name="PLAINTEXT", host="127.0.0.1", port=1),))

    async def work() -> None:
        log_dirs = BrokerLogDirs(BrokerRequests(PLAINTEXT_CLIENT))
        before = (await log_dirs.of([real], 20))[1]
        after = (await log_dirs.of([dead], 20, fresh_seconds=0.0))[1]
        assert (before.error, after.asked_at, after.dirs) == ("", before.asked_at, before.dirs)
        assert "127.0.0.1:1 cannot be reached" in after.error

    run(work())


def test_a_broker_without_a_listener_of_this_security_protocol_says_so() -> None:
    async def work() -> None:
        log_dirs = BrokerLogDirs(BrokerRequests(PLAINTEXT_CLIENT))
        found = await log_dirs.of([registration(7, 1, SecurityProtocol.SASL_SSL)], 20)
        assert found[7].error == "Broker 7 has no PLAINTEXT listener, which command_config asks for."

    run(work())
