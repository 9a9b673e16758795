"""Decodes the records of a batch into ConsumerRecords, a bounded number at a time.

Compressed data is decompressed piece by piece as it is read, so that a small poll of a large batch costs little time
and memory. The loop of `_decode_run` is inlined, since it determines the cost of a consumed record: it uses that the
offsets of a batch without gaps are known without decoding them, and hands everything else to `_decode_one`.

Format: see `protocol.record_walk`. Source: DefaultRecord.java, DefaultRecordBatch.RecordIterator, Kafka 4.3.1.
"""

from collections.abc import Iterator
from typing import Final

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.consumer_record import ConsumerRecord, Headers
from kraft_core.clients.consumer.uniform_records import UNIFORM_LEAST, Forms, Raw, to_records
from kraft_core.protocol.batch_header import HEADER_BYTES
from kraft_core.protocol.compression import decompress_chunks, decompressed_bytes_max
from kraft_core.protocol.errors import CorruptBatch
from kraft_core.protocol.primitives import Malformed, decode_uvarint, decode_varint, decode_varlong
from kraft_core.protocol.record_batch import RecordBatch
from kraft_core.protocol.record_walk import check_count

_LENGTH_BYTES_MAX: Final = 5
_WIDTHS: Final = ((64, 1), (8_192, 2), (1_048_576, 3), (2**27, 4), (2**31, 5))
"""Records before this number of a batch have offset deltas of this many bytes."""


