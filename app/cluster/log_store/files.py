"""The files of one cluster's stored metadata log, in one folder, in Kafka's own formats.

    00000000000000001200.log                    batches from offset 1,200 on, as they were fetched
    00000000000000001200-0000000007.checkpoint  the state before offset 1,200, a snapshot of the metadata
    00000000000000000900-00000000000000001200.gap   nothing is known of offsets 900 to 1,199

Log files follow each other without a hole unless a gap says so; batches of NoOp records may be missing. The state at an
offset is the newest checkpoint before it (an empty state at offset 0) and the batches between. One thread changes the
files; other threads may read them at the same time. Source: KIP-630.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraft_core.protocol.control_records import SnapshotHeaderRecord, decode_control
from kraft_core.protocol.errors import CorruptBatch
from kraft_core.protocol.record_batch import read_batches
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.storage.batch_scan import BadBatch, scan_batches
from kraft_core.storage.files import (
    OPERATING_SYSTEM,
    CorruptFile,
    create_directory,
    storage_errors,
    write_all,
    write_file,
)
from kraft_core.storage.folder_lock import FolderLock
from kraft_core.storage.log_segment import segment_name
from kraft_core.storage.snapshots import PART_SUFFIX, snapshot_id_of, snapshot_name

READ_BYTES: Final = 1024 * 1024
_HEADER_BYTES: Final = 4096
_LOG: Final = re.compile(r"(\d{20})\.log", re.ASCII)
_GAP: Final = re.compile(r"(\d{20})-(\d{20})\.gap", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Gap:
    """Offsets that were never read: from `start` up to `end`, exclusive."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, order=True)
class Checkpoint:
    """A stored state: everything before `end_offset`. `time_ms` is that of its newest change, `size` in bytes."""

    end_offset: int
    epoch: int
    time_ms: int
    size: int


