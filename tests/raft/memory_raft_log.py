"""A RaftLog in memory whose flush is lossy on demand, for the simulator and for tests."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from kraft_core.protocol.record_batch import RecordBatch, read_batches
from kraft_core.raft.raft_log import OffsetAndEpoch


class MemorySnapshotSink:
    """Collects a snapshot's bytes; `freeze` hands them to the log."""

    __slots__ = ("_data", "_is_done", "_log", "id")

    def __init__(self, log: "MemoryRaftLog", snapshot_id: OffsetAndEpoch) -> None:
        self.id = snapshot_id
        self._log = log
        self._data = bytearray()
        self._is_done = False

    @property
    def size(self) -> int:
        """Bytes so far."""
        return len(self._data)

    def append(self, data: bytes) -> None:
        """Add bytes. Raises ValueError when frozen or aborted."""
        if self._is_done:
            raise ValueError(f"Snapshot {self.id} is closed.")
        self._data += data

    def freeze(self) -> None:
        """Make it visible."""
        if not self._is_done:
            self._is_done = True
            self._log.snapshots[self.id] = bytes(self._data)

    def abort(self) -> None:
        """Forget it."""
        self._is_done = True


class MemoryRaftLog:
    """Batches in a list. What `flush` has not covered is lost by `crash`."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.flushed_offset = 0
        self.batches: list[RecordBatch] = []
        self.snapshots: dict[OffsetAndEpoch, bytes] = {}
        self._bases: list[int] = []
        self._epochs: list[tuple[int, int]] = []  # (epoch, offset of its first record)

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        return self.batches[-1].last_offset + 1 if self.batches else self.start_offset

    @property
    def last_epoch(self) -> int:
        """Epoch of the last batch, else of the latest snapshot, else 0."""
        if self.batches:
            return self.batches[-1].leader_epoch
        latest = self.latest_snapshot_id()
        return 0 if latest is None else latest.epoch

    def append(self, batches: bytes) -> None:
        """Add whole batches. Raises AssertionError when they do not fit."""
        for batch in read_batches(batches, verify_crc=False):
            assert batch.base_offset == self.end_offset, f"{batch.base_offset} does not follow {self.end_offset}."
            assert batch.leader_epoch >= self.last_epoch, f"Epoch {batch.leader_epoch} is below {self.last_epoch}."
            if not self._epochs or batch.leader_epoch > self._epochs[-1][0]:
                self._epochs.append((batch.leader_epoch, batch.base_offset))
            self.batches.append(batch)
            self._bases.append(batch.base_offset)

    def flush(self) -> int:
        """Make all of the log durable; returns the durable end."""
        self.flushed_offset = self.end_offset
        return self.flushed_offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return whole batches from the one that contains `offset`. Raises ValueError out of range."""
        if not self.start_offset <= offset <= self.end_offset:
            raise ValueError(f"Offset {offset} is outside {self.start_offset}-{self.end_offset}.")
        if offset == self.end_offset:
            return b""
        found: list[bytes] = []
        for index in range(bisect_right(self._bases, offset) - 1, len(self.batches)):
            raw = self.batches[index].raw
            max_bytes -= len(raw)
            if max_bytes < 0 and found:
                break
            found.append(raw)
        return found[0] if len(found) == 1 else b"".join(found)

    def control_batches(self, offset: int) -> Iterator[bytes]:
        """Raw control batches at or after `offset`."""
        for batch in self.batches[bisect_left(self._bases, offset) :]:
            if batch.is_control:
                yield batch.raw

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Where the largest epoch <= `epoch` ends."""
        index = bisect_right(self._epochs, epoch, key=lambda entry: entry[0])
        if index < len(self._epochs):
            end_offset = self._epochs[index][1]
            if index > 0:
                return OffsetAndEpoch(end_offset, self._epochs[index - 1][0])
            earliest = self.earliest_snapshot_id()
            if earliest is not None and earliest.offset == end_offset and earliest.epoch <= epoch:
                return earliest
            return OffsetAndEpoch(end_offset, epoch)
        return OffsetAndEpoch(self.end_offset, self.last_epoch)

    def epoch_of(self, offset: int) -> int:
        """Epoch of the record at `offset`. Raises ValueError out of range."""
        if self.start_offset <= offset < self.end_offset:
            return self.batches[bisect_right(self._bases, offset) - 1].leader_epoch
        for snapshot_id in self.snapshots:
            if snapshot_id.offset == offset + 1:
                return snapshot_id.epoch
        raise ValueError(f"Offset {offset} is outside {self.start_offset}-{self.end_offset}.")

    def truncate_to(self, offset: int) -> None:
        """Drop the batches that end above `offset`."""
        assert offset >= self.start_offset, f"{offset} is below the log's start {self.start_offset}."
        while self.batches and self.batches[-1].last_offset >= offset:
            del self.batches[-1], self._bases[-1]
        while self._epochs and self._epochs[-1][1] >= self.end_offset:
            del self._epochs[-1]
        self.flushed_offset = min(self.flushed_offset, self.end_offset)

    def truncate_fully_to_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Empty the log so that it begins at the snapshot."""
        assert snapshot_id in self.snapshots, f"{snapshot_id} is no snapshot."
        self.batches.clear()
        self._bases.clear()
        self._epochs.clear()
        self.start_offset = self.flushed_offset = snapshot_id.offset
        self.snapshots = {snapshot_id: self.snapshots[snapshot_id]}

    def snapshot_ids(self) -> Sequence[OffsetAndEpoch]:
        """All snapshots, oldest first."""
        return sorted(self.snapshots, key=lambda each: each.offset)

    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The newest snapshot."""
        return max(self.snapshots, key=lambda each: each.offset, default=None)

    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The oldest snapshot."""
        return min(self.snapshots, key=lambda each: each.offset, default=None)

    def read_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> tuple[bytes, int] | None:
        """(bytes, total size), or None."""
        data = self.snapshots.get(snapshot_id)
        return None if data is None else (data[position : position + max_bytes], len(data))

    def begin_snapshot(self, snapshot_id: OffsetAndEpoch) -> MemorySnapshotSink:
        """Start a snapshot."""
        return MemorySnapshotSink(self, snapshot_id)

    def drop_before(self, snapshot_id: OffsetAndEpoch) -> None:
        """Make `snapshot_id` the log's start."""
        assert self.start_offset <= snapshot_id.offset <= self.end_offset, f"{snapshot_id} is not within the log."
        count = bisect_left(self._bases, snapshot_id.offset)
        del self.batches[:count], self._bases[:count]
        later = [entry for entry in self._epochs if entry[1] > snapshot_id.offset]
        if self.batches and (not later or later[0][1] != self.batches[0].base_offset):
            later.insert(0, (self.batches[0].leader_epoch, self.batches[0].base_offset))
        self._epochs = later
        self.start_offset = snapshot_id.offset
        self.flushed_offset = max(self.flushed_offset, snapshot_id.offset)
        self.snapshots = {each: data for each, data in self.snapshots.items() if each.offset >= snapshot_id.offset}

    def crash(self, kept_offset: int) -> None:
        """Lose what was not flushed, but for the batches below `kept_offset`, which happened to reach the disk."""
        assert kept_offset >= self.flushed_offset, f"What is below {self.flushed_offset} is durable."
        self.truncate_to(max(kept_offset, self.start_offset))
        self.flushed_offset = self.end_offset
