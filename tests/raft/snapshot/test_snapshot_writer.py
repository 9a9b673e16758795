"""Which snapshots may be created, and how they are framed. Names in docstrings are Kafka's own tests."""

import pytest

from kraft_core.protocol.control_records import decode_control
from kraft_core.protocol.record_batch import RecordBatch
from kraft_core.raft.events import SnapshotCreated
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.raft.snapshot.reader import SnapshotReader
from kraft_core.raft.snapshot.writer import SnapshotWriter, check_new_snapshot_id
from kraft_core.raft.voter_set import VoterSet
from tests.raft.memory_raft_log import MemoryRaftLog
from tests.raft.one_node import OneNode, batch, dynamic_voters, snapshot_bytes


def log_of(*batches: bytes) -> MemoryRaftLog:
    log = MemoryRaftLog()
    for each in batches:
        log.append(each)
    log.flush()
    return log


LOG = (batch(0, 1, b"a", b"b"), batch(2, 1, b"c"), batch(3, 4, b"d"), batch(4, 4, b"e"))
"""Epochs 1 and 4, batches of two, one, one and one record; 2 and 3 are missing."""


def wanted(offset: int, epoch: int, high_watermark: int = 5, log: MemoryRaftLog | None = None) -> bool:
    return check_new_snapshot_id(log or log_of(*LOG), high_watermark, OffsetAndEpoch(offset, epoch))


@pytest.mark.parametrize("snapshot_id", [(2, 1), (3, 1), (4, 4), (5, 4)])
def test_a_snapshot_may_end_with_any_committed_batch(snapshot_id: tuple[int, int]) -> None:
    """testCreateSnapshot, testCreateSnapshotBeforeLogEndOffset."""
    assert wanted(*snapshot_id)


def test_a_snapshot_later_than_the_high_watermark_is_refused() -> None:
    """testCreateSnapshotLaterThanHighWatermark."""
    with pytest.raises(ValueError, match="greater than the high watermark 3"):
        wanted(4, 4, high_watermark=3)


def test_a_snapshot_in_the_middle_of_a_batch_is_refused() -> None:
    """testCreateSnapshotInMiddleOfBatch, testCreateSnapshotNonBatchAligned."""
    with pytest.raises(ValueError, match="in the middle of the batch that begins at 0"):
        wanted(1, 1)


def test_a_snapshot_of_an_older_epoch_than_the_log_has_there_is_refused() -> None:
    """testCreateSnapshotWithOlderEpoch, testCreateSnapshotMuchEarlierEpoch."""
    with pytest.raises(ValueError, match="diverging"):
        wanted(5, 1)


def test_a_snapshot_of_an_epoch_that_the_log_lacks_is_refused() -> None:
    """testCreateSnapshotWithMissingEpoch."""
    with pytest.raises(ValueError, match="diverging"):
        wanted(3, 2)


def test_a_snapshot_of_a_later_epoch_than_the_log_has_there_is_refused() -> None:
    """testCreateSnapshotDivergingEpoch."""
    with pytest.raises(ValueError, match="diverging"):
        wanted(5, 7)


def test_a_snapshot_below_the_logs_start_or_an_existing_one_is_not_written() -> None:
    """testCreateSnapshotBeforeLogStartOffset, testCreateExistingSnapshot."""
    log = log_of(*LOG)
    snapshot_id = OffsetAndEpoch(3, 1)
    log.snapshots[snapshot_id] = snapshot_bytes(snapshot_id, 0, VoterSet(), [])
    assert not wanted(3, 1, log=log)
    log.drop_before(snapshot_id)
    assert not wanted(2, 1, log=log)
    assert wanted(4, 4, log=log)


def test_the_client_id_length_is_checked_as_well() -> None:
    """testCreateSnapshotAsLeaderWithInvalidSnapshotId."""
    node = OneNode()
    node.become_leader()
    node.commit_epoch()
    node.append([b"open"])
    with pytest.raises(ValueError, match="greater than the high watermark"):
        node.client.create_snapshot(OffsetAndEpoch(node.log.end_offset, 1), 0)
    with pytest.raises(ValueError, match="diverging"):
        node.client.create_snapshot(OffsetAndEpoch(node.client.high_watermark, 9), 0)


def types_of(batches: list[RecordBatch]) -> list[str]:
    return [
        type(decode_control(record.key or b"", record.value or b"")).__name__
        for each in batches
        if each.is_control
        for record in each.records()
    ]


