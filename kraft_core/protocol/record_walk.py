"""Reading the records of a batch, whole or in bounded steps.

`walk_records` checks the structure of the records without creating objects, for batches from untrusted clients. It is a
generator that pauses after at most WALK_RECORDS records or one piece of decompressed data, so that an event loop can do
other work in between; its memory does not depend on what the batch announces. `whole_records` yields the bytes of each
record for callers that need keys and values.

Format
------
A record is a varint length, attributes (0), a varlong timestamp delta, a varint offset delta, key and value, each after
a varint length (-1: null), and the headers after their varint count.

Source: DefaultRecord.java and DefaultRecordBatch.RecordIterator, Kafka 4.3.1.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from kraft_core.protocol.compression import decompress_chunks, decompressed_bytes_max, headers_max, records_max
from kraft_core.protocol.errors import CorruptBatch, KafkaError, OversizedBatch
from kraft_core.protocol.primitives import Malformed, decode_uvarint, decode_varint, decode_varlong

WALK_RECORDS: Final = 256
PAUSE: Final = (b"", 0, 0)
_AT_ONCE: Final = 4 * WALK_RECORDS
"""Maximum number of records and headers for `walk_plain`: about 1 ms of CPU."""
_LENGTH_BYTES: Final = 5
_FIXED_BYTES: Final = 1 + 10 + 5 + 5
"""Maximum bytes of attributes, timestamp delta, offset delta and the length of the key."""
_HEADERS_AT_ONCE: Final = 128
"""Upper bound on a one-byte varint: a record with 64 headers or more is read in pieces."""
_JOINED_BYTES: Final = 128 * 1024
"""A longer record is read in pieces."""
_ZIGZAG: Final = tuple(value >> 1 ^ -(value & 1) for value in range(128))
"""The numbers of one-byte varints."""


class Walked(NamedTuple):
    """Consecutive records from number `first` of the batch on; the deltas are relative to the batch's base."""

    first: int
    timestamp_deltas: list[int]
    offset_deltas: list[int]
    keyless: list[int]
    """Numbers of the records without a key."""


class _Window:
    """The currently decompressed part of the records: `data` from `position` on."""

    __slots__ = ("_chunks", "_dropped", "_headers", "data", "ended", "position")

    def __init__(self, raw: bytes, start: int, codec: int, limit_bytes: int) -> None:
        self._dropped = 0
        self._headers = headers_max(len(raw))
        if codec:
            self.data, self.position, self.ended = b"", 0, False
            self._chunks = decompress_chunks(codec, memoryview(raw)[start:], limit_bytes)
        else:
            self.data, self.position, self.ended = raw, start, True
            self._chunks = iter(())

    @property
    def consumed(self) -> int:
        """Bytes before the position, from the beginning of the records."""
        return self._dropped + self.position

    @property
    def available(self) -> int:
        """Bytes available from the position on."""
        return len(self.data) - self.position

    def count_headers(self, count: int) -> None:
        """Count headers. Raises OversizedBatch above the batch's limit."""
        self._headers -= count
        if self._headers < 0:
            raise OversizedBatch("its records have more headers than a batch of its size may contain")

    def grow(self, needed: int) -> Iterator[None]:
        """Make `needed` bytes available, or all that remain; pauses after each piece."""
        available = self.available
        if available >= needed or self.ended:
            return
        pieces = [self.data[self.position :]]
        while available < needed:
            chunk = next(self._chunks, None)
            if chunk is None:
                self.ended = True
                break
            pieces.append(chunk)
            available += len(chunk)
            yield
        self._dropped += self.position
        self.data, self.position = b"".join(pieces), 0

    def skip(self, size: int) -> Iterator[None]:
        """Skip `size` bytes without keeping them. Raises Malformed when fewer remain."""
        while size > self.available:
            size -= self.available
            self._dropped += len(self.data)
            self.data, self.position = b"", 0
            yield from self.grow(1)
            if not self.available:
                raise Malformed(f"the data ends {size} bytes before a field does")
        self.position += size


