"""Times between retries that double up to a limit, with jitter. Source: ExponentialBackoff, Kafka 4.3.1 (KIP-580)."""

from random import Random
from typing import Final

JITTER: Final = 0.2


class ExponentialBackoff:
    """`initial_ms` after the first failure, doubled after each further one, at most `max_ms`; each up to 20 % off."""

    def __init__(self, initial_ms: float, max_ms: float, random: Random, jitter: float = JITTER) -> None:
        self.initial_ms = min(initial_ms, max_ms)
        self.max_ms = max_ms
        self._random = random
        self._jitter = jitter
        steps = 0
        while self.initial_ms > 0 and self.initial_ms * 2**steps < max_ms:
            steps += 1
        self._steps_max = steps

    def after(self, failures: int) -> float:
        """Return the ms to wait after this many earlier failures (0 for the first)."""
        term: float = self.initial_ms * 2 ** min(failures, self._steps_max)
        return min(self.max_ms, term * self._random.uniform(1 - self._jitter, 1 + self._jitter))
