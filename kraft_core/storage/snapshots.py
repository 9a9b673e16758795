"""Metadata snapshots as files: `<end offset>-<epoch>.checkpoint`, in the format of a log segment.

A snapshot is written with the suffix `.part` and gets its name when it is complete, checked and durable. A snapshot
without its footer is ignored; a damaged one stops the node, since the disk cannot be trusted.

Source: Snapshots, FileRawSnapshotWriter, KafkaRaftLog.recoverSnapshots, Kafka 4.3.1; KIP-630.
"""

import logging
import os
import re
import threading
from pathlib import Path
from typing import Final

from kraft_core.protocol.batch_header import BatchHeader
from kraft_core.protocol.control_records import (
    ControlRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    decode_control,
)
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.record_batch import read_batches
from kraft_core.raft.raft_log import BOOTSTRAP_SNAPSHOT_ID, OffsetAndEpoch
from kraft_core.storage.batch_scan import REPAIR, BadBatch, CutBatch, scan_batches
from kraft_core.storage.files import OPERATING_SYSTEM, CorruptFile, FileSystem, StorageError, storage_errors, write_all

log = logging.getLogger(__name__)

SUFFIX: Final = ".checkpoint"
PART_SUFFIX: Final = ".part"
DELETED_SUFFIX: Final = ".deleted"
_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint", re.ASCII)


class IncompleteSnapshot(StorageError):  # noqa: N818  # not always an error: the snapshot may be ignored
    """The file does not begin with a snapshot header or does not end with its footer."""


def snapshot_name(snapshot_id: OffsetAndEpoch) -> str:
    """Return the file name of a snapshot. Source: Snapshots.filenameFromSnapshotId."""
    return f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}{SUFFIX}"


def snapshot_id_of(name: str) -> OffsetAndEpoch | None:
    """Return the snapshot id of a file name; None for other names, including `.part` and `.deleted` files."""
    match = _NAME.fullmatch(name)
    return OffsetAndEpoch(int(match[1]), int(match[2])) if match else None


def check_snapshot(path: Path, files: FileSystem = OPERATING_SYSTEM) -> int:
    """Check every batch of a snapshot file; return its lastContainedLogTimestamp in ms.

    Raises IncompleteSnapshot for a missing header or footer, CorruptFile for damaged bytes, else StorageError.
    """
    with storage_errors("read", path):
        descriptor = files.open(path, os.O_RDONLY)
    try:
        with storage_errors("read", path):
            return _check_batches(files, descriptor, path)
    finally:
        files.close(descriptor)


def _check_batches(files: FileSystem, descriptor: int, path: Path) -> int:
    size = files.size(descriptor)
    first: tuple[int, BatchHeader] | None = None
    last: tuple[int, BatchHeader] | None = None
    try:
        for batch in scan_batches(files, descriptor, size):
            first = first or batch
            last = batch
    except CutBatch as bad:
        raise IncompleteSnapshot(f"{path} is not a whole snapshot: {bad.reason}") from bad
    except BadBatch as bad:
        raise CorruptFile(path, bad.position, bad.reason) from bad
    if first is None or last is None:
        raise IncompleteSnapshot(f"{path} is not a whole snapshot: it is empty")
    header = _first_control_record(files, descriptor, path, *first)
    footer = _first_control_record(files, descriptor, path, *last)
    if not isinstance(header, SnapshotHeaderRecord):
        raise IncompleteSnapshot(f"{path} is not a whole snapshot: its header is missing")
    if not isinstance(footer, SnapshotFooterRecord):
        raise IncompleteSnapshot(f"{path} is not a whole snapshot: its footer is missing")
    return header.last_contained_log_timestamp


def _first_control_record(
    files: FileSystem, descriptor: int, path: Path, position: int, batch: BatchHeader
) -> ControlRecord | None:
    """Read the first control record of a batch; None when it has none. Raises CorruptFile."""
    if not batch.is_control:
        return None
    try:
        for whole in read_batches(files.pread(descriptor, batch.size, position), verify_crc=False):
            for record in whole.records():
                return decode_control(record.key or b"", record.value or b"")
    except KafkaError as error:
        raise CorruptFile(path, position, error.message) from error
    return None


class FileSnapshotSink:
    """A snapshot being written to `<name>.part` by one thread at a time; `freeze` adds it to the store."""

    def __init__(self, store: "SnapshotStore", snapshot_id: OffsetAndEpoch) -> None:
        self._store = store
        self._files = store.files
        self._id = snapshot_id
        self._path = store.path(snapshot_id)
        self._part = self._path.with_name(self._path.name + PART_SUFFIX)
        self._size = 0
        self._is_frozen = False
        with storage_errors("create", self._part):
            self._files.unlink(self._part)
            self._descriptor = self._files.open(self._part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)

    @property
    def id(self) -> OffsetAndEpoch:
        """The snapshot's end offset and epoch."""
        return self._id

    @property
    def size(self) -> int:
        """Bytes appended so far."""
        return self._size

    def append(self, data: bytes) -> None:
        """Append bytes. Raises ValueError when frozen or aborted, StorageError when the disk fails."""
        if self._descriptor < 0:
            raise ValueError(f"Snapshot {self._path.name} takes no more bytes: it is frozen or aborted.")
        with storage_errors("write", self._part):
            write_all(self._files, self._descriptor, data, self._size)
        self._size += len(data)

    def freeze(self) -> None:
        """Check the file, make it durable and read-only, and rename it. A second call does nothing.

        Raises IncompleteSnapshot or CorruptFile, and deletes the file, when it is not a complete snapshot.
        """
        if self._is_frozen:
            return
        if self._descriptor < 0:
            raise ValueError(f"Snapshot {self._path.name} was aborted.")
        try:
            timestamp_ms = check_snapshot(self._part, self._files)
            with storage_errors("write", self._path):
                self._files.chmod(self._descriptor, 0o400)
                self._files.fsync(self._descriptor)
                self._files.rename(self._part, self._path)
                self._files.sync_directory(self._path.parent)
        except BaseException:
            self.abort()
            raise
        self._files.close(self._descriptor)
        self._descriptor = -1
        self._is_frozen = True
        self._store.add(self._id, timestamp_ms)

    def abort(self) -> None:
        """Delete what was written; does nothing after `freeze`."""
        if self._descriptor >= 0:
            self._files.close(self._descriptor)
            self._descriptor = -1
            with storage_errors("delete", self._part):
                self._files.unlink(self._part)


