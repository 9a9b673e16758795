"""Epoch and leader in any peer's response. Source: maybeHandleCommonResponse, Kafka 4.3.1."""

import pytest

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    VoteRequest,
    VoteResponse,
)
from kraft_core.raft.events import PeerDisconnected
from kraft_core.raft.leader_and_epoch import LeaderAndEpoch
from tests.raft.one_node import OneNode, batch, fetch_response, vote_response


def following() -> OneNode:
    """Node 0 follows node 1 in epoch 3."""
    node = OneNode()
    node.follow(1, 3)
    return node


@pytest.mark.parametrize(
    ("leader", "epoch", "error", "then"),
    [
        (2, 5, ErrorCode.FENCED_LEADER_EPOCH, LeaderAndEpoch(2, 5)),
        (-1, 5, ErrorCode.FENCED_LEADER_EPOCH, LeaderAndEpoch(-1, 5)),
        (2, 2, ErrorCode.NOT_LEADER_OR_FOLLOWER, LeaderAndEpoch(1, 3)),
        (2, 3, ErrorCode.NOT_LEADER_OR_FOLLOWER, LeaderAndEpoch(1, 3)),
        (0, 5, ErrorCode.FENCED_LEADER_EPOCH, LeaderAndEpoch(1, 3)),
        (1, 3, ErrorCode.UNKNOWN_LEADER_EPOCH, LeaderAndEpoch(1, 3)),
        (1, 3, ErrorCode.BROKER_NOT_AVAILABLE, LeaderAndEpoch(1, 3)),
        (1, 3, ErrorCode.UNKNOWN_SERVER_ERROR, LeaderAndEpoch(1, 3)),
        (2, 3, ErrorCode.NONE, LeaderAndEpoch(1, 3)),
    ],
    ids=[
        "newer leader",
        "newer epoch without leader",
        "older epoch",
        "another leader of the epoch",
        "this node leads a newer epoch",
        "the peer is behind",
        "the peer shuts down",
        "the peer has a fault",
        "no error, another leader of the epoch",
    ],
)
def test_a_follower_adopts_a_newer_epoch_and_nothing_that_contradicts_its_own(
    leader: int, epoch: int, error: int, then: LeaderAndEpoch
) -> None:
    node = following()
    node.answer(node.fetch_out(), fetch_response(leader, epoch, batch(0, 3), error=error, high_watermark=1))
    assert node.client.leader_and_epoch == then
    assert node.log.end_offset == 0


def test_a_prospective_follows_the_leader_named_in_a_vote_response() -> None:
    node = OneNode()
    node.become_prospective()
    node.answer(node.sent(VoteRequest, 2)[0], vote_response(0, granted=False, leader=1))
    assert (node.client.state_name, node.client.leader_id) == ("follower", 1)


def test_a_candidate_that_hears_of_the_winner_follows_it() -> None:
    node = OneNode()
    node.become_candidate()
    node.answer(node.sent(VoteRequest, 2)[-1], vote_response(1, granted=False, leader=2))
    assert (node.client.state_name, node.client.leader_id) == ("follower", 2)


def test_a_leader_steps_down_at_a_response_with_a_newer_epoch() -> None:
    node = OneNode()
    node.become_leader()
    asked = node.sent(BeginQuorumEpochRequest, 1)[0]
    answer = node.request(asked.message, 1)  # as the peer would, but with another epoch
    assert isinstance(answer, BeginQuorumEpochResponse)
    topic = answer.topics[0]
    newer = type(topic.partitions[0])(leader_id=-1, leader_epoch=7, error_code=ErrorCode.FENCED_LEADER_EPOCH)
    topics = (type(topic)(topic_name=topic.topic_name, partitions=(newer,)),)
    node.answer(asked, BeginQuorumEpochResponse(topics=topics))
    assert (node.client.state_name, node.client.epoch) == ("unattached", 7)


@pytest.mark.parametrize("answer", [VoteResponse(), VoteResponse(error_code=-1)], ids=["no partition", "error"])
def test_an_invalid_vote_response_does_not_count_and_is_retried(answer: VoteResponse) -> None:
    node = OneNode()
    node.become_prospective()
    node.answer(node.sent(VoteRequest, 1)[0], answer)
    assert node.client.state_name == "prospective"
    assert not node.sent(VoteRequest, 1)
    node.pass_time(30)
    assert node.sent(VoteRequest, 1), "after a back-off"


def test_a_fetch_response_without_a_partition_does_not_count_as_contact() -> None:
    node = following()
    node.answer(node.fetch_out(), fetch_response(1, 3))
    node.step(PeerDisconnected(1))
    for request in node.sent(FetchRequest):
        node.answer(request, FetchResponse())
    node.pass_time(30)
    assert node.client.state_name == "prospective"


def test_a_snapshot_that_ends_below_what_is_committed_is_not_fetched() -> None:
    """It would remove records that the state machine has applied."""
    node = following()
    node.answer(node.fetch_out(), fetch_response(1, 3, batch(0, 3, b"a", b"b"), high_watermark=2))
    assert node.client.high_watermark == 2
    node.answer(node.fetch_out(), fetch_response(1, 3, snapshot_id=(1, 3)))
    assert node.log.end_offset == 2
    for _ in range(10):
        for request in node.sent(FetchRequest):  # it sends requests to other nodes before it retries this one
            if request.destination.node_id != 1:
                node.fail(request)
        node.pass_time(10)
    assert not node.sent(FetchSnapshotRequest)
    node.answer(node.fetch_out(), fetch_response(1, 3, batch(2, 3)))
    assert node.log.end_offset == 3, "it fetches on"
