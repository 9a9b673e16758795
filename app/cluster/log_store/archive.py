"""The state of the cluster at any offset that is kept: from memory for the newest changes, else from the stored log."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from app.cluster.history import Change, History
from app.cluster.log_store.files import Gap, LogFiles
from app.cluster.log_store.recorder import Recorder, has_news
from app.cluster.log_store.replay import Replay
from app.cluster.topic_table import TopicTable
from app.tasks import cancel_tasks
from app.texts import phrase, sentences
from kraft_core.image.metadata_image import MetadataImage

PATIENCE_SECONDS: Final = 2.0
"""Longest time that a request waits for a state; later requests find what was prepared meanwhile."""
STATES_MAX: Final = 8
PARTITIONS_MAX: Final = 400_000
"""Of all states in memory that the stored log made; at least one is kept."""
BUILDS_MAX: Final = 8
GAPS_NAMED: Final = 3


class StateUnknown(LookupError):  # noqa: N818 - it names what is the case
    """The state at an offset or a time is not known: it is not kept, or lies in the future."""

    def __init__(self, message: str, *, is_future: bool) -> None:
        super().__init__(message)
        self.is_future = is_future


class StateBeingPrepared(Exception):  # noqa: N818 - it is no error
    """The state is being read from disk; ask again in a second."""

    def __init__(self, offset: int) -> None:
        super().__init__(
            phrase("The state at offset %(offset)s is being prepared. Ask again in a second.", offset=offset)
        )


@dataclass(frozen=True, slots=True)
class Past:
    """The state after the last change at or before `offset`, with the changes before it that are at hand.

    `time_ms` is that of the newest change, 0 if unknown.
    """

    offset: int
    time_ms: int
    image: MetadataImage
    history: History
    table: TopicTable
    partitions: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Changes, newest first. Older ones are before offset `older`, None at the start of what is kept.

    `gap` lies directly before them.
    """

    changes: list[Change]
    older: int | None
    gap: Gap | None


