"""What Kafka's classes make of generated keys and records: see tests/golden/ProducerVectors.java."""

import gzip
from dataclasses import dataclass
from functools import cache

from kraft_core.clients.producer.producer_batch import Headers
from tests.protocol.golden import GOLDEN

Row = tuple[int, bytes | None, bytes | None, Headers]
"""Timestamp, key, value, headers."""


class _Generator:
    """The generator of ProducerVectors.java."""

    def __init__(self) -> None:
        self.state = 2026

    def next(self, bound: int) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        return (self.state >> 33) % bound

    def random(self, length: int) -> bytes:
        return bytes(self.next(256) for _ in range(length))

    def filled(self, length: int) -> bytes:
        return bytes([self.next(256)]) * length

    def header(self) -> tuple[str, bytes | None]:
        name = f"größe-{self.next(100)}"
        return name, None if self.next(4) == 0 else self.filled(self.next(70))

    def row(self, records: int) -> Row:
        timestamp = 1_700_000_000_000 + self.next(3) * self.next(2_000_000) - self.next(1000)
        key = None if self.next(3) == 0 else self.filled(self.next(90))
        value = None if self.next(6) == 0 else self.filled(self.next(90 if records > 100 else 5000))
        count = self.next(4) if self.next(3) == 0 else 0
        return timestamp, key, value, tuple(self.header() for _ in range(count))


@dataclass
class BatchVector:
    """A batch as Kafka's builder writes it."""

    producer_id: int
    epoch: int
    sequence: int
    is_transactional: bool
    rows: list[Row]
    data: bytes


def _lines() -> list[str]:
    return gzip.decompress((GOLDEN / "producer_vectors.txt.gz").read_bytes()).decode().splitlines()


def configs() -> dict[str, tuple[str, str, str]]:
    """Return type, importance and default of each config of Kafka's producer; "null" without a default value."""
    rows = [line.split("|") for line in _lines()[12_041:]]
    return {name: (kind, importance, default) for name, kind, importance, default in rows}


@cache
def vectors() -> tuple[list[tuple[bytes, int]], list[BatchVector]]:
    """Return keys with their unsigned hashes, and batches."""
    lines = _lines()
    generator = _Generator()
    keys = [
        generator.random(generator.next(40) if number < 11_900 else generator.next(2000)) for number in range(12_000)
    ]
    hashes = [int(line, 16) for line in lines[:12_000]]
    batches = []
    for number, line in enumerate(lines[12_000:12_041]):
        records = 1 + generator.next(8) if number < 40 else 1500
        producer_id = -1 if generator.next(3) == 0 else generator.next(100_000)
        epoch = -1 if producer_id < 0 else generator.next(100)
        sequence = -1 if producer_id < 0 else generator.next(1_000_000)
        is_transactional = producer_id >= 0 and generator.next(2) == 0
        rows = [generator.row(records) for _ in range(records)]
        batches.append(BatchVector(producer_id, epoch, sequence, is_transactional, rows, bytes.fromhex(line)))
    return list(zip(keys, hashes, strict=True)), batches
