"""Virtual time: a queue of callbacks, ordered by time and then by insertion. Also the trace of a run."""

import heapq
from collections.abc import Callable
from random import Random
from typing import Any
from zlib import crc32

SECOND_US = 1_000_000

START_MS = 1_700_000_000_000
"""Start of the nodes' clocks, in ms since 1970."""


class World:
    """Time in µs since the start of the run. `random` is the only source of randomness."""

    def __init__(self, seed: int, *, prints_trace: bool = False) -> None:
        self.random = Random(seed)
        self.now_us = 0
        self.steps = 0
        self.trace_hash = 0
        self.prints_trace = prints_trace
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0

    def after(self, delay_us: int, act: Callable[..., None], *args: Any) -> None:
        """Schedule a callback."""
        self._count += 1
        heapq.heappush(self._queue, (self.now_us + max(delay_us, 0), self._count, act, args))

    def run(self, until_us: int) -> None:
        """Run all callbacks that are due by then."""
        queue = self._queue
        while queue and queue[0][0] <= until_us:
            self.now_us, _, act, args = heapq.heappop(queue)
            act(*args)
        self.now_us = until_us

    def run_until(self, is_done: Callable[[], bool], limit_us: int) -> bool:
        """Run until a condition holds; return False if it does not by the limit."""
        while not is_done():
            if self.now_us >= limit_us:
                return False
            self.run(min(self.now_us + 20_000, limit_us))
        return True

    def note(self, *what: object) -> None:
        """Add to the trace; the same seed must give the same trace."""
        line = f"{self.now_us} {what}"
        self.trace_hash = crc32(line.encode(), self.trace_hash)
        if self.prints_trace:
            print(f"{self.now_us / 1000:12.3f} ms  {' '.join(map(str, what))}")

    def chance(self, probability: float) -> bool:
        """Draw whether an event of this probability happens; probability 0 draws nothing."""
        return probability > 0 and self.random.random() < probability
