"""Records and commits of a combined node that restarts with a metadata snapshot older than its topics."""

import asyncio
import contextlib
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import DeleteTopicsRequest, DeleteTopicsRequestDeleteTopicState
from kraft_core.storage.format import FormatRequest, format_storage
from tests.interop import conclave, kafka
from tests.interop.conclave import Quorum
from tests.interop.embedded.embedded_node import EmbeddedNode, running_node
from tests.interop.embedded.test_embedded_broker_only import FOR_OUR_BROKERS
from tests.interop.kafka import PATIENCE_S, wait_until

SETTINGS = {
    "metadata_log_max_record_bytes_between_snapshots": 2_000,  # nearly always older than the newest topics
    "broker_heartbeat_interval_ms": 300,
    "broker_session_timeout_ms": 1_500,  # a killed broker registers again after the end of its session
}


def create(node: EmbeddedNode, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": node.address})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(PATIENCE_S)


def delete(node: EmbeddedNode, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.address})
    admin.delete_topics([topic])[topic].result(PATIENCE_S)


def grow(node: EmbeddedNode, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": node.address})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(PATIENCE_S)


def produce(node: EmbeddedNode, topic: str, partition: int, values: list[bytes]) -> None:
    """Produce with acks=all and wait for every acknowledgement."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": node.address, "enable.idempotence": True})
    for value in values:
        producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error) if error else None
        )
    assert producer.flush(PATIENCE_S) == 0
    assert errors == []


def read(node: EmbeddedNode, topic: str, partition: int, count: int) -> list[bytes]:
    """Return the first `count` records of a partition, or those that arrive in time."""
    consumer = Consumer({"bootstrap.servers": node.address, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    values: list[bytes] = []

    def all_read() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.append(message.value())
        return len(values) >= count

    with contextlib.suppress(AssertionError):
        wait_until(all_read, 10, f"{count} records of {topic}-{partition}", interval_s=0)
    consumer.close()
    return values


def commit(node: EmbeddedNode, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": node.address, "group.id": group, "enable.auto.commit": False})

    def is_committed() -> bool:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        return True

    wait_until(is_committed, PATIENCE_S, f"{group} commits", not_yet=(KafkaException,))
    consumer.close()


def committed(node: EmbeddedNode, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": node.address, "group.id": group, "enable.auto.commit": False})
    try:
        return int(
            wait_until(
                lambda: consumer.committed([TopicPartition(topic, 0)], timeout=10),
                PATIENCE_S,
                f"{group}'s commits",
                not_yet=(KafkaException,),
            )[0].offset
        )
    finally:
        consumer.close()


def take_a_snapshot(node: EmbeddedNode, number: int) -> None:
    """Create topics until there is one more metadata snapshot."""
    folder = node.data / "__cluster_metadata-0"
    before = {path.name for path in folder.glob("*.checkpoint")}
    for each in range(1_000):
        create(node, f"filler-{number}-{each}")
        if {path.name for path in folder.glob("*.checkpoint")} - before:
            return
    raise AssertionError("no snapshot was taken")


def strays(node: EmbeddedNode) -> list[str]:
    return sorted(path.name for path in node.data.glob("*-stray"))


def test_topics_newer_than_the_metadata_snapshot_keep_their_records_over_restarts(tmp_path: Path) -> None:
    with running_node(tmp_path / "node", **SETTINGS) as node:
        create(node, "grown")
        create(node, "again")
        produce(node, "again", 0, [b"of the old topic"] * 7)
        produce(node, "grown", 0, [b"old"])
        take_a_snapshot(node, 1)
        create(node, "new")
        produce(node, "new", 0, [b"%d" % number for number in range(100)])
        grow(node, "grown", 2)
        produce(node, "grown", 1, [b"grown"] * 5)
        delete(node, "again")
        create(node, "again")
        produce(node, "again", 0, [b"of the new topic"] * 3)
        commit(node, "group", "new", 42)
        for end in (node.terminate, node.kill):
            end()
            node.start()

            assert strays(node) == []
            assert read(node, "new", 0, 100) == [b"%d" % number for number in range(100)]
            assert read(node, "grown", 0, 1) == [b"old"]
            assert read(node, "grown", 1, 5) == [b"grown"] * 5
            assert read(node, "again", 0, 3) == [b"of the new topic"] * 3
            assert committed(node, "group", "new") == 42


def test_logs_newer_than_restored_metadata_are_set_aside_and_restored_with_newer_metadata(tmp_path: Path) -> None:
    with running_node(tmp_path / "node", **SETTINGS) as node:
        metadata, old, new = node.data / "__cluster_metadata-0", tmp_path / "old", tmp_path / "new"
        create(node, "kept")
        produce(node, "kept", 0, [b"k"] * 3)
        node.terminate()
        shutil.copytree(metadata, old)
        node.start()
        create(node, "newer")
        produce(node, "newer", 0, [b"n"] * 4)
        node.terminate()
        shutil.move(metadata, new)
        shutil.copytree(old, metadata)

        node.start()

        assert node.process is not None
        assert "has no topic with this id" in node.process.output
        assert read(node, "kept", 0, 3) == [b"k"] * 3
        (stray,) = strays(node)
        assert stray.startswith("newer-0.")
        node.terminate()
        shutil.rmtree(metadata)
        shutil.move(new, metadata)
        node.start()
        assert "stray_log_taken_back" in node.process.output
        assert read(node, "newer", 0, 4) == [b"n"] * 4
        assert not [
            name for name in strays(node) if not name.startswith("__consumer_offsets-")
        ]  # of the restored quorum


@dataclass
class RemoteBroker(EmbeddedNode):
    """A broker of ours whose controllers are other processes."""

    quorum: Quorum = field(kw_only=True)

    def __post_init__(self) -> None:
        (self.port,) = kafka.free_ports(1)
        self.folder.mkdir(parents=True)
        self.config = self.folder / "server.properties"
        settings = kafka.broker_settings(11, self.port, self.folder, self.quorum.bootstrap)
        kafka.write_properties(self.config, settings | self.extra_settings)
        request = FormatRequest(
            node_id=11,
            cluster_id=self.quorum.cluster_id,
            log_dirs=[self.data],
            metadata_log_dir=self.data,
            is_dynamic=True,
        )
        format_storage(request, lambda line: None)

    async def delete_while_away(self, topic: str) -> None:
        """Delete a topic through the controllers."""
        client = conclave.controller_client(self.quorum.bootstrap)
        doomed = DeleteTopicsRequestDeleteTopicState(name=topic)
        try:
            answer = await client.request(DeleteTopicsRequest(topics=(doomed,), timeout_ms=5_000), timeout_ms=10_000)
            assert answer.responses[0].error_code == ErrorCode.NONE
        finally:
            client.close()


def test_a_broker_without_a_controller_uses_committed_metadata_to_choose_its_logs(tmp_path: Path) -> None:
    settings = {name.replace("_", "."): value for name, value in SETTINGS.items()}
    quorum = Quorum(tmp_path / "quorum", 1, settings)
    node = RemoteBroker(tmp_path / "broker", settings, quorum=quorum)
    try:
        quorum.format(1, features=FOR_OUR_BROKERS)
        quorum.start(1)
        quorum.wait_for_leader()
        node.start()
        for topic in ("kept", "again", "gone"):
            create(node, topic)
            produce(node, topic, 0, [b"of the first life"] * 3)
        commit(node, "group", "kept", 2)
        node.kill()
        asyncio.run(node.delete_while_away("again"))
        asyncio.run(node.delete_while_away("gone"))
        quorum.processes[1].kill()
        node.process = conclave.start("node", node.config)
        time.sleep(1)  # without a leader no log is touched, however long it takes
        assert strays(node) == []
        quorum.start(1)
        wait_until(lambda: node.process and node.process.output.count("broker_started") == 2, PATIENCE_S, "it serves")

        assert read(node, "kept", 0, 3) == [b"of the first life"] * 3
        assert committed(node, "group", "kept") == 2
        assert [name.split(".")[0] for name in strays(node)] == ["again-0", "gone-0"]
        create(node, "again")
        produce(node, "again", 0, [b"of the second life"] * 2)
        node.kill()
        node.start()
        assert read(node, "again", 0, 2) == [b"of the second life"] * 2
        assert len(strays(node)) == 2
    finally:
        if node.process is not None:
            node.kill()
        quorum.stop_all()
