"""Records of topics for people: windows, single records, live tails, and records that they write.

Each request has clients of its own, for as long as it takes. Their number is bounded, so that all requests together
have bounded memory; a request waits a moment for its turn and is refused then.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from app.cluster.broker_clients import BrokerClients
from app.cluster.partition_offsets import Bounds, PartitionOffsets, TopicOffsets
from app.cluster.record_windows import Window, WindowLimits, WindowReader
from app.http.errors import UnavailableError
from app.records.contents import Decoder, Format
from app.records.filters import RecordFilters
from app.records.positions import AtOffset, AtTime, BeforeEnd, Position
from app.records.schema_registry import SchemaRegistry
from app.texts import phrase
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.consumer_config import consumer_config_def
from kraft_core.clients.consumer.consumer_record import Headers
from kraft_core.clients.consumer.partition_reader import OffsetRange, PartitionReader, ReaderLimits
from kraft_core.clients.consumer.uniform_records import Raw
from kraft_core.clients.producer.future_record_metadata import FutureRecordMetadata, RecordMetadata
from kraft_core.clients.producer.kafka_producer import KafkaProducer
from kraft_core.clients.producer.producer_config import producer_config_def
from kraft_core.image.metadata_image import TopicImage
from kraft_core.protocol.errors import KafkaError

COUNT_MAX: Final = 1_000
READERS_MAX: Final = 4
TAILS_MAX: Final = 16
WAIT_SECONDS: Final = 5.0
TIMEOUT_MS: Final = 5_000
PRODUCE_MS: Final = 10_000
POLL_RECORDS: Final = 200
ONE_BYTES_MAX: Final = 1 << 20
WHOLE_BYTES_MAX: Final = 64 << 20
TAIL_RECORDS_MAX: Final = 100
"""Records of one event of a tail."""
TAIL_SECONDS: Final = 1.0
TAIL_BEHIND_MAX: Final = 5_000
"""Offsets that a tail may be behind; further behind it skips to the end."""
TAIL_LIMITS: Final = WindowLimits(records=20_000, bytes=32 << 20, seconds=2.0)
END: Final = BeforeEnd(0)
_CLIENT_ID: Final = "conclave-web"


class TooManyReadersError(UnavailableError):
    """As many requests as allowed read or write records now."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="too-many-readers", retry_after_seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordQuery:
    """What to read. `partitions`: empty for all.

    `at` are offsets by partition that replace `start`: to read from, or before with `is_backwards`.
    """

    topic: TopicImage
    partitions: Collection[int] = ()
    start: Position = END
    at: Mapping[int, int] = field(default_factory=dict)
    is_backwards: bool = True
    count: int = 50
    is_committed: bool = True
    filters: RecordFilters = field(default_factory=lambda: RecordFilters(()))
    key_format: Format = "auto"
    value_format: Format = "auto"

    @property
    def indexes(self) -> list[int]:
        """The partitions to read."""
        wanted = self.at or self.partitions
        return sorted(index for index in wanted or self.topic.partitions if index in self.topic.partitions)


@dataclass(frozen=True, slots=True)
class Found:
    """A window, the decoder of its records, why partitions could not be read, and the time that it took."""

    window: Window
    decoder: Decoder
    errors: Mapping[int, str]
    seconds: float


