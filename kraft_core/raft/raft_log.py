"""The log interface that raft needs; storage, the simulator and the tests implement it.

The log is a sequence of record batches (magic 2). Mutators change memory only. `flush` makes the changes durable: the
runtime calls it on its I/O thread after a `Flush` effect and reports its end with a `Flushed` event. Raft never
truncates or replaces the log during a flush: a node fetches only when its whole log is durable, and only a fetch leads
to a truncation. So `flush` may run concurrently with `append` and `read` only.

Source: RaftLog and SnapshotWriter of Kafka 4.3.1; KIP-595, KIP-630.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class OffsetAndEpoch:
    """An end offset (exclusive) and the epoch of the record before it; ordered by epoch, then offset."""

    offset: int
    epoch: int

    def __lt__(self, other: "OffsetAndEpoch") -> bool:
        return (self.epoch, self.offset) < (other.epoch, other.offset)

    def __le__(self, other: "OffsetAndEpoch") -> bool:
        return (self.epoch, self.offset) <= (other.epoch, other.offset)

    def __gt__(self, other: "OffsetAndEpoch") -> bool:
        return (self.epoch, self.offset) > (other.epoch, other.offset)

    def __ge__(self, other: "OffsetAndEpoch") -> bool:
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


BOOTSTRAP_SNAPSHOT_ID = OffsetAndEpoch(0, 0)
"""The checkpoint that `format` writes: the voter set before the first record. It is never sent to a peer."""


class SnapshotSink(Protocol):
    """A snapshot being written; it becomes visible with `freeze`."""

    @property
    def id(self) -> OffsetAndEpoch:
        """The snapshot's end offset and epoch."""

    @property
    def size(self) -> int:
        """Bytes appended so far."""

    def append(self, data: bytes) -> None:
        """Append bytes, which need not end at a batch boundary. Raises ValueError when frozen."""

    def freeze(self) -> None:
        """Make the snapshot durable and visible. A second call does nothing."""

    def abort(self) -> None:
        """Delete what was written; does nothing after `freeze`."""


class RaftLog(Protocol):
    """A replicated log and its snapshots. Offsets count records, sizes are in bytes, times in ms."""

    @property
    def start_offset(self) -> int:
        """First offset that the log may contain; above 0 only with a snapshot at or above it."""

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""

    @property
    def flushed_offset(self) -> int:
        """All records below it are on disk. Never above `end_offset`; a truncation lowers it."""

    @property
    def last_epoch(self) -> int:
        """Epoch of the last batch, else of the latest snapshot, else 0."""

    def append(self, batches: bytes) -> None:
        """Append whole raw batches that begin at `end_offset`, with epochs that do not decrease.

        Raises AssertionError when they do not fit: the caller must check bytes from a peer first.
        """

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return whole batches from the one that contains `offset`: as many as fit, at least one if there is any.

        b"" at the end. Raises ValueError below `start_offset` or above `end_offset`.
        """

    def control_batches(self, offset: int) -> Iterator[bytes]:
        """Yield the raw control batches at or after `offset` in order; a starting node finds the voters in them."""

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Return the largest epoch <= `epoch` in the log (or its oldest snapshot) and its end offset.

        For an epoch below all known ones return (start_offset, epoch), as Kafka's KafkaRaftLog does.
        """

    def epoch_of(self, offset: int) -> int:
        """Return the epoch of the record at `offset`; for `start_offset` - 1 the epoch of the snapshot there.

        Raises ValueError outside that range.
        """

    def truncate_to(self, offset: int) -> None:
        """Remove every batch that ends above `offset`. Raises AssertionError below `start_offset`."""

    def truncate_fully_to_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Empty the log so that it begins at the snapshot, and remove older snapshots."""

    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        """Return the newest complete snapshot; 0-0 counts."""

    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        """Return the oldest complete snapshot; 0-0 counts."""

    def snapshot_ids(self) -> Sequence[OffsetAndEpoch]:
        """Return all complete snapshots, oldest first."""

    def read_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> tuple[bytes, int] | None:
        """Return (bytes from `position`, total size); None when there is no such snapshot."""

    def begin_snapshot(self, snapshot_id: OffsetAndEpoch) -> SnapshotSink:
        """Start a snapshot of this id, replacing an incomplete one."""

    def clean(self, retention_bytes: int, retention_ms: int, now_ms: int) -> bool:
        """Remove old snapshots, and the log below the oldest one kept (KIP-630). Return whether anything was removed.

        The newest snapshot is always kept. A negative limit means no limit.
        """
