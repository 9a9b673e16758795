from itertools import product

import pytest

from kraft_core.raft.internals.leader_state import Leader
from kraft_core.raft.quorum_state import (
    NEXT,
    Candidate,
    Epoch,
    EpochElection,
    Follower,
    Prospective,
    Resigned,
    State,
    Unattached,
    check_move,
    is_allowed,
)
from tests.raft.one_node import dynamic_voters, endpoint, key

VOTERS = dynamic_voters(0, 1, 2)
STATES = (Unattached, Prospective, Candidate, Leader, Follower, Resigned)


def make(kind: type, epoch: int) -> State:
    if kind is Leader:
        return Leader(
            epoch=epoch,
            me=key(0),
            voters=VOTERS,
            granting=(0, 1),
            epoch_start_offset=0,
            flushed_offset=0,
            check_quorum_timeout_ms=3000,
            now_ms=0,
        )
    if kind is Follower:
        return Follower(epoch, 0, 1, endpoint(1))
    if kind is Candidate:
        return Candidate(epoch, 0, EpochElection(VOTERS), key(0))
    if kind is Prospective:
        return Prospective(epoch, 0, EpochElection(VOTERS))
    if kind is Resigned:
        return Resigned(epoch, 0, 0)
    return Unattached(epoch, 0)


@pytest.mark.parametrize(("now", "then", "step"), list(product(STATES, STATES, (-1, 0, 1, 2))))
def test_move_obeys_the_table(now: type, then: type, step: int) -> None:
    rule = NEXT[now].get(then)
    expected = {
        None: False,
        Epoch.SAME: step == 0,
        Epoch.HIGHER: step > 0,
        Epoch.NEXT: step == 1,
        Epoch.ANY: step >= 0,
    }[rule]
    assert is_allowed(make(now, 5), make(then, 5 + step)) is expected


@pytest.mark.parametrize(("now", "then"), list(product(STATES, STATES)))
def test_no_state_is_left_for_a_lower_epoch(now: type, then: type) -> None:
    """QuorumStateTest.testLeaderToAnyStateLowerEpoch, for every state."""
    with pytest.raises(AssertionError):
        check_move(make(now, 5), make(then, 4))


def test_only_a_candidate_becomes_leader_and_only_a_prospective_becomes_candidate() -> None:
    assert [now for now, rules in NEXT.items() if Leader in rules] == [Candidate]
    assert [now for now, rules in NEXT.items() if Candidate in rules] == [Prospective]


def test_an_epochs_leader_is_not_replaced_by_another() -> None:
    prospective = Prospective(5, 0, EpochElection(VOTERS), leader_id=2)
    with pytest.raises(AssertionError, match="Epoch 5 has leader 2"):
        check_move(prospective, Follower(5, 0, 1, endpoint(1)))


def test_a_granted_vote_cannot_be_withdrawn() -> None:
    """CandidateStateTest.testCannotChangeVoteGrantedToRejected."""
    votes = EpochElection(VOTERS)
    votes.record(0, granted=True)
    votes.record(1, granted=True)
    votes.record(1, granted=False)
    assert votes.is_won
    assert not votes.is_lost


def test_votes_of_non_voters_do_not_count() -> None:
    votes = EpochElection(VOTERS)
    for stranger in (0, 7, 8, 9):
        votes.record(stranger, granted=True)
    assert votes.granting == [0]
    assert not votes.is_won


def test_an_election_is_lost_when_a_majority_is_out_of_reach() -> None:
    votes = EpochElection(VOTERS)
    votes.record(0, granted=True)
    votes.record(1, granted=False)
    assert not votes.is_lost
    votes.record(2, granted=False)
    assert votes.is_lost


def test_an_empty_voter_set_elects_no_leader() -> None:
    assert not EpochElection(dynamic_voters()).is_won
