"""Transactions of KafkaProducer on Apache's broker, in both versions of the protocol, read by librdkafka."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, IsolationLevel
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.consumer_group_metadata import ConsumerGroupMetadata
from kraft_core.clients.consumer.kafka_consumer import KafkaConsumer
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.clients.producer.kafka_producer import KafkaProducer
from kraft_core.clients.producer.transaction_errors import ProducerFenced, TransactionAbortable, TransactionAborted
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import UpdateFeaturesRequest, UpdateFeaturesRequestFeatureUpdateKey
from kraft_core.protocol.software import api_versions_request
from tests.clients.cutting_proxy import CuttingProxy
from tests.interop import conclave, kafka
from tests.interop.admin.tools import Tools
from tests.interop.kafka import PATIENCE_S

pytestmark = pytest.mark.interop

STARTED = "Kafka Server started"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@dataclass
class Cluster:
    """Apache's broker: its address, and the ports of a second listener and of the proxy that it advertises for it."""

    address: str
    cut_port: int
    proxy_port: int
    controller_port: int
    process: kafka.Process
    config: Path
    admin: AdminClient


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    kafka.require()
    folder = tmp_path_factory.mktemp("transactions")
    port, cut_port, proxy_port = kafka.free_ports(3)
    listeners = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CUT://127.0.0.1:{cut_port}",
        "advertised_listeners": f"PLAINTEXT://127.0.0.1:{port},CUT://127.0.0.1:{proxy_port}",
        "listener_security_protocol_map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CUT:PLAINTEXT",
    }
    with (
        conclave.running_quorum(folder, 1, broker_session_timeout_ms=5_000) as quorum,
        kafka.broker(folder / "broker", 101, quorum.bootstrap, quorum.cluster_id, **listeners) as (process, _),
    ):
        process.wait_for_output(STARTED)
        config = folder / "broker" / "server.properties"
        address = f"127.0.0.1:{port}"
        admin = AdminClient({"bootstrap.servers": address})
        found = Cluster(address, cut_port, proxy_port, quorum.port_of(1), process, config, admin)
        yield found
        found.process.kill()


def producer(address: str, transactional_id: str, **more: object) -> KafkaProducer:
    configs = {"bootstrap.servers": address, "transactional.id": transactional_id, "linger.ms": 0}
    return KafkaProducer(configs | {name.replace("_", "."): value for name, value in more.items()})


def create(cluster: Cluster, topic: str, partitions: int = 2) -> str:
    for future in cluster.admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(PATIENCE_S)
    return topic


def end_offsets(cluster: Cluster, topic: str, partitions: int, isolation: IsolationLevel) -> list[int]:
    wanted = {Position(topic, index): OffsetSpec.latest() for index in range(partitions)}
    found = cluster.admin.list_offsets(wanted, isolation_level=isolation, request_timeout=PATIENCE_S)
    return [found[place].result(PATIENCE_S).offset for place in wanted]


def committed(cluster: Cluster, topic: str, isolation: str = "read_committed", partitions: int = 2) -> list[bytes]:
    """Return the values that a reader of this isolation level sees, in the order of partitions.

    First it waits for the markers of all transactions: the coordinator answers EndTxn before it writes them.
    """
    kafka.wait_until(
        lambda: (
            end_offsets(cluster, topic, partitions, IsolationLevel.READ_COMMITTED)
            == end_offsets(cluster, topic, partitions, IsolationLevel.READ_UNCOMMITTED)
        ),
        PATIENCE_S,
        f"{topic} has no open transaction",
    )
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.address,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    found: dict[int, list[bytes]] = {index: [] for index in range(partitions)}
    ended: set[int] = set()
    consumer.assign([Position(topic, index, 0) for index in range(partitions)])
    try:
        while len(ended) < partitions:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"the end of {topic} was not reached; seen: {found}"
            if message.error() is not None:
                ended.add(message.partition())
            else:
                found[message.partition()].append(message.value())
    finally:
        consumer.close()
    return [value for index in range(partitions) for value in found[index]]


