"""Work that the broker does again and again, beside the answering of requests."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)


class Recurring:
    """Does `work` every `interval_ms` in a task of its own, first after one interval; a fault is logged, and the next turn comes all the same."""

    def __init__(self, interval_ms: float, work: Callable[[], Awaitable[None]]) -> None:
        self._interval_s = interval_ms / 1000
        self._work = work
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, on the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End, also in the middle of the work."""
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
                log.error("recurring_work_failed", extra={"work": name, "cause": str(error)})  # noqa: TRY400  # the cause says it; a full disk is no bug
            except Exception:  # one turn that fails must not be the last
                log.exception("recurring_work_failed", extra={"work": name})
