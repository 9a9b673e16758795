"""What a consumer may and must be given: the committed records of a partition, by offset."""

from bisect import bisect_left

from kraft_core.protocol.record_batch import RecordBatch
from tests.clients.simulator.partition_log import PartitionLog


class LogTruth:
    """The committed data records of one log. It grows with the log; what is committed never changes."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self._batches = 0
        self._offsets: list[int] = []
        self._records: dict[int, tuple[bytes | None, RecordBatch]] = {}

    def _update(self) -> None:
        log = self.log
        while self._batches < len(log.batches) and log.batches[self._batches].last_offset < log.high_watermark:
            batch = log.batches[self._batches]
            self._batches += 1
            if not batch.is_control:
                for record in batch.records():
                    self._offsets.append(record.offset)
                    self._records[record.offset] = (record.value, batch)

    def value(self, offset: int) -> tuple[bytes | None, RecordBatch] | None:
        """Return the value of a committed data record and its batch; None if there is none at the offset."""
        self._update()
        return self._records.get(offset)

    def due(self, first: int, end: int, *, read_committed: bool) -> list[int]:
        """Return the offsets from `first` to before `end` that a consumer must be given."""
        self._update()
        offsets = self._offsets[bisect_left(self._offsets, first) : bisect_left(self._offsets, end)]
        if not read_committed:
            return offsets
        return [offset for offset in offsets if not self.log.is_aborted(self._records[offset][1])]
