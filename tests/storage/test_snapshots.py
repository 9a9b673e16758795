"""Snapshots in the log: whole or absent, and what cleaning may take away."""

import os
from pathlib import Path

import pytest

from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.storage.files import CorruptFile, StorageError
from kraft_core.storage.kafka_raft_log import KafkaRaftLog
from tests.storage.batches import batch, snapshot_bytes
from tests.storage.disks import RecordingFiles
from tests.storage.logs import SMALL, contents, damage, directory_of, filled, with_snapshot


def test_a_snapshot_is_visible_only_when_frozen_and_is_read_only(tmp_path: Path) -> None:
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


def test_an_aborted_or_unfinished_snapshot_leaves_no_file(tmp_path: Path) -> None:
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


def test_an_incomplete_snapshot_cannot_be_frozen(tmp_path: Path) -> None:
    log = KafkaRaftLog.open(tmp_path)
    sink = log.begin_snapshot(OffsetAndEpoch(0, 1))
    sink.append(snapshot_bytes()[:-20])
    with pytest.raises(StorageError, match="not a whole snapshot"):
        sink.freeze()
    assert log.snapshot_ids() == ()
    assert not list(directory_of(tmp_path).glob("*.checkpoint*"))
    log.close()


def test_a_snapshot_without_its_footer_is_ignored_for_the_older_one_and_the_log(tmp_path: Path) -> None:
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


def test_a_first_voter_set_that_is_cut_stops_the_start(tmp_path: Path) -> None:
    filled(tmp_path)
    log = KafkaRaftLog.open(tmp_path)
    with_snapshot(log, 0, 0)
    log.close()
    path = directory_of(tmp_path) / f"{0:020d}-{0:010d}.checkpoint"
    path.chmod(0o600)
    os.truncate(path, path.stat().st_size - 30)
    with pytest.raises(StorageError, match=f"first voter set .*{path.name}"):
        KafkaRaftLog.open(tmp_path)


def test_a_damaged_snapshot_stops_the_start(tmp_path: Path) -> None:
    filled(tmp_path)
    log = KafkaRaftLog.open(tmp_path)
    with_snapshot(log, 4)
    log.close()
    path = directory_of(tmp_path) / f"{4:020d}-{1:010d}.checkpoint"
    path.chmod(0o600)
    damage(path, 100, b"\xee")
    with pytest.raises(CorruptFile, match=path.name):
        KafkaRaftLog.open(tmp_path)


def test_an_older_snapshot_is_checked_before_it_is_served(tmp_path: Path) -> None:
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


def test_a_log_that_starts_above_zero_needs_a_snapshot(tmp_path: Path) -> None:
    filled(tmp_path, 12, SMALL)
    min(directory_of(tmp_path).glob("*.log")).unlink()
    with pytest.raises(StorageError, match="Inconsistent snapshot state"):
        KafkaRaftLog.open(tmp_path, SMALL)


@pytest.mark.parametrize("reopen", [False, True])
def test_a_snapshot_beyond_the_log_empties_it(tmp_path: Path, *, reopen: bool) -> None:
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


def test_cleaning_by_size_drops_old_snapshots_and_the_segments_below_but_never_the_newest(tmp_path: Path) -> None:
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


def test_cleaning_by_size_stops_as_soon_as_the_limit_holds(tmp_path: Path) -> None:
    filled(tmp_path, 12, SMALL)
    log = KafkaRaftLog.open(tmp_path, SMALL)
    snapshots = [with_snapshot(log, offset) for offset in (3, 6, 11)]
    total = log.size + 3 * len(snapshot_bytes())
    assert log.clean(total - 1, -1, 0)
    assert log.snapshot_ids() == tuple(snapshots[1:])
    log.close()


def test_cleaning_by_time_looks_at_the_header(tmp_path: Path) -> None:
    filled(tmp_path)
    log = KafkaRaftLog.open(tmp_path)
    with_snapshot(log, 3, timestamp=1_000)
    young = with_snapshot(log, 6, timestamp=9_000)
    assert not log.clean(-1, 5_000, 6_000)
    assert log.clean(-1, 5_000, 6_001)
    assert log.snapshot_ids() == (young,)
    log.close()


def test_after_cleaning_epochs_begin_where_the_log_does(tmp_path: Path) -> None:
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


def test_a_snapshot_is_synced_before_it_has_its_name_and_its_directory_after(tmp_path: Path) -> None:
    files = RecordingFiles()
    log = KafkaRaftLog.open(tmp_path, files=files)
    files.calls.clear()
    with_snapshot(log, 0)
    assert files.calls == ["sync", "rename", "sync directory"]
    log.close()
