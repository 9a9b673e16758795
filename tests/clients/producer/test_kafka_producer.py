"""KafkaProducer against one of our nodes."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from kraft_core.clients.producer.future_record_metadata import FutureRecordMetadata, RecordMetadata
from kraft_core.clients.producer.kafka_producer import KafkaProducer
from kraft_core.clients.producer.producer_batch import Headers
from kraft_core.clients.producer.producer_interceptor import ProducerInterceptor, ProducerRecord
from kraft_core.protocol.errors import BufferExhausted, ErrorCode, KafkaError, RequestTimedOut
from kraft_core.protocol.record_batch import Record, read_batches
from tests.interop.embedded.embedded_node import EmbeddedNode, running_node
from tests.interop.kafka import PATIENCE_S, wait_until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedNode]:
    with running_node(tmp_path_factory.mktemp("producer") / "node", num_partitions=4) as started:
        yield started


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid4().hex[:8]}"


def run(node: EmbeddedNode, story: Callable[[KafkaProducer], Awaitable[None]], **configs: object) -> None:
    """Tell a story with a producer, within the tests' patience."""
    given = {"bootstrap.servers": node.address, **{name.replace("_", "."): value for name, value in configs.items()}}

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), KafkaProducer(given) as producer:
            await story(producer)

    asyncio.run(main())


def stored(node: EmbeddedNode, topic: str) -> dict[int, list[Record]]:
    """Return the records of each partition, from the node's files."""
    found = {}
    for folder in sorted(node.data.glob(f"{topic}-*")):
        data = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
        found[int(folder.name.rpartition("-")[2])] = [
            record for batch in read_batches(data) for record in batch.records()
        ]
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_are_stored_as_they_were_sent(node: EmbeddedNode, topic: str, codec: str) -> None:
    values = [b"%d-" % number * (number % 50) for number in range(2_000)]

    async def story(producer: KafkaProducer) -> None:
        futures = []
        for number, value in enumerate(values):
            headers: Headers = [("name", b"x"), ("größe", None)] if number % 3 == 0 else ()
            key = b"%d" % number if number % 2 else None
            sent = await producer.send(topic, value, key, partition=1, timestamp_ms=1_000 + number, headers=headers)
            futures.append(sent)
        found = await asyncio.gather(*futures)
        assert [each.offset for each in found] == list(range(2_000))
        assert found[7] == RecordMetadata(topic, 1, 7, 1_007, 1, 14)
        assert found[0].serialized_key_size == -1

    run(node, story, compression_type=codec)
    records = stored(node, topic)[1]
    assert [record.value for record in records] == values
    assert [record.timestamp for record in records] == list(range(1_000, 3_000))
    assert records[3].headers == (("name", b"x"), ("größe", None))
    assert records[3].key == b"3"
    assert records[4].key is None
    assert records[4].headers == ()


def test_keys_choose_the_partition_that_librdkafkas_murmur2_chooses(node: EmbeddedNode, topic: str) -> None:
    keys = [f"key-{number}".encode() for number in range(300)]
    partitions: dict[bytes, int] = {}

    async def story(producer: KafkaProducer) -> None:
        for key in keys:
            partitions[key] = (await (await producer.send(topic, key=key))).partition

    run(node, story, linger_ms=0)
    found: dict[bytes | None, int | None] = {}
    foreign = Producer({"bootstrap.servers": node.address, "partitioner": "murmur2"})
    for key in keys:
        foreign.produce(
            topic, b"", key=key, on_delivery=lambda _error, sent: found.update({sent.key(): sent.partition()})
        )
    assert foreign.flush(PATIENCE_S) == 0
    assert partitions == found
    assert set(found.values()) == {0, 1, 2, 3}


def test_records_without_a_key_are_spread_by_the_batch(node: EmbeddedNode, topic: str) -> None:
    async def story(producer: KafkaProducer) -> None:
        for _ in range(400):
            await producer.send(topic, b"x" * 1_000)
        await producer.flush()
        assert sorted(await producer.partitions_for(topic)) == [0, 1, 2, 3]

    run(node, story)
    records = stored(node, topic)
    assert sum(map(len, records.values())) == 400
    assert sum(1 for each in records.values() if len(each) >= 16) > 1


def test_keys_have_no_influence_if_they_are_to_be_ignored(node: EmbeddedNode, topic: str) -> None:
    async def story(producer: KafkaProducer) -> None:
        for _ in range(400):
            await producer.send(topic, b"x" * 1_000, key=b"same")

    run(node, story, partitioner_ignore_keys=True)
    assert sum(1 for each in stored(node, topic).values() if each) > 1


