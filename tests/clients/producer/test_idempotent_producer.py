"""KafkaProducer on our own broker: with idempotence, through a proxy that loses answers, and without transactions."""

import asyncio
from collections.abc import Iterator

import pytest

from kraft_core.clients.kafka_client import KafkaConnection
from kraft_core.clients.producer.kafka_producer import KafkaProducer
from kraft_core.clients.producer.transaction_errors import IllegalState, ProducerFailed
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    FetchRequest,
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
    FetchResponse,
)
from kraft_core.protocol.record_batch import read_batches
from tests.clients.cutting_proxy import CuttingProxy
from tests.interop import kafka
from tests.interop.embedded.embedded_node import EmbeddedNode, running_node

RECORDS = 300
CUTS = 6


@pytest.fixture(scope="module")
def advertised() -> int:
    """The port that the broker advertises: the proxy's."""
    return kafka.free_ports(1)[0]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, advertised: int) -> Iterator[EmbeddedNode]:
    folder = tmp_path_factory.mktemp("idempotent")
    with running_node(folder, advertised_listeners=f"PLAINTEXT://127.0.0.1:{advertised}") as started:
        yield started


def configs(port: int, **more: object) -> dict[str, object]:
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "linger.ms": 0,
        "batch.size": 200,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


async def values(port: int, topic: str) -> list[bytes | None]:
    """Read all records of partition 0."""
    connection = await KafkaConnection.open("127.0.0.1", port, "test")
    found: list[bytes | None] = []
    try:
        while True:
            partition = FetchRequestFetchPartition(partition=0, fetch_offset=len(found), partition_max_bytes=1 << 20)
            topics = (FetchRequestFetchTopic(topic=topic, partitions=(partition,)),)
            request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=topics)
            answer = await connection.request(request, max_version=12)
            assert isinstance(answer, FetchResponse)
            data = answer.responses[0].partitions[0].records
            if not data:
                return found
            found += [record.value for batch in read_batches(bytes(data)) for record in batch.records()]
    finally:
        connection.close()


async def write_through_cuts(node: EmbeddedNode, port: int, topic: str, **more: object) -> list[bytes | None]:
    """Write numbered records while answers to Produce are lost -> what is in the log then."""
    async with CuttingProxy(port, node.port) as proxy:
        async with KafkaProducer(configs(port, **more)) as producer:
            await (await producer.send(topic, b"first"))
            proxy.cuts[ApiKey.PRODUCE] = CUTS
            futures = [await producer.send(topic, b"%d" % number) for number in range(RECORDS)]
            await producer.flush()
            for future in futures:
                future.result()
        assert not proxy.cuts[ApiKey.PRODUCE]
    return await values(node.port, topic)


def test_lost_answers_leave_no_duplicate_and_keep_the_order(node: EmbeddedNode, advertised: int) -> None:
    written = asyncio.run(write_through_cuts(node, advertised, "idempotent"))
    assert written == [b"first", *(b"%d" % number for number in range(RECORDS))]


def test_without_idempotence_the_same_leaves_duplicates(node: EmbeddedNode, advertised: int) -> None:
    written = asyncio.run(write_through_cuts(node, advertised, "plain", enable_idempotence="false"))
    assert set(written) == {b"first", *(b"%d" % number for number in range(RECORDS))}
    assert len(written) > RECORDS + 1


def test_transactions_on_a_broker_without_them_fail_at_once_and_say_so(node: EmbeddedNode, advertised: int) -> None:
    async def init() -> None:
        async with CuttingProxy(advertised, node.port):
            producer = KafkaProducer(configs(advertised, transactional_id="copy"))
            with pytest.raises(ProducerFailed, match="does not serve transactions") as failed:
                await producer.init_transactions()
            assert failed.value.code == ErrorCode.UNSUPPORTED_VERSION
            with pytest.raises(ProducerFailed):
                await producer.send("t", b"v")
            await producer.close()

    asyncio.run(init())


def test_transactional_calls_need_a_transactional_id(node: EmbeddedNode, advertised: int) -> None:
    async def use() -> None:
        for more in ({}, {"enable_idempotence": "false"}):
            async with KafkaProducer(configs(advertised, **more)) as producer:
                with pytest.raises(IllegalState, match=r"no transactional\.id"):
                    await producer.begin_transaction()

    asyncio.run(use())
