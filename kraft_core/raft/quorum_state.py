"""The states of a node in the quorum, and which may follow which.

`NEXT` is the table of QuorumState (Kafka 4.3.1) as data: for each pair of states, how the epoch may move. `check_move`
is asked before every transition; a pair that is not in the table is a bug, so it raises AssertionError and the node stops.
An observer is a node that is not in its own voter set: only Unattached and Follower are open to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final
from uuid import UUID

from kraft_core.protocol.deadlines import NEVER_MS
from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.raft.internals.leader_state import Leader
from kraft_core.raft.snapshot.download import SnapshotDownload
from kraft_core.raft.voter_set import Endpoint, ReplicaKey, VoterSet


@dataclass(frozen=True, slots=True)
class ElectionState:
    """What must survive a restart: epoch, vote and last known leader (-1 and zero for none)."""

    leader_epoch: int = 0
    leader_id: int = -1
    voted_id: int = -1
    voted_directory_id: UUID = ZERO_UUID

    @property
    def voted(self) -> ReplicaKey | None:
        """Whom this node gave its vote to in the epoch."""
        return None if self.voted_id < 0 else ReplicaKey(self.voted_id, self.voted_directory_id)


class EpochElection:
    """Votes of one election among `voters`; a granted vote is never taken back. Source: EpochElection."""

    __slots__ = ("majority", "votes")

    def __init__(self, voters: VoterSet) -> None:
        self.votes: dict[ReplicaKey, bool | None] = {voter.key: None for voter in voters.by_id.values()}
        self.majority = voters.majority

    def record(self, voter_id: int, *, granted: bool) -> None:
        """Note a vote; that of a node which is no voter, or one that takes back a grant, does not count."""
        for key, known in self.votes.items():
            if key.id == voter_id and known is not True:
                self.votes[key] = granted
                return

    @property
    def granting(self) -> list[int]:
        """Ids of those that granted."""
        return [key.id for key, granted in self.votes.items() if granted]

    def has_refused(self, voter_id: int) -> bool:
        """Whether this voter has answered no."""
        return any(key.id == voter_id and granted is False for key, granted in self.votes.items())

    @property
    def is_won(self) -> bool:
        """Whether a majority granted."""
        return len(self.granting) >= self.majority

    @property
    def is_lost(self) -> bool:
        """Whether a majority can no longer be reached."""
        return sum(granted is not False for granted in self.votes.values()) < self.majority

    def unrecorded(self) -> list[ReplicaKey]:
        """Voters that have not answered yet."""
        return [key for key, granted in self.votes.items() if granted is None]


@dataclass(slots=True)
class Unattached:
    """Knows the epoch, perhaps the leader's id, but has nobody to fetch from."""

    epoch: int
    deadline_ms: int  # of the election timeout; NEVER_MS for an observer
    leader_id: int = -1
    voted: ReplicaKey | None = None
    has_made_way: bool = False  # waits a moment longer for another one, who has this node's pre-vote


@dataclass(slots=True)
class Prospective:
    """Asks for pre-votes (KIP-996); the epoch is not raised and nothing is persisted."""

    epoch: int
    deadline_ms: int
    election: EpochElection
    leader_id: int = -1
    leader_endpoint: Endpoint | None = None
    voted: ReplicaKey | None = None
    tie_until_ms: int = 0  # until then a rival with an equal log and a higher id gets no pre-vote


@dataclass(slots=True)
class Candidate:
    """Asks for votes in an epoch of its own making; has voted for itself."""

    epoch: int
    deadline_ms: int
    election: EpochElection
    voted: ReplicaKey
    leader_id: int = -1


