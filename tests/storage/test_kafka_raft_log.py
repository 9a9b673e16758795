"""KafkaRaftLog: what was flushed survives, what was torn is cut, what was damaged stops the start."""

import errno
import os
import shutil
import threading
from pathlib import Path

import pytest

from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.storage.files import CorruptFile, StorageError
from kraft_core.storage.kafka_raft_log import KafkaRaftLog, LogConfig
from tests.storage.batches import batch, snapshot_bytes

SMALL = LogConfig(segment_bytes=400, cache_bytes=200)


def directory_of(root: Path) -> Path:
    return root / "__cluster_metadata-0"


def filled(root: Path, count: int = 12, config: LogConfig | None = None) -> list[bytes]:
    """A log of `count` one-record batches in epoch 1, flushed and closed -> the batches."""
    log = KafkaRaftLog.open(root, config)
    batches = [batch(offset, values=(b"record %d" % offset,)) for offset in range(count)]
    for raw in batches:
        log.append(raw)
    assert log.flush() == count
    log.close()
    return batches


def contents(log: KafkaRaftLog) -> bytes:
    """Everything from the start offset on, read one batch at a time."""
    found, offset = b"", log.start_offset
    while data := log.read(offset, 1):
        found += data
        offset = int.from_bytes(data[:8]) + int.from_bytes(data[23:27]) + 1
    return found


def with_snapshot(log: KafkaRaftLog, offset: int, epoch: int = 1, *, timestamp: int = 1_000) -> OffsetAndEpoch:
    sink = log.begin_snapshot(OffsetAndEpoch(offset, epoch))
    sink.append(snapshot_bytes(epoch, timestamp=timestamp))
    sink.freeze()
    return sink.id


