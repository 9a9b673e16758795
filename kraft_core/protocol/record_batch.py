"""Record batches of magic 2, as they are in log segments, snapshots and fetch responses: a header and its records.

`batch_header` describes the header, `record_walk` the records.

Source: DefaultRecordBatch.java and DefaultRecord.java, Kafka 4.3.1; KIP-98.
"""

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Final, NamedTuple

from crc32c import crc32c

from kraft_core.protocol.batch_header import (
    AFTER_CRC,
    ATTRIBUTES_POSITION,
    BATCH_LENGTH_MIN,
    BEFORE_CRC,
    CONTROL_MASK,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    PREFIX,
    TRANSACTIONAL_MASK,
    BatchHeader,
)
from kraft_core.protocol.compression import decoder_bytes, decompressed_bytes_max
from kraft_core.protocol.errors import CorruptBatch
from kraft_core.protocol.primitives import Malformed, decode_varint, decode_varlong, encode_varint
from kraft_core.protocol.record_walk import Walked, walk_records, whole_records

METADATA_BYTES_MAX: Final = 8 * 1024 * 1024
"""Maximum bytes of records in a batch of the metadata log, as in Apache's controller, which does not compress."""

PACED_RECORD_BYTES_MAX: Final = 16 * 1024 * 1024
"""Maximum record size for `paced_records`; the records of a coordinator are far shorter."""

_DELTAS: Final = [b"\x00\x00" + encode_varint(delta) for delta in range(1024)]
"""Encoded attributes, timestamp delta 0 and offset delta of the first records of a batch."""
_LENGTHS: Final = [encode_varint(length) for length in range(2048)]


