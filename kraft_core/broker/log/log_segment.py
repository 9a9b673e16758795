"""One segment of a partition log: a `.log` file of whole batches with its offset and time index.

The file is only ever appended to or cut at its end. All calls are made by the log's owner, except that `pread` of bytes below `size` is safe
from any thread.

Source: LogSegment, Kafka 4.3.1.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import crc32c

from kraft_core.broker.log.file_records import scan_headers
from kraft_core.broker.log.indexes import CorruptIndexError, OffsetIndex, TimeIndex
from kraft_core.broker.log.log_file_utils import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from kraft_core.protocol.batch_header import CRC_POSITION, BatchHeader

_CRC_DATA_POSITION: Final = CRC_POSITION + 4


class LogSegment:
    """Batches from `base_offset` on. `size` is in bytes; `max_timestamp` in ms is -1 while no batch has a timestamp.

    `created_ms` is when rolling by age starts counting if no batch carries a timestamp.
    """

    def __init__(self, directory: Path, base_offset: int, index_interval_bytes: int, created_ms: int) -> None:
        self.base_offset = base_offset
        self.path = directory / file_name(base_offset, LOG_SUFFIX)
        self.created_ms = created_ms
        self.max_timestamp = -1
        self.offset_of_max_timestamp = base_offset
        self.first_timestamp: int | None = None
        self._index_interval_bytes = index_interval_bytes
        self._bytes_since_index = 0
        self._offset_index = OffsetIndex(directory / file_name(base_offset, OFFSET_INDEX_SUFFIX), base_offset)
        self._time_index = TimeIndex(directory / file_name(base_offset, TIME_INDEX_SUFFIX), base_offset)
        self.file_descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._is_open = True
        self.size = os.fstat(self.file_descriptor).st_size

    def append(self, data: bytes | bytearray, batches: list[BatchHeader]) -> None:
        """Append whole batches in one write; `batches` are their headers as written.

        Raises OSError; the file then ends where it did, unless the disk refuses that too.
        """
        position = self.size
        if self._bytes_since_index > self._index_interval_bytes:
            self._offset_index.append(batches[0].last_offset, position)
            self._time_index.append(self.max_timestamp, self.offset_of_max_timestamp)
            self._bytes_since_index = 0
        try:
            written = os.pwrite(self.file_descriptor, data, position)
            while written < len(data):
                written += os.pwrite(self.file_descriptor, data[written:], position + written)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self.file_descriptor, position)
            raise
        self.size = position + len(data)
        self._bytes_since_index += len(data)
        for batch in batches:
            self._note_timestamp(batch)

    def _note_timestamp(self, batch: BatchHeader) -> None:
        if self.first_timestamp is None and batch.max_timestamp >= 0:
            self.first_timestamp = batch.max_timestamp
        if batch.max_timestamp > self.max_timestamp:
            self.max_timestamp = batch.max_timestamp
            self.offset_of_max_timestamp = batch.last_offset

    def batches(self, from_offset: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of the batches, from the one that holds or follows `from_offset` on."""
        start = 0 if from_offset is None else self._offset_index.lookup(from_offset)
        for position, header in scan_headers(self.file_descriptor, start, self.size):
            if from_offset is None or header.last_offset >= from_offset:
                yield position, header

    def position_of(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Where the first batch that holds or follows `offset` lies, None when all batches end before it."""
        return next(self.batches(offset), None)

    def pread(self, size: int, position: int) -> bytes:
        """Read bytes below `size` of the file."""
        return os.pread(self.file_descriptor, size, position)

    def batches_since(self, timestamp: int, from_offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of the batches at or behind `from_offset`, without those that surely end before `timestamp` ms."""
        if self.max_timestamp < timestamp:
            return iter(())
        return self.batches(max(from_offset, self._time_index.lookup(timestamp)))

    def load(self) -> None:
        """Take over the indexes of a segment that was closed in order; rebuild them when they cannot be right."""
        try:
            self._offset_index.load(self.size)
            self._time_index.load()
        except CorruptIndexError:
            self.recover(lambda header: None)
            return
        last = self._time_index.last()
        if last is not None:
            self.max_timestamp, self.offset_of_max_timestamp = last
        start = last[1] if last is not None else self.base_offset
        for _, header in self.batches(start):
            self._note_timestamp(header)
        first = next(scan_headers(self.file_descriptor, 0, self.size), None)
        if first is not None and first[1].max_timestamp >= 0:
            self.first_timestamp = first[1].max_timestamp

    def recover(self, on_batch: Callable[[BatchHeader], None]) -> int:
        """Check every batch against its CRC, cut the file at the first bad one, rebuild both indexes. Returns the bytes cut off.

        `on_batch` is called with each good header in order, so that the caller can rebuild what it derives from batches.
        """
        self.max_timestamp, self.offset_of_max_timestamp, self.first_timestamp = -1, self.base_offset, None
        self._offset_index.truncate(0)
        self._time_index.truncate(self.base_offset)
        self._bytes_since_index = 0
        end, next_offset = 0, self.base_offset
        for position, header in scan_headers(self.file_descriptor, 0, self.size):
            if header.base_offset < next_offset or not self._crc_holds(position, header):
                break
            if self._bytes_since_index > self._index_interval_bytes:
                self._offset_index.append(header.last_offset, position)
                self._time_index.append(self.max_timestamp, self.offset_of_max_timestamp)
                self._bytes_since_index = 0
            self._bytes_since_index += header.size
            self._note_timestamp(header)
            on_batch(header)
            end, next_offset = position + header.size, header.last_offset + 1
        cut = self.size - end
        if cut:
            os.ftruncate(self.file_descriptor, end)
            self.size = end
        return cut

    def _crc_holds(self, position: int, header: BatchHeader) -> bool:
        data = self.pread(header.size - _CRC_DATA_POSITION, position + _CRC_DATA_POSITION)
        return len(data) == header.size - _CRC_DATA_POSITION and crc32c.crc32c(data) == header.crc

    def should_roll(self, incoming: BatchHeader, now_ms: int, *, max_bytes: int, max_ms: int) -> bool:
        """Whether a batch belongs into a new segment: size, age, or offsets more than 2**31 - 1 apart.

        Age is the time between the records, by their timestamps; when none has one, the time since the segment was made.
        """
        if self.size == 0:
            return False
        if self.first_timestamp is not None:
            age_ms = incoming.max_timestamp - self.first_timestamp
        else:
            age_ms = now_ms - self.created_ms
        too_far = incoming.last_offset - self.base_offset > 2**31 - 1
        return self.size + incoming.size > max_bytes or age_ms > max_ms or too_far

    def on_become_inactive(self) -> None:
        """Write the final time index entry, so that the largest timestamp survives a restart."""
        self._time_index.append(self.max_timestamp, self.offset_of_max_timestamp)

    def largest_timestamp_ms(self) -> int:
        """Newest record timestamp, or the file's last change when no record has one; what retention by time compares."""
        if self.max_timestamp >= 0:
            return self.max_timestamp
        return int(os.fstat(self.file_descriptor).st_mtime * 1000)

    def last_header(self) -> BatchHeader | None:
        """Header of the last batch."""
        last = None
        start = self._offset_index.lookup(2**63 - 1)
        for _, header in scan_headers(self.file_descriptor, start, self.size):
            last = header
        return last

    def flush(self) -> None:
        """Force the data to the disk; safe from the I/O thread."""
        os.fdatasync(self.file_descriptor)

    def close(self) -> None:
        """Close the file; the segment is not used again. Closing it twice is harmless."""
        if self._is_open:
            self._is_open = False
            os.close(self.file_descriptor)

    def files(self) -> list[Path]:
        """The segment's files, there or not."""
        others = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, PRODUCER_SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX)
        return [self.path, *(self.path.with_suffix(suffix) for suffix in others)]


def new_segment(
    directory: Path,
    base_offset: int,
    index_interval_bytes: int,
    created_ms: int,
    on_batch: Callable[[BatchHeader], None] = lambda header: None,
) -> LogSegment:
    """Make a segment from the file of that base offset, or an empty one, with indexes rebuilt from it.

    `on_batch` is called with each header read. Raises OSError, and what `on_batch` raises, and leaves no file open then.
    """
    segment = LogSegment(directory, base_offset, index_interval_bytes, created_ms)
    try:
        segment.recover(on_batch)
    except BaseException:
        segment.close()
        raise
    return segment


def rename_deleted(segment: LogSegment) -> list[Path]:
    """Mark a closed segment's files for deletion, as Kafka does, and return their new names."""
    renamed = []
    for path in segment.files():
        if path.exists():
            target = path.with_name(path.name + DELETED_SUFFIX)
            path.rename(target)
            renamed.append(target)
    return renamed
