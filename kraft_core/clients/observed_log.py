"""ObservedLog: the metadata log as an observer has fetched it, in memory only.

The committed part is an image. The uncommitted tail, which a new leader may truncate, is kept as batches.
No sockets here: the observer puts fetched bytes in and takes committed changes out.
"""

import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kraft_core.image.applied_records import AppliedRecords
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.metadata_loader import MetadataLoader
from kraft_core.protocol.control_records import ControlRecord, SnapshotHeaderRecord, VotersRecord, decode_control
from kraft_core.protocol.errors import CorruptBatch, ErrorCode, KafkaError
from kraft_core.protocol.metadata_records import MetadataRecord
from kraft_core.protocol.record_batch import RecordBatch, read_batches

log = logging.getLogger(__name__)

TAIL_BYTES_MAX: Final = 64 * 1024 * 1024  # of uncommitted batches; a leader stops long before this

Offset = int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedChange:
    """One committed change: a batch, or all batches of one metadata transaction.

    Each record comes with its offset. `before` and `after` are the images around the change. `batches` are those read
    since the last change; an open transaction may begin in the last of them.
    """

    first_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    records: tuple[tuple[Offset, MetadataRecord], ...]
    control_records: tuple[tuple[Offset, ControlRecord], ...]
    before: MetadataImage
    after: MetadataImage
    batches: tuple[RecordBatch, ...]

    @property
    def is_boundary(self) -> bool:
        """Whether the image after the change holds everything read so far: no transaction is open."""
        return self.after.offset == self.batches[-1].last_offset


class LogDiverged(KafkaError):  # noqa: N818 - what happened, not what class it is
    """The leader lacks records that are committed here: it is of another cluster, or the quorum has lost its log."""

    def __init__(self, end_offset: int, applied: int) -> None:
        super().__init__(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"the quorum's log ends at {end_offset}, {applied} were committed"
        )


