"""A thread for slow file work; results are delivered on the event loop.

The log is flushed on one such thread, so that the event loop is not blocked by the disk; snapshots are written on
another, so that they do not delay a flush.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class _Job(Generic[T]):
    """Work for the thread, and the callbacks for the event loop."""

    __slots__ = ("done", "failed", "work")

    def __init__(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        self.work = work
        self.done = done
        self.failed = failed

    def run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the work and post the result to the loop."""
        try:
            result = self.work()
        except Exception as error:  # noqa: BLE001  # `failed` handles it on the loop
            loop.call_soon_threadsafe(self.failed, error)
        else:
            loop.call_soon_threadsafe(self.done, result)


class IoThread:
    """A worker that runs jobs in order. Create and use it on the event loop's thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job[object] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        """Run `work` on the thread, then `done` or `failed` on the event loop."""
        self._jobs.put(_Job(work, done, failed))  # type: ignore[arg-type]  # the queue holds jobs of any T

    def close(self) -> None:
        """Finish the submitted jobs, then end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run(self._loop)
