"""Registers a report in the lake: its snapshot in `brokers`, `topics` and `partitions`, its verdict in `reports`.

The row in `reports` is written last, so a report that is listed there is complete. A second report at the same offset
changes nothing.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.reports.lake.lake import Lake
from app.reports.lake.tables import BALANCE, BROKERS, PARTITIONS, REPORTS, SCHEMA_VERSION, TOPICS

_ID_LISTS: Final = ("replicas", "isr", "elr", "adding", "removing", "offline_replicas")


def register(lake: Lake, snapshot: Path, manifest: Mapping[str, Any], body: Mapping[str, Any], time_ms: int) -> bool:
    """Add a report of the snapshot in a folder. Returns False if one at its offset is registered. Raises OSError."""
    cluster_id, offset, epoch = manifest["cluster_id"], manifest["offset"], manifest["epoch"]
    name = f"{max(offset, 0):020d}-{max(epoch, 0):010d}.parquet"
    if any(path.endswith(f"/{name}") for path in lake.files("reports", cluster_id)):
        return False
    at = {"offset": offset, "epoch": epoch, "time": time_ms, "schema_version": SCHEMA_VERSION}
    brokers, topics = pq.read_table(snapshot / "brokers.parquet"), pq.read_table(snapshot / "topics.parquet")
    counts: Counter[int] = Counter()
    parts = _partitions(snapshot, manifest, at, brokers, topics, counts)
    lake.write("partitions", cluster_id, time_ms, name, parts)
    per_topic = pa.array([counts[index] for index in topics["topic_idx"].to_pylist()], pa.int32())
    renamed = {"topic": topics["name"], "partitions": per_topic}
    lake.write("topics", cluster_id, time_ms, name, [_table(TOPICS, at, topics, renamed)])
    lake.write("brokers", cluster_id, time_ms, name, [_table(BROKERS, at, brokers, {})])
    verdict = {key: pa.array([body["verdict"][key]], pa.int64()) for key in BALANCE}
    counted = {key: pa.array([manifest[key]], pa.int32()) for key in ("brokers", "topics")}
    row = verdict | counted | {"body": pa.array([json.dumps(body, sort_keys=True)])}
    lake.write("reports", cluster_id, time_ms, name, [_table(REPORTS, at, pa.table({"_": [0]}), row)])
    return True


def _table(schema: pa.Schema, at: Mapping[str, Any], rows: pa.Table, columns: Mapping[str, Any]) -> pa.Table:
    """Return `rows` with the columns of `schema`: from `columns`, from `at` for every row, else as in `rows`."""

    def column(field: pa.Field) -> Any:
        if field.name in columns:
            return columns[field.name]
        if field.name in at:
            return pa.repeat(pa.scalar(at[field.name], field.type), rows.num_rows)
        return rows[field.name]

    return pa.table([column(field) for field in schema], schema=schema)


def _partitions(
    snapshot: Path,
    manifest: Mapping[str, Any],
    at: Mapping[str, Any],
    brokers: pa.Table,
    topics: pa.Table,
    counts: Counter[int],
) -> Iterator[pa.Table]:
    """Yield the partitions file by file, with ids in place of indexes, and count them by topic index."""
    ids = brokers.sort_by("broker_idx")["broker_id"].combine_chunks()
    topics = topics.sort_by("topic_idx")
    for file in sorted(name for name in manifest["sha256"] if name.startswith("partitions-")):
        rows = pq.read_table(snapshot / file).combine_chunks()
        index = rows["topic_idx"].combine_chunks()
        for found in index.value_counts().to_pylist():
            counts[found["values"]] += found["counts"]
        columns: dict[str, Any] = {
            "topic_id": topics["topic_id"].combine_chunks().take(index),
            "topic": topics["name"].combine_chunks().take(index),
        }
        for name in _ID_LISTS:
            lists = rows[name].combine_chunks()
            columns[name] = pa.ListArray.from_arrays(lists.offsets, ids.take(lists.values))
        leader = rows["leader"].combine_chunks()
        known = ids.take(pc.if_else(pc.less(leader, 0), None, leader))  # null for no leader
        columns["leader"] = pc.fill_null(known, -1)
        yield _table(PARTITIONS, at, rows, columns)
