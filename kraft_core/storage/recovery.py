"""Opening a metadata directory: recover a log that can be trusted, or refuse to start.

Every batch of every segment is checked. A bad batch with no good one after it is an unfinished write: it was never
acknowledged, so it is removed. With a good batch after it, it is damage, and truncating there would silently lose
acknowledged records (as Apache's node does): the start is refused with the file and position. The same holds when the
log ends before the offset that is known to have been on disk (flushed_offset).

Source: LogLoader and KafkaRaftLog.createLog, Kafka 4.3.1.
"""

import logging
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kraft_core.protocol.internal_topics import METADATA_PARTITION, METADATA_TOPIC
from kraft_core.protocol.uuids import METADATA_TOPIC_ID, uuid_to_text
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.storage.batch_scan import REPAIR, BadBatch, corrupt, find_batch, scan_batches
from kraft_core.storage.files import (
    CorruptFile,
    FileSystem,
    StorageError,
    create_directory,
    read_file,
    storage_errors,
    write_all,
    write_file,
)
from kraft_core.storage.flushed_offset import FlushedOffset
from kraft_core.storage.leader_epochs import LeaderEpochs
from kraft_core.storage.log_segment import LogSegment
from kraft_core.storage.properties import parse_properties
from kraft_core.storage.snapshots import snapshot_id_of

log = logging.getLogger(__name__)

PARTITION_DIRECTORY: Final = f"{METADATA_TOPIC}-{METADATA_PARTITION}"
PARTITION_METADATA: Final = "partition.metadata"
_SEGMENT: Final = re.compile(r"(\d{20})\.log", re.ASCII)
_CHUNK_BYTES: Final = 4 * 1024 * 1024
_LEFTOVERS: Final = (".deleted", ".cleaned", ".swap", ".tmp")


@dataclass(slots=True)
class RecoveredLog:
    """The segments in order (at least one, files open), their epochs, and the offsets of control batches."""

    flushed: FlushedOffset
    segments: list[LogSegment] = field(default_factory=list)
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    control_offsets: list[int] = field(default_factory=list)  # base offset of each control batch

    def close(self) -> None:
        """Close the files."""
        for segment in self.segments:
            segment.close()
        self.flushed.close()

    def lost_offset(self, end_offset: int, snapshot: OffsetAndEpoch | None) -> int | None:
        """Return the offset up to which the log was on disk if part of that is lost, else None.

        It is lost when the log ends earlier, or when the last of those records has another epoch: a misplaced write. It
        does not matter if `snapshot` (the newest) covers that offset or has a later epoch: then it replaces the log, of
        which a crash may have left any prefix.
        """
        known = self.flushed.known
        if known is None or (self.epochs.latest or 0) > known.epoch:
            return None
        if snapshot is not None and (snapshot.offset >= known.offset or snapshot.epoch > known.epoch):
            return None
        if end_offset < known.offset:
            return known.offset
        found = self.epochs.epoch_for(known.offset - 1)
        return None if found is None or found == known.epoch else known.offset


def prepare_directory(files: FileSystem, directory: Path) -> None:
    """Create the partition directory and partition.metadata, remove leftovers of a crash.

    Raises StorageError when partition.metadata belongs to another topic.
    """
    create_directory(directory, files)
    with storage_errors("clean up", directory):
        for name in files.names(directory):
            if name.endswith(_LEFTOVERS):
                files.unlink(directory / name)
    path = directory / PARTITION_METADATA
    if files.size_of(path) is None:
        write_file(path, f"version: 0\ntopic_id: {uuid_to_text(METADATA_TOPIC_ID)}".encode(), files)
        return
    with storage_errors("read", path):
        text = read_file(path, files)
    found = parse_properties(text.decode(errors="replace"))
    if found.get("version") != "0" or found.get("topic_id") != uuid_to_text(METADATA_TOPIC_ID):
        raise StorageError(
            f"{path} does not belong to the metadata log: it needs version 0 and topic_id "
            f"{uuid_to_text(METADATA_TOPIC_ID)}"
        )


def recover_segments(files: FileSystem, directory: Path) -> RecoveredLog:
    """Open and check every segment, and make the result durable. Raises CorruptFile, StorageError."""
    with storage_errors("list", directory):
        bases = sorted(int(match[1]) for name in files.names(directory) if (match := _SEGMENT.fullmatch(name)))
    recovered = RecoveredLog(FlushedOffset(files, directory))
    try:
        recovered.flushed.open()
        for index, base in enumerate(bases):
            segment = LogSegment(files, directory, base)
            segment.open(create=False)
            recovered.segments.append(segment)
            if index and recovered.segments[index - 1].end_offset != base:
                _drop_or_refuse(recovered, index)
                break
            _scan(recovered, segment, [LogSegment(files, directory, later).path for later in bases[index + 1 :]])
        if not recovered.segments:
            first = LogSegment(files, directory, 0)
            first.open(create=True)
            recovered.segments.append(first)
        _make_durable(files, directory, recovered)
    except BaseException:
        recovered.close()
        raise
    return recovered


