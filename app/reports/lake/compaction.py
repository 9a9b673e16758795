"""Merges the small files of the change feed, for the days that are over.

## In a folder

A reader that lists the files of a day sees all old ones or all new ones: the new folder is built outside the tables and
takes the place of the old one by one exchange of their names (renameat2 with RENAME_EXCHANGE). A process killed at any
point leaves the old or the new folder, and beside the tables the other one, which the next run of the writer deletes.
A reader that has listed the old files and opens one after the exchange gets an error, never other rows.

File systems that cannot exchange folders keep the files as they are.

## In an object store

The merged file is written and read back; from the moment it is there, its name says that it replaces the others
(`Lake.records_files`), which are then deleted. A process killed at any point leaves files of which each offset counts
once, and the next run deletes the others. A reader that takes all files of the table, without looking at their names,
sees rows twice between the two steps.
"""

import ctypes
import datetime as dt
import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from app.reports.lake.feed import ROWS_MAX
from app.reports.lake.lake import Lake, RecordsFile
from app.reports.lake.tables import RECORDS
from kraft_core.storage.files import OPERATING_SYSTEM

FILE_ROWS_MAX: Final = 1_000_000
"""Rows of a merged file."""
_RENAME_EXCHANGE: Final = 2
_AT_FDCWD: Final = -100
_UNSUPPORTED: Final = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EXDEV}


def compact(lake: Lake, cluster_id: str, today: dt.date) -> int:
    """Merge the files of the days before `today` where that makes fewer, and return how many days were rewritten.

    Only for the process that writes. Holds up to 2 * ROWS_MAX rows. Raises OSError, and then the days are as before.
    """
    root = lake.folder
    if root is None:
        return _compact_objects(lake, cluster_id, today)
    staging = root / ".compaction" / cluster_id
    shutil.rmtree(staging, ignore_errors=True)  # what a killed writer left
    done = 0
    for folder, groups in _to_merge(lake, cluster_id, today):
        if groups:
            staging.mkdir(parents=True, mode=0o700)
            if not _can_exchange(staging):
                break
            _build(lake, Path(folder), staging / "day", groups)
            _exchange(staging / "day", Path(folder))
            shutil.rmtree(staging)
            done += 1
    return done


def _compact_objects(lake: Lake, cluster_id: str, today: dt.date) -> int:
    for file in lake.replaced_files(cluster_id):  # what a killed writer left
        lake.delete(file.path)
    done = 0
    for _, groups in _to_merge(lake, cluster_id, today):
        for group in groups:
            start = dt.datetime.combine(group[0].date, dt.time(), dt.UTC)
            tables = _row_groups(lake, group)
            path = lake.write("records", cluster_id, round(start.timestamp() * 1000), _merged_name(group), tables)
            rows = sum(_rows(lake, file) for file in group)
            if _rows(lake, RecordsFile(group[-1].last, group[-1].epoch, group[0].first, path)) != rows:
                raise OSError(errno.EIO, "the merged file has not the rows of the others", path)
            for file in group:
                lake.delete(file.path)
        done += bool(groups)
    return done


def _to_merge(lake: Lake, cluster_id: str, today: dt.date) -> list[tuple[str, list[list[RecordsFile]]]]:
    """Return the folders of the days before `today`, with the files of each that become one."""
    files = [file for file in lake.records_files(cluster_id) if file.first is not None and file.date < today]
    by_folder = sorted(files, key=lambda file: (_folder(file), file.last))
    days = [(folder, list(of_day)) for folder, of_day in groupby(by_folder, key=_folder)]
    return [(folder, [group for group in _groups(lake, of_day) if len(group) > 1]) for folder, of_day in days]


def _folder(file: RecordsFile) -> str:
    return file.path.rpartition("/")[0]


def _rows(lake: Lake, file: RecordsFile) -> int:
    rows: int = pq.read_metadata(file.path, filesystem=lake.fs).num_rows
    return rows


def _merged_name(group: Sequence[RecordsFile]) -> str:
    return f"{group[0].first:020d}-{group[-1].last:020d}-{group[-1].epoch:010d}.parquet"


def _can_exchange(staging: Path) -> bool:
    for name in ("one", "other"):
        (staging / name).mkdir()
    try:
        _exchange(staging / "one", staging / "other")
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return False
        raise
    return True


def _groups(lake: Lake, files: Sequence[RecordsFile]) -> Iterator[list[RecordsFile]]:
    """Yield files that become one: each continues the one before, and together they have up to FILE_ROWS_MAX rows."""
    if len(files) < 2:
        return
    group: list[RecordsFile] = []
    rows = 0
    for file in files:
        more = _rows(lake, file)
        if group and (file.first != group[-1].last + 1 or rows + more > FILE_ROWS_MAX):
            yield group
            group, rows = [], 0
        group.append(file)
        rows += more
    yield group


def _build(lake: Lake, folder: Path, staging: Path, groups: Sequence[Sequence[RecordsFile]]) -> None:
    """Make `staging` a copy of a day's folder with each group as one file. Files that stay are the same files."""
    staging.mkdir(mode=0o700)
    merged = {Path(file.path).name for group in groups for file in group}
    for path in folder.iterdir():
        if path.name not in merged:
            (staging / path.name).hardlink_to(path)
    for group in groups:
        target = staging / _merged_name(group)
        with pq.ParquetWriter(target, RECORDS, compression="zstd") as writer:
            for table in _row_groups(lake, group):
                writer.write_table(table)
        with target.open("rb") as file:
            OPERATING_SYSTEM.fsync(file.fileno())
    OPERATING_SYSTEM.sync_directory(staging)


def _row_groups(lake: Lake, files: Sequence[RecordsFile]) -> Iterator[pa.Table]:
    """Yield the rows of files in order, in tables of ROWS_MAX rows or more."""
    tables: list[pa.Table] = []
    for file in files:
        with pq.ParquetFile(file.path, filesystem=lake.fs) as source:
            for number in range(source.num_row_groups):
                tables.append(source.read_row_group(number))
                if sum(table.num_rows for table in tables) >= ROWS_MAX:
                    yield pa.concat_tables(tables)
                    tables.clear()
    if tables:
        yield pa.concat_tables(tables)


def _exchange(one: Path, other: Path) -> None:
    """Exchange two folders in one step. Raises OSError, and then nothing has changed."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(other))
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(other))
    OPERATING_SYSTEM.sync_directory(other.parent)
