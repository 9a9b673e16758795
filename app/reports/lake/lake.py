"""The files of the lake, in a folder or in an object store.

A file of the change feed is named `<first offset>-<last offset>-<epoch of the last>.parquet` and starts where the one
before it ends, so the newest name says where to continue and no offset is in two files. `snapshot-<offset>-<epoch>` has
the whole state at an offset instead, where the log before it is not available. A file gets its name when it is
complete. In an object store it appears then as well; only a process killed by a failing upload can leave a part of one,
which the next run of the writer deletes.

Where one complete file has all offsets of others, it has been merged from them and counts in their place: its name is
the manifest.
"""

import contextlib
import datetime as dt
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs as arrow_fs

from app.reports.file_systems import FileSystemError, Place
from app.reports.lake.tables import TABLES
from kraft_core.storage.files import OPERATING_SYSTEM

_NAME: Final = re.compile(r"(?:(?P<first>\d{20})|snapshot)-(?P<last>\d{20})-(?P<epoch>\d{10})\.parquet", re.ASCII)
_DATE: Final = re.compile(r"/date=(\d{4}-\d{2}-\d{2})/")
_PART: Final = ".part-"


class LakeError(Exception):
    """The lake cannot be used. The text says where it is and what is wrong."""


@dataclass(frozen=True, slots=True)
class Position:
    """The end of the change feed: the offset to read next, and the epoch of the offset before it."""

    next_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class RecordsFile:
    """A file of the table `records`. Offsets are inclusive; a snapshot has `first` None and the state after `last`."""

    last: int
    epoch: int
    first: int | None
    path: str

    @classmethod
    def of(cls, path: str) -> "RecordsFile | None":
        """Return the file with this path, None if the name is not one of the lake's."""
        match = _NAME.fullmatch(path.rpartition("/")[2])
        if match is None:
            return None
        first = match["first"]
        return cls(int(match["last"]), int(match["epoch"]), None if first is None else int(first), path)

    @property
    def date(self) -> dt.date:
        """The date of its folder, which is that of its first record."""
        return _date_of(self.path)


