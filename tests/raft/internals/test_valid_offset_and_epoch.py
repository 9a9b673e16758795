"""Which (offset, epoch) is a prefix of the log: Kafka's cases, on the log in memory and on the one on disk."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kraft_core.protocol.errors import ErrorCode
from kraft_core.raft.internals.valid_offset_and_epoch import Kind, validate_fetch, validate_offset_and_epoch
from kraft_core.raft.raft_log import OffsetAndEpoch, RaftLog
from kraft_core.raft.snapshot.writer import SnapshotWriter
from kraft_core.raft.voter_set import VoterSet
from kraft_core.storage.kafka_raft_log import KafkaRaftLog
from tests.raft.memory_raft_log import MemoryRaftLog
from tests.raft.one_node import OneNode, batch, fetch_request, only

MakeLog = Callable[[], RaftLog]


@pytest.fixture(params=["memory", "disk"])
def make_log(request: pytest.FixtureRequest, tmp_path: Path) -> MakeLog:
    return MemoryRaftLog if request.param == "memory" else lambda: KafkaRaftLog.open(tmp_path)


def filled(log: RaftLog, *batches: bytes) -> RaftLog:
    for each in batches:
        log.append(each)
    log.flush()  # type: ignore[attr-defined]  # both logs have it
    return log


def snapshot(log: RaftLog, offset: int, epoch: int) -> OffsetAndEpoch:
    snapshot_id = OffsetAndEpoch(offset, epoch)
    SnapshotWriter(log.begin_snapshot, snapshot_id, 0, 0, VoterSet()).freeze()
    return snapshot_id


def started_at(log: RaftLog, offset: int, epoch: int, *batches: bytes) -> RaftLog:
    """A log whose beginning is a snapshot."""
    log.truncate_fully_to_snapshot(snapshot(log, offset, epoch))
    return filled(log, *batches)


def judged(log: RaftLog, offset: int, epoch: int) -> tuple[Kind, int, int]:
    found = validate_offset_and_epoch(log, offset, epoch)
    return found.kind, found.offset_and_epoch.offset, found.offset_and_epoch.epoch


LATER = (batch(5, 2, b"a", b"b"), batch(7, 4, b"c"))


def test_an_epoch_above_all_known_ones_diverges_at_the_logs_end(make_log: MakeLog) -> None:
    """testValidateEpochGreaterThanLastKnownEpoch."""
    log = filled(make_log(), batch(0, 1, b"a"))
    assert judged(log, 1, 2) == (Kind.DIVERGING, 1, 1)


def test_an_epoch_below_the_oldest_snapshots_needs_the_snapshot(make_log: MakeLog) -> None:
    """testValidateEpochLessThanOldestSnapshotEpoch."""
    assert judged(started_at(make_log(), 5, 2, *LATER), 5, 1) == (Kind.SNAPSHOT, 5, 2)


def test_an_offset_below_the_logs_start_needs_the_snapshot(make_log: MakeLog) -> None:
    """testValidateOffsetLessThanOldestSnapshotOffset."""
    assert judged(started_at(make_log(), 5, 2, *LATER), 4, 2) == (Kind.SNAPSHOT, 5, 2)


def test_the_oldest_snapshots_own_end_is_valid(make_log: MakeLog) -> None:
    """testValidateOffsetEqualToOldestSnapshotOffset."""
    assert judged(started_at(make_log(), 5, 2, *LATER), 5, 2) == (Kind.VALID, 5, 2)


def test_the_oldest_snapshots_end_with_another_epoch_needs_the_snapshot(make_log: MakeLog) -> None:
    """testValidateUnknownEpochLessThanLastKnownGreaterThanOldestSnapshot's neighbour: offset equal, epoch not."""
    assert judged(started_at(make_log(), 5, 2, *LATER), 5, 4) == (Kind.SNAPSHOT, 5, 2)


def test_an_unknown_epoch_in_between_diverges_where_the_one_below_ends(make_log: MakeLog) -> None:
    """testValidateUnknownEpochLessThanLastKnownGreaterThanOldestSnapshot."""
    assert judged(started_at(make_log(), 5, 2, *LATER), 8, 3) == (Kind.DIVERGING, 7, 2)


def test_a_known_epoch_that_ended_earlier_diverges_at_its_end(make_log: MakeLog) -> None:
    """testValidateOffsetGreatThanEndOffset, testValidateOffsetLessThanLEO."""
    log = started_at(make_log(), 5, 2, *LATER)
    assert judged(log, 8, 2) == (Kind.DIVERGING, 7, 2)
    assert judged(log, 9, 4) == (Kind.DIVERGING, 8, 4)
    assert judged(log, 8, 4) == (Kind.VALID, 8, 4)
    assert judged(log, 7, 2) == (Kind.VALID, 7, 2)


def test_the_beginning_of_an_empty_log_is_valid(make_log: MakeLog) -> None:
    """testValidateValidEpochAndOffset at 0."""
    assert judged(make_log(), 0, 0) == (Kind.VALID, 0, 0)
    assert validate_fetch(make_log(), 0, 0).kind is Kind.VALID


def test_an_empty_replica_takes_the_newest_snapshot(make_log: MakeLog) -> None:
    log = filled(make_log(), batch(0, 1, b"a"), batch(1, 1, b"b"))
    assert validate_fetch(log, 0, 0).kind is Kind.VALID
    snapshot(log, 1, 1)
    found = validate_fetch(log, 0, 0)
    assert (found.kind, found.offset_and_epoch) == (Kind.SNAPSHOT, OffsetAndEpoch(1, 1))


@pytest.mark.parametrize(("offset", "last_epoch"), [(0, 0), (4, 2)])
def test_a_fetch_below_the_logs_start_is_answered_with_the_snapshots_id(offset: int, last_epoch: int) -> None:
    """testFetchRequestOffsetLessThanLogStart, testFetchRequestOffsetAtZero."""
    node = OneNode(kraft_version=0, log=started_at(MemoryRaftLog(), 5, 2, *LATER))  # no voters in the snapshot
    node.become_leader()
    answer = only(node.request(fetch_request(1, node.client.epoch, offset, last_epoch, max_wait_ms=0)))
    assert answer.error_code == ErrorCode.NONE
    assert (answer.snapshot_id.end_offset, answer.snapshot_id.epoch) == (5, 2)
    assert (answer.records, answer.log_start_offset) == (b"", 5)


@pytest.mark.parametrize("raw", [batch(1, 1), batch(0, 1) + batch(2, 1)], ids=["gap at the end", "gap within"])
def test_an_append_with_a_gap_is_refused(make_log: MakeLog, raw: bytes) -> None:
    """KafkaRaftLogTest.testUnexpectedAppendOffset."""
    log = make_log()
    with pytest.raises(AssertionError):
        log.append(raw)


def test_an_append_of_an_older_epoch_than_the_last_is_refused(make_log: MakeLog) -> None:
    """KafkaRaftLogTest.testInvalidLeaderEpoch."""
    log = filled(make_log(), batch(0, 3))
    with pytest.raises(AssertionError):
        log.append(batch(1, 2))
    assert log.end_offset == 1
