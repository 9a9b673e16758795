"""Keeps what the observer reads: appends batches to the stored log, writes checkpoints, and deletes what is too old.

The event loop hands over bytes and images; a thread writes them, and makes them durable at most every second. A failed
write (a full disk) pauses the history: up to QUEUE_BYTES_MAX wait for the disk, more are a gap. A batch of nothing but
NoOp records is stored only once a minute of the log, and before another epoch begins.
"""

import asyncio
import contextlib
import logging
import shutil
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.cluster.history import MARKS
from app.cluster.log_store.files import Checkpoint, Gap, LogFiles
from app.cluster.log_store.replay import Replay
from app.forked import ForkFailedError, run_forked
from app.tasks import cancel_tasks
from app.texts import phrase
from kraft_core.clients.observed_log import CommittedChange, ObservedLog
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.replay_error import ReplayError
from kraft_core.node_snapshot import write_image
from kraft_core.protocol.control_records import VotersRecord
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.record_batch import RecordBatch
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.raft.snapshot.writer import SnapshotWriter
from kraft_core.raft.voter_set import VoterSet
from kraft_core.storage.files import StorageError, storage_errors
from kraft_core.storage.snapshots import SnapshotStore

log = logging.getLogger(__name__)

CHECKPOINT_BYTES: Final = 4 * 1024 * 1024
"""Least size of the log between two checkpoints. It grows with the state, so that a replay costs what a load does."""
QUEUE_BYTES_MAX: Final = 32 * 1024 * 1024
NOOP_MS: Final = 60_000
GATHER_SECONDS: Final = 0.02
SYNC_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 5.0
RETENTION_SECONDS: Final = 600.0
DAY_MS: Final = 86_400_000
LOST_SUFFIX: Final = ".lost"


@dataclass(frozen=True, slots=True)
class Limits:
    """What is kept: at most about `bytes_max` of files, and nothing that is older than `days`."""

    bytes_max: int
    days: int


@dataclass(frozen=True, slots=True)
class State:
    """The state after everything up to and with `image.offset`, with its voters; its newest change was at `time_ms`."""

    image: MetadataImage
    time_ms: int
    voters: VotersRecord | None


@dataclass(frozen=True, slots=True)
class _Batches:
    data: bytes
    start: int
    end: int
    epoch: int


