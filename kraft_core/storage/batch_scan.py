"""Walking the batches of a file with bounded memory: headers by struct, CRC-32C over the raw bytes, no record is decoded.

Source: DefaultRecordBatch (magic 2), FileChannelRecordBatch and LogSegment.recover of Kafka 4.3.1.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from kraft_core.storage.files import CorruptFile, FileSystem

HEADER: Final = struct.Struct(">qiiBIhiqq")
"""base offset, length after it, epoch, magic, CRC, attributes, last offset delta, base and max timestamp."""
HEADER_BYTES: Final = 61  # up to and with the record count
LENGTH_OVERHEAD: Final = 12  # base offset and the length field itself
CRC_START: Final = 21  # the CRC covers everything from the attributes on
CONTROL_FLAG: Final = 0x20
REPAIR: Final = "Restore this node's metadata directory from another voter."
_LENGTH_MIN: Final = HEADER_BYTES - LENGTH_OVERHEAD
_MAGIC_AT: Final = 16
_CHUNK_BYTES: Final = 4 * 1024 * 1024


class BatchHeader(NamedTuple):
    """What a log needs to know of a batch. Timestamps are ms, `position` counts bytes from the file's start."""

    position: int
    size: int
    base_offset: int
    end_offset: int
    epoch: int
    is_control: bool
    base_timestamp: int
    max_timestamp: int


class BadBatch(Exception):  # noqa: N818  # it is a finding before it is an error
    """The bytes at `position` are no whole batch; `reason` says why."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position
        self.reason = reason


def _check(data: memoryview, at: int, position: int) -> BatchHeader:
    """Check the whole batch that begins at `data[at]`. Raises BadBatch."""
    base, length, epoch, magic, crc, attributes, delta, base_timestamp, max_timestamp = HEADER.unpack_from(data, at)
    if magic != 2:
        raise BadBatch(position, f"magic is {magic}, not 2")
    if delta < 0 or base < 0:
        raise BadBatch(position, f"base offset {base}, last offset delta {delta}")
    computed = crc32c(data[at + CRC_START : at + LENGTH_OVERHEAD + length])
    if computed != crc:
        raise BadBatch(position, f"stored crc {crc} does not match the computed crc {computed}")
    is_control = bool(attributes & CONTROL_FLAG)
    return BatchHeader(
        position, LENGTH_OVERHEAD + length, base, base + delta + 1, epoch, is_control, base_timestamp, max_timestamp
    )


def scan_batches(files: FileSystem, descriptor: int, size: int) -> Iterator[BatchHeader]:
    """Yield every batch of a file of `size` bytes, checked.

    Raises BadBatch at the first place that holds no whole, undamaged batch; a clean end raises nothing.
    """
    position = 0
    buffer = memoryview(b"")
    start = 0  # file position of buffer[0]
    while position < size:
        at = position - start
        if len(buffer) - at < HEADER_BYTES:
            buffer, start, at = memoryview(files.pread(descriptor, _CHUNK_BYTES, position)), position, 0
            if len(buffer) < HEADER_BYTES:
                raise BadBatch(position, f"{size - position} bytes are left, fewer than a header")
        length: int = struct.unpack_from(">i", buffer, at + 8)[0]
        if length < _LENGTH_MIN:
            raise BadBatch(position, f"batch length {length} is below the minimum {_LENGTH_MIN}")
        end = at + LENGTH_OVERHEAD + length
        if start + end > size:
            raise BadBatch(position, f"batch length {length} goes beyond the end of the file")
        if end > len(buffer):
            wanted = max(LENGTH_OVERHEAD + length, _CHUNK_BYTES)
            buffer, start, at = memoryview(files.pread(descriptor, wanted, position)), position, 0
        batch = _check(buffer, at, position)
        yield batch
        position += batch.size


def find_batch(files: FileSystem, descriptor: int, position: int, size: int, base_offset_min: int) -> int | None:
    """Look for an undamaged batch anywhere at or after `position` whose offset is at least `base_offset_min`.

    This is what tells a torn tail (none) from corruption in the middle. -> its position, or None. The length field of
    the damaged batch cannot be trusted, so every byte that could be a magic is tried; the CRC decides.
    """
    while position + HEADER_BYTES <= size:
        chunk = files.pread(descriptor, _CHUNK_BYTES, position)
        view = memoryview(chunk)
        at = chunk.find(2, _MAGIC_AT)
        while at >= 0:
            begin = at - _MAGIC_AT
            if begin + HEADER_BYTES > len(chunk):
                break
            base, length = struct.unpack_from(">qi", chunk, begin)
            if base_offset_min <= base < base_offset_min + 2**40 and _LENGTH_MIN <= length <= size - position - begin:
                data = view[begin : begin + LENGTH_OVERHEAD + length]
                if len(data) < LENGTH_OVERHEAD + length:
                    data = memoryview(files.pread(descriptor, LENGTH_OVERHEAD + length, position + begin))
                if len(data) == LENGTH_OVERHEAD + length and _is_whole(data):
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
    """Say that a bad batch has good ones after it."""
    where = f"byte {good_position}" if path == good_path else str(good_path)
    return CorruptFile(
        path,
        bad.position,
        f"{bad.reason}; good batches follow from {where}, so this is damage, not an unfinished write. {REPAIR}",
    )
