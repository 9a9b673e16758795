"""KafkaRaftLog: appends, reads, truncations and flushes; what was flushed survives."""

import errno
import os
import threading
from pathlib import Path

import pytest

from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.storage.files import StorageError
from kraft_core.storage.kafka_raft_log import KafkaRaftLog, LogConfig
from tests.storage.batches import batch
from tests.storage.disks import FailingFiles, RecordingFiles
from tests.storage.logs import SMALL, contents, directory_of, filled, with_snapshot


def test_appended_batches_are_readable_at_once_and_durable_after_flush(tmp_path: Path) -> None:
    log = KafkaRaftLog.open(tmp_path)
    raw = batch(0, values=(b"a", b"b", b"c"))
    log.append(raw)
    assert (log.end_offset, log.flushed_offset) == (3, 0)
    assert log.read(0, 10_000) == raw
    assert (directory_of(tmp_path) / f"{0:020d}.log").stat().st_size == 0
    assert log.flush() == 3
    assert log.flushed_offset == 3
    assert (directory_of(tmp_path) / f"{0:020d}.log").read_bytes() == raw
    log.close()


def test_a_reopened_log_has_the_same_batches_epochs_and_control_records(tmp_path: Path) -> None:
    log = KafkaRaftLog.open(tmp_path)
    leader = batch(0, 3, (b"leader",), control_type=2)
    log.append(leader + batch(1, 3, (b"x", b"y")) + batch(3, 7, (b"z",)))
    expected = contents(log)
    log.close()
    log = KafkaRaftLog.open(tmp_path)
    assert contents(log) == expected
    assert (log.start_offset, log.end_offset, log.flushed_offset, log.last_epoch) == (0, 4, 4, 7)
    assert [log.epoch_of(offset) for offset in range(4)] == [3, 3, 3, 7]
    assert list(log.control_batches(0)) == [leader]
    assert list(log.control_batches(1)) == []
    log.close()


