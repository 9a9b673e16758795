"""KafkaRaftLog: the metadata log on disk, in Kafka's format, as raft's `RaftLog`.

Threads
-------
The owner loop calls everything except `flush`: mutators change the logical state (segments, epochs, the tail in memory)
and put the file operations into a queue (log_writer). The I/O thread calls `flush`: it carries out the operations that
were queued when it began, in order, syncs, and then raises `flushed_offset`. The owner may append, read and clean
during a flush, but not truncate (raft_log.py says why it never needs to).

Reads
-----
A batch in the tail is read from memory (always, until it is flushed), others from the file by pread.

Failures
--------
After a failed write or sync every later flush raises the same error, nothing more is acknowledged, and the next open
removes what the failure left half-written.

Source: KafkaRaftLog, UnifiedLog, LocalLog, Kafka 4.3.1; KIP-595, KIP-630.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kraft_core.protocol.batch_header import HEADER_BYTES, MAGIC, read_header
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.storage.batch_scan import REPAIR
from kraft_core.storage.files import OPERATING_SYSTEM, FileSystem, StorageError, storage_errors
from kraft_core.storage.log_segment import LogSegment
from kraft_core.storage.log_writer import Append, Create, Cut, LogWriter, Lower, Remove, Roll, WriteEpochs
from kraft_core.storage.recovery import PARTITION_DIRECTORY, RecoveredLog, prepare_directory, recover_segments
from kraft_core.storage.snapshots import FileSnapshotSink, SnapshotStore
from kraft_core.storage.tail_cache import TailCache


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Limits of one metadata log. Defaults are Kafka's (MetadataLogConfig)."""

    segment_bytes: int = 1024 * 1024 * 1024  # metadata.log.segment.bytes
    segment_ms: int = 7 * 24 * 3600 * 1000  # metadata.log.segment.ms
    cache_bytes: int = 8 * 1024 * 1024  # flushed batches kept in memory