class StoredLog:
    """What a folder holds, for any thread and process. The one that writes may delete files that are being read.

    Raises StorageError.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with storage_errors("read", folder):
            names = OPERATING_SYSTEM.names(folder)
            while (again := OPERATING_SYSTEM.names(folder)) != names:
                names = again  # a listing during changes may have a new file without one that is older
        self._list(names)

    def _list(self, names: Iterable[str]) -> None:
        known = sorted(names)
        self.logs = tuple(int(match[1]) for name in known if (match := _LOG.fullmatch(name)))
        self.gaps = tuple(Gap(int(match[1]), int(match[2])) for name in known if (match := _GAP.fullmatch(name)))
        found = (_read_checkpoint(self.folder, each) for each in map(snapshot_id_of, known) if each is not None)
        self.checkpoints = tuple(sorted(each for each in found if each is not None))

    def _path(self, base: int) -> Path:
        return self.folder / f"{segment_name(base)}.log"

    @property
    def is_empty(self) -> bool:
        """Whether nothing was stored yet."""
        return not self.logs

    def gap_with(self, offset: int) -> Gap | None:
        """Return the gap that contains `offset`, None for a known one.

        At the last offset of a gap the state is known: it is the checkpoint behind the gap.
        """
        return next((gap for gap in self.gaps if gap.start <= offset < gap.end - 1), None)

    def checkpoint_before(self, offset: int) -> Checkpoint | None:
        """Return the newest checkpoint of a state at or before `offset`, None for the empty state at offset 0."""
        found = [each for each in self.checkpoints if each.end_offset - 1 <= offset]
        return found[-1] if found else None

    def read_checkpoint(self, checkpoint: Checkpoint) -> bytes:
        """Return the bytes of a checkpoint. Raises StorageError."""
        path = self.folder / snapshot_name(OffsetAndEpoch(checkpoint.end_offset, checkpoint.epoch))
        with storage_errors("read", path):
            return path.read_bytes()

    def read_from(self, start: int, end: int) -> Iterator[tuple[bytes, int]]:
        """Yield the batches of the log files from the one that has `start` up to the one before `end`, in pieces.

        A piece is whole batches and the offset behind the last. It may begin with batches before `start`. Ends at a
        gap. Raises StorageError, CorruptFile.
        """
        logs = self.logs
        stop = min([end, *(gap.start for gap in self.gaps if gap.start >= start)])
        for base, following in zip(logs, (*logs[1:], None), strict=True):
            if (following is None or following > start) and base < stop:
                yield from _pieces(self._path(base))


class LogFiles(StoredLog):
    """The folder, opened and locked to be written. Torn batches at the end of the newest log file are cut off.

    Raises StorageError (FolderInUseError when another process has the folder).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        create_directory(folder)
        self._lock = FolderLock(folder)
        self._descriptor = -1
        self._size = 0  # of the newest log file
        try:
            self._load()
        except BaseException:
            self.close()
            raise

    def _load(self) -> None:
        names = OPERATING_SYSTEM.names(self.folder)
        with storage_errors("delete", self.folder):
            for name in names:
                if name.endswith(PART_SUFFIX):
                    OPERATING_SYSTEM.unlink(self.folder / name)
        self._list(names)
        self.end_offset = self.end_epoch = 0
        if self.logs:
            self._open_newest()
        for each in [each for each in self.checkpoints if each.end_offset > self.end_offset]:
            self._forget(each)  # of a run that had not begun when the process died

    def _open_newest(self) -> None:
        """Open the newest log file, and cut off what follows its last whole batch."""
        base, path = self.logs[-1], self._path(self.logs[-1])
        with storage_errors("open", path):
            self._descriptor = OPERATING_SYSTEM.open(path, os.O_RDWR)
            size = OPERATING_SYSTEM.size(self._descriptor)
        self.end_offset, position = base, 0
        ids = (snapshot_id_of(name) for name in OPERATING_SYSTEM.names(self.folder))
        self.end_epoch = max((each.epoch for each in ids if each is not None and each.offset == base), default=0)
        with storage_errors("read", path), contextlib.suppress(BadBatch):
            for at, batch in scan_batches(OPERATING_SYSTEM, self._descriptor, size):
                position = at + batch.size
                self.end_offset, self.end_epoch = batch.last_offset + 1, batch.leader_epoch
        if position < size:
            with storage_errors("truncate", path):
                OPERATING_SYSTEM.truncate(self._descriptor, position)
        self._size = position

    def close(self) -> None:
        """Close the newest file and release the folder."""
        if self._descriptor >= 0:
            OPERATING_SYSTEM.close(self._descriptor)
            self._descriptor = -1
        self._lock.release()

    @property
    def active_bytes(self) -> int:
        """Size of the newest log file."""
        return self._size

    @property
    def first_offset(self) -> int:
        """First offset at which the state is known."""
        if self.logs and self.logs[0] == 0:
            return 0
        return self.checkpoints[0].end_offset - 1 if self.checkpoints else self.end_offset

    def begin(self, base: int) -> None:
        """Begin a new log file at `base`, after making the newest one durable. Raises StorageError."""
        path = self._path(base)
        if self._descriptor >= 0:
            self.sync()
        with storage_errors("create", path):
            descriptor = OPERATING_SYSTEM.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            OPERATING_SYSTEM.sync_directory(self.folder)
        if self._descriptor >= 0:
            OPERATING_SYSTEM.close(self._descriptor)
        self._descriptor, self._size = descriptor, 0
        self.logs = (*(each for each in self.logs if each != base), base)

    def begin_after_gap(self, checkpoint: Checkpoint) -> None:
        """Continue behind a checkpoint that has just been written, and mark what is missing before it.

        Raises StorageError.
        """
        if self.logs and checkpoint.end_offset > self.end_offset:
            gap = Gap(self.end_offset, checkpoint.end_offset)
            write_file(self.folder / f"{segment_name(gap.start)}-{segment_name(gap.end)}.gap", b"")
            self.gaps = (*self.gaps, gap)
        self.begin(checkpoint.end_offset)
        self.end_offset, self.end_epoch = checkpoint.end_offset, checkpoint.epoch

    def append(self, data: bytes, end_offset: int, epoch: int) -> None:
        """Append whole batches, the last of which ends before `end_offset`. Raises StorageError: nothing was added."""
        path = self._path(self.logs[-1])
        try:
            with storage_errors("write", path):
                write_all(OPERATING_SYSTEM, self._descriptor, data, self._size)
        except BaseException:
            with contextlib.suppress(OSError):
                OPERATING_SYSTEM.truncate(self._descriptor, self._size)
            raise
        self._size += len(data)
        self.end_offset, self.end_epoch = end_offset, epoch

    def sync(self) -> None:
        """Make the newest log file durable. Raises StorageError."""
        with storage_errors("sync", self._path(self.logs[-1])):
            OPERATING_SYSTEM.fdatasync(self._descriptor)

    def add_checkpoint(self, snapshot_id: OffsetAndEpoch) -> Checkpoint:
        """Add a checkpoint whose file has just been written, and return it. Raises StorageError."""
        found = _read_checkpoint(self.folder, snapshot_id)
        assert found is not None, "the file was checked when it got its name"
        self.checkpoints = tuple(sorted({*self.checkpoints, found}))
        return found

    def total_bytes(self) -> int:
        """Size of all files."""
        logs = sum(OPERATING_SYSTEM.size_of(self._path(base)) or 0 for base in self.logs)
        return logs + sum(each.size for each in self.checkpoints)

    def drop_oldest(self) -> bool:
        """Delete everything before the second state from which the log can be replayed; False if there is only one.

        Raises StorageError.
        """
        starts = [each.end_offset for each in self.checkpoints]
        if self.logs and self.logs[0] == 0:
            starts.insert(0, 0)
        if len(starts) < 2:
            return False
        first = starts[1]
        kept_from = max(base for base in self.logs if base <= first)
        gone = [base for base in self.logs if base < kept_from]
        self.logs = tuple(base for base in self.logs if base >= kept_from)
        with storage_errors("delete", self.folder):
            for base in gone:
                OPERATING_SYSTEM.unlink(self._path(base))
            for gap in [each for each in self.gaps if each.end <= first]:
                OPERATING_SYSTEM.unlink(self.folder / f"{segment_name(gap.start)}-{segment_name(gap.end)}.gap")
                self.gaps = tuple(each for each in self.gaps if each != gap)
        for each in [each for each in self.checkpoints if each.end_offset < first]:
            self._forget(each)
        return True

    def _forget(self, checkpoint: Checkpoint) -> None:
        self.checkpoints = tuple(each for each in self.checkpoints if each != checkpoint)
        path = self.folder / snapshot_name(OffsetAndEpoch(checkpoint.end_offset, checkpoint.epoch))
        with storage_errors("delete", path):
            OPERATING_SYSTEM.unlink(path)

    def count_records(self, start: int) -> int:
        """Return the number of records from `start` to the end of the log. Raises StorageError."""
        pieces = self.read_from(start, self.end_offset)
        batches = (batch for data, _ in pieces for batch in read_batches(data, verify_crc=False))
        return sum(batch.record_count for batch in batches if batch.base_offset >= start)


