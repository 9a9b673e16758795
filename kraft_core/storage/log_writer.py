"""The queue of the log's file operations, which `flush` carries out in order on the I/O thread.

The owner appends operations while the I/O thread removes them; a deque allows that without a lock. An operation
contains the segment and the position, so the I/O thread does not read the owner's state.
"""

from collections import deque
from pathlib import Path
from typing import Final, NamedTuple

from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.storage.files import FileSystem, StorageError, storage_errors, write_all, write_file
from kraft_core.storage.flushed_offset import FlushedOffset
from kraft_core.storage.leader_epochs import CHECKPOINT_NAME
from kraft_core.storage.log_segment import LogSegment

_IOV_MAX: Final = 512


class Append(NamedTuple):
    """Write a batch of an epoch at a position of a segment; the log then ends at `end_offset`."""

    segment: LogSegment
    position: int
    data: bytes
    end_offset: int
    epoch: int


class Roll(NamedTuple):
    """Seal one segment and create the next."""

    sealed: LogSegment
    segment: LogSegment


class Remove(NamedTuple):
    """Delete other files, then segments one by one.

    Kafka renames a file to `.deleted` and waits a minute, for threads that may still read it. Here only the owner
    reads, through descriptors that stay valid, and a deleted snapshot is answered with SNAPSHOT_NOT_FOUND.
    """

    segments: tuple[LogSegment, ...]
    paths: tuple[Path, ...] = ()


class Lower(NamedTuple):
    """Lower the flushed offset before a truncation to `end`, or before an emptied log begins there."""

    end: OffsetAndEpoch


class Cut(NamedTuple):
    """Truncate a segment's file; the log then ends at `end`."""

    segment: LogSegment
    size: int
    end: OffsetAndEpoch


class Create(NamedTuple):
    """Create an empty segment; the log then ends at `end`."""

    segment: LogSegment
    end: OffsetAndEpoch


class WriteEpochs(NamedTuple):
    """Replace leader-epoch-checkpoint."""

    text: str


Operation = Append | Roll | Remove | Lower | Cut | Create | WriteEpochs


class LogWriter:
    """The queue of one log."""

    def __init__(self, files: FileSystem, directory: Path, flushed: FlushedOffset) -> None:
        self._files = files
        self._flushed = flushed
        self._directory = directory
        self.pending: deque[Operation] = deque()
        self._failure: StorageError | None = None
        self.put = self.pending.append
        """Add an operation. One that is added during a flush belongs to the next flush."""

    @property
    def has_failed(self) -> bool:
        """Whether a flush has failed; then nothing more is written."""
        return self._failure is not None

    def flush(self) -> int | None:
        """Carry out the operations added before this call, durably; return the log's new end offset on disk, if any.

        Raises StorageError, and then the same one at every later call: after a failed write or sync the disk's content
        is unknown.
        """
        if self._failure is not None:
            raise self._failure
        operations = [self.pending.popleft() for _ in range(len(self.pending))]
        try:
            with storage_errors("write", self._directory):
                return self._perform(operations)
        except StorageError as error:
            self._failure = error
            raise

    def _perform(self, operations: list[Operation]) -> int | None:
        end: OffsetAndEpoch | None = None
        epochs: WriteEpochs | None = None
        dirty: LogSegment | None = None  # written since its last sync
        appends: list[Append] = []
        for operation in operations:
            if isinstance(operation, Append):
                if len(appends) == _IOV_MAX:
                    end = self._write(appends)
                    appends = []
                appends.append(operation)
                dirty = operation.segment
                continue
            if appends:
                end = self._write(appends)
                appends = []
            match operation:
                case Roll():
                    self._roll(operation)
                    dirty = None
                case Create():
                    self._create(operation.segment)
                    end = operation.end
                case Lower():
                    self._flushed.lower_to(operation.end)
                case Cut():
                    self._files.truncate(operation.segment.descriptor, operation.size)
                    self._files.fdatasync(operation.segment.descriptor)
                    end = operation.end
                case WriteEpochs():
                    epochs = operation
                case Remove():
                    self._remove(operation)
        if appends:
            end = self._write(appends)
        if dirty is not None and dirty.descriptor >= 0:  # a truncation may have removed it
            self._files.fdatasync(dirty.descriptor)
        if end is not None:
            self._flushed.raise_to(end)
        if epochs is not None:
            write_file(self._directory / CHECKPOINT_NAME, epochs.text.encode("ascii"), self._files)
        return None if end is None else end.offset

    def _roll(self, operation: Roll) -> None:
        self._files.fdatasync(operation.sealed.descriptor)  # before the next segment becomes visible
        operation.sealed.write_indexes()
        self._create(operation.segment)

    def _create(self, segment: LogSegment) -> None:
        segment.open(create=True)
        self._files.sync_directory(self._directory)

    def _remove(self, operation: Remove) -> None:
        for path in operation.paths:
            self._files.unlink(path)
        for segment in operation.segments:
            segment.remove()
            self._files.sync_directory(self._directory)  # one by one, so that a crash leaves no gap
        if operation.paths:
            self._files.sync_directory(self._directory)

    def _write(self, appends: list[Append]) -> OffsetAndEpoch:
        """Write consecutive batches of one segment (a Roll separates segments); return the log's end then."""
        first = appends[0]
        buffers = [append.data for append in appends]
        written = self._files.pwritev(first.segment.descriptor, buffers, first.position)
        if written < sum(map(len, buffers)):
            rest = b"".join(buffers)[written:]
            write_all(self._files, first.segment.descriptor, rest, first.position + written)
        return OffsetAndEpoch(appends[-1].end_offset, appends[-1].epoch)
