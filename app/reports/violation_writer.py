"""Writes the list of violations from Spark: each task writes its own part, and no row passes through the driver.

`violations.parquet` is a folder of Parquet files. Within and across the files' names, the most severe reason is first,
then rows are sorted by topic and partition.
Its columns: topic string, partition int, reason string; replicas, isr array<int> of broker ids; racks array<string>,
the rack of each replica ("" for none); leader int (-1 for none); rf, min_isr, margin, rack_moves int; size_bytes
bigint.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name


def _named(values: Sequence[int] | Sequence[str], kind: str) -> Column:
    return F.array(*(F.lit(value) for value in values)).cast(f"array<{kind}>")


def write_violations(listed: DataFrame, brokers: Sequence[Mapping[str, Any]], path: str) -> None:
    """Write the list with broker ids and rack names into the folder `path`, by which Spark opens it.

    `brokers` are the rows of the snapshot's table of brokers by broker_idx. Without any rack, unknown racks are not
    listed.
    """
    ids = _named([row["broker_id"] for row in brokers], "int")
    racks = _named([row["rack"] or "" for row in brokers], "string")
    if not any(row["rack"] for row in brokers):
        listed = listed.where(F.col("reason") != "rack_unknown")
    named = listed.select(
        "topic",
        "partition",
        "reason",
        F.transform("replicas", lambda index: F.get(ids, index)).alias("replicas"),
        F.transform("replicas", lambda index: F.get(racks, index)).alias("racks"),
        F.transform("isr", lambda index: F.get(ids, index)).alias("isr"),
        F.coalesce(F.get(ids, F.col("leader")), F.lit(-1)).alias("leader"),
        "rf",
        "min_isr",
        "margin",
        "rack_moves",
        "size_bytes",
    )
    named.write.mode("overwrite").option("compression", "zstd").parquet(path)
