"""Compression and decompression of record batches.

The standard library has gzip and, from Python 3.14 on, zstd; cramjam has snappy, lz4 has lz4. A package is imported at
the first batch that needs it. Brokers store batches as producers sent them, so only producers compress.

Limits
------
A small batch may announce large content. Three rules limit its cost:

1. `decompressed_bytes_max`, `records_max` and `headers_max` limit the content of a batch in relation to its size.
2. `decompress_chunks` yields the content in pieces, so that a reader can stop or pause between them.
3. `decoder_bytes` returns the memory needed during decompression (a zstd window, a block of snappy). A zstd frame with
   a window above `_zstd_memory_max` may contain no more than that, since the rest of the window is never touched.

Source: CompressionType.java, SnappyCompression.java and Lz4BlockInputStream.java, Kafka 4.3.1 (snappy in xerial's
framing).
"""

import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from kraft_core.protocol.errors import CorruptBatch, ErrorCode, KafkaError, OversizedBatch

if TYPE_CHECKING:
    from backports.zstd import ZstdDecompressor

NAMES: Final = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
CHUNK_BYTES: Final = 64 * 1024

DECOMPRESSED_BYTES_LEAST: Final = 64 * 1024 * 1024
DECOMPRESSION_RATIO_MAX: Final = 32
RECORDS_LEAST: Final = 1_000_000
HEADERS_LEAST: Final = 100_000
"""Every batch may contain this much, however small it is. Producers limit the content of a batch by `max.request.size`
or `message.max.bytes`, 1 MiB by default, and content that compresses better than 32 : 1 rarely has 64 MiB."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_SNAPPY_RATIO_MAX: Final = 22
"""A copy element of 3 bytes produces up to 64 bytes."""
_SNAPPY_BLOCKS_A_CHUNK: Final = 64
_SNAPPY_BLOCKS_MEASURED: Final = 256
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_BLOCK_INDEPENDENCE: Final = 0x20
_LZ4_BYTES: Final = 8 * 1024 * 1024
_DECODER_BYTES: Final = 512 * 1024
"""The memory of any decoder."""
_ZSTD: Final = 4
_ZSTD_WINDOW_MAX_LOG: Final = 27
_ZSTD_MEMORY_LEAST: Final = 16 * 1024 * 1024
"""Levels up to 19 have windows of 8 MiB."""
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_SINGLE_SEGMENT: Final = 0x20
_ZSTD_HEADER_BYTES: Final = 18
_SNAPPY_BLOCK_BYTES: Final = 32 * 1024
_LZ4_FAST: Final = 9
"""The default level of lz4, at which Apache's producer uses the fast compressor; any other level is a high one."""
_LZ4_HIGH: Final = (3, 12)
_DEFAULT_LEVELS: Final = {1: -1, 3: _LZ4_FAST, 4: 3}


class _Decompressor(Protocol):
    """The interface of zstd's and lz4's decompressors; each reads one frame."""

    @property
    def eof(self) -> bool:
        """Whether the frame has ended."""

    @property
    def needs_input(self) -> bool:
        """Whether more input is needed for more content."""

    @property
    def unused_data(self) -> bytes | None:
        """The input after the frame's end."""

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """Add input and return at most `max_length` bytes of content."""


@dataclass(frozen=True, slots=True)
class Compression:
    """A codec by its number, and its level where it has levels; None for the codec's default."""

    codec: int = 0
    level: int | None = None

    def compress(self, data: bytes | memoryview) -> bytes:
        """Return the records of a batch compressed, in the framing of Apache's producer. Codec 0 returns them as are.

        The levels are Kafka's: gzip -1 or 1 to 9, lz4 1 to 17 (9 is fast, others thorough), zstd -131072 to 22.
        """
        level = _DEFAULT_LEVELS.get(self.codec, 0) if self.level is None else self.level
        match self.codec:
            case 0:
                return bytes(data)
            case 1:
                return zlib.compress(data, level, wbits=31)
            case 2:
                return _snappy(memoryview(data))
            case 3:
                return _lz4(data, level)
            case 4:
                return _zstd(data, level)
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Compression codec {self.codec} is not known.")


