"""Decompression of record batches: gzip with the standard library, snappy, lz4 and zstd with pyarrow.

Batches are stored as producers sent them, so nothing here compresses. pyarrow is loaded only when a batch needs it.

A small batch may announce a huge content. Three bounds keep it harmless:

1. `decompressed_bytes_max`, `records_max` and `headers_max` bound what one batch may hold, in relation to its own size.
2. `decompress_chunks` hands out the content in pieces, so that a reader can stop or pause between them.
3. `decoder_bytes` says how much memory the pieces take while they are made (a zstd window, a block of snappy).

Source: CompressionType.java, SnappyCompression.java and Lz4BlockInputStream.java, Kafka 4.3.1 (snappy in xerial's framing).
"""

import zlib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, Final

from kraft_core.protocol.errors import CorruptBatch, ErrorCode, KafkaError, OversizedBatch

NAMES: Final = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
CHUNK_BYTES: Final = 64 * 1024

DECOMPRESSED_BYTES_LEAST: Final = 64 * 1024 * 1024
DECOMPRESSION_RATIO_MAX: Final = 32
RECORDS_LEAST: Final = 1_000_000
HEADERS_LEAST: Final = 100_000
"""Any batch may hold this much, however small it is. Producers bound the content of a batch by `max.request.size` or
`message.max.bytes`, 1 MiB by default, and what compresses better than 32 : 1 seldom fills 64 MiB."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_SNAPPY_RATIO_MAX: Final = 22
"""A copy of 64 bytes takes 3."""
_SNAPPY_BLOCKS_A_CHUNK: Final = 64
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_BLOCK_INDEPENDENCE: Final = 0x20
_LZ4_BYTES: Final = 8 * 1024 * 1024
_DECODER_BYTES: Final = 2 * 1024 * 1024
"""What any decoder takes: pyarrow decompresses 1 MiB ahead."""
_ZSTD: Final = 4
_PYARROW_CODECS: Final = (2, 3, _ZSTD)
_ZSTD_AT_ONCE_BYTES: Final = 1024 * 1024
"""At most what a stream decompresses ahead."""
_ZSTD_WINDOW_MAX: Final = 128 * 1024 * 1024
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_SINGLE_SEGMENT: Final = 0x20


def decompressed_bytes_max(batch_bytes: int) -> int:
    """Return how many bytes a batch of `batch_bytes` may decompress to: 64 MiB or 32 times its size, whichever is more."""
    return max(DECOMPRESSED_BYTES_LEAST, DECOMPRESSION_RATIO_MAX * batch_bytes)


def records_max(batch_bytes: int) -> int:
    """Return how many records a batch of `batch_bytes` may hold: 1,000,000 or one a byte, whichever is more."""
    return max(RECORDS_LEAST, batch_bytes)


def headers_max(batch_bytes: int) -> int:
    """Return how many headers the records of a batch of `batch_bytes` may have together: 100,000 or one a byte, whichever is more."""
    return max(HEADERS_LEAST, batch_bytes)


@cache
def load_pyarrow() -> Any:
    """Import pyarrow, once; None when it is missing. It takes some 0.2 s, so an event loop has a thread do it (`is_loaded`)."""
    try:
        return import_module("pyarrow")
    except ImportError:
        return None


def is_loaded(codec: int) -> bool:
    """Whether `decompress_chunks` needs no import for this codec."""
    return codec not in _PYARROW_CODECS or bool(load_pyarrow.cache_info().currsize)


def decompress_chunks(codec: int, data: bytes | memoryview, limit_bytes: int) -> Iterator[bytes]:
    """Decompress the records of a batch, 64 KiB at a time; a piece may be empty, and a bare block of snappy comes whole.

    Raises CorruptBatch when the data is damaged, OversizedBatch when it grows beyond `limit_bytes`, and KafkaError
    (UNSUPPORTED_COMPRESSION_TYPE) for an unknown codec or when pyarrow is missing.
    """
    if codec == 0:
        yield bytes(data)
        return
    size = 0
    try:
        for chunk in _pieces(codec, memoryview(data), limit_bytes):
            size += len(chunk)
            if size > limit_bytes:
                raise _too_large(codec, limit_bytes)
            yield chunk
    except (OSError, ValueError, zlib.error) as failure:
        raise CorruptBatch(0, f"{NAMES[codec]}: {failure}") from None


def decoder_bytes(codec: int, data: bytes | memoryview) -> int:
    """Return the memory in bytes that `decompress_chunks` may take while it works, by what the data announces."""
    match codec:
        case 0:
            return 0
        case 2:
            return _DECODER_BYTES + _SNAPPY_RATIO_MAX * len(data)
        case 3:
            return _DECODER_BYTES + _LZ4_BYTES
        case 4:
            return _DECODER_BYTES + _zstd_window(bytes(data))
    return _DECODER_BYTES


def _zstd_window(data: bytes) -> int:
    """Return the window that a zstd frame announces; the largest that is read when more frames may follow."""
    descriptor = data[4] if len(data) > 5 else 0
    if data[:4] != _ZSTD_MAGIC or data.find(_ZSTD_MAGIC, 4) >= 0:
        return _ZSTD_WINDOW_MAX
    if descriptor & _ZSTD_SINGLE_SEGMENT:
        window = _content_bytes(memoryview(data)) or 0
    else:
        base = 1 << (10 + (data[5] >> 3))
        window = base + base // 8 * (data[5] & 7)
    return min(window, _ZSTD_WINDOW_MAX)


def _content_bytes(data: memoryview) -> int | None:
    """Return the size of the content that the first zstd frame announces; None when it announces none."""
    if bytes(data[:4]) != _ZSTD_MAGIC or len(data) < 6:
        return None
    descriptor = data[4]
    is_single = bool(descriptor & _ZSTD_SINGLE_SEGMENT)
    size_flag = descriptor >> 6
    if not is_single and not size_flag:
        return None
    begin = (5 if is_single else 6) + (0, 1, 2, 4)[descriptor & 3]
    size = int.from_bytes(data[begin : begin + (1 << size_flag)], "little")
    return size + 256 if size_flag == 1 else size


def _too_large(codec: int, limit_bytes: int) -> OversizedBatch:
    return OversizedBatch(f"its {NAMES[codec]} data decompresses to more than {limit_bytes} bytes")


def _pieces(codec: int, data: memoryview, limit_bytes: int) -> Iterator[bytes]:
    if codec == 1:
        return _gunzip(data)
    if codec not in NAMES:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Compression codec {codec} is not known.")
    pyarrow = load_pyarrow()
    if pyarrow is None:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Reading {NAMES[codec]} batches needs the package pyarrow."
        )
    if codec == 2:
        return _unsnappy(pyarrow, data, limit_bytes)
    if codec == 3:
        _check_lz4(data)
    else:
        content = _content_bytes(data)
        if content is not None and content <= min(_ZSTD_AT_ONCE_BYTES, limit_bytes):
            return _unzstd_at_once(pyarrow, data, content)
    return _stream(pyarrow, codec, data)


def _gunzip(data: memoryview) -> Iterator[bytes]:
    """Decompress gzip, which may have several members; input is fed in pieces, since zlib copies what it leaves."""
    stream = zlib.decompressobj(wbits=31)
    position = 0
    fed = b""
    while True:
        if not fed:
            fed = bytes(data[position : position + CHUNK_BYTES])
            position += len(fed)
        if not fed and not stream.eof:
            raise ValueError("the data is cut")
        yield stream.decompress(fed, CHUNK_BYTES)
        if not stream.eof:
            fed = stream.unconsumed_tail
            continue
        fed = stream.unused_data
        if not fed and position == len(data):
            return
        stream = zlib.decompressobj(wbits=31)


def _check_lz4(data: memoryview) -> None:
    """Refuse what Apache's reader of lz4 frames refuses though lz4 allows it: blocks that build on earlier ones."""
    head = bytes(data[:5])
    if head[:4] != _LZ4_MAGIC:
        raise ValueError("the data does not begin as an lz4 frame")
    if len(head) < 5 or not head[4] & _LZ4_BLOCK_INDEPENDENCE:
        raise ValueError("the lz4 frame has dependent blocks, which Kafka's clients do not read")


