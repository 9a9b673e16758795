"""Counts wrong logins per account and per source, over a sliding window."""

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable

KEYS_MAX = 10_000


class RateLimit:
    """At most `attempts_max` failures per key within `window_seconds`. Holds the newest 10,000 keys.

    `clock` returns monotonic seconds.
    """

    def __init__(self, attempts_max: int, window_seconds: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._attempts_max = attempts_max
        self._window_seconds = window_seconds
        self._clock = clock
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def retry_after_seconds(self, key: str) -> int:
        """Return 0 when `key` may try now, else the whole seconds until it may."""
        failures = self._failures.get(key)
        if failures is None:
            return 0
        now = self._clock()
        while failures and failures[0] <= now - self._window_seconds:
            failures.popleft()
        if len(failures) < self._attempts_max:
            return 0
        return max(1, math.ceil(failures[-self._attempts_max] + self._window_seconds - now))

    def failed(self, key: str) -> None:
        """Count one failure of `key`."""
        failures = self._failures.setdefault(key, deque(maxlen=self._attempts_max))
        failures.append(self._clock())
        self._failures.move_to_end(key)
        while len(self._failures) > KEYS_MAX:
            self._failures.popitem(last=False)

    def succeeded(self, key: str) -> None:
        """Forget the failures of `key`."""
        self._failures.pop(key, None)
