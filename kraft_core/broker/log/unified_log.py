"""One partition's log: a chain of segments with producer state, leader epochs and a log start offset.

The log belongs to the event loop's thread. Reads return (file, position, size), so that another thread can read the
bytes. The log manager runs what may block (flushing, deletion, compaction) on other threads.

Source: UnifiedLog and LocalLog, Kafka 4.3.1.
"""

import bisect
import logging
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraft_core.broker.log.checkpoints import write_leader_epochs
from kraft_core.broker.log.log_config import LogConfig
from kraft_core.broker.log.log_dir_failure_channel import is_full
from kraft_core.broker.log.log_segment import LogSegment, new_segment
from kraft_core.broker.log.log_validator import ProducedBatch, stamp
from kraft_core.broker.log.producer_state_manager import ProducerStateManager
from kraft_core.broker.slices import Work
from kraft_core.protocol.batch_header import BatchHeader, read_header
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.record_batch import RecordBatch, read_batches
from kraft_core.storage.leader_epochs import LeaderEpochs

log = logging.getLogger(__name__)

_HEADERS_A_STEP: Final = 256


@dataclass(frozen=True, slots=True)
class AppendInfo:
    """The result of an append. `log_append_time` is in ms, -1 with CreateTime.

    A duplicate was in the log already, so nothing was written.
    """

    first_offset: int
    last_offset: int
    log_append_time: int
    is_duplicate: bool = False


@dataclass(frozen=True, slots=True)
class LogSlice:
    """Bytes of a segment; `size` may be 0. A caller that reads later must duplicate `file_descriptor`."""

    file_descriptor: int
    position: int
    size: int

    def read(self) -> bytes:
        """Read the bytes on this thread."""
        return os.pread(self.file_descriptor, self.size, self.position) if self.size else b""


@dataclass(frozen=True, slots=True)
class TimestampAndOffset:
    """A record found by timestamp. `leader_epoch` is that of its batch, -1 when unknown."""

    timestamp: int
    offset: int
    leader_epoch: int


