"""The change feed: recent changes of the metadata log, the images around them, and the leaders by epoch.

The observer fills it. It keeps the newest changes up to a number of records, each with the image before and after it,
which costs little because images share their parts. Descriptions are built on first use.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from app.cluster.epochs import Epoch, EpochHistory
from app.texts import phrase
from kraft_core.clients.observed_log import CommittedChange
from kraft_core.image.changes import described_records, each_has_a_line
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.topics_image import RECOVERING
from kraft_core.protocol.control_records import LeaderChangeMessage, VotersRecord
from kraft_core.protocol.metadata_records import (
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
)

VOTER_SETS_MAX: Final = 100
UNCLEAN_MAX: Final = 1_000
PARTITION_LINE: Final = re.compile(r"topic \S+: p\d+ ")
EXCERPT_LINES: Final = 26
OF_A_PARTITION: Final = (PartitionRecord, PartitionChangeRecord)
MARKS: Final = (NoOpRecord, BeginTransactionRecord, EndTransactionRecord)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The first lines of a change, those about single partitions last; the number of all, and of the others."""

    lines: tuple[str, ...]
    total: int
    headlines: int


@dataclass(frozen=True, kw_only=True)
class Change:
    """One committed batch or transaction that changed something. Offsets are inclusive.

    `records` have their offsets; NoOps and transaction markers are left out.
    """

    first_offset: int
    offset: int
    epoch: int
    timestamp_ms: int
    records: tuple[tuple[int, MetadataRecord], ...]
    before: MetadataImage
    after: MetadataImage

    @cached_property
    def described(self) -> tuple[tuple[MetadataRecord, str], ...]:
        """The records that change something, each with its effect in one line."""
        records = [record for _, record in self.records]
        return tuple(described_records(self.before, records, self.offset, self.epoch))

    @property
    def lines(self) -> tuple[str, ...]:
        """Descriptions of the change, one line per effect."""
        return tuple(line for _, line in self.described)

    def unclean_elections(self) -> int:
        """Return how many leaders it elected that may lack records: not in the ISR, and not eligible."""
        return sum(
            self._is_unclean(record)
            for _, record in self.records
            if type(record) is PartitionChangeRecord and record.leader >= 0
        )

    def _is_unclean(self, record: PartitionChangeRecord) -> bool:
        before, after = (
            image.topics.partition(record.topic_id, record.partition_id) for image in (self.before, self.after)
        )
        is_recovering = after is not None and after.leader_recovery_state == RECOVERING
        return is_recovering and before is not None and record.leader not in {before.leader, *before.isr}

    @cached_property
    def headlines_first(self) -> tuple[str, ...]:
        """The same lines, with those about more than one partition's state first."""
        return tuple(sorted(self.lines, key=lambda line: PARTITION_LINE.match(line) is not None))

    @cached_property
    def excerpt(self) -> Excerpt:
        """The beginning of `headlines_first`. The records behind it are described only if counting needs that."""
        records = [record for _, record in self.records]
        if not each_has_a_line(self.before, records):
            lines = self.headlines_first
            return Excerpt(lines[:EXCERPT_LINES], len(lines), sum(not PARTITION_LINE.match(line) for line in lines))
        others = [record for record in records if not isinstance(record, OF_A_PARTITION)]
        headlines = min(len(others), EXCERPT_LINES)
        singles = min(len(records) - len(others), EXCERPT_LINES - headlines)
        found: tuple[list[str], list[str]] = [], []
        described = described_records(self.before, records if singles else others, self.offset, self.epoch)
        for record, line in described:  # no other line depends on what happened to partitions
            found[isinstance(record, OF_A_PARTITION)].append(line)
            if len(found[0]) >= headlines and len(found[1]) >= singles:
                break
        return Excerpt((*found[0][:headlines], *found[1][:singles]), len(records), len(others))


class OffsetGone(LookupError):  # noqa: N818 - it names what happened
    """The offset is older than the kept changes. `oldest` is the first offset that can be read."""

    def __init__(self, offset: int, oldest: int) -> None:
        super().__init__(
            phrase(
                "Offset %(offset)s is older than the changes kept here, which begin at %(oldest)s.",
                offset=offset,
                oldest=oldest,
            )
        )
        self.offset = offset
        self.oldest = oldest


