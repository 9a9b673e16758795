"""A combined node with several log directories, one of which is full: it goes offline and the others serve."""

import asyncio
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import DescribeLogDirsRequest
from tests.interop import conclave
from tests.interop.embedded.embedded_node import EmbeddedNode, running_node
from tests.interop.embedded.small_disk import small_disk
from tests.interop.kafka import PATIENCE_S, wait_until

MIB = 1024 * 1024
VALUE = b"v" * 100_000


@contextmanager
def node_with(folder: Path, *directories: Path, **settings: object) -> Iterator[EmbeddedNode]:
    """Yield a node whose metadata are in a separate directory."""
    for directory in directories:
        directory.mkdir(exist_ok=True)
    data = folder / "node" / "data"
    more = {"log_dirs": ",".join(map(str, directories)), "metadata_log_dir": data, **settings}
    with running_node(folder / "node", **more) as node:
        yield node


def create(node: EmbeddedNode, topic: str, partitions: int) -> None:
    config = {"segment.bytes": str(2 * MIB), "file.delete.delay.ms": "0"}
    admin = AdminClient({"bootstrap.servers": node.address})
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(PATIENCE_S)


def directory_of(topic: str, partition: int, *directories: Path) -> Path:
    """Wait for a partition's log and return its directory."""
    return wait_until(
        lambda: next((each for each in directories if (each / f"{topic}-{partition}").is_dir()), None),
        PATIENCE_S,
        f"the log of {topic}-{partition}",
    )


def produce(node: EmbeddedNode, topic: str, partition: int, count: int, timeout_ms: int = 60_000) -> int:
    """Produce until done or rejected. Return the number of acknowledged records."""
    producer = Producer(
        {"bootstrap.servers": node.address, "message.timeout.ms": timeout_ms, "batch.size": 200_000, "linger.ms": 0}
    )
    acknowledged = 0

    def delivered(error: object, _: object) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    for _ in range(count):
        producer.produce(topic, VALUE, partition=partition, on_delivery=delivered)
    producer.flush(PATIENCE_S)
    return acknowledged


def read(node: EmbeddedNode, topic: str, partition: int, count: int) -> int:
    consumer = Consumer({"bootstrap.servers": node.address, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    found = 0

    def has_all() -> bool:
        nonlocal found
        found += sum(message.error() is None for message in consumer.consume(100, 0.2))
        return found >= count

    wait_until(has_all, PATIENCE_S, f"{count} records of {topic}-{partition}", interval_s=0)
    consumer.close()
    return found


def failed_directories(node: EmbeddedNode) -> list[Path]:
    answer = asyncio.run(conclave.call(node.port, DescribeLogDirsRequest(topics=None), 4))
    return [Path(each.log_dir) for each in answer.results if each.error_code == ErrorCode.KAFKA_STORAGE_ERROR]


def first_offset(node: EmbeddedNode, asked: TopicPartition) -> int:
    admin = AdminClient({"bootstrap.servers": node.address})
    return int(admin.list_offsets({asked: OffsetSpec.earliest()})[asked].result(PATIENCE_S).offset)


def leader_of(node: EmbeddedNode, topic: str, partition: int) -> int:
    found = AdminClient({"bootstrap.servers": node.address}).list_topics(topic, PATIENCE_S)
    return int(found.topics[topic].partitions[partition].leader)


def test_a_directory_whose_files_cannot_grow_goes_offline_and_the_others_serve(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with node_with(tmp_path, first, second) as node:
        create(node, "t", 2)
        refused = directory_of("t", 0, first, second)
        assert directory_of("t", 1, first, second) != refused
        assert node.process is not None
        resource.prlimit(node.process.popen.pid, resource.RLIMIT_FSIZE, (MIB, MIB))

        acknowledged = produce(node, "t", 0, 20, timeout_ms=3_000)

        assert 5 <= acknowledged <= 10
        assert failed_directories(node) == [refused]
        wait_until(lambda: leader_of(node, "t", 0) == -1, PATIENCE_S, "the controller has heard of it")
        assert produce(node, "t", 1, 8) == 8
        assert read(node, "t", 1, 8) == 8
        node.terminate()
        assert not (refused / ".kafka_cleanshutdown").exists()
        node.start()
        assert read(node, "t", 0, acknowledged) == acknowledged
        assert produce(node, "t", 0, 20) == 20
        assert read(node, "t", 1, 8) == 8


def test_the_node_ends_with_its_last_directory(tmp_path: Path) -> None:
    only = tmp_path / "only"
    with node_with(tmp_path, only) as node:
        create(node, "t", 1)
        assert node.process is not None
        resource.prlimit(node.process.popen.pid, resource.RLIMIT_FSIZE, (MIB, MIB))

        acknowledged = produce(node, "t", 0, 20, timeout_ms=3_000)

        assert node.process.popen.wait(PATIENCE_S) == 1
        assert f"Every log directory has failed, {only} last." in node.process.output
        node.start()
        assert read(node, "t", 0, acknowledged) == acknowledged


def test_deleting_records_frees_a_full_disk(tmp_path: Path) -> None:
    disk, other = tmp_path / "disk", tmp_path / "other"
    with small_disk(disk, 16), node_with(tmp_path, disk, other) as node:
        create(node, "t", 2)
        create(node, "grown", 2)
        partition = next(index for index in range(2) if directory_of("grown", index, disk, other) == disk)
        acknowledged = produce(node, "grown", partition, 60)
        assert acknowledged == 60
        filler = disk / "filler"
        with pytest.raises(OSError, match="No space"):
            filler.write_bytes(bytes(16 * MIB))
        admin = AdminClient({"bootstrap.servers": node.address})

        deleted = admin.delete_records([TopicPartition("grown", partition, 60)])

        for future in deleted.values():
            assert future.result(PATIENCE_S).low_watermark == 60
        wait_until(lambda: shutil.disk_usage(disk).free > 5 * MIB, PATIENCE_S, "what was deleted has left the disk")
        assert failed_directories(node) == []
        assert produce(node, "grown", partition, 10) == 10
        assert produce(node, "grown", partition, 100, timeout_ms=3_000) < 100
        assert failed_directories(node) == [disk]
        filler.unlink()
        node.terminate()
        node.start()
        asked = TopicPartition("grown", partition)
        found = wait_until(
            lambda: first_offset(node, asked),  # with a new client: librdkafka remembers an old leader
            PATIENCE_S,
            "the partition has a leader again",
            not_yet=(KafkaException,),
        )
        assert found == 60
        assert read(node, "grown", partition, 10) >= 10


def test_a_node_starts_on_a_full_disk(tmp_path: Path) -> None:
    disk, other = tmp_path / "disk", tmp_path / "other"
    with small_disk(disk, 8), node_with(tmp_path, disk, other) as node:
        create(node, "t", 2)
        partition = next(index for index in range(2) if directory_of("t", index, disk, other) == disk)
        acknowledged = produce(node, "t", partition, 200, timeout_ms=3_000)
        assert acknowledged < 200
        node.kill()
        with suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        assert shutil.disk_usage(disk).free == 0

        node.start()

        assert read(node, "t", partition, acknowledged) == acknowledged
        admin = AdminClient({"bootstrap.servers": node.address})
        for future in admin.delete_records([TopicPartition("t", partition, acknowledged)]).values():
            assert future.result(PATIENCE_S).low_watermark == acknowledged
        assert produce(node, "t", partition, 10) == 10
