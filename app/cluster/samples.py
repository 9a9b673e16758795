"""A few numbers of the cluster over the last half hour, for the sparklines of the dashboard.

They are kept in memory only: after a restart the series are empty.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from app.tasks import cancel_tasks

INTERVAL_SECONDS: Final = 10.0
SAMPLES_MAX: Final = 180


@dataclass(frozen=True, slots=True)
class Sample:
    """The cluster at one moment; `at` is in seconds of the monotonic clock."""

    at: float
    high_watermark: int
    partitions: int
    offline: int
    under_min: int
    under_replicated: int


class Samples:
    """The newest samples. `start` it on the event loop, and `stop` it before the loop ends.

    `read` returns the numbers of now, None before there is metadata.
    """

    def __init__(self, read: Callable[[float], Sample | None]) -> None:
        self._read = read
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        self._task: asyncio.Task[None] | None = None

    @property
    def all(self) -> Sequence[Sample]:
        """The samples, oldest first."""
        return tuple(self._samples)

    def start(self) -> None:
        """Start to take a sample every INTERVAL_SECONDS."""
        self._task = asyncio.create_task(self._run(), name="samples")

    async def stop(self) -> None:
        """End the task."""
        await cancel_tasks(self._task)

    def take(self) -> None:
        """Take a sample now."""
        found = self._read(time.monotonic())
        if found is not None:
            self._samples.append(found)

    async def _run(self) -> None:
        while True:
            self.take()
            await asyncio.sleep(INTERVAL_SECONDS)


def rates(samples: Sequence[Sample]) -> list[float]:
    """Return the metadata records committed per minute between each two samples. A step back counts as none."""
    return [
        max(0.0, 60 * (after.high_watermark - before.high_watermark) / (after.at - before.at))
        for before, after in pairwise(samples)
        if after.at > before.at
    ]
