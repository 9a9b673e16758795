"""Valid and invalid batches, sent to Apache's broker and to ours: same responses, same records for consumers.

Where ours departs on purpose, the case contains the reason.
"""

import asyncio
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kraft_core.clients.kafka_client import KafkaConnection
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    ProduceRequest,
    ProduceRequestPartitionProduceData,
    ProduceRequestTopicProduceData,
    ProduceResponse,
)
from tests.broker.batches import resealed
from tests.broker.crafted import CODECS, crafted, record, sized
from tests.interop import conclave, kafka
from tests.interop.embedded.embedded_node import running_node
from tests.interop.kafka import PATIENCE_S

pytestmark = pytest.mark.interop

NOW_MS = int(time.time() * 1000)
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "timed": {"message.timestamp.before.max.ms": "3600000", "message.timestamp.after.max.ms": "3600000"},
    "small": {"max.message.bytes": "500"},
    "spoiled": {},
    "spoiled-timed": {},
}
GOOD = record(0, b"k", b"v")
TWO = GOOD + record(1, b"k", b"w")


@dataclass(frozen=True)
class Case:
    """One batch for one topic. `ours` is our error code where it departs from Apache's, with the reason."""

    name: str
    topic: str
    batch: bytes
    version: int = 9
    ours: ErrorCode | None = None
    why: str = ""


def changed(batch: bytes, position: int, data: bytes, *, seal: bool = True) -> bytes:
    """Return the batch with some bytes replaced."""
    made = batch[:position] + data + batch[position + len(data) :]
    return resealed(made) if seal else made


NOT_DECOMPRESSED = "Apache fails with UNKNOWN_SERVER_ERROR, which is not retriable either"
UNREADABLE = "Apache stores what its consumers cannot read"


def good_cases() -> Iterator[Case]:
    for codec in CODECS:
        yield Case(f"one record, codec {codec}", "plain", crafted(GOOD, 1, codec=codec))
        many = b"".join(record(n, None, b"%d" % n * 20, [(b"h", b"x"), (b"n", None)], n) for n in range(3_000))
        yield Case(f"3000 records, codec {codec}", "plain", crafted(many, 3_000, codec=codec, max_timestamp=3_999))
        yield Case(f"keys, codec {codec}", "compacted", crafted(TWO, 2, codec=codec))
        yield Case(
            f"a false maximum timestamp, codec {codec}", "plain", crafted(GOOD, 1, codec=codec, max_timestamp=9_999_999)
        )
        yield Case(f"the broker's time, codec {codec}", "stamped", crafted(GOOD, 1, codec=codec))
    yield Case("no timestamps", "timed", crafted(GOOD, 1, base_timestamp=-1))
    yield Case("in time", "timed", crafted(TWO, 2, base_timestamp=NOW_MS))
    yield Case("negative timestamps", "plain", crafted(GOOD, 1, base_timestamp=-5, max_timestamp=-5))
    yield Case("a producer", "plain", crafted(GOOD, 1, producer=(7, 0, 0)))


def bad_records() -> Iterator[Case]:
    keyless = record(0, None, b"v") + record(1, b"k", b"v") + record(2, None, b"w")
    five = b"".join(record(n, None, b"v") for n in range(5))
    for codec in CODECS:
        yield Case(f"two without a key, codec {codec}", "compacted", crafted(keyless, 3, codec=codec))
        yield Case(f"five without a key, codec {codec}", "compacted", crafted(five, 5, codec=codec))
        old = record(0, b"k", b"v") + record(1, None, b"v", None, NOW_MS - 1_000)
        yield Case(f"one too old, codec {codec}", "timed", crafted(old, 2, codec=codec, max_timestamp=NOW_MS))
    future = crafted(TWO, 2, base_timestamp=NOW_MS + 7_200_000)
    yield Case("two from the future", "timed", future)
    yield Case("two from the future by default", "plain", future)


