"""The partitions of a metadata image as Arrow columns, without a Python object per value.

Partitions share most of their tuples, as the image interns them, so each tuple is translated once, and a column of
lists is a selection from the translated ones. What remains per partition is a handful of C calls: about 1 s per million
partitions.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.reports.image_tables import offline_replicas
from app.reports.partition_fields import IDS, PARTITION_FIELDS
from kraft_core.image.metadata_image import MetadataImage, PartitionRegistration, TopicImage

PARTITIONS = pa.schema([("topic_idx", pa.int32()), *PARTITION_FIELDS])
LISTS = {"isr": "isr", "elr": "elr", "adding": "adding_replicas", "removing": "removing_replicas"}
Longs = npt.NDArray[np.int64]


class ImageColumns:
    """Makes the tables of `partitions-NNNNN.parquet` (see `app.reports.export`) from an image.

    `index_of` has the dense index of each broker, `sizes` the known sizes by (topic id, partition number).
    """

    def __init__(
        self, image: MetadataImage, index_of: Mapping[int, int], sizes: Mapping[tuple[UUID, int], int]
    ) -> None:
        self._brokers = image.cluster.brokers
        self._index_of = index_of
        self._ids = np.array([*index_of, np.iinfo(np.int64).max], np.int64)
        self._sizes = sizes

    def table(self, topics: Sequence[tuple[int, TopicImage]]) -> pa.Table:
        """Return the partitions of topics, which are given with their indexes, in order."""
        numbers: list[int] = []
        rows: list[PartitionRegistration] = []
        counts = []
        for _, topic in topics:
            partitions = topic.sorted_partitions()
            numbers += map(itemgetter(0), partitions)
            rows += map(itemgetter(1), partitions)
            counts.append(len(partitions))
        replicas = [each.replicas for each in rows]
        alike, first = _distinct(_identities(replicas))
        placed, _ = _distinct(_identities([each.directories for each in rows]))
        offline_alike, offline_first = _distinct(alike * (int(placed.max(initial=0)) + 1) + placed)
        columns = {
            "topic_idx": np.repeat(np.array([index for index, _ in topics], np.int32), counts),
            "partition": np.array(numbers, np.int32),
            "replicas": self._lists(replicas.__getitem__, alike, first),
            "offline_replicas": self._lists(lambda row: self._offline(rows[row]), offline_alike, offline_first),
            "leader": self._indexes(_numbers(rows, "leader")),
            "leader_epoch": _numbers(rows, "leader_epoch"),
            "partition_epoch": _numbers(rows, "partition_epoch"),
            "size_bytes": self._sizes_of(topics, numbers, counts),
        }
        for name, attribute in LISTS.items():
            values = list(map(attrgetter(attribute), rows))
            columns[name] = self._lists(values.__getitem__, *_distinct(_identities(values)))
        return pa.table({field.name: columns[field.name] for field in PARTITIONS}, schema=PARTITIONS)

    def _offline(self, row: PartitionRegistration) -> tuple[int, ...]:
        return offline_replicas(self._brokers, row.replicas, row.directories)

    def _lists(self, ids_of: Callable[[int], Sequence[int]], alike: Longs, first: Longs) -> pa.Array:
        """Return a column of lists of broker indexes; `ids_of` returns the broker ids of a row."""
        index_of = self._index_of
        lists = [[index_of[broker] for broker in ids_of(row) if broker in index_of] for row in first.tolist()]
        return pa.array(lists, IDS).take(pa.array(alike))

    def _indexes(self, ids: Longs) -> Longs:
        """Return the index of each broker, -1 for one that is not known. The known ids are sorted."""
        places = np.searchsorted(self._ids, ids)
        return np.where(self._ids[places] == ids, places, -1)

    def _sizes_of(
        self, topics: Sequence[tuple[int, TopicImage]], numbers: Sequence[int], counts: Sequence[int]
    ) -> list[int | None] | pa.Array:
        if not self._sizes:
            return pa.nulls(len(numbers), pa.int64())
        ids = [topic.id for (_, topic), count in zip(topics, counts, strict=True) for _ in range(count)]
        return list(map(self._sizes.get, zip(ids, numbers, strict=True)))


def _numbers(rows: Sequence[PartitionRegistration], attribute: str) -> Longs:
    return np.fromiter(map(attrgetter(attribute), rows), np.int64, len(rows))


def _identities(values: Sequence[Any]) -> Longs:
    """Return the identity of each object. The image keeps the objects alive; hashing them would be slower."""
    return np.fromiter(map(id, values), np.int64, len(values))


def _distinct(keys: Longs) -> tuple[Longs, Longs]:
    """Return the number of each key, 0, 1, … in order of first occurrence, and the first row of each number."""
    encoded = pa.array(keys).dictionary_encode()
    alike = encoded.indices.to_numpy().astype(np.int64)
    first = np.empty(len(encoded.dictionary), np.int64)
    first[alike[::-1]] = np.arange(len(alike) - 1, -1, -1)
    return alike, first
