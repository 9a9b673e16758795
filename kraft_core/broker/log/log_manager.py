"""All logs of a broker in its log directories, and their background work.

The logs belong to the event loop's thread. Blocking work (fsync, deletion of files, recovery at start-up) runs on one
I/O thread, compaction on another, and the results are applied on the loop.

Source: LogManager, Kafka 4.3.1.
"""

import asyncio
import contextlib
import logging
import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from kraft_core.broker.caught_up_image import CaughtUpImage
from kraft_core.broker.log import checkpoints
from kraft_core.broker.log.log_cleaner import LogCleaner
from kraft_core.broker.log.log_config import LogConfig
from kraft_core.broker.log.log_dir_failure_channel import LogDirFailureChannel, is_full
from kraft_core.broker.log.log_directory import LogDirectory
from kraft_core.broker.log.log_file_utils import delete_files
from kraft_core.broker.log.log_folders import DELETE_SUFFIX, Kept, delete_folder, folder_name, set_aside, sort_folders
from kraft_core.broker.log.log_loader import LoadOptions, TopicIdMismatchError, open_log
from kraft_core.broker.log.log_segment import LogSegment, rename_deleted
from kraft_core.broker.log.unified_log import UnifiedLog
from kraft_core.broker.recurring import Recurring
from kraft_core.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogManagerConfig:
    """Intervals of the background work in ms, named after Kafka's configs."""

    retention_check_interval_ms: int = 300_000  # log.retention.check.interval.ms
    flush_scheduler_interval_ms: int = 2**63 - 1  # log.flush.scheduler.interval.ms
    flush_checkpoint_interval_ms: int = 60_000  # log.flush.offset.checkpoint.interval.ms
    cleaner_backoff_ms: int = 15_000  # log.cleaner.backoff.ms
    cleaner_enable: bool = True  # log.cleaner.enable
    producer_id_expiration_ms: int = 86_400_000  # producer.id.expiration.ms


TopicLogConfig = Callable[[str], LogConfig]
PartitionKey = tuple[str, int]


