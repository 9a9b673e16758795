"""Freed memory goes back to the operating system, so that a burst of requests does not keep a node large.

glibc keeps what was freed for the next allocation: blocks as large as the largest that was ever freed, and everything below the last
block in use. Two things keep that small: large blocks are always maps of their own, and a node that is larger than it was asks
glibc to return free pages. Other C libraries return memory early themselves; nothing is done there.

Source: mallopt(3), malloc_trim(3).
"""

import asyncio
import ctypes
import resource
from pathlib import Path
from typing import Final

MIB: Final = 1024 * 1024
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_MAP_BYTES: Final = MIB
"""Blocks from this size on are maps of their own; glibc's own bound rises to 32 MiB. The buffers of sockets stay below."""
_KEPT_BYTES: Final = 8 * MIB
"""Free memory that is worth a search."""
_ARENAS: Final = 2
_INTERVAL_S: Final = 2.0
_INTERVAL_MAX_S: Final = 8.0
"""After searches that found little."""
_STATM: Final = Path("/proc/self/statm")


def _c_library() -> ctypes.CDLL | None:
    """Return glibc; None for another C library."""
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    return library if hasattr(library, "malloc_trim") else None


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    return int(_STATM.read_bytes().split()[1]) * resource.getpagesize()


class FreeMemory:
    """Returns free memory of this process now and then, on the event loop that it is started on."""

    def __init__(self) -> None:
        self._library = _c_library()
        self._least_bytes = 0
        self._interval_s = _INTERVAL_S
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Set the bounds of glibc, and begin."""
        if self._library is None:
            return
        self._library.mallopt(_M_MMAP_THRESHOLD, _MAP_BYTES)
        self._library.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        self._library.mallopt(_M_ARENA_MAX, _ARENAS)
        self._least_bytes = resident_bytes()
        self._schedule()

    def stop(self) -> None:
        """End."""
        if self._next is not None:
            self._next.cancel()

    def _schedule(self) -> None:
        self._next = asyncio.get_running_loop().call_later(self._interval_s, self._search)

    def _search(self) -> None:
        assert self._library is not None, "started with one"
        before = after = resident_bytes()
        was_s, self._interval_s = self._interval_s, _INTERVAL_S
        if before > self._least_bytes + _KEPT_BYTES:
            self._library.malloc_trim(0)
            after = resident_bytes()
            if before - after < MIB:
                self._interval_s = min(2 * was_s, _INTERVAL_MAX_S)
        self._least_bytes = min(self._least_bytes, after)
        self._schedule()
