"""Reads the history that the web process keeps of the metadata log (`app.cluster.log_store`), for the lake.

The history is committed batches and, where it has a gap or begins late, the state behind the gap. A position in the
lake is an offset and the epoch of the record before it. The history must have that record, or lack it since NoOp
records may be missing; otherwise the lake continues another log.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from app.cluster.log_store.files import Checkpoint, StoredLog
from app.cluster.log_store.replay import Replay
from app.reports.lake.lake import LakeError, Position
from kraft_core.image.image_writer import UnwritableMetadataError
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.node_snapshot import write_image
from kraft_core.protocol.record_batch import RecordBatch, read_batches
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.raft.snapshot.writer import SnapshotWriter
from kraft_core.raft.voter_set import VoterSet
from kraft_core.storage.files import StorageError
from kraft_core.storage.snapshots import SnapshotStore, snapshot_name

_NO_END: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """The state after `last_offset`, as the batches of a snapshot file."""

    last_offset: int
    epoch: int
    data: bytes


def read(stored: StoredLog, start: Position) -> Iterator[RecordBatch | LogSnapshot]:
    """Yield the batches from `start` to the end, and a snapshot where the history has none of an offset.

    Raises LakeError when the history is of a log without the record before `start`, StorageError when it is unreadable.
    """
    position = start
    while not stored.is_empty:
        base = _base_of(stored, position.next_offset)
        if base is not None:
            _check(start, Position(base.end_offset, base.epoch), is_before=False)
            yield LogSnapshot(base.end_offset - 1, base.epoch, stored.read_checkpoint(base))
            position = Position(base.end_offset, base.epoch)
        for batch in _batches(stored, position):
            yield batch
            position = Position(batch.last_offset + 1, batch.leader_epoch)
        gap = next((each for each in stored.gaps if each.start >= position.next_offset), None)
        if gap is None:
            return
        position = Position(gap.start, position.epoch)


def _base_of(stored: StoredLog, offset: int) -> Checkpoint | None:
    """Return the state that stands for the log at an offset, None if the log itself is there."""
    gap = next((each for each in stored.gaps if each.start <= offset < each.end), None)
    end = None if gap is None else gap.end
    if gap is None and offset >= stored.logs[0]:
        return None
    found = [each for each in stored.checkpoints if end is None or each.end_offset == end]
    if not found:
        raise StorageError(f"{stored.folder} has no state for offset {offset}. It may be changing; try again.")
    return found[0]


def _batches(stored: StoredLog, start: Position) -> Iterator[RecordBatch]:
    """Yield the batches from `start` up to the next gap."""
    before = next(
        (Position(each.end_offset, each.epoch) for each in stored.checkpoints if each.end_offset == start.next_offset),
        Position(0, 0),
    )
    is_checked = False
    for data, _ in stored.read_from(start.next_offset, _NO_END):
        for batch in read_batches(data):
            end = Position(batch.last_offset + 1, batch.leader_epoch)
            if batch.base_offset < start.next_offset:
                before = end
                continue
            if not is_checked:
                _check(start, before, is_before=True)
                _check(start, end, is_before=False)
                is_checked = True
            yield batch
    if not is_checked:
        _check(start, before, is_before=True)


def _check(start: Position, other: Position, *, is_before: bool) -> None:
    """Raise LakeError if a part of the log that ends at `other`, before or after `start`, contradicts it.

    Epochs never fall along a log, and the record directly before `start` has its epoch.
    """
    if is_before:
        is_other = other.next_offset > start.next_offset or other.epoch > start.epoch
        is_other |= other.next_offset == start.next_offset > 0 and other.epoch != start.epoch
    else:
        is_other = other.epoch < start.epoch
    if is_other:
        raise LakeError(
            f"The change feed ends before offset {start.next_offset} in epoch {start.epoch}, and the history of the "
            f"quorum's log has epoch {other.epoch} up to {other.next_offset}: the quorum has lost records that are in "
            "the lake. Move the lake away to start a new one."
        )


def snapshot_before(stored: StoredLog, end: int) -> LogSnapshot | None:
    """Return the newest state before offset `end`. Raises StorageError, ReplayError.

    None if the history has none, or only one that a snapshot cannot express.
    """
    checkpoint = stored.checkpoint_before(end - 1)
    if stored.is_empty or (checkpoint is None and stored.logs[0] > 0):
        return None
    replay = Replay(stored, checkpoint)
    time_ms = replay.start.time_ms
    for change in replay.changes(end):
        time_ms = change.timestamp_ms
    image = replay.log.image
    if image.offset < 0 or image.features.metadata_version is None:
        return None
    with contextlib.suppress(UnwritableMetadataError):
        return _snapshot_of(image, time_ms)
    return None


def _snapshot_of(image: MetadataImage, time_ms: int) -> LogSnapshot:
    snapshot_id = OffsetAndEpoch(image.offset + 1, max(0, image.epoch))
    with TemporaryDirectory() as folder:
        begin = SnapshotStore(Path(folder)).begin
        write_image(image, SnapshotWriter(begin, snapshot_id, time_ms, 0, VoterSet.of([])))
        data = (Path(folder) / snapshot_name(snapshot_id)).read_bytes()
    return LogSnapshot(image.offset, snapshot_id.epoch, data)