class Archive:
    """Finds past states. `history` is the part in memory."""

    def __init__(self, history: History, records_max: int, newest_offset: Callable[[], int]) -> None:
        self.recorder: Recorder | None = None
        self._history = history
        self._records_max = records_max
        self._newest_offset = newest_offset
        self._cached: OrderedDict[int, Past] = OrderedDict()
        self._builds: dict[int, asyncio.Task[Past]] = {}
        self._reading = asyncio.Lock()

    async def stop(self) -> None:
        """End what is being prepared."""
        await cancel_tasks(*self._builds.values())

    @property
    def _files(self) -> LogFiles | None:
        return None if self.recorder is None else self.recorder.files

    @property
    def folder(self) -> Path | None:
        """The folder of the stored log, None while nothing is kept on disk."""
        return None if self._files is None else self._files.folder

    @property
    def first_offset(self) -> int:
        """First offset at which the state is known."""
        in_memory = max(0, self._history.oldest_offset - 1)
        files = self._files
        return in_memory if files is None or files.is_empty else min(in_memory, files.first_offset)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What is missing in between, oldest first."""
        return () if self._files is None else self._files.gaps

    @property
    def trouble(self) -> str:
        """Why nothing is kept on disk now, "" if it is."""
        return "" if self.recorder is None else self.recorder.trouble

    def kept_text(self) -> str:
        """Return what is kept, in one sentence."""
        gaps = [f"{gap.start} to {gap.end - 2}" for gap in self.gaps if gap.end - 2 >= gap.start]
        values = {"first": self.first_offset, "last": self._newest_offset()}
        if not gaps:
            return phrase("Kept are offsets %(first)s to %(last)s.", **values)
        without = ", ".join(gaps[-GAPS_NAMED:])
        return phrase("Kept are offsets %(first)s to %(last)s, without %(gaps)s.", gaps=without, **values)

    def _not_known(self, why: str, *, is_future: bool) -> StateUnknown:
        return StateUnknown(sentences([why, self.kept_text()]), is_future=is_future)

    async def at_offset(self, offset: int) -> Past:
        """Return the state at an offset. Raises StateUnknown, StateBeingPrepared, StorageError."""
        if offset > self._newest_offset():
            raise self._not_known(phrase("Offset %(offset)s is not committed yet.", offset=offset), is_future=True)
        if (cached := self._cached.get(offset)) is not None:
            self._cached.move_to_end(offset)
            return cached
        if not self._is_in_memory(offset):
            files = self._files
            if files is None or offset < self.first_offset or files.gap_with(offset) is not None:
                raise self._unknown(offset)
        return await self._built(offset)

    def _is_in_memory(self, offset: int) -> bool:
        return self._history.state_at(min(offset, self._history.newest_offset)) is not None

    def _unknown(self, offset: int) -> StateUnknown:
        return self._not_known(phrase("The state at offset %(offset)s is not kept.", offset=offset), is_future=False)

    async def at_time(self, time_ms: int) -> Past:
        """Return the state after the newest change that is not younger than `time_ms`. Raises as `at_offset`."""
        if time_ms > time.time() * 1000:
            raise self._not_known(phrase("That time is in the future."), is_future=True)
        offset = self._history.offset_at(time_ms)
        if offset is None and self._files is not None:
            files = self._files
            async with self._reading:
                offset = await asyncio.to_thread(_offset_at, files, time_ms)
        if offset is None:
            raise self._not_known(phrase("The state at that time is not kept."), is_future=False)
        return await self.at_offset(offset)

    async def stretch(self, before: int | None) -> Stretch:
        """Return the changes below an offset (None: all) back to where the memory or the next checkpoint begins.

        Raises StorageError, ReplayError.
        """
        end = self._history.newest_offset + 1 if before is None else min(before, self._history.newest_offset + 1)
        first = self.first_offset
        if end > self._history.oldest_offset or self._files is None or end <= first + 1:
            found = [change for change in self._history.newest(2**62) if change.offset < end]
            oldest = self._history.oldest_offset
            return Stretch(found, oldest if first < oldest and oldest > 0 else None, None)
        assert self.recorder is not None, "there are files"
        files = self._files
        async with self._reading:
            await self.recorder.written()
            return await asyncio.to_thread(_stretch, files, end)

    async def change_at(self, offset: int) -> Change | None:
        """Return the change that has an offset, None if nothing changed there or it is not kept.

        Raises StorageError, ReplayError.
        """
        files = self._files
        if offset >= self._history.oldest_offset:
            return next((each for each in self._history if each.first_offset <= offset <= each.offset), None)
        if files is None or offset <= files.first_offset - 1 or files.gap_with(offset) is not None:
            return None
        async with self._reading:
            return await asyncio.to_thread(_change_at, files, offset)

    async def _built(self, offset: int) -> Past:
        """Return the state from the stored log, prepared by one task for all requests."""
        if offset not in self._builds:
            if len(self._builds) >= BUILDS_MAX:
                raise StateBeingPrepared(offset)
            task = asyncio.create_task(self._build(offset), name=f"state-at-{offset}")
            self._builds[offset] = task
            task.add_done_callback(partial(self._end_build, offset))
        done, _ = await asyncio.wait({self._builds[offset]}, timeout=PATIENCE_SECONDS)
        if not done:
            raise StateBeingPrepared(offset)
        return done.pop().result()

    def _end_build(self, offset: int, task: asyncio.Task[Past]) -> None:
        self._builds.pop(offset, None)
        if not task.cancelled() and task.exception() is None:
            self._keep(task.result())

    async def _build(self, offset: int) -> Past:
        async with self._reading:
            found = self._history.state_at(min(offset, self._history.newest_offset))
            if found is not None:
                image, time_ms = found
                return await asyncio.to_thread(_past, offset, time_ms, image, self._history.up_to(offset))
            if self.recorder is not None:
                await self.recorder.written()
            files = self._files
            if files is None:
                raise self._unknown(offset)
            return await asyncio.to_thread(_replay_to, files, offset, self._records_max)

    def _keep(self, past: Past) -> None:
        self._cached[past.offset] = past
        self._cached.move_to_end(past.offset)
        while len(self._cached) > 1 and (len(self._cached) > STATES_MAX or self._partitions() > PARTITIONS_MAX):
            self._cached.popitem(last=False)

    def _partitions(self) -> int:
        return sum(past.partitions for past in self._cached.values())


def _past(offset: int, time_ms: int, image: MetadataImage, history: History) -> Past:
    """Return a state with its table, which takes a second or more for very many topics."""
    table = TopicTable()
    table.refresh(image)
    return Past(offset, time_ms, image, history, table, image.topics.partition_count())


def _replay_to(files: LogFiles, offset: int, records_max: int) -> Past:
    """Return the state at an offset that is in no gap. Raises StorageError, ReplayError."""
    replay = Replay(files, files.checkpoint_before(offset))
    history = History(records_max)
    history.snapshot(replay.start.image, replay.start.time_ms)
    for change in replay.changes(offset + 1):
        history.add(change)
    image = history.image
    state = history.state_at(image.offset)
    assert state is not None, "it is the newest state"
    return _past(offset, state[1], image, history)


def _stretch(files: LogFiles, end: int) -> Stretch:
    """Return the changes below `end` from the checkpoint before it on."""
    gap = files.gap_with(end - 1)
    if gap is not None:
        return Stretch([], gap.start, gap)
    replay = Replay(files, files.checkpoint_before(end - 2))
    history = History(2**62)
    history.snapshot(replay.start.image, replay.start.time_ms)
    for change in replay.changes(end):
        history.add(change)
    start = replay.start.end_offset
    gap = next((each for each in files.gaps if each.end == start), None)
    older = gap.start if gap is not None else start
    return Stretch(history.newest(2**62), older if older > files.first_offset + 1 else None, gap)


def _change_at(files: LogFiles, offset: int) -> Change | None:
    """Return the stored change that has an offset, None if nothing changed there."""
    history = History(1)
    for change in Replay(files, files.checkpoint_before(offset - 1)).changes(files.end_offset):
        history.add(change)
        if change.last_offset >= offset:
            break
    return next((each for each in history if each.first_offset <= offset <= each.offset), None)


def _offset_at(files: LogFiles, time_ms: int) -> int | None:
    """Return the offset of the newest stored change that is not younger than `time_ms`, None if that is not known."""
    later: int = files.end_offset
    for checkpoint in reversed(files.checkpoints):
        if checkpoint.time_ms <= time_ms:
            return _newest_change(files, checkpoint.end_offset, later, time_ms)
        later = checkpoint.end_offset
    return _newest_change(files, 0, later, time_ms) if files.first_offset == 0 else None


def _newest_change(files: LogFiles, start: int, end: int, time_ms: int) -> int | None:
    """Search one stretch of the log, which begins at a checkpoint, or at offset 0 without one."""
    found = start - 1
    is_followed = False  # by a younger change
    replay = Replay(files, files.checkpoint_before(start - 1) if start else None)
    for change in replay.changes(end):
        if has_news(change) and change.timestamp_ms <= time_ms:
            found, is_followed = change.last_offset, False
        elif has_news(change):
            is_followed = True
    ends_in_gap = any(gap.start <= end <= gap.end for gap in files.gaps)
    return found if found >= 0 and (is_followed or not ends_in_gap) else None