class RecordDecoder:
    """The records of one batch. Raises CorruptBatch and OversizedBatch as RecordBatch.records.

    With `forms` runs of records of one size are looked for.
    """

    __slots__ = (
        "_at",
        "_batch",
        "_chunks",
        "_data",
        "_ended",
        "_epoch",
        "_forms",
        "_index",
        "_is_careful",
        "_partition",
        "_timestamp_type",
    )

    def __init__(self, batch: RecordBatch, partition: TopicPartition, forms: Forms | None = None) -> None:
        check_count(len(batch.raw), batch.record_count)
        self._batch = batch
        self._partition = partition
        self._epoch = batch.leader_epoch if batch.leader_epoch >= 0 else None
        self._timestamp_type = int(batch.is_log_append_time)
        self._index = 0
        self._forms = forms
        self._is_careful = batch.record_count != batch.last_offset_delta + 1
        self._chunks: Iterator[bytes] = iter(())
        if batch.codec:
            self._data, self._at, self._ended = b"", 0, False
            content = memoryview(batch.raw)[HEADER_BYTES:]
            self._chunks = decompress_chunks(batch.codec, content, decompressed_bytes_max(len(batch.raw)))
        else:
            self._data, self._at, self._ended = batch.raw, HEADER_BYTES, True

    @property
    def is_done(self) -> bool:
        """Whether all records were read."""
        return self._index >= self._batch.record_count

    def read(self, out: list[Raw], count: int) -> None:
        """Append the next records to `out`: `count`, fewer at the end, more where a run of one size is read whole."""
        wanted = min(count, self._batch.record_count - self._index)
        try:
            while wanted > 0:
                before = len(out)
                self._read_available(out, wanted)
                wanted -= len(out) - before
                before = len(out)
                if wanted > 0 and not self._read_long(out) and not self._grow():
                    raise Malformed(f"the data ends within record {self._index}")
                wanted -= len(out) - before
            if self.is_done and (self._at != len(self._data) or (not self._ended and self._grow())):
                raise Malformed("there is more data after the last record")
        except Malformed as failure:
            raise CorruptBatch(self._at, f"record {self._index} is malformed: {failure}") from None

    def _read_available(self, out: list[Raw], count: int) -> None:
        """Read records that are whole in the data, `count` at most."""
        stop = self._index + count
        for limit, width in _WIDTHS:
            while self._index < limit and not self._is_careful:
                if not self._read_run(out, stop - self._index, limit, width) or self._index >= stop:
                    return
        while self._is_careful and self._index < stop and self._read_one(out):
            pass

    def _read_run(self, out: list[Raw], count: int, limit: int, width: int) -> bool:
        """Read records without gaps whose offset deltas, up to `limit`, have `width` bytes.

        Return False if the next record is not whole. If the records turn out to be malformed or to have gaps, none is
        read, and all others are read one by one.
        """
        before = len(out)
        run = min(limit, self._batch.record_count) - self._index
        try:
            if self._forms is not None and run >= UNIFORM_LEAST and self._read_uniform(self._forms, out, run):
                return True
            count = min(count, run)
            last_at, at = self._decode_run(out, count, width)
            read = len(out) - before
            is_sound = not read or _offset_delta(self._data, last_at) == self._index + read - 1
        except (IndexError, Malformed):
            is_sound = False
        if not is_sound:
            del out[before:]
            self._is_careful = True
            return True
        self._index += read
        self._at = at
        return read == count

    def _read_uniform(self, forms: Forms, out: list[Raw], run: int) -> bool:
        """Read up to `run` records of one size; return False if they are not, and then read none."""
        form = forms.of_run(self._data, self._at, run, self._index)
        found = None if form is None else form.read(self._data, self._at)
        if form is None or found is None:
            return False
        batch, time_type = self._batch, self._timestamp_type
        deltas, keys, values = found
        time = batch.base_timestamp
        if time_type:
            deltas, time = None, batch.max_timestamp
        elif deltas is None:
            time += form.delta
        first = batch.base_offset + self._index
        offsets = range(first, first + form.count)
        out += to_records((deltas, keys, values), self._partition, offsets, time, time_type, self._epoch)
        self._index += form.count
        self._at += form.count * form.length
        return True

    def _decode_run(self, out: list[Raw], count: int, width: int) -> tuple[int, int]:
        """Decode whole records; return the positions of the last one and behind it."""
        data, at, batch = self._data, self._at, self._batch
        end = len(data)
        safe = end if self._ended else end - _LENGTH_BYTES_MAX
        topic, partition = self._partition
        base, timestamp_type, epoch = batch.base_timestamp, self._timestamp_type, self._epoch
        timestamp = batch.max_timestamp if timestamp_type else base
        first = batch.base_offset + self._index
        append, no_headers, last_delta, last = out.append, (), 0, at
        key: bytes | None
        value: bytes | None
        for offset in range(first, first + count):
            begin = at
            if at >= safe:
                break
            size = data[at]
            if size < 128:
                at += 1
            elif (byte := data[at + 1]) < 128:
                size, at = size & 127 | byte << 7, at + 2
            else:
                size, at = decode_uvarint(data, at)
            after = at + (size >> 1)
            if after > end:
                return last, begin
            delta = data[at + 1]
            if delta < 128:
                at += 2 + width
            elif (byte := data[at + 2]) < 128:
                delta, at = delta & 127 | byte << 7, at + 3 + width
            else:
                delta, at = decode_varlong(data, at + 1)
                delta, at = delta << 1 if delta >= 0 else ~(delta << 1), at + width
            if delta != last_delta and not timestamp_type:
                last_delta = delta
                timestamp = base + (delta >> 1 ^ -(delta & 1))
            size = data[at]
            at += 1
            if size & 1 and size < 128:
                key = None
            else:
                if size > 127:
                    size, at = decode_uvarint(data, at - 1)
                stop = at + (size >> 1)
                key = data[at:stop]
                at = stop
            size = data[at]
            at += 1
            if size > 127:
                if (byte := data[at]) < 128:
                    size, at = size & 127 | byte << 7, at + 1
                else:
                    size, at = decode_uvarint(data, at - 1)
            if size & 1:
                value = None
            else:
                stop = at + (size >> 1)
                value = data[at:stop]
                at = stop
            headers = no_headers if not data[at] else decode_headers(data, at, after)
            if at + 1 != after and not headers:
                raise Malformed("its length is not that of its fields")
            append(ConsumerRecord(topic, partition, offset, timestamp, timestamp_type, key, value, headers, epoch))
            last, at = begin, after
        return last, at

    def _read_one(self, out: list[Raw]) -> bool:
        """Read one record of any form; return False if it is not whole in the data."""
        data, begin = self._data, self._at
        try:
            size, at = decode_varint(data, begin)
        except (IndexError, Malformed):
            if self._ended:
                raise Malformed("its length is cut") from None
            return False
        after = at + size
        if after > len(data):
            return False
        batch = self._batch
        try:
            timestamp_delta, at = decode_varlong(data, at + 1)
            delta, at = decode_varint(data, at)
            key, at = _bytes(data, at, after)
            value, at = _bytes(data, at, after)
            headers = decode_headers(data, at, after)
        except IndexError:
            raise Malformed("a field is longer than the record") from None
        timestamp = batch.max_timestamp if self._timestamp_type else batch.base_timestamp + timestamp_delta
        topic, partition = self._partition
        offset = batch.base_offset + delta
        out.append(
            ConsumerRecord(topic, partition, offset, timestamp, self._timestamp_type, key, value, headers, self._epoch)
        )
        self._index += 1
        self._at = after
        return True

    def _read_long(self, out: list[Raw]) -> bool:
        """Read the next record, of which a part is in the data, in another way, or get more of the data.

        Return False if it did neither.
        """
        return False

    def _grow(self) -> bool:
        """Decompress until one more record is whole; return False at the end of the data."""
        left = len(self._data) - self._at
        needed = left + 1
        if left >= _LENGTH_BYTES_MAX:
            size, at = decode_varint(self._data, self._at)
            needed = max(needed, at - self._at + size)
        return self._ensure(needed) > left

    def _ensure(self, needed: int) -> int:
        """Decompress until `needed` bytes are in the data, or all that remain; return their number."""
        available = len(self._data) - self._at
        if available >= needed or self._ended:
            return available
        pieces = [self._data[self._at :]]
        while available < needed:
            chunk = next(self._chunks, None)
            if chunk is None:
                self._ended = True
                break
            pieces.append(chunk)
            available += len(chunk)
        self._data, self._at = b"".join(pieces), 0
        return available


def _offset_delta(data: bytes, at: int) -> int:
    """Return the offset delta of the record at a position, which was read before."""
    _size, at = decode_varint(data, at)
    _timestamp_delta, at = decode_varlong(data, at + 1)
    return decode_varint(data, at)[0]


def decode_headers(data: bytes, at: int, after: int) -> Headers:
    """Decode the headers, which must end at `after`."""
    count, at = decode_varint(data, at)
    if not 0 <= count <= after - at:
        raise Malformed(f"{count} headers with {after - at} bytes left")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _bytes(data, at, after)
        if name is None:
            raise Malformed("a header without a name")
        content, at = _bytes(data, at, after)
        headers.append((name.decode("utf-8", "replace"), content))
    if at != after:
        raise Malformed("its length is not that of its fields")
    return tuple(headers)


def _bytes(data: bytes, at: int, after: int) -> tuple[bytes | None, int]:
    length, at = decode_varint(data, at)
    if length == -1:
        return None, at
    end = at + length
    if not at <= end <= after:
        raise Malformed(f"a field of {length} bytes with {after - at} left")
    return data[at:end], end