class KafkaRaftLog:
    """The log of __cluster_metadata-0 in one directory. Create it with `open`."""

    def __init__(self, directory: Path, config: LogConfig, recovered: RecoveredLog, snapshots: SnapshotStore) -> None:
        self._files = snapshots.files
        self._directory = directory
        self._config = config
        self._segments = recovered.segments
        self._epochs = recovered.epochs
        self._control_offsets = recovered.control_offsets
        self._flushed = recovered.flushed
        self._snapshots = snapshots
        self._active = self._segments[-1]
        self._start_offset = self._segments[0].base_offset
        self._end_offset = self._active.end_offset
        self._last_epoch = self._epochs.latest or 0
        self._flushed_offset = self._end_offset
        self._tail = TailCache(config.cache_bytes)
        self._writer = LogWriter(self._files, directory, recovered.flushed)
        self._is_flushing = False

    @classmethod
    def open(cls, metadata_dir: Path, config: LogConfig | None = None, files: FileSystem = OPERATING_SYSTEM) -> Self:
        """Open or create the log below `metadata_dir` (metadata.log.dir) and recover it.

        Memory use does not depend on the log's size. If the newest snapshot is ahead of the log, as after a crash
        between the two, the log is emptied to begin there. Raises CorruptFile and StorageError.
        """
        directory = metadata_dir / PARTITION_DIRECTORY
        prepare_directory(files, directory)
        recovered = recover_segments(files, directory)
        try:
            snapshots = SnapshotStore(directory, files)
            snapshots.load()
            log = cls(directory, config or LogConfig(), recovered, snapshots)
            log._settle_snapshots(recovered)
        except BaseException:
            recovered.close()
            raise
        return log

    def _settle_snapshots(self, recovered: RecoveredLog) -> None:
        """Make the log and the snapshots consistent after a crash. Source: KafkaRaftLog.createLog."""
        latest = self.latest_snapshot_id()
        if self._start_offset > 0 and (latest is None or latest.offset < self._start_offset):
            raise StorageError(
                f"Inconsistent snapshot state in {self._directory}: there must be a snapshot at an offset larger "
                "than the "
                f"current log start offset {self._start_offset}, but the latest snapshot is "
                f"{latest}{self._snapshots.ignored}"
            )
        lost = recovered.lost_offset(self._end_offset, latest)
        if lost is not None:
            raise StorageError(
                f"The log in {self._directory} (offsets {self._start_offset} to {self._end_offset}) does not hold "
                "what was "
                f"on disk up to offset {lost}: segment files (*.log) were removed, emptied, cut or replaced. {REPAIR}"
            )
        if latest is not None:
            log_end = OffsetAndEpoch(self._end_offset, self._epochs.latest or 0)
            if latest > log_end:
                self.truncate_fully_to_snapshot(latest)
            elif self._start_offset > 0:
                oldest_kept = next(each for each in self._snapshots.ids if each.offset >= self._start_offset)
                self._writer.put(Remove((), tuple(self._snapshots.forget_before(oldest_kept))))
        self._last_epoch = self._current_epoch()
        self._writer.put(WriteEpochs(self._epochs.checkpoint_text()))
        self.flush()
        self._flushed.raise_to(OffsetAndEpoch(self._end_offset, self._last_epoch))

    # Reading

    @property
    def start_offset(self) -> int:
        """First offset that the log may contain."""
        return self._start_offset

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        return self._end_offset

    @property
    def flushed_offset(self) -> int:
        """All records below it are on disk."""
        return self._flushed_offset

    @property
    def last_epoch(self) -> int:
        """Epoch of the last batch, else of the latest snapshot, else 0."""
        return self._last_epoch

    @property
    def size(self) -> int:
        """Size of all segments in bytes."""
        return sum(segment.size for segment in self._segments)

    def _current_epoch(self) -> int:
        epoch = self._epochs.latest
        if epoch is not None:
            return epoch
        latest = self.latest_snapshot_id()
        return latest.epoch if latest is not None else 0

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return whole batches from the one that contains `offset`; see RaftLog. Raises ValueError, StorageError."""
        if offset == self._end_offset:
            return b""
        if not self._start_offset <= offset < self._end_offset:
            raise ValueError(f"Offset {offset} is outside the log [{self._start_offset}, {self._end_offset}].")
        cached = self._tail.start_offset
        if cached is not None and offset >= cached:
            return self._tail.read(offset, max_bytes)
        segment = self._segments[bisect_right(self._segments, offset, key=_base_offset) - 1]
        return segment.read(offset, max_bytes, self._written_limit(segment))

    def _written_limit(self, segment: LogSegment) -> int:
        """Return the file position up to which a segment may be read: the start of the tail in memory, else its end."""
        cached = self._tail.start_offset
        if cached is not None and segment.base_offset <= cached < segment.end_offset:
            return self._tail.start_position
        return segment.size

    def control_batches(self, offset: int) -> Iterator[bytes]:
        """Yield the raw control batches at or after `offset`, in order."""
        for base in self._control_offsets[bisect_left(self._control_offsets, offset) :]:
            if base >= self._start_offset:
                yield self.read(base, 1)

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Return the largest epoch <= `epoch` and its end offset. Source: KafkaRaftLog.endOffsetForEpoch."""
        found = self._epochs.end_offset_for(epoch, self._end_offset)
        if found is None:
            return OffsetAndEpoch(self._end_offset, self._last_epoch)
        found_epoch, end = found
        earliest = self.earliest_snapshot_id()
        if earliest is not None and end == earliest.offset and found_epoch == epoch:
            return earliest  # below the log's first epoch: use the snapshot at its start
        return OffsetAndEpoch(end, found_epoch)

    def epoch_of(self, offset: int) -> int:
        """Return the epoch of the record at `offset`; for `start_offset` - 1 see RaftLog. Raises ValueError."""
        if self._start_offset <= offset < self._end_offset:
            epoch = self._epochs.epoch_for(offset)
            assert epoch is not None, offset
            return epoch
        if offset == self._start_offset - 1:
            for snapshot_id in self._snapshots.ids:
                if snapshot_id.offset == self._start_offset:
                    return snapshot_id.epoch
        raise ValueError(f"Offset {offset} is outside the log [{self._start_offset}, {self._end_offset}).")

    # Mutators

    def append(self, batches: bytes) -> None:
        """Append whole raw batches; see RaftLog. Raises AssertionError when they do not fit."""
        position, total = 0, len(batches)
        assert total, "an empty append"
        config = self._config
        while position < total:
            batch = read_header(batches, position)
            base, size, epoch = batch.base_offset, batch.size, batch.leader_epoch
            assert batch.magic == MAGIC, batch.magic
            assert size >= HEADER_BYTES, size
            assert position + size <= total, "a batch is cut"
            assert base == self._end_offset, f"batch at {base}, log end at {self._end_offset}"
            if epoch != self._epochs.latest:
                assert epoch >= self._last_epoch, f"epoch {epoch} after {self._last_epoch}"
                self._epochs.assign(epoch, base)
                self._last_epoch = epoch
                self._writer.put(WriteEpochs(self._epochs.checkpoint_text()))
            segment = self._active
            if segment.size and (
                segment.size + size > config.segment_bytes
                or batch.max_timestamp - segment.first_timestamp > config.segment_ms
            ):
                segment = self._roll()
            end = batch.last_offset + 1
            data = batches if size == total else batches[position : position + size]
            self._tail.append(base, segment.size, data)
            self._writer.put(Append(segment, segment.size, data, end, epoch))
            segment.add(batch)
            if batch.is_control:
                self._control_offsets.append(base)
            self._end_offset = end
            position += size
        if self._tail.is_over:
            self._tail.evict(self._flushed_offset)

    def _roll(self) -> LogSegment:
        segment = LogSegment(self._files, self._directory, self._end_offset)
        self._writer.put(Roll(self._active, segment))
        self._segments.append(segment)
        self._active = segment
        return segment

    def truncate_to(self, offset: int) -> None:
        """Remove every batch that ends above `offset`. Raises AssertionError below the start or during a flush."""
        assert offset >= self._start_offset, (offset, self._start_offset)
        assert not self._is_flushing, "truncation during a flush"
        if offset >= self._end_offset:
            return
        keep = bisect_right(self._segments, offset, key=_base_offset)
        removed = self._segments[keep:]
        segment = self._segments[keep - 1]
        if offset < segment.end_offset:
            base, position = self._locate(segment, offset)
            segment.truncate_to(position, base)
        del self._segments[keep:]
        self._active = segment
        self._end_offset = segment.end_offset
        self._flushed_offset = min(self._flushed_offset, self._end_offset)
        self._tail.truncate_from(self._end_offset)
        self._epochs.truncate_from_end(self._end_offset)
        del self._control_offsets[bisect_left(self._control_offsets, self._end_offset) :]
        self._last_epoch = self._current_epoch()
        # Newest first: wherever a crash interrupts this, the rest is a prefix without a gap.
        end = OffsetAndEpoch(self._end_offset, self._last_epoch)
        self._writer.put(Lower(end))
        self._writer.put(Remove(tuple(reversed(removed))))
        self._writer.put(Cut(segment, segment.size, end))
        self._writer.put(WriteEpochs(self._epochs.checkpoint_text()))

    def _locate(self, segment: LogSegment, offset: int) -> tuple[int, int]:
        """Return (base offset, file position) of the batch that contains `offset`."""
        cached = self._tail.start_offset
        if cached is not None and offset >= cached:
            return self._tail.locate(offset)
        with storage_errors("read", segment.path):
            position, base, _ = segment.find(offset, self._written_limit(segment))
        return base, position

    def truncate_fully_to_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Empty the log so that it begins at the snapshot, which is on disk, and remove older snapshots."""
        assert not self._is_flushing, "truncation during a flush"
        assert snapshot_id in self._snapshots.ids, snapshot_id
        removed = tuple(reversed(self._segments))
        self._active = LogSegment(self._files, self._directory, snapshot_id.offset)
        self._segments = [self._active]
        self._start_offset = self._end_offset = self._flushed_offset = snapshot_id.offset
        self._tail.clear()
        self._epochs.clear()
        self._control_offsets.clear()
        self._last_epoch = self._current_epoch()
        # After a crash in between, the log is a prefix that ends before the snapshot, and the next open repeats this.
        self._writer.put(Lower(snapshot_id))
        self._writer.put(Remove(removed))
        self._writer.put(Create(self._active, snapshot_id))
        self._writer.put(Remove((), tuple(self._snapshots.forget_before(snapshot_id))))
        self._writer.put(WriteEpochs(self._epochs.checkpoint_text()))

    # Snapshots

    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        """Return the newest complete snapshot."""
        ids = self._snapshots.ids
        return ids[-1] if ids else None

    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        """Return the oldest complete snapshot."""
        ids = self._snapshots.ids
        return ids[0] if ids else None

    def snapshot_ids(self) -> Sequence[OffsetAndEpoch]:
        """Return all complete snapshots, oldest first."""
        return self._snapshots.ids

    def read_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> tuple[bytes, int] | None:
        """Return (bytes from `position`, total size) or None. Raises CorruptFile before a damaged byte is served."""
        return self._snapshots.read(snapshot_id, position, max_bytes)

    def begin_snapshot(self, snapshot_id: OffsetAndEpoch) -> FileSnapshotSink:
        """Start a snapshot; its `append` and `freeze` may be called on another thread."""
        return self._snapshots.begin(snapshot_id)

    def clean(self, retention_bytes: int, retention_ms: int, now_ms: int) -> bool:
        """Remove the oldest snapshots while a limit is exceeded, and the segments below the oldest one kept.

        The newest snapshot is always kept; a negative limit means no limit. Return whether anything was removed. The
        next flush deletes the files. Source: KafkaRaftLog.maybeClean; KIP-630.
        """
        ids = self._snapshots.ids
        keep = 0
        while keep + 1 < len(ids) and (
            self._is_older(ids[keep], retention_ms, now_ms) or 0 <= retention_bytes < self._size_from(ids, keep)
        ):
            keep += 1
        if keep:
            self._advance_start(ids[keep])
        return keep > 0

    def _is_older(self, snapshot_id: OffsetAndEpoch, retention_ms: int, now_ms: int) -> bool:
        timestamp_ms = self._snapshots.timestamp_ms(snapshot_id)
        return retention_ms >= 0 and timestamp_ms is not None and now_ms - timestamp_ms > retention_ms

    def _size_from(self, ids: Sequence[OffsetAndEpoch], keep: int) -> int:
        """Return the bytes that remain if `ids[keep]` is the oldest snapshot kept (0: all are kept)."""
        removed = self._below(ids[keep].offset) if keep else []
        return self.size - sum(segment.size for segment in removed) + sum(map(self._snapshots.size, ids[keep:]))

    def _below(self, offset: int) -> list[LogSegment]:
        """Return the segments entirely below `offset`, without the active one."""
        return [segment for segment in self._segments[:-1] if segment.end_offset <= offset]

    def _advance_start(self, snapshot_id: OffsetAndEpoch) -> None:
        paths = self._snapshots.forget_before(snapshot_id)
        removed = self._below(snapshot_id.offset)
        del self._segments[: len(removed)]
        self._start_offset = max(self._start_offset, snapshot_id.offset)
        self._epochs.truncate_from_start(self._start_offset)
        del self._control_offsets[: bisect_left(self._control_offsets, self._start_offset)]
        self._writer.put(Remove(tuple(removed), tuple(paths)))
        self._writer.put(WriteEpochs(self._epochs.checkpoint_text()))

    # Durability

    def flush(self) -> int:
        """Make everything appended before this call durable; return the new `flushed_offset`.

        The I/O thread calls it, once at a time. Raises StorageError (full disk, read-only, I/O error): then nothing of
        this flush counts, and every later call raises the same error.
        """
        assert not self._is_flushing, "two flushes at once"
        self._is_flushing = True
        try:
            end = self._writer.flush()
            if end is not None:
                self._flushed_offset = end
        finally:
            self._is_flushing = False
        return self._flushed_offset

    def close(self) -> None:
        """Flush, write the index files for Kafka's tools, and close. Raises StorageError when the flush fails."""
        try:
            if not self._writer.has_failed:
                self.flush()
                with storage_errors("write", self._directory):
                    self._active.write_indexes()
        finally:
            self._snapshots.close()
            self._flushed.close()
            for segment in self._segments:
                segment.close()


def _base_offset(segment: LogSegment) -> int:
    return segment.base_offset
