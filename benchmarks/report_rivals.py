"""The same numbers with the tools that a user could pick instead of the report: DuckDB and polars.

    python -m benchmarks.report_rivals duckdb|polars SNAPSHOT

Reads the Parquet files of a report's snapshot and prints JSON: replicas and leaders of each broker, the verdicts of all
partitions, and those after the loss of each rack. For snapshots in which no reassignment is under way, unclean election
is off, ELR is disabled, and each leader and its ISR are online: the report knows these cases too. `expected` takes the
same numbers from a report.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

VERDICTS = ("lost", "offline", "under_min", "at_min", "ok")
Numbers = dict[str, Any]

DUCKDB = """
create table partitions as
    select list_transform(replicas, lambda b: rack_of[b + 1]) as racks,
        list_transform(isr, lambda b: rack_of[b + 1]) as synced,
        replicas, leader, least(min_isr_config, len(replicas)) as required
    from read_parquet('{folder}/partitions-*.parquet') join read_parquet('{folder}/topics.parquet') using (topic_idx),
        (select list(dense - 1 order by broker_idx) as rack_of from
            (select broker_idx, dense_rank() over (order by rack) as dense from '{folder}/brokers.parquet'))
"""
VERDICT = """
case when {replicas} = 0 then 'lost' when {synced} = 0 then 'offline' when {synced} < required then 'under_min'
    when {synced} = required then 'at_min' else 'ok' end
"""


def with_duckdb(folder: Path) -> Numbers:
    """Return the numbers by SQL."""
    import duckdb

    with duckdb.connect() as database:
        database.execute(DUCKDB.format(folder=folder))

        def counts(sql: str) -> dict[Any, int]:
            return dict(database.execute(sql).fetchall())

        def verdicts(replicas: str, synced: str) -> dict[str, int]:
            verdict = VERDICT.format(replicas=replicas, synced=synced)
            found = counts(f"select {verdict} as verdict, count(*) from partitions group by verdict")
            return {name: found.get(name, 0) for name in VERDICTS}

        racks = database.execute(f"select count(distinct rack) from '{folder}/brokers.parquet'").fetchall()[0][0]
        return {
            "replicas": counts("select b, count(*) from (select unnest(replicas) as b from partitions) group by b"),
            "leaders": counts("select leader, count(*) from partitions where leader >= 0 group by leader"),
            "now": verdicts("len(racks)", "len(synced)"),
            "racks": [
                verdicts(
                    f"len(list_filter(racks, lambda r: r <> {rack}))",
                    f"len(list_filter(synced, lambda r: r <> {rack}))",
                )
                for rack in range(racks)
            ],
        }


def with_polars(folder: Path) -> Numbers:
    """Return the numbers by polars' expressions."""
    import polars as pl

    brokers = pl.read_parquet(folder / "brokers.parquet").sort("broker_idx")
    ranks = brokers["rack"].rank("dense").cast(pl.Int32) - 1
    rack_of = pl.element().replace_strict(brokers["broker_idx"], ranks, return_dtype=pl.Int32)
    topics = pl.read_parquet(folder / "topics.parquet", columns=["topic_idx", "min_isr_config"])
    partitions = (
        pl.scan_parquet(folder / "partitions-*.parquet")
        .join(topics.lazy(), on="topic_idx")
        .select(
            "replicas",
            "leader",
            pl.col("replicas").list.eval(rack_of).alias("racks"),
            pl.col("isr").list.eval(rack_of).alias("synced"),
            pl.min_horizontal("min_isr_config", pl.col("replicas").list.len()).cast(pl.Int64).alias("required"),
        )
        .collect()
    )

    def counts(column: pl.Series) -> dict[Any, int]:
        return dict(column.value_counts().iter_rows())

    def verdicts(rack: int | None) -> dict[str, int]:
        def left(name: str) -> pl.Expr:
            every = pl.col(name).list.len().cast(pl.Int64)
            return every if rack is None else every - pl.col(name).list.count_matches(rack).cast(pl.Int64)

        synced, required = left("synced"), pl.col("required")
        verdict = (
            pl.when(left("racks") == 0)
            .then(pl.lit("lost"))
            .when(synced == 0)
            .then(pl.lit("offline"))
            .when(synced < required)
            .then(pl.lit("under_min"))
            .when(synced == required)
            .then(pl.lit("at_min"))
            .otherwise(pl.lit("ok"))
        )
        found = counts(partitions.select(verdict.alias("verdict"))["verdict"])
        return {name: found.get(name, 0) for name in VERDICTS}

    return {
        "replicas": counts(partitions["replicas"].explode()),
        "leaders": counts(partitions["leader"].filter(partitions["leader"] >= 0)),
        "now": verdicts(None),
        "racks": [verdicts(rack) for rack in range(ranks.n_unique())],
    }


def expected(body: Mapping[str, Any], snapshot: Path) -> Numbers:
    """Return the same numbers of a report's body."""
    index_of = {row["broker_id"]: row["broker_idx"] for row in pq.read_table(snapshot / "brokers.parquet").to_pylist()}
    what_if = body["what_if"]
    return {
        **{
            name: {str(index_of[row["broker_id"]]): row[name] for row in body["brokers"] if row[name]}
            for name in ("replicas", "leaders")
        },
        "now": {name: what_if["now"][name] for name in VERDICTS},
        "racks": [{name: row["verdicts"][name] for name in VERDICTS} for row in what_if["racks"]],
    }


if __name__ == "__main__":
    tools = {"duckdb": with_duckdb, "polars": with_polars}
    print(json.dumps(tools[sys.argv[1]](Path(sys.argv[2]))))
