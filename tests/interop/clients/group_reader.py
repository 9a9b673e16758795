"""A KafkaConsumer in a group that polls in the background, and what it was given."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Collection
from functools import wraps
from typing import ParamSpec, Self

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.kafka_consumer import KafkaConsumer, Record
from tests.interop.kafka import PATIENCE_S

P = ParamSpec("P")


_started: "list[GroupReader]" = []


def on_event_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Make a test of a coroutine. Readers that it leaves open, because it failed, are closed."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def story() -> None:
            try:
                await test(*args, **kwargs)
            finally:
                while _started:
                    await _started[-1].close(timeout_ms=0)

        asyncio.run(story())

    return run


def new_topic(address: str, partitions: int) -> str:
    """Create a topic and return its name."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(PATIENCE_S)
    return name


def produce(address: str, topic: str, partitions: int, count: int) -> None:
    """Write `count` records to each partition, the values being 0, 1, …"""
    producer = Producer({"bootstrap.servers": address})
    for number in range(count):
        for partition in range(partitions):
            producer.produce(topic, str(number).encode(), partition=partition)
    assert producer.flush(PATIENCE_S) == 0


class Owners:
    """Which reader owns each partition, by the calls of the listeners. `clashes` are partitions with two owners."""

    def __init__(self) -> None:
        self.by_partition: dict[TopicPartition, str] = {}
        self.clashes: list[tuple[TopicPartition, str, str]] = []

    def of(self, name: str) -> list[int]:
        return sorted(each.partition for each, owner in self.by_partition.items() if owner == name)


class GroupReader:
    """One member. `calls` are the listener's calls; `read` the values by partition."""

    def __init__(self, address: str, group: str, name: str, owners: Owners | None = None, **configs: object) -> None:
        self.name = name
        self.owners = owners or Owners()
        self.calls: list[tuple[str, list[int]]] = []
        self.read: dict[int, list[int]] = {}
        settings = {
            "bootstrap.servers": address,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 1_500,
            "heartbeat.interval.ms": 200,
            "fetch.max.wait.ms": 100,
        }
        settings |= {key.replace("_", "."): value for key, value in configs.items()}
        self.consumer = KafkaConsumer(settings)
        self._task: asyncio.Task[None] | None = None

    async def start(self, *topics: str) -> Self:
        await self.consumer.__aenter__()
        _started.append(self)
        self.consumer.subscribe(topics, self)
        self._task = asyncio.get_running_loop().create_task(self._poll())
        return self

    async def _poll(self) -> None:
        while True:
            for partition, records in (await self.consumer.poll(100)).items():
                self.read.setdefault(partition.partition, []).extend(int(each.value) for each in records)

    async def pause(self) -> None:
        """Stop polling."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def close(self, timeout_ms: float = 30_000) -> None:
        """Stop polling, and leave the group."""
        if self in _started:
            _started.remove(self)
        await self.pause()
        await self.consumer.close(timeout_ms)

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("assigned", sorted(each.partition for each in partitions)))
        for each in partitions:
            other = self.owners.by_partition.setdefault(each, self.name)
            if other != self.name:
                self.owners.clashes.append((each, other, self.name))

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        await asyncio.sleep(0.01)
        self.calls.append(("revoked", sorted(each.partition for each in partitions)))
        for each in partitions:
            self.owners.by_partition.pop(each, None)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("lost", sorted(each.partition for each in partitions)))
        for each in partitions:
            if self.owners.by_partition.get(each) == self.name:
                del self.owners.by_partition[each]

    @property
    def owned(self) -> list[int]:
        return sorted(each.partition for each in self.consumer.assignment())


async def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition; fails with `what`."""
    end = asyncio.get_running_loop().time() + PATIENCE_S
    while not condition():
        if asyncio.get_running_loop().time() > end:
            raise AssertionError(f"not within {PATIENCE_S} s: {what}")
        await asyncio.sleep(0.02)


async def read(reader: KafkaConsumer, count: int) -> list[Record]:
    """Return the next records of a consumer: exactly `count`."""
    found: list[Record] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            for records in (await reader.poll(1_000)).values():
                found += records
    assert len(found) == count
    return found
