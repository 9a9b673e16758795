"""A snapshot on its way from the leader: its pieces are checked as they come.

A snapshot is whole when its batches have right CRCs, the first one is a control batch with the header and the last
record is the footer. A snapshot that is not is never loaded (KIP-630).
"""

from kraft_core.protocol.control_records import SnapshotFooterRecord, SnapshotHeaderRecord, decode_control
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.record_batch import RecordBatch, read_batches
from kraft_core.raft.raft_log import SnapshotSink


class SnapshotDownload:
    """The sink that gets the pieces, and what their batches showed so far."""

    __slots__ = ("_rest", "has_footer", "has_header", "sink")

    def __init__(self, sink: SnapshotSink) -> None:
        self.sink = sink
        self.has_header = False
        self.has_footer = False
        self._rest = b""

    def add(self, piece: bytes) -> bool:
        """Check and keep a piece, which need not end with a batch; False when it cannot be part of a snapshot."""
        data = self._rest + piece
        taken = 0
        try:
            for batch in read_batches(data):
                if self.has_footer or not self._look_at(batch):
                    return False
                taken += batch.size
        except KafkaError:
            return False
        self._rest = data[taken:]
        self.sink.append(piece)
        return True

    @property
    def is_complete(self) -> bool:
        """Whether header, footer and nothing after it have come."""
        return self.has_header and self.has_footer and not self._rest

    def _look_at(self, batch: RecordBatch) -> bool:
        if not batch.is_control:
            return self.has_header
        for record in batch.records():
            control = decode_control(record.key or b"", record.value or b"")
            if not self.has_header and not isinstance(control, SnapshotHeaderRecord):
                return False
            self.has_header = True
            self.has_footer = isinstance(control, SnapshotFooterRecord)
        return True
