"""The procedure "All controllers are lost" of docs/operations.md, with two Apache brokers that are ahead of the backup.

What brokers, producers and the quorum used after the backup is never used again: replicas and metadata logs are equal
record by record, and no acknowledged record is lost.
"""

import asyncio
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kraft_core.protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasRequestOpData,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestReassignablePartition,
    AlterPartitionReassignmentsRequestReassignableTopic,
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
)
from kraft_core.protocol.record_batch import read_batches
from kraft_core.protocol.wire import Message as Request
from tests.docs.markdown import DOCS, fenced, section
from tests.interop import conclave, kafka
from tests.interop.dumps import conclave as command
from tests.interop.kafka import PATIENCE_S
from tests.interop.log_files import raw_batches

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]  # several waits, which are usually short

BROKER_IDS = (101, 102)
PARTITIONS = 2
EXAMPLE_CLUSTER_ID = "2MOB_8HQTeaJmZsra3jtBQ"
STARTED = "Kafka Server started"
SETTINGS = {
    "offsets.topic.replication.factor": 2,
    "broker.heartbeat.interval.ms": 1_000,
    "auto.create.topics.enable": "false",  # a client that still knows a lost topic would create it again
}


Rec = tuple[int, int, int, int, bytes | None, bytes | None]
"""Offset, leader epoch, producer id, sequence of its batch, key, value."""


