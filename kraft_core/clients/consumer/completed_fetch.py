"""The answer to a fetch of one partition, read a bounded number of records at a time.

Batches that are not compressed and whose records are of one size are read whole, in a loop that is inlined since it
determines the cost of a consumed record; all others by a decoder.

Control batches are never given. With read_committed the records of aborted transactions are left out: a producer's
batches are aborted from the first offset that the broker named for it up to the marker that ends the transaction.

Source: CompletedFetch of Kafka 4.3.1; KIP-98.
"""

import heapq
import struct
from collections.abc import Iterable
from functools import cached_property
from typing import Final

from crc32c import crc32c

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.clipping_decoder import ClippingDecoder
from kraft_core.clients.consumer.consumer_errors import RecordUnreadable
from kraft_core.clients.consumer.record_decoder import RecordDecoder
from kraft_core.clients.consumer.subscription_state import READ_COMMITTED
from kraft_core.clients.consumer.uniform_records import UNIFORM_MOST, Forms, Raw, to_records
from kraft_core.protocol.batch_header import (
    ATTRIBUTES_POSITION,
    BATCH_LENGTH_MIN,
    COMPRESSION_MASK,
    CONTROL_MASK,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
)
from kraft_core.protocol.control_records import ControlRecordType
from kraft_core.protocol.errors import CorruptBatch, KafkaError
from kraft_core.protocol.messages import FetchResponseAbortedTransaction
from kraft_core.protocol.record_batch import RecordBatch, read_batches

_CONTROL_KEY: Final = struct.Struct(">hh")
_EXTENT: Final = struct.Struct(">qi11xi")
"""Base offset, length and last offset delta of a batch."""


