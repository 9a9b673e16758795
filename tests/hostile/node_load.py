"""Clients of a combined node under faults, and the accounts of what it acknowledged."""

import itertools
import random
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.interop.kafka import PATIENCE_S, wait_until

REQUEST_S = 5.0
DELIVERY_S = 60.0
VALUE_BYTES_MAX = 500
PARTITIONS_MAX = 4
COMMIT_METADATA = "." * 3_000  # large enough to roll segments of __consumer_offsets, which are then compacted
ALREADY_THERE, GONE = KafkaError.TOPIC_ALREADY_EXISTS, KafkaError.UNKNOWN_TOPIC_OR_PART


def value_of(topic: str, life: int, number: int) -> bytes:
    """Return the `number`-th record of one life of a topic. The number determines its size."""
    head = f"{topic}/{life}/{number}/".encode()
    return head + b"." * (number * 7919 % VALUE_BYTES_MAX)


def number_of(value: bytes) -> int:
    """Return the number of the record with this value."""
    return int(value.split(b"/")[2])


@dataclass
class Life:
    """What was acknowledged in one life of a topic, from creation to deletion, to one producer and one consumer."""

    topic: str
    number: int
    acks: str
    delivered: dict[tuple[int, int], int] = field(default_factory=dict)  # (partition, offset) -> number of the record
    committed: int = -1  # last acknowledged commit
    attempted: int = -1  # last commit sent
    is_doomed: bool = False  # its deletion was requested: nothing is guaranteed any more

    @property
    def group(self) -> str:
        """Return the id of the group that commits."""
        return f"group-{self.topic}-{self.number}"


@dataclass
class Accounts:
    """All lives of all topics, and the violations found during the run."""

    lives: list[Life] = field(default_factory=list)
    failed: int = 0
    grown: int = 0
    commits: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def acknowledged(self) -> int:
        """Return the number of acknowledged records of all lives."""
        return sum(len(life.delivered) for life in self.lives)

    @property
    def kept(self) -> list[Life]:
        """Return the lives whose deletion was not requested."""
        return [life for life in self.lives if not life.is_doomed]


class TopicOwner(threading.Thread):
    """Creates one topic repeatedly, produces to it, adds partitions, commits offsets and deletes it, until stopped.

    With `keeps` it never deletes the topic. Every second life uses acks=1, the others idempotence and acks=all.
    """

    def __init__(self, address: str, name: str, seed: int, accounts: Accounts, *, keeps: bool) -> None:
        super().__init__(name=name, daemon=True)
        self._address = address
        self._dice = random.Random(seed)
        self._accounts = accounts
        self._keeps = keeps
        self._stopping = threading.Event()
        self._admin = admin_of(address)

    def finish(self) -> None:
        """Request the end, after all sent records are delivered."""
        self._stopping.set()

    def run(self) -> None:
        """Run one life after the other."""
        number = 0
        while not self._stopping.is_set():
            number += 1
            life = Life(self.name, number, "1" if number % 2 == 0 else "all")
            try:
                self._live(life)
            except Exception as error:  # noqa: BLE001  # a thread's fault must not pass unseen
                self._accounts.wrong.append(f"{self.name}, life {number}: {error!r}")
                return

    def _until(self, ask: Callable[[], object], *accepted: int) -> bool:
        """Retry an admin request until it, or an earlier attempt, succeeded. Return False when stopped first."""
        while not self._stopping.is_set():
            try:
                ask()
            except KafkaException as error:
                if error.args[0].code() in accepted:
                    return True
                self._accounts.failed += 1
                self._stopping.wait(0.1)
            else:
                return True
        return False

    def _make_topic(self, partitions: int) -> None:
        new = NewTopic(self.name, partitions, 1, config={"segment.bytes": "1048576"})
        self._admin.create_topics([new], request_timeout=REQUEST_S)[self.name].result(PATIENCE_S)

    def _remove_topic(self) -> None:
        self._admin.delete_topics([self.name], request_timeout=REQUEST_S)[self.name].result(PATIENCE_S)

    def _live(self, life: Life) -> None:
        partitions = self._dice.randint(1, 2)
        if not self._until(lambda: self._make_topic(partitions), ALREADY_THERE):
            return
        self._accounts.lives.append(life)
        producer = self._producer(life)
        consumer = committer(self._address, life.group)
        sent = 0
        for _ in range(10**6 if self._keeps else self._dice.randint(2, 12)):
            for _ in range(self._dice.randint(1, 60)):
                send(producer, life, sent, self._dice.randrange(partitions), self._accounts)
                sent += 1
            producer.poll(self._dice.uniform(0, 0.2))
            if self._dice.random() < 0.3:
                self._commit(consumer, life, sent)
            if partitions < PARTITIONS_MAX and self._dice.random() < 0.1:
                partitions += self._grow(partitions + 1)
            if self._stopping.is_set():
                break
        producer.flush(DELIVERY_S)
        consumer.close()
        if not self._stopping.is_set():
            life.is_doomed = True
            self._until(self._remove_topic, GONE)

    def _producer(self, life: Life) -> Producer:
        def failed(error: KafkaError) -> None:
            if error.fatal():
                self._accounts.wrong.append(
                    f"the producer of {life.topic}, life {life.number}, cannot continue: {error}"
                )

        return Producer(producer_settings(self._address, life.acks) | {"error_cb": failed})

    def _commit(self, consumer: Consumer, life: Life, offset: int) -> None:
        life.attempted = offset
        place = TopicPartition(self.name, 0, offset, COMMIT_METADATA)
        try:
            consumer.commit(offsets=[place], asynchronous=False)
        except KafkaException:
            self._accounts.failed += 1
        else:
            life.committed = offset
            self._accounts.commits += 1

    def _grow(self, partitions: int) -> int:
        """Request one more partition. Return 1 when it was created, else 0; an unknown outcome counts as 0."""
        try:
            grown = self._admin.create_partitions([NewPartitions(self.name, partitions)], request_timeout=REQUEST_S)
            grown[self.name].result(PATIENCE_S)
        except KafkaException:
            return 0
        self._accounts.grown += 1
        return 1


