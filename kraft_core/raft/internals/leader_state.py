"""The leader's state: the progress of its replicas and, derived from it, the high watermark.

Source: LeaderState of Kafka 4.3.1; KIP-595, KIP-853, KIP-1166.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kraft_core.raft.internals.batch_accumulator import MAX_BATCH_BYTES, BatchAccumulator, CompletedBatch
from kraft_core.raft.internals.leadership_rounds import LeadershipRounds
from kraft_core.raft.internals.threshold_purgatory import ThresholdPurgatory
from kraft_core.raft.voter_set import ReplicaKey, VoterNode, VoterSet

OBSERVER_SESSION_TIMEOUT_MS: Final = 300_000
MAX_OBSERVERS: Final = 10_000
"""Upper bound on observers, above any real cluster's; beyond it the one with the oldest fetch is removed."""


@dataclass(slots=True)
class ReplicaProgress:
    """The progress of one replica, from its fetches; -1: unknown. Times are in ms."""

    key: ReplicaKey
    end_offset: int = -1
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    leader_end_at_last_fetch: int = -1

    def fetched(self, offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Record a valid fetch at `offset`: all records below it are durable on the replica."""
        if offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif 0 < self.leader_end_at_last_fetch <= offset:
            self.last_caught_up_ms = self.last_fetch_ms
        self.leader_end_at_last_fetch = leader_end_offset
        self.last_fetch_ms = now_ms
        self.end_offset = offset


@dataclass(slots=True)
class ParkedFetch:
    """A fetch at the log's end that waits for new records or a new high watermark."""

    request_id: int
    key: ReplicaKey
    offset: int
    max_bytes: int


@dataclass(slots=True)
class VoterChange:
    """A pending addition or removal of a voter."""

    request_id: int | None  # None: already answered
    voter: VoterNode | None  # the voter to add; None: a removal
    deadline_ms: int
    last_offset: int | None = None  # offset of the KRaftVoters record once it is appended
    ack_when_committed: bool = True


class Leader:
    """The node leads the epoch. `high_watermark` is -1 until a record of this epoch is committed."""

    __slots__ = (
        "accumulator",
        "appends",
        "begin_at_ms",
        "change",
        "check_quorum_at_ms",
        "check_quorum_timeout_ms",
        "epoch",
        "epoch_start_offset",
        "fetch_tickets",
        "fetches",
        "granting",
        "high_watermark",
        "is_resign_requested",
        "leader_id",
        "me",
        "observers",
        "rounds",
        "started_ms",
        "volatile_voters",
        "voted",
        "voter_progress",
        "voters",
    )

    def __init__(
        self,
        *,
        epoch: int,
        me: ReplicaKey,
        voters: VoterSet,
        granting: Sequence[int],
        epoch_start_offset: int,
        flushed_offset: int,
        check_quorum_timeout_ms: int,
        max_batch_bytes: int = MAX_BATCH_BYTES,
        now_ms: int,
    ) -> None:
        self.epoch = epoch
        self.me = me
        self.leader_id = me.id
        self.voted: ReplicaKey | None = None
        self.granting = tuple(granting)
        self.epoch_start_offset = epoch_start_offset
        self.high_watermark = -1
        self.check_quorum_timeout_ms = check_quorum_timeout_ms
        self.check_quorum_at_ms = now_ms + check_quorum_timeout_ms
        self.begin_at_ms = now_ms
        self.started_ms = now_ms
        self.change: VoterChange | None = None
        self.volatile_voters: dict[int, VoterNode] = {}  # kraft.version 0: updates sent by the voters
        self.is_resign_requested = False
        self.accumulator = BatchAccumulator(epoch, epoch_start_offset, max_batch_bytes)
        self.appends: ThresholdPurgatory[CompletedBatch] = ThresholdPurgatory()  # waiting for the high watermark
        self.fetches: ThresholdPurgatory[ParkedFetch] = ThresholdPurgatory()  # waiting for the log's end
        self.fetch_tickets: dict[ReplicaKey, int] = {}
        self.rounds = LeadershipRounds()
        self.observers: dict[ReplicaKey, ReplicaProgress] = {me: ReplicaProgress(me)}
        self.voters: dict[int, ReplicaProgress] = {}
        self.voter_progress: list[ReplicaProgress] = []
        self.set_voters(voters)
        self.progress(me).end_offset = flushed_offset

    def set_voters(self, voters: VoterSet) -> None:
        """Change to a new voter set, keeping the progress of replicas that change between voter and observer."""
        before = self.voters
        self.voters = {}
        for voter in voters.by_id.values():
            known = before.get(voter.key.id)
            if known is not None and voter.is_voter(known.key):
                del before[voter.key.id]
            else:
                known = self.observers.pop(voter.key, None) or ReplicaProgress(voter.key)
            self.voters[voter.key.id] = known
        for gone in before.values():
            self.observers.setdefault(gone.key, gone)
        for voter in voters.by_id.values():  # an entry without a directory id matches any replica of that node id
            self.voters[voter.key.id].key = voter.key
            if voter.is_voter(self.me) and self.me in self.observers:
                self.voters[voter.key.id] = self.observers.pop(self.me)
        self.voter_progress = list(self.voters.values())

    def _voter(self, key: ReplicaKey) -> ReplicaProgress | None:
        known = self.voters.get(key.id)
        if known is None:
            return None
        directory_id = known.key.directory_id
        return known if directory_id == key.directory_id or not directory_id.int else None

    @property
    def is_voter(self) -> bool:
        """Whether the leader itself is a voter, so that its own log counts."""
        return self._voter(self.me) is not None

    def progress(self, key: ReplicaKey) -> ReplicaProgress:
        """Return the progress of this replica; a key that is not a voter's becomes an observer."""
        known = self._voter(key) or self.observers.get(key)
        if known is None:
            if len(self.observers) >= MAX_OBSERVERS:
                silent = min((each for each in self.observers.values() if each.key != self.me), key=_last_fetch_ms)
                del self.observers[silent.key]
            known = self.observers[key] = ReplicaProgress(key)
        return known

    def own_flushed(self, flushed_offset: int) -> bool:
        """Count the leader's own durable log. Return whether the high watermark rose."""
        self.progress(self.me).end_offset = flushed_offset
        return self.update_high_watermark()

    def fetched(self, key: ReplicaKey, offset: int, leader_end_offset: int, now_ms: int) -> bool:
        """Count a valid fetch, except with a negative id. Return whether the high watermark rose."""
        if key.id < 0:
            return False
        progress = self._voter(key)
        if progress is None:
            self.progress(key).fetched(offset, leader_end_offset, now_ms)
            return False
        progress.fetched(offset, leader_end_offset, now_ms)
        return offset > self.high_watermark and self.update_high_watermark()

    def fetched_snapshot(self, key: ReplicaKey, now_ms: int) -> None:
        """Count a FetchSnapshot as contact with the replica."""
        if key.id >= 0:
            self.progress(key).last_fetch_ms = now_ms

    def update_high_watermark(self) -> bool:
        """Raise it to what a majority has on disk, once that includes a record of this epoch (Raft, figure 8).

        Return whether it rose.
        """
        offsets = sorted([each.end_offset for each in self.voter_progress], reverse=True)
        offset = offsets[len(offsets) // 2]
        if offset > self.high_watermark and offset > self.epoch_start_offset:
            self.high_watermark = offset
            return True
        return False

    def has_quorum(self, now_ms: int) -> bool:
        """Return whether a majority has fetched within the check-quorum timeout; sets the time of the next check."""
        others = sorted(
            (max(each.last_fetch_ms, self.started_ms) for each in self.voter_progress if each.key.id != self.me.id),
            reverse=True,
        )
        needed = len(self.voter_progress) // 2 + 1 - (1 if self.is_voter else 0)
        if needed == 0:
            self.check_quorum_at_ms = now_ms + self.check_quorum_timeout_ms
            return True
        self.check_quorum_at_ms = others[needed - 1] + self.check_quorum_timeout_ms
        return self.check_quorum_at_ms > now_ms

    @property
    def is_confirmed(self) -> bool:
        """Return whether the current round of `LeadershipRounds` shows that there was no successor when it began.

        False until a record of this epoch is committed: before that the leader does not know what earlier leaders
        committed.
        """
        if self.high_watermark < 0:
            return False
        if self.high_watermark > self.rounds.end_offset:
            return True
        answered = sum(each.key in self.rounds.answered for each in self.voter_progress)
        return 2 * (answered + self.is_voter) > len(self.voter_progress)

    def silent_voters(self, silence_ms: int, now_ms: int) -> list[ReplicaKey]:
        """Return the other voters whose last fetch is at least this long ago: they may not know the leader."""
        return [
            each.key
            for each in self.voter_progress
            if each.key.id != self.me.id and now_ms - each.last_fetch_ms >= silence_ms
        ]

    def successors(self) -> tuple[ReplicaKey, ...]:
        """Return the other voters, the ones with the longest log first."""
        others = [each for each in self.voter_progress if each.key.id != self.me.id]
        return tuple(each.key for each in sorted(others, key=lambda each: -each.end_offset))

    def live_observers(self, now_ms: int) -> list[ReplicaProgress]:
        """Return the observers, after removing those without a fetch for five minutes."""
        for key, each in list(self.observers.items()):
            if key != self.me and now_ms - each.last_fetch_ms >= OBSERVER_SESSION_TIMEOUT_MS:
                del self.observers[key]
        return list(self.observers.values())


def _last_fetch_ms(progress: ReplicaProgress) -> int:
    return progress.last_fetch_ms
