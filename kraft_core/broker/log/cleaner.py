"""One compaction of a log: of its closed segments only the newest record of each key remains.

1. The newest offset of each key in the dirty part (after the first offset that no compaction has seen) goes into a map
   of bounded size. When the map is full, the compaction ends there.
2. All closed segments up to there are copied without the records that a later one of the same key replaces. A tombstone
   (null value) is dropped once it is `delete.retention.ms` old. Offsets never change. Segments are merged into as few
   as fit the limits of a segment.
3. Each copy replaces its segments, the earliest first: `.cleaned`, synced, renamed to `.swap`; then the old segments
   are renamed to `.deleted`, and the copy takes the name of the first one. `log_loader` completes what a crash
   interrupts.

The thread sleeps as long as it works, a few ms at a time, so that the event loop can run.

Source: Cleaner, Kafka 4.3.1.
"""

import os
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

from kraft_core.broker.log.cleaned_batch import empty_batch, with_records
from kraft_core.broker.log.log_config import LogConfig
from kraft_core.broker.log.log_file_utils import CLEANED_SUFFIX, SWAP_SUFFIX
from kraft_core.broker.log.log_segment import LogSegment, new_segment, rename_deleted
from kraft_core.broker.log.unified_log import UnifiedLog
from kraft_core.protocol.batch_header import BatchHeader
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.record_batch import RecordBatch, read_batches
from kraft_core.storage.files import OPERATING_SYSTEM

KEYS_MAX: Final = 250_000
"""Upper bound of keys in one map, some 180 bytes each."""
_OFFSETS_MAX: Final = 2**31 - 1  # of one segment, relative to its base offset
_DIGEST_BYTES: Final = 16
_SLICE_S: Final = 0.002
_STEPS_A_LOOK: Final = 64
_COPY_BYTES: Final = 1024 * 1024


class CleaningStoppedError(Exception):
    """The log manager stops; unfinished copies are deleted at the next start."""


