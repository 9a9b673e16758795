"""Tables of sums in files, one per file of the snapshot, which are added up for one first key at a time.

With replicas at random places, millions of partitions have millions of different sets of brokers. The tables of such
sets stay on the disk, and the report reads what it needs, the entries of one broker after another.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.reports.columns import Array
from app.reports.sums import Table, added

FOLDER = "parts"
"""The files' folder in a run's output folder, until the report has been computed."""


@dataclass(frozen=True, slots=True)
class KeyedFile:
    """A table with one value per entry, in rows of `columns` numbers of 4 bytes.

    The entries with the first key `keys[i]` are those from `begins[i]` to `begins[i + 1]`.
    """

    path: str
    columns: int
    keys: Array
    begins: Array


def write_keyed(table: Table, path: Path) -> KeyedFile:
    """Write a table of sums that has one value. A task that is repeated writes the file again."""
    path.parent.mkdir(exist_ok=True)
    new = path.with_suffix(".new")
    np.ascontiguousarray(table.T, np.int32).tofile(new)
    new.replace(path)
    begins = np.flatnonzero(np.diff(table[0], prepend=table[0, :1] - 1))
    return KeyedFile(str(path), len(table), table[0, begins], np.append(begins, table.shape[1]))


def keys_of(files: Iterable[KeyedFile]) -> list[int]:
    """Return all first keys, sorted."""
    found: list[int] = np.unique(np.concatenate([np.empty(0, np.int64), *(file.keys for file in files)])).tolist()
    return found


def entries(files: Sequence[KeyedFile], key: int, absent: int) -> Table:
    """Return the sum of the entries with this first key. Key columns that some files do not have are `absent` there."""
    found = [table for file in files if (table := _read(file, key)) is not None]
    return added(found, 1, absent) if found else np.empty((2, 0), np.int32)


def _read(file: KeyedFile, key: int) -> Table | None:
    at = int(np.searchsorted(file.keys, key))
    if at == len(file.keys) or file.keys[at] != key:
        return None
    begin, end = int(file.begins[at]), int(file.begins[at + 1])
    row = file.columns * np.dtype(np.int32).itemsize
    rows = np.fromfile(file.path, np.int32, (end - begin) * file.columns, offset=begin * row)
    return rows.reshape(-1, file.columns).T