async def write(sender: KafkaProducer, topic: str, *values: bytes, partitions: int = 2) -> None:
    """Send values to the partitions in turn, and wait until they are written."""
    for number, value in enumerate(values):
        await sender.send(topic, value, partition=number % partitions)
    await sender.flush()


async def in_turn(sender: KafkaProducer, topic: str) -> None:
    """Commit, abort, and commit again."""
    async with sender:
        await sender.init_transactions()
        await sender.begin_transaction()
        await write(sender, topic, b"a1", b"a2")
        await sender.commit_transaction()
        await sender.begin_transaction()
        await write(sender, topic, b"lost1", b"lost2")
        await sender.abort_transaction()
        await sender.begin_transaction()
        await write(sender, topic, b"b1", b"b2")
        await sender.commit_transaction()


def run(cluster: Cluster, story: Callable[[KafkaProducer], Awaitable[None]], transactional_id: str) -> None:
    async def play() -> None:
        async with producer(cluster.address, transactional_id) as sender:
            await sender.init_transactions()
            await story(sender)

    asyncio.run(play())


def test_committed_records_are_visible_and_aborted_ones_are_not(cluster: Cluster) -> None:
    topic = create(cluster, "visible")

    async def story() -> None:
        await in_turn(producer(cluster.address, "visible"), topic)

    asyncio.run(story())
    assert committed(cluster, topic) == [b"a1", b"b1", b"a2", b"b2"]
    assert committed(cluster, topic, "read_uncommitted") == [b"a1", b"lost1", b"b1", b"a2", b"lost2", b"b2"]


def test_a_zombie_is_fenced_and_its_transaction_aborted(cluster: Cluster) -> None:
    topic = create(cluster, "fenced")

    async def story() -> None:
        zombie = producer(cluster.address, "fenced")
        await zombie.init_transactions()
        await zombie.begin_transaction()
        await write(zombie, topic, b"zombie")
        async with producer(cluster.address, "fenced") as successor:
            await successor.init_transactions()
            with pytest.raises(ProducerFenced, match="'fenced'"):
                await zombie.commit_transaction()
            with pytest.raises(ProducerFenced):
                await zombie.send(topic, b"again")
            await successor.begin_transaction()
            await write(successor, topic, b"successor")
            await successor.commit_transaction()
        await zombie.close()

    asyncio.run(story())
    assert committed(cluster, topic) == [b"successor"]


def test_a_zombie_that_writes_is_told_to_abort_and_then_fenced(cluster: Cluster) -> None:
    """KIP-588: an old epoch in Produce is abortable; the coordinator then says that it is fenced."""
    topic = create(cluster, "old-epoch")

    async def story() -> None:
        zombie = producer(cluster.address, "old-epoch")
        await zombie.init_transactions()
        await zombie.begin_transaction()
        await write(zombie, topic, b"zombie")
        async with producer(cluster.address, "old-epoch") as successor:
            await successor.init_transactions()
            future = await zombie.send(topic, b"late", partition=0)
            with pytest.raises(KafkaError) as refused:
                await future
            assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
            with pytest.raises(TransactionAbortable):
                await zombie.commit_transaction()
            with pytest.raises(ProducerFenced):
                await zombie.abort_transaction()
        await zombie.close()

    asyncio.run(story())
    assert committed(cluster, topic) == []


def test_offsets_are_committed_with_the_transaction_and_only_then(cluster: Cluster, tools: Tools) -> None:
    topic = create(cluster, "offsets")
    group = ConsumerGroupMetadata("copiers")

    async def story(sender: KafkaProducer) -> None:
        await sender.begin_transaction()
        await write(sender, topic, b"1", b"2", b"3")
        await sender.send_offsets_to_transaction({TopicPartition(topic, 0): OffsetAndMetadata(2)}, group)
        await sender.commit_transaction()
        await sender.begin_transaction()
        await sender.send_offsets_to_transaction({TopicPartition(topic, 1): OffsetAndMetadata(1)}, group)
        await sender.abort_transaction()

    run(cluster, story, "offsets")
    shown = tools.run(GROUPS, "--bootstrap-server", cluster.address, "--describe", "--group", "copiers")
    rows = [line.split() for line in shown.splitlines() if line.startswith("copiers")]
    assert [(row[1], row[2], row[3]) for row in rows] == [(topic, "0", "2")]