@pytest.mark.parametrize("acks", [0, 1])
def test_fewer_acknowledgements(node: EmbeddedNode, topic: str, acks: int) -> None:
    async def story(producer: KafkaProducer) -> None:
        for number in range(500):
            last = await producer.send(topic, b"%d" % number, partition=0)
        assert (await last).offset == (-1 if acks == 0 else 499)

    run(node, story, acks=acks)
    wait_until(lambda: len(stored(node, topic)[0]) == 500, PATIENCE_S, "all records are stored")
    assert [record.value for record in stored(node, topic)[0]] == [b"%d" % number for number in range(500)]


class Marking(ProducerInterceptor):
    """Adds a header, and keeps what it sees."""

    def __init__(self) -> None:
        self.seen: list[tuple[RecordMetadata | None, Exception | None]] = []
        self.is_closed = False

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        if record.value == "breaks":
            raise ValueError("an interceptor's own fault")
        return ProducerRecord(record.topic, record.value.upper(), record.key, headers=[("by", b"me")])

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None, headers: Headers) -> None:
        assert headers == [("by", b"me")] or metadata is None or metadata.offset == 1
        self.seen.append((metadata, error))

    def close(self) -> None:
        self.is_closed = True


def test_serializers_and_interceptors_see_each_record(node: EmbeddedNode, topic: str) -> None:
    marking = Marking()

    async def main() -> None:
        configs = {
            "bootstrap.servers": node.address,
            "key.serializer": lambda seen, _headers, key: f"{key} of {len(seen)}".encode(),
            "value.serializer": lambda _topic, _headers, value: value.encode(),
            "interceptor.classes": [marking],
        }
        async with KafkaProducer(configs) as producer:
            await (await producer.send(topic, "small", key=3))
            await (await producer.send(topic, "breaks", key=3))
            with pytest.raises(KafkaError):
                await producer.send(topic, "large" * 1_000_000)

    asyncio.run(main())
    (records,) = [each for each in stored(node, topic).values() if each]
    assert [(each.key, each.value) for each in records] == [(b"3 of 14", b"SMALL"), (b"3 of 14", b"breaks")]
    assert records[0].headers == (("by", b"me"),)
    (first, _), (second, _), (none, error) = marking.seen
    assert first is not None
    assert second is not None
    assert (first.offset, second.offset, none) == (0, 1, None)
    assert isinstance(error, KafkaError)
    assert marking.is_closed


def test_a_future_says_whether_it_is_done_and_calls_back(node: EmbeddedNode, topic: str) -> None:
    async def story(producer: KafkaProducer) -> None:
        future = await producer.send(topic, b"v")
        seen: list[FutureRecordMetadata] = []
        future.add_done_callback(seen.append)
        assert not future.done()
        with pytest.raises(asyncio.InvalidStateError):
            future.result()
        assert seen == []
        await future
        assert future.done()
        assert seen == [future]
        future.add_done_callback(seen.append)
        assert seen == [future, future]
        assert future.result() == await future

    run(node, story)


def test_a_waiting_task_may_be_cancelled_without_harm_to_the_others(node: EmbeddedNode, topic: str) -> None:
    async def story(producer: KafkaProducer) -> None:
        future = await producer.send(topic, b"v")
        first = asyncio.ensure_future(_wait_for(future))
        second = asyncio.ensure_future(_wait_for(future))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).offset == 0

    run(node, story)


async def _wait_for(future: FutureRecordMetadata) -> RecordMetadata:
    return await future


def test_records_are_refused_with_what_is_wrong(node: EmbeddedNode, topic: str) -> None:
    async def story(producer: KafkaProducer) -> None:
        with pytest.raises(TypeError, match=r"A value is bytes or None; str needs a value\.serializer"):
            await producer.send(topic, "text")
        with pytest.raises(TypeError, match="A key is bytes or None; int"):
            await producer.send(topic, b"v", key=5)
        with pytest.raises(KafkaError, match=r"max\.request\.size allows 1048576") as large:
            await producer.send(topic, b"x" * 1_048_576)
        assert large.value.code == ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(KafkaError, match=r"max\.request\.size"):
            await producer.send(topic, b"x", headers=[("h", b"x" * 1_048_576)])
        with pytest.raises(KafkaError, match="a b") as invalid:
            await producer.send("a b", b"v")
        assert invalid.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
        with pytest.raises(RequestTimedOut, match=r"has no partition 9 after 300 ms \(max.block.ms\): it has 4"):
            await producer.send(topic, b"v", partition=9)
        with pytest.raises(ValueError, match="partition -1 is not allowed"):
            await producer.send(topic, b"v", partition=-1)

    run(node, story, max_block_ms=300)


