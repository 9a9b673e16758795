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
    StorageError,
    create_directory,
    storage_errors,
    sync_directory,
    write_file,
)
from kraft_core.storage.leader_epochs import CHECKPOINT_NAME, LeaderEpochs
from kraft_core.storage.log_segment import LogSegment
from kraft_core.storage.properties import parse_properties

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


def prepare_directory(directory: Path) -> None:
    """Create the partition directory and partition.metadata, remove leftovers of a crash.

    Raises StorageError when partition.metadata belongs to another topic.
    """
    create_directory(directory)
    with storage_errors("clean up", directory):
        for path in directory.iterdir():
            if path.name.endswith(_LEFTOVERS) and path.is_file():
                path.unlink()
    path = directory / PARTITION_METADATA
    if not path.exists():
        write_file(path, f"version: 0\ntopic_id: {uuid_to_text(METADATA_TOPIC_ID)}".encode())
        return
    with storage_errors("read", path):
        text = path.read_text(encoding="utf-8", errors="replace")
    found = parse_properties(text)
    if found.get("version") != "0" or found.get("topic_id") != uuid_to_text(METADATA_TOPIC_ID):
        raise StorageError(
            f"{path} does not belong to the metadata log: it needs version 0 and topic_id {uuid_to_text(METADATA_TOPIC_ID)}"
        )


def recover_segments(directory: Path) -> RecoveredLog:
    """Scan and open every segment. Raises CorruptFile, StorageError."""
    with storage_errors("list", directory):
        bases = sorted(int(match[1]) for path in directory.iterdir() if (match := _SEGMENT.fullmatch(path.name)))
    recovered = RecoveredLog()
    try:
        for index, base in enumerate(bases):
            segment = LogSegment(directory, base)
            segment.open(create=False)
            recovered.segments.append(segment)
            if index and recovered.segments[index - 1].end_offset != base:
                _drop_or_refuse(recovered, index)
                break
            _scan(recovered, segment, [LogSegment(directory, later).path for later in bases[index + 1 :]])
        if not any(segment.size for segment in recovered.segments):
            _refuse_lost_log(directory)
        if not recovered.segments:
            first = LogSegment(directory, 0)
            first.open(create=True)
            recovered.segments.append(first)
            sync_directory(directory)
    except BaseException:
        for segment in recovered.segments:
            segment.close()
        raise
    return recovered


def _refuse_lost_log(directory: Path) -> None:
    """Raise StorageError when an empty log was not always empty: a second epoch had begun behind its first records.

    A crash cannot do this, since an epoch begins with a leader that has flushed what came before. Somebody has removed
    or emptied the segments, and a node that starts over from nothing would do it in silence.
    """
    if any(int(path.name[:20]) > 0 for path in directory.glob("[0-9]*.checkpoint") if path.name[:20].isdecimal()):
        return  # the log was emptied to begin at this snapshot, or is about to be
    path = directory / CHECKPOINT_NAME
    with storage_errors("read", path):
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    entries = [line.split() for line in text.splitlines()[2:]]
    if any(len(entry) == 2 and entry[1].isdecimal() and int(entry[1]) > 0 for entry in entries):
        raise StorageError(
            f"{directory} has no records although {CHECKPOINT_NAME} knows epochs behind the first: "
            f"the segment files (*.log) were removed or emptied. {REPAIR}"
        )


def _scan(recovered: RecoveredLog, segment: LogSegment, later: list[Path]) -> None:
    """Check one segment and cut off an unfinished write at its end."""
    epoch = recovered.epochs.latest
    with storage_errors("read", segment.path):
        size = os.fstat(segment.descriptor).st_size
        try:
            for batch in scan_batches(segment.descriptor, size):
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
            os.ftruncate(segment.descriptor, segment.size)
            os.fsync(segment.descriptor)


def _refuse_damage(segment: LogSegment, bad: BadBatch, size: int, later: list[Path]) -> None:
    """Raise CorruptFile when a good batch follows the bad one, in this file or in a later one."""
    good = find_batch(segment.descriptor, bad.position + 1, size, segment.end_offset)
    if good is not None:
        raise corrupt(segment.path, bad, good, segment.path)
    for path in later:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            good = find_batch(descriptor, 0, os.fstat(descriptor).st_size, segment.end_offset)
        finally:
            os.close(descriptor)
        if good is not None:
            raise corrupt(segment.path, bad, good, path)


def _drop_or_refuse(recovered: RecoveredLog, index: int) -> None:
    """Deal with segments that do not continue the one before: empty leftovers go, records do not."""
    previous, segment = recovered.segments[index - 1], recovered.segments[index]
    directory = segment.directory
    later = sorted(
        path for path in directory.iterdir() if _SEGMENT.fullmatch(path.name) and path.name >= segment.path.name
    )
    for path in later:
        if path.stat().st_size:
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
            path.unlink()
        sync_directory(directory)
