"""Windows of a topic: the records of its partitions merged by time, in bounded memory, work and seconds.

A window is read in rounds. Each round reads a range of those partitions of which nothing is left to merge: forwards
from their positions, or backwards before them. Records are then taken in the order of their timestamps, while those of
one partition keep the order of their offsets, until the window is full or a partition has nothing left. So a window of
n records reads little more than n, whatever the number of partitions, and a filter reads on until it has found enough.

A limit that is reached ends the window where it is; `Window.parts` says how far each partition was read.
"""

import asyncio
import heapq
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from app.cluster.partition_offsets import Bounds
from app.records.contents import Decoder, sizes_of
from app.records.filters import RecordFilters
from app.texts import phrase, sentence_of
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.partition_reader import OffsetRange, PartitionReader
from kraft_core.clients.consumer.uniform_records import Raw

CHUNK_MAX: Final = 16_384
HELD_BYTES_MAX: Final = 32 << 20
"""Memory of records that passed and were not taken yet, after which a round ends."""
OVERHEAD_BYTES: Final = 300
TURN_RECORDS: Final = 64
"""Records that are filtered before other tasks may run."""


@dataclass(frozen=True, slots=True)
class WindowLimits:
    """Bounds of one window."""

    records: int = 500_000
    bytes: int = 256 << 20
    seconds: float = 5.0


@dataclass(slots=True)
class Part:
    """How far one partition was read: from `start` to `position`, downwards if the window is backwards.

    `error` says why it was not read (further). `left` are records that passed and were not taken.
    """

    index: int
    first: int
    end: int
    start: int
    position: int
    is_backwards: bool
    chunk: int
    scanned: int = 0
    error: str = ""
    left: deque[Raw] = field(default_factory=deque)

    @property
    def is_at_bound(self) -> bool:
        """Whether nothing is left to read in this direction."""
        return self.position <= self.first if self.is_backwards else self.position >= self.end

    @property
    def is_needy(self) -> bool:
        """Whether its next record must be read before any other record can be taken."""
        return not self.left and not self.is_at_bound and not self.error

    @property
    def following(self) -> int:
        """Where the next window in the same direction starts: before, or from this offset."""
        if not self.left:
            return self.position
        return self.left[0].offset + 1 if self.is_backwards else self.left[0].offset

    def range(self) -> OffsetRange:
        """Return the next offsets to read."""
        if self.is_backwards:
            return OffsetRange(max(self.first, self.position - self.chunk), self.position)
        return OffsetRange(self.position, min(self.end, self.position + self.chunk))


@dataclass(slots=True)
class Window:
    """The records of a window in the order of reading (backwards: newest first), and how it was read.

    `stopped` names the limit that ended it, "" if none did.
    """

    records: list[Raw]
    parts: dict[int, Part]
    is_backwards: bool
    scanned: int = 0
    scanned_bytes: int = 0
    stopped: str = ""
    held: int = 0

    @property
    def has_older(self) -> bool:
        """Whether there may be older records."""
        return any(self._low(each) > each.first for each in self.parts.values())

    @property
    def has_newer(self) -> bool:
        """Whether there may be newer records."""
        return any(at < self.parts[index].end for index, at in self.newer.items())

    @property
    def older(self) -> dict[int, int]:
        """For each partition, the offset before which older records are."""
        return {each.index: self._low(each) for each in self.parts.values()}

    @property
    def newer(self) -> dict[int, int]:
        """For each partition, the offset from which newer records are."""
        return {each.index: each.start if self.is_backwards else each.following for each in self.parts.values()}

    def _low(self, part: Part) -> int:
        return part.following if self.is_backwards else part.start


