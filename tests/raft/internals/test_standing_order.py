"""The order of elections when a leader dies, so that two voters that suspect it do not split the votes. KIP-996."""

from itertools import pairwise
from random import Random

import pytest

from kraft_core.protocol.messages import FetchRequest, VoteRequest
from kraft_core.raft.events import PeerDisconnected
from tests.raft.memory_raft_log import MemoryRaftLog
from tests.raft.one_node import OneNode, batch, fetch_response, only, vote_request, vote_response


def following(node_id: int = 0, voters: tuple[int, ...] = (0, 1, 2), **settings: int) -> OneNode:
    """A follower of node 1 in epoch 3 that has fetched."""
    log = MemoryRaftLog()
    log.append(batch(0, 3))
    log.flush()
    node = OneNode(voters, node_id=node_id, log=log, **settings)
    node.follow(1, 3)
    node.answer(node.fetch_out(), fetch_response(1, 3))
    return node


def lose_leader(node: OneNode) -> None:
    """The leader's process dies: connections are reset, and new ones refused."""
    node.step(PeerDisconnected(1))
    for request in node.sent(FetchRequest):
        node.fail(request)


def stands_after_ms(node: OneNode) -> int:
    lost = node.now
    lose_leader(node)
    while node.client.state_name == "follower":
        node.pass_time(1)
        for request in node.sent(FetchRequest):
            node.fail(request)
    return node.now - lost


def pre_vote_by(node: OneNode, candidate: int, offset: int = 1) -> bool:
    asked = vote_request(candidate, 3, 3, offset, pre_vote=True, voter=node.config.node_id)
    granted: bool = only(node.request(asked, 2)).vote_granted
    return granted


def standing(node_id: int = 0) -> OneNode:
    node = following(node_id)
    stands_after_ms(node)
    assert node.client.state_name == "prospective"
    return node


@pytest.mark.parametrize("voters", [(0, 1, 2), (0, 1, 2, 3, 4)], ids=["3 voters", "5 voters"])
@pytest.mark.parametrize("seed", range(5))
def test_voters_that_suspect_the_leader_together_stand_one_after_another(voters: tuple[int, ...], seed: int) -> None:
    moments = []
    for node_id in voters:
        if node_id != 1:
            node = following(node_id, voters)
            node.client._core.random = Random(seed + node_id)
            moments.append(stands_after_ms(node))
    assert 1 <= moments[0] <= 6, "the first voter stands at once"
    assert all(later - earlier >= 6 for earlier, later in pairwise(moments)), moments
    assert moments[-1] < 12 * len(moments)


def test_a_node_that_granted_a_pre_vote_lets_its_candidate_go_first() -> None:
    node = following()
    lose_leader(node)
    assert pre_vote_by(node, 2)
    for _ in range(40):
        node.pass_time(1)
        for request in node.sent(FetchRequest):
            node.fail(request)  # which raises the suspicion again
    assert node.client.state_name == "follower"
    assert only(node.request(vote_request(2, 4, 3, 1), 2)).vote_granted


def test_a_node_whose_candidate_never_stood_stands_soon_itself() -> None:
    """The candidate may have died too."""
    node = following()
    lose_leader(node)
    assert pre_vote_by(node, 2)
    node.pass_time(60)
    assert node.client.state_name == "prospective"


def test_making_way_never_takes_longer_than_the_fetch_timeout() -> None:
    """A node that requests pre-votes again and again, and never a vote, does not prevent others from standing."""
    node = following()
    lose_leader(node)
    lost = node.now
    while node.client.state_name == "follower":
        assert pre_vote_by(node, 2)
        node.pass_time(20)
    assert node.now - lost <= node.config.fetch_timeout_ms + 20


def test_an_unattached_node_delays_its_election_once() -> None:
    node = OneNode()
    began = node.now
    while node.client.state_name == "unattached":
        assert node.now - began <= node.config.election_timeout_ms
        assert only(node.request(vote_request(2, 0, pre_vote=True), 2)).vote_granted
        node.pass_time(20)


def test_an_unattached_node_delays_its_election_after_a_pre_vote() -> None:
    node = OneNode()
    while node.client.next_deadline_ms() > node.now + 5:
        node.pass_time(1)
    assert only(node.request(vote_request(2, 0, pre_vote=True), 2)).vote_granted
    node.pass_time(40)
    assert node.client.state_name == "unattached"
    node.pass_time(20)
    assert node.client.state_name == "prospective"


def test_of_two_simultaneous_candidates_the_lower_id_wins_its_pre_vote() -> None:
    assert not pre_vote_by(standing(0), 2)
    assert pre_vote_by(standing(2), 0)


def test_a_rival_with_a_longer_log_wins_its_pre_vote_with_any_id() -> None:
    assert pre_vote_by(standing(0), 2, offset=2)


def test_a_rival_that_has_refused_gets_the_pre_vote_all_the_same() -> None:
    """It noticed the leader's death later, so this node cannot win with its help."""
    node = standing(0)
    (asked,) = node.sent(VoteRequest, 2)
    node.answer(asked, vote_response(3, granted=False))
    assert pre_vote_by(node, 2)


def test_a_rival_gets_the_pre_vote_after_a_short_delay() -> None:
    """This node does not seem to win: its own requests may not get through."""
    node = standing(0)
    node.pass_time(50)
    assert node.client.state_name == "prospective"
    assert pre_vote_by(node, 2)


def test_a_vote_is_granted_to_a_rival_with_any_id() -> None:
    """Ids decide only pre-votes, which are not binding."""
    node = standing(0)
    assert only(node.request(vote_request(2, 4, 3, 1), 2)).vote_granted


def test_an_observer_keeps_looking_for_a_leader() -> None:
    node = following(7)
    lose_leader(node)
    for _ in range(200):
        node.pass_time(10)
        for request in node.sent(FetchRequest):
            node.fail(request)
    assert node.client.state_name == "observer"
    node.pass_time(500)
    node.answer(node.sent(FetchRequest)[0], fetch_response(2, 4))
    assert node.client.leader_id == 2
