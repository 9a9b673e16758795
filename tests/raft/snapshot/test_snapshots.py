"""Snapshots that come from the leader (KIP-630), and DescribeQuorum. Names in docstrings are Kafka's own tests."""

from typing import Any

import pytest

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.internal_topics import METADATA_TOPIC
from kraft_core.protocol.messages import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    FetchRequest,
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestSnapshotId,
    FetchSnapshotRequestTopicSnapshot,
    FetchSnapshotResponse,
    FetchSnapshotResponseLeaderIdAndEpoch,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseSnapshotId,
    FetchSnapshotResponseTopicSnapshot,
)
from kraft_core.raft.effects import SendRequest
from kraft_core.raft.quorum_state import Follower
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.raft.voter_set import VoterSet
from tests.raft.memory_raft_log import MemoryRaftLog
from tests.raft.one_node import OneNode, batch, dynamic_voters, fetch_request, fetch_response, key, only, snapshot_bytes


def leading() -> OneNode:
    node = OneNode()
    node.become_leader()
    return node


def following(**settings: object) -> OneNode:
    node = OneNode(**settings)  # type: ignore[arg-type]  # passed on as they are
    node.follow(1, 3)
    return node


def _log(*batches: bytes) -> MemoryRaftLog:
    log = MemoryRaftLog()
    for each in batches:
        log.append(each)
    log.flush()
    return log


def piece_wanted(node: OneNode) -> tuple[SendRequest, int]:
    """The FetchSnapshot in flight, and its position."""
    (request,) = node.sent(FetchSnapshotRequest)
    assert isinstance(request.message, FetchSnapshotRequest)
    return request, request.message.topics[0].partitions[0].position


# --- snapshots --------------------------------------------------------------------------------------------------------

SNAPSHOT_ID = OffsetAndEpoch(50, 2)