class CompletedFetch:
    """Records of `partition` from `fetch_offset` on, or an `error` for the application.

    With `record_bytes_max` longer keys and values are clipped (see `clipping_decoder`). `forms` are kept from answer to
    answer.
    """

    def __init__(
        self,
        partition: TopicPartition,
        data: bytes,
        fetch_offset: int,
        *,
        isolation_level: int = 0,
        check_crcs: bool = True,
        record_bytes_max: int | None = None,
        aborted: Iterable[FetchResponseAbortedTransaction] = (),
        forms: Forms | None = None,
        error: KafkaError | None = None,
    ) -> None:
        self.partition = partition
        self.next_fetch_offset = fetch_offset
        self.last_epoch: int | None = None
        self.is_consumed = False
        self.size = len(data)
        self._data = data
        self._at = 0  # where the next batch begins
        self._behind = fetch_offset  # the offset behind all that was decoded
        self._ahead: list[Raw] = []  # decoded, but not handed out yet
        self._check_crcs = check_crcs
        self._isolation_level = isolation_level
        self._decoded_mask = COMPRESSION_MASK | CONTROL_MASK
        if isolation_level == READ_COMMITTED:
            self._decoded_mask |= TRANSACTIONAL_MASK
        self._record_bytes_max = record_bytes_max
        self._aborted = [(each.first_offset, each.producer_id) for each in aborted]
        heapq.heapify(self._aborted)
        self._aborted_producer_ids: set[int] = set()
        self._batch: RecordBatch | None = None
        self._forms = forms or Forms()
        self._decoder: RecordDecoder | None = None
        self._error = error

    @cached_property
    def end_offset(self) -> int | None:
        """The offset after the last batch; None if the answer is an error or has no whole batch."""
        end = None
        position = 0
        data = self._data
        while position + HEADER_BYTES <= len(data):
            base_offset, length, last_delta = _EXTENT.unpack_from(data, position)
            position += LOG_OVERHEAD + length
            if length < BATCH_LENGTH_MIN or position > len(data):
                break
            end = base_offset + last_delta + 1
        return end

    def drain(self) -> None:
        """Give up what is left."""
        self.is_consumed = True
        self._batch = self._decoder = None
        self._data = b""
        self._ahead = []

    def fetch_records(self, max_records: int) -> list[Raw]:
        """Return the next records; fewer than asked for only at the end, which sets `is_consumed`.

        Raises RecordUnreadable, or the error that the fetch was answered with, after the records before it were given,
        and again at each further call.
        """
        records, self._ahead = self._ahead, []
        try:
            while self._error is None and not self.is_consumed and len(records) < max_records:
                if self._decoder is not None:
                    self._read(self._decoder, records, max_records - len(records))
                elif not self._read_batches(records, max_records):
                    self._next_batch()
        except KafkaError as failure:
            self._error = RecordUnreadable(self.partition, self._behind, failure)
        if len(records) > max_records:
            self._ahead = records[max_records:]
            del records[max_records:]
        self.next_fetch_offset = records[-1].offset + 1 if self._ahead else self._behind
        if self._error is not None and not records:
            raise self._error
        return records

    def _read_batches(self, records: list[Raw], max_records: int) -> bool:
        """Read whole batches of records of one size until there are `max_records`.

        Return False at one that is of another form, damaged, or begins before the position.
        """
        data, partition, check_crcs = self._data, self.partition, self._check_crcs
        if self._record_bytes_max is not None:
            return False
        view, end = memoryview(data), len(data)
        while len(records) < max_records:
            at = self._at
            if at + HEADER_BYTES > end:
                return False
            base_offset, length, leader_epoch, magic, crc, attributes, last_delta, base_time, max_time, *_, count = (
                HEADER.unpack_from(data, at)
            )
            if magic != MAGIC or attributes & self._decoded_mask or count != last_delta + 1:
                return False
            after = at + LOG_OVERHEAD + length
            if after > end or base_offset < self._behind:
                return False
            position = at + HEADER_BYTES
            forms = self._forms.of_batch(data, position, after - position, count)
            if not forms or (check_crcs and crc32c(view[at + ATTRIBUTES_POSITION : after]) != crc):
                return False
            epoch = leader_epoch if leader_epoch >= 0 else None
            before, offset = len(records), base_offset
            for form in forms:
                run = form.read(data, position)
                if run is None:
                    del records[before:]
                    return False
                time_type, time = 0, base_time
                if attributes & TIMESTAMP_TYPE_MASK:
                    run, time_type, time = (None, *run[1:]), 1, max_time
                elif run[0] is None:
                    time += form.delta
                first, offset = offset, offset + form.count
                records += to_records(run, partition, range(first, offset), time, time_type, epoch)
                position += form.count * form.length
            self._at, self._behind, self.last_epoch = after, offset, epoch
        return True

    def _read(self, decoder: RecordDecoder, records: list[Raw], count: int) -> None:
        """Read records of a batch by its decoder."""
        before = len(records)
        try:
            decoder.read(records, count)
        finally:
            if len(records) > before:
                if records[before].offset < self._behind:  # a batch is answered whole
                    records[before:] = [record for record in records[before:] if record.offset >= self._behind]
                if len(records) > before:
                    self._behind = records[-1].offset + 1
        if decoder.is_done:
            self._end_batch()

    def _end_batch(self) -> None:
        """Continue behind the batch: compaction may have removed its last records."""
        assert self._batch is not None
        self._behind = max(self._behind, self._batch.last_offset + 1)
        self._batch = self._decoder = None

    def _next_batch(self) -> None:
        batch = next(read_batches(self._data, verify_crc=self._check_crcs, position=self._at), None)
        if batch is None:
            if self.size and not self._at:
                raise CorruptBatch(0, f"the broker sent {self.size} bytes without a whole batch")
            self.drain()
            return
        self._at += batch.size
        self._batch = batch
        self.last_epoch = batch.leader_epoch if batch.leader_epoch >= 0 else None
        if self._is_left_out(batch):
            self._end_batch()
        elif self._record_bytes_max is None:
            # in other batches `_read_batches` has looked for runs
            may_have_runs = batch.codec or batch.is_transactional or batch.record_count > UNIFORM_MOST
            self._decoder = RecordDecoder(batch, self.partition, self._forms if may_have_runs else None)
        else:
            self._decoder = ClippingDecoder(batch, self.partition, self._record_bytes_max)

    def _is_left_out(self, batch: RecordBatch) -> bool:
        """Whether no record of the batch is given: control records, and those of aborted transactions."""
        if self._isolation_level == READ_COMMITTED and batch.has_producer_id:
            while self._aborted and self._aborted[0][0] <= batch.last_offset:
                self._aborted_producer_ids.add(heapq.heappop(self._aborted)[1])
            if batch.is_control:
                if _is_abort(batch):
                    self._aborted_producer_ids.discard(batch.producer_id)
            elif batch.is_transactional and batch.producer_id in self._aborted_producer_ids:
                return True
        return batch.is_control or batch.record_count == 0


def _is_abort(batch: RecordBatch) -> bool:
    first = next(batch.records(), None)
    if first is None or first.key is None or len(first.key) < _CONTROL_KEY.size:
        return False
    return bool(_CONTROL_KEY.unpack_from(first.key)[1] == ControlRecordType.ABORT)
