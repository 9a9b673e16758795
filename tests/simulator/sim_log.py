"""The real log on a virtual disk, and a list of its batches for the oracle."""

from bisect import bisect_left
from pathlib import Path
from typing import TYPE_CHECKING

from kraft_core.protocol.record_batch import RecordBatch, read_batches
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.storage.kafka_raft_log import KafkaRaftLog, LogConfig
from kraft_core.storage.log_writer import Operation
from kraft_core.storage.recovery import RecoveredLog
from kraft_core.storage.snapshots import FileSnapshotSink, SnapshotStore

if TYPE_CHECKING:
    from tests.simulator.sim_node import SimNode


class SimLog(KafkaRaftLog):
    """Reports every append and truncation to the oracle. A flush covers the batches that existed at its start."""

    def __init__(self, directory: Path, config: LogConfig, recovered: RecoveredLog, snapshots: SnapshotStore) -> None:
        self.batches: list[RecordBatch] = []
        self.bases: list[int] = []
        self.node: SimNode | None = None
        self._flush_size = -1  # operations of the current flush; -1: none
        self.is_installing = False  # from the first byte of a leader's snapshot until the replaced log is deleted
        self._has_installed = False  # the next flush deletes the files of the replaced log
        super().__init__(directory, config, recovered, snapshots)

    def observe(self, node: "SimNode") -> None:
        """Report to the node from now on, first the batches on disk."""
        self.node = node
        offset, epoch = self.start_offset, None
        while offset < self.end_offset:
            for batch in read_batches(self.read(offset, 1 << 20)):
                self._show(batch, epoch)
                offset, epoch = batch.last_offset + 1, batch.leader_epoch

    def _show(self, batch: RecordBatch, epoch_before: int | None) -> None:
        assert self.node is not None
        self.batches.append(batch)
        self.bases.append(batch.base_offset)
        self.node.new_batches.append((batch, epoch_before))

    def append(self, batches: bytes) -> None:
        epoch = self.last_epoch
        super().append(batches)
        for batch in read_batches(batches, verify_crc=False):
            self._show(batch, epoch)
            epoch = batch.leader_epoch

    def truncate_to(self, offset: int) -> None:
        assert not self.is_flush_under_way, "The log must not be truncated while a flush is under way."
        assert self.node is not None
        if offset < self.end_offset:
            self.node.oracle.on_truncate(self.node, offset)
            self.node.truncations += 1
        super().truncate_to(offset)
        self._forget_from(self.end_offset)

    def begin_snapshot(self, snapshot_id: OffsetAndEpoch) -> FileSnapshotSink:
        node = self.node
        if node is None or snapshot_id <= OffsetAndEpoch(self.end_offset, self.last_epoch):
            return super().begin_snapshot(snapshot_id)
        self.is_installing = True
        node.reach_stage("download")
        sink = super().begin_snapshot(snapshot_id)
        freeze = sink.freeze

        def install() -> None:
            node.reach_stage("install")
            freeze()

        sink.freeze = install  # type: ignore[method-assign]  # raft calls it after the last byte
        return sink

    def truncate_fully_to_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        assert not self.is_flush_under_way, "The log must not be replaced while a flush is under way."
        super().truncate_fully_to_snapshot(snapshot_id)
        self._forget_from(0)
        if self.node is not None:
            self._has_installed = True
            self.node.snapshots_installed += 1

    def _forget_from(self, offset: int) -> None:
        keep = bisect_left(self.bases, offset)
        del self.batches[keep:], self.bases[keep:]

    def index_of(self, offset: int) -> int:
        """Return the index of the batch that starts at `offset`."""
        return bisect_left(self.bases, offset)

    @property
    def segment_paths(self) -> list[Path]:
        """The paths of the segments."""
        return [segment.path for segment in self._segments]

    # --- the I/O thread ---------------------------------------------------------------------------------------------

    @property
    def is_flush_under_way(self) -> bool:
        """Whether a flush is in progress."""
        return self._flush_size >= 0

    def begin_flush(self) -> None:
        """Start a flush of the queued operations."""
        assert not self.is_flush_under_way, "Two flushes at a time."
        self._flush_size = len(self._writer.pending)

    def end_flush(self) -> int:
        """Complete the flush and return the durable end of the log. Raises StorageError, Crashed."""
        pending = self._writer.pending
        later: list[Operation] = [pending.pop() for _ in range(len(pending) - self._flush_size)]
        self._flush_size = -1
        try:
            end = self.flush()
            if self._has_installed:
                self.is_installing = self._has_installed = False
            return end
        finally:
            pending.extend(reversed(later))
