"""The sparse indexes of a segment: offset to file position, and timestamp to offset.

Both are append-only files of fixed-size entries. They are kept in memory as arrays once used, so that a lookup is a
bisection without system calls. An index is derived data: one in doubt is rebuilt from the segment.

Source: OffsetIndex and TimeIndex, Kafka 4.3.1.
"""

import bisect
import errno
import itertools
import os
import struct
import sys
from array import array
from pathlib import Path
from typing import Final

_OFFSET_ENTRY: Final = struct.Struct(">II")
_TIME_ENTRY: Final = struct.Struct(">qI")
OFFSET_ENTRY_BYTES: Final = _OFFSET_ENTRY.size
TIME_ENTRY_BYTES: Final = _TIME_ENTRY.size


class CorruptIndexError(Exception):
    """An invalid index file; the owner of the segment rebuilds it."""


def _big_endian(values: "array[int]") -> bytes:
    if sys.byteorder == "little":
        values = array(values.typecode, values)
        values.byteswap()
    return values.tobytes()


def _append(path: Path, entry: bytes, position: int) -> None:
    """Write an entry at `position`, after the last one. The rest of a failed write may be there; it is overwritten."""
    file_descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        written = os.pwrite(file_descriptor, entry, position)
        if written < len(entry):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(file_descriptor)


class OffsetIndex:
    """Entries (offset relative to the base offset, byte position) in the file `%020d.index`, 4 + 4 bytes each.

    There is an entry every `index.interval.bytes`. Both columns increase strictly. `base_offset` is the segment's.
    """

    def __init__(self, path: Path, base_offset: int) -> None:
        self._path = path
        self._base_offset = base_offset
        self._relative_offsets: array[int] = array("I")
        self._positions: array[int] = array("I")

    def load(self, segment_bytes: int) -> None:
        """Read the file.

        Raises CorruptIndexError when it is missing, its entries do not increase or they point after the segment's end.
        """
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            raise CorruptIndexError(f"{self._path.name} is missing") from None
        if len(data) % OFFSET_ENTRY_BYTES:
            raise CorruptIndexError(f"{self._path.name} has {len(data)} bytes, no multiple of {OFFSET_ENTRY_BYTES}")
        pairs: array[int] = array("I", data)
        if sys.byteorder == "little":
            pairs.byteswap()
        offsets, positions = pairs[0::2], pairs[1::2]
        for column in (offsets, positions):
            if any(later <= earlier for earlier, later in itertools.pairwise(column)):
                raise CorruptIndexError(f"{self._path.name} does not rise")
        if positions and positions[-1] >= segment_bytes:
            raise CorruptIndexError(
                f"{self._path.name} points to {positions[-1]}, behind the segment's {segment_bytes} bytes"
            )
        self._relative_offsets, self._positions = offsets, positions

    def append(self, offset: int, position: int) -> None:
        """Add an entry at the end. An entry that is not larger than the last one is ignored."""
        relative = offset - self._base_offset
        if self._positions and (relative <= self._relative_offsets[-1] or position <= self._positions[-1]):
            return
        _append(self._path, _OFFSET_ENTRY.pack(relative, position), len(self._positions) * OFFSET_ENTRY_BYTES)
        self._relative_offsets.append(relative)
        self._positions.append(position)

    def lookup(self, offset: int) -> int:
        """Return the byte position of the last entry at or before `offset`, 0 when there is none."""
        index = bisect.bisect_right(self._relative_offsets, offset - self._base_offset) - 1
        return self._positions[index] if index >= 0 else 0

    def truncate(self, position: int) -> None:
        """Drop the entries at or after a byte position and rewrite the file."""
        keep = bisect.bisect_left(self._positions, position)
        del self._relative_offsets[keep:], self._positions[keep:]
        pairs: array[int] = array("I", bytes(8 * keep))
        pairs[0::2], pairs[1::2] = self._relative_offsets, self._positions
        self._path.write_bytes(_big_endian(pairs))


class TimeIndex:
    """Entries (largest timestamp so far in ms, its offset) in the file `%020d.timeindex`, 8 + 4 bytes each.

    Timestamps increase strictly.
    """

    def __init__(self, path: Path, base_offset: int) -> None:
        self._path = path
        self._base_offset = base_offset
        self._timestamps: array[int] = array("q")
        self._relative_offsets: array[int] = array("I")

    def load(self) -> None:
        """Read the file. Raises CorruptIndexError when it is missing, truncated, or its timestamps do not increase."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            raise CorruptIndexError(f"{self._path.name} is missing") from None
        if len(data) % TIME_ENTRY_BYTES:
            raise CorruptIndexError(f"{self._path.name} has {len(data)} bytes, no multiple of {TIME_ENTRY_BYTES}")
        timestamps: array[int] = array("q")
        offsets: array[int] = array("I")
        for start in range(0, len(data), TIME_ENTRY_BYTES):
            timestamps.append(int.from_bytes(data[start : start + 8], "big", signed=True))
            offsets.append(int.from_bytes(data[start + 8 : start + 12], "big"))
        if any(later <= earlier for earlier, later in itertools.pairwise(timestamps)):
            raise CorruptIndexError(f"{self._path.name} does not rise")
        self._timestamps, self._relative_offsets = timestamps, offsets

    def last(self) -> tuple[int, int] | None:
        """Return (timestamp, absolute offset) of the last entry, None when empty."""
        if not self._timestamps:
            return None
        return self._timestamps[-1], self._base_offset + self._relative_offsets[-1]

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry. One that is not larger than the last one is ignored."""
        if timestamp < 0 or (self._timestamps and timestamp <= self._timestamps[-1]):
            return
        relative = offset - self._base_offset
        _append(self._path, _TIME_ENTRY.pack(timestamp, relative), len(self._timestamps) * TIME_ENTRY_BYTES)
        self._timestamps.append(timestamp)
        self._relative_offsets.append(relative)

    def lookup(self, timestamp: int) -> int:
        """Return an offset before which every timestamp is smaller than `timestamp`; the base offset when unknown."""
        index = bisect.bisect_left(self._timestamps, timestamp) - 1
        return self._base_offset + self._relative_offsets[index] if index >= 0 else self._base_offset

    def truncate(self, offset: int) -> None:
        """Drop the entries at or after an offset and rewrite the file."""
        keep = bisect.bisect_left(self._relative_offsets, max(0, offset - self._base_offset))
        del self._timestamps[keep:], self._relative_offsets[keep:]
        entries = zip(self._timestamps, self._relative_offsets, strict=True)
        self._path.write_bytes(
            b"".join(
                timestamp.to_bytes(8, "big", signed=True) + relative.to_bytes(4, "big")
                for timestamp, relative in entries
            )
        )
