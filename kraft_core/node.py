"""The node: raft, controller and image meet here and nowhere else. Events in, effects out; no I/O, no clock.

A node replays what the quorum has committed. On the active controller a record is replayed once, when it is appended:
the tip is the image after the newest append, and the committed image is the tip remembered at the commit offset.
Everybody else replays committed batches from the log, or loads a snapshot. Losing the leadership drops the tip.

The controller is told that it leads only after everything before its own epoch is committed and replayed, so what it
reads is complete. Source: QuorumController's QuorumMetaLogListener, OffsetControlManager and SnapshotGenerator.
"""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

import msgspec

from kraft_core.controller.controller_config import ControllerConfig
from kraft_core.controller.controller_result import RequestContext
from kraft_core.controller.quorum_controller import QuorumController
from kraft_core.image.metadata_delta import replay_all
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.metadata_loader import MetadataLoader
from kraft_core.node_snapshot import read_snapshot_batches
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.metadata_records import AbortTransactionRecord, MetadataRecord, encode_record
from kraft_core.protocol.metadata_version import MINIMUM_METADATA_VERSION, version_to_write
from kraft_core.protocol.record_batch import read_batches
from kraft_core.protocol.wire import Message
from kraft_core.raft.effects import Effect as RaftEffect
from kraft_core.raft.effects import Respond
from kraft_core.raft.events import Event as RaftEvent
from kraft_core.raft.events import SnapshotCreated
from kraft_core.raft.kafka_raft_client import KafkaRaftClient
from kraft_core.raft.quorum_state import ElectionState
from kraft_core.raft.raft_config import RaftConfig
from kraft_core.raft.raft_log import OffsetAndEpoch, RaftLog
from kraft_core.raft.voter_set import VoterSet

READ_BYTES: Final = 1024 * 1024
APPLY_BYTES_PER_STEP: Final = 4 * 1024 * 1024
"""How much of the log one step replays at most, so that a long catch-up does not silence the node."""
_BATCH_OVERHEAD_BYTES: Final = 61


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Settings of a node. Times are ms; names in brackets are Kafka's settings."""

    raft: RaftConfig
    controller: ControllerConfig
    max_bytes_between_snapshots: int = 20 * 1024 * 1024  # metadata.log.max.record.bytes.between.snapshots
    max_snapshot_interval_ms: int = 3_600_000  # metadata.log.max.snapshot.interval.ms; 0: never by time
    clean_interval_ms: int = 60_000  # between two looks at the retention settings; not a setting in Kafka either
    bootstrap_records: tuple[MetadataRecord, ...] = ()  # of bootstrap.checkpoint, other than feature levels


class ControllerRequest(msgspec.Struct, frozen=True, gc=False):
    """A request to the controller; answered later by one `Respond` with the same id."""

    request_id: int
    message: Message
    version: int
    context: RequestContext


class CreateSnapshot(msgspec.Struct, frozen=True):
    """Write a snapshot of `image`, off the owner's path; `SnapshotCreated` or `SnapshotFailed` follows."""

    id: OffsetAndEpoch
    image: MetadataImage
    last_contained_log_timestamp: int
    kraft_version: int
    voters: VoterSet


class SnapshotFailed(msgspec.Struct, frozen=True, gc=False):
    """The snapshot could not be written; the node tries again when the next one is due."""


class CleanLog(msgspec.Struct, frozen=True, gc=False):
    """Apply the retention settings to old snapshots and segments, when no flush is under way."""


class ImageChanged(msgspec.Struct, frozen=True):
    """The committed image moved. `records` are those between the two; empty after a snapshot was loaded."""

    old: MetadataImage
    new: MetadataImage
    records: Sequence[MetadataRecord]


NodeEvent = RaftEvent | ControllerRequest | SnapshotFailed
NodeEffect = RaftEffect | CreateSnapshot | CleanLog | ImageChanged


class _Pending(msgspec.Struct, frozen=True):
    """A batch the active controller has appended and the quorum has not yet committed."""

    end_offset: int
    image: MetadataImage
    records: Sequence[MetadataRecord]
    size: int
    timestamp_ms: int