def walk_records(raw: bytes, start: int, codec: int, count: int) -> Iterator[Walked]:
    """Check the structure of the `count` records that begin at `start` of the batch `raw`.

    Pauses after at most WALK_RECORDS records or one piece of decompressed data, possibly without a record.
    Raises CorruptBatch for malformed records, OversizedBatch above the batch's limits, `records_max` and `headers_max`
    included, and KafkaError as `decompress_chunks`.
    """
    check_count(len(raw), count)
    window = _Window(raw, start, codec, decompressed_bytes_max(len(raw)))
    done = 0
    try:
        while done < count:
            walked = Walked(done, [], [], [])
            window.position = _pass_over(window, min(WALK_RECORDS, count - done), walked)
            passed = len(walked.offset_deltas)
            if passed:
                done += passed
                yield walked
                continue
            for _ in window.grow(_LENGTH_BYTES):
                yield walked
            size, position = decode_varint(window.data, window.position)
            whole = position - window.position + size
            if size <= _JOINED_BYTES and window.available < whole and not window.ended:
                for _ in window.grow(whole):
                    yield walked
            else:
                window.position = position
                yield from _long_record(window, size, walked)
                done += 1
                yield walked
        if not window.ended:
            for _ in window.grow(1):
                yield Walked(done, [], [], [])
        if window.available:
            raise Malformed(f"{window.available} bytes after the last record")
    except (IndexError, Malformed) as failure:
        raise CorruptBatch(window.consumed, f"record {done} of {count} is malformed: {failure}") from None


def walk_plain(raw: bytes, start: int, count: int) -> Walked | None:
    """Check all `count` uncompressed records at once; None if `walk_records` must: too many or malformed ones."""
    if count > _AT_ONCE:
        return None
    walked = Walked(0, [], [], [])
    try:
        position = _pass_over(_Window(raw, start, 0, 0), _AT_ONCE, walked)
    except (IndexError, KafkaError, Malformed):
        return None
    return walked if len(walked.offset_deltas) == count and position == len(raw) else None


def check_count(batch_bytes: int, count: int) -> None:
    """Raise OversizedBatch for more records than a batch of that size may contain."""
    allowed = records_max(batch_bytes)
    if count > allowed:
        raise OversizedBatch(f"it announces {count} records; one of {batch_bytes} bytes may contain {allowed}")


def _pass_over(window: _Window, count: int, walked: Walked) -> int:
    """Check records that are entirely in the window; stop before one that is not, or that has very many headers.

    The code is inlined, since it determines the cost of a produced record. Raises Malformed and IndexError.
    """
    data, position, end = window.data, window.position, len(window.data)
    safe = end if window.ended else end - _LENGTH_BYTES
    index, timestamps, offsets, keyless = walked
    stop_index = index + count
    while position < safe and index < stop_index:
        size = data[position]
        at = position + 1
        if size > 127:
            if (byte := data[at]) < 128:
                at += 1
                size = size & 127 | byte << 7
            else:
                size, at = decode_uvarint(data, position)
        stop = at + (size >> 1)
        if size & 1 or stop > end or not size:
            break
        delta = data[at + 1]
        at += 2
        if delta < 128:
            delta = _ZIGZAG[delta]
        else:
            delta, at = decode_varlong(data, at - 1)
        offset = data[at]
        at += 1
        if offset < 128:
            offset = _ZIGZAG[offset]
        elif (byte := data[at]) < 128:
            at += 1
            offset = (offset & 127 | byte << 7) >> 1 ^ -(offset & 1)
        else:
            offset, at = decode_varint(data, at - 1)
        key_length = data[at]
        at += 1
        if key_length > 127:
            key_length, at = decode_uvarint(data, at - 1)
        if key_length & 1 and key_length != 1:
            raise Malformed("a key of negative length")
        at += key_length >> 1
        length = data[at]
        at += 1
        if length > 127:
            if (byte := data[at]) < 128:
                at += 1
                length = length & 127 | byte << 7
            else:
                length, at = decode_uvarint(data, at - 1)
        if length & 1 and length != 1:
            raise Malformed("a value of negative length")
        at += (length >> 1) + 1
        headers = data[at - 1]
        if headers and at <= stop:
            if headers >= _HEADERS_AT_ONCE or headers & 1:
                break
            window.count_headers(headers >> 1)
            passed, at = _pass_headers(data, at, headers >> 1)
            stop_index = max(index + 1, stop_index - passed)
        if at != stop:
            raise Malformed("its length is not that of its fields")
        timestamps.append(delta)
        offsets.append(offset)
        if key_length == 1:
            keyless.append(index)
        index += 1
        position = stop
    return position


