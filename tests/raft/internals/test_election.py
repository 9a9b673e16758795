"""Elections of one node whose peers are the test. Names in docstrings are Kafka's own tests."""

import pytest

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.internal_topics import METADATA_TOPIC
from kraft_core.protocol.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochRequestReplicaInfo,
    EndQuorumEpochRequestTopicData,
    FetchRequest,
    VoteRequest,
    VoteRequestPartitionData,
)
from kraft_core.raft.effects import Respond, SendRequest, Stopped, StoreElection
from kraft_core.raft.events import FailureReason, PeerDisconnected, Shutdown
from kraft_core.raft.leader_and_epoch import LeaderAndEpoch
from kraft_core.raft.quorum_state import ElectionState
from tests.raft.memory_raft_log import MemoryRaftLog
from tests.raft.one_node import (
    CLUSTER_ID,
    OneNode,
    batch,
    begin_request,
    fetch_request,
    fetch_response,
    key,
    only,
    vote_request,
    vote_response,
)


def log_with(*batches: bytes) -> MemoryRaftLog:
    log = MemoryRaftLog()
    for each in batches:
        log.append(each)
    log.flush()
    return log


def asked_in(request: SendRequest) -> VoteRequestPartitionData:
    assert isinstance(request.message, VoteRequest)
    return request.message.topics[0].partitions[0]


# --- standing ---------------------------------------------------------------------------------------------------------


def test_the_only_voter_leads_at_once_when_its_timeout_is_over() -> None:
    node = OneNode((0,))
    node.pass_time(2000)
    assert node.client.is_leader
    assert node.client.epoch == 1
    assert node.client.high_watermark == node.log.end_offset > 0


def test_pre_vote_does_not_raise_the_epoch() -> None:
    """KIP-996."""
    node = OneNode()
    node.become_prospective()
    asked = node.sent(VoteRequest)
    assert [each.destination.node_id for each in asked] == [1, 2]
    assert all(asked_in(each).pre_vote for each in asked)
    assert node.client.epoch == 0
    assert not any(isinstance(each, StoreElection) and each.election.leader_epoch for each in node.effects)


def test_a_candidates_epoch_and_vote_are_stored_before_any_request_is_sent() -> None:
    node = OneNode()
    node.become_prospective()
    node.effects.clear()
    node.grant_votes()
    stored = next(index for index, each in enumerate(node.effects) if isinstance(each, StoreElection))
    first_vote = next(index for index, each in enumerate(node.effects) if isinstance(each, SendRequest))
    effect = node.effects[stored]
    assert isinstance(effect, StoreElection)
    assert effect.election == ElectionState(1, -1, 0, key(0).directory_id)
    assert stored < first_vote


def test_a_majority_of_votes_makes_a_leader_that_announces_itself() -> None:
    node = OneNode()
    node.become_leader()
    assert node.client.leader_and_epoch == LeaderAndEpoch(0, 1)
    assert [each.destination.node_id for each in node.sent(BeginQuorumEpochRequest)] == [1, 2]
    control = list(node.log.batches[0].records())
    assert len(control) == 3  # LeaderChange, KRaftVersion and KRaftVoters: the set was in 0-0 only


def test_with_static_voters_the_epoch_begins_with_leader_change_alone() -> None:
    node = OneNode(kraft_version=0)
    node.become_leader()
    assert node.log.batches[0].record_count == 1


def test_votes_of_an_older_pre_vote_do_not_make_a_leader() -> None:
    node = OneNode()
    node.become_prospective()
    first, second = node.sent(VoteRequest)
    node.answer(first, vote_response(0, granted=True))
    assert node.client.state_name == "candidate"
    node.answer(second, vote_response(0, granted=True))
    assert node.client.state_name == "candidate"


def test_a_refused_pre_vote_without_a_leader_goes_back_to_unattached() -> None:
    """testProspectiveTransitionsToUnattachedOnElectionFailure."""
    node = OneNode()
    node.become_prospective()
    for request in node.sent(VoteRequest):
        node.answer(request, vote_response(0, granted=False))
    assert node.client.state_name == "unattached"
    assert node.client.epoch == 0


