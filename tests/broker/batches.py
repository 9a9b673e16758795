"""Record batches as producers build them."""

import gzip
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from kraft_core.broker.log.log_config import LogConfig
from kraft_core.broker.log.log_validator import ProducedBatch, validate_produced
from kraft_core.broker.log.unified_log import AppendInfo, UnifiedLog
from kraft_core.broker.slices import Work
from kraft_core.protocol.batch_header import ATTRIBUTES_POSITION, HEADER_BYTES, set_crc
from kraft_core.protocol.record_batch import encode_batch

T = TypeVar("T")


def batch(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes] | None = None,
    timestamp: int = 1_000,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    attributes: int = 0,
    compress: bool = False,
) -> bytes:
    """Return one batch, without the base offset and leader epoch, which the broker sets."""
    names = keys if keys is not None else [b"key"] * len(values)
    data = bytearray(encode_batch(0, -1, timestamp, values, keys=names))
    if compress:
        data = data[:HEADER_BYTES] + gzip.compress(bytes(data[HEADER_BYTES:]))
        struct.pack_into(">i", data, 8, len(data) - 12)
        attributes |= 1
    struct.pack_into(">h", data, ATTRIBUTES_POSITION, attributes)
    struct.pack_into(">qhi", data, 43, producer_id, epoch, sequence)
    return resealed(data)


def produced(data: bytes, config: LogConfig, now_ms: int) -> ProducedBatch:
    """Return the batch after the broker's checks. Raises KafkaError as they do."""
    return finished(validate_produced(data, config, now_ms, "t-0"))


def append(log: UnifiedLog, data: bytes, leader_epoch: int, now_ms: int) -> AppendInfo:
    """Check a client's batch and append it, also to a log whose segments are smaller than the batch."""
    config = replace(log.config, segment_bytes=2**30)
    return log.append_produced(produced(data, config, now_ms), leader_epoch, now_ms)


def finished(work: Work[T]) -> T:
    """Run work to its end and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def resealed(data: bytes | bytearray) -> bytes:
    """Return the batch with a CRC that matches its content."""
    changed = bytearray(data)
    set_crc(changed)
    return bytes(changed)
