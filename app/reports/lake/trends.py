"""What the lake says about the past of a cluster: growth, leader changes, ISR flaps, downtime of brokers, balance.

Spark computes it with the DataFrame API, for the report whose job calls this; docs/reports.md describes the result.
The state before an event comes from the rows before it, of the log or of a snapshot; events are counted in the log
only, so that nothing that happened unseen in a gap is counted as one change.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # Spark's own convention

from app.reports.lake.lake import Lake, RecordsFile
from app.reports.lake.tables import BALANCE, LOG, SNAPSHOT

DAYS: Final = 30
"""How far the trends look back, if the lake does."""
ROWS_MAX: Final = 20
"""Length of the lists of partitions. Lists of brokers are whole."""
REPORTS_MAX: Final = 400

_COLUMNS: Final = (
    "offset bigint, time timestamp, origin string, type string, topic_id string, topic string, partition int, "
    "broker_id int, leader int, isr array<int>, fenced boolean"
)
_NUMBERS: Final = ("a", "b", "c", "d", "e", "f")
_KEYS: Final = ("date", "topic_id", "partition", "broker_id")
_PARTITION_TYPES: Final = ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD")
_FENCING_TYPES: Final = (
    "REGISTER_BROKER_RECORD",
    "UNREGISTER_BROKER_RECORD",
    "FENCE_BROKER_RECORD",
    "UNFENCE_BROKER_RECORD",
    "BROKER_REGISTRATION_CHANGE_RECORD",
)


def trends(spark: SparkSession, lake: Lake, cluster_id: str, now: dt.datetime) -> dict[str, Any] | None:
    """Return the trends of the last DAYS days until `now`, None for a lake without records of this cluster.

    Times are ms since 1970, durations ms.
    """
    files = _connected(lake.records_files(cluster_id))
    if not files:
        return None
    since = now - dt.timedelta(days=DAYS)
    records = spark.read.schema(_COLUMNS).parquet(*(lake.url_of(file.path) for file in files))
    pieces = [*_growth(records, files, since), _moves(records, since), _downtime(records, since, now)]
    frame = pieces[0]
    for piece in pieces[1:]:
        frame = frame.unionByName(piece)
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in frame.collect():
        rows.setdefault(row["kind"], []).append(row.asDict())
    return {
        "from": _ms(since),
        "to": _ms(now),
        "through_offset": files[-1].last,
        "growth": _growth_of_days(rows, since.date(), now.date()),
        "leader_changes": {
            "total": sum(row["a"] for row in rows.get("leader days", ())),
            "days": _named(rows, "leader days", ("date",), {"changes": "a"}),
            "partitions": _named(rows, "leader partitions", ("topic", "topic_id", "partition"), {"changes": "a"}),
            "brokers": _named(rows, "leader brokers", ("broker_id",), {"gained": "a", "lost": "b"}),
        },
        "isr_flaps": {
            "total": sum(row["a"] for row in rows.get("flap days", ())),
            "days": _named(rows, "flap days", ("date",), {"flaps": "a"}),
            "partitions": _named(
                rows, "flap partitions", ("topic", "topic_id", "partition"), {"flaps": "a", "out_ms": "b"}
            ),
            "brokers": _named(rows, "flap brokers", ("broker_id",), {"flaps": "a", "out_ms": "b"}),
        },
        "downtime": _named(
            rows,
            "downtime",
            ("broker_id",),
            {
                "fencings": "a",
                "down_ms": "b",
                "recoveries": "c",
                "recovery_ms_median": "d",
                "recovery_ms_max": "e",
                "is_down": "f",
            },
        ),
        "balance": _balance(spark, lake, cluster_id),
    }


def _connected(files: Sequence[RecordsFile]) -> list[RecordsFile]:
    """Return the newest files without a gap: from a snapshot, or the log's start, to the end.

    A snapshot within the log adds nothing and is left out.
    """
    found: list[RecordsFile] = []
    base: RecordsFile | None = None
    for file in files:
        if file.first is None:
            base = file
        elif found and file.first <= found[-1].last + 1:
            found.append(file)
        elif base is not None and file.first <= base.last + 1:
            found = [base, file]
        else:
            found = [file] if file.first == 0 else []
    is_newest = base is not None and (not found or base.last > found[-1].last)
    return [base] if base is not None and is_newest else found


def _ms(time: dt.datetime) -> int:
    return round(time.timestamp() * 1000)


def _piece(frame: DataFrame, kind: str | Column, **columns: Column) -> DataFrame:
    """Return rows with the columns that all pieces share, so that one Spark job computes them all."""
    types = {"date": "string", "topic_id": "string", "topic": "string", "partition": "int", "broker_id": "int"}
    chosen = [columns.get(name, F.lit(None)).cast(kind_of).alias(name) for name, kind_of in types.items()]
    numbers = [columns.get(name, F.lit(0)).cast("bigint").alias(name) for name in _NUMBERS]
    return frame.select((F.lit(kind) if isinstance(kind, str) else kind).alias("kind"), *chosen, *numbers)


def _growth(records: DataFrame, files: Sequence[RecordsFile], since: dt.datetime) -> list[DataFrame]:
    """-> "days": what was created per date, and is in the first snapshot; "removed": what was removed per date."""
    is_topic = F.col("type") == "TOPIC_RECORD"
    is_partition = F.col("type") == "PARTITION_RECORD"
    first = files[0].last if files[0].first is None else -2  # no row has offset -2
    is_log = (F.col("origin") == LOG) & (F.col("offset") > first)
    is_first = (F.col("origin") == SNAPSHOT) & (F.col("offset") == first)
    days = records.groupBy(F.to_date("time").alias("date")).agg(
        F.count_if(is_log & is_topic).alias("a"),
        F.count_if(is_log & is_partition).alias("b"),
        F.count_if(is_first & is_topic).alias("c"),
        F.count_if(is_first & is_partition).alias("d"),
    )
    sizes = records.filter(is_partition).groupBy("topic_id").agg(F.countDistinct("partition").alias("size"))
    removed = (
        records.filter(is_log & (F.col("type") == "REMOVE_TOPIC_RECORD"))
        .join(sizes, on="topic_id", how="left")
        .groupBy(F.to_date("time").alias("date"))
        .agg(F.count("*").alias("a"), F.sum(F.coalesce("size", F.lit(0))).alias("b"))
    )
    return [
        _piece(days, "days", **{name: F.col(name) for name in ("date", "a", "b", "c", "d")}),
        _piece(removed, "removed", **{name: F.col(name) for name in ("date", "a", "b")}),
    ]


def _growth_of_days(rows: Mapping[str, list[dict[str, Any]]], since: dt.date, until: dt.date) -> list[dict[str, Any]]:
    """Return a row for each date from `since`, or the lake's first, with the totals at its end."""
    created = {row["date"]: row for row in rows["days"]}
    removed = {row["date"]: row for row in rows.get("removed", ())}
    nothing = dict.fromkeys(_NUMBERS, 0)
    topics, partitions = sum(row["c"] for row in rows["days"]), sum(row["d"] for row in rows["days"])
    days = []
    date = dt.date.fromisoformat(min(created))
    while date <= until:
        new, gone = created.get(str(date), nothing), removed.get(str(date), nothing)
        topics += new["a"] - gone["a"]
        partitions += new["b"] - gone["b"]
        if date >= since:
            days.append(
                {
                    "date": str(date),
                    "topics": topics,
                    "partitions": partitions,
                    "topics_created": new["a"],
                    "topics_removed": gone["a"],
                    "partitions_created": new["b"],
                    "partitions_removed": gone["b"],
                }
            )
        date += dt.timedelta(days=1)
    return days