def test_without_a_broker_send_fails_after_its_time_and_names_the_addresses(topic: str) -> None:
    async def main() -> None:
        async with KafkaProducer({"bootstrap.servers": "127.0.0.1:1", "max.block.ms": 200}) as producer:
            with pytest.raises(
                RequestTimedOut, match=r"No metadata after 200 ms \(max.block.ms\): none of 127.0.0.1:1"
            ):
                await producer.send(topic, b"v")

    asyncio.run(main())


def test_a_batch_larger_than_the_topic_allows_is_split(node: EmbeddedNode, topic: str) -> None:
    async def story(producer: KafkaProducer) -> None:
        futures = [await producer.send(topic, b"%03d" % number * 100, partition=0) for number in range(200)]
        offsets = [(await future).offset for future in futures]
        assert sorted(offsets) == list(range(200))

    with running_node(node.folder.parent / "small", message_max_bytes=2_000) as small:
        run(small, story, batch_size=20_000)
        assert len(stored(small, topic)[0]) == 200


def test_memory_is_bounded_and_send_waits_for_it(node: EmbeddedNode, topic: str) -> None:
    async def story(producer: KafkaProducer) -> None:
        async def some(number: int) -> None:
            for _ in range(50):
                await producer.send(topic, bytes(2_000), partition=number % 4)

        await asyncio.gather(*(some(number) for number in range(20)))

    run(node, story, buffer_memory=40_000, batch_size=8_000)
    assert sum(map(len, stored(node, topic).values())) == 1_000


def test_send_fails_when_there_is_no_room_in_time(node: EmbeddedNode, topic: str) -> None:
    async def story(producer: KafkaProducer) -> None:
        await (await producer.send(topic, b"warm up", partition=0))
        assert node.process is not None
        node.process.send(signal.SIGSTOP)
        try:
            futures = [await producer.send(topic, bytes(9_000), partition=0) for _ in range(4)]
            with pytest.raises(BufferExhausted, match=r"No room for 10000 bytes within 200 ms \(max.block.ms\): 0 of"):
                await producer.send(topic, bytes(9_000), partition=0)
        finally:
            node.process.send(signal.SIGCONT)
        assert [(await each).offset for each in futures] == [1, 2, 3, 4]
        assert (await (await producer.send(topic, bytes(9_000), partition=0))).offset == 5

    run(node, story, buffer_memory=40_000, batch_size=10_000, max_block_ms=200)


def test_close_without_time_fails_what_is_left_and_later_calls(node: EmbeddedNode, topic: str) -> None:
    async def main() -> None:
        producer = KafkaProducer(
            {"bootstrap.servers": node.address, "linger.ms": 60_000, "delivery.timeout.ms": 120_000}
        )
        future = await producer.send(topic, b"v")
        await producer.close(0)
        with pytest.raises(KafkaError, match="closed before the record was delivered"):
            await future
        with pytest.raises(KafkaError, match="closed"):
            await producer.send(topic, b"v")
        with pytest.raises(KafkaError, match="closed"):
            await producer.flush()
        await producer.close()

    asyncio.run(main())


def test_close_delivers_what_is_queued_without_waiting_for_the_linger_time(node: EmbeddedNode, topic: str) -> None:
    async def story(producer: KafkaProducer) -> None:
        for _ in range(10):
            await producer.send(topic, b"v", partition=2)

    run(node, story, linger_ms=60_000)
    assert len(stored(node, topic)[2]) == 10


def test_sending_without_a_pause_lets_other_tasks_run(node: EmbeddedNode, topic: str) -> None:
    async def story(producer: KafkaProducer) -> None:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count())
        for _ in range(5_000):
            await producer.send(topic, bytes(500))
        counting.cancel()
        assert turns >= 10

    run(node, story)


def test_records_survive_a_kill_of_the_broker(tmp_path: Path, topic: str) -> None:
    async def main(node: EmbeddedNode) -> None:
        async with asyncio.timeout(PATIENCE_S), KafkaProducer({"bootstrap.servers": node.address}) as producer:
            await (await producer.send(topic, b"0", partition=0))
            futures = [await producer.send(topic, b"%d" % number, partition=0) for number in range(1, 200)]
            await asyncio.to_thread(node.kill)
            futures += [await producer.send(topic, b"%d" % number, partition=0) for number in range(200, 400)]
            await asyncio.to_thread(node.start)
            for future in futures:
                await future

    session = {"broker_session_timeout_ms": 1_000, "broker_heartbeat_interval_ms": 300}
    with running_node(tmp_path / "node", **session) as node:
        asyncio.run(main(node))
        values = {record.value for record in stored(node, topic)[0]}
    assert values == {b"%d" % number for number in range(400)}