def _pass_headers(data: bytes, at: int, count: int) -> tuple[int, int]:
    """Check at most `count` headers that are entirely in the data; return their number and end. Raises Malformed."""
    end = len(data)
    begin = at
    try:
        for passed in range(count):
            begin = at
            length = data[at]
            at += 1
            if length > 127:
                length, at = decode_uvarint(data, at - 1)
            if length & 1:
                raise Malformed("a header without a name")
            at += length >> 1
            length = data[at]
            at += 1
            if length > 127:
                length, at = decode_uvarint(data, at - 1)
            if length & 1 and length != 1:
                raise Malformed("a header of negative length")
            at += length >> 1
            if at > end:
                return passed, begin
    except IndexError:
        return passed, begin
    return count, at


def _long_record(window: _Window, size: int, walked: Walked) -> Iterator[Walked]:
    """Check one record of `size` bytes after the position with pauses, of any length and number of headers."""
    if size < 1:
        raise Malformed(f"a record of {size} bytes")
    end = window.consumed + size
    pause = Walked(walked.first, [], [], [])
    for _ in window.grow(min(size, _FIXED_BYTES)):
        yield pause
    delta, window.position = decode_varlong(window.data, window.position + 1)
    offset, window.position = decode_varint(window.data, window.position)
    key_length, window.position = decode_varint(window.data, window.position)
    for _ in _skip_field(window, key_length, end):
        yield pause
    for _ in window.grow(_LENGTH_BYTES):
        yield pause
    value_length, window.position = decode_varint(window.data, window.position)
    for _ in _skip_field(window, value_length, end):
        yield pause
    for _ in window.grow(_LENGTH_BYTES):
        yield pause
    headers, window.position = decode_varint(window.data, window.position)
    left = end - window.consumed
    if not 0 <= headers <= left:
        raise Malformed(f"{headers} headers with {left} bytes left")
    window.count_headers(headers)
    passed = 0
    while passed < headers:
        for _ in window.grow(2 * _LENGTH_BYTES):
            yield pause
        some, window.position = _pass_headers(window.data, window.position, min(WALK_RECORDS, headers - passed))
        passed += some
        yield pause
        if not some:
            for is_name in (True, False):
                for _ in window.grow(_LENGTH_BYTES):
                    yield pause
                length, window.position = decode_varint(window.data, window.position)
                if is_name and length < 0:
                    raise Malformed("a header without a name")
                for _ in _skip_field(window, length, end):
                    yield pause
            passed += 1
    if window.consumed != end:
        raise Malformed("its length is not that of its fields")
    walked.timestamp_deltas.append(delta)
    walked.offset_deltas.append(offset)
    if key_length < 0:
        walked.keyless.append(walked.first)


def _skip_field(window: _Window, length: int, limit: int) -> Iterator[None]:
    left = limit - window.consumed
    if not -1 <= length <= left:
        raise Malformed(f"a field of {length} bytes with {left} left")
    return window.skip(max(0, length))


def whole_records(
    raw: bytes, start: int, codec: int, count: int, limit_bytes: int, record_bytes_max: int = 2**31
) -> Iterator[tuple[bytes, int, int]]:
    """Yield (data, begin, end) of each record's body, after its length, decompressing as far as needed.

    `end` is 0 for a pause: a piece was decompressed, and the record is not complete. Raises as `walk_records` does,
    OversizedBatch also for a record longer than `record_bytes_max`; the caller checks what is in the body.
    """
    check_count(len(raw), count)
    window = _Window(raw, start, codec, limit_bytes)
    try:
        for _ in range(count):
            if window.available < _LENGTH_BYTES and not window.ended:
                for _ in window.grow(_LENGTH_BYTES):
                    yield PAUSE
            size, position = decode_varint(window.data, window.position)
            if size > record_bytes_max:
                raise OversizedBatch(f"a record has {size} bytes, {record_bytes_max} are read")
            whole = position - window.position + size
            if window.available < whole:
                position -= window.position
                for _ in window.grow(whole):
                    yield PAUSE
                position += window.position
            end = position + size
            if not position < end <= len(window.data):
                raise Malformed(f"a record of {size} bytes with {len(window.data) - position} left")
            yield window.data, position, end
            window.position = end
        for _ in window.grow(1):
            yield PAUSE
    except (IndexError, Malformed) as failure:
        raise CorruptBatch(window.consumed, f"a record that does not fit: {failure}") from None
    if window.available:
        raise CorruptBatch(window.consumed, f"{window.available} bytes behind the last record")
