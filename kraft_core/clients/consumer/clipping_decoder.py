"""Decodes records of any size in bounded memory: of a long key or value only the beginning is kept.

For readers that show records to people. Source of the format: DefaultRecord.java, Kafka 4.3.1.
"""

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.consumer_record import ConsumerRecord, Headers, K, V
from kraft_core.clients.consumer.record_decoder import RecordDecoder, decode_headers
from kraft_core.clients.consumer.uniform_records import Raw
from kraft_core.protocol.primitives import Malformed, decode_varint, decode_varlong
from kraft_core.protocol.record_batch import RecordBatch

_FIXED_BYTES = 1 + 10 + 5 + 5
"""Maximum bytes of attributes, timestamp delta, offset delta and the length of the key."""
_LENGTH_BYTES = 5


class ClippedRecord(ConsumerRecord[K, V], frozen=True, gc=False):
    """A record whose key or value is longer than what is kept of it. Sizes are bytes, -1 for null.

    Without `has_headers` the headers were too long as well, and are left out.
    """

    key_size: int = -1
    value_size: int = -1
    has_headers: bool = True


class ClippingDecoder(RecordDecoder):
    """The records of one batch, with at most `record_bytes_max` of each key, of each value and of its headers."""

    __slots__ = ("_left", "_record_bytes_max")

    def __init__(self, batch: RecordBatch, partition: TopicPartition, record_bytes_max: int) -> None:
        super().__init__(batch, partition)
        self._record_bytes_max = record_bytes_max
        self._left = 0  # bytes of the record behind the position

    def _read_long(self, out: list[Raw]) -> bool:
        before = len(self._data) - self._at
        available = self._ensure(_LENGTH_BYTES)
        if available < _LENGTH_BYTES:
            return False
        size, at = decode_varint(self._data, self._at)
        if size <= self._record_bytes_max:
            return available > before  # the record may be whole now
        self._at = at
        self._left = size
        self._need(_FIXED_BYTES)
        start = self._at
        timestamp_delta, at = decode_varlong(self._data, start + 1)
        delta, self._at = decode_varint(self._data, at)
        self._left -= self._at - start
        key, key_size = self._clip()
        value, value_size = self._clip()
        has_headers = self._left <= self._record_bytes_max
        headers: Headers = ()
        if has_headers:
            self._need(self._left)
            headers = decode_headers(self._data, self._at, self._at + self._left)
        self._skip(self._left)
        batch = self._batch
        timestamp = batch.max_timestamp if self._timestamp_type else batch.base_timestamp + timestamp_delta
        topic, partition = self._partition
        out.append(
            ClippedRecord(
                topic,
                partition,
                batch.base_offset + delta,
                timestamp,
                self._timestamp_type,
                key,
                value,
                headers,
                self._epoch,
                key_size,
                value_size,
                has_headers,
            )
        )
        self._index += 1
        return True

    def _need(self, count: int) -> None:
        """Have `count` bytes in the data, fewer at the end of the record."""
        count = min(count, self._left)
        if self._ensure(count) < count:
            raise Malformed("the data ends within a record")

    def _clip(self) -> tuple[bytes | None, int]:
        """Return the beginning of a key or value and its whole size."""
        self._need(_LENGTH_BYTES)
        size, at = decode_varint(self._data, self._at)
        self._left -= at - self._at
        self._at = at
        if not -1 <= size <= self._left:
            raise Malformed(f"a field of {size} bytes with {self._left} left")
        if size < 0:
            return None, -1
        kept = min(size, self._record_bytes_max)
        self._need(kept)
        content = self._data[self._at : self._at + kept]
        self._skip(size)
        return content, size

    def _skip(self, count: int) -> None:
        """Pass over bytes of the record without keeping them."""
        self._left -= count
        while (available := len(self._data) - self._at) < count:
            count -= available
            self._data, self._at = b"", 0
            if not self._ensure(1):
                raise Malformed("the data ends within a record")
        self._at += count