def damage(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def test_what_is_appended_is_readable_at_once_and_durable_after_flush(tmp_path: Path):
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


def test_a_reopened_log_has_the_same_batches_epochs_and_control_records(tmp_path: Path):
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
def test_reads_give_whole_batches_within_the_limit_from_memory_and_from_files(tmp_path: Path, cache_bytes: int):
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


def test_a_read_outside_the_log_is_refused(tmp_path: Path):
    log = KafkaRaftLog.open(tmp_path)
    with pytest.raises(ValueError, match="outside"):
        log.read(1, 100)
    log.close()


@pytest.mark.parametrize(
    "raw",
    [batch(1), batch(0, 0), batch(0)[:-1], batch(0)[:16] + b"\x01" + batch(0)[17:], b""],
    ids=["gap", "older epoch", "cut", "magic 1", "empty"],
)
def test_bytes_that_do_not_fit_are_refused(tmp_path: Path, raw: bytes):
    log = KafkaRaftLog.open(tmp_path)
    if raw == batch(0, 0):
        log.append(batch(0, 1))
        raw = batch(1, 0)
    with pytest.raises(AssertionError):
        log.append(raw)
    log.close()


def test_segments_roll_by_size_and_by_time_and_read_as_one(tmp_path: Path):
    batches = filled(tmp_path, 12, SMALL)
    names = sorted(path.name for path in directory_of(tmp_path).glob("*.log"))
    assert len(names) > 2
    log = KafkaRaftLog.open(tmp_path, LogConfig(segment_ms=500))
    assert contents(log) == b"".join(batches)
    log.append(batch(12, timestamp=1_500))
    log.append(batch(13, timestamp=1_501))
    log.close()
    assert (directory_of(tmp_path) / f"{13:020d}.log").exists()


def test_a_crash_loses_nothing_that_was_flushed_and_only_what_was_not(tmp_path: Path):
    log = KafkaRaftLog.open(tmp_path / "live")
    log.append(batch(0))
    log.flush()
    log.append(batch(1))
    shutil.copytree(tmp_path / "live", tmp_path / "crashed")
    crashed = KafkaRaftLog.open(tmp_path / "crashed")
    assert crashed.end_offset == 1
    assert contents(crashed) == batch(0)
    log.close()
    crashed.close()


@pytest.mark.parametrize("garbage", [batch(12)[:40], batch(12)[:-1], os.urandom(1000), bytes(4096), b"x"])
def test_an_unfinished_write_at_the_end_is_cut(tmp_path: Path, garbage: bytes):
    batches = filled(tmp_path)
    path = directory_of(tmp_path) / f"{0:020d}.log"
    with path.open("ab") as file:
        file.write(garbage)
    log = KafkaRaftLog.open(tmp_path)
    assert contents(log) == b"".join(batches)
    assert path.stat().st_size == sum(map(len, batches))
    log.append(batch(12))
    log.close()


def test_a_damaged_last_batch_is_cut_as_unfinished(tmp_path: Path):
    batches = filled(tmp_path)
    damage(directory_of(tmp_path) / f"{0:020d}.log", sum(map(len, batches)) - 3, b"?")
    log = KafkaRaftLog.open(tmp_path)
    assert log.end_offset == 11
    log.close()


@pytest.mark.parametrize("place", ["bit", "length", "zeroed", "offset", "epoch", "last offset"])
@pytest.mark.parametrize("config", [LogConfig(), SMALL], ids=["one segment", "many segments"])
def test_damage_with_good_batches_after_it_stops_the_start_naming_file_and_offset(
    tmp_path: Path, place: str, config: LogConfig
):
    batches = filled(tmp_path, 12, config)
    path = directory_of(tmp_path) / f"{0:020d}.log"
    position = 0 if config is SMALL else len(batches[0]) * 2
    size = len(batches[0])
    if place == "bit":
        damage(path, position + 70, b"\xff")
    elif place == "length":
        damage(path, position + 8, b"\x7f")
    elif place == "zeroed":
        damage(path, position, bytes(size))
    elif place == "offset":
        damage(path, position + 6, b"\x01")
    elif place == "epoch":
        damage(path, position + 12, b"\x01")
    else:
        position = sum(map(len, batches[:-1])) if config is not SMALL else position
        damage(path, position + 6, b"\x01")
    before = path.read_bytes()
    with pytest.raises(CorruptFile) as caught:
        KafkaRaftLog.open(tmp_path, config)
    assert str(path) in str(caught.value) or place == "epoch"
    assert "byte" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


def test_a_missing_segment_in_the_middle_stops_the_start(tmp_path: Path):
    filled(tmp_path, 12, SMALL)
    paths = sorted(directory_of(tmp_path).glob("*.log"))
    paths[1].unlink()
    with pytest.raises(CorruptFile, match="missing"):
        KafkaRaftLog.open(tmp_path, SMALL)


def test_an_open_needs_little_memory_whatever_the_size(tmp_path: Path):
    import tracemalloc

    log = KafkaRaftLog.open(tmp_path)
    for offset in range(60):
        log.append(batch(offset, values=(bytes(1_000_000),)))
    log.close()
    tracemalloc.start()
    log = KafkaRaftLog.open(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert log.end_offset == 60
    assert peak < 20_000_000
    log.close()


def test_files_of_indexes_and_checkpoints_may_be_absent_or_garbage(tmp_path: Path):
    batches = filled(tmp_path, 12, SMALL)
    directory = directory_of(tmp_path)
    for path in directory.iterdir():
        if path.suffix in (".index", ".timeindex"):
            path.write_bytes(os.urandom(50))
    (directory / "leader-epoch-checkpoint").write_text("not a checkpoint")
    log = KafkaRaftLog.open(tmp_path, SMALL)
    assert contents(log) == b"".join(batches)
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n1\n1 0\n"
    log.close()


def test_a_partition_of_another_topic_is_refused(tmp_path: Path):
    filled(tmp_path)
    path = directory_of(tmp_path) / "partition.metadata"
    assert path.read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    path.write_text("version: 0\ntopic_id: JEXY6aqzQY-32P5TStzaFg")
    with pytest.raises(StorageError, match=r"partition\.metadata"):
        KafkaRaftLog.open(tmp_path)


def test_truncation_drops_the_batches_above_and_survives_a_reopen(tmp_path: Path):
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


def test_truncation_of_what_was_never_flushed_leaves_the_flushed_part(tmp_path: Path):
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


def test_a_truncation_inside_a_batch_drops_the_whole_batch(tmp_path: Path):
    log = KafkaRaftLog.open(tmp_path)
    log.append(batch(0, values=(b"a", b"b")))
    log.append(batch(2, values=(b"c", b"d")))
    log.truncate_to(3)
    assert log.end_offset == 2
    log.close()


def test_end_offset_for_epoch_answers_as_kafka_does(tmp_path: Path):
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


def test_a_snapshot_is_visible_only_when_frozen_and_is_read_only(tmp_path: Path):
    log = KafkaRaftLog.open(tmp_path)
    log.append(batch(0))
    sink = log.begin_snapshot(OffsetAndEpoch(1, 1))
    whole = snapshot_bytes()
    sink.append(whole[:50])
    sink.append(whole[50:])
    assert sink.size == len(whole)
    assert log.latest_snapshot_id() is None
    sink.freeze()
    sink.freeze()
    path = directory_of(tmp_path) / f"{1:020d}-{1:010d}.checkpoint"
    assert path.stat().st_mode & 0o777 == 0o400
    assert log.read_snapshot(sink.id, 10, 20) == (whole[10:30], len(whole))
    with pytest.raises(ValueError, match="frozen"):
        sink.append(b"more")
    assert log.read_snapshot(OffsetAndEpoch(2, 1), 0, 10) is None
    log.close()


def test_an_aborted_or_unfinished_snapshot_leaves_no_file(tmp_path: Path):
    log = KafkaRaftLog.open(tmp_path)
    sink = log.begin_snapshot(OffsetAndEpoch(0, 1))
    sink.append(b"half")
    sink.abort()
    unfinished = log.begin_snapshot(OffsetAndEpoch(0, 2))
    unfinished.append(b"half")
    (directory_of(tmp_path) / f"{1:020d}-{1:010d}.checkpoint.deleted").write_bytes(b"doomed")
    log.close()
    KafkaRaftLog.open(tmp_path).close()
    assert not [path.name for path in directory_of(tmp_path).iterdir() if "checkpoint." in path.name]
    unfinished.abort()


def test_a_snapshot_that_is_not_whole_cannot_be_frozen(tmp_path: Path):
    log = KafkaRaftLog.open(tmp_path)
    sink = log.begin_snapshot(OffsetAndEpoch(0, 1))
    sink.append(snapshot_bytes()[:-20])
    with pytest.raises(StorageError, match="not a whole snapshot"):
        sink.freeze()
    assert log.snapshot_ids() == ()
    assert not list(directory_of(tmp_path).glob("*.checkpoint*"))
    log.close()


def test_a_snapshot_without_its_footer_gives_way_to_the_older_one_and_the_log(tmp_path: Path):
    filled(tmp_path)
    log = KafkaRaftLog.open(tmp_path)
    older, newer = with_snapshot(log, 4), with_snapshot(log, 8)
    log.close()
    path = directory_of(tmp_path) / f"{8:020d}-{1:010d}.checkpoint"
    path.chmod(0o600)
    os.truncate(path, path.stat().st_size - 30)
    log = KafkaRaftLog.open(tmp_path)
    assert log.latest_snapshot_id() == older
    assert log.read_snapshot(newer, 0, 10) is None
    assert log.end_offset == 12
    log.close()


def test_a_damaged_snapshot_stops_the_start(tmp_path: Path):
    filled(tmp_path)
    log = KafkaRaftLog.open(tmp_path)
    with_snapshot(log, 4)
    log.close()
    path = directory_of(tmp_path) / f"{4:020d}-{1:010d}.checkpoint"
    path.chmod(0o600)
    damage(path, 100, b"\xee")
    with pytest.raises(CorruptFile, match=path.name):
        KafkaRaftLog.open(tmp_path)


def test_an_older_snapshot_is_checked_before_it_is_served(tmp_path: Path):
    filled(tmp_path)
    log = KafkaRaftLog.open(tmp_path)
    older, newer = with_snapshot(log, 4), with_snapshot(log, 8)
    log.close()
    path = directory_of(tmp_path) / f"{4:020d}-{1:010d}.checkpoint"
    path.chmod(0o600)
    os.truncate(path, path.stat().st_size - 30)
    log = KafkaRaftLog.open(tmp_path)
    assert log.read_snapshot(older, 0, 10) is None
    assert log.snapshot_ids() == (newer,)
    log.close()


def test_a_log_that_starts_above_zero_needs_a_snapshot(tmp_path: Path):
    filled(tmp_path, 12, SMALL)
    min(directory_of(tmp_path).glob("*.log")).unlink()
    with pytest.raises(StorageError, match="Inconsistent snapshot state"):
        KafkaRaftLog.open(tmp_path, SMALL)


@pytest.mark.parametrize("reopen", [False, True])
def test_a_snapshot_beyond_the_log_empties_it(tmp_path: Path, *, reopen: bool):
    filled(tmp_path, 12, SMALL)
    log = KafkaRaftLog.open(tmp_path, SMALL)
    with_snapshot(log, 4)
    newest = with_snapshot(log, 40, 3)
    if reopen:  # as after a crash between the freeze and the truncation
        log.close()
        log = KafkaRaftLog.open(tmp_path, SMALL)
    else:
        log.truncate_fully_to_snapshot(newest)
    assert (log.start_offset, log.end_offset, log.flushed_offset, log.last_epoch) == (40, 40, 40, 3)
    assert log.snapshot_ids() == (newest,)
    assert log.epoch_of(39) == 3
    assert log.end_offset_for_epoch(3) == OffsetAndEpoch(40, 3)
    with pytest.raises(AssertionError):
        log.append(batch(40, 2))
    log.append(batch(40, 4))
    assert log.flush() == 41
    assert log.end_offset_for_epoch(3) == newest
    assert log.end_offset_for_epoch(2) == newest
    log.close()
    log = KafkaRaftLog.open(tmp_path, SMALL)
    assert contents(log) == batch(40, 4)
    assert sorted(path.name for path in directory_of(tmp_path).glob("*.log")) == [f"{40:020d}.log"]
    log.close()


def test_cleaning_by_size_drops_old_snapshots_and_the_segments_below_but_never_the_newest(tmp_path: Path):
    filled(tmp_path, 12, SMALL)
    log = KafkaRaftLog.open(tmp_path, SMALL)
    snapshots = [with_snapshot(log, offset) for offset in (3, 6, 11)]
    assert not log.clean(10_000_000, -1, 0)
    assert not log.clean(-1, -1, 10**15)
    assert log.clean(0, -1, 0)
    log.flush()
    assert log.snapshot_ids() == (snapshots[2],)
    assert log.start_offset == 11
    assert log.epoch_of(11) == 1
    with pytest.raises(ValueError, match="outside"):
        log.read(10, 1)
    assert len(list(directory_of(tmp_path).glob("*.checkpoint"))) == 1
    assert not log.clean(0, 0, 10**15)
    log.append(batch(12, 2))
    log.close()
    log = KafkaRaftLog.open(tmp_path, SMALL)
    assert log.start_offset <= 11
    assert log.read(12, 1) == batch(12, 2)
    log.close()


def test_cleaning_by_size_stops_as_soon_as_the_limit_holds(tmp_path: Path):
    filled(tmp_path, 12, SMALL)
    log = KafkaRaftLog.open(tmp_path, SMALL)
    snapshots = [with_snapshot(log, offset) for offset in (3, 6, 11)]
    total = log.size + 3 * len(snapshot_bytes())
    assert log.clean(total - 1, -1, 0)
    assert log.snapshot_ids() == tuple(snapshots[1:])
    log.close()


def test_cleaning_by_time_looks_at_the_header(tmp_path: Path):
    filled(tmp_path)
    log = KafkaRaftLog.open(tmp_path)
    with_snapshot(log, 3, timestamp=1_000)
    young = with_snapshot(log, 6, timestamp=9_000)
    assert not log.clean(-1, 5_000, 6_000)
    assert log.clean(-1, 5_000, 6_001)
    assert log.snapshot_ids() == (young,)
    log.close()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
@pytest.mark.parametrize("call", ["pwritev", "fdatasync"])
def test_a_failing_disk_is_one_error_and_acknowledges_nothing_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, call: str
):
    log = KafkaRaftLog.open(tmp_path)
    log.append(batch(0))
    log.flush()

    def fail(*arguments: object) -> int:
        raise OSError(number, os.strerror(number))

    log.append(batch(1))
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(StorageError, match="Cannot write"):
            log.flush()
    with pytest.raises(StorageError, match="Cannot write"):
        log.flush()
    assert log.flushed_offset == 1
    log.close()
    log = KafkaRaftLog.open(tmp_path)
    assert log.read(0, 1) == batch(0)
    log.close()


def test_a_read_only_folder_is_one_error(tmp_path: Path):
    if os.geteuid() == 0:
        file = tmp_path / "file"
        file.write_text("")
        with pytest.raises(StorageError, match="Cannot create"):
            KafkaRaftLog.open(file)
        return
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="permission denied"):
        KafkaRaftLog.open(tmp_path)


