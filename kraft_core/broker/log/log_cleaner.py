"""The thread that compacts logs, one at a time.

Source: LogCleaner, Kafka 4.3.1.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar, TypeVarTuple

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
Arguments = TypeVarTuple("Arguments")
Discard = Callable[[UnifiedLog, list[LogSegment], list[Path]], None]


class LogCleaner:
    """Compacts logs. While `lock` is held, the closed segments and the folder of a log must not change.

    `discard` receives the replaced segments and the renamed files to delete.
    """

    def __init__(self, clock_ms: Callable[[], int], discard: Discard) -> None:
        self.lock = asyncio.Lock()
        self._clock_ms = clock_ms
        self._discard = discard
        self._pacer = Pacer()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="log-cleaner")

    async def stop(self) -> None:
        """Stop the work in progress at its next step and wait for it."""
        self._pacer.stop()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)

    async def _run(self, work: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    async def clean(self, partition_log: UnifiedLog) -> bool:
        """Compact a log's closed segments if they are dirty enough.

        Return False when there was nothing to do or it failed. On a full disk it is retried next time; any other disk
        error takes the log's directory offline.
        """
        async with self.lock:
            plan = plan_cleaning(partition_log, self._clock_ms())
            if plan is None:
                return False
            before = partition_log.size
            try:
                newest = await self._run(build_offset_map, plan, self._pacer)
                await self._replace_groups(partition_log, plan, newest)
            except CleaningStoppedError:
                return False
            except OSError as error:
                if not is_full(error):
                    partition_log.storage_error("compact", error)
                extra = {"partition": partition_log.directory.name, "cause": str(error)}
                log.error("log_not_compacted", extra=extra)  # noqa: TRY400 # the cause is enough
                return False
            partition_log.first_dirty_offset = newest.end_offset
        sizes = {"bytes_before": before, "bytes_after": partition_log.size}
        log.info("log_compacted", extra={"partition": partition_log.directory.name, **sizes})
        return True

    async def _replace_groups(self, partition_log: UnifiedLog, plan: CleaningPlan, newest: OffsetMap) -> None:
        done = 0
        while not partition_log.is_offline:
            group = await self._run(write_group, plan, done, newest, self._pacer)
            if group is None:
                return
            new, renamed = await self._run(swap_in, group, partition_log.config, self._clock_ms(), self._pacer)
            partition_log.replace(list(group.segments), new)
            self._discard(partition_log, list(group.segments), renamed)
            done += len(group.segments)
