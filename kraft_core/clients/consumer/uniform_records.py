"""Takes runs of records of the same size apart with one call of `struct`.

Fixed-size records are common (measurements, ids, padded values). What frames the keys and values of such a run (sizes,
attributes, deltas, numbers of headers) is joined and compared with what it must be: that of the first record, with
ascending offset deltas. Runs that differ are left to a loop over the records.
"""

from collections.abc import Iterable, Sequence
from itertools import repeat
from struct import Struct
from typing import Final, TypeAlias

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.consumer_record import ConsumerRecord
from kraft_core.protocol.primitives import (
    ONE_BYTE,
    TWO_BYTES,
    VARINT_HIGH,
    VARINT_LOW,
    Malformed,
    decode_varint,
    decode_varlong,
)

Raw: TypeAlias = ConsumerRecord[bytes | None, bytes | None]

UNIFORM_LEAST: Final = 8
"""Fewer records are decoded faster one by one."""
UNIFORM_MOST: Final = 512
"""Maximum number of records of one run."""

_ZIGZAG: Final = tuple(value >> 1 ^ -(value & 1) for value in range(128))
_FORMS_MAX: Final = 16
_EVERY_NONE: Final = repeat(None)
_NO_HEADERS: Final = repeat(())
_TYPES: Final = repeat(0), repeat(1)


Run: TypeAlias = tuple[Iterable[int] | None, Sequence[bytes] | None, Sequence[bytes] | None]
"""Timestamp deltas, None if all are that of the form; keys and values, None if all are null."""