class Cluster:
    """Three of our controllers and two of Apache's brokers, and the acknowledged records."""

    def __init__(self, folder: Path, quorum: conclave.Quorum, stack: ExitStack) -> None:
        self.folder, self.quorum = folder, quorum
        self.ports = dict(zip(BROKER_IDS, kafka.free_ports(2), strict=True))
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        self.acknowledged: dict[str, list[str]] = {}
        self.brokers: dict[int, kafka.Process] = {}
        stack.callback(self.kill_brokers)
        for broker_id in BROKER_IDS:
            self.folder_of(broker_id).mkdir()
            settings = kafka.broker_settings(
                broker_id, self.ports[broker_id], self.folder_of(broker_id), quorum.bootstrap
            )
            config = kafka.write_properties(self.folder_of(broker_id) / "server.properties", {**settings, **SETTINGS})
            command("format", "-c", config, "-t", quorum.cluster_id)

    def folder_of(self, broker_id: int) -> Path:
        return self.folder / f"broker-{broker_id}"

    def start_brokers(self, *broker_ids: int) -> None:
        before = {each: self.brokers[each].output.count(STARTED) if each in self.brokers else 0 for each in broker_ids}
        for broker_id in broker_ids:
            self.brokers[broker_id] = kafka.start(
                f"broker-{broker_id}", self.folder_of(broker_id) / "server.properties"
            )
        for broker_id, seen in before.items():
            kafka.wait_until(
                lambda broker_id=broker_id, seen=seen: self.brokers[broker_id].output.count(STARTED) > seen,
                PATIENCE_S,
                f"broker {broker_id} starts",
            )

    def kill_brokers(self, *broker_ids: int) -> None:
        for broker_id in broker_ids or BROKER_IDS:
            if broker_id in self.brokers:
                self.brokers[broker_id].kill()

    def ask(self, request: Request) -> None:
        """Send a request to the active controller; it must succeed."""

        async def work() -> object:
            client = conclave.controller_client(self.quorum.bootstrap)
            try:
                return await client.request(request)
            finally:
                client.close()

        answer = asyncio.run(work())
        assert getattr(answer, "error_code", 0) == 0, answer

    def change(self, user: str, count: int) -> None:
        """Write so many records to the metadata log, one after the other."""

        async def work() -> None:
            client = conclave.controller_client(self.quorum.bootstrap)
            try:
                for number in range(count):
                    operation = AlterClientQuotasRequestOpData(key="producer_byte_rate", value=1e6 + number)
                    entity = AlterClientQuotasRequestEntityData(entity_type="user", entity_name=user)
                    entry = AlterClientQuotasRequestEntryData(entity=(entity,), ops=(operation,))
                    answer = await client.request(AlterClientQuotasRequest(entries=(entry,)))
                    assert not answer.entries[0].error_code
            finally:
                client.close()

        asyncio.run(work())

    def create(self, topic: str, replicas: Collection[int] = BROKER_IDS) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(topic, PARTITIONS, len(replicas))])[topic].result(PATIENCE_S)
        self.wait_for_isr(topic, {*replicas})

    def records(self, broker_id: int, partition: str) -> list[Rec]:
        """Return the log of one partition on one broker, with all fields that distinguish records."""
        paths = sorted((self.folder_of(broker_id) / "data" / partition).glob("*.log"))
        return [
            (record.offset, batch.leader_epoch, batch.producer_id, batch.base_sequence, record.key, record.value)
            for path in paths
            for batch in read_batches(path.read_bytes())
            for record in batch.records()
        ]

    def wait_for_isr(self, topic: str, wanted: set[int]) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})

        def is_reached() -> bool:
            found = admin.list_topics(topic, timeout=5).topics[topic].partitions
            return len(found) == PARTITIONS and all(
                {*each.isrs} == wanted and each.leader >= 0 for each in found.values()
            )

        kafka.wait_until(is_reached, PATIENCE_S, f"the ISR of {topic} is {wanted}", not_yet=(KafkaException,))

    def move_leaders(self, topic: str, first: int, second: int) -> None:
        """Make a broker the leader of all partitions of a topic, in a new leader epoch."""
        partitions = tuple(
            AlterPartitionReassignmentsRequestReassignablePartition(partition_index=index, replicas=(first, second))
            for index in range(PARTITIONS)
        )
        topics = (AlterPartitionReassignmentsRequestReassignableTopic(name=topic, partitions=partitions),)
        self.ask(AlterPartitionReassignmentsRequest(topics=topics))
        named = (ElectLeadersRequestTopicPartitions(topic=topic, partitions=tuple(range(PARTITIONS))),)
        self.ask(ElectLeadersRequest(election_type=0, topic_partitions=named))

    def producer(self, *, is_idempotent: bool = False) -> Producer:
        return Producer(
            {"bootstrap.servers": self.bootstrap, "acks": "all", "enable.idempotence": is_idempotent, "log_level": 0}
        )

    def produce(self, producer: Producer, topic: str, count: int) -> None:
        """Produce numbered records; all must be acknowledged."""
        done = self.acknowledged.setdefault(topic, [])
        failures: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                done.append(message.value().decode())
            else:
                failures.append(error)

        first = len(done)
        for number in range(first, first + count):
            value = f"{topic}-{number} ".ljust(100, "x")
            producer.produce(topic, value.encode(), partition=number % PARTITIONS, on_delivery=on_delivery)
        assert producer.flush(PATIENCE_S) == 0
        assert not failures
        assert len(done) == first + count

    def read(self, topic: str) -> list[str]:
        """Return all records of a topic from the first."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader", "enable.partition.eof": True})
        found: list[str] = []
        open_partitions = {*range(PARTITIONS)}
        try:
            consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])

            def has_all() -> bool:
                message = consumer.poll(1)
                if message is not None and message.error() is None:
                    found.append(message.value().decode())
                elif message is not None and message.error().code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition())
                return not open_partitions

            kafka.wait_until(has_all, PATIENCE_S, f"{topic} is read to its end", 0)
        finally:
            consumer.close()
        return found

    # --- the procedure ------------------------------------------------------------------------------------------------

    def back_up(self, node_id: int, name: str) -> Path:
        """Stop one controller, copy its folder, start it."""
        self.quorum.processes[node_id].stop()
        copy = self.folder / name
        shutil.copytree(self.quorum.folder_of(node_id) / "data", copy)
        self.quorum.start(node_id)
        return copy

    def lose_all_controllers(self) -> None:
        """Kill every controller and delete its disk."""
        self.quorum.stop_all()
        for node_id in self.quorum.node_ids:
            shutil.rmtree(self.quorum.folder_of(node_id) / "data")

    def copy_of_broker(self, broker_id: int) -> Path:
        """Copy what the page requires of a broker's disk."""
        copy = self.folder / f"copy-of-{broker_id}"
        source = self.folder_of(broker_id) / "data"
        shutil.copytree(source / "__cluster_metadata-0", copy / "__cluster_metadata-0")
        shutil.copy(source / "meta.properties", copy)
        return copy

    def follow(self, block: str, node_id: int, copies: dict[str, Path] | None = None) -> list[str]:
        """Run a block of the page on one controller and return the output; copies that do not exist are left out."""
        names = {
            "/etc/conclave/server.properties": str(self.quorum.config_of(node_id)),
            "controller1:9093": f"127.0.0.1:{self.quorum.port_of(1)}",
            EXAMPLE_CLUSTER_ID: self.quorum.cluster_id,
            **{name: str(path) for name, path in (copies or {}).items()},
        }
        printed = []
        for line in block.splitlines():
            text = re.sub(r"--from (/backup/\S+) ?", lambda found: found[0] if found[1] in names else "", line)
            words = [names.get(word, word) for word in text.removeprefix("$ ").split()]
            if words == ["systemctl", "start", "conclave-node"]:
                self.quorum.start(node_id)
                self.quorum.wait_for_leader()
            else:
                assert words[0] == "conclave", line
                printed.append(self.patiently(*words[1:]))
        return printed

    def patiently(self, *words: str) -> str:
        """Run a command; one of the quorum is repeated until the new voter has caught up."""
        is_asked_again = words[:2] == ("quorum", "add")
        not_yet = (AssertionError,) if is_asked_again else ()
        return kafka.wait_until(lambda: command(*words) or " ", PATIENCE_S, " ".join(words), 0.5, not_yet)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with conclave.running_quorum(tmp_path, 3, broker_session_timeout_ms=3_000) as quorum, ExitStack() as stack:
        found = Cluster(tmp_path, quorum, stack)
        found.start_brokers(*BROKER_IDS)
        yield found


def differing(first: list[Rec], second: list[Rec]) -> int:
    """Return the number of records that are not in both."""
    return sum(a != b for a, b in zip(first, second, strict=False)) + abs(len(first) - len(second))


