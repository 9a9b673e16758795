"""What a metadata snapshot file contains beside its partitions, read in one pass that keeps no partition.

Source: KIP-630; Snapshots, PartitionRecord.json, Kafka 4.3.1.
"""

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import unpack_from
from typing import Any
from uuid import UUID

from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage
from kraft_core.image.metadata_loader import MetadataLoader
from kraft_core.protocol.metadata_records import PartitionRecord, decode_record
from kraft_core.protocol.record_batch import Record, RecordBatch
from kraft_core.storage.dump_log import file_batches


@dataclass(frozen=True, slots=True)
class Outline:
    """What a checkpoint contains beside its partitions: `image` has none.

    `partitions` counts those of each topic. `brokers` are all brokers, registered or only named in an assignment.
    """

    image: MetadataImage
    partitions: dict[UUID, int]
    brokers: frozenset[int]

    def save(self, path: Path) -> None:
        """Write what the readers of the parts need: the registrations and the dense index of each broker."""
        index_of = {broker: index for index, broker in enumerate(sorted(self.brokers))}
        path.write_bytes(pickle.dumps((dict(self.image.cluster.brokers.items()), index_of)))


class _WithoutPartitions:
    """A batch as the loader reads it, whose partitions go to `take` and not to the loader."""

    def __init__(self, batch: RecordBatch, take: Callable[[bytes], None]) -> None:
        self._batch = batch
        self._take = take
        self.is_control = batch.is_control
        self.base_offset = batch.base_offset

    def records(self) -> Iterator[Record]:
        return self._batch.records()

    def values(self) -> Iterator[bytes]:
        for value in self._batch.values():
            if value[1] == PartitionRecord.API_KEY:
                self._take(value)
            else:
                yield value


def read_outline(path: Path, end_offset: int, epoch: int) -> Outline:
    """Return the outline of a checkpoint in one pass, which checks every batch.

    Takes little memory however many partitions there are. Raises CorruptBatch, ReplayError, StorageError.
    """
    counts: Counter[bytes] = Counter()
    brokers: set[int] = set()

    def take(value: bytes) -> None:
        counts[value[7:23]] += 1  # behind the frame of 3 bytes and the partition's number
        size = value[23]
        if size < 128:  # a compact array: its size + 1
            brokers.update(unpack_from(f">{size - 1}i", value, 24))
        else:
            brokers.update(partition_of(value).replicas)

    batches: Iterator[Any] = (_WithoutPartitions(batch, take) for _, batch in file_batches(path))
    image = MetadataLoader().load_snapshot(batches, end_offset, epoch)
    brokers.update(image.cluster.brokers)
    return Outline(image, {UUID(bytes=topic): count for topic, count in counts.items()}, frozenset(brokers))


def partition_of(value: bytes) -> PartitionRecord:
    """Return the record of a value with the apiKey of PartitionRecord."""
    record = decode_record(value)
    assert isinstance(record, PartitionRecord), "its apiKey says so"
    return record


def load_brokers(path: Path) -> tuple[dict[int, BrokerRegistration], dict[int, int]]:
    """Return the registrations and the dense index of each broker from a file of `Outline.save`."""
    found: tuple[dict[int, BrokerRegistration], dict[int, int]] = pickle.loads(path.read_bytes())  # noqa: S301 - ours
    return found
