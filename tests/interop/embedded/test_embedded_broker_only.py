"""Our broker in its own process, under our controllers and under Apache's, next to an Apache broker."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kraft_core.protocol.metadata_version import BROKER_FEATURES, FEATURES
from kraft_core.storage.format import FormatRequest, format_storage
from tests.interop import conclave, kafka
from tests.interop.conclave import Quorum

pytestmark = pytest.mark.interop


@contextmanager
def our_broker(
    folder: Path,
    node_id: int,
    quorum: Quorum,
    before: Callable[[kafka.Process], None] = lambda _: None,
    **extra: object,
) -> Iterator[tuple[kafka.Process, str]]:
    """Yield the process and bootstrap address of a started broker of ours; `before` is called while it starts."""
    folder.mkdir(parents=True)
    (port,) = kafka.free_ports(1)
    config = folder / "server.properties"
    settings = kafka.broker_settings(node_id, port, folder, quorum.bootstrap)
    settings.update({name.replace("_", "."): value for name, value in extra.items()})
    kafka.write_properties(config, settings)
    data = folder / "data"
    format_storage(
        FormatRequest(
            node_id=node_id,
            cluster_id=quorum.cluster_id,
            log_dirs=[data],
            metadata_log_dir=data,
            is_dynamic=True,
        ),
        lambda line: None,
    )
    with conclave.start(f"broker-{node_id}", config) as process:
        before(process)
        process.wait_for_output("broker_started")
        yield process, f"127.0.0.1:{port}"


FOR_OUR_BROKERS = dict.fromkeys(FEATURES.keys() - BROKER_FEATURES.keys(), 0)


@contextmanager
def controllers(folder: Path, kind: str, size: int = 1, **settings: object) -> Iterator[Quorum]:
    """Yield a quorum with the features that our brokers support."""
    quorum = Quorum(folder, size, {name.replace("_", "."): value for name, value in settings.items()})
    try:
        for node_id in quorum.node_ids:
            if kind == "apache":
                quorum.format_apache(node_id, FOR_OUR_BROKERS)
                quorum.start_apache(node_id)
            else:
                quorum.format(node_id, features=FOR_OUR_BROKERS)
                quorum.start(node_id)
        quorum.wait_for_leader()
        yield quorum
    finally:
        quorum.stop_all()


def create(address: str, topic: str, replicas: int, partitions: int = 1, config: dict[str, str] | None = None) -> None:
    """Create a topic, again while there is no leader; then it may exist already."""
    admin = AdminClient({"bootstrap.servers": address})

    def is_there() -> bool:
        try:
            admin.create_topics([NewTopic(topic, partitions, replicas, config=config or {})])[topic].result(
                kafka.PATIENCE_S
            )
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        return True

    kafka.wait_until(is_there, kafka.PATIENCE_S, f"{topic} is created", not_yet=(KafkaException,))


def round_trip(address: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(kafka.PATIENCE_S) == 0
    assert read_all(address, topic, len(values)) == values


def read_all(address: str, topic: str, count: int) -> list[bytes]:
    """Return the first records of partition 0, as many as arrive in time."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": f"group-{topic}", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    read: list[bytes] = []
    deadline = time.monotonic() + kafka.PATIENCE_S
    while len(read) < count and time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            read.append(message.value())
    consumer.close()
    return read


@pytest.mark.parametrize("kind", ["ours", "apache"])
def test_our_broker_serves_under_controllers_in_other_processes(tmp_path: Path, kind: str) -> None:
    kafka.require()
    with controllers(tmp_path / "quorum", kind) as quorum, our_broker(tmp_path / "b", 11, quorum) as (process, address):
        create(address, "t", 1)
        round_trip(address, "t", [b"%d" % number for number in range(100)])

        assert process.stop() == 0
        assert (tmp_path / "b" / "data" / ".kafka_cleanshutdown").exists()


