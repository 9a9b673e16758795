"""Groups for tests of pages and of the API: committed offsets, and a member that stays until the block ends."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kraft_core.clients.admin.kafka_admin_client import Admin
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.kafka_consumer import KafkaConsumer
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.clients.producer.kafka_producer import KafkaProducer
from tests.app.live import CombinedNode, LiveWeb
from tests.interop.kafka import PATIENCE_S, wait_until


def new_topic(web: LiveWeb, node: CombinedNode, topic: str, counts: Mapping[int, int]) -> None:
    """Create a topic with a number of records in each partition."""
    body = {"topic_name": topic, "partitions_count": len(counts)}
    assert web.client.post(f"{web.cluster}/topics", json=body).status_code == 201
    write(node, topic, counts)


def write(node: CombinedNode, topic: str, counts: Mapping[int, int]) -> None:
    """Append a number of records to each partition."""

    async def work() -> None:
        async with KafkaProducer({"bootstrap.servers": node.broker}) as producer:
            for partition, count in counts.items():
                for number in range(count):
                    await producer.send(topic, value=str(number).encode(), partition=partition)

    asyncio.run(work())


def commit(node: CombinedNode, group_id: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Commit offsets for a group without members, which creates it."""

    async def work() -> None:
        async with Admin({"bootstrap.servers": node.broker}) as admin:
            wanted = {TopicPartition(topic, index): OffsetAndMetadata(offset) for index, offset in offsets.items()}
            (await admin.alter_consumer_group_offsets(group_id, wanted)).all()

    asyncio.run(work())


@contextmanager
def member(node: CombinedNode, group_id: str, topic: str, **configs: object) -> Iterator[None]:
    """A member of a group that is assigned all partitions of a topic while the block runs."""
    assigned, stop = threading.Event(), threading.Event()

    async def work() -> None:
        settings = {
            "bootstrap.servers": node.broker,
            "group.id": group_id,
            "group.protocol": "classic",
            "enable.auto.commit": False,
            "client.id": "reader",
            **configs,
        }
        async with KafkaConsumer(settings) as consumer:
            consumer.subscribe([topic])
            while not stop.is_set():
                await consumer.poll(50)
                if consumer.assignment():
                    assigned.set()

    thread = threading.Thread(target=lambda: asyncio.run(work()), daemon=True)
    thread.start()
    try:
        assert assigned.wait(PATIENCE_S), "the member has no assignment"
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the member did not leave"


def shown(web: LiveWeb, path: str, *parts: str, forget: str = "") -> str:
    """Return a page once it has all parts: answers of brokers come in the background. `forget` is a group's id."""

    async def drop() -> None:
        web.services.cluster.groups.forget(forget)

    web.call(drop())

    def found() -> str | None:
        text = web.client.get(path).text
        return text if all(part in text for part in parts) else None

    return wait_until(found, PATIENCE_S, f"{path} has {parts}", 0.05)