def _moves(records: DataFrame, since: dt.datetime) -> DataFrame:
    """-> changes of a partition's leader, also to none, and returns of a broker to an ISR that it had left.

    Both per date, per partition (the most) and per broker, in one pass over the records.
    """
    times = F.when(F.col("kind") == "flap", F.col("out_ms")).otherwise(0)
    side = F.when(F.col("kind") == "flap", times).otherwise(1 - F.col("gained"))
    groups = F.array(
        _group("days", date=F.to_date("time"), b=times),
        _group("partitions", topic_id=F.col("topic_id"), partition=F.col("partition"), b=times),
        _group("brokers", broker_id=F.col("broker_id"), a=F.col("gained"), b=side),
    )
    is_counted = (F.col("group.broker_id").isNull() & (F.col("gained") == 1)) | (F.col("group.broker_id") >= 0)
    counted = (
        _events(records, since)
        .select("gained", F.explode(groups).alias("group"))
        .filter(is_counted)
        .groupBy(*(F.col(f"group.{name}").alias(name) for name in ("kind", *_KEYS)))
        .agg(F.sum("group.a").alias("a"), F.sum("group.b").alias("b"))
    )
    by_kind = Window.partitionBy("kind").orderBy(F.desc("a"), "topic_id", "partition")
    most = (
        counted.withColumn("rank", F.row_number().over(by_kind))
        .filter((F.col("rank") <= ROWS_MAX) | ~F.col("kind").endswith("partitions"))
        .join(_names(records), on="topic_id", how="left")
    )
    return _piece(most, F.col("kind"), **{name: F.col(name) for name in (*_KEYS, "topic", "a", "b")})


