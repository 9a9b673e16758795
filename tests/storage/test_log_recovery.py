"""Recovery: what was torn is cut, what was damaged stops the start."""

import errno
import shutil
from pathlib import Path
from random import Random

import pytest

from kraft_core.storage.files import CorruptFile, StorageError
from kraft_core.storage.flushed_offset import FILE_NAME
from kraft_core.storage.kafka_raft_log import KafkaRaftLog, LogConfig
from tests.storage.batches import batch
from tests.storage.disks import FailingFiles, RecordingFiles
from tests.storage.logs import SMALL, contents, damage, directory_of, filled, with_snapshot


def test_a_crash_loses_nothing_that_was_flushed_and_only_what_was_not(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("garbage", [batch(12)[:40], batch(12)[:-1], Random(1).randbytes(1000), bytes(4096), b"x"])
def test_an_unfinished_write_at_the_end_is_cut(tmp_path: Path, garbage: bytes) -> None:
    batches = filled(tmp_path)
    path = directory_of(tmp_path) / f"{0:020d}.log"
    with path.open("ab") as file:
        file.write(garbage)
    log = KafkaRaftLog.open(tmp_path)
    assert contents(log) == b"".join(batches)
    assert path.stat().st_size == sum(map(len, batches))
    log.append(batch(12))
    log.close()


def test_damage_to_the_last_batch_is_no_unfinished_write_when_it_was_flushed(tmp_path: Path) -> None:
    batches = filled(tmp_path)
    path = directory_of(tmp_path) / f"{0:020d}.log"
    position = sum(map(len, batches[:-1]))
    damage(path, position + 65, b"?")
    before = path.read_bytes()
    with pytest.raises(CorruptFile, match=f"at byte {position}: .* on disk up to offset 12"):
        KafkaRaftLog.open(tmp_path)
    assert path.read_bytes() == before


class OnceFullFiles(FailingFiles):
    """The disk is full for one operation."""

    def _step(self) -> None:
        try:
            super()._step()
        except OSError:
            self.steps_left = -1
            raise


@pytest.mark.parametrize("steps", range(6))
def test_a_full_disk_during_the_start_is_reported_as_such(tmp_path: Path, steps: int) -> None:
    filled(tmp_path)
    (directory_of(tmp_path) / FILE_NAME).unlink()
    files = OnceFullFiles()
    files.steps_left, files.error = steps, OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(StorageError, match="no space left"):
        KafkaRaftLog.open(tmp_path, files=files).close()


@pytest.mark.parametrize("note", [None, b"", b"0" * 40, b"%020d %010d %08x" % (12, 1, 1)])
def test_damage_to_the_last_batch_looks_unfinished_without_a_flushed_offset(tmp_path: Path, note: bytes | None) -> None:
    """As in a directory that Apache's node has written."""
    batches = filled(tmp_path)
    damage(directory_of(tmp_path) / f"{0:020d}.log", sum(map(len, batches)) - 3, b"?")
    path = directory_of(tmp_path) / FILE_NAME
    path.unlink()
    if note is not None:
        path.write_bytes(note)
    log = KafkaRaftLog.open(tmp_path)
    assert log.end_offset == 11
    log.close()


def test_a_log_that_another_node_cut_in_a_later_epoch_is_whole(tmp_path: Path) -> None:
    """Apache's node used the directory and truncated a diverging tail; it ignores the flushed-offset file."""
    batches = filled(tmp_path)
    path = directory_of(tmp_path) / f"{0:020d}.log"
    path.write_bytes(b"".join(batches[:5]) + batch(5, epoch=2))
    log = KafkaRaftLog.open(tmp_path)
    assert log.end_offset == 6
    log.close()
    damage(path, path.stat().st_size - 3, b"?")
    with pytest.raises(CorruptFile, match="on disk up to offset 6"):
        KafkaRaftLog.open(tmp_path)


def test_a_truncation_lowers_the_flushed_offset_before_it_cuts(tmp_path: Path) -> None:
    """Else a crash in between would make a whole log look damaged."""
    files = FailingFiles()
    log = KafkaRaftLog.open(tmp_path, SMALL, files)
    for offset in range(12):
        log.append(batch(offset))
    log.flush()
    log.truncate_to(5)
    noted = (directory_of(tmp_path) / FILE_NAME).read_bytes
    assert noted().startswith(b"%020d " % 12)
    files.steps_left, files.error = 2, OSError("power lost")  # before a segment is deleted
    with pytest.raises(StorageError):
        log.flush()
    files.steps_left = -1
    assert noted().startswith(b"%020d " % 5)
    log.close()
    log = KafkaRaftLog.open(tmp_path, SMALL)
    assert log.end_offset == 12
    log.close()


def test_batches_above_the_flushed_offset_are_written_again_and_synced(tmp_path: Path) -> None:
    """After a failed sync the kernel treats pages as clean, so the bytes that a restart reads may not be on disk."""
    files = RecordingFiles()
    filled(tmp_path, 3)
    path = directory_of(tmp_path) / f"{0:020d}.log"
    with path.open("ab") as file:
        file.write(batch(3) + batch(4))
    log = KafkaRaftLog.open(tmp_path, files=files)
    assert files.written[path.name] == batch(3) + batch(4)
    assert not files.unsynced
    assert "sync directory" in files.calls
    assert log.flushed_offset == 5
    log.close()


def test_when_the_flushed_offset_cannot_be_read_the_segment_is_written_again(tmp_path: Path) -> None:
    """Seed 1848: a failed sync, then damage to the flushed-offset file."""
    batches = filled(tmp_path, 3)
    damage(directory_of(tmp_path) / "conclave.flushed-offset", 0, bytes(20))
    files = RecordingFiles()
    KafkaRaftLog.open(tmp_path, files=files).close()
    assert files.written[f"{0:020d}.log"] == b"".join(batches)
    assert not files.unsynced


def test_without_a_flushed_offset_nothing_is_written_again(tmp_path: Path) -> None:
    """Apache's node left the folder; the log may be large."""
    filled(tmp_path, 3)
    (directory_of(tmp_path) / "conclave.flushed-offset").unlink()
    files = RecordingFiles()
    KafkaRaftLog.open(tmp_path, files=files).close()
    assert f"{0:020d}.log" not in files.written


@pytest.mark.parametrize("place", ["bit", "length", "zeroed", "offset", "epoch", "last offset"])
@pytest.mark.parametrize("config", [LogConfig(), SMALL], ids=["one segment", "many segments"])
def test_damage_with_good_batches_after_it_stops_the_start_naming_file_and_offset(
    tmp_path: Path, place: str, config: LogConfig
) -> None:
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


def test_a_missing_segment_in_the_middle_stops_the_start(tmp_path: Path) -> None:
    filled(tmp_path, 12, SMALL)
    paths = sorted(directory_of(tmp_path).glob("*.log"))
    paths[1].unlink()
    with pytest.raises(CorruptFile, match="missing"):
        KafkaRaftLog.open(tmp_path, SMALL)


def test_opening_a_log_needs_little_memory_for_any_size(tmp_path: Path) -> None:
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


def test_files_of_indexes_and_checkpoints_may_be_absent_or_garbage(tmp_path: Path) -> None:
    batches = filled(tmp_path, 12, SMALL)
    directory = directory_of(tmp_path)
    for path in directory.iterdir():
        if path.suffix in (".index", ".timeindex"):
            path.write_bytes(Random(2).randbytes(50))
    (directory / "leader-epoch-checkpoint").write_text("not a checkpoint")
    log = KafkaRaftLog.open(tmp_path, SMALL)
    assert contents(log) == b"".join(batches)
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n1\n1 0\n"
    log.close()


def test_a_partition_of_another_topic_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    path = directory_of(tmp_path) / "partition.metadata"
    assert path.read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    path.write_text("version: 0\ntopic_id: JEXY6aqzQY-32P5TStzaFg")
    with pytest.raises(StorageError, match=r"partition\.metadata"):
        KafkaRaftLog.open(tmp_path)


def test_damage_at_the_end_of_a_segment_with_another_after_it_is_no_unfinished_write(tmp_path: Path) -> None:
    filled(tmp_path, 12, SMALL)
    first = min(directory_of(tmp_path).glob("*.log"))
    damage(first, first.stat().st_size - 3, b"?")
    before = first.read_bytes()
    with pytest.raises(CorruptFile, match=first.name):
        KafkaRaftLog.open(tmp_path, SMALL)
    assert first.read_bytes() == before


@pytest.mark.parametrize("shift", [-100, -61, -60, -20, -1, 0, 1, 40])
def test_a_good_batch_is_found_anywhere_after_the_damage(tmp_path: Path, shift: int) -> None:
    """Also across the border of two of the pieces that the search reads."""
    path = directory_of(tmp_path) / f"{0:020d}.log"
    KafkaRaftLog.open(tmp_path).close()
    first = batch(0, values=(b"x" * 1000,))
    position = 4 * 1024 * 1024 + 1 + shift
    path.write_bytes(first[:-1] + b"?" + bytes(position - len(first)) + batch(7))
    with pytest.raises(CorruptFile, match=f"follow from byte {position},"):
        KafkaRaftLog.open(tmp_path)


@pytest.mark.parametrize("how", ["removed", "emptied", "cut", "replaced"])
def test_a_log_whose_segments_were_removed_emptied_or_cut_is_refused(tmp_path: Path, how: str) -> None:
    batches = filled(tmp_path, 2)
    path = directory_of(tmp_path) / f"{0:020d}.log"
    if how == "removed":
        path.unlink()
    else:
        path.write_bytes({"emptied": b"", "cut": batches[0], "replaced": batch(0, 0) + batch(1, 0)}[how])
    with pytest.raises(StorageError, match="does not hold what was on disk up to offset 2"):
        KafkaRaftLog.open(tmp_path)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_log_that_ends_early_is_accepted_when_a_snapshot_covers_the_rest(tmp_path: Path, *, damaged: bool) -> None:
    batches = filled(tmp_path)
    log = KafkaRaftLog.open(tmp_path)
    newest = with_snapshot(log, 12)
    log.close()
    path = directory_of(tmp_path) / f"{0:020d}.log"
    path.write_bytes(b"".join(batches[:-1]) + (batches[-1][:-1] + b"?") * damaged)
    log = KafkaRaftLog.open(tmp_path)
    assert (log.start_offset, log.end_offset, log.latest_snapshot_id()) == (12, 12, newest)
    log.close()


def test_the_epoch_checkpoint_follows_the_log(tmp_path: Path) -> None:
    log = KafkaRaftLog.open(tmp_path)
    path = directory_of(tmp_path) / "leader-epoch-checkpoint"
    assert path.read_text() == "0\n0\n"
    log.append(batch(0, epoch=1) + batch(1, epoch=4))
    log.flush()
    assert path.read_text() == "0\n2\n1 0\n4 1\n"
    log.truncate_to(1)
    log.flush()
    assert path.read_text() == "0\n1\n1 0\n"
    log.close()


def test_foreign_files_are_ignored_also_after_an_empty_segment(tmp_path: Path) -> None:
    batches = filled(tmp_path)
    stray = directory_of(tmp_path) / "notes.log"
    stray.write_bytes(b"not a segment")
    (directory_of(tmp_path) / f"{99_999:020d}.log").touch()
    log = KafkaRaftLog.open(tmp_path)
    assert contents(log) == b"".join(batches)
    assert stray.exists()
    log.close()
