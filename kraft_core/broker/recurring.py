"""Periodic background work."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)


class Recurring:
    """Runs `work` every `interval_ms` in one task, first after one interval. Errors are logged and do not stop it."""

    def __init__(self, interval_ms: float, work: Callable[[], Awaitable[None]]) -> None:
        self._interval_s = interval_ms / 1000
        self._work = work
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start on the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop, cancelling work in progress."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        name = getattr(self._work, "__name__", "work")
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self._work()
            except OSError as error:
                extra = {"work": name, "cause": str(error)}
                log.error("recurring_work_failed", extra=extra)  # noqa: TRY400  # no bug: a full disk, for example
            except Exception:  # a failed run must not be the last
                log.exception("recurring_work_failed", extra={"work": name})
