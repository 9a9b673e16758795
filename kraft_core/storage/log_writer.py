"""What the I/O thread does to the files of the log: a queue of operations, carried out in order by `flush`.

The owner puts operations in at one end while the I/O thread takes them out at the other; a deque allows that without a
lock. An operation names the segment and the place, so nothing of the owner's picture is read here.
"""

from collections import deque
from pathlib import Path
from typing import Final, NamedTuple

from kraft_core.storage.files import FileSystem, StorageError, storage_errors, write_all
from kraft_core.storage.log_segment import LogSegment

_IOV_MAX: Final = 512


class Append(NamedTuple):
    """Write a batch at a position of a segment; the log then ends at `end_offset`."""

    segment: LogSegment
    position: int
    data: bytes
    end_offset: int


class Roll(NamedTuple):
    """Seal one segment and create the next."""

    sealed: LogSegment
    segment: LogSegment


class Remove(NamedTuple):
    """Delete segments and other files, in this order."""

    segments: tuple[LogSegment, ...]
    paths: tuple[Path, ...] = ()


class Cut(NamedTuple):
    """Shorten a segment's file; the log then ends at `end_offset`."""

    segment: LogSegment
    size: int
    end_offset: int


class Create(NamedTuple):
    """Create an empty segment; the log then ends at `end_offset`."""

    segment: LogSegment
    end_offset: int


Operation = Append | Roll | Remove | Cut | Create


class LogWriter:
    """The queue of one log's directory."""

    def __init__(self, files: FileSystem, directory: Path) -> None:
        self._files = files
        self._directory = directory
        self._pending: deque[Operation] = deque()
        self._failure: StorageError | None = None
        self.put = self._pending.append
        """Add an operation; any time, also during a flush, which then leaves it to the next one."""

    @property
    def has_failed(self) -> bool:
        """Whether a flush has failed; nothing is written any more."""
        return self._failure is not None

    def flush(self) -> int | None:
        """Carry out what was put in before this call, durably -> the end offset of the log on disk, None: unchanged.

        Raises StorageError, from then on always the same one: after a failed write or sync nobody knows what is on disk.
        """
        if self._failure is not None:
            raise self._failure
        operations = [self._pending.popleft() for _ in range(len(self._pending))]
        try:
            with storage_errors("write", self._directory):
                return self._perform(operations)
        except StorageError as error:
            self._failure = error
            raise

    def _perform(self, operations: list[Operation]) -> int | None:
        end: int | None = None
        dirty: LogSegment | None = None  # written to since its last sync
        appends: list[Append] = []
        for operation in operations:
            if isinstance(operation, Append):
                if len(appends) == _IOV_MAX:
                    self._write(appends)
                    appends = []
                appends.append(operation)
                dirty, end = operation.segment, operation.end_offset
                continue
            self._write(appends)
            appends = []
            if isinstance(operation, Roll):
                self._roll(operation)
                dirty = None
            elif isinstance(operation, Create):
                self._create(operation.segment)
                end = operation.end_offset
            elif isinstance(operation, Cut):
                self._files.truncate(operation.segment.descriptor, operation.size)
                self._files.fdatasync(operation.segment.descriptor)
                end = operation.end_offset
            else:
                self._remove(operation)
        self._write(appends)
        if dirty is not None and dirty.descriptor >= 0:  # a truncation in between may have removed it
            self._files.fdatasync(dirty.descriptor)
        return end

    def _roll(self, operation: Roll) -> None:
        self._files.fdatasync(operation.sealed.descriptor)  # before the next segment can be seen to exist
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
            self._files.sync_directory(self._directory)  # one by one, so that a crash leaves no hole
        if operation.paths:
            self._files.sync_directory(self._directory)

    def _write(self, appends: list[Append]) -> None:
        """Write consecutive batches, all of one segment: a roll stands between those of two. Raises OSError."""
        if not appends:
            return
        first = appends[0]
        buffers = [append.data for append in appends]
        written = self._files.pwritev(first.segment.descriptor, buffers, first.position)
        if written < sum(map(len, buffers)):
            rest = b"".join(buffers)[written:]
            write_all(self._files, first.segment.descriptor, rest, first.position + written)
