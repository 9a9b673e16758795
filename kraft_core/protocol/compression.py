"""Decompression of record batches: gzip with the standard library, snappy, lz4 and zstd with pyarrow.

The controller and its log never compress; this is for readers of topic data, so pyarrow is loaded only
when a batch needs it. Output is bounded, so that a small batch cannot fill the memory.

Source: CompressionType.java and SnappyCompression.java, Kafka 4.3.1 (snappy in xerial's block framing).
"""

import zlib
from importlib import import_module
from typing import Any, Final

from kraft_core.protocol.errors import CorruptBatch, ErrorCode, KafkaError

DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024
NAMES: Final = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16


def decompress(codec: int, data: bytes, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Undo the compression of a batch's records.

    Raises CorruptBatch when the data is damaged or grows beyond `limit_bytes`, and KafkaError
    (UNSUPPORTED_COMPRESSION_TYPE) for an unknown codec or when pyarrow is missing.
    """
    if codec == 0:
        return data
    if codec == 1:
        return _gunzip(data, limit_bytes)
    if codec not in NAMES:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Compression codec {codec} is not known.")
    try:
        pyarrow = import_module("pyarrow")
    except ImportError:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Reading {NAMES[codec]} batches needs the package pyarrow."
        ) from None
    try:
        out = _unsnappy(pyarrow, data, limit_bytes) if codec == 2 else _stream(pyarrow, codec, data, limit_bytes)
    except (OSError, ValueError) as failure:
        raise CorruptBatch(0, f"{NAMES[codec]}: {failure}") from None
    if len(out) > limit_bytes:
        raise CorruptBatch(0, f"{NAMES[codec]} data longer than {limit_bytes} bytes")
    return out


def _gunzip(data: bytes, limit_bytes: int) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    try:
        out = stream.decompress(data, limit_bytes)
    except zlib.error as failure:
        raise CorruptBatch(0, f"gzip: {failure}") from None
    if not stream.eof:
        raise CorruptBatch(0, f"gzip data that is cut, or longer than {limit_bytes} bytes")
    return out


def _stream(pyarrow: Any, codec: int, data: bytes, limit_bytes: int) -> bytes:
    with pyarrow.CompressedInputStream(pyarrow.BufferReader(data), NAMES[codec]) as stream:
        return bytes(stream.read(limit_bytes + 1))


def _unsnappy(pyarrow: Any, data: bytes, limit_bytes: int) -> bytes:
    """Undo snappy block by block; each block begins with the varint of its length."""
    out = bytearray()
    for block in _xerial_blocks(data):
        size = shift = 0
        for byte in block[:5]:
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if len(out) + size > limit_bytes:
            raise ValueError(f"a block of {size} bytes, {limit_bytes} are allowed in all")
        out += pyarrow.Codec("snappy").decompress(block, decompressed_size=size, asbytes=True)
    return bytes(out)


def _xerial_blocks(data: bytes) -> list[bytes]:
    """Split the framing that Kafka puts around snappy blocks; bare snappy is one block."""
    if not data.startswith(_XERIAL_MAGIC):
        return [data]
    blocks: list[bytes] = []
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        end = position + 4 + int.from_bytes(data[position : position + 4])
        if end > len(data):
            raise ValueError("a block ends behind the data")
        blocks.append(data[position + 4 : end])
        position = end
    return blocks