class ObservedLog:
    """The log as fetched so far. Offsets are exclusive ends unless their name says otherwise.

    With `allow_gaps` batches may be missing before an appended one, as in a stored copy without NoOp batches.
    """

    def __init__(self, *, allow_gaps: bool = False) -> None:
        self.allow_gaps = allow_gaps
        self._loader = MetadataLoader()
        self._applied_end = 0
        self._applied_epoch = 0
        self._tail: deque[RecordBatch] = deque()
        self._tail_bytes = 0
        self._image = self._loader.image
        self._records = AppliedRecords()
        self._change_start = -1
        self._read: list[RecordBatch] = []
        self.high_watermark = -1
        self.voters: VotersRecord | None = None
        self.snapshot_time_ms = 0  # of the newest record in the last loaded snapshot

    @property
    def image(self) -> MetadataImage:
        """The committed image after the last returned change; it holds no part of an open transaction."""
        return self._image

    @property
    def end_offset(self) -> int:
        """Offset to fetch next."""
        return self._tail[-1].last_offset + 1 if self._tail else self._applied_end

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record held."""
        return self._tail[-1].leader_epoch if self._tail else self._applied_epoch

    @property
    def applied_offset(self) -> int:
        """Last offset applied to the image or held back by an open transaction; -1 before the first."""
        return self._applied_end - 1

    @property
    def is_caught_up(self) -> bool:
        """Whether everything known to be committed is applied."""
        return self.high_watermark >= 0 and self._applied_end >= self.high_watermark

    def append(self, data: bytes, leader_epoch: int) -> None:
        """Append fetched batches up to the first that is corrupt, leaves a gap or has a later epoch than the leader's.

        The rest is logged and will be fetched again.
        """
        try:
            for batch in read_batches(data):
                if batch.last_offset < self.end_offset:
                    continue
                is_gap = batch.base_offset != self.end_offset and not self.allow_gaps
                if is_gap or not self.last_epoch <= batch.leader_epoch <= leader_epoch:
                    log.warning(
                        "fetched_batch_refused",
                        extra={
                            "base_offset": batch.base_offset,
                            "expected": self.end_offset,
                            "epoch": batch.leader_epoch,
                        },
                    )
                    return
                if self._tail_bytes > TAIL_BYTES_MAX:
                    return
                self._tail.append(batch)
                self._tail_bytes += batch.size
        except CorruptBatch as corrupt:
            log.warning("fetched_batch_corrupt", extra={"expected": self.end_offset, "cause": str(corrupt)})

    def advance(self, high_watermark: int) -> None:
        """Raise the high watermark; a lower one and -1 (unknown) change nothing."""
        self.high_watermark = max(self.high_watermark, high_watermark)

    def truncate(self, epoch: int, end_offset: int) -> None:
        """Drop the part of the tail that the leader lacks: from `end_offset` on, or of an epoch above `epoch`.

        Raises LogDiverged if that would remove committed records.
        """
        if end_offset < self._applied_end:
            raise LogDiverged(end_offset, self._applied_end)
        while self._tail and (self._tail[-1].last_offset >= end_offset or self._tail[-1].leader_epoch > epoch):
            self._tail_bytes -= self._tail.pop().size

    def next_change(self) -> CommittedChange | None:
        """Apply committed batches up to the next change and return it.

        None if no committed batch is left, also while a transaction is open. Raises ReplayError; do not use the log
        after that.
        """
        while self._tail and self._tail[0].last_offset < self.high_watermark:
            batch = self._tail[0]
            if self._change_start < 0:
                self._change_start = batch.base_offset
            self._loader.apply_batch(batch, self._records.add)
            self._read.append(batch)
            self._tail.popleft()  # only now, so that a batch that cannot be replayed is not skipped
            self._tail_bytes -= batch.size
            self._applied_end = batch.last_offset + 1
            self._applied_epoch = batch.leader_epoch
            control = tuple(self._control_records(batch)) if batch.is_control else ()
            if control or self._loader.image is not self._image:
                return self._change(batch, control)
        return None

    def _change(self, batch: RecordBatch, control: tuple[tuple[Offset, ControlRecord], ...]) -> CommittedChange:
        before, self._image = self._image, self._loader.image
        if self._image is before:  # control records while a transaction is open
            first, last = batch.base_offset, batch.last_offset
        else:  # a batch, a transaction, or the records before a transaction in the batch that begins it
            first, last = self._change_start, self._image.offset
            self._change_start = last + 1 if self._loader.in_transaction else -1
        batches, self._read = tuple(self._read), []
        return CommittedChange(
            first_offset=first,
            last_offset=last,
            epoch=batch.leader_epoch,
            timestamp_ms=batch.max_timestamp,
            records=tuple(self._records.take()),
            control_records=control,
            before=before,
            after=self._image,
            batches=batches,
        )

    def _control_records(self, batch: RecordBatch) -> list[tuple[Offset, ControlRecord]]:
        found: list[tuple[Offset, ControlRecord]] = []
        for record in batch.records():
            control = decode_control(record.key or b"", record.value or b"")
            if control is None:
                continue
            found.append((record.offset, control))
            if isinstance(control, VotersRecord):
                self.voters = control
        return found

    def load_snapshot(self, data: bytes, end_offset: int, epoch: int) -> None:
        """Replace the log by a snapshot; may run on a thread while nothing else uses this log.

        Raises ReplayError or CorruptBatch; the log is unchanged then.
        """
        loader = MetadataLoader()
        controls: list[ControlRecord] = []

        def batches() -> Iterator[RecordBatch]:
            position = 0
            for batch in read_batches(data):
                position += batch.size
                if batch.is_control:
                    found = (decode_control(record.key or b"", record.value or b"") for record in batch.records())
                    controls.extend(control for control in found if control is not None)
                yield batch
            if position != len(data):
                raise CorruptBatch(position, "the snapshot ends inside a batch")

        loader.load_snapshot(batches(), end_offset, epoch)
        self._loader = loader
        self._image = loader.image
        self._applied_end, self._applied_epoch = end_offset, epoch
        self._tail.clear()
        self._tail_bytes = 0
        self._records.clear()
        self._change_start = -1
        self._read.clear()
        for control in controls:
            if isinstance(control, VotersRecord):
                self.voters = control
            elif isinstance(control, SnapshotHeaderRecord):
                self.snapshot_time_ms = control.last_contained_log_timestamp
        self.advance(end_offset)