def _group(of: str, **columns: Column) -> Column:
    """Return what an event adds to, as a struct: the kind of piece, its key, and the numbers `a` and `b`."""
    types = {"date": "string", "topic_id": "string", "partition": "int", "broker_id": "int"}
    keys = [columns.get(name, F.lit(None)).cast(types[name]).alias(name) for name in _KEYS]
    numbers = [columns.get(name, F.lit(1)).cast("bigint").alias(name) for name in ("a", "b")]
    return F.struct(F.concat(F.col("kind"), F.lit(f" {of}")).alias("kind"), *keys, *numbers)


def _events(records: DataFrame, since: dt.datetime) -> DataFrame:
    """-> kind, topic_id, partition, time, broker_id, gained, out_ms: what happened since then, as the log says.

    A "leader" change has two rows, one of the broker that leads now (gained 1) and one of that before (0); -1 is none.
    A "flap" is the return of a broker, with the time since it left.
    """
    order = Window.partitionBy("topic_id", "partition", "kind", "broker_id").orderBy("offset")
    is_flap = (F.col("kind") == "flap") & F.col("joined") & ~F.lag("joined").over(order)
    out_ms = F.unix_millis("time") - F.unix_millis(F.lag("time").over(order))
    return (
        _changes(records)
        .withColumn("is_event", (F.col("kind") == "leader") | is_flap)
        .withColumn("out_ms", out_ms)
        .filter(F.col("is_event") & (F.col("time") >= F.lit(since)))
        .withColumn("gained", F.col("joined").cast("int"))
    )


def _changes(records: DataFrame) -> DataFrame:
    """-> kind, topic_id, partition, offset, time, broker_id, joined: brokers that begin or end to lead, or be in sync.

    The state before is that of the newest row before, of the log or of a snapshot. Changes are those in the log.
    """
    key = ["topic_id", "partition"]
    is_known = F.col("leader").isNotNull() | F.col("isr").isNotNull()
    changed = records.filter((F.col("type") == "PARTITION_CHANGE_RECORD") & is_known).select(*key).distinct()
    order = Window.partitionBy(*key).orderBy("offset", "origin")  # a snapshot is the state after its offset
    before = order.rowsBetween(Window.unboundedPreceding, -1)

    def moves(kind: str, of: Column, *, joined: bool) -> Column:
        return F.transform(
            of,
            lambda broker: F.struct(
                F.lit(kind).alias("kind"), broker.alias("broker_id"), F.lit(joined).alias("joined")
            ),
        )

    led, was_led = (F.array(F.col(name)) for name in ("leader", "leader_before"))
    is_moved = F.col("leader") != F.col("leader_before")  # null, and so no row, where the record or the log begins
    none = F.array().cast("array<int>")
    sides = [
        moves("leader", F.when(is_moved, led).otherwise(none), joined=True),
        moves("leader", F.when(is_moved, was_led).otherwise(none), joined=False),
        moves("flap", F.coalesce(F.array_except("isr_before", "isr"), none), joined=False),
        moves("flap", F.coalesce(F.array_except("isr", "isr_before"), none), joined=True),
    ]
    return (
        records.filter(F.col("type").isin(*_PARTITION_TYPES) & is_known)
        .join(changed, on=key, how="left_semi")
        .select(*key, "offset", "time", "origin", "leader", "isr")
        .withColumn("leader_before", F.last("leader", ignorenulls=True).over(before))
        .withColumn("isr_before", F.last("isr", ignorenulls=True).over(before))
        .filter(F.col("origin") == LOG)
        .select(*key, "offset", "time", F.explode(F.concat(*sides)).alias("move"))
        .select(*key, "offset", "time", "move.*")
    )


