"""Compaction: of a compacted log's closed segments only the newest record of each key survives.

One pass takes all closed segments at once: the last offset of each key is read, then every segment is copied without the records that a later one
of the same key replaces. A tombstone (null value) goes once it is `delete.retention.ms` old. Offsets never change. Compressed batches
that cannot be taken apart here stay whole, which keeps old values longer but loses nothing.

The copy is crash safe as Kafka's is: written as `.cleaned`, synced, renamed to `.swap`, and only then put in place of the old segments.

Source: Cleaner and LogCleaner, Kafka 4.3.1; simpler, since there is no dirty-offset checkpoint and every pass reads the whole closed part.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import crc32c

from kraft_core.broker.log.batch_header import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    BatchHeader,
)
from kraft_core.broker.log.indexes import remove_if_there
from kraft_core.broker.log.log_config import LogConfig
from kraft_core.broker.log.log_loader import CLEANED_SUFFIX, SWAP_SUFFIX
from kraft_core.broker.log.log_segment import LogSegment
from kraft_core.broker.log.unified_log import UnifiedLog
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.record_batch import RecordBatch, read_batches

_MAX_SEGMENT_OFFSETS: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """Closed segments to be written anew as one, with what the copy needs to know."""

    segments: tuple[LogSegment, ...]
    tombstones_before_ms: int


def plan_cleaning(log: UnifiedLog, now_ms: int) -> CleaningPlan | None:
    """What to compact now, or None when too little is dirty.

    All closed segments whose newest record is older than `min.compaction.lag.ms`, as many as fit one segment in offsets; worth it
    when they are at least `min.cleanable.dirty.ratio` of the bytes since the last pass, which made one segment of the older ones.
    """
    if not log.config.is_compacted:
        return None
    closed: list[LogSegment] = []
    for segment in log.segments[:-1]:
        if now_ms - segment.largest_timestamp_ms() < log.config.min_compaction_lag_ms:
            break
        if closed and segment.base_offset - closed[0].base_offset > _MAX_SEGMENT_OFFSETS:
            break
        closed.append(segment)
    total = sum(segment.size for segment in closed)
    dirty = sum(segment.size for segment in closed[1:]) if len(closed) > 1 else 0
    if dirty == 0 or dirty / total < log.config.min_cleanable_dirty_ratio:
        return None
    return CleaningPlan(tuple(closed), now_ms - log.config.delete_retention_ms)


def _batches(segment: LogSegment) -> Iterator[tuple[BatchHeader, RecordBatch]]:
    for position, header in segment.batches():
        for batch in read_batches(segment.pread(header.size, position), verify_crc=False):
            yield header, batch


def last_offsets(segments: tuple[LogSegment, ...]) -> dict[bytes, int]:
    """The newest offset of each key in the segments."""
    offsets: dict[bytes, int] = {}
    for segment in segments:
        for _, batch in _batches(segment):
            if batch.is_control:
                continue
            try:
                for record in batch.records():
                    if record.key is not None:
                        offsets[record.key] = record.offset
            except KafkaError:  # a codec that is not here: the batch stays whole, so it replaces nothing either
                continue
    return offsets


def write_cleaned(plan: CleaningPlan, directory: Path) -> Path:
    """Write the compacted copy and return its `.swap` file, synced. Runs on the I/O thread; the segments must not be deleted meanwhile."""
    newest = last_offsets(plan.segments)
    base = plan.segments[0].path
    cleaned = directory / (base.name + CLEANED_SUFFIX)
    last: BatchHeader | None = None
    with cleaned.open("wb") as file:
        for segment in plan.segments:
            for header, batch in _batches(segment):
                kept = _retain(header, batch, newest, plan.tombstones_before_ms)
                last = header
                if kept:
                    file.write(kept)
                    last = None
        if last is not None:
            file.write(_empty_batch(last))
        file.flush()
        os.fsync(file.fileno())
    swap = cleaned.with_name(base.name + SWAP_SUFFIX)
    cleaned.rename(swap)
    return swap


def _retain(header: BatchHeader, batch: RecordBatch, newest: dict[bytes, int], tombstones_before_ms: int) -> bytes:
    """The batch without its superseded records; b"" when none is left."""
    if header.is_control:
        return batch.raw
    try:
        records = list(batch.records())
    except KafkaError:
        return batch.raw
    kept = []
    for index, record in enumerate(records):
        if record.key is None or newest.get(record.key, -1) != record.offset:
            continue
        if record.value is None and record.timestamp < tombstones_before_ms:
            continue
        kept.append(index)
    if not kept:
        return b""
    if len(kept) == len(records) or header.codec != 0:
        return batch.raw
    return _rebuild(header, batch.raw, frozenset(kept))


def _rebuild(header: BatchHeader, raw: bytes, kept: frozenset[int]) -> bytes:
    """An uncompressed batch with only the records at the positions `kept`; their bytes and so their offset deltas stay as they are."""
    records = [raw[start:end] for index, (start, end) in enumerate(_record_spans(raw)) if index in kept]
    return _with_body(header, b"".join(records), len(records))


def _record_spans(raw: bytes) -> Iterator[tuple[int, int]]:
    position = HEADER_BYTES
    while position < len(raw):
        start, value, shift = position, 0, 0
        while True:
            byte = raw[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        position += (value >> 1) ^ -(value & 1)
        yield start, position


def _empty_batch(header: BatchHeader) -> bytes:
    """A batch without records that keeps the last offset of the log and a producer's last sequence."""
    return _with_body(header, b"", 0)


def _with_body(header: BatchHeader, body: bytes, count: int) -> bytes:
    data = bytearray(
        HEADER.pack(
            header.base_offset,
            HEADER_BYTES - 12 + len(body),
            header.leader_epoch,
            header.magic,
            0,
            header.attributes & ~0x07 if count == 0 else header.attributes,
            header.last_offset_delta,
            header.base_timestamp,
            header.max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            count,
        )
    )
    data += body
    struct.pack_into(">I", data, CRC_POSITION, crc32c.crc32c(memoryview(data)[ATTRIBUTES_POSITION:]))
    return bytes(data)


def swap_in(plan: CleaningPlan, swap: Path, config: LogConfig, now_ms: int) -> LogSegment:
    """Delete the old files, give the copy its name and index it. Runs on the I/O thread: readers keep the old files open until `install`.

    A crash anywhere in here is finished by `log_loader` at the next start.
    """
    first = plan.segments[0]
    for segment in plan.segments:
        for suffix in (".log", ".index", ".timeindex"):
            remove_if_there(segment.path.with_suffix(suffix))
    swap.rename(first.path)
    new = LogSegment(first.path.parent, first.base_offset, config.index_interval_bytes, now_ms)
    new.recover(lambda header: None)
    new.on_become_inactive()
    return new
