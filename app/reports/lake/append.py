"""Brings the lake up to date with the metadata log, once: the program that the web process starts at intervals.

    python -m app.reports.lake.append --lake LOCATION --cluster ID --bootstrap HOST:PORT,… --days N
        [--command-config FILE] [--parent PID]

It keeps no state: the names of the lake's files say where to continue, so after a kill at any point the next run
neither loses nor repeats an offset. Then it deletes files older than N days, and merges the files of past days. Exit
codes: 0 done, 1 failed with one line on standard error. The caller ensures that one run at a time writes to a lake.
"""

import argparse
import asyncio
import datetime as dt
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from app.reports.job import CONF_VARIABLE, end_with
from app.reports.lake.compaction import compact
from app.reports.lake.feed import Feed
from app.reports.lake.lake import Lake, LakeError, RecordsFile
from app.reports.lake.log_reader import LogReader, LogSnapshot
from kraft_core.clients.kafka_client import ControllerClient
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.host_port import parse_host_port
from kraft_core.security.client_properties import load_client_security
from kraft_core.security.listener_security import PLAINTEXT_CLIENT, ClientSecurity


async def append(
    lake: Lake,
    cluster_id: str,
    bootstrap: Sequence[tuple[str, int]],
    days: int,
    security: ClientSecurity = PLAINTEXT_CLIENT,
) -> int:
    """Append what the lake lacks, delete what is older than `days`, and merge the files of past days.

    Returns the number of files appended.

    Raises LakeError, OSError, and KafkaError or ConnectionError when no controller can be asked.
    """
    for path in lake.repair(cluster_id):
        sys.stderr.write(f"deleted {path}, which a killed writer left\n")
    client = ControllerClient(bootstrap, client_id="conclave-lake", cluster_id=cluster_id, security=security)
    try:
        reader = LogReader(client, cluster_id)
        feed = Feed(lake, cluster_id, lake.position(cluster_id))
        try:
            async for found in reader.read(feed.position):
                if isinstance(found, LogSnapshot):
                    feed.add_snapshot(found)
                else:
                    feed.add(found)
        finally:
            feed.flush()  # what was read before an error is complete
        today = dt.datetime.now(dt.UTC).date()
        if _base_is_old(lake.records_files(cluster_id), today - dt.timedelta(days=max(1, days // 2))):
            snapshot = await reader.newest_snapshot()
            if snapshot is not None:
                feed.add_snapshot(snapshot)
    finally:
        client.close()
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
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--days", type=int, required=True)
    parser.add_argument("--command-config", type=Path)
    parser.add_argument("--parent", type=int, metavar="PID", help="end with this process, which has started this one")
    options = parser.parse_args(arguments)
    os.nice(10)
    if options.parent is not None:
        end_with(options.parent)
    conf = json.loads(os.environ.pop(CONF_VARIABLE, "{}"))
    bootstrap = [parse_host_port(each) for each in options.bootstrap.split(",")]
    try:
        security = load_client_security(options.command_config)
        asyncio.run(append(Lake(options.lake, conf), options.cluster, bootstrap, options.days, security))
    except (LakeError, KafkaError, OSError, pa.ArrowException) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
