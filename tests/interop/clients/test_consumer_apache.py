"""KafkaConsumer and PartitionReader on an unmodified Apache broker: codecs, transactions, times, new topics."""

import asyncio
import uuid
from collections.abc import Mapping

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.kafka_consumer import KafkaConsumer
from kraft_core.clients.consumer.partition_reader import PartitionReader
from tests.interop.clients.group_reader import read
from tests.interop.kafka import PATIENCE_S

pytestmark = pytest.mark.interop


@pytest.fixture
def topic(apache: str) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    create(apache, name)
    return name


def create(address: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(PATIENCE_S)


def consumer(address: str, **more: object) -> KafkaConsumer:
    given: Mapping[str, object] = {"bootstrap.servers": address, "auto.offset.reset": "earliest", **more}
    return KafkaConsumer({"fetch.max.wait.ms": 50, **given})


def test_records_of_every_codec_are_read(apache: str, topic: str) -> None:
    values = [f"value {index} " * (index % 50) for index in range(300)]
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    for codec in codecs:
        producer = Producer({"bootstrap.servers": apache, "compression.type": codec})
        for index, value in enumerate(values):
            producer.produce(topic, value, key=f"{index}", timestamp=1_000 + index, headers=[("h", b"x")])
        assert producer.flush(PATIENCE_S) == 0

    async def run() -> None:
        async with consumer(apache) as reader:
            reader.assign([(topic, 0)])
            records = await read(reader, len(codecs) * len(values))
        assert [record.value for record in records] == [value.encode() for value in values] * len(codecs)
        assert [record.timestamp_ms for record in records] == list(range(1_000, 1_300)) * len(codecs)
        assert {record.headers for record in records} == {(("h", b"x"),)}
        assert [record.offset for record in records] == list(range(len(records)))

    asyncio.run(run())


def test_read_committed_gives_neither_aborted_nor_open_transactions(apache: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": apache, "transactional.id": topic})
    producer.init_transactions(PATIENCE_S)
    for number in range(4):
        producer.begin_transaction()
        for index in range(5):
            producer.produce(topic, f"{number}-{index}")
        producer.flush(PATIENCE_S)
        if number % 2:
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush(PATIENCE_S)
    expected = [f"{number}-{index}".encode() for number in (0, 2) for index in range(5)]

    async def run() -> None:
        async with consumer(apache, **{"isolation.level": "read_committed"}) as reader:
            reader.assign([(topic, 0)])
            assert [record.value for record in await read(reader, 10)] == expected
            assert await reader.poll(300) == {}
            assert await reader.end_offsets([(topic, 0)]) == {(topic, 0): 24}
            assert await reader.position((topic, 0)) == 24
        async with consumer(apache) as reader:
            reader.assign([(topic, 0)])
            assert len(await read(reader, 21)) == 21
        async with PartitionReader({"bootstrap.servers": apache, "isolation.level": "read_committed"}) as shown:
            ranges = await shown.offsets([TopicPartition(topic, 0)])
            pages = [page async for page in shown.read(ranges)]
        assert [record.value for page in pages for record in page.records] == expected
        assert (pages[-1].progress.reached, pages[-1].progress.wanted) == (24, 24)
        producer.abort_transaction(PATIENCE_S)

    asyncio.run(run())


def test_offsets_by_time_and_by_duration(apache: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": apache})
    for index in range(10):
        producer.produce(topic, b"old", timestamp=1_000 + index)
    producer.produce(topic, b"now")
    assert producer.flush(PATIENCE_S) == 0

    async def run() -> None:
        async with consumer(apache, **{"auto.offset.reset": "by_duration:PT1H"}) as reader:
            found = (await reader.offsets_for_times({(topic, 0): 1_004}))[TopicPartition(topic, 0)]
            assert found is not None
            assert (found.offset, found.timestamp_ms) == (4, 1_004)
            reader.assign([(topic, 0)])
            assert [record.value for record in await read(reader, 1)] == [b"now"]

    asyncio.run(run())


def test_a_topic_that_is_deleted_and_created_again_is_read_from_its_beginning(apache: str, topic: str) -> None:
    def write(value: str) -> None:
        producer = Producer({"bootstrap.servers": apache})
        for _ in range(3):
            producer.produce(topic, value)
        assert producer.flush(PATIENCE_S) == 0

    async def run() -> None:
        async with consumer(apache, **{"metadata.max.age.ms": 500, "allow.auto.create.topics": False}) as reader:
            reader.assign([(topic, 0)])
            await asyncio.to_thread(write, "first")
            assert [record.value for record in await read(reader, 3)] == [b"first"] * 3
            admin = AdminClient({"bootstrap.servers": apache})
            await asyncio.to_thread(admin.delete_topics([topic])[topic].result, PATIENCE_S)
            assert await reader.poll(500) == {}
            await asyncio.to_thread(create, apache, topic)
            reader.seek_to_beginning()
            await asyncio.to_thread(write, "second")
            assert [record.value for record in await read(reader, 3)] == [b"second"] * 3

    asyncio.run(run())