class Sower(threading.Thread):
    """Creates topics one by one with a few records each, written with acks=1, until stopped."""

    def __init__(self, address: str, seed: int, accounts: Accounts) -> None:
        super().__init__(name="sower", daemon=True)
        self._address = address
        self._dice = random.Random(seed)
        self._accounts = accounts
        self._stopping = threading.Event()

    def finish(self) -> None:
        """Request the end."""
        self._stopping.set()

    def run(self) -> None:
        """Create topics until stopped."""
        admin = admin_of(self._address)
        producer = Producer(producer_settings(self._address, "1"))
        for number in itertools.count():
            life = Life(f"{self._dice.choice('0AZaz')}-{number}", 0, "1")  # the start scans folders by name
            new = NewTopic(life.topic, 1, 1)
            try:
                admin.create_topics([new], request_timeout=REQUEST_S)[life.topic].result(PATIENCE_S)
            except KafkaException:
                self._accounts.failed += 1
                self._stopping.wait(0.1)
            else:
                self._accounts.lives.append(life)
                for each in range(3):
                    send(producer, life, each, 0, self._accounts)
                producer.poll(0.05)
                self._stopping.wait(0.05)
            if self._stopping.is_set():
                break
        producer.flush(DELIVERY_S)


def client_settings(address: str) -> dict[str, object]:
    """Return configs of a client that reconnects quickly after a restart of the node."""
    return {
        "bootstrap.servers": address,
        "socket.timeout.ms": int(REQUEST_S * 1000),
        "topic.metadata.refresh.interval.ms": 500,
        "reconnect.backoff.max.ms": 200,
        "retry.backoff.max.ms": 200,
        "log_level": 0,
    }


def admin_of(address: str) -> AdminClient:
    """Return an admin client."""
    return AdminClient(client_settings(address))


def producer_settings(address: str, acks: str) -> dict[str, object]:
    """Return configs of a producer."""
    return client_settings(address) | {
        "acks": acks,
        "enable.idempotence": acks == "all",
        "linger.ms": 1,
        "message.timeout.ms": int(DELIVERY_S * 1000),
    }