def _make_durable(files: FileSystem, directory: Path, recovered: RecoveredLog) -> None:
    """Sync the log, since the process that wrote it may have died before it did.

    Its sync may also have failed; then the kernel treats pages as clean that are not on disk. So everything above the
    flushed offset is written again before the sync, and the whole segment if that offset is unreadable.
    """
    active, flushed = recovered.segments[-1], recovered.flushed
    known = 0 if flushed.known is None else flushed.known.offset
    may_rewrite = flushed.known is not None or flushed.is_damaged
    with storage_errors("write", active.path):
        if may_rewrite and active.size and active.end_offset > known:
            position = active.find(max(known, active.base_offset), active.size)[0]
            while data := files.pread(active.descriptor, _CHUNK_BYTES, position):
                write_all(files, active.descriptor, data, position)
                position += len(data)
        files.fdatasync(active.descriptor)
        files.sync_directory(directory)


def _scan(recovered: RecoveredLog, segment: LogSegment, later: list[Path]) -> None:
    """Check one segment and truncate an unfinished write at its end."""
    epoch = recovered.epochs.latest
    files = segment.files
    with storage_errors("read", segment.path):
        size = files.size(segment.descriptor)
        try:
            for position, batch in scan_batches(files, segment.descriptor, size):
                # A misplaced but intact batch is not an unfinished write; the CRC covers neither offset nor epoch.
                if batch.base_offset != segment.end_offset:
                    reason = f"offset {batch.base_offset} follows {segment.end_offset}. {REPAIR}"
                    raise CorruptFile(segment.path, position, reason)
                if epoch is not None and batch.leader_epoch < epoch:
                    raise CorruptFile(segment.path, position, f"epoch {batch.leader_epoch} follows {epoch}. {REPAIR}")
                if batch.leader_epoch != epoch:
                    epoch = batch.leader_epoch
                    recovered.epochs.assign(epoch, batch.base_offset)
                if batch.is_control:
                    recovered.control_offsets.append(batch.base_offset)
                segment.add(batch)
        except BadBatch as bad:
            _refuse_damage(segment, bad, size, later)
            _refuse_loss(recovered, segment, bad)
            log.warning(
                "unfinished_write_cut",
                extra={
                    "file": str(segment.path),
                    "position": bad.position,
                    "bytes": size - bad.position,
                    "reason": bad.reason,
                },
            )
            files.truncate(segment.descriptor, segment.size)
            files.fsync(segment.descriptor)


def _refuse_damage(segment: LogSegment, bad: BadBatch, size: int, later: list[Path]) -> None:
    """Raise CorruptFile when a good batch follows the bad one, in this file or in a later one."""
    files = segment.files
    good = find_batch(files, segment.descriptor, bad.position + 1, size, segment.end_offset)
    if good is not None:
        raise corrupt(segment.path, bad, good, segment.path)
    for path in later:
        descriptor = files.open(path, os.O_RDONLY)
        try:
            good = find_batch(files, descriptor, 0, files.size(descriptor), segment.end_offset)
        finally:
            files.close(descriptor)
        if good is not None:
            raise corrupt(segment.path, bad, good, path)


def _refuse_loss(recovered: RecoveredLog, segment: LogSegment, bad: BadBatch) -> None:
    """Raise CorruptFile when the bad batch was on disk before, unless a snapshot covers it."""
    names = segment.files.names(segment.directory)
    newest = max(filter(None, map(snapshot_id_of, names)), default=None)
    lost = recovered.lost_offset(segment.end_offset, newest)
    if lost is not None:
        raise CorruptFile(
            segment.path,
            bad.position,
            f"{bad.reason}; the log was on disk up to offset {lost}, so this is damage, not an unfinished write. "
            f"{REPAIR}",
        )


def _drop_or_refuse(recovered: RecoveredLog, index: int) -> None:
    """Handle segments that do not continue the previous one: delete empty ones. Raises CorruptFile for others."""
    previous, segment = recovered.segments[index - 1], recovered.segments[index]
    directory, files = segment.directory, segment.files
    later = [
        directory / name for name in files.names(directory) if _SEGMENT.fullmatch(name) and name >= segment.path.name
    ]
    for path in later:
        if files.size_of(path):
            raise CorruptFile(
                path,
                0,
                f"it begins at offset {int(path.stem)} but the log before it ends at {previous.end_offset}; "
                f"records between them are missing. {REPAIR}",
            )
    segment.close()
    del recovered.segments[index:]
    with storage_errors("delete", directory):
        for path in later:
            files.unlink(path)
        files.sync_directory(directory)
