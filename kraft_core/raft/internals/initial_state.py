"""The state in which a node starts. Source: QuorumState.initialize of Kafka 4.3.1."""

from kraft_core.protocol.deadlines import NEVER_MS
from kraft_core.raft.internals.raft_core import RaftCore
from kraft_core.raft.quorum_state import (
    Candidate,
    ElectionState,
    EpochElection,
    Follower,
    Resigned,
    State,
    Unattached,
)


def initial_state(core: RaftCore, stored: ElectionState, now_ms: int) -> State:
    """Return the initial state for the stored election state."""
    epoch, voted = stored.leader_epoch, stored.voted
    deadline_ms = now_ms + core.election_timeout_ms() if core.may_stand else NEVER_MS
    if epoch < core.log.last_epoch:
        return Unattached(core.log.last_epoch, deadline_ms)
    if stored.leader_id == core.me.id:
        # Unflushed records of this epoch may be lost, so no record may get their offsets in the same epoch.
        resigned_until_ms = now_ms + core.election_timeout_ms()
        return Resigned(epoch, resigned_until_ms, core.me.id, voted, (), set(core.control.voters.by_id) - {core.me.id})
    # With a known leader, or records of the epoch in the log, this candidacy is over. Kafka resumes it even then.
    if voted == core.me and core.may_stand and stored.leader_id < 0 and core.log.last_epoch < epoch:
        own_election = EpochElection(core.control.voters)
        own_election.record(core.me.id, granted=True)
        return Candidate(epoch, deadline_ms, own_election, core.me)
    endpoint = core.voter_endpoint(stored.leader_id)
    if stored.leader_id >= 0 and endpoint is not None:
        until_ms = now_ms + core.config.fetch_timeout_ms
        return Follower(epoch, until_ms, stored.leader_id, endpoint, voted, update_voter_at_ms=until_ms)
    return Unattached(epoch, deadline_ms, stored.leader_id, voted)