def send(producer: Producer, life: Life, number: int, partition: int, accounts: Accounts) -> None:
    """Produce one record, and record its acknowledgement."""

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            accounts.failed += 1
            return
        place = message.partition(), message.offset()
        if place in life.delivered:
            accounts.wrong.append(f"{life.topic}-{place[0]}: offset {place[1]} was given twice")
        life.delivered[place] = number

    value = value_of(life.topic, life.number, number)
    try:
        producer.produce(life.topic, value, partition=partition, on_delivery=delivered)
    except (BufferError, KafkaException):  # the queue is full while the node is down, or the partition is not known yet
        accounts.failed += 1
        producer.poll(0.2)


def committer(address: str, group: str) -> Consumer:
    """Return a consumer that commits and fetches commits without joining its group."""
    return Consumer(client_settings(address) | {"group.id": group, "enable.auto.commit": False})


def settle(address: str, accounts: Accounts) -> list[str]:
    """Read everything that was acknowledged. Return one line per difference."""
    wrong = list(accounts.wrong)
    places = {(life.topic, partition) for life in accounts.kept for partition, _ in life.delivered}
    found = read_partitions(address, sorted(places), wrong)
    for life in accounts.kept:
        wrong += _settle_records(life, found)
        wrong += _settle_commit(address, life)
    return wrong


def _settle_records(life: Life, read: Mapping[tuple[str, int], dict[int, bytes]]) -> list[str]:
    wrong = []
    for partition in sorted({place[0] for place in life.delivered}):
        where = f"{life.topic}-{partition}, life {life.number}, acks={life.acks}"
        found = read.get((life.topic, partition), {})
        promised = {offset: number for (index, offset), number in life.delivered.items() if index == partition}
        lost = {
            offset: number
            for offset, number in promised.items()
            if found.get(offset) != value_of(life.topic, life.number, number)
        }
        if lost:
            first = min(lost)
            count = f"{len(lost)} of {len(promised)} acknowledged records"
            wrong.append(f"{where}: {count} are lost, the first at {first} of {len(found)}")
        numbers = [number_of(value) for _, value in sorted(found.items())]
        if life.acks == "all" and numbers != sorted(set(numbers)):
            wrong.append(f"{where}: an idempotent producer's records are doubled or out of order")
    return wrong


def _settle_commit(address: str, life: Life) -> list[str]:
    if life.committed < 0:
        return []
    consumer = committer(address, life.group)
    try:
        found = wait_until(
            lambda: consumer.committed([TopicPartition(life.topic, 0)], timeout=REQUEST_S),
            PATIENCE_S,
            f"commits of {life.group}",
            not_yet=(KafkaException,),
        )[0].offset
    finally:
        consumer.close()
    if life.committed <= found <= life.attempted:
        return []
    return [f"{life.group}: {life.committed} was acknowledged as committed, found is {found}"]


def read_partitions(
    address: str, places: Iterable[tuple[str, int]], wrong: list[str]
) -> dict[tuple[str, int], dict[int, bytes]]:
    """Return the records of the partitions by offset. A partition that is not served is a line of `wrong`."""
    consumer = committer(address, "reader")
    ends: dict[tuple[str, int], int] = {}
    found: dict[tuple[str, int], dict[int, bytes]] = {}
    try:
        for topic, partition in places:
            try:
                place = TopicPartition(topic, partition)
                _, end = wait_until(
                    partial(consumer.get_watermark_offsets, place, timeout=REQUEST_S),
                    PATIENCE_S / 3,
                    f"{topic}-{partition} is served",
                    not_yet=(KafkaException,),
                )
            except AssertionError as error:
                wrong.append(str(error))
                continue
            ends[topic, partition], found[topic, partition] = end, {}
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in ends])
        behind = {place for place, end in ends.items() if end > 0}

        def all_read() -> bool:
            for message in consumer.consume(1_000, 0.05):
                if message.error() is None:
                    place = message.topic(), message.partition()
                    found[place][message.offset()] = message.value()
                    if message.offset() + 1 >= ends[place]:
                        behind.discard(place)
            return not behind

        wait_until(all_read, PATIENCE_S, f"{len(ends)} partitions are read", interval_s=0)
    finally:
        consumer.close()
    return found
