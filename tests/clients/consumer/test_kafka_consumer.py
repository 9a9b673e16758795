"""KafkaConsumer against our node: what librdkafka's producer wrote, positions, offsets, groups."""

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import wraps
from typing import Any, ParamSpec

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kraft_core.clients.admin.kafka_admin_client import Admin
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.consumer_errors import (
    InvalidSubscription,
    NoOffsetForPartition,
    OffsetOutOfRange,
    RecordDeserialization,
)
from kraft_core.clients.consumer.consumer_interceptor import ConsumerInterceptor, Records
from kraft_core.clients.consumer.kafka_consumer import KafkaConsumer
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.configs.config_def import ConfigException
from kraft_core.protocol.errors import InvalidRequest, KafkaError, RequestTimedOut
from tests.interop.clients.group_reader import read
from tests.interop.embedded.embedded_node import EmbeddedNode, running_node
from tests.interop.kafka import PATIENCE_S, free_ports
from tests.security.secure_listener import LOOPS

_names = itertools.count()
P = ParamSpec("P")


def on_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test on an event loop of its own."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedNode]:
    with running_node(tmp_path_factory.mktemp("consumer") / "node") as started:
        yield started


@pytest.fixture
def topic(node: EmbeddedNode) -> str:
    name = f"topic-{next(_names)}"
    admin = AdminClient({"bootstrap.servers": node.address})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(PATIENCE_S)
    return name


def produce(node: EmbeddedNode, topic: str, values: list[str], partition: int = 0, **configs: Any) -> None:
    producer = Producer({"bootstrap.servers": node.address, **{k.replace("_", "."): v for k, v in configs.items()}})
    for index, value in enumerate(values):
        producer.produce(
            topic,
            value,
            key=f"k{index}",
            partition=partition,
            timestamp=1_000 + index,
            headers=[("h", b"x"), ("n", None)],
        )
    assert producer.flush(PATIENCE_S) == 0


