"""Raw record batches for the tests of the log, built by hand, so that they do not depend on the codec."""

import struct

from crc32c import crc32c


def varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def batch(
    base_offset: int,
    epoch: int = 1,
    values: tuple[bytes, ...] = (b"value",),
    *,
    control_type: int | None = None,
    timestamp: int = 1_000,
) -> bytes:
    """One batch of magic 2, uncompressed; `control_type` gives its records a control key."""
    records = b""
    key = b"" if control_type is None else struct.pack(">hh", 0, control_type)
    for delta, value in enumerate(values):
        coded_key = varint(-1) if control_type is None else varint(len(key)) + key
        body = b"\0" + varint(0) + varint(delta) + coded_key + varint(len(value)) + value + varint(0)
        records += varint(len(body)) + body
    attributes = 0 if control_type is None else 0x20
    after_crc = struct.pack(">hiqqqhii", attributes, len(values) - 1, timestamp, timestamp, -1, -1, -1, len(values))
    after_crc += records
    tail = struct.pack(">ibI", epoch, 2, crc32c(after_crc)) + after_crc
    return struct.pack(">qi", base_offset, len(tail)) + tail


def snapshot_bytes(epoch: int = 1, values: tuple[bytes, ...] = (b"one", b"two"), *, timestamp: int = 1_000) -> bytes:
    """A whole snapshot: header, one data batch, footer."""
    header = batch(0, epoch, (struct.pack(">hqb", 0, timestamp, 0),), control_type=3, timestamp=timestamp)
    data = batch(1, epoch, values, timestamp=timestamp)
    footer = batch(1 + len(values), epoch, (struct.pack(">hb", 0, 0),), control_type=4, timestamp=timestamp)
    return header + data + footer
