"""The report's engine of large snapshots: Spark's mapInArrow, with numpy in each task.

A task reads a file of the snapshot, which has whole topics, counts everything and writes the file's violations. Tables
of sums return through Spark and are added up in the driver, so no partition is shuffled. The executors need this
package, and see the folders of the snapshot and of the run.

Native expressions (`app.reports.spark_engine`) need no Python on the executors, but cost more than twice the processor
time per partition. Both give the same aggregates.
"""

import pickle
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from app.reports.aggregates import (
    CUBE_RACKS_MAX,
    Aggregates,
    Brokers,
    CubeRow,
    Held,
    Judged,
    Pair,
    RackHit,
    Size,
)
from app.reports.chunk_counts import ABSENT, COUNTS, counts_of, rack_kinds
from app.reports.chunk_violations import write_empty_part, write_part
from app.reports.columns import Chunk, Ints, chunk_of, list_column, topic_names, topic_settings
from app.reports.columns_engine import details_of, with_details
from app.reports.definitions import RACK_VERDICTS
from app.reports.keyed_files import FOLDER, KeyedFile, entries, keys_of, write_keyed
from app.reports.placement_file import FILE, PlacementWriter
from app.reports.plain import sort_key
from app.reports.states import PartitionState
from app.reports.sums import Table, added
from app.reports.violations import VIOLATIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CODEC = "zstd"
STATE_COLUMN = {"judged": 0, "held": 1, "rack hits": 1, "cube": 0}
"""The key column with the state, of the tables that have one."""
NO_CODE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Spark only distributes the numbers of the files. To compile Java code for that takes longer than it saves."""
KEYED = ("targets", "alike")
"""The tables that have an entry per partition if no two have the same brokers."""


@dataclass(frozen=True, slots=True)
class Task:
    """What the tasks need. Paths are those of folders that the executors see."""

    snapshot: str
    files: Sequence[str]
    brokers: Brokers
    elr: bool
    out: str


@dataclass(frozen=True, slots=True)
class Part:
    """What a task finds in a file: its states, the state of each partition, and the tables.

    The large tables, KEYED, are in files.
    """

    states: list[PartitionState]
    state: Ints
    tables: dict[str, Table]
    files: dict[str, KeyedFile]


class _Numbered(dict[PartitionState, int]):
    """Numbers states in the order in which they are asked for."""

    def __missing__(self, state: PartitionState) -> int:
        self[state] = len(self)
        return self[state]


def count_file(task: Task, number: int) -> Part:
    """Count the partitions of a file, and write its violations."""
    snapshot = Path(task.snapshot)
    table = pq.read_table(snapshot / task.files[number]).combine_chunks()
    index = _Numbered()
    if not table.num_rows:
        return Part([], np.empty(0, np.int32), {}, {})
    chunk = chunk_of(table, topic_settings(snapshot), index, elr=task.elr)
    states = list(index)
    kinds = rack_kinds(chunk, states, task.brokers)
    tables = counts_of(chunk, table, states, kinds, task.brokers) | details_of(chunk, states, task.brokers)
    names = pq.read_table(snapshot / "topics.parquet", columns=["name"])["name"].combine_chunks()
    write_part(number, chunk, table, states, kinds, task.brokers, names, Path(task.out))
    keyed = {name: write_keyed(tables.pop(name), Path(task.out, FOLDER, f"{name}-{number:05d}")) for name in KEYED}
    return Part(states, chunk.state, tables, keyed)


def _count_files(batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch["id"].to_pylist():
            data = pickle.dumps(count_file(task, number))
            packed = pa.compress(data, codec=CODEC, asbytes=True)
            yield pa.record_batch({"file": [number], "size": [len(data)], "data": [packed]})


def aggregate(spark: "SparkSession", task: Task, stage: Callable[[str], None]) -> Aggregates:
    """Return all aggregates of a snapshot; write the violations and `placement.arrow` into the task's `out`.

    `stage` is called with the name of each stage of the job that begins.
    """
    for name, value in NO_CODE.items():
        spark.conf.set(name, value)
    numbers = spark.range(0, len(task.files), 1, len(task.files))
    rows = numbers.mapInArrow(partial(_count_files, task=task), "file bigint, size bigint, data binary").collect()
    for name in NO_CODE:
        spark.conf.unset(name)
    parts: list[Part] = [
        pickle.loads(pa.decompress(row["data"], row["size"], codec=CODEC, asbytes=True))  # noqa: S301  # our own tasks
        for row in sorted(rows, key=lambda row: int(row["file"]))
    ]
    stage("counting topics and leaders")
    return combined(task, parts)


def combined(task: Task, parts: Sequence[Part]) -> Aggregates:
    """Return the aggregates of all files, whose parts are given in the order of the files; write `placement.arrow`."""
    snapshot, out, brokers = Path(task.snapshot), Path(task.out), task.brokers
    states = sorted({state for part in parts for state in part.states}, key=sort_key)
    index = {state: number for number, state in enumerate(states)}
    news = [np.array([index[state] for state in part.states], np.int32) for part in parts]
    names = topic_names(snapshot)
    with PlacementWriter(out / FILE, names, states, brokers) as writer:
        for part, new, file in zip(parts, news, task.files, strict=True):
            if part.states:
                writer.write(_placement(snapshot / file, new[part.state]))
    if not any((out / VIOLATIONS).glob("part-*.parquet")):
        write_empty_part(out)
    tables = [_renumbered(part, new) for part, new in zip(parts, news, strict=True) if part.states]
    targets, alike = ([part.files[name] for part in parts if part.states] for name in KEYED)
    found = with_details(_added_up(tables, targets, states, brokers), tables, alike, brokers, names)
    shutil.rmtree(out / FOLDER, ignore_errors=True)
    return found


def _placement(path: Path, state: Ints) -> Chunk:
    table = pq.read_table(path, columns=["topic_idx", "partition", "replicas"]).combine_chunks()
    replicas, offsets = list_column(table, "replicas")
    return Chunk(table["topic_idx"].to_numpy(), table["partition"].to_numpy(), state, replicas, offsets)


def _renumbered(part: Part, new: Ints) -> dict[str, Table]:
    """Return the tables with the states' new indexes."""
    for name, column in STATE_COLUMN.items():
        if name in part.tables:
            part.tables[name][column] = new[part.tables[name][column]]
    return part.tables


