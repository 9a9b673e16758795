"""The partitions of a metadata image as Arrow columns, without a Python object per value.

Partitions often share their tuples, as the image interns them, so each tuple is translated once, and a column of lists
is a selection from the translated ones. All tuples of a column are translated together, so that it costs little more if
no two partitions have the same replicas. What remains per partition is a handful of C calls: about 1 s per million
partitions.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from app.reports.image_tables import is_online
from app.reports.partition_fields import PARTITION_FIELDS
from app.reports.sizes import partition_size
from kraft_core.image.metadata_image import MetadataImage, PartitionRegistration, TopicImage

if TYPE_CHECKING:
    from app.cluster.log_dirs import LogDirs

PARTITIONS = pa.schema([("topic_idx", pa.int32()), *PARTITION_FIELDS])
LISTS = {"isr": "isr", "elr": "elr", "adding": "adding_replicas", "removing": "removing_replicas"}
Longs = npt.NDArray[np.int64]


class ImageColumns:
    """Makes the tables of `partitions-NNNNN.parquet` (see `app.reports.export`) from an image.

    `index_of` has the dense index of each broker in order of id, `answers` what brokers said about their log
    directories.
    """

    def __init__(self, image: MetadataImage, index_of: Mapping[int, int], answers: "Mapping[int, LogDirs]") -> None:
        self._brokers = [image.cluster.brokers.get(broker) for broker in index_of]
        self._ids = pa.array(index_of, pa.int64())
        self._answers = answers

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
        replicas = self._lists([each.replicas for each in rows])
        columns = {
            "topic_idx": np.repeat(np.array([index for index, _ in topics], np.int32), counts),
            "partition": np.array(numbers, np.int32),
            "replicas": replicas,
            "offline_replicas": self._offline(rows, replicas),
            "leader": self._indexes(_numbers(rows, "leader")),
            "leader_epoch": _numbers(rows, "leader_epoch"),
            "partition_epoch": _numbers(rows, "partition_epoch"),
            "size_bytes": self._sizes(topics, counts, numbers, rows),
        }
        for name, attribute in LISTS.items():
            columns[name] = self._lists(list(map(attrgetter(attribute), rows)))
        return pa.table({field.name: columns[field.name] for field in PARTITIONS}, schema=PARTITIONS)

    def _lists(self, values: Sequence[tuple[int, ...]]) -> pa.ListArray:
        """Return a column of lists of broker indexes from lists of broker ids. Unknown brokers are left out."""
        alike, first = _distinct(_identities(values))
        different = [values[row] for row in first.tolist()]
        brokers = self._indexes(np.fromiter(chain.from_iterable(different), np.int64))
        return _chosen(brokers, _lengths(different), brokers >= 0).take(pa.array(alike))

    def _offline(self, rows: Sequence[PartitionRegistration], replicas: pa.ListArray) -> pa.ListArray:
        """Return the column of offline replicas as `app.reports.image_tables.offline_replicas` finds them.

        `replicas` are those of the rows. Whether a directory of a broker is online is looked up once.
        """
        directories = [each.directories for each in rows]
        placed = _identities([each.replicas for each in rows]), _identities(directories)
        alike, first = _distinct(_paired(*(_distinct(each)[0] for each in placed)))
        different = replicas.take(pa.array(first))
        brokers, counts = different.flatten().to_numpy().astype(np.int64), np.diff(different.offsets.to_numpy())
        places: Sequence[Sequence[UUID | None]] = [directories[row] for row in first.tolist()]
        if not np.array_equal(_lengths(places), counts):
            places = [_padded(each, count) for each, count in zip(places, counts.tolist(), strict=True)]
        where = list(chain.from_iterable(places))
        kind, examples = _distinct(_paired(_distinct(_identities(where))[0], brokers))
        offline = [not is_online(self._brokers[brokers[each]], where[each]) for each in examples.tolist()]
        return _chosen(brokers, counts, np.array(offline, bool)[kind]).take(pa.array(alike))

    def _indexes(self, ids: Longs) -> Longs:
        """Return the index of each broker, -1 for one that is not known."""
        indexes: Longs = pc.index_in(pa.array(ids), value_set=self._ids).fill_null(-1).to_numpy().astype(np.int64)
        return indexes

    def _sizes(
        self,
        topics: Sequence[tuple[int, TopicImage]],
        counts: Sequence[int],
        numbers: Sequence[int],
        rows: Sequence[PartitionRegistration],
    ) -> list[int | None] | pa.Array:
        if not self._answers:
            return pa.nulls(len(rows), pa.int64())
        names = (topic.name for (_, topic), count in zip(topics, counts, strict=True) for _ in range(count))
        return [
            partition_size(name, number, row, self._answers)
            for name, number, row in zip(names, numbers, rows, strict=True)
        ]


def _numbers(rows: Sequence[PartitionRegistration], attribute: str) -> Longs:
    return np.fromiter(map(attrgetter(attribute), rows), np.int64, len(rows))


def _lengths(lists: Sequence[Sequence[Any]]) -> Longs:
    return np.fromiter(map(len, lists), np.int64, len(lists))


def _padded(directories: Sequence[UUID | None], count: int) -> list[UUID | None]:
    """Return the directories of so many replicas, None where none is given."""
    return [*directories, *[None] * count][:count]


def _chosen(brokers: Longs, counts: Longs, chosen: npt.NDArray[np.bool_]) -> pa.Array:
    """Return lists of the chosen brokers. Of `brokers`, so many are of each list as `counts` says."""
    owners = np.repeat(np.arange(len(counts)), counts)[chosen]
    ends = np.cumsum(np.bincount(owners, minlength=len(counts)))
    return pa.ListArray.from_arrays(np.append(0, ends).astype(np.int32), brokers[chosen].astype(np.int32))


def _identities(values: Sequence[Any]) -> Longs:
    """Return the identity of each object. The image keeps the objects alive; hashing them would be slower."""
    return np.fromiter(map(id, values), np.int64, len(values))


def _paired(one: Longs, other: Longs) -> Longs:
    """Return numbers that are equal where both are."""
    paired: Longs = one * (int(other.max(initial=0)) + 1) + other
    return paired


def _distinct(keys: Longs) -> tuple[Longs, Longs]:
    """Return the number of each key, 0, 1, … in order of first occurrence, and the first row of each number."""
    encoded = pa.array(keys).dictionary_encode()
    alike = encoded.indices.to_numpy().astype(np.int64)
    first = np.empty(len(encoded.dictionary), np.int64)
    first[alike[::-1]] = np.arange(len(alike) - 1, -1, -1)
    return alike, first
