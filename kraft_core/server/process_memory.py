"""Returns freed memory to the operating system, so that a node shrinks again after a burst of requests.

glibc keeps freed memory for later allocations: up to the size of the largest block ever freed, and everything below the
last block in use. So large blocks are always allocated with mmap, and a node that has grown calls malloc_trim now and
then. Other C libraries return memory early, so nothing is done for them.

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
"""Blocks of this size and more are allocated with mmap; glibc's dynamic threshold rises to 32 MiB. Socket buffers are
smaller."""
_KEPT_BYTES: Final = 8 * MIB
"""Growth of resident memory from which malloc_trim is called."""
_ARENAS: Final = 2
_INTERVAL_S: Final = 2.0
_INTERVAL_MAX_S: Final = 8.0
"""Longest interval, after calls that freed little."""
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
    """Returns free memory of this process periodically, on the event loop on which it was started."""

    def __init__(self) -> None:
        self._library = _c_library()
        self._least_bytes = 0
        self._interval_s = _INTERVAL_S
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Set glibc's thresholds and start the timer."""
        if self._library is None:
            return
        self._library.mallopt(_M_MMAP_THRESHOLD, _MAP_BYTES)
        self._library.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        self._library.mallopt(_M_ARENA_MAX, _ARENAS)
        self._least_bytes = resident_bytes()
        self._schedule()

    def stop(self) -> None:
        """Cancel the timer."""
        if self._next is not None:
            self._next.cancel()

    def _schedule(self) -> None:
        self._next = asyncio.get_running_loop().call_later(self._interval_s, self._search)

    def _search(self) -> None:
        assert self._library is not None, "only started with glibc"
        before = after = resident_bytes()
        was_s, self._interval_s = self._interval_s, _INTERVAL_S
        if before > self._least_bytes + _KEPT_BYTES:
            self._library.malloc_trim(0)
            after = resident_bytes()
            if before - after < MIB:
                self._interval_s = min(2 * was_s, _INTERVAL_MAX_S)
        self._least_bytes = min(self._least_bytes, after)
        self._schedule()
