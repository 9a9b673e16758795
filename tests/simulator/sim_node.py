"""One simulated process: a real KafkaRaftClient, its disk, and the effects carried out one by one."""

from random import Random
from typing import Any
from zlib import crc32

from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseSupportedFeatureKey,
    VoteRequest,
)
from kraft_core.protocol.record_batch import RecordBatch
from kraft_core.protocol.wire import Message
from kraft_core.raft.effects import Fatal, Flush, Respond, SendRequest, Stopped, StoreElection
from kraft_core.raft.events import Flushed, RequestReceived, Timer
from kraft_core.raft.kafka_raft_client import KafkaRaftClient
from kraft_core.raft.leader_state import Leader
from kraft_core.raft.quorum_state import NEVER_MS, ElectionState
from kraft_core.raft.raft_config import RaftConfig
from kraft_core.raft.raft_log import OffsetAndEpoch
from tests.simulator.network import Network, Origin
from tests.simulator.oracle import Oracle, check
from tests.simulator.sim_log import SimLog, snapshot_bytes, snapshot_values
from tests.simulator.world import START_MS, World

SNAPSHOT_VALUE_BYTES = 700
"""Snapshots are padded to this, so that they take several FetchSnapshot requests."""

SUPPORTED = ApiVersionsResponse(
    supported_features=(ApiVersionsResponseSupportedFeatureKey(name="kraft.version", min_version=0, max_version=1),)
)


