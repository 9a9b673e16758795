"""The node joins raft, controller and image: events in, effects out, without I/O or clock.

## Images
On the active controller a record is replayed once, when it is appended. The tip is the image after the newest append,
and the committed image is the tip kept for the commit offset. Other nodes replay committed batches, or load a snapshot
in pieces and keep the old image until the new one is complete. The loss of leadership drops the tip.

## Activation
The controller becomes active only after all records before its epoch are committed and replayed, so its state is
complete.

## Reads
The active controller answers a read after the quorum has confirmed its leadership. The image then contains every write
that was acknowledged before the read arrived, so reads are linearizable. Other nodes answer at once from their
committed image, as in Kafka.

Source: QuorumController's QuorumMetaLogListener, OffsetControlManager and SnapshotGenerator.
"""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

import msgspec

from kraft_core.controller.controller_config import ControllerConfig
from kraft_core.controller.controller_operations import CONFIRMED_READS
from kraft_core.controller.controller_request_context import ControllerRequestContext
from kraft_core.controller.error_responses import error_response
from kraft_core.controller.quorum_controller import NO_ACTIVE_CONTROLLER, QuorumController
from kraft_core.image.applied_records import AppliedRecords
from kraft_core.image.metadata_delta import replay_all
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.metadata_loader import MetadataLoader
from kraft_core.protocol.errors import ErrorCode, NotController
from kraft_core.protocol.metadata_records import MetadataRecord, encode_record
from kraft_core.protocol.metadata_version import MINIMUM_METADATA_VERSION, version_to_write
from kraft_core.protocol.wire import Message
from kraft_core.raft.batch_reader import BatchReader
from kraft_core.raft.effects import Effect as RaftEffect
from kraft_core.raft.effects import Respond, Stopped
from kraft_core.raft.events import Event as RaftEvent
from kraft_core.raft.events import SnapshotCreated
from kraft_core.raft.internals.threshold_purgatory import ThresholdPurgatory
from kraft_core.raft.kafka_raft_client import KafkaRaftClient
from kraft_core.raft.leader_and_epoch import LeaderAndEpoch
from kraft_core.raft.quorum_state import ElectionState
from kraft_core.raft.raft_config import RaftConfig
from kraft_core.raft.raft_log import OffsetAndEpoch, RaftLog
from kraft_core.raft.snapshot.reader import SnapshotReader
from kraft_core.raft.snapshot.writer import SnapshotWriter

EVENTS_PER_STEP: Final = 128
"""Upper bound on controller events per step: a few ms of work, so that votes, fetches and timers are not delayed.

Large writes count proportionally more.
"""
SNAPSHOT_RECORDS_PER_STEP: Final = 2_000
"""Upper bound on snapshot records loaded per step: about 20 ms of work, for the same reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Settings of a node, with Kafka's names in comments. Times are in ms."""

    raft: RaftConfig
    controller: ControllerConfig
    max_bytes_between_snapshots: int = 20 * 1024 * 1024  # metadata.log.max.record.bytes.between.snapshots
    max_snapshot_interval_ms: int = 3_600_000  # metadata.log.max.snapshot.interval.ms; 0: never by time
    clean_interval_ms: int = 60_000  # between retention checks; not configurable in Kafka either
    bootstrap_records: tuple[MetadataRecord, ...] = ()  # of bootstrap.checkpoint, except feature levels


class ControllerRequest(msgspec.Struct, frozen=True, gc=False):
    """A request to the controller; one `Respond` with the same id follows."""

    request_id: int
    message: Message
    version: int
    context: ControllerRequestContext


class CreateSnapshot(msgspec.Struct, frozen=True):
    """Write a snapshot of `image` in the background; `SnapshotCreated` or `SnapshotFailed` follows."""

    writer: SnapshotWriter
    image: MetadataImage

    @property
    def id(self) -> OffsetAndEpoch:
        """The snapshot's end offset and epoch."""
        return self.writer.snapshot_id


class SnapshotFailed(msgspec.Struct, frozen=True, gc=False):
    """The snapshot could not be written; the node retries when the next one is due."""


class CleanLog(msgspec.Struct, frozen=True, gc=False):
    """Apply the retention settings to old snapshots and segments, when no flush is in progress."""