class Record(NamedTuple):
    """One record of a batch; header values may be null."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class RecordBatch(BatchHeader, frozen=True, gc=False):
    """A whole batch: the fields of its header, and all its bytes in `raw`."""

    raw: bytes

    @property
    def decoder_bytes(self) -> int:
        """Memory in bytes that decompression needs in addition to the records themselves."""
        return decoder_bytes(self.codec, memoryview(self.raw)[HEADER_BYTES:])

    def values(self) -> list[bytes]:
        """Return the values in offset order without null values, for batches of the metadata log.

        Raises as `records` does, OversizedBatch for more than METADATA_BYTES_MAX of records.
        """
        if not self.codec:
            values = _plain_values(self.raw, self.record_count)
            if values is not None:
                return values
        records = self._records(METADATA_BYTES_MAX, headers=True)
        return [record.value for record in records if record is not None and record.value is not None]

    def records(self) -> Iterator[Record]:
        """Yield the records in offset order, decompressing only as far as they are read.

        Raises CorruptBatch, OversizedBatch for more bytes or records than a batch of this size may contain (see
        `compression`), and KafkaError for an unsupported compression codec.
        """
        limit_bytes = decompressed_bytes_max(len(self.raw))
        return (record for record in self._records(limit_bytes, headers=True) if record is not None)

    def paced_records(self) -> Iterator[Record | None]:
        """Yield the records without their headers, and None as a pause within a long one.

        Raises as `records` does, OversizedBatch also for a record longer than PACED_RECORD_BYTES_MAX.
        """
        limit_bytes = decompressed_bytes_max(len(self.raw))
        return self._records(limit_bytes, headers=False, record_bytes_max=PACED_RECORD_BYTES_MAX)

    def walk(self) -> Iterator[Walked]:
        """Check the records in bounded steps without creating objects; raises as `records`."""
        return walk_records(self.raw, HEADER_BYTES, self.codec, self.record_count)

    def _records(self, limit_bytes: int, *, headers: bool, record_bytes_max: int = 2**31) -> Iterator[Record | None]:
        log_append_time = self.max_timestamp if self.is_log_append_time else None
        bodies = whole_records(self.raw, HEADER_BYTES, self.codec, self.record_count, limit_bytes, record_bytes_max)
        for data, begin, end in bodies:
            if not end:
                yield None
                continue
            try:
                delta, offset_delta, key, value, position = _fields(data, begin, end)
                pairs = _headers(data, position, end) if headers else ()
            except (IndexError, Malformed) as failure:
                raise CorruptBatch(begin, f"a malformed record: {failure}") from None
            timestamp = self.base_timestamp + delta if log_append_time is None else log_append_time
            yield Record(self.base_offset + offset_delta, timestamp, key, value, pairs)


def encode_batch(
    base_offset: int,
    leader_epoch: int,
    timestamp_ms: int,
    values: Sequence[bytes | None],
    *,
    control_keys: Sequence[bytes] | None = None,
    keys: Sequence[bytes | None] | None = None,
    is_transactional: bool = False,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """Return a batch of uncompressed records with the same timestamp.

    With `control_keys`, one per value, it is a control batch; `keys` are the keys of data records. The metadata log has
    neither keys nor producers.
    """
    assert values, "a batch holds at least one record"
    attributes = CONTROL_MASK if control_keys is not None else 0
    if is_transactional:
        attributes |= TRANSACTIONAL_MASK
    records = encode_records(values, keys if control_keys is None else control_keys)
    return frame_batch(
        base_offset,
        leader_epoch,
        timestamp_ms,
        len(values),
        records,
        attributes=attributes,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def frame_batch(
    base_offset: int,
    leader_epoch: int,
    timestamp_ms: int,
    record_count: int,
    records: Sequence[bytes],
    *,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """Return a batch of the pieces from `encode_records`, of one or several calls with consecutive deltas."""
    after_crc = AFTER_CRC.pack(
        attributes,
        record_count - 1,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    covered = b"".join((after_crc, *records))
    length = len(covered) + ATTRIBUTES_POSITION - LOG_OVERHEAD
    return BEFORE_CRC.pack(base_offset, length, leader_epoch, MAGIC, crc32c(covered)) + covered


def encode_records(
    values: Sequence[bytes | None], record_keys: Sequence[bytes | None] | None = None, first_delta: int = 0
) -> list[bytes]:
    """Encode records of a batch from offset delta `first_delta` on; return the pieces, to be joined."""
    parts: list[bytes] = []
    lengths, deltas = _LENGTHS, _DELTAS
    pairs = zip(values, record_keys or repeat(None), strict=record_keys is not None)
    for delta, (value, key) in enumerate(pairs, first_delta):
        head = deltas[delta] if delta < 1024 else b"\x00\x00" + encode_varint(delta)
        if key is None:
            head += b"\x01"
        else:
            head += encode_varint(len(key)) + key
        if value is None:
            head += b"\x01\x00"
            parts += (encode_varint(len(head)), head)
            continue
        size = len(value)
        head += lengths[size] if size < 2048 else encode_varint(size)
        size += len(head) + 1
        parts += (lengths[size] if size < 2048 else encode_varint(size), head, value, b"\x00")
    return parts


def read_batches(data: bytes, *, verify_crc: bool = True, position: int = 0) -> Iterator[RecordBatch]:
    """Yield whole batches from `position` on; stop without an error at an incomplete one.

    Raises CorruptBatch, with the position in `data`, for a wrong length, magic, count or CRC, after the batches before
    it.
    """
    end = len(data)
    view = memoryview(data)
    while position + HEADER_BYTES <= end:
        (
            base_offset,
            length,
            leader_epoch,
            magic,
            crc,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        ) = HEADER.unpack_from(data, position)
        if magic != MAGIC:
            raise CorruptBatch(position, f"magic {magic}; only {MAGIC} is supported")
        if length < BATCH_LENGTH_MIN or base_offset < 0 or last_offset_delta < 0 or count < 0:
            reason = f"length {length}, base offset {base_offset}, last delta {last_offset_delta}, count {count}"
            raise CorruptBatch(position, reason)
        after = position + LOG_OVERHEAD + length
        if after > end:
            return
        if verify_crc:
            computed = crc32c(view[position + ATTRIBUTES_POSITION : after])
            if computed != crc:
                raise CorruptBatch(position, f"stored CRC {crc:#010x}, computed {computed:#010x}")
        yield RecordBatch(
            base_offset,
            length,
            leader_epoch,
            magic,
            crc,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
            data if position == 0 and after == end and type(data) is bytes else bytes(view[position:after]),
        )
        position = after
    if position + LOG_OVERHEAD <= end:
        _base_offset, length = PREFIX.unpack_from(data, position)
        if length < BATCH_LENGTH_MIN:
            raise CorruptBatch(position, f"length {length}")


def _plain_values(raw: bytes, count: int) -> list[bytes] | None:
    """Decode values of records in the form of the metadata log: no key, no headers, timestamp delta 0.

    Return None when a record has another form or is malformed: then the general reader decides.
    """
    values: list[bytes] = []
    add = values.append
    position = HEADER_BYTES
    try:
        for _ in range(count):
            size = raw[position]
            position += 1
            if size > 127:
                high = raw[position]
                position += 1
                if high > 127:
                    size, position = decode_varint(raw, position - 2)
                    size <<= 1
                else:
                    size = size & 127 | high << 7
            end = position + (size >> 1)
            if size & 1 or raw[position + 1]:
                return None
            position += 2
            while raw[position] > 127:
                position += 1
            if raw[position + 1] != 1:
                return None
            length = raw[position + 2]
            position += 3
            if length > 127:
                high = raw[position]
                position += 1
                if high > 127:
                    length, position = decode_varint(raw, position - 2)
                    length <<= 1
                else:
                    length = length & 127 | high << 7
            value_end = position + (length >> 1)
            if length & 1 or value_end != end - 1 or raw[value_end]:
                return None
            add(raw[position:value_end])
            position = end
    except (IndexError, Malformed):
        return None
    return values if position == len(raw) else None


def _fields(data: bytes, position: int, end: int) -> tuple[int, int, bytes | None, bytes | None, int]:
    """Return timestamp delta, offset delta, key, value and the position of the headers of a record body."""
    timestamp_delta, position = decode_varlong(data, position + 1)
    offset_delta, position = decode_varint(data, position)
    key, position = _bytes(data, position, end)
    value, position = _bytes(data, position, end)
    return timestamp_delta, offset_delta, key, value, position


def _headers(data: bytes, position: int, end: int) -> tuple[tuple[str, bytes | None], ...]:
    count, position = decode_varint(data, position)
    if not 0 <= count <= end - position:
        raise Malformed(f"{count} headers with {end - position} bytes left")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _bytes(data, position, end)
        if name is None:
            raise Malformed("a header without a name")
        content, position = _bytes(data, position, end)
        headers.append((name.decode("utf-8", "replace"), content))
    if position != end:
        raise Malformed("its length is not that of its fields")
    return tuple(headers)


def _bytes(data: bytes, position: int, limit: int) -> tuple[bytes | None, int]:
    length, position = decode_varint(data, position)
    if length == -1:
        return None, position
    end = position + length
    if not position <= end <= limit:
        raise Malformed(f"a field of {length} bytes with {limit - position} left")
    return data[position:end], end
