"""What is counted over all replicas of a layout, in numpy's columns: a million partitions take a tenth of the time.

numpy is imported when it is needed, since the web process imports these modules and does not plan itself.
"""

from array import array
from collections.abc import Sequence
from itertools import chain
from typing import Any

from app.reports.proposals.layout import Indexes

SHORT = 1 << 16
"""Fewer brokers than this fit into 16 bits, which numpy sorts without comparisons."""


def bytes_of_replicas(target: Sequence[Indexes], sizes: Sequence[int], brokers: int) -> list[int]:
    """Return the bytes of all replicas of each of so many brokers."""
    import numpy as np

    return _by_broker(np.add, target, sizes, brokers)


def largest_replicas(target: Sequence[Indexes], sizes: Sequence[int], brokers: int) -> list[int]:
    """Return the size of the largest replica of each of so many brokers, 0 for one without any."""
    import numpy as np

    return _by_broker(np.maximum, target, sizes, brokers)


def replicas_by_size(
    target: Sequence[Indexes], sizes: Sequence[int], movable: bytearray, brokers: int
) -> "list[array[int]]":
    """Return the movable partitions that each of so many brokers holds, by size, then by partition."""
    import numpy as np

    counts, holders = _holders(target)
    order = np.argsort(np.array(sizes, np.int64), kind="stable")
    order = order[np.frombuffer(movable, np.uint8)[order] != 0]
    chosen = counts[order]
    first = np.cumsum(counts) - counts
    at = np.repeat(first[order] - (np.cumsum(chosen) - chosen), chosen) + np.arange(int(chosen.sum()))
    holders = holders[at]
    partitions = np.repeat(order, chosen).astype(np.int32)
    by_broker = np.argsort(holders.astype(np.uint16) if brokers < SHORT else holders, kind="stable")
    ends = np.cumsum(np.bincount(holders, minlength=brokers))
    parts = np.split(partitions[by_broker], ends[:-1])
    return [array("i", part.tobytes()) for part in parts]


def _by_broker(combine: Any, target: Sequence[Indexes], sizes: Sequence[int], brokers: int) -> list[int]:
    """Return the sizes of each broker's replicas, combined by a function of numpy. It begins with 0."""
    import numpy as np

    counts, holders = _holders(target)
    found = np.zeros(brokers, np.int64)
    combine.at(found, holders, np.repeat(np.array(sizes, np.int64), counts))
    combined: list[int] = found.tolist()
    return combined


def _holders(target: Sequence[Indexes]) -> tuple[Any, Any]:
    """Return the number of replicas of each partition, and the brokers of all replicas, partition by partition."""
    import numpy as np

    counts = np.fromiter(map(len, target), np.int64, len(target))
    return counts, np.fromiter(chain.from_iterable(target), np.int32, int(counts.sum()))
