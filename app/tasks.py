"""Tasks of the event loop: ending them."""

import asyncio
import contextlib
from typing import Any


async def cancel_tasks(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks, and wait until each has ended. None is skipped.

    Raises the exception of a task that failed before it was cancelled.
    """
    started = [task for task in tasks if task is not None]
    for task in started:
        task.cancel()
    for task in started:
        with contextlib.suppress(asyncio.CancelledError):
            await task