class ImageChanged(msgspec.Struct, frozen=True):
    """The committed image changed. `records` lead from `old` to `new`; empty after a snapshot was loaded."""

    old: MetadataImage
    new: MetadataImage
    records: Sequence[MetadataRecord]


NodeEvent = RaftEvent | ControllerRequest | SnapshotFailed
NodeEffect = RaftEffect | CreateSnapshot | CleanLog | ImageChanged


class _Pending(msgspec.Struct, frozen=True):
    """A batch that the active controller has appended and the quorum has not committed."""

    end_offset: int
    image: MetadataImage
    records: Sequence[MetadataRecord]


class Node:
    """One node of the quorum with its controller; raft's listener. One owner calls it, and it calls nothing outside."""

    def __init__(
        self, config: NodeConfig, log: RaftLog, election: ElectionState | None, random: Random, now_ms: int
    ) -> None:
        self.config = config
        self.raft = KafkaRaftClient(config.raft, log, election, random, now_ms)
        self.controller = QuorumController(config.controller, random, self, config.bootstrap_records)
        self.image = MetadataImage.EMPTY
        self.applied_offset = 0
        self.load_snapshot_count = 0  # snapshots that raft passed on, the one at the start included
        self._log = log
        self._loader = MetadataLoader()
        self._tip = self.image
        self._pending: deque[_Pending] = deque()
        self._reads: ThresholdPurgatory[ControllerRequest] = ThresholdPurgatory()  # by raft round
        self._claimed_epoch = -1
        self._now_ms = now_ms
        self._effects: list[NodeEffect] = []
        self._loading: tuple[SnapshotReader, Iterator[None]] | None = None
        self._read_records = AppliedRecords()
        self._last_timestamp = 0
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = now_ms
        self._creating_snapshot = False
        self._is_stopping = False
        self._next_clean_ms = now_ms + config.clean_interval_ms
        self.raft.register(self)

    @property
    def tip(self) -> MetadataImage:
        """The image after the newest append on the active controller; on other nodes the committed image."""
        return self._tip if self.is_active else self.image

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller: it leads, and its state is complete."""
        return self._claimed_epoch >= 0

    @property
    def last_applied_timestamp_ms(self) -> int:
        """Timestamp in ms of the newest committed batch, by its leader's clock; 0 before the first."""
        return self._last_timestamp

    def start(self, now_ms: int) -> list[NodeEffect]:
        """Start raft from the state on disk."""
        self._now_ms = now_ms
        self.raft.start(now_ms)
        return self._settle()

    def step(self, event: NodeEvent, now_ms: int) -> list[NodeEffect]:
        """Handle one event and return the effects."""
        return self.step_all((event,), now_ms)

    def step_all(self, events: Sequence[NodeEvent], now_ms: int) -> list[NodeEffect]:
        """Handle events that arrived together; they share one flush and one round of responses."""
        self._now_ms = now_ms
        for event in events:
            if isinstance(event, ControllerRequest):
                self._accept_request(event)
            elif isinstance(event, SnapshotFailed):
                self._creating_snapshot = False
            else:
                if isinstance(event, SnapshotCreated):
                    self._creating_snapshot = False
                self.raft.handle(event, now_ms)
        return self._settle()

    def next_deadline_ms(self) -> int:
        """Return the latest time for a `Timer` event; the current time if the last step left work."""
        if self._loading is not None:
            return self._now_ms
        return min(
            self.raft.next_deadline_ms(),
            self.controller.next_deadline_ms(self._now_ms),
            self._reads.next_deadline_ms(),
            self._next_clean_ms,
        )

    # -- requests

    def _accept_request(self, request: ControllerRequest) -> None:
        """Pass a request to the controller; on the active controller a read waits for a round that starts after it.

        If no majority confirms the leadership within the check-quorum timeout, the response is REQUEST_TIMED_OUT.
        """
        if not self.is_active or type(request.message) not in CONFIRMED_READS:
            self._pass_to_controller(request)
            return
        try:
            number = self.raft.confirm_leadership(self._claimed_epoch)
        except NotController as error:
            self._refuse(request, error.code, error.message)
        else:
            self._reads.wait(number, request, self._now_ms + self.config.raft.check_quorum_timeout_ms)

    def _release_reads(self) -> None:
        for request in self._reads.complete(self.raft.confirmed_round):
            self._pass_to_controller(request)
        for request in self._reads.expire(self._now_ms):
            self._refuse(request, ErrorCode.REQUEST_TIMED_OUT, "No majority of the voters confirmed the controller.")

    def _pass_to_controller(self, request: ControllerRequest) -> None:
        self.controller.handle(request.request_id, request.message, request.version, request.context, self._now_ms)

    def _refuse(self, request: ControllerRequest, code: int, words: str) -> None:
        self._effects.append(Respond(request.request_id, error_response(request.message, request.version, code, words)))

    # -- RecordWriter, for the controller

    @property
    def next_offset(self) -> int:
        """Offset of the next record to append."""
        return self.raft.next_append_offset

    def append(self, records: Sequence[MetadataRecord]) -> int:
        """Append `records` as one batch, replay them on the tip, and return the last offset.

        Raises NotController when this node no longer leads, and the errors of raft's `prepare_append`.
        """
        if self._claimed_epoch < 0:
            raise NotController("This node is not the active controller.")
        metadata_version = self._tip.features.metadata_version or MINIMUM_METADATA_VERSION
        values = [encode_record(record, version_to_write(record, metadata_version)) for record in records]
        last_offset = self.raft.prepare_append(self._claimed_epoch, values)
        self.raft.schedule_prepared_append()
        self._tip = replay_all(self._tip, records, last_offset, self._claimed_epoch)
        self._pending.append(_Pending(last_offset + 1, self._tip, records))
        return last_offset

    @property
    def leader_id(self) -> int:
        """Id of the quorum's leader as far as this node knows, -1 for none."""
        return self.raft.leader_id

    @property
    def voter_ids(self) -> Collection[int]:
        """Ids of the quorum's voters."""
        return self.raft.voters.by_id.keys()

    @property
    def kraft_version(self) -> int:
        """The finalized kraft.version: 0 or 1."""
        return self.raft.kraft_version

    def upgrade_kraft_version(self, level: int, *, validate_only: bool) -> None:
        """Raise kraft.version. Raises KafkaError INVALID_UPDATE_VERSION with the reason."""
        self.raft.upgrade_kraft_version(level, self._now_ms, validate_only=validate_only)

    # -- Listener, for raft

    def handle_commit(self, reader: BatchReader) -> None:
        """Advance the committed image."""
        old = self.image
        records = self._advance(reader.last_offset) if self._claimed_epoch >= 0 else self._replay(reader)
        self.applied_offset = reader.last_offset + 1
        self._last_timestamp = reader.last_timestamp
        self._bytes_since_snapshot += reader.size_bytes
        reader.close()
        self._image_changed(old, records)

    def handle_load_snapshot(self, reader: SnapshotReader) -> None:
        """Start to load a snapshot; the image is unchanged until the snapshot is complete."""
        assert self._claimed_epoch < 0, "a leader has all committed records"
        self.load_snapshot_count += 1
        snapshot_id = reader.snapshot_id
        pieces = self._loader.load_in_pieces(
            reader, snapshot_id.offset, snapshot_id.epoch, records_per_piece=SNAPSHOT_RECORDS_PER_STEP
        )
        self._loading = reader, pieces

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Become inactive at the end of the claimed epoch; become active when this node leads the new epoch."""
        self.controller.metrics.new_active_controllers += leader.leader_id >= 0
        if self._claimed_epoch >= 0:
            self._claimed_epoch = -1
            self._pending.clear()
            self._tip = self.image
            if not self._loader.in_transaction:
                self._loader.reset(self.image)
            self.controller.on_resign(self._now_ms)
            for request in self._reads.complete_all():
                self._refuse(request, ErrorCode.NOT_CONTROLLER, NO_ACTIVE_CONTROLLER)
        if leader.is_leader(self.config.raft.node_id):
            self._claimed_epoch = leader.epoch
            self._tip = self.image
            self.controller.on_leader(leader.epoch, self._now_ms, in_transaction=self._loader.in_transaction)

    def begin_shutdown(self) -> None:
        """Start no more snapshots."""
        self._is_stopping = True

    def _image_changed(self, old: MetadataImage, records: list[MetadataRecord]) -> None:
        if self.image is not old:
            self._effects.append(ImageChanged(old, self.image, records))
        self.controller.on_commit(self.image, self._now_ms)

    def _advance(self, last_offset: int) -> list[MetadataRecord]:
        """Advance the committed image along the kept tips; return the records in between.

        The first record aborts a transaction that a former leader left open. The loader keeps the transaction until the
        abort is committed, because this node may lose the leadership before.
        """
        records: list[MetadataRecord] = []
        pending = self._pending
        while pending and pending[0].end_offset <= last_offset + 1:
            entry = pending.popleft()
            self.image = entry.image
            records += entry.records
        if records and self._loader.in_transaction:
            self._loader.reset(self.image)
            self._read_records.clear()
        return records

    def _replay(self, reader: BatchReader) -> list[MetadataRecord]:
        """Replay committed batches; return the records that changed the image."""
        records: list[MetadataRecord] = []
        for batch in reader:
            self._loader.apply_batch(batch, self._read_records.add)
            records += [record for _, record in self._read_records.take()]
        self.image = self._loader.image
        return records

    # -- effects of a step

    def _settle(self) -> list[NodeEffect]:
        """Run raft and controller until neither causes work for the other; return the effects.

        The controller runs at most EVENTS_PER_STEP events; the next step continues.
        """
        now_ms, raft, controller = self._now_ms, self.raft, self.controller
        budget = EVENTS_PER_STEP
        may_load = has_more = True
        while has_more:
            budget -= controller.poll(now_ms, budget)
            if controller.wants_resign and self.is_active:
                raft.resign(self._claimed_epoch)
            self._effects.extend(raft.take_effects(now_ms))
            self._release_reads()
            has_more = may_load and self._load_some()
            may_load = False
            has_more |= budget > 0 and controller.next_deadline_ms(now_ms) <= now_ms
        if self._is_stopping and any(isinstance(effect, Stopped) for effect in self._effects):
            controller.close(now_ms)
        self._effects.extend(Respond(request_id, message) for request_id, message in controller.take_responses())
        self._decide_snapshot()
        if now_ms >= self._next_clean_ms:
            self._next_clean_ms = now_ms + self.config.clean_interval_ms
            self._effects.append(CleanLog())
        effects, self._effects = self._effects, []
        return effects

    # -- snapshots

    def _load_some(self) -> bool:
        """Load the next piece of the snapshot; return True if it is complete and has become the image."""
        if self._loading is None:
            return False
        reader, pieces = self._loading
        if next(pieces, reader) is None:
            return False
        self._loading = None
        old, self.image = self.image, self._loader.image
        self._read_records.clear()
        self.applied_offset = reader.snapshot_id.offset
        self._last_timestamp = reader.last_contained_log_timestamp()
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = self._now_ms
        reader.close()
        self._image_changed(old, [])
        return True

    def _decide_snapshot(self) -> None:
        """Start a snapshot when enough bytes or time have passed since the last one (KIP-630)."""
        if self._creating_snapshot or self._bytes_since_snapshot == 0 or self._is_stopping:
            return
        interval_ms = self.config.max_snapshot_interval_ms
        by_size = self._bytes_since_snapshot >= self.config.max_bytes_between_snapshots
        by_time = interval_ms > 0 and self._now_ms - self._last_snapshot_ms >= interval_ms
        if not (by_size or by_time) or self._loading is not None or self._loader.in_transaction:
            return
        if self.applied_offset < self.raft.high_watermark or self.applied_offset <= self._log.start_offset:
            return
        if self.image.features.metadata_version is None:  # the first leader has not appended metadata yet
            return
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = self._now_ms
        offset = self.applied_offset
        snapshot_id = OffsetAndEpoch(offset, self._log.epoch_of(offset - 1))
        writer = self.raft.create_snapshot(snapshot_id, self._last_timestamp)
        if writer is not None:
            self._creating_snapshot = True
            self._effects.append(CreateSnapshot(writer, self.image))
