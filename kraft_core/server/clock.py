"""The node's clock: wall-clock milliseconds that never go back and never jump.

Records need wall-clock time, timers a monotonic clock. This clock starts at the time of day and advances with the
monotonic clock, up to 1/20 faster or slower while the wall clock differs from it.
"""

import time
from collections.abc import Callable
from typing import Final

_COMPARE_EVERY_S: Final = 1.0
_CORRECT_WITHIN_S: Final = 10.0
_RATE_MAX: Final = 0.05


class Clock:
    """A monotonic clock of milliseconds since 1970."""

    __slots__ = ("_base_monotonic_s", "_base_s", "_monotonic", "_rate", "_wall")

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self._base_monotonic_s = monotonic()
        self._base_s = wall()
        self._rate = 1.0

    def now_ms(self) -> int:
        """Return the time; never less than it returned before."""
        passed_s = self._monotonic() - self._base_monotonic_s
        now_s = self._base_s + passed_s * self._rate
        if passed_s >= _COMPARE_EVERY_S:
            error_s = self._wall() - now_s
            self._base_s = now_s
            self._base_monotonic_s += passed_s
            self._rate = 1.0 + max(-_RATE_MAX, min(_RATE_MAX, error_s / _CORRECT_WITHIN_S))
        return int(now_s * 1000)