def test_appends_and_reads_go_on_while_another_thread_flushes(tmp_path: Path):
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


def test_every_written_file_is_synced_before_the_offset_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = KafkaRaftLog.open(tmp_path, SMALL)
    for offset in range(8):
        log.append(batch(offset))
    log.flush()
    with_snapshot(log, 2)
    with_snapshot(log, 7)
    unsynced: set[int] = set()
    real_write, real_sync = os.pwritev, os.fdatasync

    def write(descriptor: int, buffers: list[bytes], position: int) -> int:
        unsynced.add(descriptor)
        return real_write(descriptor, buffers, position)

    def sync(descriptor: int) -> None:
        unsynced.discard(descriptor)
        real_sync(descriptor)

    monkeypatch.setattr(os, "pwritev", write)
    monkeypatch.setattr(os, "fdatasync", sync)
    for offset in range(8, 40):
        log.append(batch(offset))
        if offset % 8 == 0:
            log.clean(0, -1, 0)
        if offset % 3 == 0:
            log.flush()
            assert unsynced == set()
            assert log.flushed_offset == offset + 1
    log.close()


def test_damage_at_the_end_of_a_segment_with_another_after_it_is_no_unfinished_write(tmp_path: Path):
    filled(tmp_path, 12, SMALL)
    first = min(directory_of(tmp_path).glob("*.log"))
    damage(first, first.stat().st_size - 3, b"?")
    before = first.read_bytes()
    with pytest.raises(CorruptFile, match=first.name):
        KafkaRaftLog.open(tmp_path, SMALL)
    assert first.read_bytes() == before


