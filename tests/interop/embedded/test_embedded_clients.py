"""Third-party clients on our broker in a combined node."""

import asyncio
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourceType

from tests.interop.embedded.embedded_node import EmbeddedNode, running_node
from tests.interop.kafka import PATIENCE_S, wait_until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedNode]:
    with running_node(tmp_path_factory.mktemp("embedded") / "node") as started:
        yield started


def new_topic(node: EmbeddedNode, partitions: int = 1, **config: str) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": node.address})
    admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(PATIENCE_S)
    return name


def produce(node: EmbeddedNode, topic: str, values: list[bytes], **settings: object) -> list[int]:
    """Produce to partition 0 and return the offsets in order."""
    offsets: list[int] = []
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: object) -> None:
        if error is not None:
            errors.append(error)
        else:
            offsets.append(message.offset())

    config = {key.replace("_", "."): value for key, value in settings.items()}
    producer = Producer({"bootstrap.servers": node.address, **config})
    for value in values:
        producer.produce(topic, value, key=b"k", partition=0, on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    assert not errors
    return offsets


def consume(consumer: Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.append(message.value())
        if len(values) == count:
            return values
    raise AssertionError(f"{len(values)} of {count} records came")


def read_all(node: EmbeddedNode, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": node.address, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    try:
        return consume(consumer, count)
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka_reads_what_it_wrote_in_every_codec(node: EmbeddedNode, codec: str) -> None:
    topic = new_topic(node)
    values = [f"{codec}-{number}".encode() * 20 for number in range(300)]

    offsets = produce(node, topic, values, compression_type=codec, linger_ms=20)

    assert offsets == list(range(300))
    assert read_all(node, topic, 300) == values


def test_an_idempotent_producer_gets_consecutive_offsets(node: EmbeddedNode) -> None:
    topic = new_topic(node)

    offsets = produce(node, topic, [b"%d" % number for number in range(500)], enable_idempotence=True)

    assert offsets == list(range(500))


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_aiokafka_reads_what_it_wrote_in_every_codec_it_has(node: EmbeddedNode, codec: str | None) -> None:
    needed = {"snappy": "cramjam", "lz4": "cramjam", "zstd": "cramjam"}.get(codec or "")
    if needed is not None:
        pytest.importorskip(needed)
    topic = new_topic(node)

    async def round_trip() -> list[bytes]:
        async with AIOKafkaProducer(
            bootstrap_servers=node.address, compression_type=codec, enable_idempotence=True
        ) as producer:
            for number in range(50):
                await producer.send_and_wait(topic, b"value-%d" % number, key=b"key")
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=node.address, group_id=f"aio-{codec}", auto_offset_reset="earliest"
        )
        async with consumer:
            return [(await asyncio.wait_for(consumer.getone(), PATIENCE_S)).value for _ in range(50)]

    assert asyncio.run(round_trip()) == [b"value-%d" % number for number in range(50)]


def test_kcat_reads_what_it_wrote(node: EmbeddedNode) -> None:
    kcat = shutil.which("kcat")
    if kcat is None:
        pytest.skip("kcat is missing (apt install kcat)")
    topic = new_topic(node)
    lines = "".join(f"line {number}\n" for number in range(100))

    subprocess.run(
        [kcat, "-P", "-b", node.address, "-t", topic], input=lines, text=True, check=True, timeout=PATIENCE_S
    )
    read = subprocess.run(
        [kcat, "-C", "-b", node.address, "-t", topic, "-e", "-q"], capture_output=True, text=True, timeout=PATIENCE_S
    )

    assert read.stdout == lines


def test_a_metadata_request_creates_an_unknown_topic(node: EmbeddedNode) -> None:
    name = f"auto-{uuid.uuid4().hex[:8]}"

    assert produce(node, name, [b"first"]) == [0]
    assert name in {topic.name for topic in node.metadata().topics}


def test_two_members_share_the_partitions_and_one_takes_over_all(node: EmbeddedNode) -> None:
    topic = new_topic(node, partitions=4)
    settings = {
        "bootstrap.servers": node.address,
        "group.id": f"group-{topic}",
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 6000,
    }
    first, second = Consumer(settings), Consumer(settings)
    first.subscribe([topic])
    second.subscribe([topic])

    def settle(wanted: list[int]) -> None:
        def is_settled() -> bool:
            first.poll(0.05)
            if wanted[1]:
                second.poll(0.05)
            return [len(first.assignment()), len(second.assignment()) if wanted[1] else 0] == wanted

        wait_until(is_settled, PATIENCE_S, f"the members have {wanted} partitions")

    settle([2, 2])
    second.close()
    settle([4, 0])
    first.close()


def test_timestamps_and_ends_are_found(node: EmbeddedNode) -> None:
    topic = new_topic(node)
    producer = Producer({"bootstrap.servers": node.address})
    for number in range(10):
        producer.produce(topic, b"v", partition=0, timestamp=1_000_000 + number * 1000)
        assert producer.flush(PATIENCE_S) == 0
    admin = AdminClient({"bootstrap.servers": node.address})

    def ask(spec: OffsetSpec) -> int:
        partition = TopicPartition(topic, 0)
        return admin.list_offsets({partition: spec})[partition].result(PATIENCE_S).offset

    assert ask(OffsetSpec.earliest()) == 0
    assert ask(OffsetSpec.latest()) == 10
    assert ask(OffsetSpec.for_timestamp(1_003_500)) == 4
    assert ask(OffsetSpec.max_timestamp()) == 9


def test_topics_grow_are_configured_and_deleted_through_the_broker(node: EmbeddedNode) -> None:
    topic = new_topic(node, retention_ms="1000000")
    admin = AdminClient({"bootstrap.servers": node.address})

    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENCE_S)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    described = admin.describe_configs([resource])[resource].result(PATIENCE_S)

    assert described["retention.ms"].value == "1000000"
    assert described["segment.bytes"].value == str(1024**3)

    def partitions() -> int:
        return next((len(found.partitions) for found in node.metadata().topics if found.name == topic), 0)

    wait_until(lambda: partitions() == 3, PATIENCE_S, "the broker has heard of the growth")
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    wait_until(lambda: not partitions(), PATIENCE_S, "the broker has heard of the deletion")
    wait_until(lambda: not (node.data / f"{topic}-0").exists(), PATIENCE_S, "its folder is gone")


def test_a_transactional_producer_gets_an_error(node: EmbeddedNode) -> None:
    producer = Producer({"bootstrap.servers": node.address, "transactional.id": "tx"})

    with pytest.raises(KafkaException):
        producer.init_transactions(2)


def test_groups_are_listed_described_and_deleted(node: EmbeddedNode) -> None:
    topic = new_topic(node)
    produce(node, topic, [b"1", b"2"])
    group = f"group-{topic}"
    consumer = Consumer({"bootstrap.servers": node.address, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    consume(consumer, 2)
    consumer.commit(asynchronous=False)
    admin = AdminClient({"bootstrap.servers": node.address})

    described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
    assert described.state.name == "STABLE"
    assert [str(part) for part in described.members[0].assignment.topic_partitions]
    assert group in {found.group_id for found in admin.list_consumer_groups().result(PATIENCE_S).valid}
    consumer.close()

    def is_deleted() -> bool:
        admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
        return True

    wait_until(is_deleted, PATIENCE_S, "its member has left and it goes", not_yet=(KafkaException,))
    assert group not in {found.group_id for found in admin.list_consumer_groups().result(PATIENCE_S).valid}


def test_records_and_offsets_survive_kill_9(tmp_path: Path) -> None:
    """Acknowledged records are in the page cache, which survives a killed process."""
    with running_node(tmp_path / "node") as node:
        topic = new_topic(node)
        values = [b"before-%d" % number for number in range(200)]
        produce(node, topic, values, enable_idempotence=True)
        settings = {
            "bootstrap.servers": node.address,
            "group.id": "survivors",
            "session.timeout.ms": 6_000,  # the session of a member that could not leave the group
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        consumer = Consumer(settings)
        consumer.subscribe([topic])
        assert consume(consumer, 200) == values
        consumer.commit(asynchronous=False)

        node.kill()
        node.start()

        assert read_all(node, topic, 200) == values
        assert produce(node, topic, [b"after"], enable_idempotence=True) == [200]
        consumer.close()
        resumed = Consumer(settings)
        resumed.subscribe([topic])
        assert consume(resumed, 1) == [b"after"]
        resumed.close()


def test_a_clean_stop_exits_with_0_and_writes_the_clean_shutdown_file(tmp_path: Path) -> None:
    with running_node(tmp_path / "node") as node:
        topic = new_topic(node)
        produce(node, topic, [b"kept"])

        assert node.terminate() == 0

        assert (node.data / ".kafka_cleanshutdown").exists()
        node.start()
        assert read_all(node, topic, 1) == [b"kept"]
        assert not (node.data / ".kafka_cleanshutdown").exists()


def test_records_of_closed_segments_are_read_too(node: EmbeddedNode) -> None:
    topic = new_topic(node, segment_bytes="1048576")
    values = [b"%06d" % number * 150 for number in range(4_000)]

    produce(node, topic, values)

    assert len(list((node.data / f"{topic}-0").glob("*.log"))) > 2
    assert read_all(node, topic, 4_000) == values