def decompressed_bytes_max(batch_bytes: int) -> int:
    """Return the maximum content of a batch of `batch_bytes`: 64 MiB or 32 times its size, whichever is more."""
    return max(DECOMPRESSED_BYTES_LEAST, DECOMPRESSION_RATIO_MAX * batch_bytes)


def records_max(batch_bytes: int) -> int:
    """Return the maximum records of a batch of `batch_bytes`: 1,000,000 or one per byte, whichever is more."""
    return max(RECORDS_LEAST, batch_bytes)


def headers_max(batch_bytes: int) -> int:
    """Return the maximum headers of all records of a batch: 100,000 or one per byte, whichever is more."""
    return max(HEADERS_LEAST, batch_bytes)


def decompress_chunks(codec: int, data: bytes | memoryview, limit_bytes: int) -> Iterator[bytes]:
    """Yield the decompressed records of a batch in pieces of 64 KiB; a piece may be empty.

    Raises CorruptBatch for damaged data, OversizedBatch for content above `limit_bytes` or a zstd window above its
    limit, and KafkaError UNSUPPORTED_COMPRESSION_TYPE for an unknown codec.
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
    except (ValueError, zlib.error) as failure:
        raise CorruptBatch(0, f"{NAMES[codec]}: {failure}") from None


def decoder_bytes(codec: int, data: bytes | memoryview) -> int:
    """Return the memory in bytes that `decompress_chunks` may need, from the sizes that the data announces."""
    match codec:
        case 0:
            return 0
        case 2:
            return _DECODER_BYTES + _largest_snappy_block(memoryview(data))
        case 3:
            return _DECODER_BYTES + _LZ4_BYTES
        case 4:
            return _DECODER_BYTES + _zstd_bytes(bytes(data))
    return _DECODER_BYTES


def _zstd_memory_max(data_bytes: int) -> int:
    """Return the bytes of a window that zstd data of this size may touch: 16 MiB or twice its size."""
    return max(_ZSTD_MEMORY_LEAST, 2 * data_bytes)


def _zstd_bytes(data: bytes) -> int:
    """Return the part of its window that zstd data may touch; the maximum when more frames may follow."""
    most = _zstd_memory_max(len(data))
    return most if data.find(_ZSTD_MAGIC, 4) >= 0 else min(_zstd_window(data), most)


def _zstd_window(data: bytes) -> int:
    """Return the window that a zstd frame announces; the largest possible one for invalid data."""
    if data[:4] != _ZSTD_MAGIC or len(data) < 6:
        return 1 << _ZSTD_WINDOW_MAX_LOG
    descriptor = data[4]
    if not descriptor & _ZSTD_SINGLE_SEGMENT:
        base = 1 << (10 + (data[5] >> 3))
        return base + base // 8 * (data[5] & 7)
    begin, size_flag = 5 + (0, 1, 2, 4)[descriptor & 3], descriptor >> 6
    size = int.from_bytes(data[begin : begin + (1 << size_flag)], "little")
    return size + 256 if size_flag == 1 else size


def _largest_snappy_block(data: memoryview) -> int:
    """Return the content size of the largest snappy block; the maximum possible for data with very many blocks."""
    largest = 0
    try:
        for number, block in enumerate(_xerial_blocks(data)):
            if number == _SNAPPY_BLOCKS_MEASURED:
                return _SNAPPY_RATIO_MAX * len(data)
            largest = max(largest, _snappy_content(block))
    except ValueError:
        pass  # the decoder stops there as well
    return largest


def _snappy(data: memoryview) -> bytes:
    """Compress in blocks, each behind its length, after xerial's header with version 1, compatible with 1."""
    from cramjam import snappy

    parts = [_XERIAL_MAGIC, b"\x00\x00\x00\x01\x00\x00\x00\x01"]
    for position in range(0, len(data), _SNAPPY_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(data[position : position + _SNAPPY_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4), block)
    return b"".join(parts)


def _lz4(data: bytes | memoryview, level: int) -> bytes:
    """Compress in independent blocks of 64 KiB without checksums of the content."""
    from lz4 import frame

    least, most = _LZ4_HIGH
    compressed: bytes = frame.compress(
        data,
        compression_level=0 if level == _LZ4_FAST else min(max(level, least), most),
        block_size=frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return compressed


def _zstd(data: bytes | memoryview, level: int) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.compress(data, level)


def _too_large(codec: int, limit_bytes: int) -> OversizedBatch:
    return OversizedBatch(f"its {NAMES[codec]} data decompresses to more than {limit_bytes} bytes")


def _pieces(codec: int, data: memoryview, limit_bytes: int) -> Iterator[bytes]:
    if codec == 1:
        return _gunzip(data)
    if codec not in NAMES:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Compression codec {codec} is not known.")
    if codec == 2:
        return _unsnappy(data, limit_bytes)
    return _unlz4(data) if codec == 3 else _unzstd(data)


def _gunzip(data: memoryview) -> Iterator[bytes]:
    """Decompress gzip, which may have several members; input is passed in pieces, since zlib copies unused input."""
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


def _frames(open_frame: Callable[[int], _Decompressor], data: memoryview) -> Iterator[bytes]:
    """Decompress all frames; `open_frame` gets the position of each. Raises ValueError for an incomplete one."""
    position = 0
    while True:
        frame = open_frame(position)
        while not frame.eof:
            fed = b""
            if frame.needs_input:
                fed = bytes(data[position : position + CHUNK_BYTES])
                position += len(fed)
                if not fed:
                    raise ValueError("the data is cut")
            yield frame.decompress(fed, CHUNK_BYTES)
        position -= len(frame.unused_data or b"")
        if position == len(data):
            return


def _unlz4(data: memoryview) -> Iterator[bytes]:
    from lz4.frame import LZ4FrameDecompressor

    _check_lz4(data)
    try:
        yield from _frames(lambda _: LZ4FrameDecompressor(), data)
    except RuntimeError as failure:
        raise ValueError(str(failure)) from None


def _check_lz4(data: memoryview) -> None:
    """Raise ValueError for dependent blocks, which Apache's lz4 reader rejects although lz4 allows them."""
    head = bytes(data[:5])
    if head[:4] != _LZ4_MAGIC:
        raise ValueError("the data does not begin as an lz4 frame")
    if len(head) < 5 or not head[4] & _LZ4_BLOCK_INDEPENDENCE:
        raise ValueError("the lz4 frame has dependent blocks, which Kafka's clients do not read")


def _unzstd(data: memoryview) -> Iterator[bytes]:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    most = _zstd_memory_max(len(data))
    has_wide_window = False
    size = 0

    def open_frame(position: int) -> "ZstdDecompressor":
        nonlocal has_wide_window
        window = _zstd_window(bytes(data[position : position + _ZSTD_HEADER_BYTES]))
        has_wide_window = has_wide_window or window > most
        return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_MAX_LOG})

    try:
        for chunk in _frames(open_frame, data):
            size += len(chunk)
            if has_wide_window and size > most:
                raise OversizedBatch(f"its zstd data needs a window of more than {most} bytes")
            yield chunk
    except zstd.ZstdError as failure:
        raise ValueError(str(failure)) from None


