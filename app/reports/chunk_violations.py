"""Writes the violations of one chunk of partitions, as parts of the list that `app.reports.violation_writer` describes.

A part has one reason, and its name has the reason's severity and the number of the snapshot's file, so that the parts
in order of name are the list in its order, and nothing needs to be sorted.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from app.reports.aggregates import Brokers, reason
from app.reports.chunk_counts import RackKinds
from app.reports.columns import Array, Chunk, list_column
from app.reports.states import PartitionState
from app.reports.violations import REASONS, VIOLATIONS

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("reason", pa.string()),
        ("replicas", pa.list_(pa.int32())),
        ("racks", pa.list_(pa.string())),
        ("isr", pa.list_(pa.int32())),
        ("leader", pa.int32()),
        ("rf", pa.int32()),
        ("min_isr", pa.int32()),
        ("margin", pa.int32()),
        ("rack_moves", pa.int32()),
        ("size_bytes", pa.int64()),
    ]
)


def write_part(
    number: int,
    chunk: Chunk,
    table: pa.Table,
    states: Sequence[PartitionState],
    kinds: RackKinds,
    brokers: Brokers,
    names: pa.Array,
    out: Path,
) -> None:
    """Write the violations of the snapshot's file of this number. `names` are those of all topics by index."""
    has_racks = bool(brokers.racks)
    severities = []
    for state, (verdict, _) in zip(kinds.keys[0].tolist(), kinds.verdicts, strict=True):
        found = reason(states[state], verdict, has_racks=has_racks)
        severities.append(-1 if found is None else REASONS.index(found))
    severity = np.array(severities, np.int64)[kinds.of]
    for rank in sorted(set(severities) - {-1}):
        rows = np.flatnonzero(severity == rank)
        listed = _rows(rows, chunk, table.take(rows), states, kinds, brokers, names, REASONS[rank])
        _write(listed, out / VIOLATIONS / f"part-{rank}-{number:05d}.parquet")


def write_empty_part(out: Path) -> None:
    """Write a part without rows, so that a list without violations is a readable one."""
    _write(SCHEMA.empty_table(), out / VIOLATIONS / f"part-{len(REASONS)}-00000.parquet")


def _write(listed: pa.Table, path: Path) -> None:
    """Write a part under its name when it is whole: a task that is repeated writes it again."""
    path.parent.mkdir(exist_ok=True)
    pq.write_table(listed, path.with_suffix(".new"), compression="zstd")
    path.with_suffix(".new").replace(path)


def _rows(
    rows: Array,
    chunk: Chunk,
    listed: pa.Table,
    states: Sequence[PartitionState],
    kinds: RackKinds,
    brokers: Brokers,
    names: pa.Array,
    why: str,
) -> pa.Table:
    ids = np.array([*(row["broker_id"] for row in brokers.rows), -1], np.int32)
    racks = pa.array([row["rack"] or "" for row in brokers.rows], pa.string())
    state = chunk.state[rows]
    least = np.array([each.min_isr for each in states], np.int32)[state]
    replicas, offsets = list_column(listed, "replicas")
    in_sync, starts = list_column(listed, "isr")
    columns = {
        "topic": names.take(listed["topic_idx"].combine_chunks()),
        "partition": listed["partition"],
        "reason": pa.array([why] * len(rows)),
        "replicas": pa.ListArray.from_arrays(offsets, ids[replicas]),
        "racks": pa.ListArray.from_arrays(offsets, racks.take(pa.array(replicas))),
        "isr": pa.ListArray.from_arrays(starts, ids[in_sync]),
        "leader": ids[listed["leader"].to_numpy()],
        "rf": np.array([each.replication_factor for each in states], np.int32)[state],
        "min_isr": least,
        "margin": np.diff(starts) - least,
        "rack_moves": np.array([moves for _, moves in kinds.verdicts], np.int32)[kinds.of[rows]],
        "size_bytes": listed["size_bytes"],
    }
    return pa.table({field.name: columns[field.name] for field in SCHEMA}, schema=SCHEMA)