class UnifiedLog:
    """The segments, producer state and leader epochs of `topic`-`partition` in `directory`; see `log_loader.open_log`.

    Invariant: log_start_offset <= recovery_point <= log_end_offset. The offsets of segments increase; compaction leaves
    gaps.
    """

    def __init__(
        self,
        directory: Path,
        topic: str,
        partition: int,
        topic_id: uuid.UUID,
        config: LogConfig,
        segments: list[LogSegment],
        producers: ProducerStateManager,
        epochs: LeaderEpochs,
        log_start_offset: int,
        log_end_offset: int,
    ) -> None:
        assert segments, "a log has at least its active segment"
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.segments = segments
        self.producers = producers
        self.epochs = epochs
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = log_start_offset
        self.last_flush_ms = 0
        self.is_offline = False
        self.first_dirty_offset = 0  # end of the part that has been compacted
        self.on_failure: Callable[[str, OSError], None] = lambda operation, error: None
        self._bases = [segment.base_offset for segment in segments]

    @property
    def active(self) -> LogSegment:
        """The segment that appends go to."""
        return self.segments[-1]

    @property
    def size(self) -> int:
        """The size of all segments in bytes, without indexes."""
        return sum(segment.size for segment in self.segments)

    # -- append

    def append_produced(self, batch: ProducedBatch, leader_epoch: int, now_ms: int) -> AppendInfo:
        """Append a client's batch that `validate_produced` has checked. A duplicate gets the offsets of the first one.

        Raises KafkaError as `ProducerStateManager.check` does, and KAFKA_STORAGE_ERROR on a disk error.
        """
        header = batch.header
        if header.has_producer_id:
            known = self.producers.find_duplicate(header)
            if known is not None:
                timestamp = known.timestamp if self.config.log_append_time else -1
                return AppendInfo(known.first_offset, known.last_offset, timestamp, is_duplicate=True)
            self.producers.check(header)
        return self.append_stamped(batch.data, header, leader_epoch, now_ms)

    def append_stamped(self, data: bytes, header: BatchHeader, leader_epoch: int, now_ms: int) -> AppendInfo:
        """Append a valid batch, such as one of the broker's own. Raises KafkaError KAFKA_STORAGE_ERROR."""
        append_time = now_ms if self.config.log_append_time else None
        first_offset = self.log_end_offset
        stamped = stamp(data, header, first_offset, leader_epoch, append_time)
        written = read_header(stamped)
        self.check_online()
        try:
            # What may fail comes before the batch is in the file, so that it is registered whole or not at all.
            self._maybe_roll(written, now_ms)
            if leader_epoch != self.epochs.latest:
                self._begin_epoch(leader_epoch, first_offset)
            self.active.append(stamped, [written])
        except OSError as error:
            raise self.storage_error("append", error) from error
        self.log_end_offset = written.last_offset + 1
        self.producers.update(written)
        return AppendInfo(first_offset, written.last_offset, append_time if append_time is not None else -1)

    def _begin_epoch(self, leader_epoch: int, first_offset: int) -> None:
        """Record the start of an epoch, first in the file. Raises OSError without recording anything."""
        epochs = self.epochs.copy()
        epochs.assign(leader_epoch, first_offset)
        write_leader_epochs(self.directory, epochs)
        self.epochs = epochs

    def check_online(self) -> None:
        """Raise KafkaError KAFKA_STORAGE_ERROR if the log's directory has failed."""
        if self.is_offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"The log directory of {self.topic}-{self.partition} is offline."
            )

    def storage_error(self, operation: str, error: OSError) -> KafkaError:
        """Report a failed operation on this log, and return the error for clients."""
        self.on_failure(f"{operation} {self.topic}-{self.partition}", error)
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"Cannot {operation} {self.topic}-{self.partition}: {error.strerror or error}.",
        )

    def _maybe_roll(self, incoming: BatchHeader, now_ms: int) -> None:
        config = self.config
        max_ms = config.segment_ms
        if config.is_compacted:
            max_ms = min(max_ms, config.max_compaction_lag_ms)
        if self.active.should_roll(incoming, now_ms, max_bytes=config.segment_bytes, max_ms=max_ms):
            self.roll(now_ms)

    def roll(self, now_ms: int, *, keeps_old: bool = True) -> None:
        """Start a new active segment at the log's end, unless the active one is empty. On OSError the log is unchanged.

        Without `keeps_old` the old segment is about to be deleted, so nothing is written for it: the disk may be full.
        """
        if self.active.size == 0 and self.active.base_offset == self.log_end_offset:
            return
        segment = new_segment(self.directory, self.log_end_offset, self.config.index_interval_bytes, now_ms)
        try:
            if keeps_old:
                self.active.on_become_inactive()
                self.producers.take_snapshot(self.log_end_offset)
        except OSError:
            segment.close()
            raise
        self.segments.append(segment)
        self._bases.append(segment.base_offset)

    # -- read

    def _segment_index(self, offset: int) -> int:
        return max(0, bisect.bisect_right(self._bases, offset) - 1)

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool) -> LogSlice:
        """Find the batches from the one that contains `offset`, within one segment, `max_bytes` and `end_offset`.

        The slice may end inside a batch, as in Kafka. With `at_least_one` it contains the whole first batch, even if
        that is larger than `max_bytes`; without, the slice is empty if the first batch does not fit. Raises KafkaError
        OFFSET_OUT_OF_RANGE.
        """
        if offset < self.log_start_offset or offset > self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {offset} is not within {self.log_start_offset} to {self.log_end_offset}.",
            )
        if offset >= end_offset:
            return LogSlice(self.active.file_descriptor, 0, 0)
        for segment in self.segments[self._segment_index(offset) :]:
            found = segment.position_of(offset)
            if found is None:
                continue
            position, first = found
            if first.base_offset >= end_offset:
                break
            end = segment.size
            if end_offset < self.log_end_offset:
                limit = segment.position_of(end_offset)
                end = limit[0] if limit is not None else end
            size = min(max_bytes, end - position)
            if size < first.size:
                size = first.size if at_least_one else 0
            return LogSlice(segment.file_descriptor, position, size)
        return LogSlice(self.active.file_descriptor, 0, 0)

    def batches(self, from_offset: int) -> Iterator[RecordBatch]:
        """Yield the batches from the one that contains `from_offset`, read as needed."""
        for segment in list(self.segments[self._segment_index(from_offset) :]):
            for position, header in segment.batches(from_offset):
                yield from read_batches(segment.pread(header.size, position), verify_crc=False)

    def some_batches(self, from_offset: int, max_bytes: int) -> list[RecordBatch]:
        """Return about `max_bytes` of batches from the one that contains `from_offset`; none at the log's end."""
        found: list[RecordBatch] = []
        size = 0
        for batch in self.batches(from_offset):
            found.append(batch)
            size += batch.size
            if size >= max_bytes:
                break
        return found

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        """Yield the headers of the batches from the one that contains `from_offset`."""
        for segment in self.segments[self._segment_index(from_offset) :]:
            for _, header in segment.batches(from_offset):
                yield header

    def find_by_timestamp(self, timestamp: int) -> Work[TimestampAndOffset | None]:
        """Find the first record whose timestamp is at least `timestamp` ms, None if there is none.

        The work yields as `Slices` requires, since batches may have to be decompressed. Unreadable batches are skipped.
        """
        offset: int | None = self.log_start_offset
        while offset is not None:
            header, raw, offset = self._scan_since(timestamp, offset)
            if header is not None and header.is_log_append_time:
                first = max(header.base_offset, self.log_start_offset)
                return TimestampAndOffset(header.max_timestamp, first, header.leader_epoch)
            record = (yield from self._record_since(raw, timestamp)) if raw else None
            if record is not None:
                return record
            yield 0
        return None

    def _scan_since(self, timestamp: int, offset: int) -> tuple[BatchHeader | None, bytes, int | None]:
        """Search a bounded number of headers for a batch that reaches `timestamp`.

        Return its header and bytes, if found, and the offset to continue at, None at the end. No file stays open
        between two calls, since segments may be replaced or deleted meanwhile.
        """
        for segment in self.segments[self._segment_index(offset) :]:
            for count, (position, header) in enumerate(segment.batches_since(timestamp, offset), 1):
                if header.max_timestamp >= timestamp:
                    return header, segment.pread(header.size, position), header.last_offset + 1
                if count == _HEADERS_A_STEP:
                    return None, b"", header.last_offset + 1
        return None, b"", None

    def find_max_timestamp(self) -> Work[TimestampAndOffset | None]:
        """Find the record with the largest timestamp, the earliest among equals; None in an empty log."""
        newest = max(self.segments, key=lambda segment: segment.max_timestamp)
        if newest.max_timestamp < 0:
            return None
        return (yield from self.find_by_timestamp(newest.max_timestamp))

    def _record_since(self, raw: bytes, timestamp: int) -> Work[TimestampAndOffset | None]:
        for batch in read_batches(raw, verify_crc=False):
            wanted = timestamp - batch.base_timestamp
            first_delta = self.log_start_offset - batch.base_offset
            try:
                yield batch.decoder_bytes
                for walked in batch.walk():
                    if max(walked.timestamp_deltas, default=wanted - 1) < wanted:
                        yield 0
                        continue
                    for delta, offset in zip(walked.timestamp_deltas, walked.offset_deltas, strict=True):
                        if delta >= wanted and offset >= first_delta:
                            return TimestampAndOffset(
                                batch.base_timestamp + delta, batch.base_offset + offset, batch.leader_epoch
                            )
                    yield 0
            except KafkaError as error:
                extra = {"partition": self.directory.name, "base_offset": batch.base_offset, "cause": str(error)}
                log.warning("batch_not_searched", extra=extra)
        return None

    # -- retention and deletion

    def increment_log_start(self, offset: int) -> bool:
        """Advance the log start offset. Return False if it is there already.

        Raises KafkaError KAFKA_STORAGE_ERROR. A full disk is no error, since deletion makes room on it.
        """
        if offset <= self.log_start_offset:
            return False
        assert offset <= self.log_end_offset, f"log start {offset} behind the log's end {self.log_end_offset}"
        self.check_online()
        self.log_start_offset = offset
        try:
            if self.epochs.truncate_from_start(offset):
                write_leader_epochs(self.directory, self.epochs)
        except OSError as error:
            if not is_full(error):
                raise self.storage_error("move the start of", error) from error
        return True

    def take_expired(self, now_ms: int, high_watermark: int) -> list[LogSegment]:
        """Detach the oldest segments that expired by time or size or are before the log start; the caller deletes them.

        Nothing after the high watermark is detached. If the active segment expires too, a new one is started, unless
        the disk is full. Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        deletable = self._count_expired(now_ms, high_watermark)
        if deletable == len(self.segments):
            try:
                self.roll(now_ms, keeps_old=False)
            except OSError as error:
                if not is_full(error):
                    raise self.storage_error("roll", error) from error
                deletable -= 1
        detached = self.segments[:deletable]
        del self.segments[:deletable], self._bases[:deletable]
        if detached:
            self.increment_log_start(self.segments[0].base_offset)
            self.recovery_point = max(self.recovery_point, self.log_start_offset)
            self.producers.delete_snapshots_before(self.log_start_offset)
        return detached

    def _count_expired(self, now_ms: int, high_watermark: int) -> int:
        count = 0
        excess = self.size - self.config.retention_bytes if self.config.retention_bytes >= 0 else 0
        by_policy = self.config.is_deleted
        for index, segment in enumerate(self.segments):
            last = index + 1 == len(self.segments)
            end_offset = self.log_end_offset if last else self.segments[index + 1].base_offset
            if segment.size == 0 and last:
                break
            retention_ms = self.config.retention_ms
            expired = by_policy and retention_ms >= 0 and now_ms - segment.largest_timestamp_ms() > retention_ms
            too_much = by_policy and excess - segment.size >= 0 and self.config.retention_bytes >= 0
            below_start = end_offset <= self.log_start_offset
            if end_offset > high_watermark or not (expired or too_much or below_start):
                break
            excess -= segment.size
            count += 1
        return count

    def replace(self, old: list[LogSegment], new: LogSegment) -> None:
        """Replace closed segments by one compacted segment."""
        first = self.segments.index(old[0])
        assert self.segments[first : first + len(old)] == old, "compacted segments changed meanwhile"
        self.segments[first : first + len(old)] = [new]
        self._bases[first : first + len(old)] = [new.base_offset]

    # -- flush and close

    def unflushed_segments(self) -> list[LogSegment]:
        """Return the segments from the one that contains the recovery point."""
        return self.segments[self._segment_index(self.recovery_point) :]

    def flush(self) -> int:
        """Flush all segments and return the new recovery point. May block: for clean shutdown and the I/O thread."""
        end_offset = self.log_end_offset
        for segment in self.unflushed_segments():
            segment.flush()
        self.recovery_point = end_offset
        return end_offset

    def close(self) -> None:
        """Flush, write a producer snapshot and close the files, so that the next start need not recover the log."""
        self.flush()
        self.producers.take_snapshot(self.log_end_offset)
        self.active.on_become_inactive()
        self.close_files()

    def close_files(self) -> None:
        """Close the files without flushing, for a log that is being deleted."""
        for segment in self.segments:
            segment.close()
