"""Loads of our own clients on a cluster whose brokers are killed: records in order and once, transactions, groups."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.consumer_record import ConsumerRecord
from kraft_core.clients.consumer.kafka_consumer import KafkaConsumer
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.clients.producer.future_record_metadata import FutureRecordMetadata
from kraft_core.clients.producer.kafka_producer import KafkaProducer
from kraft_core.clients.producer.transaction_errors import ProducerFailed, TransactionAbortable
from kraft_core.protocol.errors import KafkaError
from tests.interop.kafka import PATIENCE_S

KEYS = 20
PAUSE_S = 0.002


def _values(records: dict[TopicPartition, list[ConsumerRecord[bytes, bytes]]]) -> list[tuple[bytes, int]]:
    return [(record.key, int(record.value)) for batch in records.values() for record in batch]


class Load:
    """Numbers, each with one of KEYS keys, written with the producer's defaults (acks=all, idempotent)."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._ends = asyncio.Event()
        self.acknowledged: dict[tuple[str, int, int], int] = {}  # (topic, partition, offset) -> number

    async def run(self) -> None:
        """Write until `stop`; every record must be acknowledged."""
        futures: list[FutureRecordMetadata] = []
        async with KafkaProducer({"bootstrap.servers": self._bootstrap, "linger.ms": 0}) as producer:
            for number in itertools.count():
                if self._ends.is_set():
                    break
                futures.append(await producer.send(self._topic, b"%d" % number, b"key-%d" % (number % KEYS)))
                await asyncio.sleep(PAUSE_S)
            await producer.flush()
        for number, future in enumerate(futures):
            at = await future
            self.acknowledged[at.topic, at.partition, at.offset] = number

    def stop(self) -> None:
        self._ends.set()


class GroupTruth:
    """What holds for a group: who owns each partition by the listeners' calls, and which commits succeeded.

    `clashes` are partitions with two owners; one whose first owner had lost it without noticing does not count.
    `read_again` are records that were read although a later offset was committed.
    """

    def __init__(self) -> None:
        self.owners: dict[TopicPartition, Member] = {}
        self.clashes: dict[tuple[TopicPartition, Member], str] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.read_again: list[str] = []

    def assigned(self, partition: TopicPartition, member: "Member") -> None:
        other = self.owners.get(partition)
        if other not in (None, member):
            self.clashes[partition, other] = f"{partition} was assigned before its owner gave it up"
        self.owners[partition] = member

    def revoked(self, partition: TopicPartition, member: "Member", *, is_lost: bool) -> None:
        if self.owners.get(partition) is member:
            del self.owners[partition]
        if is_lost:
            self.clashes.pop((partition, member), None)

    def read(self, partition: TopicPartition, first_offset: int) -> None:
        if first_offset < self.committed.get(partition, 0):
            self.read_again.append(f"{partition} at {first_offset} after {self.committed[partition]}")


class Member:
    """A member of a group that reads a topic and commits what it has read."""

    def __init__(self, bootstrap: str, topic: str, truth: GroupTruth, **configs: object) -> None:
        self.configs = {
            "bootstrap.servers": bootstrap,
            "group.id": f"group-of-{topic}",
            "auto.offset.reset": "earliest",
            **{name.replace("_", "."): value for name, value in configs.items()},
        }
        self._topic = topic
        self._truth = truth
        self.partitions: frozenset[int] = frozenset()
        self.numbers: set[int] = set()

    async def run(self) -> None:
        """Read until cancelled."""
        async with KafkaConsumer(self.configs) as consumer:
            consumer.subscribe([self._topic], self)
            while True:
                records = await consumer.poll(100)
                self.numbers.update(number for _, number in _values(records))
                self.partitions = frozenset(partition.partition for partition in consumer.assignment())
                if records and self.configs.get("enable.auto.commit") is False:
                    await self._commit(consumer, records)

    async def _commit(
        self, consumer: KafkaConsumer, records: dict[TopicPartition, list[ConsumerRecord[bytes, bytes]]]
    ) -> None:
        for partition, batch in records.items():
            self._truth.read(partition, batch[0].offset)
        try:
            await consumer.commit({each: OffsetAndMetadata(batch[-1].offset + 1) for each, batch in records.items()})
        except KafkaError:
            return  # committed or not
        self._truth.committed.update({each: batch[-1].offset + 1 for each, batch in records.items()})

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._truth.assigned(partition, self)

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._truth.revoked(partition, self, is_lost=False)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._truth.revoked(partition, self, is_lost=True)


async def eventually(what: str, check: Callable[[], bool]) -> None:
    """Wait until `check()` is true."""
    deadline = asyncio.get_running_loop().time() + 2 * PATIENCE_S
    while not check():
        assert asyncio.get_running_loop().time() < deadline, f"not in time: {what}"
        await asyncio.sleep(0.05)