class History:
    """The newest changes, up to `records_max` records. The newest change is always kept."""

    def __init__(self, records_max: int) -> None:
        self.records_max = records_max
        self._changes: deque[Change] = deque()
        self._records = 0
        self._oldest = 0
        self._base = MetadataImage.EMPTY, 0  # the state before the oldest change, and its time
        self._current = MetadataImage.EMPTY
        self.epochs = EpochHistory()
        self.snapshots_loaded = 0  # how often a snapshot replaced a part of the log
        self._voter_sets: deque[tuple[int, VotersRecord]] = deque(maxlen=VOTER_SETS_MAX)
        self._unclean: deque[tuple[int, int, int]] = deque(maxlen=UNCLEAN_MAX)  # offset, time and number
        self._waiting: set[asyncio.Event] = set()

    @property
    def oldest_offset(self) -> int:
        """First offset from which all changes are kept."""
        return self._oldest

    @property
    def newest_offset(self) -> int:
        """Last offset read, including offsets without a change; -1 before the first."""
        return self._current.offset

    @property
    def image(self) -> MetadataImage:
        """The state after everything read."""
        return self._current

    def state_at(self, offset: int) -> tuple[MetadataImage, int] | None:
        """Return the state at an offset and the time of its newest change in ms, 0 if unknown.

        None when the offset is not kept, or was not read yet.
        """
        if not self._base[0].offset <= offset <= self.newest_offset:
            return None
        for change in reversed(self._changes):
            if change.offset <= offset:
                return change.after, change.timestamp_ms
        return self._base

    def offset_at(self, time_ms: int) -> int | None:
        """Return the offset of the newest change that is not younger than `time_ms`, None if it is not kept."""
        for change in reversed(self._changes):
            if change.timestamp_ms <= time_ms:
                return change.offset
        image, since_ms = self._base
        return image.offset if image.offset >= 0 and since_ms <= time_ms else None

    def up_to(self, offset: int) -> "History":
        """Return the part that ends at or before `offset`, with all epochs."""
        part = History(self.records_max)
        part._oldest, part._base, part.epochs = self._oldest, self._base, self.epochs
        part._changes.extend(change for change in self._changes if change.offset <= offset)
        part._current = part._changes[-1].after if part._changes else self._base[0]
        return part

    @property
    def voters(self) -> VotersRecord | None:
        """The newest voter set read from the log. None with static voters, and when it came with a snapshot."""
        return self._voter_sets[-1][1] if self._voter_sets else None

    def add(self, change: CommittedChange) -> None:
        """Add one committed change. Called by the observer, in log order."""
        for offset, control in change.control_records:
            if isinstance(control, LeaderChangeMessage):
                self.epochs.led(Epoch.of_record(change.epoch, offset, change.timestamp_ms, control))
            elif isinstance(control, VotersRecord):
                self._voter_sets.append((offset, control))
        self.epochs.wrote(change.epoch, change.last_offset, change.timestamp_ms)
        records = tuple(item for item in change.records if not isinstance(item[1], MARKS))
        self._current = change.after
        if records:
            self._append(
                Change(
                    first_offset=change.first_offset,
                    offset=change.last_offset,
                    epoch=change.epoch,
                    timestamp_ms=change.timestamp_ms,
                    records=records,
                    before=change.before,
                    after=change.after,
                )
            )
        self._wake()

    def snapshot(self, image: MetadataImage, time_ms: int = 0) -> None:
        """Start from a snapshot, whose newest change was at `time_ms`. The changes before it are not known."""
        self.snapshots_loaded += 1
        self._changes.clear()
        self._records = 0
        self._oldest = image.offset + 1
        self._base = image, time_ms
        self._current = image
        self._wake()

    def unclean_since(self, time_ms: float) -> int:
        """Return the number of unclean leader elections since a time, as far as changes were read."""
        return sum(number for _, at_ms, number in self._unclean if at_ms >= time_ms)

    def _append(self, change: Change) -> None:
        self._changes.append(change)
        if number := change.unclean_elections():
            self._unclean.append((change.offset, change.timestamp_ms, number))
        self._records += len(change.records)
        while self._records > self.records_max and len(self._changes) > 1:
            gone = self._changes.popleft()
            self._records -= len(gone.records)
            self._oldest = gone.offset + 1
            self._base = gone.after, gone.timestamp_ms

    def _wake(self) -> None:
        for event in self._waiting:
            event.set()

    def since(self, offset: int, limit: int | None = None) -> list[Change]:
        """Return the changes that end at `offset` or later, oldest first, at most `limit`.

        Raises OffsetGone when some of them are no longer kept.
        """
        if offset < self._oldest:
            raise OffsetGone(offset, self._oldest)
        found: list[Change] = []
        for change in reversed(self._changes):
            if change.offset < offset:
                break
            found.append(change)
        found.reverse()
        return found if limit is None else found[:limit]

    def newest(self, limit: int, wanted: Callable[[Change], bool] | None = None) -> list[Change]:
        """Return the newest changes that match, newest first, at most `limit`."""
        found: list[Change] = []
        for change in reversed(self._changes):
            if wanted is None or wanted(change):
                found.append(change)
                if len(found) == limit:
                    break
        return found

    def find(self, after_offset: int, wanted: Callable[[MetadataRecord], bool]) -> int | None:
        """Return the offset of the newest change after `after_offset` with a matching record, None without one."""
        for change in reversed(self._changes):
            if change.offset <= after_offset:
                return None
            if any(wanted(record) for _, record in change.records):
                return change.offset
        return None

    def find_voters(self, after_offset: int, wanted: Callable[[VotersRecord], bool]) -> int | None:
        """Return the offset after `after_offset` since which all voter sets read match, None if the newest does not."""
        found = None
        for offset, voters in reversed(self._voter_sets):
            if offset <= after_offset or not wanted(voters):
                break
            found = offset
        return found

    async def wait_beyond(self, offset: int, timeout_seconds: float) -> bool:
        """Wait until a record after `offset` has been read. Returns False after the timeout."""
        if self.newest_offset > offset:
            return True
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            async with asyncio.timeout(timeout_seconds):
                while self.newest_offset <= offset:
                    await event.wait()
                    event.clear()
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(event)
        return True

    def __iter__(self) -> Iterator[Change]:
        """Iterate over the kept changes, oldest first."""
        return iter(tuple(self._changes))