@dataclass(frozen=True, slots=True)
class Tailed:
    """New records of a tail, oldest first, their decoder, and the next offsets by partition.

    `passed_over` is the number of offsets that were not read since there were too many; `errors` are by partition.
    """

    records: Sequence[Raw]
    decoder: Decoder
    positions: Mapping[int, int]
    passed_over: int
    errors: Mapping[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """A record to write. Without a partition the key chooses one; without a timestamp it is the time of writing."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class Records:
    """Reads and writes records. `schemas` is the schema registry, if there is one."""

    def __init__(self, clients: BrokerClients, offsets: PartitionOffsets, schemas: SchemaRegistry | None) -> None:
        self._clients = clients
        self._offsets = offsets
        self._readers = asyncio.Semaphore(READERS_MAX)
        self._tails = 0
        self.schemas = schemas
        self.limits = WindowLimits()

    # Reading

    async def window(self, query: RecordQuery) -> Found:
        """Read a window. Raises TooManyReadersError, ConnectionError, KafkaError."""
        began = time.monotonic()
        async with self._turn():
            found = await self._bounds(query)
            decoder = Decoder(query.topic.name, query.key_format, query.value_format, self.schemas)
            starts = {index: query.at.get(index, _start(query.start, each)) for index, each in found.bounds.items()}
            async with self._reader(_leaders(query, found), committed=query.is_committed) as reader:
                reading = WindowReader(reader, query.topic.name, decoder, query.filters, self.limits)
                window = await reading.read(found.bounds, starts, query.count, is_backwards=query.is_backwards)
            await decoder.prepare(window.records)
        return Found(window, decoder, all_errors(found, window), time.monotonic() - began)

    async def offsets(self, topic: TopicImage, partition: int) -> Bounds:
        """Return the first offset of a partition and its high watermark. Raises ConnectionError."""
        found = await self._offsets.of(topic, [partition], committed=False)
        if partition in found.errors:
            raise ConnectionError(
                phrase("Partition %(index)s cannot be read: %(error)s.", index=partition, error=found.errors[partition])
            )
        return found.bounds[partition]

    async def one(self, topic: TopicImage, partition: int, offset: int, *, is_whole: bool = False) -> Raw | None:
        """Return the record at an offset, aborted or not; None if there is none.

        Only the beginning of a long key or value is kept, unless it is wanted whole (up to WHOLE_BYTES_MAX).
        Raises TooManyReadersError, ConnectionError, KafkaError.
        """
        limits = (
            ReaderLimits(WHOLE_BYTES_MAX, WHOLE_BYTES_MAX) if is_whole else ReaderLimits(record_bytes_max=ONE_BYTES_MAX)
        )
        at = TopicPartition(topic.name, partition)
        async with self._turn():
            bounds = await self.offsets(topic, partition)
            if not bounds.first <= offset < bounds.end:
                return None
            leader = [topic.partitions[partition].leader]
            async with (
                self._reader(leader, committed=False, limits=limits) as reader,
                asyncio.timeout(self.limits.seconds * 2),
            ):
                async for page in reader.read({at: OffsetRange(offset, offset + 1)}):
                    if page.errors:
                        raise page.errors[at]
                    if page.records:
                        return page.records[0]
        return None

    async def tail(self, query: RecordQuery) -> AsyncIterator[Tailed]:
        """Yield new records, every TAIL_SECONDS; the first time those since `query.at`, by default none.

        A tail more than TAIL_BEHIND_MAX offsets behind skips to near the end.
        Raises TooManyReadersError, ConnectionError, KafkaError.
        """
        if self._tails >= TAILS_MAX:
            raise TooManyReadersError(
                phrase("%(count)s live tails are open; close one, or try again later.", count=TAILS_MAX)
            )
        self._tails += 1
        try:
            found = await self._bounds(query)
            async with self._reader(_leaders(query, found), committed=query.is_committed) as reader:
                decoder = Decoder(query.topic.name, query.key_format, query.value_format, self.schemas)
                reading = WindowReader(reader, query.topic.name, decoder, query.filters, TAIL_LIMITS)
                positions = dict(query.at)
                while True:
                    passed_over = _catch_up(positions, found.bounds)
                    window = await reading.read(found.bounds, positions, TAIL_RECORDS_MAX, is_backwards=False)
                    await decoder.prepare(window.records)
                    positions.update(window.newer)
                    yield Tailed(window.records, decoder, dict(positions), passed_over, all_errors(found, window))
                    await asyncio.sleep(TAIL_SECONDS)
                    found = await self._bounds(query)
        finally:
            self._tails -= 1

    async def _bounds(self, query: RecordQuery) -> TopicOffsets:
        time_ms = query.start.timestamp_ms if isinstance(query.start, AtTime) and not query.at else None
        return await self._offsets.of(query.topic, query.indexes, time_ms=time_ms, committed=query.is_committed)

    @asynccontextmanager
    async def _reader(
        self, leaders: Collection[int], *, committed: bool, limits: ReaderLimits | None = None
    ) -> AsyncIterator[PartitionReader]:
        configs = {
            **self._clients.configs(consumer_config_def(), leaders),
            "client.id": _CLIENT_ID,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "default.api.timeout.ms": TIMEOUT_MS,
            "max.poll.records": POLL_RECORDS,
        }
        async with PartitionReader(configs, limits) as reader:
            yield reader

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait for one of the readers. Raises TooManyReadersError."""
        try:
            await asyncio.wait_for(self._readers.acquire(), WAIT_SECONDS)
        except TimeoutError:
            text = phrase(
                "%(count)s requests read or write records now, as many as allowed; try again later.", count=READERS_MAX
            )
            raise TooManyReadersError(text) from None
        try:
            yield
        finally:
            self._readers.release()

    # Writing

    async def produce(self, topic: str, records: Sequence[NewRecord]) -> list[RecordMetadata | KafkaError]:
        """Write records in their order, acknowledged by all in-sync replicas; return the outcome of each.

        Raises TooManyReadersError, ConnectionError.
        """
        configs = {
            **self._clients.configs(producer_config_def()),
            "client.id": _CLIENT_ID,
            "max.block.ms": TIMEOUT_MS,
            "request.timeout.ms": TIMEOUT_MS,
            "delivery.timeout.ms": PRODUCE_MS,
        }
        outcomes: list[RecordMetadata | KafkaError] = []
        async with self._turn(), KafkaProducer(configs) as producer:
            sent: list[FutureRecordMetadata | KafkaError] = []
            for record in records:
                try:
                    future = await producer.send(
                        topic,
                        record.value,
                        record.key,
                        partition=record.partition,
                        timestamp_ms=record.timestamp_ms,
                        headers=record.headers,
                    )
                except KafkaError as error:
                    sent.append(error)
                else:
                    sent.append(future)
            for each in sent:
                try:
                    outcomes.append(each if isinstance(each, KafkaError) else await each)
                except KafkaError as error:
                    outcomes.append(error)
        return outcomes


def all_errors(found: TopicOffsets, window: Window) -> dict[int, str]:
    """Return why partitions could not be read (further)."""
    return {**found.errors, **{each.index: each.error for each in window.parts.values() if each.error}}


def _leaders(query: RecordQuery, found: TopicOffsets) -> set[int]:
    """Return the brokers that have just answered for their partitions."""
    return {query.topic.partitions[index].leader for index in found.bounds}


def _start(start: Position, bounds: Bounds) -> int:
    """Return the offset of a partition where a position is."""
    match start:
        case None:
            return bounds.first
        case AtOffset(offset):
            return offset
        case BeforeEnd(count):
            return bounds.end - count
        case AtTime():
            return bounds.found


def _catch_up(positions: dict[int, int], bounds: Mapping[int, Bounds]) -> int:
    """Start partitions without a position at their end; go on near the end if that is far.

    Returns the number of offsets that are passed over.
    """
    behind = sum(each.end - positions.setdefault(index, each.end) for index, each in bounds.items())
    if behind <= TAIL_BEHIND_MAX:
        return 0
    kept = max(1, TAIL_RECORDS_MAX // len(bounds))
    for index, each in bounds.items():
        positions[index] = max(positions[index], each.end - kept)
    return behind - sum(each.end - positions[index] for index, each in bounds.items())
