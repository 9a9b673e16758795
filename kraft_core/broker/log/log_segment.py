"""One segment of a log: a `.log` file of whole batches with an offset index and a time index.

The file is only appended to, or truncated at its end. All calls are made by the log's owner, except that `pread` of
bytes below `size` is safe on any thread.

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
    """Batches from `base_offset` on.

    `size` is in bytes; `max_timestamp` is in ms, -1 while no batch has a timestamp; `created_ms` is the start of
    rolling by age while no batch has a timestamp.
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

        Raises OSError; the file is then truncated to its previous end unless that fails too.
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
        """Yield (position, header) of the batches, starting with the first that contains or follows `from_offset`."""
        start = 0 if from_offset is None else self._offset_index.lookup(from_offset)
        for position, header in scan_headers(self.file_descriptor, start, self.size):
            if from_offset is None or header.last_offset >= from_offset:
                yield position, header

    def position_of(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Return (position, header) of the first batch that contains or follows `offset`, None if there is none."""
        return next(self.batches(offset), None)

    def pread(self, size: int, position: int) -> bytes:
        """Read bytes below `size` of the file."""
        return os.pread(self.file_descriptor, size, position)

    def batches_since(self, timestamp: int, from_offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield (position, header) of batches at or after `from_offset`.

        Batches known to end before `timestamp` ms are skipped.
        """
        if self.max_timestamp < timestamp:
            return iter(())
        return self.batches(max(from_offset, self._time_index.lookup(timestamp)))

    def load(self) -> None:
        """Load the indexes of a cleanly closed segment; rebuild them if they are invalid."""
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
        """Check the CRC of every batch, truncate the file at the first bad one and rebuild both indexes.

        Return the number of truncated bytes. `on_batch` is called with each good header in order, to rebuild derived
        state.
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
        """Return whether the batch needs a new segment, by size, age, or offsets more than 2**31 - 1 apart.

        Age is the difference of record timestamps; without timestamps, the time since the segment was created.
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
        """Return the newest record timestamp, or the file's modification time if no record has one."""
        if self.max_timestamp >= 0:
            return self.max_timestamp
        return int(os.fstat(self.file_descriptor).st_mtime * 1000)

    def last_header(self) -> BatchHeader | None:
        """Return the header of the last batch, None in an empty segment."""
        last = None
        start = self._offset_index.lookup(2**63 - 1)
        for _, header in scan_headers(self.file_descriptor, start, self.size):
            last = header
        return last

    def flush(self) -> None:
        """Flush the data to disk; safe on the I/O thread."""
        os.fdatasync(self.file_descriptor)

    def close(self) -> None:
        """Close the file. Closing it twice is harmless."""
        if self._is_open:
            self._is_open = False
            os.close(self.file_descriptor)

    def files(self) -> list[Path]:
        """Return the paths of the segment's files, whether they exist or not."""
        others = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, PRODUCER_SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX)
        return [self.path, *(self.path.with_suffix(suffix) for suffix in others)]


def new_segment(
    directory: Path,
    base_offset: int,
    index_interval_bytes: int,
    created_ms: int,
    on_batch: Callable[[BatchHeader], None] = lambda header: None,
) -> LogSegment:
    """Open the segment file with this base offset or create an empty one, with indexes rebuilt from it.

    `on_batch` is called with each header read. Raises OSError, and what `on_batch` raises, leaving no file open.
    """
    segment = LogSegment(directory, base_offset, index_interval_bytes, created_ms)
    try:
        segment.recover(on_batch)
    except BaseException:
        segment.close()
        raise
    return segment


def rename_deleted(segment: LogSegment) -> list[Path]:
    """Rename a closed segment's files for deletion, as Kafka does, and return the new paths."""
    renamed = []
    for path in segment.files():
        if path.exists():
            target = path.with_name(path.name + DELETED_SUFFIX)
            path.rename(target)
            renamed.append(target)
    return renamed
