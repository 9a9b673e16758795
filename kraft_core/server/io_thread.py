"""One thread for slow file work; results come back on the event loop.

The flush of the log runs on one such thread, so that the owner of the node goes on while the disk is busy;
snapshots are written on another, so that they do not hold up a flush.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class _Job(Generic[T]):
    """Work to do there, and what to call here with its result."""

    __slots__ = ("done", "failed", "work")

    def __init__(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        self.work = work
        self.done = done
        self.failed = failed

    def run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do the work and post the result to the loop."""
        try:
            result = self.work()
        except Exception as error:  # noqa: BLE001  # whatever went wrong is judged on the loop, by `failed`
            loop.call_soon_threadsafe(self.failed, error)
        else:
            loop.call_soon_threadsafe(self.done, result)


class IoThread:
    """A worker that takes jobs in order. Made and used on the event loop's thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job[object] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        """Run `work` there, then `done` or `failed` on the event loop."""
        self._jobs.put(_Job(work, done, failed))  # type: ignore[arg-type]  # the queue does not care what T is

    def close(self) -> None:
        """Finish the jobs that were submitted, then end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run(self._loop)
