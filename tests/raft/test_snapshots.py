"""Snapshots that come from the leader (KIP-630), and DescribeQuorum. Names in docstrings are Kafka's own tests."""

import pytest

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.internal_topics import METADATA_TOPIC
from kraft_core.protocol.messages import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    FetchRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotResponseLeaderIdAndEpoch,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseSnapshotId,
    FetchSnapshotResponseTopicSnapshot,
)
from kraft_core.raft.effects import SendRequest
from kraft_core.raft.memory_raft_log import MemoryRaftLog
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.raft.voter_set import VoterSet
from tests.raft.one_node import OneNode, batch, dynamic_voters, fetch_request, fetch_response, only, snapshot_bytes


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
    """The FetchSnapshot that waits for an answer, and the position it asks for."""
    (request,) = node.sent(FetchSnapshotRequest)
    assert isinstance(request.message, FetchSnapshotRequest)
    return request, request.message.topics[0].partitions[0].position


# --- snapshots ----------------------------------------------------------------------------------------------------------

SNAPSHOT_ID = OffsetAndEpoch(50, 2)


def test_a_snapshot_replaces_the_log() -> None:
    """testFetchSnapshotResponsePartialData, and what it holds of the voters takes effect."""
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


# --- DescribeQuorum -----------------------------------------------------------------------------------------------------


def describe(topic: str = METADATA_TOPIC) -> DescribeQuorumRequest:
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    return DescribeQuorumRequest(topics=(DescribeQuorumRequestTopicData(topic_name=topic, partitions=(partition,)),))


def test_describe_quorum_tells_voters_observers_and_lag() -> None:
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


def test_observers_are_forgotten_after_five_minutes() -> None:
    node = leading()
    node.request(fetch_request(9, 1, 0, 0))
    for _ in range(310):
        node.pass_time(1000)
        node.request(fetch_request(1, 1, node.log.end_offset, 1, max_wait_ms=0))
    assert only(node.request(describe(), 2)).observers == ()


def test_describe_quorum_elsewhere_gets_kafkas_error() -> None:
    assert only(OneNode().request(describe(), 2)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert only(leading().request(describe("other"), 2)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
