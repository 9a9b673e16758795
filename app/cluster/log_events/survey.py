"""The events of everything that is kept of the metadata log, read once and then followed.

The first reader starts a task that reads the memory and then the stored log, one stretch after another back to its
start, each on a thread; readers meanwhile get what is there, with the offset back to which it is known. Later readers
pay only for what was committed since. At most EVENTS_MAX events are held: in a longer log the oldest are not counted,
which `Survey.first_offset` says.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.cluster.history import Change, History, OffsetGone
from app.cluster.log_events.events import Event, FeatureChange, PartitionMove, events_of
from app.cluster.log_store.archive import Archive
from app.tasks import cancel_tasks
from app.texts import phrase
from kraft_core.image.replay_error import ReplayError
from kraft_core.storage.files import StorageError

log = logging.getLogger(__name__)

EVENTS_MAX: Final = 200_000
PATIENCE_SECONDS: Final = 0.5
"""Longest time that a reader waits for events that are still being read."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The events from `first_offset` to `last_offset`, oldest first. `first_ms` is the time of the oldest change read.

    `is_whole`: they reach back to the start of what is kept, or to the most that is held. `gaps` are (first, last)
    offsets in between that are not known. `trouble` says why the log could not be read further back.
    """

    events: Sequence[Event]
    first_offset: int
    first_ms: int
    last_offset: int
    is_whole: bool
    gaps: Sequence[tuple[int, int]]
    trouble: str

    @property
    def moves(self) -> list[PartitionMove]:
        """The moves of partitions."""
        return [each for each in self.events if isinstance(each, PartitionMove)]

    @property
    def feature_changes(self) -> list[FeatureChange]:
        """The changes of feature levels."""
        return [each for each in self.events if isinstance(each, FeatureChange)]

    def until(self, offset: int) -> "Survey":
        """Return the part up to an offset."""
        if offset >= self.last_offset:
            return self
        events = [each for each in self.events if each.offset <= offset]
        gaps = [gap for gap in self.gaps if gap[0] <= offset]
        return replace(self, events=events, first_offset=min(self.first_offset, offset), last_offset=offset, gaps=gaps)


@dataclass(frozen=True, slots=True)
class _Earlier:
    """What was read before the memory lost the changes after it."""

    events: deque[Event]
    first: int
    first_ms: int
    end: int
    older: int | None
    gaps: list[tuple[int, int]]


class LogEvents:
    """Reads and holds the events of one cluster's log."""

    def __init__(self, history: History, archive: Archive, events_max: int = EVENTS_MAX) -> None:
        self._history = history
        self._archive = archive
        self._events_max = events_max
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._forget()

    def _forget(self) -> None:
        self._events: deque[Event] = deque()
        self._first = self._end = 0  # of what was read, end exclusive
        self._first_ms = round(time.time() * 1000)
        self._older: int | None = None  # where to read on, None at the start of what is kept
        self._is_begun = False
        self._snapshots = self._history.snapshots_loaded
        self._gaps: list[tuple[int, int]] = []
        self._trouble = ""
        self._earlier: _Earlier | None = None

    async def stop(self) -> None:
        """End the reading."""
        await cancel_tasks(self._task)

    async def survey(self, patience_seconds: float = PATIENCE_SECONDS) -> Survey:
        """Return the events up to now, after waiting a moment if they are still being read."""
        await self._follow()
        if self._task is None and self._older is not None:
            self._trouble = ""
            self._task = asyncio.create_task(self._read_back(), name="log-events")
            self._task.add_done_callback(self._end_task)
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=patience_seconds)
        return Survey(
            tuple(self._events),
            self._first,
            self._first_ms,
            self._end - 1,
            self._older is None and not self._trouble,
            tuple(self._gaps),
            self._trouble,
        )

    def _end_task(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (bug := task.exception()) is not None:
            log.error("log_events_not_read", exc_info=bug)
            self._trouble = phrase("The history could not be read; the log of this process says why.")

    async def _follow(self) -> None:
        """Read what was committed since the last reader; begin again after a snapshot, or when too much was."""
        async with self._lock:
            if self._snapshots != self._history.snapshots_loaded:
                self._forget()
            try:
                changes = self._history.since(self._end) if self._is_begun else []
            except OffsetGone:
                self._begin_behind()
                changes = []
            if not self._is_begun:
                self._is_begun = True
                self._first = self._end = self._history.newest_offset + 1
                self._older = self._end if self._end > 0 else None
                return
            end = self._history.newest_offset + 1
            self._events.extend(await asyncio.to_thread(_events, changes))
            self._end = max(self._end, end)
            self._trim()

    def _begin_behind(self) -> None:
        """Begin again, and keep what is known, so that only the part in between is read from the disk."""
        earlier = self._earlier or _Earlier(
            self._events, self._first, self._first_ms, self._end, self._older, self._gaps
        )
        self._forget()
        self._earlier = earlier

    def _join_earlier(self) -> None:
        """Continue with what was known before, once everything after it was read."""
        earlier, self._earlier = self._earlier, None
        assert earlier is not None, "the caller has checked it"
        while self._events and self._events[0].offset < earlier.end:
            self._events.popleft()
        self._events.extendleft(reversed(earlier.events))
        self._first, self._first_ms, self._older = earlier.first, earlier.first_ms, earlier.older
        self._gaps[:0] = [gap for gap in earlier.gaps if gap not in self._gaps]

    async def _read_back(self) -> None:
        """Read the memory and the stored log back to the start."""
        while self._older is not None:
            snapshots, before = self._snapshots, self._older
            try:
                stretch = await self._archive.stretch(before)
            except (StorageError, ReplayError) as broken:
                self._trouble = phrase("The history cannot be read: %(cause)s", cause=str(broken))
                return
            found = await asyncio.to_thread(_events, stretch.changes[::-1])
            async with self._lock:
                if snapshots != self._snapshots or before != self._older:
                    return  # begun again
                self._events.extendleft(reversed(found))
                if stretch.changes:
                    self._first_ms = stretch.changes[-1].timestamp_ms
                if stretch.gap is not None and stretch.gap.end - 2 >= stretch.gap.start:
                    self._gaps.insert(0, (stretch.gap.start, stretch.gap.end - 2))
                self._older = stretch.older
                self._first = self._archive.first_offset if stretch.older is None else stretch.older
                if self._earlier is not None and self._first <= self._earlier.end:
                    self._join_earlier()
                self._trim()

    def _trim(self) -> None:
        """Hold the newest events only."""
        if len(self._events) <= self._events_max:
            return
        while len(self._events) > self._events_max:
            gone = self._events.popleft()
            self._first, self._first_ms = gone.offset + 1, gone.time_ms
        self._older = self._earlier = None
        self._gaps = [gap for gap in self._gaps if gap[1] >= self._first]


def _events(changes: Sequence[Change]) -> list[Event]:
    """Return the events of changes, which are in the order of the log."""
    return [event for change in changes for event in events_of(change)]
