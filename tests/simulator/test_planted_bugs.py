"""Planted bugs of raft; the simulator must catch each by the invariant that it breaks."""

from collections.abc import Callable

import pytest

from kraft_core.node import Node
from kraft_core.protocol.metadata_records import MetadataRecord
from kraft_core.raft import kafka_raft_client
from kraft_core.raft.effects import StoreElection
from kraft_core.raft.internals import election, follower, replication
from kraft_core.raft.internals.initial_state import initial_state
from kraft_core.raft.internals.leader_state import Leader
from kraft_core.raft.internals.raft_core import RaftCore
from kraft_core.raft.leader_and_epoch import LeaderAndEpoch
from kraft_core.raft.quorum_state import (
    Candidate,
    ElectionState,
    EpochElection,
    Follower,
    Resigned,
    State,
    Unattached,
    election_state,
)
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.raft.voter_set import ReplicaKey
from tests.simulator.planted import caught

pytestmark = pytest.mark.simulator


FAULTS = ("kill", "power", "isolate", "split", "drop", "slow_disk", "pause")


def test_no_alarm_without_a_bug() -> None:
    assert caught(20, FAULTS) == ""


def test_a_vote_that_is_not_persisted_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def store_without_vote(self: RaftCore) -> None:
        wanted = election_state(self.state)
        wanted = type(wanted)(wanted.leader_epoch, wanted.leader_id)
        if wanted != self.stored:
            self.stored = wanted
            self.effects.append(StoreElection(wanted, 1))

    monkeypatch.setattr(RaftCore, "store", store_without_vote)
    assert "vote" in caught(40, FAULTS)


def test_a_vote_that_is_forgotten_is_caught_by_its_consequence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A voter that grants every request votes twice in one epoch."""
    original = election.can_grant

    def grant_again(core: RaftCore, candidate: ReplicaKey, end: OffsetAndEpoch, *, pre_vote: bool) -> bool:
        state = core.state
        if not pre_vote and isinstance(state, Unattached) and state.voted is not None:
            state.voted = None
        return original(core, candidate, end, pre_vote=pre_vote)

    monkeypatch.setattr(election, "can_grant", grant_again)
    assert "two votes in one epoch" in caught(60, FAULTS)


def test_a_vote_for_a_shorter_log_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = election.can_grant

    def grant_to_all(core: RaftCore, candidate: ReplicaKey, end: OffsetAndEpoch, *, pre_vote: bool) -> bool:
        return original(core, candidate, max(end, core.end), pre_vote=pre_vote)

    monkeypatch.setattr(election, "can_grant", grant_to_all)
    assert "leader completeness" in caught(60, FAULTS)


def test_a_commit_of_an_older_epochs_record_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raft, figure 8: a leader may commit only with a record of its own epoch."""

    def update_high_watermark(self: Leader) -> bool:
        offset = sorted((each.end_offset for each in self.voter_progress), reverse=True)[len(self.voter_progress) // 2]
        if offset > self.high_watermark:
            self.high_watermark = offset
            return True
        return False

    monkeypatch.setattr(Leader, "update_high_watermark", update_high_watermark)
    assert "older epoch" in caught(60, FAULTS)


def test_a_truncation_below_the_high_watermark_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def truncate(core: RaftCore, diverging: OffsetAndEpoch) -> bool:
        offset = max(core.log.start_offset, min(diverging.offset, core.high_watermark - 1))
        core.log.truncate_to(offset)
        core.control.truncate(offset)
        return True

    monkeypatch.setattr(follower, "_truncate", truncate)
    assert "truncated below the high watermark" in caught(60, FAULTS)


def test_a_leader_that_counts_itself_before_its_flush_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = replication.on_append

    def on_append(core: RaftCore, leader: Leader) -> None:
        original(core, leader)
        if leader.own_flushed(core.log.end_offset):
            replication.on_high_watermark(core, leader)

    monkeypatch.setattr(replication, "on_append", on_append)
    assert "without a majority of disks" in caught(40, FAULTS)


def test_a_follower_that_acknowledges_before_its_flush_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original: Callable[[RaftCore, Follower, int], None] = follower.poll_follower

    def poll_follower(core: RaftCore, state: Follower, now_ms: int) -> None:
        is_flushing, core.flush_in_flight = core.flush_in_flight, False
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RaftCore, "is_durable", property(lambda _: True))
            original(core, state, now_ms)
        core.flush_in_flight |= is_flushing

    monkeypatch.setattr(follower, "poll_follower", poll_follower)
    assert "acknowledged before flush" in caught(20, FAULTS)


def test_a_former_leader_that_resumes_its_epoch_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that lost unflushed records and continues in its epoch writes other records at the same offsets."""
    original = initial_state

    def take_up(core: RaftCore, stored: ElectionState, now_ms: int) -> State:
        state = original(core, stored, now_ms)
        if isinstance(state, Resigned):
            own = EpochElection(core.control.voters)
            for voter_id in core.control.voters.by_id:
                own.record(voter_id, granted=True)
            return Candidate(state.epoch, now_ms + 100, own, core.me)
        return state

    monkeypatch.setattr(kafka_raft_client, "initial_state", take_up)
    message = caught(40, FAULTS)
    assert "log matching" in message or "an epoch's leader changed" in message or "leader completeness" in message


def test_a_controller_that_keeps_its_tip_after_losing_leadership_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Node.handle_leader_change

    def handle_leader_change(self: Node, leader: LeaderAndEpoch) -> None:
        if self._claimed_epoch >= 0:
            self.image = self._tip
        original(self, leader)

    monkeypatch.setattr(Node, "handle_leader_change", handle_leader_change)
    message = caught(60, FAULTS)
    assert "two images of one offset" in message or "after offset" in message


def test_a_controller_that_answers_before_the_commit_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def advance(self: Node, last_offset: int) -> list[MetadataRecord]:
        self.image = self._tip
        self._pending.clear()
        return []

    monkeypatch.setattr(Node, "_advance", advance)
    assert caught(60, FAULTS)


def test_a_read_without_confirmation_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Kafka: an isolated leader answers reads until it notices."""
    monkeypatch.setattr(Node, "_accept_request", Node._pass_to_controller)
    assert "was old" in caught(60, FAULTS)
