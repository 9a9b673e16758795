"""Recovery: what was torn is cut, what was damaged stops the start."""

import os
import shutil
from pathlib import Path

import pytest

from kraft_core.storage.files import CorruptFile, StorageError
from kraft_core.storage.kafka_raft_log import KafkaRaftLog, LogConfig
from tests.storage.batches import batch
from tests.storage.logs import SMALL, contents, damage, directory_of, filled


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


@pytest.mark.parametrize("how", ["removed", "emptied"])
def test_a_log_whose_segments_were_removed_or_emptied_is_no_new_log(tmp_path: Path, how: str):
    log = KafkaRaftLog.open(tmp_path)
    log.append(batch(0) + batch(1, epoch=2))
    log.flush()
    log.close()
    path = directory_of(tmp_path) / f"{0:020d}.log"
    if how == "removed":
        path.unlink()
    else:
        path.write_bytes(b"")
    with pytest.raises(StorageError, match="has no records although leader-epoch-checkpoint knows"):
        KafkaRaftLog.open(tmp_path)


def test_files_that_are_not_ours_are_passed_over_also_behind_an_empty_segment(tmp_path: Path):
    batches = filled(tmp_path)
    stray = directory_of(tmp_path) / "notes.log"
    stray.write_bytes(b"not a segment")
    (directory_of(tmp_path) / f"{99_999:020d}.log").touch()
    log = KafkaRaftLog.open(tmp_path)
    assert contents(log) == b"".join(batches)
    assert stray.exists()
    log.close()
