"""A failed log directory goes offline; other directories and errors that are not the disk's change nothing."""

import asyncio
import errno
import os
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from kraft_core.broker.log.log_config import LogConfig
from kraft_core.broker.log.log_directory import LogDirectory
from kraft_core.broker.log.log_manager import LogManager, LogManagerConfig
from kraft_core.broker.log.unified_log import UnifiedLog
from kraft_core.protocol.errors import ErrorCode, KafkaError
from tests.broker.batches import append, batch
from tests.broker.faulty_disk import FaultyDisk, full, io_error

FIRST, SECOND = uuid.UUID(int=201), uuid.UUID(int=202)


def error(number: int) -> Callable[[], OSError]:
    return lambda: OSError(number, os.strerror(number))


async def written(logs: LogManager, log: UnifiedLog) -> None:
    append(log, batch([b"v"]), 0, 1)


async def flushed(logs: LogManager, log: UnifiedLog) -> None:
    await logs.flush_log(log)


async def checkpointed(logs: LogManager, log: UnifiedLog) -> None:
    await logs.write_checkpoints()


async def rolled(logs: LogManager, log: UnifiedLog) -> None:
    log.config = LogConfig(segment_bytes=1)
    append(log, batch([b"v"]), 0, 1)


@pytest.mark.parametrize(
    ("work", "fault", "goes_offline"),
    [
        (written, io_error, True),
        (written, full, True),
        (rolled, io_error, True),
        (flushed, io_error, True),
        (checkpointed, io_error, True),
        (checkpointed, full, False),
        (written, error(errno.EMFILE), False),
    ],
)
def test_a_failed_operation_takes_its_directory_offline_and_no_other(
    tmp_path: Path,
    work: Callable[[LogManager, UnifiedLog], object],
    fault: Callable[[], OSError],
    goes_offline: bool,
) -> None:
    async def run() -> None:
        directories = [LogDirectory(tmp_path / "a", FIRST), LogDirectory(tmp_path / "b", SECOND)]
        for directory in directories:
            directory.path.mkdir()
        logs = LogManager(directories, LogManagerConfig(), lambda topic: LogConfig(), lambda: 1)
        failed: list[uuid.UUID] = []
        logs.failures.on_failure(lambda directory: failed.append(directory.directory_id))
        doomed = logs.get_or_create("t", 0, uuid.UUID(int=1), FIRST)
        other = logs.get_or_create("t", 1, uuid.UUID(int=1), SECOND)
        append(doomed, batch([b"v"]), 0, 1)

        with FaultyDisk(1, fault).plugged_in():
            try:
                await work(logs, doomed)
            except KafkaError as refused:
                code: int | None = refused.code
            else:
                code = None

        assert failed == ([FIRST] if goes_offline else [])
        assert code in (None, ErrorCode.KAFKA_STORAGE_ERROR)
        append(other, batch([b"v"]), 0, 1)
        if goes_offline:
            assert ("t", 0) not in logs.logs
            with pytest.raises(KafkaError, match="offline"):
                append(doomed, batch([b"v"]), 0, 1)
            with pytest.raises(KafkaError, match="offline"):
                logs.get_or_create("t", 0, uuid.UUID(int=1), FIRST)
            assert logs.offline_directory_of("t", 0, uuid.UUID(int=1)) == directories[0]
        else:
            append(doomed, batch([b"v"]), 0, 1)
        await logs.stop(1)

    asyncio.run(run())


def test_a_new_partition_is_placed_in_a_directory_with_room(tmp_path: Path) -> None:
    async def run() -> None:
        directories = [LogDirectory(tmp_path / "a", FIRST), LogDirectory(tmp_path / "b", SECOND)]
        for directory in directories:
            directory.path.mkdir()
        logs = LogManager(directories, LogManagerConfig(), lambda topic: LogConfig(), lambda: 1)
        with FaultyDisk(2, full).plugged_in():
            made = logs.get_or_create("t", 0, uuid.UUID(int=1), uuid.UUID(int=0))
        assert made.directory.parent == tmp_path / "b"
        assert list((tmp_path / "a").iterdir()) == []
        assert logs.failures.online == directories
        await logs.stop(1)

    asyncio.run(run())
