"""What raft asks of a log: the protocol that storage, the simulator and the tests implement.

The log is a sequence of record batches (magic 2). Mutators change memory only; what makes them durable is `flush`, which
the runtime calls on its I/O thread after a `Flush` effect, followed by a `Flushed` event. Raft never truncates or
replaces the log while a flush is under way: a node fetches only when everything it has is durable, and only a fetch
leads to a truncation. So `flush` may run beside `append` and `read`, and beside nothing else.

Source: RaftLog and SnapshotWriter of Kafka 4.3.1; KIP-595, KIP-630.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class OffsetAndEpoch:
    """An end offset (exclusive) and the epoch of the record just before it; ordered by epoch, then offset."""

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
"""The checkpoint that `format` writes: the voter set before the first record. Never sent to a peer."""


class SnapshotSink(Protocol):
    """A snapshot being written. Visible to nobody before `freeze`."""

    @property
    def id(self) -> OffsetAndEpoch:
        """The snapshot's end offset and epoch."""

    @property
    def size(self) -> int:
        """Bytes appended so far."""

    def append(self, data: bytes) -> None:
        """Add bytes at the end; they need not be aligned with batches. Raises ValueError when frozen."""

    def freeze(self) -> None:
        """Make the snapshot durable and visible. A second call does nothing."""

    def abort(self) -> None:
        """Throw away what was written; does nothing after `freeze`."""


class RaftLog(Protocol):
    """A replicated log and its snapshots. Offsets count records, sizes are bytes, times are ms."""

    @property
    def start_offset(self) -> int:
        """First offset that the log may hold; above 0 only with a snapshot at or above it."""

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""

    @property
    def flushed_offset(self) -> int:
        """Everything below it is on disk. Never above `end_offset`; a truncation lowers it."""

    @property
    def last_epoch(self) -> int:
        """Epoch of the last batch, else of the latest snapshot, else 0."""

    def append(self, batches: bytes) -> None:
        """Add whole raw batches that begin at `end_offset`, with epochs that do not decrease.

        Raises AssertionError when they do not fit: the caller has checked bytes that came from a peer.
        """

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds `offset`: as many as fit, at least one if there is any.

        b"" at the end. Raises ValueError below `start_offset` or above `end_offset`.
        """

    def control_batches(self, offset: int) -> Iterator[bytes]:
        """Each raw control batch at or after `offset`, in order: what a start needs to find the voters."""

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch <= `epoch` in the log (or its oldest snapshot), and where that epoch ends.

        An epoch below all known ones answers (start_offset, epoch): so Kafka's KafkaRaftLog has it.
        """

    def epoch_of(self, offset: int) -> int:
        """Epoch of the record at `offset`; at `start_offset` - 1 the epoch of the snapshot there.

        Raises ValueError outside that range.
        """

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that ends above `offset`. Raises AssertionError below `start_offset`."""

    def truncate_fully_to_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Empty the log so that it begins at the snapshot, and drop older snapshots."""

    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The newest whole snapshot; 0-0 counts."""

    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The oldest whole snapshot; 0-0 counts."""

    def snapshot_ids(self) -> Sequence[OffsetAndEpoch]:
        """All whole snapshots, oldest first."""

    def read_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> tuple[bytes, int] | None:
        """(bytes from `position`, total size), or None when there is no such snapshot."""

    def begin_snapshot(self, snapshot_id: OffsetAndEpoch) -> SnapshotSink:
        """Start a snapshot of this id; one left unfinished under the same id is replaced."""

    def clean(self, retention_bytes: int, retention_ms: int, now_ms: int) -> bool:
        """Drop old snapshots and the log below the oldest one kept (KIP-630). True when something went.

        Never the newest snapshot. A negative limit is no limit.
        """
