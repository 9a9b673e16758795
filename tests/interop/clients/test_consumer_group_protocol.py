"""KafkaConsumer with group.protocol=consumer (KIP-848) in groups of Apache's broker, and against ours without it."""

import asyncio
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.kafka_consumer import KafkaConsumer
from kraft_core.clients.consumer.subscription_state import SubscriptionPattern
from kraft_core.protocol.errors import ErrorCode, InvalidRequest, KafkaError, UnsupportedVersion
from tests.interop.kafka import PATIENCE_S, Process

LONE_MEMBER = """
import asyncio, sys
from kraft_core.clients.consumer.kafka_consumer import KafkaConsumer

async def main():
    configs = {"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "group.protocol": "consumer"}
    async with KafkaConsumer(configs) as consumer:
        consumer.subscribe(sys.argv[3:])
        while True:
            await consumer.poll(200)
            if consumer.assignment():
                print("assigned", flush=True)

asyncio.run(main())
"""


def create(address: str, **topics: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for created in admin.create_topics([NewTopic(name, size, 1) for name, size in topics.items()]).values():
        created.result()


def produce(address: str, topic: str, partitions: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": address})
    for number in range(count):
        producer.produce(topic, value=str(number).encode(), partition=number % partitions)
    assert producer.flush(PATIENCE_S) == 0


class Listener:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(f"assigned {len(partitions)}")

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(f"revoked {len(partitions)}")

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(f"lost {len(partitions)}")


class Group:
    """Members in this process, all of which poll until the block ends."""

    def __init__(self, address: str, group_id: str) -> None:
        self.configs = {
            "bootstrap.servers": address,
            "group.id": group_id,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
        self.members: list[KafkaConsumer] = []
        self.values: list[bytes] = []
        self._pollers: dict[KafkaConsumer, asyncio.Task[None]] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for member in list(self.members):
            await self.leave(member)
        await self._stack.aclose()

    async def join(
        self, topics: Sequence[str] | SubscriptionPattern, listener: Listener | None = None, **more: str
    ) -> KafkaConsumer:
        member = KafkaConsumer(self.configs | {name.replace("_", "."): value for name, value in more.items()})
        await self._stack.enter_async_context(member)
        member.subscribe(topics, listener)
        self.members.append(member)
        self._pollers[member] = asyncio.create_task(self._poll(member))
        return member

    async def leave(self, member: KafkaConsumer) -> None:
        self.members.remove(member)
        await self._pollers.pop(member)
        await member.close()

    async def _poll(self, member: KafkaConsumer) -> None:
        while member in self.members:
            for records in (await member.poll(100)).values():
                self.values += [record.value for record in records]

    def owned(self) -> list[set[tuple[str, int]]]:
        return [set(member.assignment()) for member in self.members]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                for poller in self._pollers.values():
                    if poller.done():
                        poller.result()
                await asyncio.sleep(0.05)

    def shares(self, **topics: int) -> bool:
        """Whether each partition has one owner, and no member has two more than another."""
        owned = self.owned()
        everything = sorted((name, index) for name, size in topics.items() for index in range(size))
        sizes = [len(partitions) for partitions in owned]
        return (
            sorted(each for partitions in owned for each in partitions) == everything and max(sizes) - min(sizes) <= 1
        )


@pytest.mark.interop
def test_partitions_of_a_killed_member_have_one_owner_each_afterwards(apache: str, tmp_path: Path) -> None:
    """Five members; one is a process that is killed."""
    create(apache, killed=10)
    script = tmp_path / "member.py"
    script.write_text(LONE_MEMBER)

    async def run() -> None:
        async with Group(apache, "killed") as group:
            for _ in range(4):
                await group.join(["killed"])
            with Process("member", [sys.executable, str(script), apache, "killed", "killed"], tmp_path) as process:
                await group.until(lambda: "assigned" in process.output and sum(map(len, group.owned())) == 8)
                process.kill()
            await group.until(lambda: group.shares(killed=10))

    asyncio.run(run())


@pytest.mark.interop
def test_the_broker_matches_a_pattern_and_new_topics_join_it(apache: str) -> None:
    create(apache, orders_eu=2, orders_us=1, payments=1)
    produce(apache, "orders_eu", 2, 10)

    async def run() -> None:
        async with Group(apache, "pattern") as group:
            await group.join(SubscriptionPattern("^orders_.*"))
            await group.until(lambda: group.shares(orders_eu=2, orders_us=1) and len(group.values) == 10)
            create(apache, orders_asia=3)
            await group.until(lambda: group.shares(orders_eu=2, orders_us=1, orders_asia=3))

    asyncio.run(run())


@pytest.mark.interop
def test_the_group_uses_the_assignor_that_its_members_ask_for(apache: str) -> None:
    """Range gives a member the same run of each topic; uniform keeps what the first one has."""
    create(apache, first=4, second=4)

    async def owned_with(assignor: str) -> list[set[tuple[str, int]]]:
        async with Group(apache, f"assigned-by-{assignor}") as group:
            for _ in range(2):
                await group.join(["first", "second"], group_remote_assignor=assignor)
                await group.until(lambda: group.shares(first=4, second=4))
            return group.owned()

    low, high = ({(topic, index) for topic in ("first", "second") for index in run} for run in ((0, 1), (2, 3)))
    by_range = asyncio.run(owned_with("range"))
    assert by_range in ([low, high], [high, low])
    assert sorted(map(len, asyncio.run(owned_with("uniform")))) == [4, 4]


@pytest.mark.interop
def test_a_static_member_that_restarts_gets_its_partitions_back_without_a_rebalance(apache: str) -> None:
    create(apache, static=4)

    async def run() -> None:
        async with Group(apache, "static") as group:
            listener = Listener()
            await group.join(["static"], listener, group_instance_id="one")
            other = await group.join(["static"], group_instance_id="two")
            await group.until(lambda: group.shares(static=4))
            calls, owned = list(listener.calls), group.owned()
            await group.leave(other)
            await group.join(["static"], group_instance_id="two")
            await group.until(lambda: group.shares(static=4))
            assert group.owned() == owned
            assert listener.calls == calls
            configs = group.configs | {"group.instance.id": "two"}
            async with KafkaConsumer(configs) as third:
                third.subscribe(["static"])
                with pytest.raises(KafkaError) as refused:
                    await third.poll(PATIENCE_S * 1_000)
            assert refused.value.code == ErrorCode.UNRELEASED_INSTANCE_ID

    asyncio.run(run())


@pytest.mark.interop
def test_a_member_continues_where_the_one_before_it_stopped(apache: str) -> None:
    create(apache, handover=3)
    produce(apache, "handover", 3, 30)

    async def run() -> list[bytes]:
        values: list[bytes] = []
        for expected in (30, 60):
            async with Group(apache, "handover") as group:
                await group.join(["handover"])
                await group.until(lambda: len(values) + len(group.values) >= expected)  # noqa: B023 - awaited here
            values += group.values
            if expected == 30:
                produce(apache, "handover", 3, 30)
        return values

    assert sorted(asyncio.run(run())) == sorted(2 * [str(number).encode() for number in range(30)])


@pytest.mark.interop
def test_a_topic_that_is_deleted_and_created_again_is_read_from_its_beginning(apache: str) -> None:
    """Positions of the deleted topic, which cannot be committed any more, hold nothing back."""
    create(apache, kept=1, renewed=2)
    produce(apache, "renewed", 2, 20)

    async def run() -> None:
        async with Group(apache, "renewed") as group:
            await group.join(["kept", "renewed"], allow_auto_create_topics="false")
            await group.until(lambda: len(group.values) == 20)
            admin = AdminClient({"bootstrap.servers": apache})
            for deleted in admin.delete_topics(["renewed"]).values():
                deleted.result()
            await group.until(lambda: group.shares(kept=1))
            create(apache, renewed=2)
            produce(apache, "renewed", 2, 6)
            await group.until(lambda: group.shares(kept=1, renewed=2) and len(group.values) == 26)

    asyncio.run(run())


@pytest.mark.interop
def test_an_assignor_that_the_broker_lacks_is_an_error_of_the_poll(apache: str) -> None:
    create(apache, odd=1)

    async def run() -> None:
        configs = {"bootstrap.servers": apache, "group.id": "odd", "group.protocol": "consumer"}
        async with KafkaConsumer(configs | {"group.remote.assignor": "deal"}) as consumer:
            consumer.subscribe(["odd"])
            with pytest.raises(KafkaError, match="deal") as refused:
                await consumer.poll(PATIENCE_S * 1_000)
        assert refused.value.code == ErrorCode.UNSUPPORTED_ASSIGNOR

    asyncio.run(run())


def test_a_broker_without_the_protocol_is_named_at_once(ours: str) -> None:
    async def run() -> None:
        configs = {"bootstrap.servers": ours, "group.id": "g", "group.protocol": "consumer"}
        async with KafkaConsumer(configs) as consumer:
            consumer.subscribe(["t"])
            with pytest.raises(UnsupportedVersion, match=r"use group\.protocol=classic"):
                await consumer.poll(PATIENCE_S * 1_000)

    asyncio.run(run())


def test_a_pattern_for_the_broker_is_refused_in_a_classic_group(ours: str) -> None:
    async def run() -> None:
        async with KafkaConsumer({"bootstrap.servers": ours, "group.id": "g"}) as consumer:
            with pytest.raises(InvalidRequest, match=r"needs group\.protocol=consumer"):
                consumer.subscribe(SubscriptionPattern("^t"))

    asyncio.run(run())