def test_a_member_that_left_its_group_cannot_commit_offsets(cluster: Cluster) -> None:
    topic = create(cluster, "left")

    async def story(sender: KafkaProducer) -> None:
        await sender.begin_transaction()
        await write(sender, topic, b"1")
        gone = ConsumerGroupMetadata("left", 3, "member-that-left")
        with pytest.raises(TransactionAbortable) as refused:
            await sender.send_offsets_to_transaction({TopicPartition(topic, 0): OffsetAndMetadata(1)}, gone)
        assert refused.value.code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}
        await sender.abort_transaction()
        await sender.begin_transaction()
        await write(sender, topic, b"2")
        await sender.commit_transaction()

    run(cluster, story, "left")
    assert committed(cluster, topic) == [b"2"]


def test_lost_answers_of_any_kind_leave_each_record_once(cluster: Cluster) -> None:
    topic = create(cluster, "cut")

    async def story() -> None:
        async with (
            CuttingProxy(cluster.proxy_port, cluster.cut_port) as proxy,
            producer(f"127.0.0.1:{cluster.proxy_port}", "cut", batch_size=200) as sender,
        ):
            proxy.cuts.update(
                {
                    ApiKey.FIND_COORDINATOR: 1,
                    ApiKey.INIT_PRODUCER_ID: 1,
                    ApiKey.PRODUCE: 4,
                    ApiKey.END_TXN: 3,
                    ApiKey.TXN_OFFSET_COMMIT: 1,
                }
            )
            await sender.init_transactions()
            for first in range(0, 300, 100):
                await sender.begin_transaction()
                await write(sender, topic, *(b"%d" % number for number in range(first, first + 100)))
                offsets = {TopicPartition(topic, 0): OffsetAndMetadata(first)}
                await sender.send_offsets_to_transaction(offsets, ConsumerGroupMetadata("cut"))
                await sender.commit_transaction()
            assert not +proxy.cuts

    asyncio.run(story())
    assert committed(cluster, topic) == [b"%d" % number for index in (0, 1) for number in range(index, 300, 2)]


async def copy(cluster: Cluster, source: str, target: str, crash_after: int) -> bool:
    """Copy from the committed offset on, ten records in each transaction; return whether the end was reached.

    After `crash_after` transactions the copier ends within one, at a point that differs with each number.
    """
    place = TopicPartition(source, 0)
    sender = producer(cluster.address, "copier")
    reading = {"bootstrap.servers": cluster.address, "group.id": "copier", "isolation.level": "read_committed"}
    async with KafkaConsumer({**reading, "enable.auto.commit": "false", "max.poll.records": 10}) as consumer:
        await sender.init_transactions()
        consumer.assign([place])
        found = (await consumer.committed([place]))[place]
        consumer.seek(place, 0 if found is None else found.offset)
        for number in range(1_000):
            records = (await consumer.poll(2_000)).get(place, [])
            if not records:
                await sender.close()
                return True
            await sender.begin_transaction()
            for record in records:
                await sender.send(target, record.value, partition=0)
            is_last = number == crash_after
            if not is_last or crash_after % 3:
                offsets = {place: OffsetAndMetadata(records[-1].offset + 1)}
                await sender.send_offsets_to_transaction(offsets, consumer.group_metadata())
            if is_last and crash_after % 2:
                await sender.flush()
            if is_last:
                break
            await sender.commit_transaction()
        await sender.close(0)
    return False


def test_a_copier_that_crashes_again_and_again_copies_each_record_once(cluster: Cluster) -> None:
    source, target = create(cluster, "copy-in", 1), create(cluster, "copy-out", 1)
    written = [b"%d" % number for number in range(200)]

    async def story() -> None:
        async with KafkaProducer({"bootstrap.servers": cluster.address}) as sender:
            await write(sender, source, *written, partitions=1)
        for crash_after in (0, 1, 2, 3, 4):
            assert not await copy(cluster, source, target, crash_after)
        assert await copy(cluster, source, target, crash_after=1_000)

    asyncio.run(story())
    assert committed(cluster, target, partitions=1) == written
    assert len(committed(cluster, target, "read_uncommitted", partitions=1)) > len(written)