@pytest.mark.parametrize("cache_bytes", [0, 300, 1_000_000])
def test_reads_give_whole_batches_within_the_limit_from_memory_and_from_files(tmp_path: Path, cache_bytes: int) -> None:
    log = KafkaRaftLog.open(tmp_path, LogConfig(segment_bytes=1_000_000, cache_bytes=cache_bytes))
    batches = [batch(2 * index, values=(b"first" * 40, b"second")) for index in range(60)]
    for raw in batches:
        log.append(raw)
        log.flush()
    size = len(batches[0])
    for offset in range(120):
        index = offset // 2
        assert log.read(offset, 1) == batches[index]
        data = log.read(offset, 3 * size + 5)
        assert data == b"".join(batches[index : index + len(data) // size])
        assert size <= len(data) <= 3 * size
    assert contents(log) == b"".join(batches)
    assert log.read(120, 1) == b""
    log.close()


def test_a_read_outside_the_log_is_refused(tmp_path: Path) -> None:
    log = KafkaRaftLog.open(tmp_path)
    with pytest.raises(ValueError, match="outside"):
        log.read(1, 100)
    log.close()


@pytest.mark.parametrize(
    "raw",
    [batch(1), batch(0, 0), batch(0)[:-1], batch(0)[:16] + b"\x01" + batch(0)[17:], b""],
    ids=["gap", "older epoch", "cut", "magic 1", "empty"],
)
def test_batches_that_do_not_continue_the_log_are_refused(tmp_path: Path, raw: bytes) -> None:
    log = KafkaRaftLog.open(tmp_path)
    if raw == batch(0, 0):
        log.append(batch(0, 1))
        raw = batch(1, 0)
    with pytest.raises(AssertionError):
        log.append(raw)
    log.close()


def test_segments_roll_by_size_and_by_time_and_read_as_one(tmp_path: Path) -> None:
    batches = filled(tmp_path, 12, SMALL)
    names = sorted(path.name for path in directory_of(tmp_path).glob("*.log"))
    assert len(names) > 2
    log = KafkaRaftLog.open(tmp_path, LogConfig(segment_ms=500))
    assert contents(log) == b"".join(batches)
    log.append(batch(12, timestamp=1_500))
    log.append(batch(13, timestamp=1_501))
    log.close()
    assert (directory_of(tmp_path) / f"{13:020d}.log").exists()


def test_truncation_drops_the_batches_above_and_survives_a_reopen(tmp_path: Path) -> None:
    log = KafkaRaftLog.open(tmp_path, SMALL)
    for offset in range(12):
        log.append(batch(offset, epoch=1 + offset // 4))
    log.flush()
    log.truncate_to(5)
    assert (log.end_offset, log.flushed_offset, log.last_epoch) == (5, 5, 2)
    log.append(batch(5, epoch=9))
    assert log.read(5, 1) == batch(5, epoch=9)
    expected = contents(log)
    log.close()
    log = KafkaRaftLog.open(tmp_path, SMALL)
    assert contents(log) == expected
    assert log.last_epoch == 9
    log.close()


def test_truncation_of_what_was_never_flushed_leaves_the_flushed_part(tmp_path: Path) -> None:
    log = KafkaRaftLog.open(tmp_path)
    log.append(batch(0))
    log.flush()
    log.append(batch(1))
    log.append(batch(2))
    log.truncate_to(2)
    assert log.flush() == 2
    log.close()
    log = KafkaRaftLog.open(tmp_path)
    assert contents(log) == batch(0) + batch(1)
    log.close()


def test_a_truncation_inside_a_batch_drops_the_whole_batch(tmp_path: Path) -> None:
    log = KafkaRaftLog.open(tmp_path)
    log.append(batch(0, values=(b"a", b"b")))
    log.append(batch(2, values=(b"c", b"d")))
    log.truncate_to(3)
    assert log.end_offset == 2
    log.close()


def test_end_offset_for_epoch_answers_as_kafka_does(tmp_path: Path) -> None:
    log = KafkaRaftLog.open(tmp_path)
    assert log.end_offset_for_epoch(5) == OffsetAndEpoch(0, 0)
    for offset, epoch in enumerate((2, 2, 4, 4, 7)):
        log.append(batch(offset, epoch))
    assert log.end_offset_for_epoch(7) == OffsetAndEpoch(5, 7)
    assert log.end_offset_for_epoch(9) == OffsetAndEpoch(5, 7)
    assert log.end_offset_for_epoch(5) == OffsetAndEpoch(4, 4)
    assert log.end_offset_for_epoch(2) == OffsetAndEpoch(2, 2)
    assert log.end_offset_for_epoch(1) == OffsetAndEpoch(0, 1)
    log.close()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
@pytest.mark.parametrize("steps", [0, 1], ids=["write", "sync"])
def test_a_failing_disk_is_one_error_and_acknowledges_nothing_from_then_on(
    tmp_path: Path, number: int, steps: int
) -> None:
    files = FailingFiles()
    log = KafkaRaftLog.open(tmp_path, files=files)
    log.append(batch(0))
    log.flush()
    log.append(batch(1))
    files.steps_left, files.error = steps, OSError(number, os.strerror(number))
    with pytest.raises(StorageError, match="Cannot write"):
        log.flush()
    files.steps_left = -1
    with pytest.raises(StorageError, match="Cannot write"):
        log.flush()
    assert log.flushed_offset == 1
    log.close()
    log = KafkaRaftLog.open(tmp_path)
    assert log.read(0, 1) == batch(0)
    log.close()


def test_a_read_only_folder_is_one_error(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        file = tmp_path / "file"
        file.write_text("")
        with pytest.raises(StorageError, match="Cannot create"):
            KafkaRaftLog.open(file)
        return
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="permission denied"):
        KafkaRaftLog.open(tmp_path)


def test_appends_and_reads_work_while_another_thread_flushes(tmp_path: Path) -> None:
    log = KafkaRaftLog.open(tmp_path, LogConfig(segment_bytes=20_000, cache_bytes=2_000))
    stop = threading.Event()
    failures: list[BaseException] = []

    def flush_all_the_time() -> None:
        try:
            while not stop.is_set():
                log.flush()
        except BaseException as error:  # noqa: BLE001  # shown by the assertion below
            failures.append(error)

    thread = threading.Thread(target=flush_all_the_time)
    thread.start()
    for offset in range(3_000):
        log.append(batch(offset, values=(b"%d" % offset,)))
        assert log.flushed_offset <= log.end_offset
        assert log.read(offset // 2, 1) == batch(offset // 2, values=(b"%d" % (offset // 2),))
    stop.set()
    thread.join()
    assert failures == []
    expected = contents(log)
    log.close()
    log = KafkaRaftLog.open(tmp_path)
    assert log.end_offset == 3_000
    assert contents(log) == expected
    log.close()


def test_every_written_file_is_synced_before_the_offset_is_published(tmp_path: Path) -> None:
    files = RecordingFiles()
    log = KafkaRaftLog.open(tmp_path, SMALL, files)
    for offset in range(8):
        log.append(batch(offset))
    log.flush()
    with_snapshot(log, 2)
    with_snapshot(log, 7)
    for offset in range(8, 40):
        log.append(batch(offset))
        if offset % 8 == 0:
            log.clean(0, -1, 0)
        if offset % 3 == 0:
            log.flush()
            assert not files.unsynced
            assert log.flushed_offset == offset + 1
    log.close()