def assert_equal_logs(cluster: Cluster, topic: str) -> list[Rec]:
    """Check that both replicas of each partition have the same records, and return them."""
    every: list[Rec] = []
    for index in range(PARTITIONS):

        def records(index: int = index) -> list[list[Rec]]:
            return [cluster.records(each, f"{topic}-{index}") for each in BROKER_IDS]

        kafka.wait_until(
            lambda records=records: differing(*records()) == 0, 10, f"the replicas of {topic}-{index} are equal"
        )
        every += records()[0]
    return every


def assert_equal_metadata(cluster: Cluster) -> None:
    """Check that every node has the same metadata log after the start of the restored one."""
    folders = [cluster.quorum.folder_of(each) for each in cluster.quorum.node_ids]
    folders += [cluster.folder_of(each) for each in BROKER_IDS]
    logs = [raw_batches(folder) for folder in folders]
    shared = set.intersection(*(set(log) for log in logs))
    assert len(shared) > 10
    for base_offset in shared:
        assert len({log[base_offset] for log in logs}) == 1, f"batch {base_offset} differs"
    end = min(max(log) for log in logs)
    assert all({each for each in log if each <= end} == {each for each in shared if each <= end} for log in logs)


def test_brokers_ahead_of_the_backup_do_not_diverge(cluster: Cluster) -> None:
    """The backup is older than a leader's death, moved leaders, a topic and a producer.

    Only a broker has all of it.
    """
    cluster.create("kept")
    early = cluster.producer(is_idempotent=True)
    cluster.produce(early, "kept", 100)
    backup = cluster.back_up(3, "backup")

    cluster.quorum.processes[cluster.quorum.wait_for_leader()].kill()
    cluster.quorum.wait_for_leader()
    cluster.move_leaders("kept", 102, 101)
    cluster.create("later")
    late = cluster.producer(is_idempotent=True)
    cluster.produce(late, "kept", 100)
    cluster.produce(late, "later", 20)
    cluster.produce(early, "kept", 100)
    cluster.change("lost", 100)
    used = assert_equal_logs(cluster, "kept")
    assert len({record[1] for record in used}) > 1

    cluster.lose_all_controllers()
    cluster.kill_brokers()
    restore, join = fenced(section((DOCS / "operations.md").read_text(), "All controllers are lost"), "console")
    dry_run, done, described = cluster.follow(restore, 1, {"/backup/controller": backup})
    assert "Dry run: nothing was written." in dry_run
    assert "1 topics, 2 partitions, brokers 101, 102" in done
    assert "Leader 1, epoch 1000" in described
    cluster.change(
        "new", 200
    )  # more than was lost: the brokers' logs end where the new one continues, by their offsets
    cluster.start_brokers(*BROKER_IDS)
    cluster.wait_for_isr("kept", {*BROKER_IDS})
    for producer in (early, late, cluster.producer(is_idempotent=True), cluster.producer()):
        cluster.produce(producer, "kept", 50)
    for node_id in (2, 3):
        assert f"Added controller {node_id}" in cluster.follow(join, node_id)[-1]
    assert_nothing_is_used_again(cluster, used, 200)
    for broker_id in BROKER_IDS:
        folders = [path.name for path in (cluster.folder_of(broker_id) / "data").iterdir()]
        later = [name for name in folders if name.startswith("later-")]
        assert len(later) == PARTITIONS
        assert all(name.endswith("-stray") for name in later)
    assert_equal_metadata(cluster)

    backup = cluster.back_up(3, "second-backup")
    cluster.kill_brokers(101)
    cluster.wait_for_isr("kept", {102})
    cluster.create("latest", {102})
    alone = cluster.producer(is_idempotent=True)
    cluster.produce(alone, "kept", 100)
    cluster.produce(alone, "latest", 20)
    cluster.lose_all_controllers()
    cluster.kill_brokers()
    copies = {f"/backup/broker{each}": cluster.copy_of_broker(each) for each in BROKER_IDS}
    _, done, _ = cluster.follow(restore, 1, {"/backup/controller": backup, **copies})
    assert re.search(r"copy-of-102: node 102, .*, the newest: restored", done), done
    assert "Not restored" not in done
    cluster.start_brokers(102)
    for topic in ("kept", "latest"):
        cluster.wait_for_isr(topic, {102})
        cluster.produce(alone, topic, 50)
        assert sorted(cluster.read(topic)) == sorted(cluster.acknowledged[topic])


def assert_nothing_is_used_again(cluster: Cluster, used: list[Rec], fresh: int) -> None:
    """Check that both replicas are equal and have each acknowledged record once, with new records in later epochs."""
    found = assert_equal_logs(cluster, "kept")
    epochs = {record[1] for record in used}
    new = [record for record in found if record[1] not in epochs]
    assert len(new) == fresh
    assert min(record[1] for record in new) > max(epochs)
    assert sorted(cluster.read("kept")) == sorted(cluster.acknowledged["kept"])
    fresh_producers = {record[2] for record in new} - {record[2] for record in used} - {-1}
    assert all(producer > max(record[2] for record in used) for producer in fresh_producers)