@pytest.mark.parametrize("shift", [-100, -61, -60, -20, -1, 0, 1, 40])
def test_a_good_batch_is_found_wherever_it_lies_behind_the_damage(tmp_path: Path, shift: int):
    """Also across the border of two of the pieces that the search reads."""
    path = directory_of(tmp_path) / f"{0:020d}.log"
    KafkaRaftLog.open(tmp_path).close()
    first = batch(0, values=(b"x" * 1000,))
    position = 4 * 1024 * 1024 + 1 + shift
    path.write_bytes(first[:-1] + b"?" + bytes(position - len(first)) + batch(7))
    with pytest.raises(CorruptFile, match=f"follow from byte {position},"):
        KafkaRaftLog.open(tmp_path)


def test_after_cleaning_epochs_begin_where_the_log_does(tmp_path: Path):
    log = KafkaRaftLog.open(tmp_path)
    for offset in range(9):
        log.append(batch(offset, epoch=1 + offset // 3))
    log.flush()
    with_snapshot(log, 2)
    with_snapshot(log, 5, 2)
    assert log.clean(0, -1, 0)
    assert log.start_offset == 5
    assert log.end_offset_for_epoch(1) == OffsetAndEpoch(5, 2)
    assert log.end_offset_for_epoch(2) == OffsetAndEpoch(6, 2)
    assert log.epoch_of(5) == 2
    log.close()
    assert (directory_of(tmp_path) / "leader-epoch-checkpoint").read_text() == "0\n2\n2 5\n3 6\n"


def test_a_snapshot_is_synced_before_it_has_its_name_and_its_directory_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log = KafkaRaftLog.open(tmp_path)
    calls: list[str] = []
    real_sync, real_rename = os.fsync, Path.rename

    def sync(descriptor: int) -> None:
        calls.append("directory" if Path(f"/proc/self/fd/{descriptor}").is_dir() else "file")
        real_sync(descriptor)

    def rename(path: Path, target: Path) -> Path:
        calls.append("rename")
        return real_rename(path, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "rename", rename)
    with_snapshot(log, 0)
    assert calls == ["file", "rename", "directory"]
    log.close()
