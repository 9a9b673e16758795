"""The thread that compacts logs, one at a time, and what it hands back to the event loop."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from kraft_core.broker.log.cleaner import (
    CleaningPlan,
    CleaningStoppedError,
    OffsetMap,
    Pacer,
    build_offset_map,
    plan_cleaning,
    swap_in,
    write_group,
)
from kraft_core.broker.log.log_dir_failure_channel import is_full
from kraft_core.broker.log.log_segment import LogSegment
from kraft_core.broker.log.unified_log import UnifiedLog

log = logging.getLogger(__name__)

T = TypeVar("T")
Discard = Callable[[UnifiedLog, list[LogSegment], list[Path]], None]


class LogCleaner:
    """Compacts logs. `lock` is held while a log is worked on: its closed segments and its folder's name must not change then.

    `discard` gets the segments that a copy has replaced and the renamed files to delete.
    """

    def __init__(self, clock_ms: Callable[[], int], discard: Discard) -> None:
        self.lock = asyncio.Lock()
        self._clock_ms = clock_ms
        self._discard = discard
        self._pacer = Pacer()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="log-cleaner")

    async def stop(self) -> None:
        """End the work in progress at its next step and wait for it."""
        self._pacer.stop()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def clean(self, partition_log: UnifiedLog) -> bool:
        """Compact one log's closed segments now if they are dirty enough; False when there was nothing to do or it could not be done.

        A full disk is left for the next time; any other error takes the log's directory offline.
        """
        async with self.lock:
            plan = plan_cleaning(partition_log, self._clock_ms())
            if plan is None:
                return False
            before = partition_log.size
            try:
                newest = await self._run(lambda: build_offset_map(plan, self._pacer))
                await self._replace_groups(partition_log, plan, newest)
            except CleaningStoppedError:
                return False
            except OSError as error:
                if not is_full(error):
                    partition_log.storage_error("compact", error)
                extra = {"partition": partition_log.directory.name, "cause": str(error)}
                log.error("log_not_compacted", extra=extra)  # noqa: TRY400  # the cause says it all
                return False
            partition_log.first_dirty_offset = newest.end_offset
        sizes = {"bytes_before": before, "bytes_after": partition_log.size}
        log.info("log_compacted", extra={"partition": partition_log.directory.name, **sizes})
        return True

    async def _replace_groups(self, partition_log: UnifiedLog, plan: CleaningPlan, newest: OffsetMap) -> None:
        done = 0
        while not partition_log.is_offline:
            group = await self._run(lambda first=done: write_group(plan, first, newest, self._pacer))  # type: ignore[misc]  # binds the loop variable
            if group is None:
                return
            new, renamed = await self._run(
                lambda group=group: swap_in(group, partition_log.config, self._clock_ms(), self._pacer)  # type: ignore[misc]  # binds the loop variable
            )
            partition_log.replace(list(group.segments), new)
            self._discard(partition_log, list(group.segments), renamed)
            done += len(group.segments)