class LogManager:
    """Logs by (topic, partition). `topic_config` returns a topic's current configs; `clock_ms` is the wall clock."""

    def __init__(
        self,
        directories: list[LogDirectory],
        config: LogManagerConfig,
        topic_config: TopicLogConfig,
        clock_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        assert directories, "a broker has at least one log directory"
        self.directories = directories
        self.config = config
        self.logs: dict[PartitionKey, UnifiedLog] = {}
        self.failures = LogDirFailureChannel(directories)
        self.failures.on_failure(self._directory_failed)
        self._offline: dict[PartitionKey, UnifiedLog] = {}
        self._topic_config = topic_config
        self._clock_ms = clock_ms
        self._io = ThreadPoolExecutor(1, thread_name_prefix="broker-io")
        self._upkeep: list[Recurring] = []
        self.cleaner = LogCleaner(clock_ms, self._discard_now)
        self._deletions: set[asyncio.Task[None]] = set()
        self._not_renamed: list[UnifiedLog] = []  # deleted logs whose folders are not renamed yet
        self._loaded = False
        self._incomplete: CaughtUpImage | None = None  # the metadata at the start, if a directory was offline then

    # -- start and stop

    def previous_broker_epoch(self) -> int:
        """Return the broker epoch of the last clean shutdown; -1 without one or when the directories differ.

        Raises OSError.

        Source: LogManager.readBrokerEpochFromCleanShutdownFiles.
        """
        epochs = {checkpoints.read_clean_shutdown(directory.path) for directory in self.directories}
        only = epochs.pop()
        return -1 if epochs or only is None else only

    async def load(self, image: CaughtUpImage) -> None:
        """Open the logs that `image` assigns to this broker. `log_folders` describes what happens to other folders.

        A directory that cannot be used is offline from the start. Raises CorruptCheckpointError.
        """
        plan, unreadable = await self.run_io(sort_folders, self.directories, image)
        for directory, error in unreadable.items():
            self.failures.report(directory.path, "list the logs of", error)
        for directory in self.failures.online:
            folders = [each for each in plan if each.path.parent == directory.path]
            try:
                is_clean = await self.run_io(checkpoints.take_clean_shutdown, directory.path)
                await self._load_directory(directory, folders, is_clean)
            except OSError as error:
                self.failures.report(directory.path, "load the logs of", error)
        if len(self.failures.online) < len(self.directories):
            self._incomplete = image
        self._loaded = True

    async def _load_directory(self, directory: LogDirectory, folders: list[Kept], is_clean: bool) -> None:
        recovery_points = _read_offsets(directory.path / checkpoints.RECOVERY_POINT_CHECKPOINT)
        starts = _read_offsets(directory.path / checkpoints.LOG_START_CHECKPOINT)
        cleaned = _read_offsets(directory.path / checkpoints.CLEANER_CHECKPOINT)
        for kept in folders:
            key = kept.topic, kept.folder.partition
            topic_id = kept.folder.topic_id
            assert topic_id is not None, "a folder without a topic id is set aside"
            options = LoadOptions(is_clean, recovery_points.get(key, 0), starts.get(key, 0), self._clock_ms())
            if kept.folder.is_stray:  # its checkpoints describe the log that was in its place
                options = LoadOptions(False, 0, 0, self._clock_ms())
            config = self._topic_config(kept.topic)
            opened = await self.run_io(open_log, kept.path, *key, topic_id, config, options)
            self._adopt(opened)
            if cleaned.get(key, 0) <= opened.active.base_offset and not kept.folder.is_stray:
                opened.first_dirty_offset = cleaned.get(key, 0)

    def start(self) -> None:
        """Start retention, flushing, checkpoints and compaction."""
        for interval_ms, work in (
            (self.config.retention_check_interval_ms, self.clean_up_logs),
            (self.config.flush_scheduler_interval_ms, self.flush_dirty_logs),
            (self.config.flush_checkpoint_interval_ms, self.write_checkpoints),
            (self.config.cleaner_backoff_ms if self.config.cleaner_enable else 2**63 - 1, self.compact_logs),
        ):
            if interval_ms < 2**53:
                upkeep = Recurring(interval_ms, work)
                upkeep.start()
                self._upkeep.append(upkeep)

    async def stop(self, broker_epoch: int) -> None:
        """Stop the background work, flush and close every log and write the clean-shutdown files.

        A manager that has not finished loading writes none: the logs it did not open may be torn.
        """
        for upkeep in self._upkeep:
            await upkeep.stop()
        await self.cleaner.stop()
        for task in self._deletions:
            task.cancel()
        await asyncio.gather(*self._deletions, return_exceptions=True)
        async with self.cleaner.lock:
            for partition_log in list(self.logs.values()):
                if partition_log.is_offline:
                    continue
                try:
                    await self.run_io(partition_log.close)
                except OSError as error:
                    partition_log.storage_error("close", error)
        if self._loaded:
            await self._write_clean_shutdown(broker_epoch)
        for partition_log in (*self.logs.values(), *self._offline.values()):
            partition_log.close_files()
        self.logs.clear()
        self._offline.clear()
        self._io.shutdown()

    async def _write_clean_shutdown(self, broker_epoch: int) -> None:
        await self.write_checkpoints()
        for directory in self.failures.online:
            path = directory.path
            try:
                await self.run_io(checkpoints.write_clean_shutdown, path, broker_epoch)
            except OSError as error:
                self.failures.report(path, "write the clean-shutdown file of", error)

    async def run_io(self, work: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
        """Run blocking work on the I/O thread."""
        return await asyncio.get_running_loop().run_in_executor(self._io, work, *arguments)

    # -- creating, opening and removing logs

    def get_or_create(self, topic: str, partition: int, topic_id: uuid.UUID, directory_id: uuid.UUID) -> UnifiedLog:
        """Return the partition's log, creating it if needed.

        A new log goes to the directory of `directory_id`, or to the one with the fewest logs. A folder of another topic
        of that name is set aside. Raises KafkaError KAFKA_STORAGE_ERROR if the directory is offline or fails now.
        """
        key = topic, partition
        offline = self._offline.get(key)
        if offline is not None and offline.topic_id == topic_id:
            offline.check_online()
        known = self.logs.get(key)
        if known is not None:
            if known.topic_id == topic_id:
                return known
            self.set_aside(topic, partition, f"a log of topic id {topic_id} is made in its place")
        self._check_not_offline(topic_id, partition, directory_id)
        for directory in self._directories_for(directory_id):
            try:
                created = self._make(directory.path / f"{topic}-{partition}", topic, partition, topic_id)
            except OSError as error:
                if is_full(error):
                    continue  # the data on a full disk are good
                self.failures.report(directory.path, f"create the log of {topic}-{partition}", error)
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {topic}-{partition} cannot be created: {error}."
                ) from error
            self._adopt(created)
            return created
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"No log directory has room for {topic}-{partition}.")

    def _check_not_offline(self, topic_id: uuid.UUID, partition: int, directory_id: uuid.UUID) -> None:
        """Raise KafkaError if the partition's records may be in a directory that was offline at the start.

        Source: LogManager.getOrCreateLog, which creates no log of a known partition while a directory is offline.
        """
        if self._incomplete is None or any(each.directory_id == directory_id for each in self.failures.online):
            return
        if self._incomplete.assignment(topic_id, partition) is not None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The log of partition {partition} may be in an offline log directory.",
            )

    def _make(self, folder: Path, topic: str, partition: int, topic_id: uuid.UUID) -> UnifiedLog:
        options = LoadOptions(clean_shutdown=True, recovery_point=0, log_start_offset=0, now_ms=self._clock_ms())
        is_new = not folder.exists()
        try:
            try:
                return open_log(folder, topic, partition, topic_id, self._topic_config(topic), options)
            except TopicIdMismatchError as error:
                self._move_away(folder, str(error))
                return open_log(folder, topic, partition, topic_id, self._topic_config(topic), options)
        except OSError:
            if is_new:
                with contextlib.suppress(OSError):
                    delete_folder(folder)
            raise

    def _adopt(self, partition_log: UnifiedLog) -> None:
        path = partition_log.directory.parent
        partition_log.on_failure = lambda operation, error: self.failures.report(path, operation, error)
        self.logs[partition_log.topic, partition_log.partition] = partition_log

    def _move_away(self, folder: Path, reason: str) -> None:
        """Rename a folder of another topic: to `-delete` if compaction delayed its deletion, else to `-stray`."""
        deleted = next((each for each in self._not_renamed if each.directory == folder), None)
        if deleted is not None:
            self._rename_deleted(deleted)
        else:
            set_aside(folder, reason)

    def set_aside(self, topic: str, partition: int, reason: str) -> None:
        """Take a log out of service and keep its records in a `-stray` folder. A failed directory stays as it is."""
        self._offline.pop((topic, partition), None)
        partition_log = self.logs.pop((topic, partition), None)
        if partition_log is None:
            return
        try:
            partition_log.directory = set_aside(partition_log.directory, reason)
        except OSError as error:
            partition_log.storage_error("set aside", error)
        self._in_background(self._close_later(partition_log))

    def _directories_for(self, directory_id: uuid.UUID) -> list[LogDirectory]:
        """Return the directories for a new log: the one with that id, or all online ones, the emptiest first."""
        named = [directory for directory in self.directories if directory.directory_id == directory_id]
        if named and not self.failures.is_online(named[0].path):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log directory {named[0].path} is offline.")
        if named:
            return named
        counts = Counter(partition_log.directory.parent for partition_log in self.logs.values())
        return sorted(self.failures.online, key=lambda directory: counts[directory.path])

    def _directory_failed(self, directory: LogDirectory) -> None:
        """Take the directory's logs out of service. Their files stay open, since other threads may be reading them."""
        for key, partition_log in list(self.logs.items()):
            if partition_log.directory.parent == directory.path:
                partition_log.is_offline = True
                self._offline[key] = self.logs.pop(key)

    def offline_directory_of(self, topic: str, partition: int, topic_id: uuid.UUID) -> LogDirectory | None:
        """Return the failed directory that contains a partition's log, None if none is known to contain it."""
        partition_log = self._offline.get((topic, partition))
        if partition_log is None or partition_log.topic_id != topic_id:
            return None
        return self.directory_of(partition_log)

    def directory_of(self, partition_log: UnifiedLog) -> LogDirectory:
        """Return the directory that contains a log."""
        return next(entry for entry in self.directories if entry.path == partition_log.directory.parent)

    def delete(self, topic: str, partition: int) -> None:
        """Take a log out of service and rename its folder to `-delete`, which is deleted after `file.delete.delay.ms`.

        The records are lost. Only for a partition whose removal is committed.
        """
        self._offline.pop((topic, partition), None)
        partition_log = self.logs.pop((topic, partition), None)
        if partition_log is not None:
            self._not_renamed.append(partition_log)
            self._in_background(self._delete_later(partition_log))
            if not self.cleaner.lock.locked():
                self._rename_deleted(partition_log)

    def _rename_deleted(self, partition_log: UnifiedLog) -> None:
        """Rename a deleted log's folder, once: its place may have been taken by a log of the same name."""
        if partition_log not in self._not_renamed:
            return
        self._not_renamed.remove(partition_log)
        folder = partition_log.directory
        deleted = folder.with_name(folder_name(folder.name, partition_log.topic_id.hex, DELETE_SUFFIX))
        try:
            with contextlib.suppress(FileNotFoundError):
                folder.rename(deleted)
        except OSError as error:
            partition_log.storage_error("delete", error)
            return
        partition_log.directory = deleted

    async def _delete_later(self, partition_log: UnifiedLog) -> None:
        async with self.cleaner.lock:
            self._rename_deleted(partition_log)
        await self._close_later(partition_log)
        try:
            await self.run_io(delete_folder, partition_log.directory)
        except OSError as error:
            partition_log.storage_error("delete", error)

    async def _close_later(self, partition_log: UnifiedLog) -> None:
        """Close the files once no response in progress can read them."""
        await asyncio.sleep(partition_log.config.file_delete_delay_ms / 1000)
        async with self.cleaner.lock:
            partition_log.close_files()

    def _in_background(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._deletions.add(task)
        task.add_done_callback(self._deletions.discard)
        return task

    def update_configs(self, topics: Iterable[str] | None = None) -> None:
        """Read the configs of these topics again, of all topics if None."""
        wanted = None if topics is None else set(topics)
        for (topic, _), partition_log in self.logs.items():
            if wanted is None or topic in wanted:
                partition_log.config = self._topic_config(topic)

    # -- background work

    async def clean_up_logs(self) -> None:
        """Apply retention to every log, and expire the state of idle producers."""
        now_ms = self._clock_ms()
        for partition_log in list(self.logs.values()):
            partition_log.producers.expire(now_ms, self.config.producer_id_expiration_ms)
            with contextlib.suppress(KafkaError):  # the failure of the directory is logged already
                self.delete_expired(partition_log, partition_log.config.file_delete_delay_ms)

    def delete_expired(self, partition_log: UnifiedLog, delay_ms: int) -> "asyncio.Task[None] | None":
        """Detach the segments before the new log start, and return the task that deletes them after `delay_ms`.

        The new start is set by retention or by `increment_log_start`. None is returned if there is nothing to delete.
        Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        partition_log.check_online()
        if self.cleaner.lock.locked() and partition_log.config.is_compacted:
            return None
        try:
            detached = partition_log.take_expired(self._clock_ms(), partition_log.log_end_offset)
        except OSError as error:
            raise partition_log.storage_error("delete segments of", error) from error
        if not detached:
            return None
        extra = {"partition": partition_log.directory.name, "segments": len(detached)}
        log.info("log_segments_expired", extra=extra)
        try:
            renamed = [path for segment in detached for path in rename_deleted(segment)]
        except OSError as error:
            for segment in detached:
                segment.close()
            raise partition_log.storage_error("delete segments of", error) from error
        return self._in_background(self._discard(partition_log, detached, renamed, delay_ms))

    def _discard_now(self, partition_log: UnifiedLog, segments: list[LogSegment], renamed: list[Path]) -> None:
        self._in_background(self._discard(partition_log, segments, renamed, 0))

    async def _discard(
        self, partition_log: UnifiedLog, segments: list[LogSegment], renamed: list[Path], delay_ms: int
    ) -> None:
        await asyncio.sleep(delay_ms / 1000)
        for segment in segments:
            segment.close()
        try:
            await self.run_io(delete_files, renamed)
        except OSError as error:
            partition_log.storage_error("delete segments of", error)

    async def flush_log(self, partition_log: UnifiedLog) -> None:
        """Flush one log to disk. Raises KafkaError KAFKA_STORAGE_ERROR."""
        partition_log.check_online()
        end_offset = partition_log.log_end_offset
        try:
            descriptors = [os.dup(segment.file_descriptor) for segment in partition_log.unflushed_segments()]
            await self.run_io(_sync, descriptors)
        except OSError as error:
            raise partition_log.storage_error("flush", error) from error
        partition_log.check_online()
        partition_log.recovery_point = max(partition_log.recovery_point, end_offset)
        partition_log.last_flush_ms = self._clock_ms()

    async def flush_dirty_logs(self) -> None:
        """Flush the logs whose newest data is older than their `flush.ms`."""
        now_ms = self._clock_ms()
        for partition_log in list(self.logs.values()):
            dirty = partition_log.recovery_point < partition_log.log_end_offset
            if dirty and now_ms - partition_log.last_flush_ms >= partition_log.config.flush_ms:
                with contextlib.suppress(KafkaError):  # the failure of the directory is logged already
                    await self.flush_log(partition_log)

    async def write_checkpoints(self) -> None:
        """Write recovery points and log start offsets, after flushing the closed segments to keep recovery short.

        On a full disk the older checkpoints stay, which are valid: recovery takes longer, and deleted records may
        reappear after a crash.
        """
        for partition_log in list(self.logs.values()):
            if partition_log.recovery_point < partition_log.active.base_offset:
                with contextlib.suppress(KafkaError):  # the failure of the directory is logged already
                    await self.flush_log(partition_log)
        for directory in self.failures.online:
            path = directory.path
            logs = {key: entry for key, entry in self.logs.items() if entry.directory.parent == path}
            offsets = {
                checkpoints.RECOVERY_POINT_CHECKPOINT: {key: entry.recovery_point for key, entry in logs.items()},
                checkpoints.LOG_START_CHECKPOINT: {
                    key: entry.log_start_offset for key, entry in logs.items() if entry.log_start_offset > 0
                },
                checkpoints.CLEANER_CHECKPOINT: {
                    key: entry.first_dirty_offset for key, entry in logs.items() if entry.first_dirty_offset > 0
                },
            }
            try:
                await self.run_io(_write_checkpoints, path, offsets)
            except OSError as error:
                if is_full(error):
                    extra = {"directory": str(path), "cause": str(error)}
                    log.error("checkpoints_not_written", extra=extra)  # noqa: TRY400 # the cause is enough
                else:
                    self.failures.report(path, "write the checkpoints of", error)

    async def compact_logs(self) -> None:
        """Compact every log that is dirty enough, one at a time."""
        for partition_log in list(self.logs.values()):
            if partition_log.config.is_compacted:
                await self.cleaner.clean(partition_log)


def _read_offsets(path: Path) -> dict[PartitionKey, int]:
    try:
        return checkpoints.read_offsets(path)
    except checkpoints.CorruptCheckpointError as error:
        log.warning("checkpoint_ignored", extra={"cause": str(error)})
        return {}


def _write_checkpoints(path: Path, offsets: dict[str, dict[PartitionKey, int]]) -> None:
    for name, by_partition in offsets.items():
        checkpoints.write_offsets(path / name, by_partition)


def _sync(descriptors: list[int]) -> None:
    try:
        for descriptor in descriptors:
            os.fdatasync(descriptor)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