def _unzstd_at_once(pyarrow: Any, data: memoryview, content_bytes: int) -> Iterator[bytes]:
    """Decompress one zstd frame of known content, which takes half the time; what is not just that is left to the stream."""
    try:
        content = pyarrow.Codec("zstd").decompress(data, decompressed_size=content_bytes, asbytes=True)
    except OSError:
        yield from _stream(pyarrow, _ZSTD, data)
    else:
        yield content


def _stream(pyarrow: Any, codec: int, data: memoryview) -> Iterator[bytes]:
    with pyarrow.CompressedInputStream(pyarrow.BufferReader(pyarrow.py_buffer(data)), NAMES[codec]) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


def _unsnappy(pyarrow: Any, data: memoryview, limit_bytes: int) -> Iterator[bytes]:
    """Decompress snappy block by block; each block begins with the varint of its length."""
    codec = pyarrow.Codec("snappy")
    pending: list[bytes] = []
    pending_bytes = total = 0
    for block in _xerial_blocks(data):
        size = shift = 0
        for byte in block[:5]:
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        total += size
        if size > _SNAPPY_RATIO_MAX * len(block):
            raise ValueError(f"a block of {len(block)} bytes cannot hold {size}")
        if total > limit_bytes:
            raise _too_large(2, limit_bytes)
        pending.append(codec.decompress(block, decompressed_size=size, asbytes=True))
        pending_bytes += size
        if pending_bytes >= CHUNK_BYTES or len(pending) >= _SNAPPY_BLOCKS_A_CHUNK:
            yield b"".join(pending)
            pending, pending_bytes = [], 0
    yield b"".join(pending)


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    """Split the framing that Kafka puts around snappy blocks; bare snappy is one block."""
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield data
        return
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        end = position + 4 + int.from_bytes(data[position : position + 4])
        if end > len(data):
            raise ValueError("a block ends behind the data")
        yield data[position + 4 : end]
        position = end
