"""A snapshot being downloaded from the leader; each piece is checked on arrival.

A snapshot is complete when its batches have correct CRCs, the first one is a control batch with the header and the
last record is the footer. An incomplete snapshot is never loaded (KIP-630).
"""

from kraft_core.protocol.control_records import SnapshotFooterRecord, SnapshotHeaderRecord, decode_control
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.record_batch import RecordBatch, read_batches
from kraft_core.raft.raft_log import SnapshotSink


class SnapshotDownload:
    """The sink for the pieces, and the state of the checks."""

    __slots__ = ("_rest", "has_footer", "has_header", "sink")

    def __init__(self, sink: SnapshotSink) -> None:
        self.sink = sink
        self.has_header = False
        self.has_footer = False
        self._rest = b""

    def add(self, piece: bytes) -> bool:
        """Check and write a piece, which need not end at a batch boundary. Return False for an invalid one."""
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
        """Whether header and footer have arrived, and nothing after the footer."""
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