def consumer(node: EmbeddedNode, **configs: Any) -> KafkaConsumer:
    given = {key.replace("_", "."): value for key, value in configs.items()}
    return KafkaConsumer(
        {"bootstrap.servers": node.address, "auto.offset.reset": "earliest", "fetch.max.wait.ms": 50, **given}
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@on_a_loop
async def test_records_of_every_codec_are_read(node: EmbeddedNode, topic: str, codec: str) -> None:
    values = [f"value {index}" * (index % 7) for index in range(200)]
    produce(node, topic, values, compression_type=codec)
    async with consumer(node) as reader:
        reader.assign([(topic, 0)])
        records = await read(reader, 200)
    assert [record.value for record in records] == [value.encode() for value in values]
    first = records[1]
    assert (first.topic, first.partition, first.offset, first.timestamp_ms) == (topic, 0, 1, 1_001)
    assert (first.key, first.headers, first.timestamp_type) == (b"k1", (("h", b"x"), ("n", None)), 0)


@on_a_loop
async def test_no_poll_returns_more_than_max_poll_records_and_positions_follow(node: EmbeddedNode, topic: str) -> None:
    produce(node, topic, ["v"] * 25)
    async with consumer(node, max_poll_records=10) as reader:
        reader.assign([(topic, 0)])
        seen = 0
        while seen < 25:
            records = await reader.poll(PATIENCE_S * 1_000)
            assert list(records) == [TopicPartition(topic, 0)]
            assert len(records[TopicPartition(topic, 0)]) <= 10
            seen += len(records[TopicPartition(topic, 0)])
            assert await reader.position((topic, 0)) == seen
        assert await reader.poll(50) == {}
        assert reader.current_lag((topic, 0)) == 0


@on_a_loop
async def test_seek_pause_and_resume(node: EmbeddedNode, topic: str) -> None:
    for partition in (0, 1):
        produce(node, topic, [f"{partition}-{index}" for index in range(10)], partition)
    async with consumer(node) as reader:
        reader.assign([(topic, 0), (topic, 1)])
        reader.pause([(topic, 1)])
        assert {record.partition for record in await read(reader, 10)} == {0}
        reader.seek((topic, 0), 7)
        assert [record.offset for record in await read(reader, 3)] == [7, 8, 9]
        reader.resume([(topic, 1)])
        assert [record.partition for record in await read(reader, 10)] == [1] * 10
        reader.seek_to_beginning([(topic, 0)])
        reader.seek_to_end([(topic, 1)])
        assert await reader.position((topic, 1)) == 10
        assert len(await read(reader, 10)) == 10
        reader.seek((topic, 0), OffsetAndMetadata(4, leader_epoch=0))
        assert [record.offset for record in await read(reader, 6)] == list(range(4, 10))


@on_a_loop
async def test_offsets_by_time_beginning_and_end(node: EmbeddedNode, topic: str) -> None:
    produce(node, topic, ["v"] * 10)
    async with consumer(node) as reader:
        both = [(topic, 0), (topic, 1)]
        assert await reader.beginning_offsets(both) == {(topic, 0): 0, (topic, 1): 0}
        assert await reader.end_offsets(both) == {(topic, 0): 10, (topic, 1): 0}
        found = await reader.offsets_for_times({(topic, 0): 1_004, (topic, 1): 5})
        assert found[TopicPartition(topic, 1)] is None
        first = found[TopicPartition(topic, 0)]
        assert first is not None
        assert (first.offset, first.timestamp_ms) == (4, 1_004)
        assert sorted(await reader.partitions_for(topic)) == both
        assert topic in await reader.list_topics()


@on_a_loop
async def test_an_offset_beyond_the_log_is_reset_or_an_error(node: EmbeddedNode, topic: str) -> None:
    produce(node, topic, ["v"] * 3)
    async with consumer(node) as reader:
        reader.assign([(topic, 0)])
        reader.seek((topic, 0), 1_000)
        assert [record.offset for record in await read(reader, 3)] == [0, 1, 2]
    async with consumer(node, auto_offset_reset="none") as reader:
        reader.assign([(topic, 0)])
        with pytest.raises(NoOffsetForPartition, match=topic):
            await reader.poll(PATIENCE_S * 1_000)
        reader.seek((topic, 0), 1_000)
        with pytest.raises(OffsetOutOfRange) as refused:
            await reader.poll(PATIENCE_S * 1_000)
        assert refused.value.offsets == {(topic, 0): 1_000}
        reader.seek((topic, 0), 1)
        assert [record.offset for record in await read(reader, 2)] == [1, 2]


@on_a_loop
async def test_values_are_deserialized_and_a_failure_names_its_record(node: EmbeddedNode, topic: str) -> None:
    produce(node, topic, ["1", "[2]", "{", "4"])
    configs = {"value_deserializer": lambda _topic, _headers, data: json.loads(data)}
    async with consumer(node, **configs) as reader:
        reader.assign([(topic, 0)])
        assert [record.value for record in await read(reader, 2)] == [1, [2]]
        for _ in range(2):
            with pytest.raises(RecordDeserialization, match=r"the value of .* at offset 2") as refused:
                await reader.poll(PATIENCE_S * 1_000)
        reader.seek((topic, 0), refused.value.offset + 1)
        assert [record.value for record in await read(reader, 1)] == [4]


@on_a_loop
async def test_async_for_yields_records_in_order(node: EmbeddedNode, topic: str) -> None:
    produce(node, topic, [str(index) for index in range(30)])
    async with consumer(node) as reader:
        reader.assign([(topic, 0)])
        seen = []
        async for record in reader:
            seen.append(record.offset)
            if len(seen) == 30:
                break
    assert seen == list(range(30))


@on_a_loop
async def test_a_group_continues_where_it_committed(node: EmbeddedNode, topic: str) -> None:
    produce(node, topic, ["v"] * 20)
    configs = {"group_id": f"g-{topic}", "enable_auto_commit": False, "max_poll_records": 5}
    async with consumer(node, **configs) as reader:
        reader.subscribe([topic])
        await read(reader, 5)
        await reader.commit()
        await read(reader, 5)
        assert await reader.committed([(topic, 0)]) == {(topic, 0): OffsetAndMetadata(5, "", 0)}
    async with consumer(node, **configs) as reader:
        reader.subscribe([topic])
        assert [record.offset for record in await read(reader, 5)] == [5, 6, 7, 8, 9]
        await reader.unsubscribe()
        assert reader.assignment() == set()


@on_a_loop
async def test_closing_commits_what_was_returned(node: EmbeddedNode, topic: str) -> None:
    produce(node, topic, ["v"] * 20)
    async with consumer(node, group_id=f"g-{topic}", max_poll_records=5) as reader:
        reader.subscribe([topic])
        await read(reader, 5)
    async with consumer(node, group_id=f"g-{topic}") as reader:
        assert await reader.committed([(topic, 0)]) == {(topic, 0): OffsetAndMetadata(5, "", 0)}


@on_a_loop
async def test_misuse_is_refused_with_what_is_allowed(node: EmbeddedNode, topic: str) -> None:
    reader = consumer(node)
    with pytest.raises(InvalidRequest, match="async with"):
        reader.assign([(topic, 0)])
    async with reader:
        with pytest.raises(InvalidRequest, match="nothing to poll"):
            await reader.poll()
        with pytest.raises(InvalidRequest, match=r"group\.id"):
            reader.subscribe([topic])
        with pytest.raises(KafkaError, match=r"commit needs a group\.id"):
            await reader.commit()
        with pytest.raises(InvalidRequest, match="-1"):
            reader.assign([(topic, -1)])
        with pytest.raises(InvalidRequest, match="-5"):
            await reader.offsets_for_times({(topic, 0): -5})
    async with consumer(node, group_id="g") as reader:
        with pytest.raises(InvalidRequest, match="not the string"):
            reader.subscribe(topic)
        reader.assign([(topic, 0)])
        with pytest.raises(InvalidSubscription):
            reader.subscribe([topic])


@pytest.mark.parametrize(
    ("configs", "named"),
    [
        ({"fetch.max.byte": 1}, "fetch.max.bytes"),
        ({"max.poll.records": 0}, "max.poll.records"),
        ({"auto.offset.reset": "first"}, "earliest"),
        ({"isolation.level": "serial"}, "read_committed"),
        ({"enable.auto.commit": True}, "group.id"),
        ({"group.id": "g", "group.protocol": "consumer", "session.timeout.ms": 9}, "session.timeout.ms"),
        ({"group.id": "g", "partition.assignment.strategy": "best"}, "cooperative-sticky"),
        ({"value.deserializer": object()}, "callable"),
        ({"request.timeout.ms": 400, "fetch.max.wait.ms": 400}, "fetch.max.wait.ms"),
        ({}, None),
    ],
)
def test_configs_are_checked(configs: dict[str, object], named: str | None) -> None:
    if named is None:
        KafkaConsumer({"bootstrap.servers": "localhost:9092"})
        return
    with pytest.raises(ConfigException, match=named):
        KafkaConsumer({"bootstrap.servers": "localhost:9092", **configs})


@on_a_loop
async def test_a_cancelled_poll_loses_no_records(node: EmbeddedNode, topic: str) -> None:
    produce(node, topic, ["v"] * 300)
    seen: list[int] = []
    async with consumer(node, max_poll_records=1) as reader:
        reader.assign([(topic, 0)])
        for number in range(2_000):
            task = asyncio.create_task(reader.poll(100))
            for _ in range(number % 4):
                await asyncio.sleep(0)
            task.cancel()
            try:
                for records in (await task).values():
                    seen += [record.offset for record in records]
            except asyncio.CancelledError:
                continue
        while len(seen) < 300:
            seen += [record.offset for record in await read(reader, 1)]
    assert seen == list(range(300))


class Halving(ConsumerInterceptor):
    """Lets records with an even offset through, and remembers what it sees."""

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self.is_closed = False

    def on_consume(self, records: Records) -> Records:
        kept = {key: [record for record in found if record.offset % 2 == 0] for key, found in records.items()}
        return {key: found for key, found in kept.items() if found}

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.committed.update(offsets)

    def close(self) -> None:
        self.is_closed = True


class Failing(ConsumerInterceptor):
    def on_consume(self, records: Records) -> Records:
        raise ValueError("mine")

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        raise ValueError("mine")

    def close(self) -> None:
        raise ValueError("mine")


@on_a_loop
async def test_interceptors_see_records_and_commits_and_their_errors_do_no_harm(node: EmbeddedNode, topic: str) -> None:
    produce(node, topic, ["v"] * 10)
    halving = Halving()
    async with consumer(node, group_id=f"g-{topic}", interceptor_classes=[Failing(), halving]) as reader:
        reader.subscribe([topic])
        assert [record.offset for record in await read(reader, 5)] == [0, 2, 4, 6, 8]
        await reader.commit()
        assert halving.committed[TopicPartition(topic, 0)].offset == 10
    assert halving.is_closed


def test_an_interceptor_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigException, match=r"'x' for configuration interceptor\.classes: must be ConsumerInter"):
        KafkaConsumer({"bootstrap.servers": "localhost:9092", "interceptor.classes": ["x"]})


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_a_member_that_closes_without_waiting_commits_and_leaves(
    node: EmbeddedNode, topic: str, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    produce(node, topic, ["v"] * 10)
    group = f"g-{topic}"

    async def story() -> None:
        reader = await consumer(node, group_id=group, session_timeout_ms=10 * PATIENCE_S * 1_000).__aenter__()
        reader.subscribe([topic])
        await read(reader, 10)
        await reader.close(timeout_ms=0)
        async with Admin({"bootstrap.servers": node.address}) as admin, asyncio.timeout(PATIENCE_S):
            while (await admin.describe_consumer_groups([group])).get_or_raise(group).members:
                await asyncio.sleep(0.05)
            offsets = (await admin.list_consumer_group_offsets({group: None})).get_or_raise(group)
            assert offsets[TopicPartition(topic, 0)].offset == 10

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(story())


@on_a_loop
async def test_a_poll_waits_for_a_cluster_that_cannot_be_reached_and_a_lookup_names_it() -> None:
    (port,) = free_ports(1)
    async with KafkaConsumer({"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "g"}) as reader:
        reader.subscribe(["t"])
        assert await reader.poll(200) == {}
        with pytest.raises(RequestTimedOut, match=f"^No metadata of topic t after 200 ms; asked: 127.0.0.1:{port}"):
            await reader.partitions_for("t", timeout_ms=200)
        await reader.unsubscribe()
        reader.assign([("t", 0)])
        with pytest.raises(RequestTimedOut, match=r"^no position of t-0 within 200 ms \(timeout_ms, by default "):
            await reader.position(("t", 0), timeout_ms=200)
