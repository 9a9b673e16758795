"""The raft node: handles one event at a time and returns the effects.

    step(event) ── request ──> election.handle_vote, leadership.handle_begin/handle_end, replication.handle_fetch,
                │              snapshot_transfer.handle_fetch_snapshot, describe_quorum, reconfiguration.handle_*
                ├─ answer ───> on_*_response of the same modules
                └─ then ─────> poll: what the current state does without an event (timeouts, requests that are due)

Source: KafkaRaftClient of Kafka 4.3.1, split by subject; KIP-595, KIP-630, KIP-853, KIP-996, KIP-1166, KIP-1186.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from kraft_core.protocol.deadlines import NEVER_MS
from kraft_core.protocol.errors import ErrorCode, NotController
from kraft_core.protocol.messages import (
    AddRaftVoterRequest,
    ApiVersionsResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
    VoteRequest,
    VoteResponse,
)
from kraft_core.protocol.wire import Message
from kraft_core.raft.effects import Effect, Stopped
from kraft_core.raft.events import (
    Event,
    FailureReason,
    Flushed,
    PeerDisconnected,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    Shutdown,
    SnapshotCreated,
)
from kraft_core.raft.internals import describe_quorum, election, follower, leadership, reconfiguration, replication
from kraft_core.raft.internals.initial_state import initial_state
from kraft_core.raft.internals.kafka_raft_metrics import KafkaRaftMetrics, MetricValue
from kraft_core.raft.internals.kraft_control_record_state_machine import KRaftControlRecordStateMachine
from kraft_core.raft.internals.leader_state import Leader
from kraft_core.raft.internals.listener_context import ListenerContexts, leader_and_epoch
from kraft_core.raft.internals.raft_core import Kind, Pending, RaftCore
from kraft_core.raft.leader_and_epoch import LeaderAndEpoch
from kraft_core.raft.quorum_state import (
    Candidate,
    ElectionState,
    Follower,
    Prospective,
    Resigned,
    State,
    Unattached,
)
from kraft_core.raft.raft_client import Listener
from kraft_core.raft.raft_config import RaftConfig
from kraft_core.raft.raft_log import OffsetAndEpoch, RaftLog
from kraft_core.raft.snapshot import transfer as snapshot_transfer
from kraft_core.raft.snapshot.writer import SnapshotWriter, check_new_snapshot_id
from kraft_core.raft.voter_set import Endpoint, VoterSet

REQUEST_HANDLERS: Final[dict[type[Message], Callable[[RaftCore, RequestReceived, int], None]]] = {
    FetchRequest: replication.handle_fetch,
    VoteRequest: election.handle_vote,
    BeginQuorumEpochRequest: leadership.handle_begin,
    EndQuorumEpochRequest: leadership.handle_end,
    FetchSnapshotRequest: snapshot_transfer.handle_fetch_snapshot,
    DescribeQuorumRequest: describe_quorum.handle_describe_quorum,
    AddRaftVoterRequest: reconfiguration.handle_add,
    RemoveRaftVoterRequest: reconfiguration.handle_remove,
    UpdateRaftVoterRequest: reconfiguration.handle_update,
}
"""The handler of each request that raft answers."""

MAX_POLLS: Final = 20
"""Upper bound on state changes in one step; more are an endless loop."""


class KafkaRaftClient:
    """One node of the quorum with its log.

    Times are ms since the Unix epoch from a clock that never goes back; record batches and DescribeQuorum contain them.
    """

    __slots__ = ("_core", "_is_stopped", "_listeners", "_metrics", "_now_ms")

    def __init__(
        self, config: RaftConfig, log: RaftLog, election: ElectionState | None, random: Random, now_ms: int
    ) -> None:
        control = KRaftControlRecordStateMachine(config.static_voters)
        control.load(log)
        self._core = RaftCore(config, log, random, control)
        self._core.on_deposed = self._on_deposed
        self._is_stopped = False
        self._listeners = ListenerContexts(self._core)
        self._metrics = KafkaRaftMetrics(log.end_offset)
        self._now_ms = now_ms
        stored = election or ElectionState()
        self._core.stored = stored
        self._core.state = initial_state(self._core, stored, now_ms)
        snapshot_id = log.latest_snapshot_id()
        if snapshot_id is not None and snapshot_id.offset > 0:
            assert snapshot_id.offset <= log.end_offset, f"Snapshot {snapshot_id} is beyond the log's end."
            self._core.high_watermark = snapshot_id.offset  # a snapshot holds committed records only

    def start(self, now_ms: int) -> None:
        """Start the node; the next `take_effects` or `step` returns the effects."""
        self._core.store()
        self._poll(now_ms)

    # --- events -----------------------------------------------------------------------------------------------------

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event, call the listeners, and return all effects that are due."""
        self.handle(event, now_ms)
        return self.take_effects(now_ms)

    def handle(self, event: Event, now_ms: int) -> None:
        """Handle one of several events; the next `take_effects` returns their effects."""
        core = self._core
        match event:
            case RequestReceived(message=message):
                REQUEST_HANDLERS[type(message)](core, event, now_ms)
            case ResponseReceived(correlation=correlation, message=message):
                pending = core.pending.pop(correlation, None)
                if pending is not None:
                    self._on_response(pending, message, now_ms)
            case RequestFailed(correlation=correlation, reason=reason):
                pending = core.pending.pop(correlation, None)
                if pending is not None:
                    self._on_failure(pending, reason, now_ms)
            case Flushed():
                self._on_flushed(now_ms)
            case PeerDisconnected(node_id=node_id):
                if node_id == core.state.leader_id:
                    follower.suspect_leader(core, now_ms)
            case SnapshotCreated(id=snapshot_id):
                core.control.forget_before(snapshot_id.offset)
            case Shutdown(timeout_ms=timeout_ms):
                self.shutdown(timeout_ms, now_ms)
            case _:
                pass
        if core.is_dirty or now_ms >= core.wake_ms:
            self._poll(now_ms)

    def take_effects(self, now_ms: int) -> list[Effect]:
        """Write prepared records, call the listeners with commits and leader changes, return the effects that are due.

        A listener gets at most one reader from the log per call; while it has more to read, `next_deadline_ms` is now.
        """
        core = self._core
        self._now_ms = now_ms
        reads_log = True
        while True:
            while core.new_records or core.is_dirty or now_ms >= core.wake_ms:
                if core.new_records:
                    self._on_new_records(now_ms)
                if core.is_dirty or now_ms >= core.wake_ms:
                    self._poll(now_ms)
            for batch in core.committed:
                self._metrics.committed(batch, now_ms)
            if not self._listeners.poll(reads_log=reads_log):
                break
            reads_log = False
        self._metrics.after_step(core, now_ms)
        effects, core.effects = core.effects, []
        return effects

    def next_deadline_ms(self) -> int:
        """Return the latest time for the next `Timer` event."""
        return self._now_ms if self._listeners.is_due else self._core.wake_ms

    def _on_new_records(self, now_ms: int) -> None:
        core = self._core
        if isinstance(core.state, Leader):
            leadership.write_prepared(core, core.state, now_ms)
            replication.on_append(core, core.state)
        else:  # the leadership was lost in the same step
            core.new_records = False
            core.flush()

    def _on_response(self, pending: Pending, message: Message, now_ms: int) -> None:
        core = self._core
        core.is_dirty = True
        is_good = True
        match message:
            case FetchResponse():
                is_good = follower.on_fetch_response(core, pending, message, now_ms)
            case VoteResponse():
                is_good = election.on_vote_response(core, pending, message, now_ms)
            case BeginQuorumEpochResponse():
                is_good = leadership.on_begin_response(core, pending, message, now_ms)
            case EndQuorumEpochResponse():
                is_good = leadership.on_end_response(core, pending.node_id, message, now_ms)
            case FetchSnapshotResponse():
                is_good = snapshot_transfer.on_fetch_snapshot_response(core, message, now_ms)
            case UpdateRaftVoterResponse():
                is_good = reconfiguration.on_update_response(core, message, now_ms)
            case ApiVersionsResponse():
                is_good = reconfiguration.on_api_versions(core, pending.node_id, message, now_ms)
            case _:  # AddRaftVoter and RemoveRaftVoter: the result is in the log
                pass
        if is_good:
            core.succeeded(pending.kind, pending.node_id)
        else:
            core.refused(pending, getattr(message, "error_code", ErrorCode.NONE), now_ms)

    def _on_failure(self, pending: Pending, reason: FailureReason, now_ms: int) -> None:
        core = self._core
        core.is_dirty = True
        core.back_off(pending.kind, pending.node_id, now_ms)
        if pending.kind is Kind.VOTE:
            election.on_vote_failed(core, reason, now_ms)
        elif pending.kind is Kind.API_VERSIONS:
            reconfiguration.on_api_versions(core, pending.node_id, None, now_ms)
        elif pending.kind in {Kind.FETCH, Kind.FETCH_SNAPSHOT} and pending.node_id == core.state.leader_id:
            follower.suspect_leader(core, now_ms)

    def _on_flushed(self, now_ms: int) -> None:
        core = self._core
        core.flush_in_flight = False
        core.is_dirty = True
        core.flush()
        state = core.state
        if isinstance(state, Leader):
            replication.on_flushed(core, state)
        elif isinstance(state, Follower):
            state.deadline_ms = max(state.deadline_ms, now_ms + core.config.fetch_timeout_ms)

    def _on_deposed(self, leader: Leader) -> None:
        replication.fail_fetches(self._core, leader)
        reconfiguration.finish(self._core, leader, ErrorCode.NOT_LEADER_OR_FOLLOWER, "Leadership was lost.")

    # --- polling the state --------------------------------------------------------------------------------------------

    def _poll(self, now_ms: int) -> None:
        core = self._core
        for _ in range(MAX_POLLS):
            core.is_dirty = False
            core.wake_ms = NEVER_MS
            before = core.state
            self._poll_state(now_ms)
            self._check_stopped(now_ms)
            if core.state is before and not core.is_dirty:
                assert core.wake_ms > now_ms, f"{before} wants to wake at {core.wake_ms}, which is not after {now_ms}."
                return
        raise AssertionError(f"Node {core.me.id} changed state {MAX_POLLS} times in one step, last to {core.state}.")

    def _poll_state(self, now_ms: int) -> None:
        core = self._core
        if core.shutdown_at_ms is not None and not isinstance(core.state, Leader | Resigned):
            return  # start nothing new during a shutdown
        match core.state:
            case Leader() as leader:
                replication.expire_fetches(core, leader, now_ms)
                reconfiguration.poll_leader(core, leader, now_ms)
                if core.state is leader:
                    leadership.poll_leader(core, leader, now_ms)
            case Follower() as state:
                follower.poll_follower(core, state, now_ms)
                if core.state is state:
                    reconfiguration.poll_follower(core, state, now_ms)
            case Unattached() as state:
                follower.poll_unattached(core, state, now_ms)
            case Prospective() as state:
                election.poll_prospective(core, state, now_ms)
            case Candidate() as state:
                election.poll_candidate(core, state, now_ms)
            case Resigned() as state:
                leadership.poll_resigned(core, state, now_ms)

    def _check_stopped(self, now_ms: int) -> None:
        """Stop at once in a shutdown; a leader that hands over first waits for a new epoch, until the timeout."""
        core = self._core
        if core.shutdown_at_ms is None or self._is_stopped:
            return
        hands_over = isinstance(core.state, Leader | Resigned) and len(core.control.voters) > 1
        if hands_over and now_ms < core.shutdown_at_ms:
            core.wake_at(core.shutdown_at_ms)
        elif core.is_durable or now_ms >= core.shutdown_at_ms:
            self._is_stopped = True
            core.effects.append(Stopped())
        else:
            core.flush()
            core.wake_at(core.shutdown_at_ms)

    # --- calls of the state machine -----------------------------------------------------------------------------------

    def register(self, listener: Listener) -> None:
        """Register a listener and serve it from the newest snapshot or the log's start. A second time does nothing."""
        self._listeners.register(listener)

    def unregister(self, listener: Listener) -> None:
        """Stop calling a listener; does nothing if it is not registered."""
        self._listeners.unregister(listener)

    def prepare_append(self, epoch: int, values: Sequence[bytes]) -> int:
        """Accept records to be committed together; return the offset that the last one will have.

        They are written with `schedule_prepared_append` or before the next control record. Raises NotController when
        this node is not the leader or `epoch` is over, and otherwise as BatchAccumulator.append; then no record is
        accepted.
        """
        return self._leader("Append").accumulator.append(epoch, values)

    def schedule_prepared_append(self) -> None:
        """Write all prepared records, send them to the followers and flush them, with the next `take_effects`.

        Raises NotController when this node is not the leader.
        """
        self._leader("Flush")
        self._core.new_records = True

    def _leader(self, what: str) -> Leader:
        core = self._core
        leader = core.state
        if not isinstance(leader, Leader) or core.shutdown_at_ms is not None:
            raise NotController(f"{what} failed because node {core.me.id} is not the current leader.")
        return leader

    def confirm_leadership(self, epoch: int) -> int:
        """Ask the quorum whether this node still leads `epoch`; return the number of the round, see `confirmed_round`.

        Once the round is confirmed, this node's committed log contains everything that any leader had acknowledged
        before this call. A round fails only with the end of the epoch. Raises NotController when this node is not the
        leader or `epoch` is over.
        """
        leader = self._leader("Reading")
        if epoch != leader.epoch:
            raise NotController(f"Reading failed because epoch {epoch} is over.")
        self._core.is_dirty = True
        return leader.rounds.request()

    @property
    def confirmed_round(self) -> int:
        """The newest round of this epoch that a majority has confirmed; 0: none, or this node is not the leader."""
        state = self._core.state
        return state.rounds.confirmed if isinstance(state, Leader) else 0

    def resign(self, epoch: int) -> None:
        """Resign from `epoch` with the next `take_effects`; does nothing when that epoch is over.

        Raises ValueError for a negative or future epoch, or one that this node does not lead.
        """
        core = self._core
        state = core.state
        if not 0 <= epoch <= state.epoch:
            raise ValueError(f"Cannot resign from epoch {epoch}: the current epoch is {state.epoch}.")
        if epoch < state.epoch or isinstance(state, Resigned):
            return
        if state.leader_id != core.me.id:
            raise ValueError(f"Cannot resign from epoch {epoch}: node {core.me.id} is not the leader.")
        assert isinstance(state, Leader), state
        state.is_resign_requested = True
        core.is_dirty = True

    def create_snapshot(self, snapshot_id: OffsetAndEpoch, last_contained_log_timestamp: int) -> SnapshotWriter | None:
        """Start a snapshot of the committed state at `snapshot_id`; None when it exists or the log starts above it.

        The caller reports its completion with `SnapshotCreated`. `last_contained_log_timestamp` is the time of the last
        record in it, in ms. Raises ValueError as `check_new_snapshot_id`.
        """
        core = self._core
        if not check_new_snapshot_id(core.log, core.high_watermark, snapshot_id):
            return None
        return SnapshotWriter(
            core.log.begin_snapshot,
            snapshot_id,
            last_contained_log_timestamp,
            core.control.kraft_version_at(snapshot_id.offset),
            core.control.voters_at(snapshot_id.offset),
        )

    def shutdown(self, timeout_ms: int, now_ms: int) -> None:
        """Shut down within `timeout_ms`; the effect `Stopped` follows. The listeners are called at once."""
        core = self._core
        core.shutdown_at_ms = now_ms + timeout_ms
        core.is_dirty = True
        self._listeners.begin_shutdown()
        if isinstance(core.state, Leader):
            leadership.resign(core, core.state, now_ms)

    def upgrade_kraft_version(self, level: int, now_ms: int, *, validate_only: bool = False) -> None:
        """Upgrade to kraft.version 1. Raises KafkaError as `reconfiguration.upgrade_kraft_version`."""
        reconfiguration.upgrade_kraft_version(self._core, level, now_ms, validate_only=validate_only)

    # --- state ------------------------------------------------------------------------------------------------------

    @property
    def high_watermark(self) -> int:
        """All records below it are committed; it never decreases while the process runs. -1: unknown."""
        return self._core.high_watermark

    @property
    def state(self) -> State:
        """The current state, for reading only."""
        return self._core.state

    @property
    def is_leader(self) -> bool:
        """Whether this node leads the epoch."""
        return isinstance(self._core.state, Leader)

    @property
    def epoch(self) -> int:
        """The newest known epoch."""
        return self._core.state.epoch

    @property
    def leader_id(self) -> int:
        """Node id of the epoch's leader; -1 when unknown or when this node has resigned from the epoch."""
        return leader_and_epoch(self._core).leader_id

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        """The newest known epoch and its leader."""
        return leader_and_epoch(self._core)

    @property
    def log_end_offset(self) -> int:
        """Offset of the next record in the log."""
        return self._core.log.end_offset

    @property
    def next_append_offset(self) -> int:
        """On the leader the offset of the next prepared record, elsewhere the log's end."""
        state = self._core.state
        return state.accumulator.next_offset if isinstance(state, Leader) else self._core.log.end_offset

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The newest whole snapshot."""
        return self._core.log.latest_snapshot_id()

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """The leader's endpoint; None while it is unknown."""
        return self._core.leader_endpoint() if self.leader_id >= 0 else None

    @property
    def epoch_start_offset(self) -> int:
        """Offset of this epoch's LeaderChange record on the leader, else -1."""
        state = self._core.state
        return state.epoch_start_offset if isinstance(state, Leader) else -1

    @property
    def state_name(self) -> str:
        """The state's name in lower case; a follower that is not a voter is an "observer"."""
        state = self._core.state
        return "observer" if isinstance(state, Follower) and not self._core.is_voter else type(state).__name__.lower()

    @property
    def voters(self) -> VoterSet:
        """The voter set as of the log's end."""
        return self._core.control.voters

    @property
    def kraft_version(self) -> int:
        """The kraft.version as of the log's end."""
        return self._core.control.kraft_version

    def record_idle(self, now_ms: int, idle_ms: float) -> None:
        """Record that the node was idle for `idle_ms` until now, for `poll-idle-ratio-avg`."""
        self._metrics.idle(idle_ms, now_ms)

    def metrics(self, now_ms: int) -> Mapping[str, MetricValue]:
        """Return the raft metrics by the names of Kafka's KafkaRaftMetrics."""
        return self._metrics.values(self._core, now_ms)