class Pacer:
    """Makes the cleaner's thread sleep as long as it has worked, and stop after `stop`."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._steps = 0
        self._began = time.perf_counter()

    def stop(self) -> None:
        """Stop the work at its next step. Called on any thread."""
        self._stopped.set()

    def step(self) -> None:
        """Count a bounded step of work. Raises CleaningStoppedError."""
        self._steps += 1
        if self._steps % _STEPS_A_LOOK:
            return
        worked = time.perf_counter() - self._began
        if worked >= _SLICE_S:
            if self._stopped.wait(worked):
                raise CleaningStoppedError
            self._began = time.perf_counter()


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """The closed segments of one compaction.

    Those from `first_dirty_offset` on are dirty: no compaction has seen them.
    """

    segments: tuple[LogSegment, ...]
    first_dirty_offset: int
    tombstones_before_ms: int
    segment_bytes: int


def plan_cleaning(log: UnifiedLog, now_ms: int) -> CleaningPlan | None:
    """Return what to compact now, None when too little is dirty.

    The segments are those whose newest record is older than `min.compaction.lag.ms`; at least
    `min.cleanable.dirty.ratio` of their bytes must be dirty.
    """
    if not log.config.is_compacted:
        return None
    closed: list[LogSegment] = []
    dirty = 0
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        if now_ms - segment.largest_timestamp_ms() < log.config.min_compaction_lag_ms:
            break
        closed.append(segment)
        if following.base_offset > log.first_dirty_offset:
            dirty += segment.size
    total = sum(segment.size for segment in closed)
    if dirty == 0 or dirty / total < log.config.min_cleanable_dirty_ratio:
        return None
    return CleaningPlan(
        tuple(closed), log.first_dirty_offset, now_ms - log.config.delete_retention_ms, log.config.segment_bytes
    )


def _digest(key: bytes) -> bytes:
    """Return a short key itself, and for a long one a digest that differs from every short key."""
    return key if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()


@dataclass(slots=True)
class OffsetMap:
    """The newest offset of each key in the dirty part of a log, up to `end_offset` (exclusive)."""

    offsets: dict[bytes, int] = field(default_factory=dict)
    end_offset: int = 0

    def replaces(self, key: bytes, offset: int) -> bool:
        """Return whether a later record of the key is known."""
        return self.offsets.get(_digest(key), -1) > offset


def _batches(segment: LogSegment, from_offset: int | None = None) -> Iterator[tuple[BatchHeader, RecordBatch]]:
    for position, header in segment.batches(from_offset):
        for batch in read_batches(segment.pread(header.size, position), verify_crc=False):
            yield header, batch


def build_offset_map(plan: CleaningPlan, pacer: Pacer, keys_max: int = KEYS_MAX) -> OffsetMap:
    """Read the dirty part up to `keys_max` keys."""
    found = OffsetMap(end_offset=plan.first_dirty_offset)
    for segment in plan.segments:
        for header, batch in _batches(segment, plan.first_dirty_offset):
            pacer.step()
            if not header.is_control and not _note_keys(batch, found, pacer, keys_max):
                return found
            found.end_offset = max(found.end_offset, header.last_offset + 1)
    return found


def _note_keys(batch: RecordBatch, found: OffsetMap, pacer: Pacer, keys_max: int) -> bool:
    """Add the keys of one batch. Return False when the map is full; its end is set then."""
    try:
        for record in batch.paced_records():
            pacer.step()
            if record is None or record.key is None:
                continue
            digest = _digest(record.key)
            if len(found.offsets) >= keys_max and digest not in found.offsets:
                found.end_offset = record.offset
                return False
            found.offsets[digest] = record.offset
    except KafkaError:  # unreadable: the batch stays whole, so its later records replace nothing
        pass
    return True


@dataclass(frozen=True, slots=True)
class CleanedGroup:
    """Consecutive segments and their copy, a synced `.swap` file."""

    segments: tuple[LogSegment, ...]
    swap: Path


def write_group(plan: CleaningPlan, first: int, newest: OffsetMap, pacer: Pacer) -> CleanedGroup | None:
    """Copy segments from number `first` on, as many as fit one segment; None when the compaction ends before.

    Raises CleaningStoppedError, and OSError without leaving a copy.
    """
    if first == len(plan.segments) or plan.segments[first].base_offset >= newest.end_offset:
        return None
    base = plan.segments[first].path
    cleaned = base.with_name(base.name + CLEANED_SUFFIX)
    taken: list[LogSegment] = []
    try:
        descriptor = os.open(cleaned, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            size, tail = 0, b""
            for segment in plan.segments[first:]:
                if taken and not _fits(plan, taken[0], segment, newest):
                    break
                grown, new_tail = _copy(segment, descriptor, size, plan, newest, pacer)
                if taken and grown + len(new_tail) > plan.segment_bytes:
                    os.ftruncate(descriptor, size)
                    break
                size, tail = grown, new_tail
                taken.append(segment)
            _write(descriptor, bytearray(tail), size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        swap = cleaned.with_name(base.name + SWAP_SUFFIX)
        cleaned.rename(swap)
        OPERATING_SYSTEM.sync_directory(base.parent)
    except OSError:
        cleaned.unlink(missing_ok=True)
        raise
    return CleanedGroup(tuple(taken), swap)


def _fits(plan: CleaningPlan, first: LogSegment, segment: LogSegment, newest: OffsetMap) -> bool:
    """Return whether a segment's offsets fit into a segment with the group's first, and the map reaches into it."""
    last = segment.last_header()
    end = segment.base_offset if last is None else last.last_offset
    return segment.base_offset < newest.end_offset and end - first.base_offset <= _OFFSETS_MAX


def _copy(
    segment: LogSegment, descriptor: int, position: int, plan: CleaningPlan, newest: OffsetMap, pacer: Pacer
) -> tuple[int, bytes]:
    """Write the remaining records of a segment at `position`, in pieces.

    Return the position after them, and the end of a copy that ends with this segment: an empty batch if the last one is
    dropped, so that the copy covers every offset of its segments.
    """
    pending = bytearray()
    last: BatchHeader | None = None
    for header, batch in _batches(segment):
        pacer.step()
        kept = _retain(header, batch, newest, plan.tombstones_before_ms, pacer)
        last = None if kept else header
        pending += kept
        if len(pending) >= _COPY_BYTES:
            position = _write(descriptor, pending, position)
    return _write(descriptor, pending, position), b"" if last is None else empty_batch(last)


def _write(descriptor: int, pending: bytearray, position: int) -> int:
    view = memoryview(bytes(pending))
    pending.clear()
    while view:
        written = os.pwrite(descriptor, view, position)
        view, position = view[written:], position + written
    return position


def _retain(
    header: BatchHeader, batch: RecordBatch, newest: OffsetMap, tombstones_before_ms: int, pacer: Pacer
) -> bytes:
    """Return the batch without its superseded records; b"" when none is left."""
    if header.is_control or header.base_offset >= newest.end_offset:
        return batch.raw
    kept: set[int] = set()
    index = 0
    try:
        for record in batch.paced_records():
            pacer.step()
            if record is None:
                continue
            is_past = record.value is None and record.timestamp < tombstones_before_ms
            if record.offset >= newest.end_offset or (
                record.key is not None and not is_past and not newest.replaces(record.key, record.offset)
            ):
                kept.add(index)
            index += 1
        if len(kept) == index:
            return batch.raw if index else b""
        return with_records(header, batch.raw, kept, pacer.step) if kept else b""
    except (KafkaError, zlib.error):
        return batch.raw


def swap_in(group: CleanedGroup, config: LogConfig, now_ms: int, pacer: Pacer) -> tuple[LogSegment, list[Path]]:
    """Replace segments by their copy. Return the new segment and the old files, renamed to `.deleted`.

    The old segments stay open for readers, and nothing is deleted. Raises OSError, after which the log must be loaded
    again.
    """
    first = group.segments[0]
    renamed = [path for segment in group.segments[1:] for path in rename_deleted(segment)]
    group.swap.replace(first.path)
    OPERATING_SYSTEM.sync_directory(first.path.parent)

    def on_batch(_: BatchHeader) -> None:
        pacer.step()

    new = new_segment(first.path.parent, first.base_offset, config.index_interval_bytes, now_ms, on_batch)
    try:
        new.on_become_inactive()
    except OSError:
        new.close()
        raise
    return new, renamed