class SnapshotStore:
    """The complete snapshots of a directory.

    The thread that writes a snapshot may call `begin` and `add`; only the owner calls the other methods. The list is
    replaced as a whole, so a reader never sees a partial change.
    """

    def __init__(self, directory: Path, files: FileSystem = OPERATING_SYSTEM) -> None:
        self.files = files
        self._directory = directory
        self._change = threading.Lock()  # held while `_ids` is replaced
        self._timestamps: dict[OffsetAndEpoch, int] = {}  # of the checked snapshots
        self._ids: tuple[OffsetAndEpoch, ...] = ()
        self._reader: tuple[OffsetAndEpoch, int, int] | None = None  # id, descriptor, size
        self.ignored = ""
        """" (ignored: …)" for a message, when incomplete snapshots were found."""

    def path(self, snapshot_id: OffsetAndEpoch) -> Path:
        """Return the path of a snapshot's file."""
        return self._directory / snapshot_name(snapshot_id)

    @property
    def ids(self) -> tuple[OffsetAndEpoch, ...]:
        """All complete snapshots, oldest first."""
        return self._ids

    def load(self) -> None:
        """Find the snapshots and check the newest; ignore it if it is incomplete, and check the one before.

        Deletes `.part` and `.deleted` files. Raises CorruptFile if the newest is damaged, and StorageError if only an
        incomplete 0-0 checkpoint is left: without its voter set this node would assume a static quorum.
        """
        found: list[OffsetAndEpoch] = []
        with storage_errors("list", self._directory):
            for name in self.files.names(self._directory):
                if name.endswith((SUFFIX + PART_SUFFIX, SUFFIX + DELETED_SUFFIX)):
                    self.files.unlink(self._directory / name)
                elif (snapshot_id := snapshot_id_of(name)) is not None:
                    found.append(snapshot_id)
        found.sort()
        while found and not self._is_whole(found[-1]):
            if found.pop() == BOOTSTRAP_SNAPSHOT_ID:
                raise StorageError(f"The first voter set of this quorum cannot be read{self.ignored}. {REPAIR}")
        self._ids = tuple(found)

    def _is_whole(self, snapshot_id: OffsetAndEpoch) -> bool:
        """Return whether a snapshot is complete; check it once. Raises CorruptFile."""
        if snapshot_id not in self._timestamps:
            try:
                self._timestamps[snapshot_id] = check_snapshot(self.path(snapshot_id), self.files)
            except IncompleteSnapshot as error:
                self.ignored += f" (ignored: {error})"
                log.error("incomplete_snapshot_ignored", extra={"reason": str(error)})  # noqa: TRY400  # no traceback
                return False
        return True

    def begin(self, snapshot_id: OffsetAndEpoch) -> FileSnapshotSink:
        """Start writing a snapshot, replacing an incomplete one of the same id."""
        return FileSnapshotSink(self, snapshot_id)

    def add(self, snapshot_id: OffsetAndEpoch, timestamp_ms: int) -> None:
        """Add a snapshot that has just been completed."""
        self._timestamps[snapshot_id] = timestamp_ms
        with self._change:
            self._ids = tuple(sorted({*self._ids, snapshot_id}))

    def read(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> tuple[bytes, int] | None:
        """Return (bytes from `position`, total size); None when there is no such complete snapshot.

        The file is checked before its first byte is returned. Raises CorruptFile, StorageError.
        """
        if snapshot_id not in self._ids:
            return None
        if not self._is_whole(snapshot_id):
            with self._change:
                self._ids = tuple(each for each in self._ids if each != snapshot_id)
            return None
        if self._reader is None or self._reader[0] != snapshot_id:
            self.close()
            path = self.path(snapshot_id)
            with storage_errors("read", path):
                descriptor = self.files.open(path, os.O_RDONLY)
                self._reader = (snapshot_id, descriptor, self.files.size(descriptor))
        _, descriptor, size = self._reader
        with storage_errors("read", self.path(snapshot_id)):
            return self.files.pread(descriptor, max_bytes, position), size

    def size(self, snapshot_id: OffsetAndEpoch) -> int:
        """Return the size of a snapshot's file in bytes; 0 when it does not exist."""
        return self.files.size_of(self.path(snapshot_id)) or 0

    def timestamp_ms(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """Return the time of the last record in a snapshot; None when the file is incomplete."""
        return self._timestamps[snapshot_id] if self._is_whole(snapshot_id) else None

    def forget_before(self, snapshot_id: OffsetAndEpoch) -> list[Path]:
        """Remove older snapshots; return their files for the I/O thread to delete."""
        with self._change:
            older = [each for each in self._ids if each < snapshot_id]
            self._ids = tuple(each for each in self._ids if each >= snapshot_id)
        if self._reader is not None and self._reader[0] in older:
            self.close()
        for each in older:
            self._timestamps.pop(each, None)
        return [self.path(each) for each in older]

    def close(self) -> None:
        """Close the file being read."""
        if self._reader is not None:
            self.files.close(self._reader[1])
            self._reader = None
