"""`conclave consume`: prints the records of a topic.

Exit codes: 0 the end that the options name, or Ctrl-C where they name none, or the reader of the output has gone; 1 the
topic cannot be read; 2 wrong use; 130 Ctrl-C before the end.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.cli.client_run import Progress, StopSignal, UsageError, amount, stop_signal
from app.records.filters import RecordFilters
from app.records.formats import Formatter, Record
from app.records.positions import AtOffset, AtTime, BeforeEnd, Position
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.kafka_consumer import KafkaConsumer
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.protocol.errors import ErrorCode, KafkaError

DEFAULTS: Final[dict[str, object]] = {
    "client.id": "conclave-consume",
    "allow.auto.create.topics": False,
    "default.api.timeout.ms": 15_000,
}
POLL_MS: Final = 500
COMMIT_S: Final = 5.0
STDOUT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOptions:
    """The options of `conclave consume`. `start` counts without a group, or for partitions without a commit."""

    topic: str
    configs: Mapping[str, object]
    start: Position
    end: AtOffset | AtTime | None
    exit_at_end: bool
    count: int | None
    partitions: Sequence[int]
    group: str | None
    filters: RecordFilters
    format: Formatter

    @property
    def has_end(self) -> bool:
        """Whether the command ends without a signal."""
        return self.exit_at_end or self.count is not None or self.end is not None


def run_consume(options: ConsumeOptions) -> int:
    """Print records until the end and return the exit code. Raises ConfigException, KafkaError."""
    return asyncio.run(_Consumption(options).run())


class _Consumption:
    """One run: the partitions, where they end, and what was printed."""

    def __init__(self, options: ConsumeOptions) -> None:
        self._options = options
        self._ends: dict[TopicPartition, int] = {}
        self._unfinished: set[TopicPartition] = set()
        self._printed = 0
        self._printed_bytes = 0
        self._read: dict[TopicPartition, int] = {}  # the offset behind the last record handled
        self._committed: dict[TopicPartition, int] = {}
        self._commit_at = time.monotonic() + COMMIT_S
        self._progress = Progress(
            lambda seconds: amount(self._printed, self._printed_bytes, seconds), is_shown=not sys.stdout.isatty()
        )

    async def run(self) -> int:
        with stop_signal() as stop:
            async with KafkaConsumer(self._configs()) as consumer:
                known = await self._known_partitions(consumer)
                if self._options.group is None:
                    await self._assign(consumer, known)
                else:
                    consumer.subscribe([self._options.topic])
                try:
                    await self._print_all(consumer, stop)
                except BrokenPipeError:
                    stop.number = None  # the reader has what it wanted
                await self._commit(consumer)
        self._progress.end()
        if stop.number == signal.SIGINT and not self._options.has_end:
            return 0
        return stop.exit_code

    def _configs(self) -> dict[str, object]:
        configs = dict(self._options.configs)
        if self._options.group is None:
            return {**configs, "auto.offset.reset": "earliest"}  # for records that are removed while they are read
        reset = "latest" if self._options.start == BeforeEnd(0) else "earliest"
        return {"auto.offset.reset": reset, **configs, "group.id": self._options.group, "enable.auto.commit": False}

    # Where to start and to end

    async def _known_partitions(self, consumer: KafkaConsumer) -> list[TopicPartition]:
        """Return the partitions of the topic. A subscription alone would wait for a topic or cluster without an end."""
        topic = self._options.topic
        known = sorted(await consumer.partitions_for(topic))
        if not known:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic}' does not exist.")
        return known

    async def _assign(self, consumer: KafkaConsumer, known: list[TopicPartition]) -> None:
        topic = self._options.topic
        partitions = known
        if self._options.partitions:
            partitions = [TopicPartition(topic, number) for number in dict.fromkeys(self._options.partitions)]
            missing = [str(each.partition) for each in partitions if each not in known]
            if missing:
                raise UsageError(
                    f"Topic '{topic}' has no partition {', '.join(missing)}: it has {len(known)}, numbered from 0"
                )
        consumer.assign(partitions)
        first = await consumer.beginning_offsets(partitions)
        last = await consumer.end_offsets(partitions)
        starts = await self._starts(consumer, first, last)
        await self._find_ends(consumer, last)
        self._unfinished = set(partitions)
        for partition in partitions:
            consumer.seek(partition, starts[partition])
            if starts[partition] >= self._ends.get(partition, starts[partition] + 1):
                self._finish(consumer, partition)

    async def _starts(
        self, consumer: KafkaConsumer, first: dict[TopicPartition, int], last: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        match self._options.start:
            case None:
                return first
            case BeforeEnd(count):
                return {partition: max(first[partition], end - count) for partition, end in last.items()}
            case AtOffset(offset):
                return {partition: min(max(first[partition], offset), end) for partition, end in last.items()}
            case AtTime(timestamp_ms):
                return await _at_time(consumer, timestamp_ms, last)

    async def _find_ends(self, consumer: KafkaConsumer, last: dict[TopicPartition, int]) -> None:
        """A time ends at the first such record that exists now; an offset may still be written."""
        match self._options.end:
            case AtOffset(offset):
                self._ends = dict.fromkeys(last, offset)
            case AtTime(timestamp_ms):
                self._ends = await _at_time(consumer, timestamp_ms, last)
        if self._options.exit_at_end:
            self._ends = {partition: min(self._ends.get(partition, end), end) for partition, end in last.items()}

    def _finish(self, consumer: KafkaConsumer, partition: TopicPartition) -> None:
        self._unfinished.discard(partition)
        consumer.pause([partition])

    # Reading

    async def _print_all(self, consumer: KafkaConsumer, stop: StopSignal) -> None:
        stopped = asyncio.ensure_future(stop.wait())
        try:
            while not await self._has_ended(consumer):
                polling = asyncio.ensure_future(consumer.poll(POLL_MS))
                await asyncio.wait([polling, stopped], return_when=asyncio.FIRST_COMPLETED)
                if not polling.done():
                    polling.cancel()
                    return
                polled = polling.result()
                for partition, records in polled.items():
                    await self._print(partition, records)
                await self._note_ends(consumer, list(polled or self._unfinished))
                if time.monotonic() >= self._commit_at:
                    await self._commit(consumer)
                self._progress.update()
        finally:
            stopped.cancel()

    async def _has_ended(self, consumer: KafkaConsumer) -> bool:
        if self._printed == self._options.count:
            return True
        if self._options.group is None:
            return not self._unfinished
        assigned = consumer.assignment()
        return (
            self._options.exit_at_end
            and bool(assigned)
            and all(consumer.current_lag(partition) == 0 for partition in assigned)
        )

    async def _note_ends(self, consumer: KafkaConsumer, partitions: Sequence[TopicPartition]) -> None:
        """Pause partitions that have reached their end. Their last offsets may have no records."""
        for partition in partitions:
            end = self._ends.get(partition)
            if end is not None and partition in self._unfinished and await consumer.position(partition) >= end:
                self._finish(consumer, partition)

    async def _print(self, partition: TopicPartition, records: Sequence[Record]) -> None:
        """Print the records that pass the filters, up to the partition's end and the count."""
        end = self._ends.get(partition)
        if end is not None and records[-1].offset >= end:
            records = [record for record in records if record.offset < end]
        passes = self._options.filters.passes
        passing = [record for record in records if passes(record.key, record.value, record.headers)]
        if self._options.count is not None and len(passing) >= self._options.count - self._printed:
            passing = passing[: self._options.count - self._printed]
            records = [record for record in records if passing and record.offset <= passing[-1].offset]
        if passing:
            data = b"".join(map(self._options.format, passing))
            await asyncio.to_thread(_write, data)  # a slow reader must not stop heartbeats
            self._printed += len(passing)
            self._printed_bytes += len(data)
        if records:
            self._read[partition] = records[-1].offset + 1

    async def _commit(self, consumer: KafkaConsumer) -> None:
        """Commit what was printed or filtered out, for the partitions that the group still gives this member."""
        self._commit_at = time.monotonic() + COMMIT_S
        if self._options.group is None:
            return
        assigned = consumer.assignment()
        new = {
            partition: offset
            for partition, offset in self._read.items()
            if partition in assigned and self._committed.get(partition) != offset
        }
        if new:
            await consumer.commit({partition: OffsetAndMetadata(offset) for partition, offset in new.items()})
            self._committed |= new


async def _at_time(
    consumer: KafkaConsumer, timestamp_ms: int, last: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return each partition's first offset at or after a time; the end where there is none."""
    found = await consumer.offsets_for_times(dict.fromkeys(last, timestamp_ms))
    return {partition: end if (at := found.get(partition)) is None else at.offset for partition, end in last.items()}


def _write(data: bytes) -> None:
    """Write to standard output without a buffer, which could not be emptied after the reader has gone."""
    view = memoryview(data)
    while view:
        view = view[os.write(STDOUT, view) :]
