"""Three of our controllers with three unmodified Apache brokers, through restarts and kills of both.

Each test leaves the cluster complete: every broker up, every ISR full, a leading controller.
"""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kraft_core.protocol.messages import DescribeConfigsRequest, DescribeConfigsRequestDescribeConfigsResource
from tests.interop import conclave, kafka
from tests.interop.admin.tools import CONFIGS, STORAGE, TOPICS, Tools
from tests.interop.brokers import our_clients
from tests.interop.brokers.plans import Plan, plan_of
from tests.interop.kafka import PATIENCE_S

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]  # several waits, which are usually short

BROKER_IDS = (101, 102, 103)
GROUP = 32  # ConfigResource.Type
REPLICATED_INTERNALS = {
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "min.insync.replicas": 2,
}


@dataclass
class Cluster:
    """Three of our controllers and three of Apache's brokers."""

    quorum: conclave.Quorum
    folder: Path
    ports: dict[int, int]
    brokers: dict[int, kafka.Process] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        """host:port of every broker."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def folder_of(self, broker_id: int) -> Path:
        return self.folder / f"broker-{broker_id}"

    def format(self, broker_id: int, jvm: Tools) -> None:
        folder = self.folder_of(broker_id)
        folder.mkdir()
        settings = kafka.broker_settings(broker_id, self.ports[broker_id], folder, self.quorum.bootstrap)
        config = kafka.write_properties(folder / "server.properties", {**settings, **REPLICATED_INTERNALS})
        jvm.run(STORAGE, "format", "-t", self.quorum.cluster_id, "-c", config, "-N")

    def start(self, broker_id: int) -> kafka.Process:
        """Start a broker without waiting for it."""
        process = self.brokers[broker_id] = kafka.start(
            f"broker-{broker_id}", self.folder_of(broker_id) / "server.properties"
        )
        return process

    def restart_controller(self, node_id: int) -> None:
        """Restart a controller and wait until it follows or leads."""
        started_ms = time.time() * 1000
        self.quorum.start(node_id)

        def takes_part() -> bool:
            found = asyncio.run(conclave.describe_quorum(self.quorum.port_of(self.quorum.wait_for_leader())))
            voters = () if found is None else found.current_voters
            return any(each.replica_id == node_id and each.last_fetch_timestamp > started_ms for each in voters)

        kafka.wait_until(takes_part, PATIENCE_S, f"controller {node_id} takes part")

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def create(self, topic: str, partitions: int = 6) -> None:
        """Create a topic with three replicas and wait until brokers show all of them in sync.

        Retried, since a topic may be created without a response while controllers change.
        """

        def is_there() -> bool:
            try:
                self.admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(PATIENCE_S)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
            return True

        kafka.wait_until(is_there, PATIENCE_S, f"{topic} is created", not_yet=(KafkaException,))
        self.wait_for_isrs(topic, {*BROKER_IDS})

    def is_led_by(self, topic: str, brokers: set[int]) -> bool:
        """Return whether the broker knows the topic and only these leaders of its partitions."""
        found = self.admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        return bool(found) and {partition.leader for partition in found.values()} <= brokers

    def wait_for_leaders(self, topic: str, brokers: set[int]) -> None:
        """Wait until only these lead."""
        kafka.wait_until(
            lambda: self.is_led_by(topic, brokers), PATIENCE_S, "leaders to move", not_yet=(KafkaException,)
        )

    def wait_for_isrs(self, topic: str, wanted: set[int]) -> None:
        """Wait until the brokers report these replicas of every partition as in sync."""

        def is_reached() -> bool:
            found = self.admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
            return bool(found) and all({*partition.isrs} == wanted for partition in found.values())

        kafka.wait_until(
            is_reached, PATIENCE_S, f"the replicas of {topic} on {wanted} to be in sync", not_yet=(KafkaException,)
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, tools: Tools) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("three-brokers")
    with conclave.running_quorum(folder, 3) as quorum, ExitStack() as stack:
        found = Cluster(quorum, folder, dict(zip(BROKER_IDS, kafka.free_ports(3), strict=True)))
        for broker_id in BROKER_IDS:
            found.format(broker_id, tools)
            found.start(broker_id)
            stack.callback(lambda broker_id=broker_id: found.brokers[broker_id].kill())
        for process in found.brokers.values():
            process.wait_for_output("Kafka Server started", 2 * PATIENCE_S)
        yield found


class Load:
    """Produces records with acks=all, one after the other, while the cluster changes."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "delivery.timeout.ms": 120_000}
        )
        self._topic = topic
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged: list[str] = []
        self.failures: list[KafkaError] = []

    def _run(self) -> None:
        number = 0
        while not self._ends.is_set():
            value = f"record-{number}"
            number += 1

            def delivered(error: KafkaError | None, _: object, value: str = value) -> None:
                if error is None:
                    self.acknowledged.append(value)
                else:
                    self.failures.append(error)

            self._producer.produce(self._topic, value=value, key=value, on_delivery=delivered)
            self._producer.poll(0.005)
        self._producer.flush(150)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()


