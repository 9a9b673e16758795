"""The state that the parts of a raft node share, its transitions, and the requests that it sends.

The parts (election, leadership, replication, follower, …) are functions over this object, called by
`kafka_raft_client`.
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
from kraft_core.raft.internals.kraft_control_record_state_machine import KRaftControlRecordStateMachine
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
    """The kinds of outgoing requests; at most one of a kind is in flight to a node."""

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
    """A request in flight. `epoch` is this node's when it was sent."""

    kind: Kind
    node_id: int
    epoch: int
    request: Message
    correlation: int


class Handled(Enum):
    """The result of the rules that all responses share."""

    DONE = "done"  # nothing more to do
    FAILED = "failed"  # nothing more to do; back off before the next request to this node
    CONTINUE = "continue"  # no error that concerns the epoch: the response's own handler is next


class RaftCore:
    """The state of one node. `effects` are those of the current step, in order."""

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

    def __init__(
        self, config: RaftConfig, raft_log: RaftLog, random: Random, control: KRaftControlRecordStateMachine
    ) -> None:
        self.config = config
        self.log = raft_log
        self.random = random
        self.control = control
        self.me: ReplicaKey = config.key
        self.state: State = Unattached(0, NEVER_MS)
        self.stored = ElectionState()
        self.high_watermark = -1
        self.effects: list[Effect] = []
        self.committed: list[CompletedBatch] = []  # appended by this node, not reported to the listeners yet
        self.flush_in_flight = False
        self.new_records = False  # the leader has records to write, to send to followers and to flush
        self.is_dirty = True  # something changed, so the state must be polled
        self.wake_ms = 0
        self.attempt = 0  # elections since the last leader
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
        """Whether this node is capable of voting and in its own voter set."""
        voters = self.control.voters
        if voters is not self._judged_voters:
            self._judged_voters = voters
            self._is_voter = self.config.is_voter_capable and voters.is_voter(self.me)
        return self._is_voter

    @property
    def may_stand(self) -> bool:
        """Whether this node may stand for election: as a voter, or if its removal may not be committed.

        A node in removal does not count itself. Without this rule a quorum can be stuck: the only log that is up to
        date may be that of a leader that has appended its own removal (Raft dissertation, 4.2.2; Kafka lacks this).
        """
        control = self.control
        if self.is_voter:
            return True
        is_open = self.high_watermark <= control.voters_offset
        return is_open and self.config.is_voter_capable and control.voters_before.is_voter(self.me)

    def is_meant(self, voter_id: int, directory_id: UUID) -> bool:
        """Return whether a request for this voter key is for this node; a negative id means any node."""
        return voter_id < 0 or (voter_id == self.me.id and directory_id in {ZERO_UUID, self.me.directory_id})

    @property
    def end(self) -> OffsetAndEpoch:
        """End offset and epoch of this node's log, as votes compare them."""
        return OffsetAndEpoch(self.log.end_offset, self.log.last_epoch)

    @property
    def is_durable(self) -> bool:
        """Whether the whole log is on disk and no flush is in flight, so that it may be truncated or acknowledged."""
        return not self.flush_in_flight and self.log.flushed_offset >= self.log.end_offset

    def leader_endpoint(self) -> Endpoint | None:
        """Return the known leader's endpoint; this node's own when it leads or has resigned."""
        state = self.state
        if state.leader_id == self.me.id:
            return self.config.endpoints[0] if self.config.endpoints else None
        if isinstance(state, Follower):
            return state.leader_endpoint
        known = getattr(state, "leader_endpoint", None)
        return known if isinstance(known, Endpoint) else self.voter_endpoint(state.leader_id)

    def voter_endpoint(self, node_id: int) -> Endpoint | None:
        """Return the endpoint of a voter from the voter set."""
        return self.control.voters.endpoint(node_id, self.config.listener_name)

    # --- transitions ------------------------------------------------------------------------------------------------

    def move(self, then: State) -> None:
        """Change the state: check the transition, persist the durable part, end the old state's pending work."""
        now = self.state
        check_move(now, then)
        assert self.may_stand or not isinstance(then, VOTER_STATES), f"{self.me} is not a voter: it cannot be {then}."
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
        """Write epoch, vote and leader if they differ from those on disk."""
        wanted = election_state(self.state)
        if wanted != self.stored:
            assert wanted.leader_epoch >= self.stored.leader_epoch, "The epoch on disk never decreases."
            self.stored = wanted
            self.effects.append(StoreElection(wanted, self.control.kraft_version))

    def become_unattached(self, epoch: int, now_ms: int, leader_id: int = -1) -> None:
        """Become Unattached, keeping a running election timeout, and the vote within the same epoch."""
        state = self.state
        deadline_ms = NEVER_MS
        if self.may_stand:
            deadline_ms = now_ms + self.election_timeout_ms()
            if not isinstance(state, Leader | Follower) and now_ms < state.deadline_ms < NEVER_MS:
                deadline_ms = state.deadline_ms
        voted = state.voted if epoch == state.epoch else None
        self.move(Unattached(epoch, deadline_ms, leader_id, voted))

    def become_follower(self, epoch: int, leader_id: int, endpoint: Endpoint, now_ms: int) -> None:
        """Become Follower, keeping the vote within the same epoch."""
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
        """Draw an election timeout from [t, 2t); t is a tenth of Kafka's at first and doubles up to Kafka's.

        Pre-vote makes an early election harmless, so the first attempts are quick; each one without a leader doubles t.
        Source: QuorumState.randomElectionTimeoutMs for the upper bound.
        """
        longest = self.config.election_timeout_ms
        base = min(longest, max(longest // 10, 1) << min(self.attempt, 16))
        return base + self.random.randrange(max(base, 1))

    def observe(self, leader_id: int, epoch: int, endpoint: Endpoint | None, now_ms: int) -> bool:
        """Adopt epoch and leader from a peer. Return False when they contradict the known leader."""
        state = self.state
        if endpoint is None and leader_id >= 0:
            endpoint = self.voter_endpoint(leader_id)
        assert epoch >= state.epoch, f"Epoch {epoch} is over and should have been rejected."
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
        """Restart the fetch timeout after a response of the leader."""
        state.has_fetched = True
        state.suspect_at_ms = NEVER_MS
        state.is_suspect = False
        state.deadline_ms = now_ms + self.config.fetch_timeout_ms
        self.attempt = 0

    @property
    def needs_leader(self) -> bool:
        """Whether this node would follow the current epoch's leader if it knew it."""
        state = self.state
        return state.leader_id < 0 or isinstance(state, Unattached)

    def handle_common(self, error: int, leader_id: int, epoch: int, endpoint: Endpoint | None, now_ms: int) -> Handled:
        """Apply the rules that all responses share. Source: KafkaRaftClient.maybeHandleCommonResponse."""
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
                return Handled.CONTINUE
            return Handled.DONE if self.state is not before else Handled.FAILED
        if error in {ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.INVALID_VOTER_KEY, ErrorCode.INVALID_REQUEST}:
            return Handled.FAILED
        if leader_id >= 0 and self.state.leader_id >= 0 and leader_id != self.state.leader_id:
            return Handled.FAILED
        return Handled.CONTINUE

    # --- outgoing requests ------------------------------------------------------------------------------------------

    def can_send(self, kind: Kind, node_id: int, now_ms: int) -> bool:
        """Return whether no request of this kind to the node is in flight or backing off."""
        retry_at_ms = self._retry_at_ms.get((kind, node_id), 0)
        if retry_at_ms > now_ms:
            self.wake_at(retry_at_ms)
            return False
        return all(each.node_id != node_id or each.kind is not kind for each in self.pending.values())

    def is_backing_off(self, kind: Kind, node_id: int, now_ms: int) -> bool:
        """Return whether requests of this kind to the node are backing off after a failure."""
        return self._retry_at_ms.get((kind, node_id), 0) > now_ms

    def send(self, kind: Kind, node_id: int, endpoint: Endpoint, message: Message, min_version: int = 0) -> None:
        """Send a request; its response or failure has the same correlation."""
        self.next_correlation += 1
        self.pending[self.next_correlation] = Pending(kind, node_id, self.state.epoch, message, self.next_correlation)
        destination = Destination(node_id, endpoint.host, endpoint.port)
        self.effects.append(
            SendRequest(self.next_correlation, destination, message, self.config.request_timeout_ms, min_version)
        )

    def is_foreign(self, cluster_id: str | None) -> bool:
        """Return whether a request comes from another cluster; log both ids for the first one of each cluster."""
        if cluster_id is None or cluster_id == self.config.cluster_id:
            return False
        if cluster_id not in self._foreign_ids and len(self._foreign_ids) < FOREIGN_IDS_MAX:
            self._foreign_ids.add(cluster_id)
            facts = {"node_id": self.me.id, "cluster_id": self.config.cluster_id, "foreign_cluster_id": cluster_id[:64]}
            log.error("foreign_cluster", extra=facts)
        return True

    def refused(self, pending: Pending, error_code: int, now_ms: int) -> None:
        """Back off after an error response. A top-level error (authorization, cluster id) is logged once.

        Kafka's node stops when it is not authorized; this one retries, since an operator may add the ACL later.
        """
        if error_code != ErrorCode.NONE and (pending.kind, pending.node_id) not in self._failures:
            facts = {"node_id": self.me.id, "to": pending.node_id, "error": ErrorCode(error_code).name}
            level = logging.WARNING
            if error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:  # the node that rejects it logs both ids
                level, facts["cluster_id"] = logging.ERROR, self.config.cluster_id
            log.log(level, "raft_request_refused", extra={"request": pending.kind.value, **facts})
        self.back_off(pending.kind, pending.node_id, now_ms)

    def back_off(self, kind: Kind, node_id: int, now_ms: int) -> None:
        """Delay the next request of this kind to the node; the delay doubles with each failure, up to 500 ms."""
        key = (kind, node_id)
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay_ms = min(self.config.retry_backoff_ms << min(failures - 1, 10), MAX_BACKOFF_MS)
        self._retry_at_ms[key] = now_ms + delay_ms

    def succeeded(self, kind: Kind, node_id: int) -> None:
        """Reset the backoff."""
        if self._failures:
            self._failures.pop((kind, node_id), None)
            self._retry_at_ms.pop((kind, node_id), None)

    def is_out(self, *kinds: Kind) -> bool:
        """Return whether a request of one of these kinds is in flight to any node."""
        return any(each.kind in kinds for each in self.pending.values())

    def reset_connections(self) -> None:
        """Forget requests in flight (their responses are dropped) and backoffs, on entering a new state."""
        self.pending.clear()
        self._retry_at_ms.clear()
        self._failures.clear()
        self.is_dirty = True

    # --- effects ----------------------------------------------------------------------------------------------------

    def respond(self, request_id: int, message: Message) -> None:
        """Answer a request."""
        self.effects.append(Respond(request_id, message))

    def flush(self) -> None:
        """Request a flush, unless one is in flight: then new records share the next one."""
        if not self.flush_in_flight and self.log.flushed_offset < self.log.end_offset:
            self.flush_in_flight = True
            self.effects.append(Flush())

    def wake_at(self, at_ms: int) -> None:
        """Request a `Timer` event at this time or earlier."""
        self.wake_ms = min(self.wake_ms, at_ms)
