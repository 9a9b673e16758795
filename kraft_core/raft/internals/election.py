"""Elections: granting and requesting pre-votes and votes.

Source: KafkaRaftClient.handleVoteRequest and pollProspective/pollCandidate of Kafka 4.3.1; KIP-595, KIP-853, KIP-996.
"""

from typing import Any

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.internal_topics import METADATA_PARTITION, METADATA_TOPIC
from kraft_core.protocol.messages import (
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
    VoteResponse,
    VoteResponseNodeEndpoint,
    VoteResponsePartitionData,
    VoteResponseTopicData,
)
from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.raft.events import FailureReason, RequestReceived
from kraft_core.raft.internals import leadership
from kraft_core.raft.internals.leader_state import Leader
from kraft_core.raft.internals.raft_core import Handled, Kind, Pending, RaftCore
from kraft_core.raft.internals.rpc import endpoint_of, only_partition
from kraft_core.raft.quorum_state import (
    Candidate,
    EpochElection,
    Follower,
    Prospective,
    Resigned,
    Unattached,
)
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.raft.voter_set import ReplicaKey

PRE_VOTE_VERSION = 2


def can_grant(core: RaftCore, candidate: ReplicaKey, end: OffsetAndEpoch, *, pre_vote: bool) -> bool:
    """Return whether this node may grant its (pre-)vote in its current epoch to a candidate whose log ends at `end`."""
    is_up_to_date = end >= core.end
    match core.state:
        case Leader():
            return False
        case Resigned() | Candidate():
            return pre_vote and is_up_to_date
        case Follower(has_fetched=has_fetched):
            return pre_vote and is_up_to_date and not has_fetched
        case Unattached(voted=voted, leader_id=leader_id) | Prospective(voted=voted, leader_id=leader_id):
            if pre_vote:
                return is_up_to_date
            if voted is not None:
                return voted.id == candidate.id and voted.directory_id in {ZERO_UUID, candidate.directory_id}
            return leader_id < 0 and is_up_to_date


