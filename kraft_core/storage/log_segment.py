"""One segment of the metadata log: a file of whole batches, with a sparse index in memory.

The owner loop keeps the logical state (size, index), the I/O thread the file: so `size` may be ahead of the file, and
only bytes known to be written are read. Index and time index files are written for Kafka's tools when a segment is
sealed; they are never read, since opening the log scans the batches anyway.

Source: LogSegment, OffsetIndex, TimeIndex, Kafka 4.3.1.
"""

import os
import struct
from array import array
from bisect import bisect_right
from pathlib import Path
from typing import Final

from kraft_core.protocol.batch_header import HEADER_BYTES, LOG_OVERHEAD, PREFIX, BatchHeader, read_header
from kraft_core.storage.files import FileSystem, storage_errors, write_all

INDEX_INTERVAL_BYTES: Final = 4096
"""Minimum distance of index entries in bytes: log.index.interval.bytes."""
_WALK_BYTES: Final = 64 * 1024
SIBLINGS: Final = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")


def segment_name(base_offset: int) -> str:
    """Return the file name without its suffix: the base offset in 20 digits."""
    return f"{base_offset:020d}"


class LogSegment:
    """Batches from `base_offset` to `end_offset` (exclusive), `size` bytes."""

    __slots__ = (
        "base_offset",
        "descriptor",
        "directory",
        "end_offset",
        "files",
        "first_timestamp",
        "index_last_offsets",
        "index_offsets",
        "index_positions",
        "index_timestamps",
        "max_timestamp",
        "path",
        "size",
    )

    def __init__(self, files: FileSystem, directory: Path, base_offset: int) -> None:
        self.files = files
        self.directory = directory
        self.path = directory / f"{segment_name(base_offset)}.log"
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size = 0
        self.descriptor = -1  # set by the thread that creates or opens the file
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.index_offsets = array("q")
        self.index_last_offsets = array("q")  # of the same batches; Kafka's index files contain these
        self.index_positions = array("q")
        self.index_timestamps = array("q")  # -1 where an earlier batch has a later timestamp

    def open(self, *, create: bool) -> None:
        """Open the file; with `create` it must not exist yet. Raises StorageError."""
        flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0)
        with storage_errors("create" if create else "open", self.path):
            self.descriptor = self.files.open(self.path, flags)

    def close(self) -> None:
        """Close the file, if it is open."""
        if self.descriptor >= 0:
            self.files.close(self.descriptor)
            self.descriptor = -1

    def remove(self) -> None:
        """Close and delete the file and its index files; the caller syncs the directory. Raises OSError."""
        self.close()
        for suffix in SIBLINGS:
            self.files.unlink(self.path.with_suffix(suffix))

    def add(self, batch: BatchHeader) -> None:
        """Extend the logical state by a batch that begins at the current end."""
        positions = self.index_positions
        if not positions:
            self.first_timestamp = batch.base_timestamp
        if not positions or self.size - positions[-1] >= INDEX_INTERVAL_BYTES:
            self.index_offsets.append(batch.base_offset)
            self.index_last_offsets.append(batch.last_offset)
            positions.append(self.size)
            self.index_timestamps.append(batch.max_timestamp if batch.max_timestamp >= self.max_timestamp else -1)
        self.max_timestamp = max(self.max_timestamp, batch.max_timestamp)
        self.size += batch.size
        self.end_offset = batch.last_offset + 1

    def find(self, offset: int, limit: int) -> tuple[int, int, int]:
        """Return (position, base offset, size) of the batch that contains `offset`, within the first `limit` bytes."""
        assert self.base_offset <= offset < self.end_offset, (self.base_offset, offset, self.end_offset)
        position = self.index_positions[bisect_right(self.index_offsets, offset) - 1]
        buffer, start = b"", position
        while True:
            if position - start + HEADER_BYTES > len(buffer):
                buffer, start = self.files.pread(self.descriptor, _WALK_BYTES, position), position
            batch = read_header(buffer, position - start)
            if batch.last_offset >= offset:
                return position, batch.base_offset, batch.size
            position += batch.size
            assert position < limit, (self.path, position, limit)

    def read(self, offset: int, max_bytes: int, limit: int) -> bytes:
        """Read whole batches from the one that contains `offset`, up to file position `limit` (a batch boundary).

        At least one batch; otherwise at most `max_bytes`, or a little less if that saves reading headers. Raises
        StorageError.
        """
        with storage_errors("read", self.path):
            position, _, size = self.find(offset, limit)
            end = position + size
            if max_bytes > size:
                end = self._boundary(end, min(position + max_bytes, limit), limit)
            data = self.files.pread(self.descriptor, end - position, position)
        assert len(data) == end - position, (self.path, position, end, len(data))
        return data

    def _boundary(self, low: int, high: int, limit: int) -> int:
        """Return a batch boundary in [low, high]: the highest indexed one, else the highest by reading headers."""
        if high == limit:
            return high
        positions = self.index_positions
        indexed = positions[bisect_right(positions, high) - 1]
        if indexed > low:
            return indexed
        while low < high:
            length: int = PREFIX.unpack(self.files.pread(self.descriptor, LOG_OVERHEAD, low))[1]
            size = LOG_OVERHEAD + length
            if low + size > high:
                break
            low += size
        return low

    def truncate_to(self, position: int, end_offset: int) -> None:
        """Remove everything from `position` on from the logical state."""
        keep = bisect_right(self.index_positions, position - 1)
        del self.index_offsets[keep:]
        del self.index_last_offsets[keep:]
        del self.index_positions[keep:]
        del self.index_timestamps[keep:]
        if not keep:
            self.first_timestamp = self.max_timestamp = -1
        self.size = position
        self.end_offset = end_offset

    def write_indexes(self) -> None:
        """Write the sparse indexes as Kafka's files; like Kafka's, without the batch at position 0.

        Both identify a batch by its last offset; a time stands with the batch that contains it. The files are not
        synced: Kafka's tools rebuild missing ones. Raises OSError.
        """
        entries = list(zip(self.index_last_offsets, self.index_positions, self.index_timestamps, strict=True))[1:]
        offsets = b"".join(struct.pack(">ii", offset - self.base_offset, position) for offset, position, _ in entries)
        times: list[bytes] = []
        latest = -1
        for offset, _, timestamp in entries:
            if timestamp > latest:
                times.append(struct.pack(">qi", timestamp, offset - self.base_offset))
                latest = timestamp
        for suffix, data in ((".index", offsets), (".timeindex", b"".join(times))):
            descriptor = self.files.open(self.path.with_suffix(suffix), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                write_all(self.files, descriptor, data, 0)
            finally:
                self.files.close(descriptor)
