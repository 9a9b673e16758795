"""Which folders become logs, and that no log is judged by metadata that may be incomplete."""

import asyncio
import errno
import logging
import os
import shutil
import uuid
from pathlib import Path

import pytest

from kraft_core.broker.caught_up_image import CaughtUpImage
from kraft_core.broker.log.log_config import LogConfig
from kraft_core.broker.log.log_folders import folder_name
from kraft_core.broker.log.log_manager import LogDirectory, LogManager, LogManagerConfig
from kraft_core.broker.replica_manager import ReplicaManager
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.metadata_records import RemoveTopicRecord
from tests.broker.batches import append, batch
from tests.broker.metadata import BROKER_ID, INCARNATION_ID, caught_up, image_of

OLD, NEW = uuid.UUID(int=5), uuid.UUID(int=6)
FIRST, SECOND = uuid.UUID(int=101), uuid.UUID(int=102)


def manager(folder: Path) -> LogManager:
    directories = [LogDirectory(folder / "first", FIRST), LogDirectory(folder / "second", SECOND)]
    for each in directories:
        each.path.mkdir(parents=True, exist_ok=True)
    return LogManager(directories, LogManagerConfig(), lambda topic: LogConfig(), lambda: 2_000)


def write(folder: Path, topic: str, topic_id: uuid.UUID, count: int, directory: uuid.UUID = FIRST) -> None:
    """Create a log with `count` records."""

    async def run() -> None:
        logs = manager(folder)
        log = logs.get_or_create(topic, 0, topic_id, directory)
        for _ in range(count):
            append(log, batch([b"of %d" % topic_id.int]), 0, 1_000)
        log.close()

    asyncio.run(run())


def load(folder: Path, image: CaughtUpImage) -> dict[tuple[str, int], tuple[uuid.UUID, str, int]]:
    """Load a new manager. Return topic id, directory and log end by partition."""

    async def run() -> dict[tuple[str, int], tuple[uuid.UUID, str, int]]:
        logs = manager(folder)
        await logs.load(image)
        found = {key: (log.topic_id, log.directory.parent.name, log.log_end_offset) for key, log in logs.logs.items()}
        for log in logs.logs.values():
            log.close_files()
        return found

    return asyncio.run(run())


def strays(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*-stray"))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


def test_an_image_without_this_starts_registration_decides_no_log() -> None:
    image = image_of({})

    for unproven in (MetadataImage.EMPTY, image):
        with pytest.raises(ValueError, match="does not contain broker 1's registration as incarnation"):
            CaughtUpImage(unproven, BROKER_ID, uuid.UUID(int=78))
    assert CaughtUpImage(image, BROKER_ID, INCARNATION_ID).image is image


def test_a_log_that_is_not_in_the_metadata_is_set_aside_and_restored_once_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "t", OLD, 7)

    assert load(tmp_path, caught_up()) == {}

    assert [record.message for record in caplog.records] == ["stray_log_set_aside"]
    assert caplog.records[0].__dict__["reason"] == "the metadata at offset 9 has no topic with this id"
    assert len(strays(tmp_path)) == 1

    assert load(tmp_path, caught_up(t=(OLD, 1))) == {("t", 0): (OLD, "first", 7)}
    assert strays(tmp_path) == []
    assert warnings(caplog)[1:] == ["stray_log_taken_back"]


