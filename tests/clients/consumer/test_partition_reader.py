"""PartitionReader against our node: windows, newest, tail, filters, progress, hostile sizes."""

import asyncio
import gzip
import itertools
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.clipping_decoder import ClippedRecord, ClippingDecoder
from kraft_core.clients.consumer.partition_reader import OffsetRange, Page, PartitionReader, Progress, ReaderLimits
from kraft_core.clients.consumer.uniform_records import Raw
from kraft_core.protocol.batch_header import set_crc
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.primitives import encode_varint
from kraft_core.protocol.record_batch import encode_records, frame_batch, read_batches
from tests.interop.embedded.embedded_node import EmbeddedNode, running_node
from tests.interop.kafka import PATIENCE_S

_names = itertools.count()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedNode]:
    folder = tmp_path_factory.mktemp("reader") / "node"
    with running_node(folder, message_max_bytes=4_000_000) as started:
        yield started


@pytest.fixture
def topic(node: EmbeddedNode) -> str:
    """A topic of two partitions with 20 records each, written at 1,000 to 1,019 ms."""
    name = f"topic-{next(_names)}"
    admin = AdminClient({"bootstrap.servers": node.address})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(PATIENCE_S)
    produce(node, name, [str(index).encode() for index in range(20)])
    produce(node, name, [str(index).encode() for index in range(20)], 1)
    return name


def produce(node: EmbeddedNode, topic: str, values: list[bytes], partition: int = 0, codec: str = "none") -> None:
    producer = Producer(
        {"bootstrap.servers": node.address, "compression.type": codec, "message.max.bytes": 100_000_000}
    )
    for index, value in enumerate(values):
        producer.produce(topic, value, partition=partition, timestamp=1_000 + index)
    assert producer.flush(PATIENCE_S) == 0


def reader(node: EmbeddedNode, limits: ReaderLimits | None = None) -> PartitionReader:
    return PartitionReader({"bootstrap.servers": node.address, "fetch.max.wait.ms": 50}, limits)


async def pages(made: PartitionReader, ranges: dict[TopicPartition, OffsetRange]) -> list[Page]:
    async with asyncio.timeout(PATIENCE_S):
        return [page async for page in made.read(ranges)]


def records(found: list[Page]) -> list[Raw]:
    return [record for page in found for record in page.records]


def test_a_window_by_offsets_and_its_progress(node: EmbeddedNode, topic: str) -> None:
    async def run() -> None:
        async with reader(node) as made:
            partitions = await made.partitions(topic)
            found = await pages(made, await made.offsets(partitions, 5, 8))
            assert sorted((record.partition, record.offset) for record in records(found)) == [
                (partition, offset) for partition in (0, 1) for offset in (5, 6, 7)
            ]
            assert found[-1].progress == Progress(6, 6)
            assert await made.offsets(partitions[:1], 18, 1_000) == {partitions[0]: OffsetRange(18, 20)}
            assert await made.partitions("no-such-topic") == []

    asyncio.run(run())


def test_a_window_by_times(node: EmbeddedNode, topic: str) -> None:
    async def run() -> None:
        async with reader(node) as made:
            ranges = await made.times([TopicPartition(topic, 1)], 1_003, 1_006)
            assert [record.timestamp_ms for record in records(await pages(made, ranges))] == [1_003, 1_004, 1_005]
            late = await made.times([TopicPartition(topic, 1)], 9_000)
            assert await pages(made, late) == []

    asyncio.run(run())


def test_the_newest_records_that_match(node: EmbeddedNode, topic: str) -> None:
    async def run() -> None:
        async with reader(node) as made:
            ranges = await made.newest(await made.partitions(topic), 4)
            found = [page async for page in made.read(ranges, lambda record: record.offset % 2 == 0)]
            assert sorted((each.partition, each.offset) for each in records(found)) == [
                (0, 16),
                (0, 18),
                (1, 16),
                (1, 18),
            ]
            assert found[-1].progress == Progress(8, 8)

    asyncio.run(run())


def test_a_tail_yields_what_is_written_later_until_it_is_left(node: EmbeddedNode, topic: str) -> None:
    async def run() -> None:
        async with reader(node) as made:
            ranges = await made.tail(await made.partitions(topic))
            seen: list[Raw] = []
            async with asyncio.timeout(PATIENCE_S):
                async for page in made.read(ranges):
                    assert page.progress.wanted is None
                    seen += page.records
                    if seen:
                        break
                    await asyncio.to_thread(produce, node, topic, [b"later"])
            assert seen[0].value == b"later"

    asyncio.run(run())


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_long_value_is_clipped_with_its_size(node: EmbeddedNode, topic: str, codec: str) -> None:
    produce(node, topic, [b"x" * 3_000_000, b"short"], codec=codec)

    async def run() -> None:
        async with reader(node, ReaderLimits(record_bytes_max=1_000)) as made:
            long, short = records(await pages(made, await made.newest([TopicPartition(topic, 0)], 2)))
            assert isinstance(long, ClippedRecord)
            assert (long.value, long.value_size) == (b"x" * 1_000, 3_000_000)
            assert (long.offset, long.timestamp_ms, short.value) == (20, 1_000, b"short")

    asyncio.run(run())


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_whose_content_is_small_are_read(node: EmbeddedNode, topic: str, codec: str) -> None:
    values = [b"compressible " * 10 + b"%d" % index for index in range(50)]
    produce(node, topic, values, codec=codec)

    async def run() -> None:
        async with reader(node) as made:
            found = await pages(made, await made.newest([TopicPartition(topic, 0)], 45))
            assert [record.value for record in records(found)] == values[5:]
            assert found[-1].positions == {TopicPartition(topic, 0): 70}

    asyncio.run(run())


def test_a_batch_larger_than_an_answer_may_be_is_an_error_of_its_partition(node: EmbeddedNode, topic: str) -> None:
    produce(node, topic, [b"x" * 3_000_000])

    async def run() -> None:
        async with reader(node, ReaderLimits(answer_bytes_max=500_000)) as made:
            found = await pages(made, await made.offsets(await made.partitions(topic), 10))
            assert len(records(found)) == 20
            errors = [page.errors for page in found if page.errors]
            assert [list(each) for each in errors] == [[TopicPartition(topic, 0)]]
            error = errors[0][TopicPartition(topic, 0)]
            assert error.code is ErrorCode.MESSAGE_TOO_LARGE
            assert "at offset 20" in error.message

    asyncio.run(run())


def test_a_record_of_50_mib_in_a_small_batch_is_clipped_as_it_is_decompressed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = 50 * 1024 * 1024
    body = b"\x00\x00\x00\x01" + encode_varint(size)
    long = encode_varint(len(body) + size + 1) + body + b"\x00" * size + b"\x00"
    after = b"".join(encode_records([b"after"], first_delta=1))
    data = bytearray(frame_batch(0, 1, 5, 2, [gzip.compress(long + after, 1)]))
    data[22] |= 1
    set_crc(data)
    decoder = ClippingDecoder(next(read_batches(bytes(data))), TopicPartition("t", 0), 1_000)
    out: list[Raw] = []
    held = 0
    ensure = decoder._ensure

    def measured(needed: int) -> int:
        nonlocal held
        found = ensure(needed)
        held = max(held, len(decoder._data))
        return found

    monkeypatch.setattr(ClippingDecoder, "_ensure", lambda _self, needed: measured(needed))
    decoder.read(out, 5)
    first, second = out
    assert isinstance(first, ClippedRecord)
    assert (len(first.value or b""), first.value_size, second.value) == (1_000, size, b"after")
    assert held < 200_000