@dataclass(slots=True)
class Follower:
    """Fetches from the leader of the epoch."""

    epoch: int
    deadline_ms: int  # of the fetch timeout
    leader_id: int
    leader_endpoint: Endpoint
    voted: ReplicaKey | None = None
    has_fetched: bool = False  # a good answer in this epoch, and no sign of the leader's death since
    suspect_at_ms: int = NEVER_MS  # when to doubt the leader
    is_suspect: bool = False  # the leader's connection broke, and it has not answered since
    makes_way_until_ms: int = 0  # another one, who has this node's pre-vote, is about to stand
    download: SnapshotDownload | None = None
    update_voter_at_ms: int = 0  # when to compare own entry in the voter set next
    has_updated_voter: bool = False  # kraft.version 0: told this leader once


@dataclass(slots=True)
class Resigned:
    """Led this epoch and does so no more; may not vote in it."""

    epoch: int
    deadline_ms: int
    leader_id: int
    voted: ReplicaKey | None = None
    preferred: tuple[ReplicaKey, ...] = ()
    unacknowledged: set[int] = field(default_factory=set)  # voters that have not answered EndQuorumEpoch


State = Unattached | Prospective | Candidate | Leader | Follower | Resigned


class Epoch(Enum):
    """How the epoch may move in a transition."""

    SAME = "same"
    HIGHER = "higher"
    ANY = "same or higher"
    NEXT = "plus one"


NEXT: Final[Mapping[type, Mapping[type, Epoch]]] = {
    Unattached: {
        Unattached: Epoch.HIGHER,  # an election elsewhere (a vote given in the epoch stays in the same state)
        Prospective: Epoch.SAME,  # election timeout
        Follower: Epoch.ANY,  # leader found
    },
    Prospective: {
        Unattached: Epoch.ANY,  # an election elsewhere; or pre-vote lost without a known leader
        Candidate: Epoch.NEXT,  # pre-vote won
        Follower: Epoch.ANY,  # leader found; or pre-vote lost with a known leader
    },
    Candidate: {
        Unattached: Epoch.HIGHER,
        Prospective: Epoch.SAME,  # election timeout
        Leader: Epoch.SAME,  # votes of a majority
        Follower: Epoch.ANY,  # another one won this epoch
    },
    Leader: {
        Unattached: Epoch.HIGHER,
        Resigned: Epoch.SAME,  # shutdown, check-quorum, removed from the voters
        Follower: Epoch.HIGHER,
    },
    Follower: {
        Unattached: Epoch.HIGHER,
        Prospective: Epoch.SAME,  # fetch timeout, or the leader is suspected dead
        Follower: Epoch.HIGHER,
    },
    Resigned: {
        Unattached: Epoch.HIGHER,  # an election elsewhere, or own election timeout with epoch + 1
        Follower: Epoch.HIGHER,
    },
}
"""From, to, and the epoch's move. What is not here does not happen."""

VOTER_STATES: Final = (Prospective, Candidate, Leader)
"""States that only a node in its own voter set may enter (or one whose removal is not committed)."""


def is_allowed(now: State, then: State) -> bool:
    """Whether the table has this transition with these epochs."""
    move = NEXT[type(now)].get(type(then))
    match move:
        case None:
            return False
        case Epoch.SAME:
            return then.epoch == now.epoch
        case Epoch.HIGHER:
            return then.epoch > now.epoch
        case Epoch.NEXT:
            return then.epoch == now.epoch + 1
        case Epoch.ANY:
            return then.epoch >= now.epoch


def check_move(now: State, then: State) -> None:
    """Raise AssertionError unless `then` may follow `now`; within an epoch no known leader is replaced by another."""
    if not is_allowed(now, then):
        raise AssertionError(
            f"{type(now).__name__} in epoch {now.epoch} cannot become {type(then).__name__} in {then.epoch}."
        )
    if then.epoch == now.epoch and now.leader_id >= 0 and then.leader_id not in {-1, now.leader_id}:
        raise AssertionError(f"Epoch {now.epoch} has leader {now.leader_id}, so {then.leader_id} cannot lead it.")


def election_state(state: State) -> ElectionState:
    """Return what of this state must be on disk."""
    voted = state.voted
    return ElectionState(
        state.epoch,
        state.leader_id,
        -1 if voted is None else voted.id,
        ZERO_UUID if voted is None else voted.directory_id,
    )