class Group:
    """Two members of one group that read a topic and commit while the cluster changes."""

    def __init__(self, cluster: Cluster, topic: str, protocol: str) -> None:
        self._settings = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"{protocol}-of-{topic}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
        self._topic = topic
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._read, args=(member,)) for member in range(2)]
        self.values: set[str] = set()
        self.partitions: list[frozenset[int]] = [frozenset(), frozenset()]

    def _read(self, member: int) -> None:
        consumer = Consumer(self._settings)
        consumer.subscribe([self._topic])
        while not self._ends.is_set():
            message: Message | None = consumer.poll(0.1)
            self.partitions[member] = frozenset(each.partition for each in consumer.assignment())
            if message is not None and message.error() is None:
                self.values.add(message.value().decode())
        consumer.close()

    def wait_for_shares(self) -> None:
        """Wait until each member has half of the topic's six partitions."""

        def is_shared() -> bool:
            first, second = self.partitions
            return len(first) == len(second) == 3 and first | second == {*range(6)}

        kafka.wait_until(is_shared, 2 * PATIENCE_S, "the members share the topic")

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()


def read(consumer: Consumer, count: int) -> list[Message]:
    """Return a consumer's next records, without the errors that it recovers from."""
    found: list[Message] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(message)
        assert time.monotonic() < deadline, f"{len(found)} of {count} records"
    return found


