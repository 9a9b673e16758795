"""The states of a node in the quorum and the transitions between them.

`NEXT` is the table of QuorumState (Kafka 4.3.1) as data: for each pair of states, how the epoch may change.
`check_move` runs before every transition; a pair that is not in the table is a bug, so it raises AssertionError and
the node stops. An observer is a node that is not in its own voter set: it can only be Unattached or Follower.
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
    """The durable state: epoch, vote and last known leader (-1 and zero for none)."""

    leader_epoch: int = 0
    leader_id: int = -1
    voted_id: int = -1
    voted_directory_id: UUID = ZERO_UUID

    @property
    def voted(self) -> ReplicaKey | None:
        """Whom this node gave its vote to in the epoch."""
        return None if self.voted_id < 0 else ReplicaKey(self.voted_id, self.voted_directory_id)


class EpochElection:
    """The votes of one election among `voters`; a granted vote cannot be withdrawn. Source: EpochElection."""

    __slots__ = ("majority", "votes")

    def __init__(self, voters: VoterSet) -> None:
        self.votes: dict[ReplicaKey, bool | None] = {voter.key: None for voter in voters.by_id.values()}
        self.majority = voters.majority

    def record(self, voter_id: int, *, granted: bool) -> None:
        """Record a vote; ignores one from a node that is not a voter, and one that would withdraw a grant."""
        for key, known in self.votes.items():
            if key.id == voter_id and known is not True:
                self.votes[key] = granted
                return

    @property
    def granting(self) -> list[int]:
        """Ids of the voters that granted."""
        return [key.id for key, granted in self.votes.items() if granted]

    def has_refused(self, voter_id: int) -> bool:
        """Whether this voter has rejected."""
        return any(key.id == voter_id and granted is False for key, granted in self.votes.items())

    @property
    def is_won(self) -> bool:
        """Whether a majority has granted."""
        return len(self.granting) >= self.majority

    @property
    def is_lost(self) -> bool:
        """Whether a majority can no longer be reached."""
        return sum(granted is not False for granted in self.votes.values()) < self.majority

    def unrecorded(self) -> list[ReplicaKey]:
        """Voters that have not responded yet."""
        return [key for key, granted in self.votes.items() if granted is None]


@dataclass(slots=True)
class Unattached:
    """The node knows the epoch and maybe the leader's id, but no leader to fetch from."""

    epoch: int
    deadline_ms: int  # of the election timeout; NEVER_MS for an observer
    leader_id: int = -1
    voted: ReplicaKey | None = None
    has_made_way: bool = False  # has extended the deadline once, for a candidate that got this node's pre-vote


@dataclass(slots=True)
class Prospective:
    """The node requests pre-votes (KIP-996) without raising its epoch; nothing is persisted."""

    epoch: int
    deadline_ms: int
    election: EpochElection
    leader_id: int = -1
    leader_endpoint: Endpoint | None = None
    voted: ReplicaKey | None = None
    tie_until_ms: int = 0  # until then a candidate with an equal log and a higher id gets no pre-vote


@dataclass(slots=True)
class Candidate:
    """The node has raised the epoch, voted for itself and requests votes."""

    epoch: int
    deadline_ms: int
    election: EpochElection
    voted: ReplicaKey
    leader_id: int = -1


@dataclass(slots=True)
class Follower:
    """The node fetches from the epoch's leader."""

    epoch: int
    deadline_ms: int  # of the fetch timeout
    leader_id: int
    leader_endpoint: Endpoint
    voted: ReplicaKey | None = None
    has_fetched: bool = False  # a fetch succeeded in this epoch, and the leader was not suspected since
    suspect_at_ms: int = NEVER_MS  # when to suspect the leader of being dead
    is_suspect: bool = False  # the connection to the leader broke, and the leader has not responded since
    makes_way_until_ms: int = 0  # until then wait for a candidate that got this node's pre-vote
    download: SnapshotDownload | None = None
    update_voter_at_ms: int = 0  # when to compare this node's entry in the voter set next
    has_updated_voter: bool = False  # kraft.version 0: the update was sent to this leader


@dataclass(slots=True)
class Resigned:
    """The node led this epoch and has resigned; it may not vote in it."""

    epoch: int
    deadline_ms: int
    leader_id: int
    voted: ReplicaKey | None = None
    preferred: tuple[ReplicaKey, ...] = ()
    unacknowledged: set[int] = field(default_factory=set)  # voters that have not acknowledged EndQuorumEpoch


State = Unattached | Prospective | Candidate | Leader | Follower | Resigned


class Epoch(Enum):
    """How the epoch may change in a transition."""

    SAME = "same"
    HIGHER = "higher"
    ANY = "same or higher"
    NEXT = "plus one"


NEXT: Final[Mapping[type, Mapping[type, Epoch]]] = {
    Unattached: {
        Unattached: Epoch.HIGHER,  # an election elsewhere (a vote in the same epoch does not change the state)
        Prospective: Epoch.SAME,  # election timeout
        Follower: Epoch.ANY,  # leader found
    },
    Prospective: {
        Unattached: Epoch.ANY,  # an election elsewhere; or the pre-vote is lost and no leader known
        Candidate: Epoch.NEXT,  # pre-vote won
        Follower: Epoch.ANY,  # leader found; or the pre-vote is lost and the leader known
    },
    Candidate: {
        Unattached: Epoch.HIGHER,
        Prospective: Epoch.SAME,  # election timeout
        Leader: Epoch.SAME,  # votes of a majority
        Follower: Epoch.ANY,  # another candidate won
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
        Unattached: Epoch.HIGHER,  # an election elsewhere, or the election timeout, with epoch + 1
        Follower: Epoch.HIGHER,
    },
}
"""From, to, and how the epoch changes. Other transitions are bugs."""

VOTER_STATES: Final = (Prospective, Candidate, Leader)
"""States that only a voter may enter, or a node whose removal from the voters is not committed."""


def is_allowed(now: State, then: State) -> bool:
    """Return whether the table contains this transition with these epochs."""
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
    """Raise AssertionError unless `then` may follow `now`; within an epoch a known leader never changes."""
    if not is_allowed(now, then):
        raise AssertionError(
            f"{type(now).__name__} in epoch {now.epoch} cannot become {type(then).__name__} in {then.epoch}."
        )
    if then.epoch == now.epoch and now.leader_id >= 0 and then.leader_id not in {-1, now.leader_id}:
        raise AssertionError(f"Epoch {now.epoch} has leader {now.leader_id}, so {then.leader_id} cannot lead it.")


def election_state(state: State) -> ElectionState:
    """Return the durable part of this state."""
    voted = state.voted
    return ElectionState(
        state.epoch,
        state.leader_id,
        -1 if voted is None else voted.id,
        ZERO_UUID if voted is None else voted.directory_id,
    )
