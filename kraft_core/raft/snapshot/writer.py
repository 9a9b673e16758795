"""Writing a snapshot: its valid ids, and the control records around those of the state.

    header, for kraft.version 1 the version and the voters as of its offset | the state's records | footer

Offsets count from 0 and every batch has the snapshot's epoch and time, so that equal states give equal bytes.
Source: KafkaRaftLog.createNewSnapshot, RecordsSnapshotWriter of Kafka 4.3.1; KIP-630, KIP-853.
"""

from collections.abc import Callable, Sequence

from kraft_core.protocol.control_records import (
    ControlRecord,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)
from kraft_core.protocol.record_batch import read_batches
from kraft_core.raft.internals.batch_accumulator import BatchAccumulator
from kraft_core.raft.internals.valid_offset_and_epoch import Kind, validate_offset_and_epoch
from kraft_core.raft.raft_log import OffsetAndEpoch, RaftLog, SnapshotSink
from kraft_core.raft.voter_set import VoterSet


class SnapshotWriter:
    """A snapshot being written, by one thread at a time; the file is created with the first record.

    `freeze` makes it durable and visible; without it `close` deletes the file.
    """

    __slots__ = ("_accumulator", "_begin", "_sink", "_timestamp_ms", "snapshot_id")

    def __init__(
        self,
        begin: Callable[[OffsetAndEpoch], SnapshotSink],
        snapshot_id: OffsetAndEpoch,
        last_contained_log_timestamp: int,
        kraft_version: int,
        voters: VoterSet,
    ) -> None:
        self.snapshot_id = snapshot_id
        self._begin = begin
        self._sink: SnapshotSink | None = None
        self._timestamp_ms = last_contained_log_timestamp
        self._accumulator = BatchAccumulator(snapshot_id.epoch, 0)
        header: list[ControlRecord] = [SnapshotHeaderRecord(last_contained_log_timestamp=last_contained_log_timestamp)]
        if kraft_version > 0:
            header += [KRaftVersionRecord(kraft_version=kraft_version), voters.to_record()]
        self._accumulator.append_control(header)

    def append(self, values: Sequence[bytes]) -> None:
        """Add records as one batch.

        Raises KafkaError as BatchAccumulator.append, ValueError when frozen or closed, and the errors of the sink.
        """
        self._accumulator.append(self.snapshot_id.epoch, values)
        self._write()

    def freeze(self) -> int:
        """Add the footer, make the snapshot durable and visible, and return its size in bytes. Raises as `append`."""
        self._accumulator.append_control([SnapshotFooterRecord()])
        sink = self._write()
        sink.freeze()
        return sink.size

    def close(self) -> None:
        """Delete what was written, unless the snapshot is frozen."""
        if self._sink is not None:
            self._sink.abort()

    def _write(self) -> SnapshotSink:
        if self._sink is None:
            self._sink = self._begin(self.snapshot_id)
        for batch in self._accumulator.drain(self._timestamp_ms):
            self._sink.append(batch.raw)
        return self._sink


def check_new_snapshot_id(log: RaftLog, high_watermark: int, snapshot_id: OffsetAndEpoch) -> bool:
    """Return whether a snapshot of this id can be written: False below the log's start and when it exists already.

    Raises ValueError for an id above the high watermark, in the middle of a batch, or with an epoch that differs from
    the log's.
    """
    if snapshot_id.offset < log.start_offset:
        return False
    if snapshot_id.offset > high_watermark:
        raise ValueError(f"Snapshot {snapshot_id} is greater than the high watermark {high_watermark}.")
    found = validate_offset_and_epoch(log, snapshot_id.offset, snapshot_id.epoch)
    if found.kind is not Kind.VALID:
        raise ValueError(
            f"Snapshot {snapshot_id} is not valid according to the log: {found.kind.value} {found.offset_and_epoch}."
        )
    raw = log.read(snapshot_id.offset, 1)
    if raw:
        base_offset = next(read_batches(raw, verify_crc=False)).base_offset
        if base_offset != snapshot_id.offset:
            raise ValueError(f"Snapshot {snapshot_id} is in the middle of the batch that begins at {base_offset}.")
    return snapshot_id not in log.snapshot_ids()
