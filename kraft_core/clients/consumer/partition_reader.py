"""Reads partitions without a group, for people: a window by offset or time, the newest records, or a live tail.

    async with PartitionReader({"bootstrap.servers": "localhost:9092"}) as reader:
        ranges = await reader.newest(await reader.partitions("orders"), 50)
        async for page in reader.read(ranges):
            print(page.progress, page.records)

Memory is bounded whatever the sizes of records and batches: of long keys and values only the beginning is kept
(`ClippedRecord`), and a batch that alone exceeds `answer_bytes_max` is an error of its partition. Leaving the loop, or
cancelling its task, ends the reading.
"""

import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final, Self, TypeAlias

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.clipping_decoder import ClippedRecord
from kraft_core.clients.consumer.consumer_config import ConsumerConfig
from kraft_core.clients.consumer.consumer_errors import OffsetOutOfRange, RecordUnreadable
from kraft_core.clients.consumer.fetcher import FetchConfig
from kraft_core.clients.consumer.kafka_consumer import KafkaConsumer
from kraft_core.clients.consumer.uniform_records import Raw
from kraft_core.clients.network_requests import NetworkConfig
from kraft_core.protocol.errors import KafkaError

Matching: TypeAlias = Callable[[Raw], bool]

_DEFAULTS: Final = {
    "client.id": "conclave-reader",
    "fetch.max.bytes": 4 * 1024 * 1024,
    "max.poll.records": 500,
    "auto.offset.reset": "none",
    "allow.auto.create.topics": False,
}
_PAGE_MS: Final = 500
"""A page is yielded at least this often, so that progress is seen."""


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """Bytes of one answer of a broker, of which at most two are kept, and of each key, value and set of headers."""

    answer_bytes_max: int = 16 * 1024 * 1024
    record_bytes_max: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets from `start` up to but without `stop`; None: without an end."""

    start: int
    stop: int | None


Ranges: TypeAlias = dict[TopicPartition, OffsetRange]


@dataclass(frozen=True, slots=True)
class Progress:
    """Offsets passed of those wanted, records or not. `wanted` is None for a tail."""

    reached: int
    wanted: int | None


@dataclass(frozen=True, slots=True)
class Page:
    """Records in the order of their partitions' offsets. `errors` are those of partitions given up in this page.

    `positions` are the next offsets to read of all partitions.
    """

    records: list[Raw]
    progress: Progress
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    errors: dict[TopicPartition, KafkaError] = field(default_factory=dict)


class _ReaderConfig(ConsumerConfig):
    """The configs of a reader's consumer: the caller's over the defaults, and the limits over both."""

    def __init__(self, given: Mapping[str, object], limits: ReaderLimits) -> None:
        super().__init__({**_DEFAULTS, **given})
        self._limits = limits

    def network_config(self, max_in_flight: int = 100) -> NetworkConfig:
        return replace(super().network_config(max_in_flight), response_bytes_max=self._limits.answer_bytes_max)

    def fetch_config(self) -> FetchConfig:
        config = super().fetch_config()
        most = self._limits.answer_bytes_max // 2
        return replace(
            config,
            max_bytes=min(config.max_bytes, most),
            fetch_size=min(config.fetch_size, most),
            record_bytes_max=self._limits.record_bytes_max,
        )


class PartitionReader:
    """A reader; `configs` are those of KafkaConsumer without a group. Raises ConfigException.

    One reading at a time.
    """

    def __init__(self, configs: Mapping[str, object], limits: ReaderLimits | None = None) -> None:
        self.limits = limits or ReaderLimits()
        self._consumer = KafkaConsumer(_ReaderConfig(configs, self.limits))

    async def __aenter__(self) -> Self:
        """Start."""
        await self._consumer.__aenter__()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Close."""
        await self._consumer.close()

    # What to read

    async def partitions(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic in order; empty if there is no such topic."""
        return sorted(await self._consumer.partitions_for(topic))

    async def offsets(
        self, partitions: Collection[TopicPartition], start: int | None = None, stop: int | None = None
    ) -> Ranges:
        """Return the offsets from `start` to `stop` that the log has now; None for its beginning and its end."""
        first = await self._consumer.beginning_offsets(partitions)
        last = await self._consumer.end_offsets(partitions)
        return {
            each: _range(
                first[each] if start is None else start, last[each] if stop is None else stop, first, last, each
            )
            for each in partitions
        }

    async def times(
        self, partitions: Collection[TopicPartition], from_ms: int | None = None, to_ms: int | None = None
    ) -> Ranges:
        """Return the offsets of records from a time up to but without another (ms since 1970), as brokers find them."""
        first = await self._consumer.beginning_offsets(partitions)
        last = await self._consumer.end_offsets(partitions)
        begins = await self._found(partitions, from_ms, first, last)
        ends = await self._found(partitions, to_ms, last, last)
        return {each: _range(begins[each], ends[each], first, last, each) for each in partitions}

    async def _found(
        self,
        partitions: Collection[TopicPartition],
        time_ms: int | None,
        otherwise: Mapping[TopicPartition, int],
        last: Mapping[TopicPartition, int],
    ) -> Mapping[TopicPartition, int]:
        if time_ms is None:
            return otherwise
        found = await self._consumer.offsets_for_times(dict.fromkeys(partitions, time_ms))
        return {each: last[each] if offset is None else offset.offset for each, offset in found.items()}

    async def newest(self, partitions: Collection[TopicPartition], count: int) -> Ranges:
        """Return the last `count` offsets of each partition; fewer records where compaction or markers left gaps."""
        ranges = await self.offsets(partitions)
        return {
            each: OffsetRange(max(found.start, (found.stop or 0) - count), found.stop) for each, found in ranges.items()
        }

    async def tail(self, partitions: Collection[TopicPartition]) -> Ranges:
        """Return what is written from now on, without an end."""
        last = await self._consumer.end_offsets(partitions)
        return {each: OffsetRange(last[each], None) for each in partitions}

    # Reading

    async def read(
        self, ranges: Mapping[TopicPartition, OffsetRange], matching: Matching | None = None
    ) -> AsyncGenerator[Page, None]:
        """Yield the records of the ranges, those that are `matching` only; pages without records show progress.

        A partition that cannot be read further is given up and named in its page. Raises errors of all partitions.
        """
        reading = _Reading(ranges)
        while reading.active:
            self._consumer.assign(reading.active)
            reading.seek_new(self._consumer)
            errors: dict[TopicPartition, KafkaError] = {}
            records: list[Raw] = []
            until_s = time.monotonic() + _PAGE_MS / 1_000
            while not records and not errors and reading.active and time.monotonic() < until_s:
                try:
                    polled = await self._consumer.poll(_PAGE_MS / 5)
                except RecordUnreadable as failure:
                    errors[failure.partition] = failure
                except OffsetOutOfRange as failure:
                    errors |= dict.fromkeys(failure.offsets, failure)
                else:
                    for partition, found in polled.items():
                        records += self._shown(reading.within(partition, found), matching)
                reading.drop(errors)
                done = reading.advance(self._consumer)
                if done and reading.active:
                    self._consumer.assign(reading.active)
            yield Page(records, reading.progress(), reading.positions(), errors)

    def _shown(self, records: Iterable[Raw], matching: Matching | None) -> list[Raw]:
        most = self.limits.record_bytes_max
        return [_clipped(record, most) for record in records if matching is None or matching(record)]


class _Reading:
    """The state of one reading."""

    def __init__(self, ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        self._ranges = dict(ranges)
        self._positions = {each: found.start for each, found in ranges.items()}
        self._new = set(ranges)
        self.active = [each for each, found in ranges.items() if found.stop is None or found.start < found.stop]

    def seek_new(self, consumer: KafkaConsumer) -> None:
        """Start the partitions that were not started yet."""
        for partition in self._new.intersection(self.active):
            consumer.seek(partition, self._ranges[partition].start)
        self._new.clear()

    def within(self, partition: TopicPartition, records: list[Raw]) -> list[Raw]:
        """Return the records that are before the end of the range."""
        stop = self._ranges[partition].stop
        if stop is None or not records or records[-1].offset < stop:
            return records
        return [record for record in records if record.offset < stop]

    def advance(self, consumer: KafkaConsumer) -> bool:
        """Take the positions; return whether a partition is at its end."""
        done = False
        for partition in list(self.active):
            position = consumer.current_position(partition)
            stop = self._ranges[partition].stop
            if position is not None:
                self._positions[partition] = position
            if stop is not None and self._positions[partition] >= stop:
                self.active.remove(partition)
                done = True
        return done

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Give partitions up."""
        for partition in partitions:
            if partition in self.active:
                self.active.remove(partition)

    def positions(self) -> dict[TopicPartition, int]:
        """Return the next offset of each partition, at most the end of its range."""
        return {
            each: position if (stop := self._ranges[each].stop) is None else min(position, stop)
            for each, position in self._positions.items()
        }

    def progress(self) -> Progress:
        """Return how far all partitions together are."""
        reached = wanted = 0
        for partition, found in self._ranges.items():
            position = self._positions[partition]
            stop = position if found.stop is None else max(found.start, found.stop)
            reached += min(position, stop) - found.start
            wanted += stop - found.start
        is_open = any(found.stop is None for found in self._ranges.values())
        return Progress(reached, None if is_open else wanted)


def _range(
    start: int, stop: int, first: Mapping[TopicPartition, int], last: Mapping[TopicPartition, int], each: TopicPartition
) -> OffsetRange:
    start = min(max(start, first[each]), last[each])
    return OffsetRange(start, max(start, min(stop, last[each])))


def _clipped(record: Raw, most: int) -> Raw:
    """Return the record with the beginning of a key or value that is too long, if one is."""
    key, value = record.key, record.value
    key_size, value_size = -1 if key is None else len(key), -1 if value is None else len(value)
    headers_size = sum(len(name) + len(content or b"") for name, content in record.headers) if record.headers else 0
    if isinstance(record, ClippedRecord) or max(key_size, value_size, headers_size) <= most:
        return record
    return ClippedRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        record.timestamp_type,
        None if key is None else key[:most],
        None if value is None else value[:most],
        record.headers if headers_size <= most else (),
        record.leader_epoch,
        key_size,
        value_size,
        headers_size <= most,
    )
