"""One simulated process: the real Node, log, snapshots and quorum-state on a virtual disk; effects run in order."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from kraft_core.controller.controller_operations import READS, WRITES
from kraft_core.controller.controller_request_context import ControllerRequestContext
from kraft_core.node import CleanLog, ControllerRequest, CreateSnapshot, ImageChanged, Node, NodeConfig, SnapshotFailed
from kraft_core.node_snapshot import image_values
from kraft_core.protocol.control_records import (
    ControlRecord,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    encode_control_batch,
)
from kraft_core.protocol.deadlines import NEVER_MS
from kraft_core.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseSupportedFeatureKey,
    FetchRequest,
    FetchSnapshotRequest,
    UpdateRaftVoterRequest,
    VoteRequest,
)
from kraft_core.protocol.record_batch import RecordBatch
from kraft_core.protocol.wire import Message
from kraft_core.raft.effects import Flush, Respond, SendRequest, Stopped, StoreElection
from kraft_core.raft.events import Flushed, RequestReceived, SnapshotCreated, Timer
from kraft_core.raft.internals.leader_state import Leader
from kraft_core.raft.kafka_raft_client import KafkaRaftClient
from kraft_core.raft.quorum_state import ElectionState
from kraft_core.raft.raft_log import BOOTSTRAP_SNAPSHOT_ID
from kraft_core.raft.snapshot.writer import SnapshotWriter
from kraft_core.raft.voter_set import ReplicaKey, VoterSet
from kraft_core.server.clock import Clock
from kraft_core.storage.files import StorageError, create_directory
from kraft_core.storage.kafka_raft_log import LogConfig
from kraft_core.storage.meta_properties import MetaProperties, load_meta_properties, write_meta_properties
from kraft_core.storage.quorum_state_store import FILE_NAME, QuorumStateStore
from kraft_core.storage.recovery import PARTITION_DIRECTORY
from kraft_core.storage.snapshots import SnapshotStore
from tests.simulator.controller_oracle import Claim
from tests.simulator.network import BY_HAND, Network, Origin
from tests.simulator.oracle import Oracle
from tests.simulator.sim_disk import Crashed, SimDisk
from tests.simulator.sim_log import SimLog
from tests.simulator.world import START_MS, World

ROOT = Path("/metadata")
PARTITION = ROOT / PARTITION_DIRECTORY
QUICK_DISK_US = (80, 400)
REQUEST_TIMEOUT_MS = 2_000

SUPPORTED = ApiVersionsResponse(
    supported_features=(ApiVersionsResponseSupportedFeatureKey(name="kraft.version", min_version=0, max_version=1),)
)


class SimNode:
    """A node; its disk outlives the process, and each start has a new `incarnation`."""

    def __init__(
        self, world: World, network: Network, oracle: Oracle, config: NodeConfig, log_config: LogConfig
    ) -> None:
        self.world, self.network, self.oracle = world, network, oracle
        self.config, self.log_config = config, log_config
        self.id = config.raft.node_id
        self.clock_rate = world.random.uniform(0.99, 1.01)
        self.wall_jump_s = 0.0
        self.disk = SimDisk(world.random)
        self.disk_delay_us = QUICK_DISK_US
        self.retention_bytes = world.random.choice([0, 0, 3_000, 50_000])
        self.node: Node | None = None
        self.log: SimLog | None = None
        self.election = ElectionState()
        self.storing = self.election
        self.incarnation = 0
        self.stopped_by: StorageError | None = None
        self.on_stopped: Callable[[SimNode], None] = lambda _: None
        self.on_answer: Callable[[int, Message], None] = lambda _request_id, _message: None
        self.cut_next: tuple[str, int] | None = None  # stage of an installation, file operations until the process dies
        self.installations_cut: list[str] = []  # the file operations at which the process died
        self.crashes = self.truncations = self.snapshots_installed = self.snapshots_written = self.cleanings = 0
        self.is_paused = False
        self.voters = self.previous_voters = VoterSet()  # as of the log's end; of a stopped process its last ones
        self.voters_changed_end = 0  # end of the log when they changed
        self.admin = Origin(self, BY_HAND, -1, 0)
        self.vote_requests: dict[int, Any] = {}
        self.claim: Claim | None = None
        self.new_batches: list[tuple[RecordBatch, int | None]] = []
        self._inbox: list[Any] = []
        self._timer_ms = NEVER_MS
        self._requests: dict[int, Origin] = {}
        self._next_request = 0
        self._forget()

    def __repr__(self) -> str:
        if self.node is None or self.log is None:
            return f"node {self.id} (down)"
        raft, log = self.node.raft, self.log
        return (
            f"node {self.id} ({raft.state_name} {raft.epoch}, log {log.start_offset}-{log.end_offset}, "
            f"durable {log.flushed_offset}, committed {raft.high_watermark})"
        )

    def _forget(self) -> None:
        self.seen_epoch = 0
        self.seen_high_watermark = self.seen_start_offset = -1
        self.led_epoch = -1
        self.led_high_watermark = -1
        self.led_from = -1
        self.led_since_ms = self.voters_changed_ms = 0
        self.claim = None
        self.heard_ms: dict[int, int] = {}  # as leader: when each replica fetched

    @property
    def key(self) -> ReplicaKey:
        """The node and directory id; a replaced disk is another replica."""
        return self.config.raft.key

    @property
    def raft(self) -> KafkaRaftClient:
        """The raft client of the running process."""
        assert self.node is not None
        return self.node.raft

    @property
    def is_leader(self) -> bool:
        """Whether the process runs and leads."""
        return self.node is not None and isinstance(self.node.raft.state, Leader)

    @property
    def now_ms(self) -> int:
        """The process's clock: the real one over virtual seconds."""
        return self._clock.now_ms()

    @property
    def is_dynamic(self) -> bool:
        """Whether voters have directory ids (kraft.version 1)."""
        return not self.config.raft.static_voters.by_id

    def log_files(self) -> list[Path]:
        """Return the segments that the I/O thread has created."""
        assert self.log is not None
        return [path for path in self.log.segment_paths if path in self.disk.files]

    def durable_files(self) -> list[Path]:
        """Return the segments, the snapshots and the quorum-state file."""
        suffixes = (".log", ".checkpoint", FILE_NAME)
        return [path for path in self.disk.files if path.parent == PARTITION and path.name.endswith(suffixes)]

    def _monotonic_s(self) -> float:
        return self.world.now_us * self.clock_rate / 1e6

    def _wall_s(self) -> float:
        return START_MS / 1000 + self._monotonic_s() + self.wall_jump_s

    # --- life -------------------------------------------------------------------------------------------------------

    def format(self, directory_id: UUID, voters: VoterSet | None) -> None:
        """Format an empty disk as `conclave format` does, with an id drawn from the seed."""
        if self.log is not None:
            self.oracle.lost_disks.append((self.key, self.log))
        self.disk = SimDisk(self.world.random)
        self.config = replace(self.config, raft=replace(self.config.raft, directory_id=directory_id))
        create_directory(PARTITION, self.disk)
        if voters is not None:
            sink = SnapshotStore(PARTITION, self.disk).begin(BOOTSTRAP_SNAPSHOT_ID)
            head: list[ControlRecord] = [
                SnapshotHeaderRecord(),
                KRaftVersionRecord(kraft_version=1),
                voters.to_record(),
            ]
            sink.append(encode_control_batch(0, 0, START_MS, head))
            sink.append(encode_control_batch(3, 0, START_MS, [SnapshotFooterRecord()]))
            sink.freeze()
        properties = MetaProperties(self.config.raft.cluster_id, self.id, directory_id)
        write_meta_properties(ROOT, properties, self.disk)
        self.log = None
        self.election = self.storing = ElectionState()
        self.stopped_by = None
        self.voters = self.previous_voters = voters or VoterSet()

    def start(self) -> None:
        """Start the process from its disk, as KafkaRaftServer does."""
        if self.node is not None:
            return
        self._forget()
        self.world.note("start", self.id)
        self.is_paused = False
        self.stopped_by = None
        self._timer_ms = NEVER_MS
        self._clock = Clock(self._monotonic_s, self._wall_s)
        try:
            effects = self._boot()
        except StorageError as error:
            self._stop(error)
            return
        except Crashed:
            self.world.note("crashed at start", self.id)
            self.crash()
            return
        self._carry_out(effects)

    def _boot(self) -> list[Any]:
        properties = load_meta_properties([ROOT], ROOT, self.id, self.disk)[ROOT]
        assert properties.directory_id == self.key.directory_id
        self._store = QuorumStateStore(ROOT, self.disk)
        election = self._store.read()
        self.log = log = SimLog.open(ROOT, self.log_config, self.disk)
        self.oracle.on_start(self, election or ElectionState())
        self.oracle.on_opened(self)
        log.observe(self)
        self._show_batches()
        self.seen_epoch = self.election.leader_epoch
        random = Random(self.world.random.getrandbits(64))
        self.disk.has_lost_power = False
        self.node = Node(self.config, log, election, random, self.now_ms)
        return list(self.node.start(self.now_ms))

    def kill(self) -> None:
        """kill -9: the page cache survives, and the current I/O happens in part."""
        if self._is_ending("killed"):
            self.disk.killed()

    def crash(self, *, leaves_holes: bool = False) -> None:
        """Cut the power: unsynced changes are lost in part."""
        if self._is_ending("lost power") or self.disk.is_down:
            self.disk.lose_power(leaves_holes=leaves_holes)

    def _is_ending(self, how: str) -> bool:
        if self.node is None:
            return False
        self.world.note(how, self.id)
        self.crashes += 1
        log = self.log
        if log is not None and log.is_flush_under_way and not self.disk.is_down:
            self.disk.crash_in = self.world.random.randint(0, 3)
            with suppress(Crashed, StorageError):
                log.end_flush()
        if log is not None and log.is_installing and self.disk.is_down:
            self.installations_cut.append(self.disk.died_in)
        self._end()
        return True

    def reach_stage(self, stage: str) -> None:
        """Enter the stage "download" or "install" of an installation; the process dies in it if `cut_next` is set."""
        if self.cut_next is not None and self.cut_next[0] == stage:
            self.disk.crash_in, self.cut_next = self.cut_next[1], None

    def _stop(self, error: StorageError) -> None:
        """Stop the process after a disk failure, as ControllerServer does."""
        self.world.note("stopped", self.id, error)
        self.stopped_by = error
        self._end()
        self.disk.killed()
        self.on_stopped(self)

    def _end(self) -> None:
        self.node = None
        self.incarnation += 1
        self._inbox.clear()
        self.new_batches.clear()
        self._requests.clear()
        self.vote_requests.clear()
        self.network.on_down(self)

    def pause(self) -> None:
        """SIGSTOP."""
        self.is_paused = self.node is not None

    def resume(self) -> None:
        """SIGCONT: handle the events that arrived meanwhile."""
        if self.is_paused:
            self.is_paused = False
            inbox, self._inbox = self._inbox, []
            incarnation = self.incarnation
            for event in inbox:
                self.deliver(incarnation, event)

    # --- events -----------------------------------------------------------------------------------------------------

    def receive(self, message: Message, version: int, origin: Origin) -> None:
        """Process a request that has arrived."""
        if self.node is None:
            return
        if isinstance(message, ApiVersionsRequest):  # the server answers it, not raft
            self.network.respond(self, origin, SUPPORTED)
            return
        self._next_request += 1
        self._requests[self._next_request] = origin
        if type(message) in WRITES or type(message) in READS:
            deadline_ms = self.now_ms + REQUEST_TIMEOUT_MS
            context = ControllerRequestContext(client_id=str(origin.node.id), deadline_ms=deadline_ms)
            self.deliver(self.incarnation, ControllerRequest(self._next_request, message, version, context))
            return
        if isinstance(message, VoteRequest):
            self.vote_requests[self._next_request] = message.topics[0].partitions[0]
        self.deliver(self.incarnation, RequestReceived(self._next_request, message, version))

    def deliver(self, incarnation: int, event: Any) -> None:
        """Deliver an event if the incarnation is still running."""
        if self.node is None or incarnation != self.incarnation:
            return
        if self.is_paused:
            self._inbox.append(event)
            return
        if isinstance(event, RequestReceived) and isinstance(event.message, FetchRequest | FetchSnapshotRequest):
            self.oracle.on_fetch(self, event.message)
        if isinstance(event, RequestReceived) and isinstance(event.message, UpdateRaftVoterRequest):
            self.oracle.on_update_voter(self, event.message)
        if isinstance(event, ControllerRequest):
            self.oracle.controller.on_request(self, event)
            self.oracle.reads.on_request(self, event)
        now_ms = self.now_ms
        self._guarded(lambda node: node.step(event, now_ms), event)

    def resign(self) -> None:
        """Resign the leadership."""
        self.raft.resign(self.raft.epoch)
        self.deliver(self.incarnation, Timer())

    def _guarded(self, step: Callable[[Node], list[Any]], event: Any = None) -> None:
        """Run a step; a disk failure stops the process, a crash in the middle of it kills it."""
        assert self.node is not None
        try:
            effects = step(self.node)
        except StorageError as error:
            self._stop(error)
        except Crashed:
            self.crash()
        else:
            self._carry_out(effects, event)

    def _carry_out(self, effects: list[Any], event: Any = None) -> None:
        world, raft, log = self.world, self.raft, self.log
        assert log is not None
        world.steps += 1
        world.note(self.id, type(event).__name__, raft.state_name, raft.epoch, log.end_offset, len(effects))
        self.oracle.after_step(self)
        self.oracle.controller.after_step(self)
        stores = [index for index, effect in enumerate(effects) if isinstance(effect, StoreElection)]
        for index, effect in enumerate(effects):
            if not stores or index > stores[-1]:
                self._show_batches()
            self.oracle.on_effect(self, effect)
            try:
                self._carry_out_one(effect)
            except StorageError as error:
                self._stop(error)
            except Crashed:
                self.crash()
            if self.node is None:
                return
        self._show_batches()
        deadline_ms = self.node.next_deadline_ms() if self.node is not None else NEVER_MS
        if deadline_ms < self._timer_ms:
            self._set_timer(deadline_ms)

    def _show_batches(self) -> None:
        """Report appended batches to the oracle: with the epoch stored they can be on disk or in a message."""
        for batch, epoch in self.new_batches:
            self.oracle.on_append(self, batch, epoch)
        self.new_batches.clear()

    # --- effects ----------------------------------------------------------------------------------------------------

    def _carry_out_one(self, effect: Any) -> None:
        match effect:
            case StoreElection(election=election, kraft_version=kraft_version):
                self.storing = election
                self._store.write(election, kraft_version)
                self.oracle.on_stored(self, election)
            case SendRequest():
                self.network.send(self, effect)
            case Respond(request_id=request_id, message=message):
                self.vote_requests.pop(request_id, None)
                self.oracle.controller.on_answer(self, request_id, message)
                self.oracle.reads.on_answer(self, request_id, message)
                origin = self._requests.pop(request_id, None)
                if origin is None:
                    self.on_answer(request_id, message)
                else:
                    self.network.respond(self, origin, message)
            case Flush():
                assert self.log is not None
                self.log.begin_flush()
                self.world.after(self._disk_us(), self._flush_ends, self.incarnation)
            case CreateSnapshot():
                self._begin_snapshot(effect)
            case ImageChanged(new=image):
                self.oracle.on_image(self, image)
            case CleanLog():
                self._clean()
            case Stopped():
                self.world.note("stopped", self.id)
                self._end()
                self._close()

    def _disk_us(self) -> int:
        return self.world.random.randint(*self.disk_delay_us)

    def _flush_ends(self, incarnation: int) -> None:
        if incarnation != self.incarnation:
            return
        assert self.log is not None
        try:
            offset = self.log.end_flush()
        except StorageError as error:
            self._stop(error)
        except Crashed:
            self.crash()
        else:
            self.oracle.on_flush(self)
            self.deliver(incarnation, Flushed(offset))

    def _begin_snapshot(self, effect: CreateSnapshot) -> None:
        """Start the snapshot thread: it writes one batch now and the rest later."""
        assert self.log is not None
        self.oracle.on_snapshot(self, effect)
        values = image_values(effect.image)
        try:
            effect.writer.append(next(values))
        except StorageError:
            self.world.after(0, self.deliver, self.incarnation, SnapshotFailed())
            return
        self.world.after(
            self.world.random.randint(500, 50_000), self._end_snapshot, self.incarnation, effect.writer, values
        )

    def _end_snapshot(self, incarnation: int, writer: SnapshotWriter, values: Iterator[list[bytes]]) -> None:
        if incarnation != self.incarnation:
            return
        try:
            try:
                for each in values:
                    writer.append(each)
                writer.freeze()
            finally:
                writer.close()
        except StorageError:
            self.deliver(incarnation, SnapshotFailed())
        except Crashed:
            self.crash()
        else:
            self.snapshots_written += 1
            snapshot_id = writer.snapshot_id
            self.oracle.on_snapshot_file(snapshot_id, self.disk, SnapshotStore(PARTITION, self.disk).path(snapshot_id))
            self.deliver(incarnation, SnapshotCreated(snapshot_id))

    def _clean(self) -> None:
        """Apply the retention, or a little later while a flush is in progress."""
        log = self.log
        assert log is not None
        if log.is_flush_under_way:
            self.world.after(1_000, self._clean_later, self.incarnation)
        elif log.clean(self.retention_bytes, -1, self.now_ms):
            self.cleanings += 1
            self.oracle.on_clean(self)

    def _clean_later(self, incarnation: int) -> None:
        if incarnation == self.incarnation:
            try:
                self._clean()
            except StorageError as error:
                self._stop(error)

    def _close(self) -> None:
        assert self.log is not None
        try:
            self.log.close()
        except StorageError:
            self.disk.killed()
        except Crashed:
            self.disk.lose_power(leaves_holes=False)
        else:
            self.disk.killed()

    def _set_timer(self, at_ms: int) -> None:
        self._timer_ms = at_ms
        self.world.after((at_ms - self.now_ms) * 1000 + 500, self._on_timer, self.incarnation, at_ms)

    def _on_timer(self, incarnation: int, at_ms: int) -> None:
        if incarnation != self.incarnation or at_ms != self._timer_ms or self.node is None:
            return
        self._timer_ms = NEVER_MS
        deadline_ms = self.node.next_deadline_ms()
        if deadline_ms > self.now_ms:
            self._set_timer(deadline_ms)
        else:
            self.deliver(incarnation, Timer())
