"""What the parts of a raft node share: its state, the one way to change it, and what it sends.

The parts (election, leadership, replication, follower, ...) are functions over this object; `kafka_raft_client` calls them.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final
from uuid import UUID

from kraft_core.protocol.deadlines import NEVER_MS
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message
from kraft_core.raft.effects import Destination, Effect, Flush, Respond, SendRequest, StoreElection
from kraft_core.raft.internals.batch_accumulator import CompletedBatch
from kraft_core.raft.internals.control_state import ControlState
from kraft_core.raft.internals.leader_state import Leader
from kraft_core.raft.quorum_state import (
    VOTER_STATES,
    ElectionState,
    Follower,
    State,
    Unattached,
    check_move,
    election_state,
)
from kraft_core.raft.raft_config import RaftConfig
from kraft_core.raft.raft_log import OffsetAndEpoch, RaftLog
from kraft_core.raft.voter_set import Endpoint, ReplicaKey, VoterSet

log = logging.getLogger(__name__)

MAX_BACKOFF_MS: Final = 500
FOREIGN_IDS_MAX: Final = 16


class Kind(Enum):
    """What an outgoing request is for; at most one of a kind is in flight to a node."""

    VOTE = "vote"
    FETCH = "fetch"
    FETCH_SNAPSHOT = "fetch snapshot"
    BEGIN_QUORUM_EPOCH = "begin quorum epoch"
    END_QUORUM_EPOCH = "end quorum epoch"
    UPDATE_VOTER = "update voter"
    ADD_VOTER = "add voter"
    REMOVE_VOTER = "remove voter"
    API_VERSIONS = "api versions"


@dataclass(slots=True)
class Pending:
    """A request that is out. `epoch` is the sender's when it left."""

    kind: Kind
    node_id: int
    epoch: int
    request: Message
    correlation: int


class Handled(Enum):
    """What the rules common to all answers made of one."""

    DONE = "done"  # nothing more to do with it
    FAILED = "failed"  # nothing more to do; wait before asking this node again
    GO_ON = "go on"  # no error that concerns the epoch: the request's own handler is next