def handle_vote(core: RaftCore, event: RequestReceived, now_ms: int) -> None:
    """Answer a Vote request.

    Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST (topic, epochs or offset), FENCED_LEADER_EPOCH, INVALID_VOTER_KEY.
    """
    request = event.message
    assert isinstance(request, VoteRequest)
    if core.is_foreign(request.cluster_id):
        core.respond(event.request_id, VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
        return
    asked = only_partition(request.topics)
    if asked is None:
        core.respond(event.request_id, VoteResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    error, granted = _judge(core, request.voter_id, asked, now_ms)
    core.respond(event.request_id, _vote_response(core, error, granted=granted))


def _judge(core: RaftCore, voter_id: int, asked: Any, now_ms: int) -> tuple[ErrorCode, bool]:
    """Return the error, and whether the (pre-)vote is granted.

    A node without a voter set never grants a vote: its log, and what it acknowledged, may be lost, and any candidate's
    log would be up to date compared with an empty one. Apache's node grants it.
    """
    epoch, last_epoch = asked.replica_epoch, asked.last_offset_epoch
    is_illegal = last_epoch > epoch if asked.pre_vote else last_epoch >= epoch
    if asked.last_offset < 0 or last_epoch < 0 or is_illegal or asked.replica_id < 0:
        return ErrorCode.INVALID_REQUEST, False
    if epoch < core.state.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH, False
    if epoch > core.state.epoch:
        core.become_unattached(epoch, now_ms)
    if not core.is_meant(voter_id, asked.voter_directory_id):
        return ErrorCode.INVALID_VOTER_KEY, False
    candidate = ReplicaKey(asked.replica_id, asked.replica_directory_id)
    if candidate.id == core.me.id:
        return ErrorCode.NONE, False
    end = OffsetAndEpoch(asked.last_offset, last_epoch)
    granted = len(core.control.voters) > 0 and can_grant(core, candidate, end, pre_vote=asked.pre_vote)
    state = core.state
    if asked.pre_vote:
        granted = granted and not _goes_first(core, candidate, end, now_ms)
        if granted:
            _make_way(core, now_ms)
    elif granted and isinstance(state, Unattached | Prospective) and state.voted is None:
        state.voted = candidate
        if isinstance(state, Unattached) and core.may_stand:
            timeout_ms = core.config.election_timeout_ms
            state.deadline_ms = now_ms + timeout_ms + core.random.randrange(max(timeout_ms, 1))
        core.store()
        core.is_dirty = True
    return ErrorCode.NONE, granted


def _goes_first(core: RaftCore, candidate: ReplicaKey, end: OffsetAndEpoch, now_ms: int) -> bool:
    """Return whether this node, which requests pre-votes at the same time, has priority over that candidate.

    Of two candidates with equal logs only the lower id wins its pre-vote, so that they do not split the votes of the
    next epoch. Rejecting a pre-vote is always safe. It is granted all the same when this node is unlikely to win: to a
    candidate that has rejected this node's pre-vote, or after `tie_until_ms`.
    """
    state = core.state
    return (
        isinstance(state, Prospective)
        and core.me.id < candidate.id
        and end == core.end
        and not state.election.has_refused(candidate.id)
        and now_ms < state.tie_until_ms
    )


def _make_way(core: RaftCore, now_ms: int) -> None:
    """After granting a pre-vote, delay this node's own election so that the candidate can request votes first.

    The delay never exceeds the fetch timeout, and an Unattached node delays only once.
    """
    state = core.state
    until_ms = now_ms + core.config.make_way_ms
    if isinstance(state, Follower):
        state.makes_way_until_ms = until_ms
        state.suspect_at_ms = max(state.suspect_at_ms, until_ms)
    elif isinstance(state, Unattached) and not state.has_made_way:
        state.has_made_way = True
        state.deadline_ms = max(state.deadline_ms, until_ms)


def _vote_response(core: RaftCore, error: ErrorCode, *, granted: bool) -> VoteResponse:
    state = core.state
    endpoint = core.leader_endpoint()
    nodes: tuple[VoteResponseNodeEndpoint, ...] = ()
    if endpoint is not None and state.leader_id >= 0:
        nodes = (VoteResponseNodeEndpoint(node_id=state.leader_id, host=endpoint.host, port=endpoint.port),)
    partition = VoteResponsePartitionData(
        partition_index=METADATA_PARTITION,
        error_code=error,
        leader_id=state.leader_id,
        leader_epoch=state.epoch,
        vote_granted=granted,
    )
    topic = VoteResponseTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return VoteResponse(topics=(topic,), node_endpoints=nodes)


# --- standing for election --------------------------------------------------------------------------------------------


def become_prospective(core: RaftCore, now_ms: int) -> None:
    """Start a pre-vote in the current epoch; the only voter becomes leader at once."""
    state = core.state
    endpoint = state.leader_endpoint if isinstance(state, Follower) else None
    election = EpochElection(core.control.voters)
    election.record(core.me.id, granted=True)
    deadline_ms = now_ms + core.election_timeout_ms()
    core.attempt += 1
    tie_until_ms = now_ms + core.config.make_way_ms
    core.move(Prospective(state.epoch, deadline_ms, election, state.leader_id, endpoint, state.voted, tie_until_ms))


def poll_prospective(core: RaftCore, state: Prospective, now_ms: int) -> None:
    """Continue a pre-vote: finish it when won or lost, else send requests to voters that have not responded."""
    if state.election.is_won:
        if not core.is_durable:
            core.flush()  # a candidate's log must be durable: a crash must not shorten it
            return
        become_candidate(core, now_ms)
    elif state.election.is_lost or now_ms >= state.deadline_ms:
        leave_prospective(core, state, now_ms)
    else:
        _ask_for_votes(core, state, now_ms)


def leave_prospective(core: RaftCore, state: Prospective, now_ms: int) -> None:
    """End a lost pre-vote: follow the leader if it is known, else wait unattached."""
    if state.leader_id >= 0 and state.leader_endpoint is not None:
        core.become_follower(state.epoch, state.leader_id, state.leader_endpoint, now_ms)
    else:
        core.become_unattached(state.epoch, now_ms, state.leader_id)


def become_candidate(core: RaftCore, now_ms: int) -> None:
    """Raise the epoch and vote for this node, durably before any request is sent."""
    election = EpochElection(core.control.voters)
    election.record(core.me.id, granted=True)
    core.move(Candidate(core.state.epoch + 1, now_ms + core.election_timeout_ms(), election, core.me))


def poll_candidate(core: RaftCore, state: Candidate, now_ms: int) -> None:
    """Continue an election; after a lost one wait for the timeout, then start a pre-vote again."""
    if state.election.is_won:
        leadership.become_leader(core, state, now_ms)
    elif now_ms >= state.deadline_ms:
        become_prospective(core, now_ms)
    else:
        _ask_for_votes(core, state, now_ms)


def _ask_for_votes(core: RaftCore, state: Prospective | Candidate, now_ms: int) -> None:
    core.wake_at(state.deadline_ms)
    if state.election.is_lost or not core.is_durable:
        return
    pre_vote = isinstance(state, Prospective)
    for voter in state.election.unrecorded():
        endpoint = core.voter_endpoint(voter.id)
        if endpoint is not None and core.can_send(Kind.VOTE, voter.id, now_ms):
            request = vote_request(core, voter, pre_vote=pre_vote)
            core.send(Kind.VOTE, voter.id, endpoint, request, PRE_VOTE_VERSION if pre_vote else 0)


def vote_request(core: RaftCore, voter: ReplicaKey, *, pre_vote: bool) -> VoteRequest:
    """Return the request for this voter in the current epoch."""
    partition = VoteRequestPartitionData(
        partition_index=METADATA_PARTITION,
        replica_epoch=core.state.epoch,
        replica_id=core.me.id,
        replica_directory_id=core.me.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=core.log.last_epoch,
        last_offset=core.log.end_offset,
        pre_vote=pre_vote,
    )
    topic = VoteRequestTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return VoteRequest(cluster_id=core.config.cluster_id, voter_id=voter.id, topics=(topic,))


def on_vote_response(core: RaftCore, pending: Pending, response: VoteResponse, now_ms: int) -> bool:
    """Count a response to this node's Vote. False requests a backoff."""
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        return on_vote_failed(core, FailureReason.UNSUPPORTED_VERSION, now_ms)
    answer = only_partition(response.topics)
    if response.error_code != ErrorCode.NONE or answer is None:
        return False
    endpoint = endpoint_of(response.node_endpoints, answer.leader_id, core.config.listener_name)
    handled = core.handle_common(answer.error_code, answer.leader_id, answer.leader_epoch, endpoint, now_ms)
    if handled is not Handled.CONTINUE or answer.error_code != ErrorCode.NONE:
        return handled is Handled.DONE
    state = core.state
    asked_pre_vote = pending.request.topics[0].partitions[0].pre_vote  # type: ignore[attr-defined] # a VoteRequest
    if isinstance(state, Prospective | Candidate) and asked_pre_vote == isinstance(state, Prospective):
        state.election.record(pending.node_id, granted=answer.vote_granted)
    return True


def on_vote_failed(core: RaftCore, reason: FailureReason, now_ms: int) -> bool:
    """Become a candidate at once if a voter does not support pre-vote."""
    if reason is FailureReason.UNSUPPORTED_VERSION and isinstance(core.state, Prospective) and core.is_durable:
        become_candidate(core, now_ms)
        return True
    return False