class Node:
    """One node of the quorum with its controller. One owner calls it; it never calls anybody."""

    def __init__(
        self, config: NodeConfig, log: RaftLog, election: ElectionState | None, random: Random, now_ms: int
    ) -> None:
        self.config = config
        self.raft = KafkaRaftClient(config.raft, log, election, random, now_ms)
        self.controller = QuorumController(config.controller, random, self, config.bootstrap_records)
        self.image = MetadataImage.EMPTY
        self.applied_offset = 0
        self._log = log
        self._loader = MetadataLoader()
        self._tip = self.image
        self._pending: deque[_Pending] = deque()
        self._claimed_epoch = -1
        self._now_ms = now_ms
        self._effects: list[NodeEffect] = []
        self._behind = False
        self._read_records: list[MetadataRecord] = []
        self._last_timestamp = 0
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = now_ms
        self._creating_snapshot = False
        self._next_clean_ms = now_ms + config.clean_interval_ms

    @property
    def tip(self) -> MetadataImage:
        """The image after the newest append on the active controller, elsewhere the committed image."""
        return self._tip if self.is_active else self.image

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller: leader, and complete."""
        return self._claimed_epoch >= 0

    def start(self, now_ms: int) -> list[NodeEffect]:
        """Take up what the disk holds."""
        self._now_ms = now_ms
        self.raft.start(now_ms)
        return self._settle()

    def step(self, event: NodeEvent, now_ms: int) -> list[NodeEffect]:
        """Handle one event and return everything that is due."""
        return self.step_all((event,), now_ms)

    def step_all(self, events: Sequence[NodeEvent], now_ms: int) -> list[NodeEffect]:
        """Handle events that came together: they share one flush and one round of answers."""
        self._now_ms = now_ms
        for event in events:
            if isinstance(event, ControllerRequest):
                self.controller.handle(event.request_id, event.message, event.version, event.context, now_ms)
            elif isinstance(event, SnapshotFailed):
                self._creating_snapshot = False
            else:
                if isinstance(event, SnapshotCreated):
                    self._creating_snapshot = False
                self._effects.extend(self.raft.step(event, now_ms))
        return self._settle()

    def next_deadline_ms(self) -> int:
        """When the node wants a `Timer` event at the latest."""
        if self._behind:
            return self._now_ms
        return min(self.raft.next_deadline_ms(), self.controller.next_deadline_ms(), self._next_clean_ms)

    # -- RecordWriter, for the controller

    @property
    def next_offset(self) -> int:
        """Offset that the next appended record gets."""
        return self._log.end_offset

    def append(self, records: Sequence[MetadataRecord]) -> int:
        """Append `records` as one batch, replay them on the tip, and return the last offset.

        Raises KafkaError NOT_CONTROLLER when this node does not lead any more.
        """
        if self.raft.epoch != self._claimed_epoch or not self.raft.is_leader:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This node is not the active controller.")
        metadata_version = self._tip.features.metadata_version or MINIMUM_METADATA_VERSION
        values = [encode_record(record, version_to_write(record, metadata_version)) for record in records]
        last_offset = self.raft.append(values, self._now_ms)
        self._tip = replay_all(self._tip, records, last_offset, self._claimed_epoch)
        size = _BATCH_OVERHEAD_BYTES + sum(map(len, values))
        self._pending.append(_Pending(last_offset + 1, self._tip, records, size, self._now_ms))
        return last_offset

    @property
    def leader_id(self) -> int:
        """Node that leads the quorum as far as this one knows, -1 for none."""
        return self.raft.leader_and_epoch[0]

    @property
    def voter_ids(self) -> Collection[int]:
        """Ids of the quorum's voters."""
        return self.raft.voters.by_id.keys()

    @property
    def kraft_version(self) -> int:
        """Finalized kraft.version: 0 or 1."""
        return self.raft.kraft_version

    def upgrade_kraft_version(self, level: int, *, validate_only: bool) -> None:
        """Raise kraft.version. Raises KafkaError INVALID_UPDATE_VERSION saying why it cannot be."""
        self.raft.upgrade_kraft_version(level, self._now_ms, validate_only=validate_only)

    # -- what follows from a step

    def _settle(self) -> list[NodeEffect]:
        """Let commits, leadership and the controller move one another until nothing more follows."""
        now_ms = self._now_ms
        while True:
            self._effects.extend(self.raft.take_effects(now_ms))
            before = self._effects_marker()
            self._follow_leadership()
            self._apply_committed()
            self._claim_leadership()
            self.controller.poll(now_ms)
            if self.controller.wants_resign and self.is_active:
                self.raft.resign(self._claimed_epoch, now_ms)
            if self._effects_marker() == before:
                break
        self._effects.extend(self.raft.take_effects(now_ms))
        self._effects.extend(Respond(request_id, message) for request_id, message in self.controller.take_responses())
        self._decide_snapshot()
        if now_ms >= self._next_clean_ms:
            self._next_clean_ms = now_ms + self.config.clean_interval_ms
            self._effects.append(CleanLog())
        effects, self._effects = self._effects, []
        return effects

    def _effects_marker(self) -> tuple[int, int, int, bool]:
        raft = self.raft
        return raft.high_watermark, self._log.end_offset, self._claimed_epoch, raft.is_leader

    def _follow_leadership(self) -> None:
        """Stop being active as soon as the epoch that was claimed is over."""
        if self._claimed_epoch >= 0 and not (self.raft.is_leader and self.raft.epoch == self._claimed_epoch):
            self._claimed_epoch = -1
            self._pending.clear()
            self._tip = self.image
            self._loader.reset(self.image)
            self.controller.on_resign(self._now_ms)

    def _claim_leadership(self) -> None:
        """Become active once the leader's own LeaderChange record is committed and replayed."""
        raft = self.raft
        if self._claimed_epoch >= 0 or not raft.is_leader or self.applied_offset <= raft.epoch_start_offset:
            return
        self._claimed_epoch = raft.epoch
        self._tip = self.image
        in_transaction = self._loader.in_transaction
        self._loader.reset(self.image)
        self._read_records.clear()
        self.controller.on_leader(raft.epoch, self._now_ms, in_transaction=in_transaction)

    def _apply_committed(self) -> None:
        high_watermark = self.raft.high_watermark
        if high_watermark <= self.applied_offset:
            self._behind = False
            return
        old = self.image
        records = self._advance_to(high_watermark) if self._claimed_epoch >= 0 else self._replay_to(high_watermark)
        if self.image is not old:
            self._effects.append(ImageChanged(old, self.image, records))
        self.controller.on_commit(self.image, self._now_ms)

    def _advance_to(self, high_watermark: int) -> list[MetadataRecord]:
        """Move the committed image along the tips that were remembered; returns the records between."""
        records: list[MetadataRecord] = []
        pending = self._pending
        while pending and pending[0].end_offset <= high_watermark:
            entry = pending.popleft()
            self.image = entry.image
            self._last_timestamp = entry.timestamp_ms
            self._bytes_since_snapshot += entry.size
            records += entry.records
        self.applied_offset = high_watermark
        return records

    def _replay_to(self, high_watermark: int) -> list[MetadataRecord]:
        """Replay committed batches from the log, a bounded amount a step; returns the records of the image's change."""
        snapshot_id = self._snapshot_to_load(high_watermark)
        if snapshot_id is not None:
            self._load_snapshot(snapshot_id)
        records: list[MetadataRecord] = []
        budget = APPLY_BYTES_PER_STEP
        while self.applied_offset < high_watermark and budget > 0:
            data = self._log.read(self.applied_offset, min(READ_BYTES, budget))
            assert data, f"committed offset {self.applied_offset} is not in the log"
            for batch in read_batches(data):
                if batch.last_offset >= high_watermark:
                    budget = 0  # a batch that is not committed as a whole: wait for its rest
                    break
                if self._loader.apply_batch(batch, self._remember) is not None:
                    records += self._read_records
                    self._read_records.clear()
                self.applied_offset = batch.last_offset + 1
                self._last_timestamp = batch.max_timestamp
                self._bytes_since_snapshot += batch.size
                budget -= batch.size
        self.image = self._loader.image
        self._behind = self.applied_offset < high_watermark
        return records

    def _remember(self, _: int, record: MetadataRecord) -> None:
        """Keep a record until its transaction, if it is in one, has ended."""
        if isinstance(record, AbortTransactionRecord):
            self._read_records.clear()
        self._read_records.append(record)

    # -- snapshots

    def _snapshot_to_load(self, high_watermark: int) -> OffsetAndEpoch | None:
        """Return the newest snapshot if the log no longer has what comes next, or nothing was applied yet."""
        latest = self._log.latest_snapshot_id()
        if latest is None or latest.offset <= self.applied_offset or latest.offset > high_watermark:
            return None
        return latest if self.applied_offset == 0 or self.applied_offset < self._log.start_offset else None

    def _load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        batches = read_snapshot_batches(self._log, snapshot_id)
        self._loader.load_snapshot(batches, snapshot_id.offset, snapshot_id.epoch)
        self._read_records.clear()
        self.applied_offset = snapshot_id.offset
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = self._now_ms

    def _decide_snapshot(self) -> None:
        """Ask for a snapshot when enough was committed since the last, by bytes or by time. KIP-630."""
        if self._creating_snapshot or self._bytes_since_snapshot == 0 or self._behind or self._loader.in_transaction:
            return
        interval_ms = self.config.max_snapshot_interval_ms
        by_size = self._bytes_since_snapshot >= self.config.max_bytes_between_snapshots
        by_time = interval_ms > 0 and self._now_ms - self._last_snapshot_ms >= interval_ms
        if not (by_size or by_time) or self.applied_offset <= self._log.start_offset:
            return
        self._creating_snapshot = True
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = self._now_ms
        offset = self.applied_offset
        self._effects.append(
            CreateSnapshot(
                OffsetAndEpoch(offset, self._log.epoch_of(offset - 1)),
                self.image,
                self._last_timestamp,
                self.raft.kraft_version_at(offset),
                self.raft.voters_at(offset),
            )
        )
