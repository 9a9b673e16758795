"""The files of a report that Spark's own machines read and write: the snapshot and the list of violations.

Without a URL they are in the run's folder, which those machines must see under the same path. With the setting
`spark_files` the job copies the snapshot into a new folder there, copies the list of violations back, and deletes the
folder. A killed job leaves its folder; the next ones delete folders whose files are older than `LEFT_BEHIND`.
"""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from pyarrow import fs as arrow_fs

from app.reports.failures import FilesNotSharedError
from app.reports.file_systems import Place
from app.reports.violations import VIOLATIONS

PREFIX: Final = "conclave-report-"
LEFT_BEHIND: Final = dt.timedelta(days=2)
"""Longer than a report may take (`report_timeout_seconds`)."""


class SparkFiles:
    """The files of one run, by the paths by which Spark opens them. `fetch` brings the list of violations into `out`.

    `fetch` raises FilesNotSharedError if Spark wrote the list to another machine.
    """

    def __init__(self, place: Place, out_place: Place, fetch: Callable[[], None]) -> None:
        self._place = place
        self.violations = out_place.spark_path(f"{out_place.root}/{VIOLATIONS}")
        self.fetch = fetch

    def path_of(self, name: str) -> str:
        """Return the path of a snapshot's file."""
        return self._place.spark_path(f"{self._place.root}/{name}")


@contextmanager
def files_for_spark(
    snapshot: Path, names: Sequence[str], out: Path, url: str | None, conf: Mapping[str, str]
) -> Iterator[SparkFiles]:
    """Provide a snapshot's files `names` to Spark until the end of the block: in place, or copied to `url`.

    Raises FileSystemError and OSError when the URL cannot be used.
    """
    here, violations = Place(str(snapshot)), out / VIOLATIONS
    if url is None:

        def check() -> None:
            if not any(violations.glob("*.parquet")):
                raise FilesNotSharedError(f"there is no list of violations in '{violations}'")

        yield SparkFiles(here, Place(str(out)), check)
        return
    place = Place(f"{url.rstrip('/')}/{PREFIX}{uuid4().hex}", conf)
    _delete_left_behind(Place(url, conf))

    def fetch() -> None:
        violations.mkdir(exist_ok=True)
        arrow_fs.copy_files(f"{place.root}/{VIOLATIONS}", str(violations), place.fs, here.fs)

    try:
        place.fs.create_dir(place.root)
        for name in names:
            arrow_fs.copy_files(str(snapshot / name), f"{place.root}/{name}", here.fs, place.fs)
        yield SparkFiles(place, place, fetch)
    finally:
        _delete(place.fs, place.root)


def _delete(system: arrow_fs.FileSystem, folder: str) -> None:
    if system.get_file_info(folder).type == arrow_fs.FileType.Directory:
        system.delete_dir(folder)


def _delete_left_behind(place: Place) -> None:
    """Delete the folders of killed jobs."""
    newest: dict[str, dt.datetime] = {}
    for info in place.fs.get_file_info(arrow_fs.FileSelector(place.root, allow_not_found=True, recursive=True)):
        folder = info.path.removeprefix(f"{place.root}/").partition("/")[0]
        if folder.startswith(PREFIX) and info.type == arrow_fs.FileType.File and info.mtime is not None:
            newest[folder] = max(info.mtime, newest.get(folder, info.mtime))
    before = dt.datetime.now(dt.UTC) - LEFT_BEHIND
    for folder, time in newest.items():
        if time < before:
            _delete(place.fs, f"{place.root}/{folder}")