def bad_structure() -> Iterator[Case]:
    faults = {
        "no length": b"\x00",
        "negative length": b"\x01",
        "longer than the data": b"\x40" + GOOD[1:],
        "shorter than its fields": bytes([GOOD[0] - 2]) + GOOD[1:],
        "longer than its fields": bytes([GOOD[0] + 2]) + GOOD[1:] + b"\x00",
        "cut": GOOD[:-1],
        "nothing": b"",
        "key beyond its record": sized(b"\x00\x00\x00\x7ek\x02v\x00"),
        "-1 headers": b"\x10\x00\x00\x00\x01\x02v\x01X",
        "8 headers": b"\x10\x00\x00\x00\x01\x02v\x10X",
        "header without a name": b"\x12\x00\x00\x00\x01\x02v\x02\x01\x01",
        "a second record": TWO,
    }
    skipped = {"longer than the data", "shorter than its fields"}
    for codec in (0, 1, 4):
        for name, data in faults.items():
            accepted = codec and name in skipped
            yield Case(
                f"{name}, codec {codec}",
                "spoiled" if accepted else "plain",
                crafted(data, 1, codec=codec),
                ours=ErrorCode.INVALID_RECORD if accepted else None,
                why=UNREADABLE,
            )
    for codec in (1, 2, 3, 4):
        yield Case(
            f"not compressed, codec {codec}",
            "plain",
            crafted(GOOD * 9, 9, codec=codec, is_compressed=True),
            ours=ErrorCode.INVALID_RECORD,
            why=NOT_DECOMPRESSED,
        )


def bad_batches() -> Iterator[Case]:
    good = crafted(GOOD, 1)
    yield Case("no batch", "plain", b"")
    yield Case("a few bytes", "plain", b"short")
    yield Case("cut", "plain", good[:-1])
    yield Case("length 0", "plain", changed(good, 8, bytes(4), seal=False))
    yield Case("length 20", "plain", changed(good, 8, struct.pack(">i", 20), seal=False))
    yield Case("negative length", "plain", changed(good, 8, b"\xff" * 4, seal=False))
    yield Case("magic 1", "plain", changed(good, 16, b"\x01", seal=False))
    yield Case("magic 3", "plain", changed(good, 16, b"\x03", seal=False))
    yield Case("a bad CRC", "plain", good[:-1] + b"!")
    yield Case("two batches", "plain", good + good)
    yield Case("a base offset", "plain", crafted(GOOD, 1, base_offset=5))
    yield Case("too large", "small", crafted(record(0, b"k", bytes(600)), 1))
    yield Case("no records", "plain", crafted(b"", 0, last_offset_delta=-1))
    yield Case("count 0", "plain", crafted(GOOD, 0, last_offset_delta=0))
    yield Case("count 2", "plain", crafted(GOOD, 2, last_offset_delta=0))
    yield Case("negative count", "plain", crafted(GOOD, -1, last_offset_delta=0))
    yield Case("last delta 7", "plain", crafted(GOOD, 1, last_offset_delta=7))
    yield Case("a control batch", "plain", crafted(GOOD, 1, attributes=0x20))
    yield Case("a producer without a sequence", "plain", crafted(GOOD, 1, producer=(7, 0, -1)))
    yield Case("zstd in version 6", "plain", crafted(GOOD, 1, codec=4), 6)


def departures() -> Iterator[Case]:
    invalid = ErrorCode.INVALID_RECORD
    yield Case(
        "codec 5",
        "plain",
        crafted(GOOD, 1, attributes=5),
        ours=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        why=NOT_DECOMPRESSED,
    )
    yield Case(
        "offset deltas 0 and 5", "spoiled", crafted(GOOD + record(5, b"k", b"v"), 2), ours=invalid, why=UNREADABLE
    )
    yield Case(
        "a key of -3 bytes", "spoiled", crafted(b"\x0e\x00\x00\x00\x05\x02v\x00", 1), ours=invalid, why=UNREADABLE
    )
    yield Case(
        "a few bytes behind the batch", "spoiled", crafted(GOOD, 1) + b"abc", ours=invalid, why="Apache cuts them off"
    )
    yield Case(
        "LogAppendTime of the client where the broker sets it",
        "stamped",
        crafted(GOOD, 1, attributes=0x08),
        ours=ErrorCode.INVALID_TIMESTAMP,
        why="Apache names every record as invalid",
    )
    yield Case(
        "LogAppendTime of the client",
        "spoiled-timed",
        crafted(GOOD, 1, attributes=0x08),
        ours=ErrorCode.INVALID_TIMESTAMP,
        why="Apache takes it for CreateTime without looking at the times of the records",
    )


CASES = [*good_cases(), *bad_records(), *bad_structure(), *bad_batches(), *departures()]


@dataclass(frozen=True)
class Brokers:
    """The ports of Apache's broker and ours, and their responses to each case."""

    ports: tuple[int, int]
    answers: list[tuple[Any, Any]]