def test_a_candidate_waits_for_its_timeout_after_losing() -> None:
    """testCandidateWaitsRestOfElectionTimeoutAfterElectionLoss."""
    node = OneNode()
    node.become_candidate()
    for request in node.sent(VoteRequest):
        node.answer(request, vote_response(1, granted=False))
    assert node.client.state_name == "candidate"
    node.pass_time(2000)
    assert node.client.state_name != "candidate"
    assert node.client.epoch == 1


def test_a_voter_without_pre_vote_makes_a_prospective_a_candidate_at_once() -> None:
    """testPreVoteNotSupportedByRemote."""
    node = OneNode()
    node.become_prospective()
    node.fail(node.sent(VoteRequest)[0], FailureReason.UNSUPPORTED_VERSION)
    assert node.client.state_name == "candidate"


def test_no_candidacy_with_a_log_that_is_not_durable() -> None:
    """After a crash the log would be shorter than the one that the votes were granted for."""
    node = OneNode()
    node.follow(1, 1)
    node.holds_flushes = True
    node.answer(node.fetch_out(), fetch_response(1, 1, batch(0, 1)))
    assert node.is_flushing
    node.step(PeerDisconnected(1))
    node.pass_time(50)
    assert not node.sent(VoteRequest)
    node.finish_flush()
    node.pass_time(50)
    assert node.sent(VoteRequest)


def test_an_observer_never_stands_for_election() -> None:
    """testFollowerAsObserverDoesNotBecomeProspectiveAfterFetchTimeout."""
    node = OneNode((1, 2, 3))
    node.pass_time(20_000)
    assert node.client.epoch == 0
    assert not node.sent(VoteRequest)
    assert node.sent(FetchRequest)


# --- answering --------------------------------------------------------------------------------------------------------


def test_a_vote_is_on_disk_before_it_is_answered() -> None:
    node = OneNode()
    node.effects.clear()
    assert only(node.request(vote_request(1, 1), 2)).vote_granted
    kinds = [type(each) for each in node.effects if isinstance(each, StoreElection | Respond)]
    assert kinds.index(Respond) == len(kinds) - 1
    stored = [each.election for each in node.effects if isinstance(each, StoreElection)]
    assert stored[-1] == ElectionState(1, -1, 1, key(1).directory_id)


def test_a_vote_goes_to_one_candidate_also_when_it_asks_again() -> None:
    """testHandleVoteRequestAsFollowerWithVotedCandidate."""
    node = OneNode()
    assert only(node.request(vote_request(1, 1), 2)).vote_granted
    assert not only(node.request(vote_request(2, 1), 2)).vote_granted
    assert only(node.request(vote_request(1, 1), 2)).vote_granted


@pytest.mark.parametrize(
    ("last_epoch", "offset", "granted"), [(1, 1, False), (1, 9, False), (2, 1, False), (2, 2, True), (3, 1, True)]
)
def test_a_vote_goes_only_to_a_log_that_is_up_to_date(last_epoch: int, offset: int, granted: bool) -> None:
    node = OneNode(log=log_with(batch(0, 1), batch(1, 2)))
    assert only(node.request(vote_request(1, 5, last_epoch, offset), 2)).vote_granted is granted


def test_a_follower_grants_pre_vote_until_it_has_fetched() -> None:
    """testFollowerGrantsPreVoteIfHasNotFetchedYet."""
    node = OneNode()
    node.follow(1, 1)
    assert only(node.request(vote_request(2, 1, pre_vote=True), 2)).vote_granted
    node.answer(node.fetch_out(), fetch_response(1, 1))
    assert not only(node.request(vote_request(2, 1, pre_vote=True), 2)).vote_granted


def test_a_follower_whose_leader_was_reset_grants_pre_vote_again() -> None:
    """Two survivors must not wait for each other's timeouts."""
    node = OneNode()
    node.follow(1, 1)
    node.answer(node.fetch_out(), fetch_response(1, 1))
    node.step(PeerDisconnected(1))
    assert only(node.request(vote_request(2, 1, pre_vote=True), 2)).vote_granted


def test_a_leader_grants_nothing_in_its_epoch() -> None:
    node = OneNode()
    node.become_leader()
    end = node.log.end_offset
    for pre_vote in (False, True):
        assert not only(node.request(vote_request(1, 1, 0, end + 9, pre_vote=pre_vote), 2)).vote_granted
    assert node.client.is_leader