class SimNode:
    """What lives on disk outlives `client`; `incarnation` tells one life of the process from the next."""

    def __init__(self, world: World, network: Network, oracle: Oracle, config: RaftConfig, clock_rate: float) -> None:
        self.world, self.network, self.oracle, self.config = world, network, oracle, config
        self.id, self.key = config.node_id, config.key
        self.clock_rate = clock_rate
        self.log = SimLog(self)
        self.election = ElectionState()
        self.client: KafkaRaftClient | None = None
        self.incarnation = 0
        self.disk_delay_us = (80, 400)
        self.crash_at_effect = 0.0
        self.crashes = 0
        self.is_paused = False
        self._inbox: list[Any] = []
        self._timer_ms = NEVER_MS
        self._requests: dict[int, Origin] = {}
        self._next_request = 0
        self.vote_requests: dict[int, Any] = {}
        self.new_batches: list[tuple[RecordBatch, int]] = []
        self.admin = Origin(self, -1, -1, 0)
        self._forget()

    def __repr__(self) -> str:
        state = "down" if self.client is None else f"{self.client.state_name} {self.client.epoch}"
        log = self.log
        return f"node {self.id} ({state}, log {log.start_offset}-{log.end_offset}, durable {log.flushed_offset})"

    def _forget(self) -> None:
        self.seen_epoch = 0
        self.seen_high_watermark = -1
        self.led_epoch = -1
        self.led_high_watermark = -1
        self.applied = 0
        self.chain = 0

    @property
    def now_ms(self) -> int:
        """The node's own clock."""
        return START_MS + int(self.world.now_us * self.clock_rate) // 1000

    @property
    def is_leader(self) -> bool:
        """Whether the process runs and leads."""
        return self.client is not None and isinstance(self.client.state, Leader)

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the process from what is on disk."""
        if self.client is not None:
            return
        self._forget()
        self.world.note("start", self.id)
        newest = self.log.latest_snapshot_id()
        if newest is not None and newest.offset > self.log.end_offset:  # as KafkaRaftLog does when it is opened
            self.log.truncate_fully_to_snapshot(newest)
        random = Random(self.world.random.getrandbits(64))
        self.seen_epoch = self.election.leader_epoch
        self.is_paused = False
        self._timer_ms = NEVER_MS
        self._carry_out(self._boot(random))

    def _boot(self, random: Random) -> list[Any]:
        """Make the process's objects; the first effects."""
        self.client = KafkaRaftClient(self.config, self.log, self.election, random, self.now_ms)
        self.client.start(self.now_ms)
        return list(self.client.take_effects(self.now_ms))

    def _handle(self, event: Any) -> list[Any]:
        assert self.client is not None
        return list(self.client.step(event, self.now_ms))

    def _deadline_ms(self) -> int:
        assert self.client is not None
        return self.client.next_deadline_ms()

    def crash(self) -> None:
        """kill -9, or the power goes: unflushed batches are lost, but for the first ones of a flush under way, perhaps."""
        if self.client is None:
            return
        self.world.note("crash", self.id, self.log.end_offset, self.log.flushed_offset)
        self.crashes += 1
        flushing_to = self.log.flushing_to
        self._end()
        flushed = self.log.flushed_offset
        torn = [each.last_offset + 1 for each in self.log.batches if flushed <= each.last_offset < flushing_to]
        self.log.crash(self.world.random.choice([flushed, *torn]))

    def _end(self) -> None:
        self.client = None
        self.incarnation += 1
        self.log.flushing_to = -1
        self._inbox.clear()
        self.new_batches.clear()
        self._requests.clear()
        self.vote_requests.clear()
        self.network.on_down(self)

    def pause(self) -> None:
        """SIGSTOP."""
        self.is_paused = self.client is not None

    def resume(self) -> None:
        """SIGCONT: what came meanwhile is handled now."""
        if self.is_paused:
            self.is_paused = False
            inbox, self._inbox = self._inbox, []
            incarnation = self.incarnation
            for event in inbox:
                self.deliver(incarnation, event)

    # --- events and effects -----------------------------------------------------------------------------------------

    def receive(self, message: Message, version: int, origin: Origin) -> None:
        """A request has come in."""
        if self.client is None:
            return
        if isinstance(message, ApiVersionsRequest):  # its answer is the server's, not raft's
            self.network.respond(self, origin, SUPPORTED)
            return
        self._next_request += 1
        self._requests[self._next_request] = origin
        if isinstance(message, VoteRequest):
            self.vote_requests[self._next_request] = message.topics[0].partitions[0]
        self.deliver(self.incarnation, RequestReceived(self._next_request, message, version))

    def deliver(self, incarnation: int, event: Any) -> None:
        """Hand an event to the process, if it is still the one that it was meant for."""
        if self.client is None or incarnation != self.incarnation:
            return
        if self.is_paused:
            self._inbox.append(event)
            return
        if isinstance(event, Flushed):
            self.log.flush_up_to(event.offset)
            self.log.flushing_to = -1
        self._carry_out(self._handle(event), event)

    def write(self, number: int, count: int) -> int | None:
        """As leader, append a batch of `count` records; its last offset, or None when this node does not take any."""
        assert self.client is not None
        values = [b"value %d of %d" % (each, number) for each in range(count)]
        try:
            offset = self.client.append(values, self.now_ms)
        except KafkaError as error:
            check(error.code == ErrorCode.NOT_CONTROLLER, "an append failed", self, error)
            return None
        self._carry_out(list(self.client.take_effects(self.now_ms)))
        return offset

    def resign(self) -> None:
        """Give leadership up."""
        assert self.client is not None
        self.client.resign(self.client.epoch, self.now_ms)
        self._carry_out(self._handle(Timer()))

    def _carry_out(self, effects: list[Any], event: Any = None) -> None:
        client, world = self.client, self.world
        assert client is not None
        world.steps += 1
        world.note(self.id, type(event).__name__, client.state_name, client.epoch, self.log.end_offset, len(effects))
        self.oracle.after_step(self)
        for effect in effects:
            if world.chance(self.crash_at_effect):
                self.crash()
                return
            if not isinstance(effect, StoreElection):
                self._show_batches()
            self.oracle.on_effect(self, effect)
            self._carry_out_one(effect)
            if self.client is None:
                return
        self._show_batches()
        deadline_ms = self._deadline_ms()
        if deadline_ms < self._timer_ms:
            self._set_timer(deadline_ms)

    def _show_batches(self) -> None:
        """From here on what was appended can be on disk or in a message; a crash before leaves no trace of it."""
        for batch, epoch in self.new_batches:
            self.oracle.on_append(self, batch, epoch)
        self.new_batches.clear()

    def _carry_out_one(self, effect: Any) -> None:
        match effect:
            case StoreElection(election=election):
                self.election = election
            case SendRequest():
                self.network.send(self, effect)
            case Respond(request_id=request_id, message=message):
                self.vote_requests.pop(request_id, None)
                self.network.respond(self, self._requests.pop(request_id), message)
            case Flush():
                assert self.log.flushing_to < 0, "Two flushes at a time."
                self.log.flushing_to = self.log.end_offset
                delay_us = self.world.random.randint(*self.disk_delay_us)
                self.world.after(delay_us, self.deliver, self.incarnation, Flushed(self.log.end_offset))
            case Stopped():
                self.world.note("stopped", self.id)
                self._end()
                self.log.crash(self.log.flushed_offset)
            case Fatal(reason=reason):
                raise AssertionError(f"{self} stopped: {reason}")

    def _set_timer(self, at_ms: int) -> None:
        self._timer_ms = at_ms
        delay_us = int((at_ms - START_MS) * 1000 / self.clock_rate) + 1 - self.world.now_us
        self.world.after(delay_us, self._on_timer, self.incarnation, at_ms)

    def _on_timer(self, incarnation: int, at_ms: int) -> None:
        if incarnation != self.incarnation or at_ms != self._timer_ms or self.client is None:
            return
        self._timer_ms = NEVER_MS
        if self._deadline_ms() > self.now_ms:
            self._set_timer(self._deadline_ms())
        else:
            self.deliver(incarnation, Timer())

    # --- the state machine ------------------------------------------------------------------------------------------

    def apply(self, offset: int) -> None:
        """Apply what is committed: the state is a running checksum of all batches."""
        log = self.log
        if self.applied < log.start_offset:
            snapshot_id = log.latest_snapshot_id()
            assert snapshot_id is not None
            check(snapshot_id.offset <= offset, "a snapshot of what is not committed", self, snapshot_id)
            self.chain = int(snapshot_values(log.snapshots[snapshot_id])[0].split()[0])
            self.applied = snapshot_id.offset
        for batch in log.batches[log.index_of(self.applied) :]:
            if batch.base_offset >= offset:
                break
            self.chain = crc32(batch.raw, self.chain)
            self.applied = batch.last_offset + 1

    def check_at_end(self) -> None:
        """Check what only the end of a run can show."""

    def snapshot(self, *, drops_log: bool) -> None:
        """Write a snapshot of the applied state and perhaps clean the log up to it."""
        client, log = self.client, self.log
        if client is None or self.applied <= max(log.start_offset, 0):
            return
        snapshot_id = OffsetAndEpoch(self.applied, log.epoch_of(self.applied - 1))
        if snapshot_id not in log.snapshots:
            values = [b"%d " % self.chain + b"x" * SNAPSHOT_VALUE_BYTES, b"y" * SNAPSHOT_VALUE_BYTES]
            voters, version = client.voters_at(self.applied), client.kraft_version_at(self.applied)
            log.snapshots[snapshot_id] = snapshot_bytes(snapshot_id, version, voters, values)
        if drops_log and log.flushed_offset >= snapshot_id.offset:
            log.drop_before(snapshot_id)
            self.world.note("cleaned", self.id, snapshot_id.offset)