async def ask_all(ports: tuple[int, int]) -> list[tuple[Any, Any]]:
    """Send every case to both brokers."""
    connections = [await KafkaConnection.open("127.0.0.1", port, "test", 60_000) for port in ports]
    try:
        return [(await produce(connections[0], case), await produce(connections[1], case)) for case in CASES]
    finally:
        for connection in connections:
            connection.close()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Apache's broker and ours, with the same topics, after every case."""
    kafka.require()
    folder = tmp_path_factory.mktemp("batches")
    with (
        conclave.running_quorum(folder / "quorum", 1, broker_session_timeout_ms=3_600_000) as quorum,
        kafka.broker(folder / "broker", 101, quorum.bootstrap, quorum.cluster_id) as (process, address),
        running_node(folder / "node") as node,
    ):
        process.wait_for_output("Kafka Server started")
        for bootstrap in (address, node.address):
            admin = AdminClient({"bootstrap.servers": bootstrap})
            topics = [NewTopic(name, 1, 1, config=config) for name, config in TOPICS.items()]
            for future in admin.create_topics(topics).values():
                future.result(PATIENCE_S)
        ports = int(address.rpartition(":")[2]), node.port
        yield Brokers(ports, asyncio.run(ask_all(ports)))


async def produce(connection: KafkaConnection, case: Case) -> Any:
    """Send one batch, again while the broker does not know the topic yet."""
    data = ProduceRequestPartitionProduceData(index=0, records=case.batch)
    topic = ProduceRequestTopicProduceData(name=case.topic, partition_data=(data,))
    request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=(topic,))
    while True:
        answer = await connection.request(request, 60_000, max_version=case.version)
        assert isinstance(answer, ProduceResponse)
        found = answer.responses[0].partition_responses[0]
        if found.error_code not in {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER}:
            return found
        await asyncio.sleep(0.1)


def comparable(found: Any, case: Case) -> dict[str, Any]:
    """Return the response without wall-clock times."""
    errors = [(each.batch_index, each.batch_index_error_message) for each in found.record_errors]
    return {
        "error": ErrorCode(found.error_code).name,
        "written": found.base_offset >= 0,
        "errors": [(index, text.partition("within [")[0]) for index, text in errors],
        "message": found.error_message if errors else None,
        "log start": found.log_start_offset if errors else None,
    }


def test_both_brokers_give_the_same_answers_to_valid_and_invalid_batches(brokers: Brokers) -> None:
    wrong = []
    for case, (apache, ours) in zip(CASES, brokers.answers, strict=True):
        expected, found = comparable(apache, case), comparable(ours, case)
        if case.ours is not None:
            assert case.why
            if found["error"] != case.ours.name or expected == found:
                wrong.append(f"{case.name}: ours {found}, expected {case.ours.name}, Apache {expected['error']}")
        elif found != expected:
            wrong.append(f"{case.name}:\n  Apache {expected}\n  ours   {found}")
    assert not wrong, "\n".join(wrong)


def test_both_brokers_give_consumers_the_same_records(brokers: Brokers) -> None:
    for topic in ("plain", "compacted", "timed"):
        read = [contents(port, topic) for port in brokers.ports]
        assert read[0] == read[1]
        assert read[0]


@pytest.mark.parametrize("side", [0, 1], ids=["apache", "ours"])
def test_librdkafka_gives_invalid_records_their_own_error(brokers: Brokers, side: int) -> None:
    """As in librdkafka's test 0011: records without a key are invalid, the others were in the same batch (KIP-467)."""
    settings = {"bootstrap.servers": f"127.0.0.1:{brokers.ports[side]}", "linger.ms": 2_000, "retries": 0}
    producer = Producer(settings)
    outcomes: dict[int, int] = {}
    for number in range(10):
        producer.produce(
            "compacted",
            key=None if number % 3 == 0 else b"key",
            value=b"v",
            partition=0,
            on_delivery=lambda error, _, number=number: outcomes.update({number: 0 if error is None else error.code()}),
        )
    assert producer.flush(PATIENCE_S) == 0

    assert outcomes == {
        number: KafkaError.INVALID_RECORD if number % 3 == 0 else KafkaError._INVALID_DIFFERENT_RECORD
        for number in range(10)
    }


def contents(port: int, topic: str) -> list[tuple[Any, ...]]:
    """Return everything that a consumer reads from a topic."""
    consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[Any, ...]] = []
    deadline = time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error():
                return found
            found.append((message.offset(), message.key(), message.value(), message.headers(), message.timestamp()))
    finally:
        consumer.close()
    raise AssertionError(f"{topic} has no end")