def test_a_higher_epoch_makes_even_a_leader_unattached() -> None:
    node = OneNode()
    node.become_leader()
    answer = only(node.request(vote_request(1, 7, 1, 99), 2))
    assert answer.vote_granted
    assert answer.leader_epoch == 7
    assert node.client.state_name == "unattached"


@pytest.mark.parametrize(
    ("request_", "top", "partition"),
    [
        (vote_request(1, 9, cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID, None),
        (vote_request(1, 9, topic="other"), ErrorCode.INVALID_REQUEST, None),
        (vote_request(1, 9, 9, 1), 0, ErrorCode.INVALID_REQUEST),
        (vote_request(1, 9, 0, -1), 0, ErrorCode.INVALID_REQUEST),
        (vote_request(1, 9, -1, 0), 0, ErrorCode.INVALID_REQUEST),
        (vote_request(-1, 9), 0, ErrorCode.INVALID_REQUEST),
        (vote_request(1, 2), 0, ErrorCode.FENCED_LEADER_EPOCH),
        (vote_request(1, 9, voter=2), 0, ErrorCode.INVALID_VOTER_KEY),
        (vote_request(1, 9, voter_directory_id=key(5).directory_id), 0, ErrorCode.INVALID_VOTER_KEY),
    ],
)
def test_a_wrong_vote_request_gets_kafkas_error(request_: VoteRequest, top: int, partition: int | None) -> None:
    node = OneNode(election=ElectionState(leader_epoch=3))
    answer = node.request(request_, 2)
    assert answer.error_code == top
    if partition is not None:
        assert only(answer).error_code == partition
        assert not only(answer).vote_granted


def test_a_vote_request_without_cluster_id_passes() -> None:
    node = OneNode()
    assert only(node.request(vote_request(1, 1, cluster_id=None), 2)).vote_granted


# --- restart ----------------------------------------------------------------------------------------------------------


def test_a_former_leader_starts_resigned_and_never_votes_in_its_epoch() -> None:
    """testInitializeAsResignedLeaderFromStateStore, testRejectVotesFromSameEpochAfterResigningLeadership."""
    node = OneNode(election=ElectionState(4, 0))
    assert node.client.state_name == "resigned"
    answer = only(node.request(vote_request(1, 4, 3, 99), 2))
    assert (answer.vote_granted, answer.leader_id) == (False, 0)
    assert only(node.request(vote_request(1, 5, 3, 99), 2)).vote_granted


def test_a_candidate_resumes_its_candidacy_after_a_restart() -> None:
    """testInitializeAsCandidateFromStateStore."""
    node = OneNode(election=ElectionState(4, -1, 0, key(0).directory_id))
    assert node.client.state_name == "candidate"
    assert all(asked_in(each).replica_epoch == 4 for each in node.sent(VoteRequest))


def test_a_candidacy_whose_winner_is_known_is_not_resumed() -> None:
    node = OneNode(election=ElectionState(4, 2, 0, key(0).directory_id))
    assert node.client.leader_and_epoch == LeaderAndEpoch(2, 4)


def test_the_logs_epoch_counts_when_the_stored_one_is_older() -> None:
    """testInitializeWithCorruptedStore."""
    node = OneNode(log=log_with(batch(0, 6)), election=ElectionState(2, 1))
    assert (node.client.state_name, node.client.epoch) == ("unattached", 6)


def test_the_only_voter_does_not_resume_its_epoch() -> None:
    """testInitializeAsLeaderFromStateStoreSingleMemberQuorum."""
    node = OneNode((0,), election=ElectionState(4, 0))
    node.pass_time(3000)
    assert node.client.is_leader
    assert node.client.epoch > 4


# --- losing and handing over ------------------------------------------------------------------------------------------


def test_a_leader_without_a_majority_of_fetches_resigns() -> None:
    """testLeaderShouldResignLeadershipIfNotGetFetchRequestFromMajorityVoters; observers do not count."""
    node = OneNode()
    node.become_leader()
    node.pass_time(2900)
    node.request(fetch_request(9, 1, node.log.end_offset, 1, max_wait_ms=0))
    assert node.client.is_leader
    node.pass_time(200)
    assert not node.client.is_leader


def test_a_leader_that_a_majority_fetches_from_stays() -> None:
    node = OneNode()
    node.become_leader()
    for _ in range(10):
        node.pass_time(1000)
        node.request(fetch_request(1, 1, node.log.end_offset, 1, max_wait_ms=0))
    assert node.client.is_leader


def test_begin_quorum_epoch_is_repeated_only_to_silent_voters() -> None:
    """testBeginQuorumEpochHeartbeat."""
    node = OneNode()
    node.become_leader()
    node.unanswered.clear()
    node.client._core.pending.clear()
    node.pass_time(900)
    node.request(fetch_request(1, 1, node.log.end_offset, 1))
    node.pass_time(200)
    assert [each.destination.node_id for each in node.sent(BeginQuorumEpochRequest)] == [2]


def test_shutdown_hands_over_to_the_voters_with_the_longest_log_first() -> None:
    """testLeaderGracefulShutdown, testEndQuorumEpochSentBasedOnFetchOffset."""
    node = OneNode()
    node.become_leader()
    node.request(fetch_request(1, 1, 0, 0))
    node.request(fetch_request(2, 1, node.log.end_offset, 1))
    node.step(Shutdown(5000))
    ends = node.sent(EndQuorumEpochRequest)
    assert [each.destination.node_id for each in ends] == [1, 2]
    assert isinstance(ends[0].message, EndQuorumEpochRequest)
    said = ends[0].message.topics[0].partitions[0]
    assert [each.candidate_id for each in said.preferred_candidates] == [2, 1]
    assert not any(isinstance(each, Stopped) for each in node.effects)
    assert only(node.request(vote_request(2, 2, 1, node.log.end_offset), 2)).vote_granted
    assert any(isinstance(each, Stopped) for each in node.effects)


def test_a_follower_stops_at_once() -> None:
    node = OneNode()
    node.follow()
    node.step(Shutdown(5000))
    assert any(isinstance(each, Stopped) for each in node.effects)


def end_request(*successors: int) -> EndQuorumEpochRequest:
    candidates = tuple(
        EndQuorumEpochRequestReplicaInfo(candidate_id=each, candidate_directory_id=key(each).directory_id)
        for each in successors
    )
    partition = EndQuorumEpochRequestPartitionData(leader_id=1, leader_epoch=1, preferred_candidates=candidates)
    topic = EndQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return EndQuorumEpochRequest(cluster_id=CLUSTER_ID, topics=(topic,))


def test_the_first_successor_stands_at_once() -> None:
    """testEndQuorumStartsNewElectionImmediatelyIfFollowerUnattached."""
    node = OneNode()
    node.follow()
    node.request(end_request(0, 2), 1)
    assert node.client.state_name == "prospective"


def test_a_later_successor_waits() -> None:
    """testHandleEndQuorumRequestWithLowerPriorityToBecomeLeader."""
    node = OneNode()
    node.follow()
    node.request(end_request(2, 0), 1)
    node.pass_time(400)
    assert node.client.state_name == "follower"
    node.pass_time(200)
    assert node.client.state_name == "prospective"


def test_a_second_leader_of_an_epoch_is_rejected() -> None:
    node = OneNode()
    node.follow(1, 1)
    assert only(node.request(begin_request(2, 1), 1)).error_code == ErrorCode.INVALID_REQUEST
    assert node.client.leader_and_epoch == LeaderAndEpoch(1, 1)


def test_a_reset_leader_connection_starts_a_pre_vote_within_milliseconds() -> None:
    node = OneNode()
    node.follow()
    node.answer(node.fetch_out(), fetch_response(1, 1))
    node.step(PeerDisconnected(1))
    node.pass_time(30)
    assert node.client.state_name == "prospective"


def test_an_unanswered_fetch_starts_a_pre_vote_before_the_fetch_timeout() -> None:
    """1.5 times the longest wait of a fetch."""
    node = OneNode()
    node.follow()
    node.answer(node.fetch_out(), fetch_response(1, 1))
    node.pass_time(740)
    assert node.client.state_name == "follower"
    node.pass_time(50)
    assert node.client.state_name == "prospective"