@asynccontextmanager
async def nothing_lost(bootstrap: str, topic: str, **group: object) -> AsyncIterator[None]:
    """Write and read meanwhile. At the end each number is in the topic once, and in order for its key.

    The two members of the group have read everything, and share the topic's six partitions as before. No partition had
    two owners. Without auto commit they commit each poll: no commit that succeeded is lost.
    """
    load = Load(bootstrap, topic)
    truth = GroupTruth()
    members = [Member(bootstrap, topic, truth, **group) for _ in range(2)]

    def is_shared() -> bool:
        first, second = (member.partitions for member in members)
        return len(first) == len(second) == 3 and first | second == {*range(6)}

    readers = [asyncio.create_task(member.run()) for member in members]
    writer = asyncio.create_task(load.run())
    try:
        await eventually("the members share the topic", is_shared)
        yield
        load.stop()
        await writer
        count = len(load.acknowledged)
        assert count > KEYS
        await eventually(
            "the group has read it all", lambda: members[0].numbers | members[1].numbers == {*range(count)}
        )
        await eventually("the members share the topic again", is_shared)
        async with KafkaConsumer(members[0].configs) as observer:
            committed = await observer.committed(truth.committed)
        clashes = list(truth.clashes.values())
    finally:
        for task in (writer, *readers):
            task.cancel()
        await asyncio.gather(writer, *readers, return_exceptions=True)
    assert not clashes, "each partition keeps one owner"
    assert not truth.read_again, "nothing committed is read again"
    assert truth.committed or group.get("enable_auto_commit", True)
    for partition, offset in truth.committed.items():
        last = committed[partition]
        assert last is not None, f"the commit of {partition} is lost"
        assert last.offset >= offset, f"the last commit of {partition} is lost"
    stored = await read_all(bootstrap, topic)
    assert Counter(int(record.value) for record in stored) == Counter(range(count)), "each once"
    for record in stored:
        assert load.acknowledged[record.topic, record.partition, record.offset] == int(record.value)
    for key, numbers in itertools.groupby(sorted(stored, key=lambda each: (each.key, each.offset)), lambda at: at.key):
        in_order = [int(record.value) for record in numbers]
        assert in_order == sorted(in_order), f"the records of {key!r} are in the order of sending"


async def read_all(
    bootstrap: str, topic: str, isolation_level: str = "read_uncommitted"
) -> list[ConsumerRecord[bytes, bytes]]:
    """Return all records of a topic up to its present end."""
    configs = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", "isolation.level": isolation_level}
    found: list[ConsumerRecord[bytes, bytes]] = []
    async with KafkaConsumer(configs) as consumer:
        partitions = [TopicPartition(topic, number) for number in range(len(await consumer.partitions_for(topic)))]
        ends = await consumer.end_offsets(partitions)
        consumer.assign(partitions)
        async with asyncio.timeout(2 * PATIENCE_S):
            while True:
                positions = {partition: await consumer.position(partition) for partition in partitions}
                if all(positions[partition] >= ends[partition] for partition in partitions):
                    return found
                for batch in (await consumer.poll(500)).values():
                    found += batch


class Copier:
    """Copies a topic in transactions that also commit the group's offsets (consume, transform, produce).

    A transaction that cannot be committed is aborted, and its records are read again. A failed producer is replaced by
    a new one with the same transactional.id.
    """

    def __init__(self, bootstrap: str, source: str, target: str) -> None:
        self._producer_configs = {"bootstrap.servers": bootstrap, "transactional.id": f"copy-{target}"}
        self._consumer_configs = {
            "bootstrap.servers": bootstrap,
            "group.id": f"copy-{target}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        self._source = source
        self._target = target
        self._ends = False
        self.transactions = 0
        self.aborted = 0
        self.failed = 0

    def stop(self) -> None:
        """End once everything is copied."""
        self._ends = True

    async def run(self) -> None:
        """Copy until the source's end is reached after `stop`."""
        while True:
            async with (
                KafkaProducer(self._producer_configs) as producer,
                KafkaConsumer(self._consumer_configs) as consumer,
            ):
                try:
                    await producer.init_transactions()
                    consumer.subscribe([self._source])
                    while not await self._is_complete(consumer):
                        await self._copy_some(producer, consumer)
                except ProducerFailed:
                    self.failed += 1
                else:
                    return

    async def _is_complete(self, consumer: KafkaConsumer) -> bool:
        if not self._ends or not consumer.assignment():
            return False
        ends = await consumer.end_offsets(consumer.assignment())
        committed = await consumer.committed(consumer.assignment())
        offsets = {partition: found.offset for partition, found in committed.items() if found is not None}
        return all(offsets.get(partition, 0) >= end for partition, end in ends.items())

    async def _copy_some(self, producer: KafkaProducer, consumer: KafkaConsumer) -> None:
        records = await consumer.poll(500)
        if not records:
            return
        try:
            await producer.begin_transaction()
            for batch in records.values():
                for record in batch:
                    await producer.send(self._target, record.value, record.key)
            offsets = {partition: OffsetAndMetadata(batch[-1].offset + 1) for partition, batch in records.items()}
            await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            await producer.commit_transaction()
            self.transactions += 1
        except TransactionAbortable:
            self.aborted += 1
            await producer.abort_transaction()
            await self._return_to_committed(consumer)

    @staticmethod
    async def _return_to_committed(consumer: KafkaConsumer) -> None:
        """Read again what the aborted transaction had read."""
        for partition, committed in (await consumer.committed(consumer.assignment())).items():
            if committed is None:
                consumer.seek_to_beginning([partition])
            else:
                consumer.seek(partition, committed)