def _added_up(
    parts: Sequence[dict[str, Table]],
    targets: Sequence[KeyedFile],
    states: Sequence[PartitionState],
    brokers: Brokers,
) -> Aggregates:
    if not parts:
        return Aggregates(cube=[] if len(brokers.racks) <= CUBE_RACKS_MAX else None)

    def rows(name: str) -> list[list[Any]]:
        table = added([part.pop(name) for part in parts], COUNTS[name], absent=ABSENT)
        found: list[list[Any]] = table.T.tolist()
        return found

    has_cube = "cube" in parts[0]
    return Aggregates(
        states=states,
        judged=[Judged(state, RACK_VERDICTS[verdict], moves, count) for state, verdict, moves, count in rows("judged")],
        held=[Held(*row) for row in rows("held")],
        rack_hits=[RackHit(*row) for row in rows("rack hits")],
        cube=[_cube_row(row) for row in rows("cube")] if has_cube else None,
        pairs=[Pair(*row) for row in rows("pairs")],
        copysets=_copysets(targets),
        sizes={broker: Size(total, known) for broker, total, known in rows("sizes")},
    )


def _copysets(targets: Sequence[KeyedFile]) -> Counter[int]:
    """Return the number of distinct targets by their size."""
    found: Counter[int] = Counter()
    for first in keys_of(targets):
        distinct = entries(targets, first, ABSENT)[:-1]
        found.update(dict(enumerate(np.bincount((distinct != ABSENT).sum(axis=0)).tolist())))
    return +found


def _cube_row(row: Sequence[int]) -> CubeRow:
    state, *racks, partitions = row
    return CubeRow(state, tuple(rack for rack in racks if rack != ABSENT), partitions)
