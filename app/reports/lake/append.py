"""Brings the lake up to date with the history of the metadata log: the web process starts this program at intervals.

    python -m app.reports.lake.append --lake LOCATION --cluster ID --history FOLDER --days N [--parent PID]

It keeps no state: the names of the lake's files say where to continue, so after a kill at any point the next run
neither loses nor repeats an offset. Then it deletes files older than N days, and merges the files of past days. Exit
codes: 0 done, 1 failed with one line on standard error. The caller ensures that one run at a time writes to a lake.
"""

import argparse
import datetime as dt
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from app.cluster.log_store.files import StoredLog
from app.reports.job import CONF_VARIABLE, end_with
from app.reports.lake.compaction import compact
from app.reports.lake.feed import Feed
from app.reports.lake.lake import Lake, LakeError, RecordsFile
from app.reports.lake.stored_history import LogSnapshot, read, snapshot_before
from kraft_core.image.replay_error import ReplayError
from kraft_core.protocol.errors import KafkaError
from kraft_core.storage.files import StorageError


def append(lake: Lake, cluster_id: str, stored: StoredLog, days: int) -> int:
    """Append what the lake lacks, delete what is older than `days`, and merge the files of past days.

    Returns the number of files appended.

    Raises LakeError, OSError, and StorageError or ReplayError when the history cannot be read.
    """
    for path in lake.repair(cluster_id):
        sys.stderr.write(f"deleted {path}, which a killed writer left\n")
    feed = Feed(lake, cluster_id, lake.position(cluster_id))
    try:
        for found in read(stored, feed.position):
            if isinstance(found, LogSnapshot):
                feed.add_snapshot(found)
            else:
                feed.add(found)
    finally:
        feed.flush()  # what was read before an error is complete
    today = dt.datetime.now(dt.UTC).date()
    if _base_is_old(lake.records_files(cluster_id), today - dt.timedelta(days=max(1, days // 2))):
        snapshot = snapshot_before(stored, feed.position.next_offset)
        if snapshot is not None:
            feed.add_snapshot(snapshot)
    lake.delete_before(cluster_id, today - dt.timedelta(days=days))
    compact(lake, cluster_id, today)
    return feed.files


def _base_is_old(files: Sequence[RecordsFile], date: dt.date) -> bool:
    """Return whether the newest file from which a state can be computed is older, so that retention waits for it."""
    bases = [file for file in files if file.first in {None, 0}]
    return bool(bases) and all(file.date < date for file in bases)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m app.reports.lake.append", description="Append to a metadata lake.")
    parser.add_argument("--lake", required=True)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--history", type=Path, required=True)
    parser.add_argument("--days", type=int, required=True)
    parser.add_argument("--parent", type=int, metavar="PID", help="end with this process, which has started this one")
    options = parser.parse_args(arguments)
    if options.parent is not None:
        end_with(options.parent)
    conf = json.loads(os.environ.pop(CONF_VARIABLE, "{}"))
    try:
        append(Lake(options.lake, conf), options.cluster, StoredLog(options.history), options.days)
    except (LakeError, StorageError, ReplayError, KafkaError, OSError, pa.ArrowException) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    os.nice(10)
    sys.exit(main())