def test_records_that_wait_are_dropped_by_an_abort_and_by_leaving_with_an_error(cluster: Cluster) -> None:
    topic = create(cluster, "dropped")

    async def story() -> None:
        sender = producer(cluster.address, "dropped", linger_ms=60_000)
        await sender.init_transactions()
        await sender.begin_transaction()
        future = await sender.send(topic, b"waits", partition=0)
        await sender.abort_transaction()
        with pytest.raises(TransactionAborted):
            await future
        await sender.begin_transaction()
        await sender.send(topic, b"open", partition=0)
        await sender.close()  # delivers, and aborts what is open

    asyncio.run(story())
    assert committed(cluster, topic) == []
    assert committed(cluster, topic, "read_uncommitted") == [b"open"]


def set_transaction_version(cluster: Cluster, level: int) -> None:
    """Finalize a level of transaction.version, also a lower one, and wait until the broker says so."""
    change = UpdateFeaturesRequestFeatureUpdateKey(
        feature="transaction.version", max_version_level=level, upgrade_type=1 if level == 2 else 2
    )
    answer = asyncio.run(conclave.call(cluster.controller_port, UpdateFeaturesRequest(feature_updates=(change,)), 1))
    assert answer.error_code == 0

    def is_shown() -> bool:
        versions = asyncio.run(conclave.call(cluster.cut_port, api_versions_request(), 4))
        return {each.name: each.max_version_level for each in versions.finalized_features}[
            "transaction.version"
        ] == level

    kafka.wait_until(is_shown, PATIENCE_S, f"the broker knows transaction.version {level}")


@pytest.fixture
def version_1(cluster: Cluster) -> Iterator[None]:
    set_transaction_version(cluster, 1)
    yield
    set_transaction_version(cluster, 2)


@pytest.mark.usefixtures("version_1")
def test_version_1_of_the_protocol(cluster: Cluster, tools: Tools) -> None:
    """After an abort for an error the client asks for the next epoch (KIP-360)."""
    topic = create(cluster, "version-1")

    async def story() -> None:
        await in_turn(producer(cluster.address, "version-1"), topic)
        async with producer(cluster.address, "version-1") as sender:
            await sender.init_transactions()
            await sender.begin_transaction()
            offsets = {TopicPartition(topic, 0): OffsetAndMetadata(7)}
            await sender.send_offsets_to_transaction(offsets, ConsumerGroupMetadata("version-1"))
            with pytest.raises(KafkaError):
                await sender.send(topic, b"x" * 2_000_000)
            with pytest.raises(TransactionAbortable):
                await sender.commit_transaction()
            await sender.abort_transaction()
            await sender.begin_transaction()
            await write(sender, topic, b"c1")
            await sender.send_offsets_to_transaction(offsets, ConsumerGroupMetadata("version-1"))
            await sender.commit_transaction()

    asyncio.run(story())
    assert committed(cluster, topic) == [b"a1", b"b1", b"c1", b"a2", b"b2"]
    shown = tools.run(GROUPS, "--bootstrap-server", cluster.address, "--describe", "--group", "version-1")
    assert [line.split()[3] for line in shown.splitlines() if line.startswith("version-1")] == ["7"]


def test_a_transaction_survives_a_broker_that_is_killed(cluster: Cluster) -> None:
    topic = create(cluster, "killed")

    async def story(sender: KafkaProducer) -> None:
        await sender.begin_transaction()
        await write(sender, topic, b"1", b"2")
        cluster.process.kill()
        started = cluster.process.output.count(STARTED)
        late = [await sender.send(topic, b"3", partition=0), await sender.send(topic, b"4", partition=1)]
        commit = asyncio.create_task(sender.commit_transaction())
        cluster.process = await asyncio.to_thread(kafka.start, "apache-broker-101", cluster.config)
        await commit
        for future in late:
            future.result()
        again = cluster.process
        kafka.wait_until(lambda: again.output.count(STARTED) > started, PATIENCE_S, STARTED)

    run(cluster, story, "killed")
    assert committed(cluster, topic) == [b"1", b"3", b"2", b"4"]
