"""A leader's snapshot replaces the log: after a crash at any file operation the old or the new log opens."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.storage.files import create_directory
from kraft_core.storage.kafka_raft_log import KafkaRaftLog
from kraft_core.storage.recovery import PARTITION_DIRECTORY
from tests.simulator.sim_disk import Crashed, SimDisk
from tests.storage.batches import batch, snapshot_bytes
from tests.storage.logs import SMALL, contents, with_snapshot

ROOT = Path("/metadata")
POWER_LOSSES = 8
"""How many of the states that a power loss may leave are tried at each operation."""


def _one_segment(log: KafkaRaftLog) -> OffsetAndEpoch:
    log.append(batch(0, 1, (b"one", b"two")))
    log.flush()
    return OffsetAndEpoch(8, 3)


def _several_segments_and_epochs(log: KafkaRaftLog) -> OffsetAndEpoch:
    log.append(batch(0, 1, (b"x" * 90,) * 3))
    log.flush()
    log.append(batch(3, 2, (b"y" * 90,) * 4))
    log.flush()
    return OffsetAndEpoch(8, 3)


def _a_diverging_tail_beyond_the_snapshot(log: KafkaRaftLog) -> OffsetAndEpoch:
    """The records that this node wrote as the leader of epoch 2 and that no other node got."""
    for offset in range(12):
        log.append(batch(offset, 2, (b"z" * 90,)))
    log.flush()
    return OffsetAndEpoch(8, 3)


def _a_tail_that_was_not_flushed(log: KafkaRaftLog) -> OffsetAndEpoch:
    _several_segments_and_epochs(log)
    log.append(batch(7, 2, (b"never flushed" * 40,) * 6))
    return OffsetAndEpoch(9, 3)


def _an_older_snapshot_and_a_cleaned_log(log: KafkaRaftLog) -> OffsetAndEpoch:
    for offset in range(12):
        log.append(batch(offset, 1 + offset // 6, (b"z" * 90,)))
    log.flush()
    with_snapshot(log, 4)
    with_snapshot(log, 7, 2)
    assert log.clean(0, -1, 0)
    log.flush()
    return OffsetAndEpoch(20, 3)


def _a_log_that_is_a_snapshot_alone(log: KafkaRaftLog) -> OffsetAndEpoch:
    first = _one_segment(log)
    _install(log, first)
    return OffsetAndEpoch(8, 5)


FOLDERS = [
    _one_segment,
    _several_segments_and_epochs,
    _a_diverging_tail_beyond_the_snapshot,
    _a_tail_that_was_not_flushed,
    _an_older_snapshot_and_a_cleaned_log,
    _a_log_that_is_a_snapshot_alone,
]
Fill = Callable[[KafkaRaftLog], OffsetAndEpoch]
State = tuple[int, tuple[OffsetAndEpoch, ...], bytes]


def _install(log: KafkaRaftLog, newest: OffsetAndEpoch) -> None:
    """Do what raft does when the last piece of a snapshot has come (raft.snapshot_transfer)."""
    sink = log.begin_snapshot(newest)
    whole = snapshot_bytes(newest.epoch)
    sink.append(whole[:50])
    sink.append(whole[50:])
    sink.freeze()
    log.truncate_fully_to_snapshot(newest)
    log.flush()


def _folder(fill: Fill, seed: int = 0) -> tuple[SimDisk, KafkaRaftLog, OffsetAndEpoch]:
    """A folder before the installation, with everything on the platter that was ever synced."""
    disk = SimDisk(Random(seed))
    create_directory(ROOT / PARTITION_DIRECTORY, disk)
    log = KafkaRaftLog.open(ROOT, SMALL, disk)
    return disk, log, fill(log)


def _state(log: KafkaRaftLog, end_offset: int) -> State:
    """What a node gets out of a folder: its snapshots, and the records after the oldest of them up to an offset.

    After a restart the log may begin a little earlier than that: at the beginning of a segment.
    """
    at = max([log.start_offset, *(each.offset for each in log.snapshot_ids()[:1])])
    found = b""
    while at < end_offset:
        data = log.read(at, 1)
        found += data
        at += int.from_bytes(data[23:27]) + 1
    return end_offset, tuple(log.snapshot_ids()), found


def _before_and_after(fill: Fill) -> tuple[State, State, list[str]]:
    disk, log, newest = _folder(fill)
    before = _state(log, log.flushed_offset)
    disk.steps = []
    _install(log, newest)
    return before, (newest.offset, (newest,), b""), disk.steps


def _crashed_at(fill: Fill, step: int, loss: int) -> tuple[SimDisk, OffsetAndEpoch]:
    """Crash before one operation of the installation; loss -1: a killed process, else one draw of a power loss."""
    disk, log, newest = _folder(fill, loss)
    disk.crash_in = step
    with pytest.raises(Crashed):
        _install(log, newest)
    _end(disk, loss)
    return disk, newest


def _end(disk: SimDisk, loss: int) -> None:
    disk.killed() if loss < 0 else disk.lose_power(leaves_holes=False)


def _check(disk: SimDisk, newest: OffsetAndEpoch, allowed: tuple[State, ...]) -> None:
    log = KafkaRaftLog.open(ROOT, SMALL, disk)
    assert _state(log, log.end_offset) in allowed
    added = batch(log.end_offset, newest.epoch + 1)
    log.append(added)
    log.flush()
    found = contents(log)
    disk.lose_power(leaves_holes=False)
    log = KafkaRaftLog.open(ROOT, SMALL, disk)
    assert contents(log) == found, "what was flushed after the crash is there after the next one"


@pytest.mark.parametrize("fill", FOLDERS)
def test_a_crash_at_any_operation_of_an_installation_leaves_the_log_before_or_after_it(fill: Fill) -> None:
    before, after, steps = _before_and_after(fill)
    durable = steps.index("sync directory after rename .part") + 1  # the snapshot has its name
    for step in range(len(steps)):
        for loss in range(-1, POWER_LOSSES):
            disk, newest = _crashed_at(fill, step, loss)
            _check(disk, newest, (after,) if step >= durable else (before, after))


def test_the_operations_of_an_installation_are_in_an_order_that_a_crash_may_cut_anywhere() -> None:
    """The snapshot gets its name before anything of the log goes; the log goes newest first; then it begins again."""
    _, _, steps = _before_and_after(_several_segments_and_epochs)
    named, gone = steps.index("rename .part"), steps.index("unlink .log")
    assert named < gone < steps.index("create .log")
    assert steps[:named] == ["create .part", "write .part", "write .part", "chmod .part", "sync .part"]


@pytest.mark.parametrize("fill", [_several_segments_and_epochs, _a_diverging_tail_beyond_the_snapshot])
@pytest.mark.parametrize("loss", [-1, 3])
def test_a_crash_while_a_half_done_installation_is_completed_is_no_worse(fill: Fill, loss: int) -> None:
    before, after, steps = _before_and_after(fill)
    for step in range(len(steps)):
        disk, _ = _crashed_at(fill, step, loss)
        disk.steps = []
        KafkaRaftLog.open(ROOT, SMALL, disk)
        for again in range(len(disk.steps)):
            disk, newest = _crashed_at(fill, step, loss)
            disk.crash_in = again
            with pytest.raises(Crashed):
                KafkaRaftLog.open(ROOT, SMALL, disk)
            _end(disk, loss)
            _check(disk, newest, (before, after))
