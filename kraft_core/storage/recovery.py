"""Opening a metadata directory: what is on disk becomes a log that can be trusted, or the start is refused.

Every batch of every segment is checked. A damaged place with nothing good after it is a write that a crash cut off: it
was never acknowledged, so it is cut away. With a good batch after it, it is damage, and cutting there would lose
acknowledged records in silence (which Apache's node does): the start is refused, naming file and offset.

Source: LogLoader and KafkaRaftLog.createLog, Kafka 4.3.1; RELIABILITY 4D.
"""

import logging
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kraft_core.protocol.internal_topics import METADATA_PARTITION, METADATA_TOPIC
from kraft_core.protocol.uuids import METADATA_TOPIC_ID, uuid_to_text
from kraft_core.storage.batch_scan import REPAIR, BadBatch, corrupt, find_batch, scan_batches
from kraft_core.storage.files import (
    CorruptFile,
    FileSystem,
    StorageError,
    create_directory,
    read_file,
    storage_errors,
    write_file,
)
from kraft_core.storage.leader_epochs import CHECKPOINT_NAME, LeaderEpochs
from kraft_core.storage.log_segment import LogSegment
from kraft_core.storage.properties import parse_properties
from kraft_core.storage.snapshots import snapshot_id_of

log = logging.getLogger(__name__)

PARTITION_DIRECTORY: Final = f"{METADATA_TOPIC}-{METADATA_PARTITION}"
PARTITION_METADATA: Final = "partition.metadata"
_SEGMENT: Final = re.compile(r"(\d{20})\.log", re.ASCII)
_LEFTOVERS: Final = (".deleted", ".cleaned", ".swap", ".tmp")


@dataclass(slots=True)
class RecoveredLog:
    """The segments in order (at least one, files open), their epochs, and where control batches are."""

    segments: list[LogSegment] = field(default_factory=list)
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    control_offsets: list[int] = field(default_factory=list)  # base offset of each control batch


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
            f"{path} does not belong to the metadata log: it needs version 0 and topic_id {uuid_to_text(METADATA_TOPIC_ID)}"
        )


def recover_segments(files: FileSystem, directory: Path) -> RecoveredLog:
    """Scan and open every segment. Raises CorruptFile, StorageError."""
    with storage_errors("list", directory):
        bases = sorted(int(match[1]) for name in files.names(directory) if (match := _SEGMENT.fullmatch(name)))
    recovered = RecoveredLog()
    try:
        for index, base in enumerate(bases):
            segment = LogSegment(files, directory, base)
            segment.open(create=False)
            recovered.segments.append(segment)
            if index and recovered.segments[index - 1].end_offset != base:
                _drop_or_refuse(recovered, index)
                break
            _scan(recovered, segment, [LogSegment(files, directory, later).path for later in bases[index + 1 :]])
        if not any(segment.size for segment in recovered.segments):
            _refuse_lost_log(files, directory)
        if not recovered.segments:
            first = LogSegment(files, directory, 0)
            first.open(create=True)
            recovered.segments.append(first)
            files.sync_directory(directory)
    except BaseException:
        for segment in recovered.segments:
            segment.close()
        raise
    return recovered


def _refuse_lost_log(files: FileSystem, directory: Path) -> None:
    """Raise StorageError when an empty log was not always empty: a second epoch had begun behind its first records.

    A crash cannot do this, since an epoch begins with a leader that has flushed what came before. Somebody has removed
    or emptied the segments, and a node that starts over from nothing would do it in silence.
    """
    found = (snapshot_id_of(name) for name in files.names(directory))
    if any(snapshot_id.offset > 0 for snapshot_id in found if snapshot_id is not None):
        return  # the log was emptied to begin at this snapshot, or is about to be
    path = directory / CHECKPOINT_NAME
    with storage_errors("read", path):
        text = b"" if files.size_of(path) is None else read_file(path, files)
    entries = [line.split() for line in text.decode(errors="replace").splitlines()[2:]]
    if any(len(entry) == 2 and entry[1].isdecimal() and int(entry[1]) > 0 for entry in entries):
        raise StorageError(
            f"{directory} has no records although {CHECKPOINT_NAME} knows epochs behind the first: "
            f"the segment files (*.log) were removed or emptied. {REPAIR}"
        )


def _scan(recovered: RecoveredLog, segment: LogSegment, later: list[Path]) -> None:
    """Check one segment and cut off an unfinished write at its end."""
    epoch = recovered.epochs.latest
    files = segment.files
    with storage_errors("read", segment.path):
        size = files.size(segment.descriptor)
        try:
            for batch in scan_batches(files, segment.descriptor, size):
                # An undamaged batch out of its place is no unfinished write: its CRC covers neither offset nor epoch.
                if batch.base_offset != segment.end_offset:
                    reason = f"offset {batch.base_offset} follows {segment.end_offset}. {REPAIR}"
                    raise CorruptFile(segment.path, batch.position, reason)
                if epoch is not None and batch.epoch < epoch:
                    raise CorruptFile(segment.path, batch.position, f"epoch {batch.epoch} follows {epoch}. {REPAIR}")
                if batch.epoch != epoch:
                    epoch = batch.epoch
                    recovered.epochs.assign(epoch, batch.base_offset)
                if batch.is_control:
                    recovered.control_offsets.append(batch.base_offset)
                segment.add_scanned(batch)
        except BadBatch as bad:
            _refuse_damage(segment, bad, size, later)
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


def _drop_or_refuse(recovered: RecoveredLog, index: int) -> None:
    """Deal with segments that do not continue the one before: empty leftovers go, records do not."""
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