class Form:
    """The form of `count` records that begin with offset delta `index`, as in a run that was read before.

    A record has `length` bytes; `delta` is the first one's timestamp delta.
    """

    __slots__ = (
        "_chunks",
        "_expected",
        "_first",
        "_head",
        "_keys",
        "_step",
        "_times",
        "_values",
        "count",
        "delta",
        "length",
    )

    def __init__(self, data: bytes, at: int, count: int, index: int) -> None:
        """Derive the form from the record at `at`; `count` is lowered as far as needed, to 0 if no form fits.

        May raise IndexError or Malformed for malformed data.
        """
        size, body = decode_varint(data, at)
        self.delta, offset_at = decode_varlong(data, body + 1)
        _, key_size_at = decode_varint(data, offset_at)
        key_size, key_at = decode_varint(data, key_size_at)
        value_size_at = key_at + max(0, key_size)
        value_size, value_at = decode_varint(data, value_size_at)
        self.length = length = body + size - at
        self.count = 0
        if key_size_at - offset_at > 2 or value_at + max(0, value_size) + 1 != at + length:
            return
        count = min(count, UNIFORM_MOST, (len(data) - at) // length, TWO_BYTES - index)
        for column in range(at, body):
            if count <= 0 or data[column : column + count * length : length].count(data[column]) != count:
                return  # a quick end for records of several sizes
        self.count = count
        self._keys = key_size >= 0
        self._values = value_size >= 0
        self._first = data[at : value_at if key_size < 0 else key_at]
        self._times = range(body + 1 - at, offset_at - at)
        self._set_chunks(key_size, data[value_size_at:value_at] if self._keys else b"", value_size)
        self._set_expected(offset_at - at, key_size_at - offset_at, index)

    def _set_chunks(self, key_size: int, between: bytes, value_size: int) -> None:
        """Set what the run is cut into: a record's number of headers, which is 0, is one chunk with the next one."""
        head = len(self._first)
        self._head = head + 1
        content = ""
        self._step = 1
        if self._keys:
            content += f"{key_size}s{len(between)}s"
            self._step += 2
        if self._values:
            content += f"{value_size}s"
            self._step += 1
        self._chunks = Struct(f"{head}s{content}" + f"{head + 1}s{content}" * (self.count - 1) + "1s")

    def _set_expected(self, offset_at: int, offset_bytes: int, index: int) -> None:
        """Set what the framing chunks are when joined, with the first record's timestamp."""
        expected = bytearray((self._first + b"\x00") * self.count)
        expected[offset_at :: self._head] = VARINT_LOW[index : index + self.count]
        if offset_bytes == 2:
            expected[offset_at + 1 :: self._head] = VARINT_HIGH[index : index + self.count]
        self._expected = bytes(expected)

    def fits(self, data: bytes, at: int, count: int) -> bool:
        """Whether a run of up to `count` records at `at` may have this form."""
        return self.count <= count and data.startswith(self._first, at) and len(data) - at >= self.count * self.length

    def read(self, data: bytes, at: int) -> Run | None:
        """Return the records at `at`, where there are enough bytes; None if they do not have this form."""
        chunks = self._chunks.unpack_from(data, at)
        step = self._step
        heads = b"".join(chunks[::step])
        deltas = None
        if heads != self._expected:
            deltas = self._deltas(heads)
            if deltas is None:
                return None
        if not self._keys:
            return deltas, None, chunks[1::step] if self._values else None
        if len(set(chunks[2::step])) > 1:  # sizes of values
            return None
        return deltas, chunks[1::step], chunks[3::step] if self._values else None

    def _deltas(self, heads: bytes) -> Iterable[int] | None:
        """Return the timestamp deltas.

        None if they are not all of the same number of bytes, 3 at most, or if the heads differ in something else.
        """
        head = self._head
        columns = [heads[column::head] for column in self._times]
        if not columns[-1].isascii() or any(min(column) < 128 for column in columns[:-1]) or len(columns) > 3:
            return None
        expected = bytearray(self._expected)
        for at, column in zip(self._times, columns, strict=True):
            expected[at::head] = column
        if expected != heads:
            return None
        if len(columns) == 1:
            return map(_ZIGZAG.__getitem__, columns[0])
        if len(columns) == 2:
            return [(b << 6 | (a & 127) >> 1) ^ -(a & 1) for a, b in zip(*columns, strict=True)]
        return [(c << 13 | (b & 127) << 6 | (a & 127) >> 1) ^ -(a & 1) for a, b, c in zip(*columns, strict=True)]


class Forms:
    """Forms of runs that were read before, since runs are often alike: some, of a bounded number of records each."""

    __slots__ = ("_batches", "_runs")

    def __init__(self) -> None:
        self._runs: dict[int, Form] = {}  # by index
        self._batches: dict[tuple[int, int], tuple[Form, ...]] = {}  # by bytes and number of the records

    def of_run(self, data: bytes, at: int, count: int, index: int) -> Form | None:
        """Return the form of up to `count` records at `at` if they may be of one size and without headers.

        `index` is the offset delta of the first one; those of the batch must have no gaps. May raise IndexError or
        Malformed for malformed data.
        """
        form = self._runs.get(index)
        if form is None or not form.fits(data, at, count) or (form.count < count and form.count < UNIFORM_MOST):
            form = Form(data, at, count, index)
            if form.count < UNIFORM_LEAST:
                return None
            if index in self._runs or len(self._runs) < _FORMS_MAX:
                self._runs[index] = form
        return form

    def of_batch(self, data: bytes, at: int, size: int, count: int) -> tuple[Form, ...]:
        """Return the forms of all `count` records of a batch, which take `size` bytes and have no gaps.

        Empty if they are not of one size, or too few or many. Those whose offset deltas take two bytes are a run of
        their own.
        """
        known = self._batches.get((size, count))
        if known is not None:
            return known
        if not UNIFORM_LEAST <= count <= UNIFORM_MOST or ONE_BYTE < count < ONE_BYTE + UNIFORM_LEAST:
            return ()
        try:
            forms = _batch_forms(data, at, size, count)
        except (IndexError, Malformed):
            return ()
        if forms:
            if len(self._batches) >= _FORMS_MAX:
                del self._batches[next(iter(self._batches))]
            self._batches[size, count] = forms
        return forms


def _batch_forms(data: bytes, at: int, size: int, count: int) -> tuple[Form, ...]:
    length, body = decode_varint(data, at)
    length += body - at
    more = count - ONE_BYTE
    left = size - min(count, ONE_BYTE) * length
    if left and not (more > 0 and left in {more * (length + 1), more * (length + 2)}):
        return ()  # a quick end for records of several sizes
    first = Form(data, at, min(count, ONE_BYTE), 0)
    if first.count < min(count, ONE_BYTE):
        return ()
    if more <= 0:
        return (first,)
    second = Form(data, at + ONE_BYTE * length, more, ONE_BYTE)
    return (first, second) if second.count == more and second.length * more == left else ()


def to_records(
    run: Run, partition: TopicPartition, offsets: range, timestamp: int, timestamp_type: int, epoch: int | None
) -> Iterable[Raw]:
    """Return the records of a run. `timestamp` is theirs, or what is added to the timestamp deltas if they differ."""
    deltas, keys, values = run
    return map(
        ConsumerRecord,
        repeat(partition.topic),
        repeat(partition.partition),
        offsets,
        repeat(timestamp) if deltas is None else map(timestamp.__add__, deltas),
        _TYPES[timestamp_type],
        keys or _EVERY_NONE,
        values or _EVERY_NONE,
        _NO_HEADERS,
        repeat(epoch),
    )
