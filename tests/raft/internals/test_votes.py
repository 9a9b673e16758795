"""More of elections: granting votes in each state, and starting elections. Docstrings name Kafka's tests."""

import pytest

from kraft_core.protocol.messages import FetchRequest
from kraft_core.raft.events import Timer
from kraft_core.raft.internals.leadership import become_leader
from kraft_core.raft.quorum_state import Candidate, ElectionState
from kraft_core.raft.voter_set import ReplicaKey
from tests.raft.memory_raft_log import MemoryRaftLog
from tests.raft.one_node import OneNode, batch, fetch_request, fetch_response, key, only, vote_request


def log_of(*batches: bytes) -> MemoryRaftLog:
    log = MemoryRaftLog()
    for each in batches:
        log.append(each)
    log.flush()
    return log


def test_a_resigned_leader_votes_in_a_higher_epoch() -> None:
    """testGrantVotesFromHigherEpochAfterResigningLeadership, ..Candidacy; the vote is on disk with the answer."""
    node = OneNode(election=ElectionState(4, 0), log=log_of(batch(0, 3)))
    assert node.client.state_name == "resigned"
    assert not only(node.request(vote_request(1, 4, 3, 1), 2)).vote_granted
    assert only(node.request(vote_request(1, 5, 3, 1), 2)).vote_granted
    assert node.client._core.stored == ElectionState(5, -1, 1, key(1).directory_id)


def test_a_candidate_votes_in_a_higher_epoch_for_a_log_as_long_as_its_own() -> None:
    """testGrantVotesFromHigherEpochAfterResigningCandidacy."""
    node = OneNode(log=log_of(batch(0, 3)))
    node.become_candidate()
    assert not only(node.request(vote_request(1, 5, 2, 9), 2)).vote_granted
    assert only(node.request(vote_request(2, 6, 3, 1), 2)).vote_granted


def test_a_candidate_grants_pre_vote_without_giving_up_its_own_vote() -> None:
    """testHandlePreVoteRequestAsCandidate."""
    node = OneNode(log=log_of(batch(0, 3)))
    node.become_candidate()
    assert node.client.epoch == 4
    assert only(node.request(vote_request(1, 4, 3, 1, pre_vote=True), 2)).vote_granted
    assert not only(node.request(vote_request(1, 4, 3, 0, pre_vote=True), 2)).vote_granted, "a shorter log"
    state = node.client.state
    assert isinstance(state, Candidate)
    assert state.voted == key(0)
    assert only(node.request(vote_request(1, 5, 3, 1, pre_vote=True), 2)).vote_granted
    assert node.client.state_name == "unattached"
    assert node.client.epoch == 5


@pytest.mark.parametrize(
    ("last_epoch", "offset", "granted"), [(3, 1, True), (4, 0, True), (3, 0, False), (2, 9, False)]
)
def test_a_pre_vote_goes_only_to_a_log_that_is_up_to_date(last_epoch: int, offset: int, granted: bool) -> None:
    """testRejectPreVoteIfRemoteLogIsNotUpToDate: KafkaRaftClientPreVoteTest."""
    node = OneNode(log=log_of(batch(0, 3)))
    asked = vote_request(1, 4, last_epoch, offset, pre_vote=True)
    assert only(node.request(asked, 2)).vote_granted is granted
    assert node.client._core.state.voted is None, "a pre-vote is not binding"


def test_a_node_without_a_leader_grants_a_vote_that_is_on_disk_before_the_response() -> None:
    """testHandleValidVoteRequestAsFollower: the epoch of the request is known, its leader is not."""
    node = OneNode(election=ElectionState(3))
    node.effects.clear()
    assert only(node.request(vote_request(1, 3, 0, 0), 2)).vote_granted
    kinds = [type(each).__name__ for each in node.effects]
    assert kinds.index("StoreElection") < kinds.index("Respond")


def test_a_node_that_knows_the_epochs_leader_does_not_vote_in_it() -> None:
    """testHandleVoteRequestAsFollowerWithElectedLeader."""
    node = OneNode()
    node.follow(1, 3)
    assert not only(node.request(vote_request(2, 3, 0, 0), 2)).vote_granted
    assert node.client.leader_id == 1


def test_a_voter_without_valid_responses_starts_a_pre_vote_after_the_fetch_timeout() -> None:
    """testVoterBecomeProspectiveAfterFetchTimeout: the epoch stays."""
    node = OneNode()
    node.follow(1, 3)
    node.answer(node.fetch_out(), fetch_response(1, 3))
    began = node.now
    while node.client.state_name == "follower":
        for request in node.sent(FetchRequest):
            node.answer(request, fetch_response(1, 3, error=-1))
        node.pass_time(10)
    assert 2_000 <= node.now - began <= 2_020
    assert node.client.state_name == "prospective"
    assert node.client.epoch == 3


def test_no_leader_without_a_majority_of_votes() -> None:
    """QuorumStateTest.testCandidateToLeaderWithoutGrantedVote."""
    node = OneNode()
    node.become_candidate()
    state = node.client.state
    assert isinstance(state, Candidate)
    with pytest.raises(AssertionError, match="no majority"):
        become_leader(node.client._core, state, node.now)


def test_after_a_change_of_the_voters_the_new_majority_counts() -> None:
    """LeaderStateTest.testCheckQuorumAfterVoterSetChanges: of 0-3, 0 leads, 1 fetches; with 3 gone that is enough."""
    few, enough = OneNode((0, 1, 2, 3)), OneNode((0, 1, 2, 3))
    for node in (few, enough):
        node.become_leader_with(2)
        for voter in (1, 2):
            node.request(fetch_request(voter, 1, node.log.end_offset, 1, max_wait_ms=0))
    leader = enough.client.state
    smaller = enough.client.voters.without_voter(key(3))
    assert smaller is not None
    leader.set_voters(smaller)  # type: ignore[union-attr]  # a Leader
    for _ in range(4):
        for node in (few, enough):
            node.pass_time(1_000)
            node.request(fetch_request(1, 1, node.log.end_offset, 1, max_wait_ms=0))
            node.step(Timer())
    assert not few.client.is_leader
    assert enough.client.is_leader


def test_a_vote_for_a_candidate_without_a_directory_holds_for_its_id() -> None:
    """UnattachedStateTest.testGrantVote with and without directory ids: a v0 Vote has none."""
    node = OneNode(election=ElectionState(3, -1, 1))
    assert node.client.state.voted == ReplicaKey(1)
    assert only(node.request(vote_request(1, 3, 0, 0), 2)).vote_granted
    assert not only(node.request(vote_request(2, 3, 0, 0), 2)).vote_granted


@pytest.mark.parametrize("pre_vote", [False, True])
def test_a_node_without_a_voter_set_grants_no_vote(*, pre_vote: bool) -> None:
    """It may be a voter that has lost its log: Apache's node would vote for the first candidate."""
    asked = vote_request(1, 4, 3, 10, pre_vote=pre_vote)
    assert not only(OneNode(voters=()).request(asked, 2)).vote_granted
    assert only(OneNode().request(asked, 2)).vote_granted