def _pieces(path: Path) -> Iterator[tuple[bytes, int]]:
    """Yield a log file in pieces of whole batches. Bytes behind the last whole batch are being written now."""
    with storage_errors("read", path), path.open("rb") as file:
        rest, position = b"", 0
        while data := file.read(READ_BYTES):
            rest += data
            size = end = 0
            try:
                for batch in read_batches(rest, verify_crc=False):
                    size, end = size + batch.size, batch.last_offset + 1
            except CorruptBatch as bad:
                raise CorruptFile(path, position + bad.position, str(bad)) from bad
            if size:
                yield rest[:size], end
                rest, position = rest[size:], position + size


def _read_checkpoint(folder: Path, snapshot_id: OffsetAndEpoch) -> Checkpoint | None:
    """Return a checkpoint by its first batch; None when the file has no header record."""
    path = folder / snapshot_name(snapshot_id)
    with storage_errors("read", path), path.open("rb") as file:
        data, size = file.read(_HEADER_BYTES), os.fstat(file.fileno()).st_size
    with contextlib.suppress(CorruptBatch):
        for batch in read_batches(data):
            for record in batch.records() if batch.is_control else ():
                header = decode_control(record.key or b"", record.value or b"")
                if isinstance(header, SnapshotHeaderRecord):
                    return Checkpoint(snapshot_id.offset, snapshot_id.epoch, header.last_contained_log_timestamp, size)
    return None
