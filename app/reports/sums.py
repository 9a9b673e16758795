"""Counts by keys as columns of numpy, which can be made from parts of a snapshot and added up.

A table of sums is an array with a row per column and a column per entry: its key columns first, then its values. The
entries are sorted by key and have no key twice.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.integer]
Longs = npt.NDArray[np.int64]

DENSE_MAX = 1 << 22
"""Up to so many possible keys are counted in an array of them all, which needs no sorting."""
PACKED_MAX = 1 << 62


def grouped(keys: Sequence[npt.NDArray[np.integer]], values: Sequence[npt.NDArray[np.integer]] | None = None) -> Table:
    """Return the table with the sum of the values of each key. Without values, the number of rows of each key.

    The type is that of the first key column.
    """
    kind = keys[0].dtype
    if not len(keys[0]):
        return np.empty((len(keys) + (1 if values is None else len(values)), 0), kind)
    lows = [int(column.min()) for column in keys]
    widths = [int(column.max()) - low + 1 for column, low in zip(keys, lows, strict=True)]
    possible = 1
    for width in widths:
        possible *= width
    if possible >= PACKED_MAX:
        return _unpacked(keys, values)
    packed = np.zeros(len(keys[0]), np.int64)
    for column, low, width in zip(keys, lows, widths, strict=True):
        packed = packed * width + (column.astype(np.int64) - low)
    found, sums = _sorted(packed, values) if possible > DENSE_MAX else _counted(packed, values, possible)
    columns: list[Longs] = []
    rest = found
    for low, width in zip(lows[::-1], widths[::-1], strict=True):
        columns.append(rest % width + low)
        rest = rest // width
    return np.stack([*columns[::-1], *sums]).astype(kind, copy=False)


def _counted(
    packed: Longs, values: Sequence[npt.NDArray[np.integer]] | None, possible: int
) -> tuple[Longs, list[Longs]]:
    """Return the distinct keys and their sums, from an array of all possible keys."""
    counts = np.bincount(packed, minlength=possible)
    found = np.flatnonzero(counts)
    if values is None:
        return found, [counts[found]]
    sums = []
    for column in values:
        total = np.zeros(possible, np.int64)
        if column.any():
            np.add.at(total, packed, column)
        sums.append(total[found])
    return found, sums


def _sorted(packed: Longs, values: Sequence[npt.NDArray[np.integer]] | None) -> tuple[Longs, list[Longs]]:
    """Return the distinct keys and their sums. Keys alone are sorted several times faster than with their order."""
    if values is None:
        packed.sort()
        starts = np.flatnonzero(np.diff(packed, prepend=-1))
        return packed[starts], [np.diff(starts, append=len(packed))]
    order = np.argsort(packed)
    packed = packed[order]
    starts = np.flatnonzero(np.diff(packed, prepend=-1))
    return packed[starts], [np.add.reduceat(column[order], starts, dtype=np.int64) for column in values]


def _unpacked(keys: Sequence[npt.NDArray[np.integer]], values: Sequence[npt.NDArray[np.integer]] | None) -> Table:
    """Return the table of keys that do not fit into one number together."""
    order = np.lexsort(keys[::-1])
    columns = [column[order] for column in keys]
    changed = np.ones(len(order), bool)
    changed[1:] = False
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(changed)
    if values is None:
        sums = [np.diff(starts, append=len(order))]
    else:
        sums = [np.add.reduceat(column[order], starts, dtype=np.int64) for column in values]
    return np.stack([*(column[starts] for column in columns), *sums]).astype(keys[0].dtype, copy=False)


def added(tables: list[Table], values: int, absent: int = 0) -> Table:
    """Return the sum of tables with so many columns of values. Key columns that some do not have are `absent` there.

    Empties the list, since its tables may be large.
    """
    width = max(len(table) for table in tables)
    padded = []
    for table in tables:
        missing = np.full((width - len(table), table.shape[1]), absent, table.dtype)
        padded.append(np.concatenate([table[:-values], missing, table[-values:]]) if len(missing) else table)
    tables.clear()
    every = np.concatenate(padded, axis=1)
    padded.clear()
    return grouped(list(every[:-values]), list(every[-values:]))