class RaftCore:
    """State of one node. `effects` is what the present step wants done, in order."""

    __slots__ = (
        "_failures",
        "_foreign_ids",
        "_is_voter",
        "_judged_voters",
        "_retry_at_ms",
        "attempt",
        "committed",
        "config",
        "control",
        "effects",
        "flush_in_flight",
        "high_watermark",
        "is_dirty",
        "log",
        "me",
        "new_records",
        "next_correlation",
        "on_deposed",
        "pending",
        "random",
        "shutdown_at_ms",
        "state",
        "stored",
        "wake_ms",
    )

    def __init__(self, config: RaftConfig, raft_log: RaftLog, random: Random, control: ControlState) -> None:
        self.config = config
        self.log = raft_log
        self.random = random
        self.control = control
        self.me: ReplicaKey = config.key
        self.state: State = Unattached(0, NEVER_MS)
        self.stored = ElectionState()
        self.high_watermark = -1
        self.effects: list[Effect] = []
        self.committed: list[CompletedBatch] = []  # of the leader's own, not yet told to the listeners
        self.flush_in_flight = False
        self.new_records = False  # the leader has records to write, to give to followers and to flush
        self.is_dirty = True  # something changed, so the state's timers and requests must be looked at
        self.wake_ms = 0
        self.attempt = 0  # elections since there was a leader
        self.shutdown_at_ms: int | None = None
        self.pending: dict[int, Pending] = {}
        self.next_correlation = 0
        self.on_deposed: Callable[[Leader], None] = lambda _: None
        self._retry_at_ms: dict[tuple[Kind, int], int] = {}
        self._judged_voters: VoterSet | None = None
        self._is_voter = False
        self._failures: dict[tuple[Kind, int], int] = {}
        self._foreign_ids: set[str] = set()

    # --- identity and log -------------------------------------------------------------------------------------------

    @property
    def is_voter(self) -> bool:
        """Whether this node is in its own voter set and may act on it."""
        voters = self.control.voters
        if voters is not self._judged_voters:
            self._judged_voters = voters
            self._is_voter = self.config.is_voter_capable and voters.is_voter(self.me)
        return self._is_voter

    @property
    def may_stand(self) -> bool:
        """Whether this node may stand for election: as a voter, or as one whose removal may not be committed.

        Such a node does not count itself. Without it a quorum can be stuck: the only log that is long enough to be
        elected may be that of a leader which had begun to remove itself (Raft dissertation, 4.2.2; Kafka lacks this).
        """
        control = self.control
        if self.is_voter:
            return True
        is_open = self.high_watermark <= control.voters_offset
        return is_open and self.config.is_voter_capable and control.voters_before.is_voter(self.me)

    def is_meant(self, voter_id: int, directory_id: UUID) -> bool:
        """Whether a request for this voter key is for this node; a negative id means whoever gets it."""
        return voter_id < 0 or (voter_id == self.me.id and directory_id in {ZERO_UUID, self.me.directory_id})

    @property
    def end(self) -> OffsetAndEpoch:
        """End of the own log, as votes compare it."""
        return OffsetAndEpoch(self.log.end_offset, self.log.last_epoch)

    @property
    def is_durable(self) -> bool:
        """Whether all of the log is on disk and no flush is under way, so that it may be truncated or acknowledged."""
        return not self.flush_in_flight and self.log.flushed_offset >= self.log.end_offset

    def leader_endpoint(self) -> Endpoint | None:
        """Where the known leader listens; the own endpoint when leading or resigned."""
        state = self.state
        if state.leader_id == self.me.id:
            return self.config.endpoints[0] if self.config.endpoints else None
        if isinstance(state, Follower):
            return state.leader_endpoint
        known = getattr(state, "leader_endpoint", None)
        return known if isinstance(known, Endpoint) else self.voter_endpoint(state.leader_id)

    def voter_endpoint(self, node_id: int) -> Endpoint | None:
        """Where the voter set says that this node listens."""
        return self.control.voters.endpoint(node_id, self.config.listener_name)

    # --- transitions ------------------------------------------------------------------------------------------------

    def move(self, then: State) -> None:
        """Enter a state: check it against the table, persist what must survive, end what belonged to the old one."""
        now = self.state
        check_move(now, then)
        assert self.may_stand or not isinstance(then, VOTER_STATES), f"{self.me} is no voter but would be {then}."
        self.state = then
        self.store()
        self.reset_connections()
        if isinstance(now, Leader):
            self.on_deposed(now)
        elif isinstance(now, Follower) and now.download is not None:
            now.download.sink.abort()
        log.info(
            "raft_state_changed",
            extra={"node_id": self.me.id, "state": type(then).__name__, "epoch": then.epoch, "leader": then.leader_id},
        )

    def store(self) -> None:
        """Have epoch, vote and leader written if they differ from what is on disk."""
        wanted = election_state(self.state)
        if wanted != self.stored:
            assert wanted.leader_epoch >= self.stored.leader_epoch, "The epoch on disk never goes back."
            self.stored = wanted
            self.effects.append(StoreElection(wanted, self.control.kraft_version))

    def become_unattached(self, epoch: int, now_ms: int, leader_id: int = -1) -> None:
        """Enter Unattached. A timeout that runs goes on; a vote given in the same epoch stays."""
        state = self.state
        deadline_ms = NEVER_MS
        if self.may_stand:
            deadline_ms = now_ms + self.election_timeout_ms()
            if not isinstance(state, Leader | Follower) and now_ms < state.deadline_ms < NEVER_MS:
                deadline_ms = state.deadline_ms
        voted = state.voted if epoch == state.epoch else None
        self.move(Unattached(epoch, deadline_ms, leader_id, voted))

    def become_follower(self, epoch: int, leader_id: int, endpoint: Endpoint, now_ms: int) -> None:
        """Enter Follower; a vote given in the same epoch stays."""
        voted = self.state.voted if epoch == self.state.epoch else None
        self.move(
            Follower(
                epoch,
                now_ms + self.config.fetch_timeout_ms,
                leader_id,
                endpoint,
                voted,
                update_voter_at_ms=now_ms + self.config.fetch_timeout_ms,
            )
        )

    def election_timeout_ms(self) -> int:
        """Draw how long to wait for an election's outcome: from [t, 2t), t a tenth of Kafka's at first.

        Pre-vote makes an early election harmless, so the first attempts are quick; each one without a leader doubles
        the time until it is Kafka's. Source: QuorumState.randomElectionTimeoutMs for the upper bound.
        """
        longest = self.config.election_timeout_ms
        base = min(longest, max(longest // 10, 1) << min(self.attempt, 16))
        return base + self.random.randrange(max(base, 1))

    def observe(self, leader_id: int, epoch: int, endpoint: Endpoint | None, now_ms: int) -> bool:
        """Take up what a peer says about epoch and leader; False when it contradicts what is known."""
        state = self.state
        if endpoint is None and leader_id >= 0:
            endpoint = self.voter_endpoint(leader_id)
        assert epoch >= state.epoch, f"Epoch {epoch} is over, and was not refused."
        if leader_id == self.me.id and not (epoch == state.epoch and state.leader_id == leader_id):
            log.warning("peer_says_i_lead", extra={"node_id": self.me.id, "epoch": epoch, "own_epoch": state.epoch})
            return False
        if epoch == state.epoch and leader_id >= 0 and state.leader_id >= 0 and leader_id != state.leader_id:
            log.error(
                "two_leaders_claimed",
                extra={"node_id": self.me.id, "epoch": epoch, "known": state.leader_id, "claimed": leader_id},
            )
            return False
        if epoch > state.epoch:
            if leader_id >= 0 and endpoint is not None:
                self.become_follower(epoch, leader_id, endpoint, now_ms)
            else:
                self.become_unattached(epoch, now_ms)
        elif leader_id >= 0 and endpoint is not None and self.needs_leader:
            self.become_follower(epoch, leader_id, endpoint, now_ms)
        return True

    def leader_answered(self, state: Follower, now_ms: int) -> None:
        """The leader lives: give it the fetch timeout anew."""
        state.has_fetched = True
        state.suspect_at_ms = NEVER_MS
        state.is_suspect = False
        state.deadline_ms = now_ms + self.config.fetch_timeout_ms
        self.attempt = 0

    @property
    def needs_leader(self) -> bool:
        """Whether naming the leader of the present epoch would make this node follow it."""
        state = self.state
        return state.leader_id < 0 or isinstance(state, Unattached)

    def handle_common(self, error: int, leader_id: int, epoch: int, endpoint: Endpoint | None, now_ms: int) -> Handled:
        """Apply the rules that all answers share. Source: KafkaRaftClient.maybeHandleCommonResponse."""
        if epoch < self.state.epoch or error == ErrorCode.UNKNOWN_LEADER_EPOCH:
            return Handled.FAILED
        if (
            epoch > self.state.epoch
            or error in {ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER}
            or (leader_id >= 0 and self.needs_leader)
        ):
            before = self.state
            if not self.observe(leader_id, epoch, endpoint, now_ms):
                return Handled.FAILED
            if error == ErrorCode.NONE and epoch == self.state.epoch and before.epoch == epoch:
                return Handled.GO_ON
            return Handled.DONE if self.state is not before else Handled.FAILED
        if error in {ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.INVALID_VOTER_KEY, ErrorCode.INVALID_REQUEST}:
            return Handled.FAILED
        if leader_id >= 0 and self.state.leader_id >= 0 and leader_id != self.state.leader_id:
            return Handled.FAILED
        return Handled.GO_ON

    # --- requests of our own ----------------------------------------------------------------------------------------

    def can_send(self, kind: Kind, node_id: int, now_ms: int) -> bool:
        """Whether no request of this kind is out to the node and none failed a moment ago."""
        retry_at_ms = self._retry_at_ms.get((kind, node_id), 0)
        if retry_at_ms > now_ms:
            self.wake_at(retry_at_ms)
            return False
        return all(each.node_id != node_id or each.kind is not kind for each in self.pending.values())

    def is_backing_off(self, kind: Kind, node_id: int, now_ms: int) -> bool:
        """Whether the last request of this kind to the node failed a moment ago."""
        return self._retry_at_ms.get((kind, node_id), 0) > now_ms

    def send(self, kind: Kind, node_id: int, endpoint: Endpoint, message: Message, min_version: int = 0) -> None:
        """Send a request; its end comes back under its correlation."""
        self.next_correlation += 1
        self.pending[self.next_correlation] = Pending(kind, node_id, self.state.epoch, message, self.next_correlation)
        destination = Destination(node_id, endpoint.host, endpoint.port)
        self.effects.append(
            SendRequest(self.next_correlation, destination, message, self.config.request_timeout_ms, min_version)
        )

    def is_foreign(self, cluster_id: str | None) -> bool:
        """Say whether a request comes from another cluster; the first one of each cluster is an ERROR with both ids."""
        if cluster_id is None or cluster_id == self.config.cluster_id:
            return False
        if cluster_id not in self._foreign_ids and len(self._foreign_ids) < FOREIGN_IDS_MAX:
            self._foreign_ids.add(cluster_id)
            facts = {"node_id": self.me.id, "cluster_id": self.config.cluster_id, "foreign_cluster_id": cluster_id[:64]}
            log.error("foreign_cluster", extra=facts)
        return True

    def refused(self, pending: Pending, error_code: int, now_ms: int) -> None:
        """Back off after an answer that is no good. One for the whole request is said once: a right or the cluster's id.

        Kafka's node ends when it has no right to take part; this one goes on asking, since rights may be given later.
        """
        if error_code != ErrorCode.NONE and (pending.kind, pending.node_id) not in self._failures:
            facts = {"node_id": self.me.id, "to": pending.node_id, "error": ErrorCode(error_code).name}
            level = logging.WARNING
            if error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:  # the node that refuses it logs both ids
                level, facts["cluster_id"] = logging.ERROR, self.config.cluster_id
            log.log(level, "raft_request_refused", extra={"request": pending.kind.value, **facts})
        self.back_off(pending.kind, pending.node_id, now_ms)

    def back_off(self, kind: Kind, node_id: int, now_ms: int) -> None:
        """Wait before the next request of this kind to the node, twice as long after each failure, up to 500 ms."""
        key = (kind, node_id)
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay_ms = min(self.config.retry_backoff_ms << min(failures - 1, 10), MAX_BACKOFF_MS)
        self._retry_at_ms[key] = now_ms + delay_ms

    def succeeded(self, kind: Kind, node_id: int) -> None:
        """Forget earlier failures."""
        if self._failures:
            self._failures.pop((kind, node_id), None)
            self._retry_at_ms.pop((kind, node_id), None)

    def is_out(self, *kinds: Kind) -> bool:
        """Whether a request of one of these kinds is in flight to anybody."""
        return any(each.kind in kinds for each in self.pending.values())

    def reset_connections(self) -> None:
        """Forget what is out (late answers are dropped) and earlier failures: a new state, a new start."""
        self.pending.clear()
        self._retry_at_ms.clear()
        self._failures.clear()
        self.is_dirty = True

    # --- effects ----------------------------------------------------------------------------------------------------

    def respond(self, request_id: int, message: Message) -> None:
        """Answer a request."""
        self.effects.append(Respond(request_id, message))

    def flush(self) -> None:
        """Have the log flushed, unless a flush is under way: then what is new shares the next one."""
        if not self.flush_in_flight and self.log.flushed_offset < self.log.end_offset:
            self.flush_in_flight = True
            self.effects.append(Flush())

    def wake_at(self, at_ms: int) -> None:
        """Be woken by a `Timer` at this time at the latest."""
        self.wake_ms = min(self.wake_ms, at_ms)