class WindowReader:
    """Reads one window with a reader that nobody else uses meanwhile."""

    def __init__(
        self,
        reader: PartitionReader,
        topic: str,
        decoder: Decoder,
        filters: RecordFilters,
        limits: WindowLimits,
    ) -> None:
        self._reader = reader
        self._topic = topic
        self._decoder = decoder
        self._filters = filters
        self._limits = limits

    async def read(
        self, bounds: Mapping[int, Bounds], starts: Mapping[int, int], count: int, *, is_backwards: bool
    ) -> Window:
        """Return at most `count` records from `starts` (backwards: before them)."""
        chunk = max(1, min(count, 2 * count // max(1, len(bounds)))) if not self._filters.filters else count
        parts = {
            index: Part(
                index, each.first, each.end, start := min(max(starts[index], each.first), each.end), start,
                is_backwards, chunk,
            )
            for index, each in bounds.items()
        }  # fmt: skip
        window = Window([], parts, is_backwards)
        deadline = time.monotonic() + self._limits.seconds
        while len(window.records) < count and not window.stopped:
            needy = [part for part in parts.values() if part.is_needy]
            if needy:
                await self._read_round(window, needy, deadline)
            elif not _take(window, count):
                break
        if window.stopped:
            _take(window, count, is_partial=True)
        return window

    async def _read_round(self, window: Window, needy: list[Part], deadline: float) -> None:
        """Read the next range of some partitions."""
        partitions = {TopicPartition(self._topic, part.index): part for part in needy}
        ranges = {each: part.range() for each, part in partitions.items()}
        found: dict[int, list[Raw]] = {part.index: [] for part in needy}
        window.held = sum(_held(record) for part in window.parts.values() for record in part.left)
        held_before = window.held
        positions = {each: at.start for each, at in ranges.items()}
        reading = self._reader.read(ranges)
        try:
            async for page in reading:
                for partition, error in page.errors.items():
                    partitions[partition].error = sentence_of(error)
                positions.update(page.positions)
                window.stopped = await self._filter(window, page.records, found, positions, deadline)
                if window.stopped or (window.held >= HELD_BYTES_MAX and window.held > held_before):
                    break
        finally:
            await reading.aclose()
        for partition, part in partitions.items():
            self._note(part, ranges[partition], positions[partition], found[part.index])

    async def _filter(
        self,
        window: Window,
        records: list[Raw],
        found: dict[int, list[Raw]],
        positions: dict[TopicPartition, int],
        deadline: float,
    ) -> str:
        """Keep the records that pass. Returns the limit that was reached, "" if none."""
        await self._decoder.prepare(records)
        for number, record in enumerate(records):
            if number % TURN_RECORDS == TURN_RECORDS - 1:
                await asyncio.sleep(0)
            if reached := self._reached(window, deadline):
                for left in reversed(records[number:]):
                    positions[left.topic_partition] = left.offset
                return reached
            window.scanned += 1
            window.scanned_bytes += sum(max(0, size) for size in sizes_of(record))
            window.parts[record.partition].scanned += 1
            if not self._filters.filters or self._filters.passes(*self._decoder.searched(record), record.headers):
                found[record.partition].append(record)
                window.held += _held(record)
        return self._reached(window, deadline)

    def _reached(self, window: Window, deadline: float) -> str:
        if time.monotonic() >= deadline:
            return phrase("%(count)s s", count=f"{self._limits.seconds:g}")
        if window.scanned >= self._limits.records:
            return phrase("%(count)s records", count=f"{self._limits.records:,}")
        if window.scanned_bytes >= self._limits.bytes:
            return f"{self._limits.bytes >> 20:,} MiB"
        return ""

    @staticmethod
    def _note(part: Part, wanted: OffsetRange, reached: int, found: list[Raw]) -> None:
        """Take over what a round found. A backward range that was not read to its end is read again."""
        is_whole = wanted.stop is not None and reached >= wanted.stop
        if part.is_backwards:
            if is_whole:
                part.left.extend(reversed(found))
                part.position = wanted.start
        else:
            part.left.extend(found)
            part.position = reached
        part.chunk = min(CHUNK_MAX, part.chunk * 2) if is_whole else max(1, part.chunk // 8)


def _take(window: Window, count: int, *, is_partial: bool = False) -> bool:
    """Take records until one partition has nothing left to compare with; return whether any was taken.

    With `is_partial`, partitions with nothing left are passed over.
    """
    if not is_partial and any(part.is_needy for part in window.parts.values()):
        return False
    sign = -1 if window.is_backwards else 1
    waiting = [(sign * part.left[0].timestamp_ms, part.index) for part in window.parts.values() if part.left]
    heapq.heapify(waiting)
    taken = len(window.records)
    while waiting and len(window.records) < count:
        part = window.parts[waiting[0][1]]
        window.records.append(part.left.popleft())
        if part.left:
            heapq.heapreplace(waiting, (sign * part.left[0].timestamp_ms, part.index))
        else:
            heapq.heappop(waiting)
            if part.is_needy and not is_partial:
                break
    return len(window.records) > taken


def _held(record: Raw) -> int:
    """Return the memory of a record in bytes, roughly."""
    headers = sum(len(name) + len(content or b"") for name, content in record.headers)
    return OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"") + headers
