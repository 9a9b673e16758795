"""Reading a snapshot file piece by piece. Source: RecordsSnapshotReader of Kafka 4.3.1; KIP-630."""

from collections.abc import Callable, Iterator
from typing import Final

from kraft_core.protocol.control_records import SnapshotHeaderRecord, decode_control
from kraft_core.protocol.record_batch import RecordBatch, read_batches
from kraft_core.raft.raft_log import OffsetAndEpoch, RaftLog

READ_BYTES: Final = 256 * 1024


class SnapshotReader:
    """The batches of one snapshot, from header to footer. The listener closes it once it has loaded the snapshot."""

    __slots__ = ("_log", "_on_close", "snapshot_id")

    def __init__(
        self, log: RaftLog, snapshot_id: OffsetAndEpoch, on_close: Callable[["SnapshotReader"], None] | None = None
    ) -> None:
        self.snapshot_id = snapshot_id
        self._log = log
        self._on_close = on_close

    def last_contained_log_timestamp(self) -> int:
        """The time in ms from the snapshot's header; -1 without a header."""
        for batch in self:
            for record in batch.records() if batch.is_control else ():
                control = decode_control(record.key or b"", record.value or b"")
                return control.last_contained_log_timestamp if isinstance(control, SnapshotHeaderRecord) else -1
            break
        return -1

    def __iter__(self) -> Iterator[RecordBatch]:
        """Read from the beginning. Raises CorruptBatch; AssertionError when the snapshot does not exist (any more)."""
        rest = b""
        for chunk in self._chunks():
            data = rest + chunk
            consumed = 0
            for batch in read_batches(data):
                yield batch
                consumed += batch.size
            rest = data[consumed:]

    def _chunks(self) -> Iterator[bytes]:
        position = 0
        while True:
            found = self._log.read_snapshot(self.snapshot_id, position, READ_BYTES)
            assert found is not None, f"Snapshot {self.snapshot_id} disappeared while it was read."
            data, size = found
            assert data or position >= size, f"Snapshot {self.snapshot_id} ends at byte {position} of {size}."
            yield data
            position += len(data)
            if position >= size:
                return

    def close(self) -> None:
        """Report that the snapshot is loaded. A second call does nothing."""
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close(self)