def test_a_snapshot_holds_header_version_voters_records_and_footer() -> None:
    """testBuilderKRaftVersion1, testKBuilderRaftVersion0WithVoterSet."""
    node = OneNode()
    node.become_leader()
    node.commit_epoch()
    snapshot_id = OffsetAndEpoch(node.log.end_offset, 1)
    writer = node.client.create_snapshot(snapshot_id, 1234)
    assert writer is not None
    writer.append([b"one", b"two"])
    writer.append([b"three"])
    assert snapshot_id not in node.log.snapshots, "invisible before it is frozen"
    assert writer.freeze() == len(node.log.snapshots[snapshot_id])
    node.step(SnapshotCreated(snapshot_id))
    assert node.client.latest_snapshot_id == snapshot_id
    reader = SnapshotReader(node.log, snapshot_id)
    assert reader.last_contained_log_timestamp() == 1234
    batches = list(reader)
    assert types_of(batches) == [
        "SnapshotHeaderRecord",
        "KRaftVersionRecord",
        "VotersRecord",
        "SnapshotFooterRecord",
    ]
    assert [each.values() for each in batches if not each.is_control] == [[b"one", b"two"], [b"three"]]
    assert {each.leader_epoch for each in batches} == {1}
    assert [each.base_offset for each in batches] == [0, 3, 5, 6]
    assert {each.max_timestamp for each in batches} == {1234}


def test_a_snapshot_of_kraft_version_0_has_neither_version_nor_voters() -> None:
    """testBuilderKRaftVersion0."""
    log = log_of()
    snapshot_id = OffsetAndEpoch(5, 2)
    log.snapshots[snapshot_id] = snapshot_bytes(snapshot_id, 0, dynamic_voters(1), [b"a"])
    assert types_of(list(SnapshotReader(log, snapshot_id))) == ["SnapshotHeaderRecord", "SnapshotFooterRecord"]


def writer_over(log: MemoryRaftLog) -> SnapshotWriter:
    return SnapshotWriter(log.begin_snapshot, OffsetAndEpoch(5, 2), 0, 0, VoterSet())


def test_nothing_is_left_of_a_snapshot_that_is_closed_without_freeze() -> None:
    """testAbortedSnapshot."""
    log = log_of()
    writer = writer_over(log)
    writer.append([b"one"])
    writer.close()
    assert log.snapshots == {}
    with pytest.raises(ValueError, match="closed"):
        writer.append([b"two"])
    with pytest.raises(ValueError, match="closed"):
        writer.freeze()


def test_a_frozen_snapshot_accepts_no_more_records_and_survives_close() -> None:
    """testAppendToFrozenSnapshot."""
    log = log_of()
    writer = writer_over(log)
    writer.freeze()
    with pytest.raises(ValueError, match="closed"):
        writer.append([b"one"])
    writer.close()
    assert list(log.snapshots) == [OffsetAndEpoch(5, 2)]


def test_the_file_is_created_with_the_first_record() -> None:
    """So that a full disk shows itself on the thread that writes."""
    begun: list[OffsetAndEpoch] = []
    log = log_of()

    def begin(snapshot_id: OffsetAndEpoch) -> object:
        begun.append(snapshot_id)
        return log.begin_snapshot(snapshot_id)

    writer = SnapshotWriter(begin, OffsetAndEpoch(5, 2), 0, 0, VoterSet())  # type: ignore[arg-type]  # a sink
    assert begun == []
    writer.append([b"one"])
    writer.freeze()
    assert begun == [OffsetAndEpoch(5, 2)]


def test_a_large_batch_is_read_over_several_pieces_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraft_core.raft.snapshot.reader.READ_BYTES", 100)
    log = log_of()
    snapshot_id = OffsetAndEpoch(5, 2)
    values = [b"x" * 90] * 20
    log.snapshots[snapshot_id] = snapshot_bytes(snapshot_id, 1, dynamic_voters(0, 1), values)
    batches = list(SnapshotReader(log, snapshot_id))
    assert [each.values() for each in batches if not each.is_control] == [values]


def test_old_voter_sets_are_removed_once_a_snapshot_covers_them() -> None:
    """VoterSetHistoryTest.testTruncateOldEntries: the last one below the snapshot stays."""
    node = OneNode()
    node.become_leader()
    node.commit_epoch()
    history = node.client._core.control
    node.append([b"one"])
    node.commit_epoch()
    voters, entries = node.client.voters, history._voters.entries
    assert [offset for offset, _ in entries] == [-1, 2]
    node.step(SnapshotCreated(OffsetAndEpoch(2, 1)))
    assert [offset for offset, _ in entries] == [-1, 2], "offset 2 is not in the snapshot"
    node.step(SnapshotCreated(OffsetAndEpoch(node.log.end_offset, 1)))
    assert [offset for offset, _ in entries] == [2]
    assert node.client.voters == voters == node.client._core.control.voters_at(node.log.end_offset)
