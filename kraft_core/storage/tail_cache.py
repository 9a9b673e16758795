"""The newest batches in memory: those not yet on disk, and a bounded number of flushed ones.

Followers and observers that keep up read from here; only lagging readers use the files.
"""

from bisect import bisect_right
from typing import Final

_COMPACT_AT: Final = 1024


class TailCache:
    """Consecutive batches up to the end of the log. They exceed `max_bytes` only while they are not flushed."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bases: list[int] = []
        self._positions: list[int] = []  # of each batch in its segment
        self._batches: list[bytes] = []
        self._head = 0  # the batches before it are evicted
        self._held_bytes = 0

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self._bases) - self._head

    @property
    def start_offset(self) -> int | None:
        """Offset of the oldest batch; None when empty."""
        return self._bases[self._head] if self._head < len(self._bases) else None

    @property
    def start_position(self) -> int:
        """File position of the oldest batch."""
        return self._positions[self._head]

    def append(self, base_offset: int, position: int, batch: bytes) -> None:
        """Add a batch at the end."""
        self._bases.append(base_offset)
        self._positions.append(position)
        self._batches.append(batch)
        self._held_bytes += len(batch)

    @property
    def is_over(self) -> bool:
        """Whether the batches exceed the limit."""
        return self._held_bytes > self._max_bytes

    def evict(self, flushed_offset: int) -> None:
        """Remove the oldest flushed batches until the limit is met, except the last batch."""
        head, bases = self._head, self._bases
        while self._held_bytes > self._max_bytes and head + 1 < len(bases) and bases[head + 1] <= flushed_offset:
            self._held_bytes -= len(self._batches[head])
            self._batches[head] = b""
            head += 1
        if head >= _COMPACT_AT and head * 2 >= len(bases):
            del self._bases[:head], self._positions[:head], self._batches[:head]
            head = 0
        self._head = head

    def locate(self, offset: int) -> tuple[int, int]:
        """Return (base offset, file position) of the batch that contains `offset`, which must be in memory."""
        index = bisect_right(self._bases, offset, self._head) - 1
        assert index >= self._head, offset
        return self._bases[index], self._positions[index]

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return whole batches from the one that contains `offset`, at least one."""
        first = bisect_right(self._bases, offset, self._head) - 1
        assert first >= self._head, offset
        batches = self._batches
        size, end = len(batches[first]), first + 1
        while end < len(batches) and size + len(batches[end]) <= max_bytes:
            size += len(batches[end])
            end += 1
        return batches[first] if end == first + 1 else b"".join(batches[first:end])

    def truncate_from(self, offset: int) -> None:
        """Remove the batches that begin at or after `offset`."""
        while len(self._bases) > self._head and self._bases[-1] >= offset:
            self._bases.pop()
            self._positions.pop()
            self._held_bytes -= len(self._batches.pop())

    def clear(self) -> None:
        """Remove all batches."""
        self._bases.clear()
        self._positions.clear()
        self._batches.clear()
        self._head = 0
        self._held_bytes = 0