def values_of(cluster: Cluster, topic: str) -> set[str]:
    """Return every record of a topic, read without a group's offsets."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": f"reader-of-{topic}", "enable.partition.eof": True}
    )
    found: set[str] = set()
    try:
        partitions = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        assert partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        open_partitions = set(partitions)
        deadline = time.monotonic() + PATIENCE_S
        while open_partitions:
            assert time.monotonic() < deadline, f"{topic} cannot be read to its end: {open_partitions}"
            message = consumer.poll(1)
            error = None if message is None else message.error()
            if message is not None and error is None:
                found.add(message.value().decode())
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:  # confluent-kafka's public name
                open_partitions.discard(message.partition())
    finally:
        consumer.close()
    return found


@contextmanager
def nothing_lost(cluster: Cluster, topic: str, protocol: str = "consumer") -> Iterator[None]:
    """Produce and consume meanwhile. At the end every acknowledged record exists and was read by the group.

    No client has failed, the group's members share the topic as before, and every ISR is full.
    """
    cluster.create(topic)
    with Group(cluster, topic, protocol) as group:
        with Load(cluster, topic) as load:
            group.wait_for_shares()
            yield
        assert load.failures == []
        assert load.acknowledged
        kafka.wait_until(lambda: set(load.acknowledged) <= group.values, PATIENCE_S, "the group has read it all")
        group.wait_for_shares()
    cluster.wait_for_isrs(topic, {*BROKER_IDS})
    assert not set(load.acknowledged) - values_of(cluster, topic)


def test_apaches_console_tools_round_trip(cluster: Cluster) -> None:
    cluster.create("console")
    lines = [f"line {number}" for number in range(100)]
    kafka.tool(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", cluster.bootstrap, "--topic", "console"),
        stdin="\n".join(lines) + "\n",
    )
    printed = kafka.tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", cluster.bootstrap, "--topic", "console", "--from-beginning"),
        *("--max-messages", "100", "--timeout-ms", "90000", "--group", "console"),
    )
    assert sorted(printed.split("\n")[:-1]) == sorted(lines)


def test_a_transaction_spans_topics_and_commits_offsets(cluster: Cluster) -> None:
    """Consume, transform, produce: reads and writes are committed together or not at all."""
    for topic in ("in", "out"):
        cluster.create(topic, 2)
    feeder = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(20):
        feeder.produce("in", value=f"{number}")
    assert feeder.flush(PATIENCE_S) == 0
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "mover", "auto.offset.reset": "earliest"}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "mover"})
    producer.init_transactions(PATIENCE_S)
    for aborts in (True, False):
        consumer = Consumer({**settings, "enable.auto.commit": False})
        consumer.subscribe(["in"])
        messages = read(consumer, 20)  # an aborted transaction commits no offsets, so everything is read again
        producer.begin_transaction()
        for message in messages:
            producer.produce("out", value=message.value())
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), PATIENCE_S
        )
        if aborts:
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
        consumer.close()
    reader = Consumer({**settings, "group.id": "out", "isolation.level": "read_committed"})
    reader.subscribe(["out"])
    moved = [message.value() for message in read(reader, 20)]
    assert sorted(map(int, moved)) == list(range(20))
    more = reader.poll(1)
    assert more is None or more.error() is not None, "the aborted records stay hidden"
    reader.close()


def test_a_share_group_reads_from_the_offset_that_its_config_says(cluster: Cluster, tools: Tools) -> None:
    """KIP-932: the group's config, the feature and the topic of the group's state come from the controller."""
    cluster.create("shared", 2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(20):
        producer.produce("shared", value=f"{number}")
    assert producer.flush(PATIENCE_S) == 0
    brokers = ("--bootstrap-server", cluster.bootstrap)
    config = ("--group", "sharers", "--add-config", "share.auto.offset.reset=earliest")
    tools.run(CONFIGS, *brokers, "--alter", *config)
    asked = DescribeConfigsRequestDescribeConfigsResource(
        resource_type=GROUP, resource_name="sharers", configuration_keys=("share.auto.offset.reset",)
    )
    for port in cluster.ports.values():  # each may decide where the group starts
        kafka.wait_until(
            lambda port=port: (
                asyncio.run(conclave.call(port, DescribeConfigsRequest(resources=(asked,)), 4))
                .results[0]
                .configs[0]
                .value
                == "earliest"
            ),
            PATIENCE_S,
            "every broker has heard of the group's config",
        )
    read = ("--topic", "shared", "--group", "sharers", "--max-messages", 20, "--timeout-ms", 90_000)
    printed = tools.run("org.apache.kafka.tools.consumer.ConsoleShareConsumer", *brokers, *read)
    assert sorted(map(int, printed.split()[:20])) == list(range(20))


def test_brokers_restart_one_after_the_other_under_load(cluster: Cluster) -> None:
    with nothing_lost(cluster, "rolling-brokers"):
        for broker_id in BROKER_IDS:
            assert cluster.brokers[broker_id].stop(2 * PATIENCE_S) in {0, 143}
            cluster.wait_for_leaders("rolling-brokers", {*BROKER_IDS} - {broker_id})
            cluster.start(broker_id)
            cluster.wait_for_isrs("rolling-brokers", {*BROKER_IDS})


def test_controllers_restart_one_after_the_other_under_load(cluster: Cluster) -> None:
    quorum = cluster.quorum
    with nothing_lost(cluster, "rolling-controllers"):
        for node_id in quorum.node_ids:
            assert quorum.processes[node_id].stop() == 0
            quorum.wait_for_leader()
            cluster.create(f"without-{node_id}", 1)
            cluster.restart_controller(node_id)


def coordinator_of(cluster: Cluster, group_id: str) -> int:
    """Return the broker that the brokers name as the group's coordinator. Raises KafkaException while there is none.

    Each call uses a new client, since librdkafka's keeps the first coordinator.
    """
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    found = admin.describe_consumer_groups([group_id], request_timeout=10)[group_id].result(PATIENCE_S)
    return int(found.coordinator.id)


def test_a_killed_broker_loses_its_leaders_and_returns_to_every_isr(cluster: Cluster) -> None:
    def coordinator() -> int:
        return coordinator_of(cluster, "classic-of-killed-broker")

    with nothing_lost(cluster, "killed-broker", "classic"):
        killed = kafka.wait_until(coordinator, PATIENCE_S, "the group has a coordinator", not_yet=(KafkaException,))
        cluster.brokers[killed].kill()
        rest = {*BROKER_IDS} - {killed}
        cluster.wait_for_isrs("killed-broker", rest)
        cluster.wait_for_leaders("killed-broker", rest)
        kafka.wait_until(
            lambda: coordinator() in rest, PATIENCE_S, "another coordinates the group", not_yet=(KafkaException,)
        )
        cluster.start(killed)
        cluster.wait_for_isrs("killed-broker", {*BROKER_IDS})


def test_our_clients_lose_and_double_nothing_while_brokers_are_killed(cluster: Cluster) -> None:
    """Kill -9 of each broker in turn under writes, groups of both protocols and a copy in transactions.

    So each group's coordinator is killed too, whichever broker it is.
    """
    for topic in ("ours", "ours-copied", "ours-848"):
        cluster.create(topic)

    async def scenario() -> None:
        copier = our_clients.Copier(cluster.bootstrap, "ours", "ours-copied")
        copying = asyncio.create_task(copier.run())
        try:
            async with (
                our_clients.nothing_lost(cluster.bootstrap, "ours"),
                our_clients.nothing_lost(
                    cluster.bootstrap, "ours-848", group_protocol="consumer", enable_auto_commit=False
                ),
            ):
                for broker_id in BROKER_IDS:
                    await asyncio.to_thread(cluster.brokers[broker_id].kill)
                    await asyncio.to_thread(cluster.wait_for_leaders, "ours", {*BROKER_IDS} - {broker_id})
                    cluster.start(broker_id)
                    await asyncio.to_thread(cluster.wait_for_isrs, "ours", {*BROKER_IDS})
            copier.stop()
            await asyncio.wait_for(copying, 2 * PATIENCE_S)
        finally:
            copying.cancel()
        print(f"{copier.transactions} transactions, {copier.aborted} aborted, {copier.failed} producers failed")
        numbers = [
            sorted(int(record.value) for record in await our_clients.read_all(cluster.bootstrap, topic, isolation))
            for topic, isolation in (("ours", "read_uncommitted"), ("ours-copied", "read_committed"))
        ]
        assert numbers[0] == numbers[1], "each record is copied once"
        assert copier.transactions > 0

    asyncio.run(scenario())


def test_killing_the_active_controller_loses_nothing_acknowledged(cluster: Cluster) -> None:
    quorum = cluster.quorum
    created: list[str] = []
    with nothing_lost(cluster, "killed-controller"):
        for number in range(3):
            leader_id = quorum.wait_for_leader()
            futures = cluster.admin.create_topics([NewTopic(f"during-{number}-{each}", 1, 3) for each in range(20)])
            quorum.processes[leader_id].kill()
            for topic, future in futures.items():
                try:
                    future.result(PATIENCE_S)  # longer than the client's request timeout
                except KafkaException:
                    continue  # the record may exist or not
                created.append(topic)
            cluster.restart_controller(leader_id)
    cluster.create("after-the-kills", 1)
    kafka.wait_until(
        lambda: {*created} <= {*cluster.admin.list_topics(timeout=PATIENCE_S).topics},
        PATIENCE_S,
        "the broker that is asked knows every topic that was acknowledged",
        not_yet=(KafkaException,),
    )


def test_apaches_tools_carry_out_a_plan_and_take_it_back(cluster: Cluster, tools: Tools, tmp_path: Path) -> None:
    crowded = ",".join(["101:102"] * 4)
    create = ("--bootstrap-server", cluster.bootstrap, "--create", "--topic", "planned", "--replica-assignment")
    tools.run(TOPICS, *create, crowded)
    cluster.wait_for_isrs("planned", {101, 102})
    proposal = plan_of("planned", BROKER_IDS, ["101 102"] * 4)
    assert (proposal.moves, proposal.bound, proposal.leader_optimum) == (2, 2, 2)
    plan = Plan(proposal, tmp_path, tools, cluster.bootstrap)
    plan.reassign("reassign", len(proposal.changes))
    plan.elect()
    wanted = {each.partition: (each.new_leader, ",".join(map(str, each.proposed))) for each in proposal.changes}
    kafka.wait_until(
        lambda: plan.placement("planned") == {**dict.fromkeys(range(4), (101, "101,102")), **wanted},
        PATIENCE_S,
        f"the brokers know {wanted}",
    )
    plan.reassign("rollback", len(proposal.changes))
    kafka.wait_until(
        lambda: {replicas for _, replicas in plan.placement("planned").values()} == {"101,102"},
        PATIENCE_S,
        "the first assignment is back",
    )