class Lake:
    """A lake at `location`: a folder, or a URL of `app.file_urls.SCHEMES`."""

    def __init__(self, location: str, conf: Mapping[str, str] | None = None) -> None:
        """Open the lake with Spark's settings `conf` (see `app.reports.file_systems`), which may have credentials.

        Raises LakeError for a location that cannot be opened.
        """
        self.location = location
        try:
            self._place = Place(location, conf)
        except FileSystemError as error:
            raise LakeError(f"lake {error}") from error
        self.fs, self._root, self._is_local = self._place.fs, self._place.root, self._place.is_local

    @property
    def folder(self) -> Path | None:
        """The lake's folder, None for one in an object store."""
        return Path(self._root) if self._is_local else None

    # reading

    def files(self, table: str, cluster_id: str) -> list[str]:
        """Return the paths of a table's files of one cluster, in order of date and name. Empty without a lake."""
        folder = f"{self._root}/{table}/cluster={cluster_id}"
        found = self.fs.get_file_info(arrow_fs.FileSelector(folder, allow_not_found=True, recursive=True))
        paths = [info.path for info in found if info.type == arrow_fs.FileType.File]
        return sorted(path for path in paths if path.endswith(".parquet") and _PART not in path)

    def records_files(self, cluster_id: str) -> list[RecordsFile]:
        """Return the files of the change feed in the order of their offsets, a snapshot before what follows it."""
        return self._sorted_out(cluster_id)[0]

    def replaced_files(self, cluster_id: str) -> list[RecordsFile]:
        """Return the files that count no more: those that were merged, and merged ones that are not complete."""
        return self._sorted_out(cluster_id)[1]

    def _sorted_out(self, cluster_id: str) -> tuple[list[RecordsFile], list[RecordsFile]]:
        found = list(filter(None, map(RecordsFile.of, self.files("records", cluster_id))))
        snapshots = [each for each in found if each.first is None]
        covers: list[RecordsFile] = []
        replaced: list[RecordsFile] = []
        for file in sorted(set(found) - set(snapshots), key=lambda each: (each.first or 0, -each.last)):
            while covers and file.last <= covers[-1].last and not self.is_complete(covers[-1].path):
                replaced.append(covers.pop())
            if covers and file.last <= covers[-1].last:
                replaced.append(file)
            else:
                covers.append(file)
        return sorted([*snapshots, *covers], key=_in_order), replaced

    def delete(self, path: str) -> None:
        """Delete a file. Raises OSError."""
        self.fs.delete_file(path)

    def is_complete(self, path: str) -> bool:
        """Whether a file has its end, where Parquet keeps what it contains. Raises OSError if it cannot be reached."""
        try:
            pq.read_metadata(path, filesystem=self.fs)
        except pa.ArrowInvalid:
            return False
        return True

    def position(self, cluster_id: str) -> Position | None:
        """Return where the change feed ends, None before its first file."""
        newest = max(self.records_files(cluster_id), key=_in_order, default=None)
        return None if newest is None else Position(newest.last + 1, newest.epoch)

    def url_of(self, path: str) -> str:
        """Return a file's path as Spark opens it."""
        return self._place.spark_path(path)

    def read(self, path: str, columns: list[str] | None = None) -> pa.Table:
        """Return a file's rows."""
        return pq.read_table(path, columns=columns, filesystem=self.fs, partitioning=None)

    # writing

    def write(self, table: str, cluster_id: str, time_ms: int, name: str, tables: Iterable[pa.Table]) -> str:
        """Write a file of `tables`, one row group each, in the folder of the date of `time_ms`, and return its path.

        It appears when it is complete. Raises OSError, and then there is no such file.
        """
        date = dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC).date()
        folder = f"{self._root}/{table}/cluster={cluster_id}/date={date}"
        target = f"{folder}/{name}"
        with self._unfinished(folder, name) as part:
            with pq.ParquetWriter(part, TABLES[table], compression="zstd") as writer:
                for rows in tables:
                    writer.write_table(rows)
            if self._is_local:
                with part.open("rb") as file:
                    OPERATING_SYSTEM.fsync(file.fileno())
                part.replace(target)
            else:
                arrow_fs.copy_files(str(part), target, arrow_fs.LocalFileSystem(), self.fs)
        return target

    @contextlib.contextmanager
    def _unfinished(self, folder: str, name: str) -> Iterator[Path]:
        """Provide a path on this machine for a file that is being written; what is left there is deleted."""
        if self._is_local:
            Path(folder).mkdir(parents=True, exist_ok=True, mode=0o700)
            part = Path(folder) / f"{_PART}{name}"
            try:
                yield part
            finally:
                part.unlink(missing_ok=True)
        else:
            with tempfile.TemporaryDirectory() as here:
                yield Path(here) / name

    def repair(self, cluster_id: str) -> list[str]:
        """Delete what a killed writer left: unfinished files, and a newest file of the feed that is cut short.

        Only for the process that writes. Returns the paths that were deleted.
        """
        deleted = []
        if self._is_local:
            for part in Path(self._root).glob(f"*/cluster={cluster_id}/date=*/{_PART}*"):
                part.unlink(missing_ok=True)
                deleted.append(str(part))
        newest = max(self.records_files(cluster_id), key=_in_order, default=None)
        if newest is not None:
            try:
                is_complete = self.is_complete(newest.path)
            except OSError:
                is_complete = False
            if not is_complete:
                self.delete(newest.path)
                deleted.append(newest.path)
        return deleted

    def delete_before(self, cluster_id: str, date: dt.date) -> int:
        """Delete the folders of earlier dates, in all tables, and return how many files that were.

        The change feed keeps the newest snapshot of those dates and what follows it if no later one exists, so that the
        state at every kept offset can still be computed.
        """
        base = _base_to_keep(self.records_files(cluster_id), date)
        count = 0
        for table in TABLES:
            for path in self.files(table, cluster_id):
                found = RecordsFile.of(path) if table == "records" else None
                is_needed = found is not None and base is not None and _in_order(found) >= _in_order(base)
                if _date_of(path) < date and not is_needed:
                    self.delete(path)
                    count += 1
        return count


def _in_order(file: RecordsFile) -> tuple[int, int]:
    return file.last, 0 if file.first is None else -1


def _date_of(path: str) -> dt.date:
    match = _DATE.search(path)
    return dt.date.max if match is None else dt.date.fromisoformat(match[1])


def _base_to_keep(files: list[RecordsFile], date: dt.date) -> RecordsFile | None:
    """Return the file from which the state at `date` is computed: the newest snapshot before it, or the log's start."""
    bases = [file for file in files if file.first in {None, 0} and file.date < date]
    return max(bases, key=_in_order, default=None)


def rows_table(rows: list[dict[str, Any]], table: str) -> pa.Table:
    """Return rows as a table with the columns of `table`."""
    schema = TABLES[table]
    return pa.table({name: [row[name] for row in rows] for name in schema.names}, schema=schema)
