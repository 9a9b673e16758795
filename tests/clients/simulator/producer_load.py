"""Producers: applications that send records through the real Sender and RecordAccumulator, and what must hold for them.

Every record's value is "producer:number". Numbers rise in the order of sending, so the log shows order and copies.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from kraft_core.clients.client_metadata import ClientMetadata, MetadataConfig, TopicPartition
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import NetworkConfig
from kraft_core.clients.producer.buffer_pool import BufferPool
from kraft_core.clients.producer.produce_request_result import ProduceRequestResult
from kraft_core.clients.producer.record_accumulator import UNKNOWN_PARTITION, AccumulatorConfig, RecordAccumulator
from kraft_core.clients.producer.sender import Sender, SenderConfig
from kraft_core.clients.producer.transaction_manager import TransactionManager
from kraft_core.protocol.compression import Compression
from kraft_core.protocol.errors import KafkaError
from tests.simulator.invariant import check
from tests.simulator.world import SECOND_US

if TYPE_CHECKING:
    from tests.clients.simulator.scenario import Scenario
    from tests.clients.simulator.sim_process import SimProcess

SLACK_MS = 1.0


@dataclass(slots=True, eq=False)
class Sent:
    """A record that was handed to the producer, and its outcome."""

    number: int
    value: bytes
    partition: TopicPartition
    sent_ms: float
    offset: int | None = None
    error: KafkaError | None = None

    @property
    def is_done(self) -> bool:
        """Whether the future has ended."""
        return self.offset is not None or self.error is not None


@dataclass(frozen=True)
class ProducerChoices:
    """The configs of a producer, drawn from the seed."""

    acks: int
    is_ordered: bool  # by one request in flight a connection
    idempotent: bool
    linger_ms: int
    batch_size: int
    buffer_memory: int
    delivery_timeout_ms: int
    request_timeout_ms: int
    retries: int
    max_in_flight: int
    codec: int
    record_bytes: int

    @classmethod
    def draw(cls, random: Random) -> "ProducerChoices":
        """Draw a valid combination."""
        idempotent = random.random() < 0.6
        is_ordered = idempotent or random.random() < 0.5
        request_timeout_ms = random.choice([150, 500, 2_000])
        return cls(
            acks=-1 if idempotent else random.choice([-1, -1, -1, 1, 0]),
            is_ordered=is_ordered,
            idempotent=idempotent,
            linger_ms=random.choice([0, 0, 5, 50]),
            batch_size=random.choice([0, 200, 1_000, 16_384]),
            buffer_memory=random.choice([4_000, 40_000, 1 << 25]),
            delivery_timeout_ms=request_timeout_ms + random.choice([300, 2_000, 20_000]),
            request_timeout_ms=request_timeout_ms,
            retries=random.choice([2**31 - 1, 2**31 - 1, 2**31 - 1, 1]),
            max_in_flight=1 if is_ordered and not idempotent else random.choice([1, 2, 5]),
            codec=random.choice([0, 0, 0, 1, 3]),
            record_bytes=random.choice([0, 0, 50, 400]),
        )


class ProducerApp:
    """An application with one producer. It sends until it is stopped, and keeps every outcome."""

    def __init__(self, scenario: "Scenario", producer_id: int, choices: ProducerChoices | None = None) -> None:
        self.scenario, self.world, self.cluster = scenario, scenario.world, scenario.cluster
        self.id = producer_id
        self.random = random = scenario.client_random()
        drawn = replace(ProducerChoices.draw(random), **scenario.settings.options)
        self.choices = choices = choices or drawn
        addresses = [broker.address for broker in self.cluster.brokers.values()]
        self.metadata = ClientMetadata(
            addresses, MetadataConfig(metadata_max_age_ms=random.choice([1_000, 300_000])), random
        )
        self.network = NetworkClient(
            self.metadata,
            random,
            NetworkConfig(
                client_id=f"producer-{producer_id}",
                request_timeout_ms=choices.request_timeout_ms,
                socket_connection_setup_timeout_ms=500,
                socket_connection_setup_timeout_max_ms=1_000,
                max_in_flight_requests_per_connection=choices.max_in_flight,
            ),
        )
        self.pool = BufferPool(choices.buffer_memory)
        self.manager = self.new_manager()
        self.accumulator = self._new_accumulator()
        self.sender = self._new_sender()
        self.process: SimProcess = scenario.new_process(self.sender)
        self.process.after_turn = self._check
        self.topics = sorted(self.cluster.topic_ids)
        self.metadata.want(self.topics)
        self.sent: list[Sent] = []
        self.open: deque[Sent] = deque()
        self.waiting = 0
        self.is_sending = True
        self._count = 0

    def new_manager(self) -> TransactionManager | None:
        """Return what makes the producer idempotent."""
        return TransactionManager(self.network, retry_backoff_ms=20) if self.choices.idempotent else None

    def _new_accumulator(self) -> RecordAccumulator:
        choices = self.choices
        config = AccumulatorConfig(
            batch_size=choices.batch_size,
            linger_ms=choices.linger_ms,
            retry_backoff_ms=20,
            retry_backoff_max_ms=200,
            delivery_timeout_ms=choices.delivery_timeout_ms,
            compression=Compression(choices.codec),
        )
        return RecordAccumulator(config, self.metadata, self.pool, self.random, self.manager)

    def _new_sender(self) -> Sender:
        choices = self.choices
        config = SenderConfig(
            acks=choices.acks,
            retries=choices.retries,
            request_timeout_ms=choices.request_timeout_ms,
            guarantee_message_order=choices.max_in_flight == 1 and not choices.idempotent,
        )
        return Sender(config, self.network, self.accumulator, self.manager)

    # Sending

    def begin(self) -> None:
        """Send at random times."""
        if self.is_sending:
            for _ in range(self.random.choice([1, 1, 2, 8])):
                self.send()
            self.world.after(self.random.choice([4_000, 50_000, 150_000]), self.begin)

    def send(self) -> None:
        """Hand a record over; when the pool is exhausted, wait for memory as the front does."""
        topic = self.random.choice(self.topics)
        if topic not in self.metadata.topics or not self.metadata.topics[topic].partitions or self.waiting >= 10:
            return
        self._count += 1
        number = self._count
        value = f"{self.id}:{number}:".encode() + b"x" * self.random.randint(0, self.choices.record_bytes)
        partition = self.random.choice([UNKNOWN_PARTITION, 0, len(self.metadata.topics[topic].partitions) - 1])
        key = str(number % 3).encode() if self.random.random() < 0.5 else None
        needed = self.accumulator.needed_bytes(key, value, ())
        if needed > self.pool.total_bytes:
            return

        def append(granted: int = 0) -> bool:
            timestamp, now_ms = self.process.wall_ms, self.process.now_ms
            batch = self.accumulator.open_batches.get(topic) if key is None and partition == UNKNOWN_PARTITION else None
            if batch is None or granted or not batch.try_append_alike(timestamp, value):
                batch = self.accumulator.append(topic, partition, timestamp, key, value, (), now_ms, granted)
            if batch is None:
                return False
            self._appended(Sent(number, value, batch.topic_partition, now_ms), batch.result, batch.record_count - 1)
            return True

        if self.waiting or not append():
            self._wait_for_memory(needed, append)
        self.process.wake()

    def _wait_for_memory(self, needed: int, append: Callable[[int], bool]) -> None:
        self.waiting += 1

        def granted() -> None:
            self.waiting -= 1
            check(append(needed), "memory was granted, but the record has no room")
            self.process.wake()

        self.pool.wait(needed, lambda: self.world.after(0, granted))

    def _appended(self, sent: Sent, result: ProduceRequestResult, index: int) -> None:
        self.sent.append(sent)
        self.open.append(sent)

        def done() -> None:
            check(not sent.is_done, "a future ends twice", sent)
            final, place = result.resolve(index)
            if final.error_of is not None:
                sent.error = final.error_of(place)
            else:
                sent.offset = final.base_offset + place if final.base_offset >= 0 else -1
            late_ms = self.process.now_ms - sent.sent_ms
            check(late_ms <= self.choices.delivery_timeout_ms + SLACK_MS, "a future ends too late", late_ms, sent)

        result.when_done(index, done)

    # Checks

    def _check(self) -> None:
        pool = self.pool
        check(0 <= pool.available_bytes <= pool.total_bytes, "the pool is overdrawn", pool.available_bytes)
        while self.open and self.open[0].is_done:
            self.open.popleft()
        if self.open:
            age_ms = self.process.now_ms - self.open[0].sent_ms
            limit_ms = self.choices.delivery_timeout_ms + SLACK_MS
            check(age_ms <= limit_ms, "a future outlives its delivery timeout", age_ms, self.open[0])

    def stop(self) -> None:
        """Send no more, and flush."""
        self.is_sending = False
        self.accumulator.begin_flush()
        self.process.wake()

    def is_done(self) -> bool:
        """Whether every record has its outcome, and nothing is in flight."""
        is_open = self.waiting or self.network.in_flight() or not self.sender.is_idle
        return not is_open and all(sent.is_done for sent in self.sent)

    def finish(self) -> None:
        """Check the end: memory, and the records in the log."""
        pool = self.pool
        check(pool.available_bytes == pool.total_bytes, "memory was not returned", pool.available_bytes, self.choices)
        check(not self.accumulator.has_undrained, "batches are left in a queue")
        for partition, log in self.cluster.logs.items():
            written = [
                (record.offset, record.value)
                for batch in log.committed_batches()
                if not batch.is_control
                for record in batch.records()
                if record.value is not None and record.value.startswith(b"%d:" % self.id)
            ]
            own = [sent for sent in self.sent if sent.partition == partition]
            self._check_partition(own, written, is_truncated=log.truncations > 0)

    def _check_partition(self, own: list[Sent], written: list[tuple[int, bytes]], *, is_truncated: bool) -> None:
        at = dict(written)
        known = {sent.value: sent.number for sent in own}
        strange = [value for _, value in written if value not in known]
        check(not strange, "records that nobody sent, or in another partition", strange)
        is_lossless = self.choices.acks == -1 or (self.choices.acks == 1 and not is_truncated)
        acknowledged = [sent for sent in own if sent.offset is not None and self.choices.acks != 0]
        if is_lossless:
            values = set(at.values())
            missing = [sent for sent in acknowledged if sent.value not in values]
            check(not missing, "acknowledged records are missing", missing)
            moved = [sent for sent in acknowledged if sent.offset != -1 and at.get(sent.offset) != sent.value]
            check(not moved, "acknowledged records are not at their offsets", moved)
        if self.choices.idempotent:
            numbers = [known[value] for _, value in written]
            check(len(numbers) == len(set(numbers)), "a record has two copies", numbers)
            check(numbers == sorted(numbers), "records are out of order", numbers)
        elif self.choices.is_ordered and self.choices.acks == -1:
            kept = {sent.value for sent in acknowledged}
            first = list(dict.fromkeys(known[value] for _, value in written if value in kept))
            check(first == sorted(first), "acknowledged records are out of order", first)


class ProducerStory:
    """One to three producers."""

    def __init__(self, scenario: "Scenario") -> None:
        self.scenario = scenario
        self.apps: list[ProducerApp] = []

    def start(self) -> None:
        for number in range(self.scenario.random.choice([1, 1, 2, 3])):
            app = ProducerApp(self.scenario, number)
            self.apps.append(app)
            self.scenario.world.after(self.scenario.random.randint(0, 100_000), app.begin)

    def stop(self) -> None:
        """Send for another while, so that the producers show that they have recovered."""
        self.scenario.world.after(SECOND_US // 2, self._stop)

    def _stop(self) -> None:
        for app in self.apps:
            app.stop()

    def is_done(self) -> bool:
        return all(not app.is_sending and app.is_done() for app in self.apps)

    def finish(self) -> None:
        for app in self.apps:
            app.finish()
        records = [sent for app in self.apps for sent in app.sent]
        self.scenario.report.counts.update(
            records_sent=len(records),
            records_acknowledged=sum(sent.offset is not None for sent in records),
            records_failed=sum(sent.error is not None for sent in records),
            batches_refused_as_too_large=self.scenario.cluster.too_large,
        )