def test_a_snapshot_replaces_the_log() -> None:
    """testFetchSnapshotResponsePartialData, and the snapshot's voters take effect."""
    voters = dynamic_voters(0, 1, 2, 3)
    data = snapshot_bytes(SNAPSHOT_ID, 1, voters, [b"state" * 50])
    node = following(fetch_snapshot_max_bytes=100, log=_log(batch(0, 1)))
    node.answer(node.fetch_out(), fetch_response(1, 3, snapshot_id=(50, 2)))
    pieces = 0
    while node.log.start_offset != 50:
        request, position = piece_wanted(node)
        node.answer(request, snapshot_answer(position, data[position:][:100], len(data)))
        pieces += 1
    assert pieces == -(-len(data) // 100)
    assert node.log.end_offset == node.client.high_watermark == 50
    assert node.log.last_epoch == 2
    assert node.client.voters == voters
    assert node.fetch_out()


def snapshot_answer(position: int, piece: bytes, size: int, *, epoch: int = 3, error: int = 0) -> FetchSnapshotResponse:
    partition = FetchSnapshotResponsePartitionSnapshot(
        error_code=error,
        snapshot_id=FetchSnapshotResponseSnapshotId(end_offset=SNAPSHOT_ID.offset, epoch=SNAPSHOT_ID.epoch),
        current_leader=FetchSnapshotResponseLeaderIdAndEpoch(leader_id=1, leader_epoch=epoch),
        size=size,
        position=position,
        unaligned_records=piece,
    )
    return FetchSnapshotResponse(
        topics=(FetchSnapshotResponseTopicSnapshot(name=METADATA_TOPIC, partitions=(partition,)),)
    )


@pytest.mark.parametrize("spoil", ["cut", "bit", "no footer", "wrong position", "not found"])
def test_a_bad_snapshot_is_dropped_and_never_loaded(spoil: str) -> None:
    """testFetchSnapshotResponseWithInvalidId and the file that lacks its footer (issue 4)."""
    data = snapshot_bytes(SNAPSHOT_ID, 1, dynamic_voters(0, 1, 2), [b"state" * 50])
    node = following(log=_log(batch(0, 1)))
    node.answer(node.fetch_out(), fetch_response(1, 3, snapshot_id=(50, 2)))
    request, _ = piece_wanted(node)
    footer = len(snapshot_bytes(SNAPSHOT_ID, 0, VoterSet(), [])) // 2
    sent = {
        "cut": (0, data[:-10], len(data) - 10),
        "bit": (0, data[:300] + bytes([data[300] ^ 1]) + data[301:], len(data)),
        "no footer": (0, data[:-footer], len(data) - footer),
        "wrong position": (7, data, len(data)),
        "not found": (0, data, len(data)),
    }[spoil]
    error = ErrorCode.SNAPSHOT_NOT_FOUND if spoil == "not found" else ErrorCode.NONE
    node.answer(request, snapshot_answer(*sent, error=error))
    assert SNAPSHOT_ID not in node.log.snapshots
    assert node.log.end_offset == 1
    node.pass_time(600)
    assert node.client.epoch == 3
    assert node.sent(FetchRequest)


# --- DescribeQuorum ---------------------------------------------------------------------------------------------------


def describe(topic: str = METADATA_TOPIC) -> DescribeQuorumRequest:
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    return DescribeQuorumRequest(topics=(DescribeQuorumRequestTopicData(topic_name=topic, partitions=(partition,)),))


def test_describe_quorum_returns_voters_observers_and_lag() -> None:
    node = leading()
    node.pass_time(100)
    node.commit_epoch()
    node.request(fetch_request(9, 1, 0, 0))
    answer = node.request(describe(), 2)
    told = only(answer)
    assert (told.leader_id, told.leader_epoch, told.high_watermark) == (0, 1, node.log.end_offset)
    assert [each.replica_id for each in told.current_voters] == [0, 1, 2]
    assert [each.log_end_offset for each in told.current_voters] == [3, 3, -1]
    assert [each.last_caught_up_timestamp for each in told.current_voters] == [node.now, node.now, -1]
    assert [(each.replica_id, each.log_end_offset) for each in told.observers] == [(9, 0)]
    assert [each.node_id for each in answer.nodes] == [0, 1, 2]


def test_observers_are_removed_after_five_minutes() -> None:
    node = leading()
    node.request(fetch_request(9, 1, 0, 0))
    for _ in range(310):
        node.pass_time(1000)
        node.request(fetch_request(1, 1, node.log.end_offset, 1, max_wait_ms=0))
    assert only(node.request(describe(), 2)).observers == ()


def test_describe_quorum_elsewhere_gets_kafkas_error() -> None:
    assert only(OneNode().request(describe(), 2)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert only(leading().request(describe("other"), 2)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_replica_that_fetches_an_earlier_offset_is_reported_there() -> None:
    """testDescribeQuorumNonMonotonicFollowerFetch: it has lost its disk; what is committed stays committed."""
    node = leading()
    node.append([b"a", b"b"])
    end = node.log.end_offset
    node.commit_epoch()
    assert only(node.request(describe(), 2)).high_watermark == end
    node.request(fetch_request(1, 1, 0, 0, max_wait_ms=0))
    told = only(node.request(describe(), 2))
    assert [each.log_end_offset for each in told.current_voters] == [end, 0, -1]
    assert told.high_watermark == end


# --- FetchSnapshot, the leader's side ---------------------------------------------------------------------------------


def snapshot_request(position: int = 0, **changes: Any) -> FetchSnapshotRequest:
    partition = FetchSnapshotRequestPartitionSnapshot(
        current_leader_epoch=changes.pop("epoch", 1),
        snapshot_id=FetchSnapshotRequestSnapshotId(end_offset=changes.pop("offset", SNAPSHOT_ID.offset), epoch=2),
        position=position,
        partition=changes.pop("partition", 0),
        replica_directory_id=key(1).directory_id,
    )
    topic = FetchSnapshotRequestTopicSnapshot(name=changes.pop("topic", METADATA_TOPIC), partitions=(partition,))
    return FetchSnapshotRequest(replica_id=1, **{"topics": (topic,), **changes})


def serving() -> tuple[OneNode, bytes]:
    node = leading()
    data = snapshot_bytes(SNAPSHOT_ID, 1, dynamic_voters(0, 1, 2), [b"state" * 50])
    node.log.snapshots[SNAPSHOT_ID] = data
    return node, data


@pytest.mark.parametrize(
    ("asked", "top", "partition"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID, None),
        ({"topics": ()}, ErrorCode.INVALID_REQUEST, None),
        ({"topic": "other"}, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": 1}, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"epoch": 0}, 0, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 2}, 0, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"offset": 49}, 0, ErrorCode.SNAPSHOT_NOT_FOUND),
        ({"position": -1}, 0, ErrorCode.POSITION_OUT_OF_RANGE),
        ({"position": 1_000_000}, 0, ErrorCode.POSITION_OUT_OF_RANGE),
    ],
    ids=["cluster", "no topic", "topic", "partition", "old epoch", "new epoch", "id", "below", "beyond"],
)
def test_a_wrong_fetch_of_a_snapshot_gets_kafkas_error(asked: dict[str, Any], top: int, partition: int | None) -> None:
    """KafkaRaftClientSnapshotTest.testFetchSnapshotRequestMissingSnapshot and the like."""
    node, _ = serving()
    answer = node.request(snapshot_request(**asked), 1)
    assert answer.error_code == top
    if partition is not None:
        assert (only(answer).error_code, only(answer).unaligned_records) == (partition, b"")


def test_a_follower_serves_no_snapshot_and_names_the_leader() -> None:
    """testFetchSnapshotRequestAsFollower."""
    node = following()
    answer = only(node.request(snapshot_request(epoch=3), 1))
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 3)


def test_a_snapshot_is_served_in_pieces_of_the_requested_size() -> None:
    """testPartialFetchSnapshotRequestAsLeader."""
    node, data = serving()
    got = b""
    while len(got) < len(data):
        piece = only(node.request(snapshot_request(len(got), max_bytes=100), 1))
        assert (piece.error_code, piece.position, piece.size) == (0, len(got), len(data))
        assert 0 < len(piece.unaligned_records) <= 100
        got += piece.unaligned_records
    assert got == data


def test_the_bootstrap_checkpoint_is_not_served() -> None:
    """It is not the state at an offset."""
    node = leading()
    partition = FetchSnapshotRequestPartitionSnapshot(
        current_leader_epoch=1, snapshot_id=FetchSnapshotRequestSnapshotId(end_offset=0, epoch=0)
    )
    topic = FetchSnapshotRequestTopicSnapshot(name=METADATA_TOPIC, partitions=(partition,))
    assert OffsetAndEpoch(0, 0) in node.log.snapshots
    answer = only(node.request(FetchSnapshotRequest(replica_id=1, topics=(topic,)), 1))
    assert answer.error_code == ErrorCode.SNAPSHOT_NOT_FOUND


def test_a_voter_that_fetches_a_snapshot_counts_for_check_quorum() -> None:
    """testFetchSnapshotRequestResetsCheckQuorum: a large snapshot may take longer than the leader waits for a fetch."""
    node, _ = serving()
    for _ in range(10):
        node.pass_time(1_000)
        node.request(snapshot_request(max_bytes=10), 1)
    assert node.client.is_leader


def test_a_piece_of_a_newer_epoch_ends_the_download_and_moves_the_follower() -> None:
    """testFetchSnapshotResponseFromNewerEpoch."""
    data = snapshot_bytes(SNAPSHOT_ID, 1, dynamic_voters(0, 1, 2), [b"state" * 50])
    node = following(log=_log(batch(0, 1)))
    node.answer(node.fetch_out(), fetch_response(1, 3, snapshot_id=(50, 2)))
    request, _ = piece_wanted(node)
    state = node.client.state
    assert isinstance(state, Follower)
    assert state.download is not None
    node.answer(request, snapshot_answer(0, data, len(data), epoch=4, error=ErrorCode.FENCED_LEADER_EPOCH))
    with pytest.raises(ValueError, match="is closed"):
        state.download.sink.append(b"more")
    assert (node.client.epoch, node.client.leader_id) == (4, 1)
    assert SNAPSHOT_ID not in node.log.snapshots
    assert node.log.end_offset == 1
    assert node.fetch_out()


def test_pieces_from_a_former_leader_are_ignored() -> None:
    """testFetchSnapshotResponseToNotFollower."""
    data = snapshot_bytes(SNAPSHOT_ID, 1, dynamic_voters(0, 1, 2), [b"state" * 50])
    node = following(log=_log(batch(0, 1)))
    node.answer(node.fetch_out(), fetch_response(1, 3, snapshot_id=(50, 2)))
    request, _ = piece_wanted(node)
    node.follow(2, 5)
    node.answer(request, snapshot_answer(0, data, len(data)))
    assert (node.client.epoch, node.client.leader_id) == (5, 2)
    assert SNAPSHOT_ID not in node.log.snapshots
