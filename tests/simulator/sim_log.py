"""The virtual disk of one node: a log whose unflushed end a crash takes, whole or in part."""

from bisect import bisect_left
from typing import TYPE_CHECKING

from kraft_core.protocol.control_records import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    encode_control,
)
from kraft_core.protocol.record_batch import encode_batch, read_batches
from kraft_core.raft.memory_raft_log import MemoryRaftLog
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.raft.voter_set import VoterSet

if TYPE_CHECKING:
    from tests.simulator.sim_node import SimNode


class SimLog(MemoryRaftLog):
    """Tells the oracle of every append and truncation."""

    def __init__(self, node: "SimNode") -> None:
        super().__init__()
        self.node = node
        self.flushing_to = -1
        self.truncations = 0
        self.snapshots_installed = 0

    def append(self, batches: bytes) -> None:
        count, epoch = len(self.batches), self.last_epoch
        super().append(batches)
        for batch in self.batches[count:]:
            self.node.new_batches.append((batch, epoch))
            epoch = batch.leader_epoch

    def truncate_to(self, offset: int) -> None:
        assert self.flushing_to < 0, "The log must not be truncated while a flush is under way."
        if offset < self.end_offset:
            self.node.oracle.on_truncate(self.node, offset)
            self.truncations += 1
        super().truncate_to(offset)

    def truncate_fully_to_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        assert self.flushing_to < 0, "The log must not be replaced while a flush is under way."
        super().truncate_fully_to_snapshot(snapshot_id)
        self.snapshots_installed += 1

    def index_of(self, offset: int) -> int:
        """Index of the batch that begins at `offset`."""
        return bisect_left(self._bases, offset)

    def flush_up_to(self, offset: int) -> None:
        """A flush that began when the log ended at `offset` is done."""
        self.flushed_offset = max(self.flushed_offset, min(offset, self.end_offset))


def snapshot_bytes(snapshot_id: OffsetAndEpoch, kraft_version: int, voters: VoterSet, values: list[bytes]) -> bytes:
    """A snapshot as Kafka lays it out: header batch, data, footer."""
    head = [encode_control(SnapshotHeaderRecord())]
    if kraft_version > 0:
        head.append(encode_control(KRaftVersionRecord(kraft_version=kraft_version)))
        head.append(encode_control(voters.to_record()))
    parts = [_control(0, snapshot_id.epoch, head)]
    offset = len(head)
    if values:
        parts.append(encode_batch(offset, snapshot_id.epoch, 0, values))
        offset += len(values)
    parts.append(_control(offset, snapshot_id.epoch, [encode_control(SnapshotFooterRecord())]))
    return b"".join(parts)


def _control(offset: int, epoch: int, pairs: list[tuple[bytes, bytes]]) -> bytes:
    return encode_batch(offset, epoch, 0, [value for _, value in pairs], control_keys=[key for key, _ in pairs])


def snapshot_values(data: bytes) -> list[bytes]:
    """The data records of a snapshot."""
    return [value for batch in read_batches(data) if not batch.is_control for value in batch.values()]
