"""Checking the batches of a file in bounded memory: header and CRC-32C; records are not decoded.

Source: FileChannelRecordBatch and LogSegment.recover of Kafka 4.3.1.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from crc32c import crc32c

from kraft_core.protocol.batch_header import (
    ATTRIBUTES_POSITION,
    BATCH_LENGTH_MIN,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    PREFIX,
    BatchHeader,
    read_header,
)
from kraft_core.storage.files import CorruptFile, FileSystem

REPAIR: Final = "Restore this node's metadata directory from another voter."
_CHUNK_BYTES: Final = 4 * 1024 * 1024


class BadBatch(Exception):  # noqa: N818  # a result of the scan; the caller decides whether it is an error
    """The bytes at `position` are not a whole, undamaged batch, for this `reason`."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position
        self.reason = reason


class CutBatch(BadBatch):
    """The file ends within the batch."""


def _check(data: memoryview, at: int, position: int) -> BatchHeader:
    """Check the whole batch that begins at `data[at]`. Raises BadBatch."""
    header = read_header(data, at)
    if header.magic != MAGIC:
        raise BadBatch(position, f"magic is {header.magic}, not {MAGIC}")
    if header.last_offset_delta < 0 or header.base_offset < 0:
        raise BadBatch(position, f"base offset {header.base_offset}, last offset delta {header.last_offset_delta}")
    computed = crc32c(data[at + ATTRIBUTES_POSITION : at + header.size])
    if computed != header.crc:
        raise BadBatch(position, f"stored crc {header.crc} does not match the computed crc {computed}")
    return header


def scan_batches(files: FileSystem, descriptor: int, size: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of every batch of a file of `size` bytes, checked.

    Raises BadBatch at the first position without a whole, undamaged batch: CutBatch when the file ends within it.
    """
    position = 0
    buffer = memoryview(b"")
    start = 0  # file position of buffer[0]
    while position < size:
        at = position - start
        if len(buffer) - at < HEADER_BYTES:
            buffer, start, at = memoryview(files.pread(descriptor, _CHUNK_BYTES, position)), position, 0
            if len(buffer) < HEADER_BYTES:
                raise CutBatch(position, f"{size - position} bytes are left, fewer than a header")
        length: int = PREFIX.unpack_from(buffer, at)[1]
        if length < BATCH_LENGTH_MIN:
            raise BadBatch(position, f"batch length {length} is below the minimum {BATCH_LENGTH_MIN}")
        end = at + LOG_OVERHEAD + length
        if start + end > size:
            raise CutBatch(position, f"batch length {length} goes beyond the end of the file")
        if end > len(buffer):
            wanted = max(LOG_OVERHEAD + length, _CHUNK_BYTES)
            buffer, start, at = memoryview(files.pread(descriptor, wanted, position)), position, 0
        batch = _check(buffer, at, position)
        yield position, batch
        position += batch.size


def find_batch(files: FileSystem, descriptor: int, position: int, size: int, base_offset_min: int) -> int | None:
    """Return the position of an undamaged batch at or after `position` with an offset >= `base_offset_min`, or None.

    This distinguishes corruption in the middle from a torn tail (None). The length field of the damaged batch cannot be
    trusted, so every byte that could be a magic is tried; the CRC decides.
    """
    while position + HEADER_BYTES <= size:
        chunk = files.pread(descriptor, _CHUNK_BYTES, position)
        view = memoryview(chunk)
        at = chunk.find(2, MAGIC_POSITION)
        while at >= 0:
            begin = at - MAGIC_POSITION
            if begin + HEADER_BYTES > len(chunk):
                break
            base, length = PREFIX.unpack_from(chunk, begin)
            if (
                base_offset_min <= base < base_offset_min + 2**40
                and BATCH_LENGTH_MIN <= length <= size - position - begin
            ):
                data = view[begin : begin + LOG_OVERHEAD + length]
                if len(data) < LOG_OVERHEAD + length:
                    data = memoryview(files.pread(descriptor, LOG_OVERHEAD + length, position + begin))
                if len(data) == LOG_OVERHEAD + length and _is_whole(data):
                    return position + begin
            at = chunk.find(2, at + 1)
        if len(chunk) < _CHUNK_BYTES:
            return None
        position += len(chunk) - HEADER_BYTES + 1
    return None


def _is_whole(data: memoryview) -> bool:
    try:
        _check(data, 0, 0)
    except BadBatch:
        return False
    return True


def corrupt(path: Path, bad: BadBatch, good_position: int, good_path: Path) -> CorruptFile:
    """Return the error for a bad batch that is followed by good ones."""
    where = f"byte {good_position}" if path == good_path else str(good_path)
    return CorruptFile(
        path,
        bad.position,
        f"{bad.reason}; good batches follow from {where}, so this is damage, not an unfinished write. {REPAIR}",
    )