class Recorder:
    """The stored log of one cluster. Open it before the observer starts; `add` and `snapshot` are its listeners."""

    def __init__(self, folder: Path, limits: Limits, voters: Callable[[], VotersRecord | None]) -> None:
        self.folder = folder
        self.trouble = ""
        """Why the history is paused, in one sentence; "" while it is kept."""
        self.files: LogFiles | None = None
        self._limits = limits
        self._voters = voters
        self._queue: deque[_Batches | State | None] = deque()
        self._queue_bytes = 0
        self._end = 0  # of what was queued
        self._epoch = 0
        self._time_ms = 0  # of the newest change
        self._stored_ms = 0  # of the newest queued batch
        self._noop: RecordBatch | None = None  # the newest batch that was left out
        self._since_checkpoint = 0
        self._current: State | None = None
        self._has_gap = False  # a checkpoint is needed before the next batch
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_stopping = False
        self._task: asyncio.Task[None] | None = None
        self._retained = -RETENTION_SECONDS  # time of the last clean-up

    # lifecycle

    async def open(self, records_max: int) -> tuple[ObservedLog, Replay, list[CommittedChange]] | None:
        """Open the folder and read the end of the log: the log to resume, its start, and its newest changes.

        These have at least `records_max` records, if so many are stored. None when nothing is stored or it cannot be
        used, which `trouble` says.
        """
        try:
            self.files = await asyncio.to_thread(LogFiles, self.folder)
        except StorageError as cause:
            log.error("history_not_opened", extra={"folder": str(self.folder), "cause": str(cause)})  # noqa: TRY400 - the cause says all
            self.trouble = phrase("The history on disk cannot be used: %(cause)s", cause=str(cause))
            return None
        try:
            read = None if self.files.is_empty else await asyncio.to_thread(_read_end, self.files, records_max)
        except (StorageError, KafkaError, ReplayError) as cause:
            log.error("history_unreadable", extra={"folder": str(self.folder), "cause": str(cause)})  # noqa: TRY400 - the cause says all
            await asyncio.to_thread(self._set_aside)
            return None
        if read is None:
            return None
        resumed, replay, changes = read
        self._end, self._epoch = self.files.end_offset, self.files.end_epoch
        self._time_ms = next((each.timestamp_ms for each in reversed(changes) if has_news(each)), replay.start.time_ms)
        self._stored_ms = changes[-1].timestamp_ms if changes else replay.start.time_ms
        self._since_checkpoint = self.files.active_bytes
        return resumed, replay, changes

    def start(self) -> None:
        """Start to write."""
        if self.files is not None:
            self._wake.set()  # for what is too old already
            self._task = asyncio.create_task(self._run(), name="history-recorder")

    async def stop(self) -> None:
        """Write what is queued, if the disk takes it, and close the folder."""
        self._is_stopping = True
        if self._task is not None:
            self._wake.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS):
                    await asyncio.shield(self._task)
            await cancel_tasks(self._task)
        if self.files is not None:
            await asyncio.to_thread(self.files.close)
            self.files = None

    async def written(self) -> None:
        """Wait until what was read so far is in the files, or cannot be written."""
        if self._task is not None and not self.trouble:
            await self._idle.wait()

    # listeners of the observer

    def add(self, change: CommittedChange) -> None:
        """Take the next committed change."""
        if self.files is None or change.batches[-1].last_offset < self._end:
            return
        is_news = has_news(change)
        if is_news:
            self._time_ms = change.timestamp_ms
        if change.is_boundary:
            self._current = State(change.after, self._time_ms, self._voters())
        if self._has_gap:
            return
        if not is_news and not change.control_records and change.timestamp_ms < self._stored_ms + NOOP_MS:
            self._noop = change.batches[-1]
            return
        kept = list(change.batches)
        if self._noop is not None and self._noop.leader_epoch != kept[0].leader_epoch:
            kept.insert(0, self._noop)
        self._noop = None
        self._put_batches([batch for batch in kept if batch.last_offset >= self._end])
        least = max(min(CHECKPOINT_BYTES, self._limits.bytes_max // 4), self._newest_checkpoint_bytes())
        if self._since_checkpoint >= least and change.is_boundary:
            self._since_checkpoint = 0
            assert self._current is not None, "it was set above"
            self._put(self._current)

    def snapshot(self, image: MetadataImage, time_ms: int) -> None:
        """Take the news that the observer has loaded a snapshot: the log before it is not read, unless it is stored."""
        if self.files is None or image.offset < self._end:
            return
        self._time_ms = time_ms
        self._current = State(image, time_ms, self._voters())
        self._begin_again()

    def diverged(self) -> None:
        """Set the stored log aside: the quorum has lost records that are in it."""
        self._queue.clear()
        self._queue_bytes = 0
        self._end = self._since_checkpoint = self._stored_ms = 0
        self._noop, self._current, self._has_gap = None, None, False
        self._put(None)

    def _begin_again(self) -> None:
        """Continue with a checkpoint of the current state, behind a gap."""
        self._has_gap = False
        assert self._current is not None, "a state was read"
        self._end = self._current.image.offset + 1
        self._since_checkpoint = 0
        self._noop = None
        self._put(self._current)

    def _newest_checkpoint_bytes(self) -> int:
        return self.files.checkpoints[-1].size if self.files is not None and self.files.checkpoints else 0

    def _put_batches(self, batches: list[RecordBatch]) -> None:
        data = b"".join(batch.raw for batch in batches)
        if self._queue_bytes + len(data) > QUEUE_BYTES_MAX:
            log.error("history_gap", extra={"from_offset": self._end, "cause": self.trouble})
            self._queue.clear()
            self._queue_bytes, self._has_gap = 0, True
            self._wake.set()
            return
        last = batches[-1]
        self._put(_Batches(data, self._end, last.last_offset + 1, last.leader_epoch))
        self._queue_bytes += len(data)
        self._since_checkpoint += len(data)
        self._end, self._epoch, self._stored_ms = last.last_offset + 1, last.leader_epoch, last.max_timestamp

    def _put(self, item: _Batches | State | None) -> None:
        self._queue.append(item)
        self._idle.clear()
        self._wake.set()

    # the writer

    async def _run(self) -> None:
        synced = time.monotonic()
        is_dirty = False
        while True:
            timeout = SYNC_SECONDS if is_dirty else RETENTION_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
            if not self._is_stopping:
                await asyncio.sleep(GATHER_SECONDS)
            self._wake.clear()
            try:
                if self._has_gap and self._current is not None:
                    self._begin_again()
                is_dirty = await self._write_queue() or is_dirty
                if is_dirty and (time.monotonic() - synced >= SYNC_SECONDS or self._is_stopping):
                    await asyncio.to_thread(self._files.sync)
                    synced, is_dirty = time.monotonic(), False
                if time.monotonic() - self._retained >= RETENTION_SECONDS:
                    self._retained = time.monotonic()
                    await asyncio.to_thread(self._retain)
                self.trouble = ""
            except (StorageError, OSError, ForkFailedError) as cause:
                await self._pause(cause)
            if self._is_stopping and (self.trouble or not self._queue):
                return

    @property
    def _files(self) -> LogFiles:
        assert self.files is not None, "the recorder runs only with open files"
        return self.files

    async def _pause(self, cause: Exception) -> None:
        """Say what is wrong, wait, and try again."""
        if not self.trouble:
            log.error("history_paused", extra={"folder": str(self.folder), "cause": str(cause)})
        self.trouble = phrase(
            "The history is paused, and changes made now may be missing in it: %(cause)s", cause=str(cause)
        )
        self._idle.set()
        if not self._is_stopping:
            await asyncio.sleep(RETRY_SECONDS)
        self._wake.set()

    async def _write_queue(self) -> bool:
        """Write what is queued; return whether batches were written."""
        wrote = False
        while self._queue:
            item = self._queue[0]
            if item is None:
                await asyncio.to_thread(self._set_aside)
                self._done(item)
                continue
            if isinstance(item, State):
                await self._write_checkpoint(item)
                self._done(item)
                continue
            items = _leading(self._queue)
            if self._files.is_empty:
                await asyncio.to_thread(self._files.begin, items[0].start)
            data = b"".join(each.data for each in items)
            await asyncio.to_thread(self._files.append, data, items[-1].end, items[-1].epoch)
            wrote = True
            for each in items:
                self._done(each)
        self._idle.set()
        return wrote

    def _done(self, item: _Batches | State | None) -> None:
        if self._queue and self._queue[0] is item:  # otherwise the queue was replaced meanwhile
            self._queue.popleft()
            if isinstance(item, _Batches):
                self._queue_bytes -= len(item.data)

    async def _write_checkpoint(self, state: State) -> None:
        """Write a state, and begin a log file behind it. A state that a snapshot cannot express is left out."""
        files, snapshot_id = self._files, OffsetAndEpoch(state.image.offset + 1, max(0, state.image.epoch))
        is_next = files.end_offset == snapshot_id.offset and not files.is_empty
        if is_next and files.active_bytes:
            await asyncio.to_thread(files.begin, snapshot_id.offset)
        try:
            await run_forked(lambda: _write_image(self.folder, snapshot_id, state))
            written = await asyncio.to_thread(files.add_checkpoint, snapshot_id)
        except (StorageError, OSError, ForkFailedError) as cause:
            if not is_next:
                raise
            log.warning("history_checkpoint_failed", extra={"offset": snapshot_id.offset, "cause": str(cause)})
            return
        if not is_next:
            await asyncio.to_thread(files.begin_after_gap, written)
        self._retained = -RETENTION_SECONDS

    def _set_aside(self) -> None:
        """Begin an empty store. The folder of before is kept as it is, until the next one is set aside."""
        aside = self.folder.with_name(self.folder.name + LOST_SUFFIX)
        self._files.close()
        with storage_errors("rename", self.folder):
            shutil.rmtree(aside, ignore_errors=True)
            self.folder.rename(aside)
        self.files = LogFiles(self.folder)

    def _retain(self) -> None:
        """Delete the oldest part while there is too much or it is too old. The newest checkpoint is always kept."""
        files, oldest_ms = self._files, time.time() * 1000 - self._limits.days * DAY_MS
        while (second := _second_start(files)) is not None:
            if files.total_bytes() <= self._limits.bytes_max and second.time_ms >= oldest_ms:
                return
            if not files.drop_oldest():
                return

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The gaps in what is stored."""
        return () if self.files is None else self.files.gaps


def _second_start(files: LogFiles) -> Checkpoint | None:
    """Return the second state from which the log can be replayed."""
    later = files.checkpoints if files.logs[:1] == (0,) else files.checkpoints[1:]
    return later[0] if later else None


def _leading(queue: "deque[_Batches | State | None]") -> list[_Batches]:
    """Return the batches at the head of the queue."""
    found: list[_Batches] = []
    for item in queue:
        if not isinstance(item, _Batches):
            break
        found.append(item)
    return found


def has_news(change: CommittedChange) -> bool:
    """Return whether the change feed shows the change."""
    return any(not isinstance(record, MARKS) for _, record in change.records)


def _write_image(folder: Path, snapshot_id: OffsetAndEpoch, state: State) -> None:
    voters = VoterSet.of([]) if state.voters is None else VoterSet.from_record(state.voters)
    version = 0 if state.voters is None else 1
    write_image(state.image, SnapshotWriter(SnapshotStore(folder).begin, snapshot_id, state.time_ms, version, voters))


def _read_end(files: LogFiles, records_max: int) -> tuple[ObservedLog, Replay, list[CommittedChange]]:
    """Replay the end of the log, from the newest checkpoint with at least `records_max` records behind it."""
    oldest_run = max((gap.end for gap in files.gaps), default=0)
    starts: list[Checkpoint | None] = [each for each in reversed(files.checkpoints) if each.end_offset >= oldest_run]
    if files.first_offset == 0 and not oldest_run:
        starts.append(None)
    if not starts:
        raise StorageError(f"{files.folder} has no state from which its log can be read.")
    enough = (each for each in starts if files.count_records(each.end_offset if each else 0) >= records_max)
    replay = Replay(files, next(enough, starts[-1]))
    changes = list(replay.changes(files.end_offset))
    replay.log.allow_gaps = False
    return replay.log, replay, changes