def _unsnappy(data: memoryview, limit_bytes: int) -> Iterator[bytes]:
    """Decompress snappy block by block."""
    from cramjam import DecompressionError, snappy

    pending: list[bytes] = []
    pending_bytes = total = 0
    for block in _xerial_blocks(data):
        size = _snappy_content(block)
        if size > _SNAPPY_RATIO_MAX * len(block):
            raise ValueError(f"a block of {len(block)} bytes cannot hold {size}")
        total += size
        if total > limit_bytes:
            raise _too_large(2, limit_bytes)
        content = bytearray(size)
        try:
            snappy.decompress_raw_into(block, content)
        except DecompressionError as failure:
            raise ValueError(str(failure)) from None
        if size > CHUNK_BYTES:
            yield b"".join(pending)
            pending, pending_bytes = [], 0
            view = memoryview(content)
            for position in range(0, size, CHUNK_BYTES):
                yield bytes(view[position : position + CHUNK_BYTES])
            continue
        pending.append(bytes(content))
        pending_bytes += size
        if pending_bytes >= CHUNK_BYTES or len(pending) >= _SNAPPY_BLOCKS_A_CHUNK:
            yield b"".join(pending)
            pending, pending_bytes = [], 0
    yield b"".join(pending)


def _snappy_content(block: memoryview) -> int:
    """Return the size of a block's content, from its varint prefix."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return size


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    """Yield the blocks within Kafka's framing of snappy; data without it is one block."""
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
