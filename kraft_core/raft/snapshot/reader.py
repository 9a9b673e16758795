"""A snapshot read back, a piece of its file at a time. Source: RecordsSnapshotReader of Kafka 4.3.1; KIP-630."""

from collections.abc import Callable, Iterator
from typing import Final

from kraft_core.protocol.control_records import SnapshotHeaderRecord, decode_control
from kraft_core.protocol.record_batch import RecordBatch, read_batches
from kraft_core.raft.raft_log import OffsetAndEpoch, RaftLog

READ_BYTES: Final = 256 * 1024


class SnapshotReader:
    """The batches of one snapshot, from the header's to the footer's. To be closed once, when it has been loaded."""

    __slots__ = ("_log", "_on_close", "snapshot_id")

    def __init__(
        self, log: RaftLog, snapshot_id: OffsetAndEpoch, on_close: Callable[["SnapshotReader"], None] | None = None
    ) -> None:
        self.snapshot_id = snapshot_id
        self._log = log
        self._on_close = on_close

    def last_contained_log_timestamp(self) -> int:
        """Time of that record in ms, out of the header; -1 for a snapshot that has none."""
        for batch in self:
            for record in batch.records() if batch.is_control else ():
                control = decode_control(record.key or b"", record.value or b"")
                return control.last_contained_log_timestamp if isinstance(control, SnapshotHeaderRecord) else -1
            break
        return -1

    def __iter__(self) -> Iterator[RecordBatch]:
        """Read from the beginning. Raises CorruptBatch; AssertionError when there is no such snapshot (any more)."""
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
            assert found is not None, f"Snapshot {self.snapshot_id} vanished while it was read."
            data, size = found
            assert data or position >= size, f"Snapshot {self.snapshot_id} ends at byte {position} of {size}."
            yield data
            position += len(data)
            if position >= size:
                return

    def close(self) -> None:
        """Say that all of it was handled. A second call does nothing."""
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close(self)