def test_a_log_set_aside_replaces_the_empty_one_created_meanwhile(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A start with an old snapshot sets the records aside and creates an empty log, perhaps on another disk."""
    write(tmp_path, "t", OLD, 7)
    load(tmp_path, caught_up())
    caplog.clear()
    write(tmp_path, "t", OLD, 0, SECOND)

    assert load(tmp_path, caught_up(t=(OLD, 1))) == {("t", 0): (OLD, "first", 7)}

    (record,) = caplog.records
    assert record.message == "stray_log_taken_back"
    assert record.__dict__["renamed"] == str(tmp_path / "first" / "t-0")
    assert record.__dict__["set_aside"] == str(strays(tmp_path)[0])
    assert [path.parent.name for path in strays(tmp_path)] == ["second"]
    assert load(tmp_path, caught_up(t=(OLD, 1))) == {("t", 0): (OLD, "first", 7)}


def test_a_log_set_aside_replaces_the_log_of_an_older_topic(tmp_path: Path) -> None:
    write(tmp_path, "t", NEW, 7)
    load(tmp_path, caught_up())
    write(tmp_path, "t", OLD, 9)

    assert load(tmp_path, caught_up(t=(NEW, 1))) == {("t", 0): (NEW, "first", 7)}

    assert len(strays(tmp_path)) == 1
    assert load(tmp_path, caught_up(t=(OLD, 1))) == {("t", 0): (OLD, "first", 9)}


def test_of_two_logs_with_records_the_one_in_service_is_kept_and_the_other_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "t", OLD, 7)
    load(tmp_path, caught_up())
    caplog.clear()
    write(tmp_path, "t", OLD, 2)

    assert load(tmp_path, caught_up(t=(OLD, 1))) == {("t", 0): (OLD, "first", 2)}

    (record,) = caplog.records
    assert record.message == "stray_log_not_taken_back"
    assert (record.__dict__["folder"], record.__dict__["log_end_offset"]) == (str(strays(tmp_path)[0]), 7)
    assert (record.__dict__["kept"], record.__dict__["kept_log_end_offset"]) == (str(tmp_path / "first" / "t-0"), 2)


def test_of_two_directories_with_one_partition_the_longer_log_is_kept(tmp_path: Path) -> None:
    write(tmp_path, "t", OLD, 3)
    write(tmp_path / "other", "t", OLD, 8)
    shutil.copytree(tmp_path / "other" / "first" / "t-0", tmp_path / "second" / "t-0")

    assert load(tmp_path, caught_up(t=(OLD, 1))) == {("t", 0): (OLD, "second", 8)}

    assert [path.parent.name for path in strays(tmp_path)] == ["first"]


def test_a_log_moved_to_another_directory_is_found_there(tmp_path: Path) -> None:
    write(tmp_path, "t", OLD, 3)
    (tmp_path / "second").mkdir(exist_ok=True)
    (tmp_path / "first" / "t-0").rename(tmp_path / "second" / "t-0")

    assert load(tmp_path, caught_up(t=(OLD, 1))) == {("t", 0): (OLD, "second", 3)}
    assert strays(tmp_path) == []


def test_the_longest_name_keeps_its_partition_when_it_is_set_aside(tmp_path: Path) -> None:
    topic = "t" * 249
    write(tmp_path, topic, OLD, 3)
    load(tmp_path, caught_up())

    assert len(strays(tmp_path)[0].name) == 255
    assert folder_name(f"{topic}-12345", "0" * 32, "-stray").endswith(f"-12345.{'0' * 32}-stray")
    assert load(tmp_path, caught_up(**{topic: (OLD, 1)})) == {(topic, 0): (OLD, "first", 3)}


def test_the_start_of_a_deleted_topics_log_does_not_hide_the_records_of_its_successor(tmp_path: Path) -> None:
    """The checkpoint contains only names, and a killed broker may not have updated it."""

    async def first_life() -> None:
        logs = manager(tmp_path)
        await logs.load(caught_up())
        old = logs.get_or_create("t", 0, OLD, FIRST)
        for _ in range(5):
            append(old, batch([b"old"]), 0, 1_000)
        old.increment_log_start(4)
        await logs.write_checkpoints()
        logs.delete("t", 0)
        new = logs.get_or_create("t", 0, NEW, FIRST)
        for _ in range(9):
            append(new, batch([b"new"]), 0, 1_000)

    asyncio.run(first_life())

    async def second_life() -> None:
        logs = manager(tmp_path)
        await logs.load(caught_up(t=(NEW, 1)))
        assert logs.logs["t", 0].log_start_offset == 0

    asyncio.run(second_life())


def test_deleted_records_stay_deleted_after_a_kill(tmp_path: Path) -> None:
    async def first_life() -> None:
        logs = manager(tmp_path)
        await logs.load(caught_up())
        log = logs.get_or_create("t", 0, OLD, FIRST)
        for _ in range(5):
            append(log, batch([b"v"]), 0, 1_000)
        log.increment_log_start(5)
        await logs.write_checkpoints()

    asyncio.run(first_life())

    async def later_life() -> None:
        logs = manager(tmp_path)
        await logs.load(caught_up(t=(OLD, 1)))
        assert logs.logs["t", 0].log_start_offset == 5

    for _ in range(3):
        asyncio.run(later_life())


def test_a_topic_recreated_while_its_old_log_is_compacted_keeps_its_folder(tmp_path: Path) -> None:
    """Compaction delays renaming a deleted log's folder; the rename must not take the folder of the new log."""

    async def run() -> None:
        logs = manager(tmp_path)
        await logs.load(caught_up())
        logs.get_or_create("t", 0, OLD, FIRST)
        async with logs.cleaner.lock:  # as a compaction holds it
            logs.delete("t", 0)
            new = logs.get_or_create("t", 0, NEW, FIRST)
            append(new, batch([b"new"]), 0, 1_000)
        for _ in range(10):
            await asyncio.sleep(0)
        assert new.directory == tmp_path / "first" / "t-0"
        assert new.directory.is_dir()
        assert len(list((tmp_path / "first").glob("t-0.*-delete"))) == 1

    asyncio.run(run())


def test_only_a_committed_removal_deletes_a_log(tmp_path: Path) -> None:
    """A snapshot may lack a topic because the quorum was restored from a copy; the records are kept then."""
    with_topic, without = image_of({"t": (OLD, 1)}), image_of({})

    async def run() -> None:
        logs = manager(tmp_path)
        await logs.load(CaughtUpImage(with_topic, BROKER_ID, INCARNATION_ID))
        replicas = ReplicaManager(BROKER_ID, logs, lambda: 0)
        for records, suffix in (((), "-stray"), ((RemoveTopicRecord(topic_id=OLD),), "-delete")):
            replicas.on_image(MetadataImage.EMPTY, with_topic, ())
            assert ("t", 0) in logs.logs
            replicas.on_image(with_topic, without, records)
            assert ("t", 0) not in logs.logs
            assert [path.name for path in (tmp_path / "first").glob("t-0.*") if path.name.endswith(suffix)]
        assert len(list((tmp_path / "first").glob("t-0.*"))) == 2

    asyncio.run(run())


def test_a_directory_that_fails_at_the_start_is_offline_and_its_partitions_are_not_created_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "t", OLD, 3)
    write(tmp_path, "gone", uuid.UUID(int=8), 3)
    write(tmp_path, "other", NEW, 4, SECOND)
    rename = Path.rename

    def read_only(path: Path, target: Path) -> Path:
        if path.parent.name == "first":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", read_only)

    async def run() -> None:
        logs = manager(tmp_path)
        await logs.load(caught_up(t=(OLD, 1), other=(NEW, 1), empty=(uuid.UUID(int=9), 1)))
        assert [directory.path.name for directory in logs.failures.online] == ["second"]
        assert list(logs.logs) == [("other", 0)]
        with pytest.raises(KafkaError, match="may be in an offline log directory"):
            logs.get_or_create("t", 0, OLD, uuid.UUID(int=0))
        assert logs.get_or_create("later", 0, uuid.UUID(int=10), uuid.UUID(int=0)).directory.parent.name == "second"
        assert logs.get_or_create("empty", 0, uuid.UUID(int=9), SECOND).directory.parent.name == "second"

    asyncio.run(run())
