"""Record batches built field by field, valid and invalid, beyond what client libraries send."""

import gzip
import struct
from collections.abc import Callable

import cramjam

from kraft_core.protocol.batch_header import HEADER, HEADER_BYTES, LOG_OVERHEAD, set_crc
from kraft_core.protocol.primitives import encode_varint

XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def xerial(data: bytes, block_bytes: int = 32 * 1024) -> bytes:
    """Compress with Snappy in the framing of Kafka's Java client."""
    blocks = [
        bytes(cramjam.snappy.compress_raw(data[at : at + block_bytes])) for at in range(0, len(data), block_bytes)
    ]
    return XERIAL + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def zstd(data: bytes) -> bytes:
    """Return one zstd frame."""
    return bytes(cramjam.zstd.compress(data))


def lz4(data: bytes) -> bytes:
    """Return one lz4 frame of independent 64 KiB blocks, as Kafka's Java client writes it."""
    blocks = [
        bytes(cramjam.lz4.compress_block(data[at : at + 65_536], store_size=False))
        for at in range(0, len(data), 65_536)
    ]
    framed = b"".join(struct.pack("<I", len(block)) + block for block in blocks)
    return b"\x04\x22\x4d\x18\x60\x40\x82" + framed + bytes(4)


CODECS: dict[int, Callable[[bytes], bytes]] = {0: bytes, 1: gzip.compress, 2: xerial, 3: lz4, 4: zstd}


def record(
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[bytes, bytes | None]] | None = None,
    timestamp_delta: int = 0,
) -> bytes:
    """Return one record with its length prefix."""
    body = b"\x00" + encode_varint(timestamp_delta) + encode_varint(offset_delta) + _field(key) + _field(value)
    body += encode_varint(len(headers or [])) + b"".join(_field(each) for pair in headers or [] for each in pair)
    return sized(body)


def sized(body: bytes) -> bytes:
    """Return a record body with its length prefix."""
    return encode_varint(len(body)) + body


def _field(data: bytes | None) -> bytes:
    return b"\x01" if data is None else encode_varint(len(data)) + data


def crafted(
    records: bytes,
    count: int,
    *,
    codec: int = 0,
    is_compressed: bool = False,
    attributes: int = 0,
    magic: int = 2,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int = 1_000,
    max_timestamp: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """Return a batch with a valid CRC and length. `records` are compressed here unless `is_compressed`."""
    body = records if is_compressed else CODECS[codec](records)
    batch = bytearray(
        HEADER.pack(
            base_offset,
            HEADER_BYTES - LOG_OVERHEAD + len(body),
            -1,
            magic,
            0,
            attributes | codec,
            count - 1 if last_offset_delta is None else last_offset_delta,
            base_timestamp,
            base_timestamp if max_timestamp is None else max_timestamp,
            *producer,
            count,
        )
        + body
    )
    set_crc(batch)
    return bytes(batch)