def _names(records: DataFrame) -> DataFrame:
    topics = records.filter(F.col("type") == "TOPIC_RECORD")
    return topics.groupBy("topic_id").agg(F.max("topic").alias("topic"))


def _downtime(records: DataFrame, since: dt.datetime, now: dt.datetime) -> DataFrame:
    """-> per broker: how often it was fenced after it had been up, how long, and the times until it was back."""
    order = Window.partitionBy("broker_id").orderBy("offset", "origin")
    state = (
        F.when(F.col("type") == "UNREGISTER_BROKER_RECORD", F.lit("gone"))
        .when(F.col("fenced"), F.lit("down"))
        .when(~F.col("fenced"), F.lit("up"))
    )
    changes = (
        records.filter(F.col("type").isin(*_FENCING_TYPES))
        .withColumn("state", state)
        .filter(F.col("state").isNotNull())
        .withColumn("before", F.lag("state").over(order))
        .filter(F.col("before").isNull() | (F.col("before") != F.col("state")))
        .withColumn("after", F.lead("state").over(order))
        .withColumn("end", F.lead("time").over(order))
    )
    until = F.least(F.coalesce("end", F.lit(now)), F.lit(now))
    downs = changes.filter(
        (F.col("state") == "down") & (F.col("before") == "up") & (until >= F.lit(since)) & (F.col("time") <= F.lit(now))
    )
    lasted = F.unix_millis(until) - F.unix_millis("time")
    within = F.unix_millis(until) - F.unix_millis(F.greatest("time", F.lit(since)))
    recovery = F.when(F.col("after") == "up", lasted)
    found = downs.groupBy("broker_id").agg(
        F.count("*").alias("fencings"),
        F.sum(within).alias("down"),
        F.count(recovery).alias("recoveries"),
        F.median(recovery).alias("median"),
        F.max(recovery).alias("longest"),
        F.max(F.col("after").isNull().cast("int")).alias("is_down"),
    )
    names = ("fencings", "down", "recoveries", "median", "longest", "is_down")
    numbers = {letter: F.col(name) for letter, name in zip(_NUMBERS, names, strict=True)}
    return _piece(found, "downtime", broker_id=F.col("broker_id"), **numbers)


def _balance(spark: SparkSession, lake: Lake, cluster_id: str) -> list[dict[str, Any]]:
    """Return the verdicts of the newest reports, oldest first."""
    files = lake.files("reports", cluster_id)[-REPORTS_MAX:]
    if not files:
        return []
    columns = ", ".join(["offset bigint", "time timestamp", *(f"{name} bigint" for name in BALANCE)])
    reports = spark.read.schema(columns).parquet(*map(lake.url_of, files))
    rows = reports.withColumn("time", F.unix_millis("time")).orderBy("time", "offset").collect()
    return [row.asDict() for row in rows]


def _named(
    rows: Mapping[str, list[dict[str, Any]]], kind: str, keys: Sequence[str], numbers: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the rows of a kind under the names of the result: by date, else the greatest first number first."""
    first = next(iter(numbers.values()))

    def order(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return (row["date"] or "", -row[first], *(row[key] if row[key] is not None else "" for key in keys))

    return [
        {key: row[key] for key in keys} | {name: row[column] for name, column in numbers.items()}
        for row in sorted(rows.get(kind, ()), key=order)
    ]