def test_our_broker_keeps_serving_when_the_leader_of_its_controllers_is_killed(tmp_path: Path) -> None:
    with (
        controllers(tmp_path / "quorum", "ours", 3) as quorum,
        our_broker(tmp_path / "b", 11, quorum) as (_, address),
    ):
        create(address, "before", 1)
        leader = quorum.wait_for_leader()
        quorum.processes[leader].kill()

        round_trip(address, "before", [b"x"] * 10)
        create(address, "after", 1)
        round_trip(address, "after", [b"y"] * 10)


def leader_and_isr(admin: AdminClient, topic: str) -> tuple[int, list[int]]:
    partition = admin.list_topics(topic, kafka.PATIENCE_S).topics[topic].partitions[0]
    return partition.leader, partition.isrs


@pytest.mark.parametrize("min_isr", [1, 2])
def test_records_acknowledged_with_acks_1_survive_the_leader(tmp_path: Path, min_isr: int) -> None:
    """The other replica has no copy, so nothing may be acknowledged while it could become leader cleanly.

    With min.insync.replicas 2 it stays eligible (KIP-966) after leaving the ISR, so nothing is acknowledged at all.
    """
    with ExitStack() as stack:
        quorum = stack.enter_context(controllers(tmp_path / "quorum", "ours", broker_session_timeout_ms=2_000))
        started = {
            node_id: stack.enter_context(our_broker(tmp_path / f"b{node_id}", node_id, quorum)) for node_id in (11, 12)
        }
        addresses = ",".join(address for _, address in started.values())
        admin = AdminClient({"bootstrap.servers": addresses})
        create(addresses, "pair", 2, config={"min.insync.replicas": str(min_isr)})
        acknowledged: list[bytes] = []
        producer = Producer(
            {"bootstrap.servers": addresses, "acks": 1, "message.timeout.ms": 5_000 if min_isr == 2 else 60_000}
        )
        for number in range(100):
            value = b"%d" % number
            producer.produce(
                "pair",
                value,
                partition=0,
                on_delivery=lambda error, _, value=value: error is None and acknowledged.append(value),
            )
        assert producer.flush(kafka.PATIENCE_S) == 0
        leader, _ = leader_and_isr(admin, "pair")
        started[leader][0].kill()

        if min_isr == 2:
            assert acknowledged == []
            return
        assert len(acknowledged) == 100
        kafka.wait_until(
            lambda: leader_and_isr(admin, "pair")[0] != leader, kafka.PATIENCE_S, "the dead leader is fenced"
        )
        restarted = conclave.start(f"broker-{leader}", tmp_path / f"b{leader}" / "server.properties")
        stack.callback(restarted.kill)
        assert read_all(addresses, "pair", 100) == acknowledged


def test_a_partition_with_a_silent_follower_accepts_acks_all_once_the_isr_has_shrunk(tmp_path: Path) -> None:
    """Our brokers do not replicate yet: the leader removes the other one from the ISR, as Kafka's does with one that
    lags."""
    with ExitStack() as stack:
        quorum = stack.enter_context(controllers(tmp_path / "quorum", "ours"))
        settings = {"replica_lag_time_max_ms": 1_000}
        _, address = stack.enter_context(our_broker(tmp_path / "b1", 11, quorum, **settings))
        stack.enter_context(our_broker(tmp_path / "b2", 12, quorum, **settings))
        create(address, "pair", 2)

        round_trip(address, "pair", [b"%d" % number for number in range(20)])

        admin = AdminClient({"bootstrap.servers": address})

        def has_shrunk() -> bool:
            partition = admin.list_topics("pair", kafka.PATIENCE_S).topics["pair"].partitions[0]
            assert sorted(partition.replicas) == [11, 12]
            return partition.isrs == [partition.leader]

        kafka.wait_until(has_shrunk, kafka.PATIENCE_S, "the broker that is asked has heard of the smaller ISR")
