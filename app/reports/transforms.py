"""The report's Spark transforms: DataFrame to DataFrame only, without a session, I/O, or a Python function per row.

Brokers have a dense index (`broker_idx`, 0..n-1 in order of broker id), as do racks (`rack_idx`, -1 for none) and
topics (`topic_idx`). The snapshot's tables are described in `app.reports.export`.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

IntArray = Sequence[int]


def lookup(table: IntArray, index: Column) -> Column:
    """Return `table[index]` as a column, null when the index is out of range."""
    return F.get(_int_array(table), index)


def partition_facts(
    partitions: DataFrame, topics: DataFrame, rack_of: IntArray, allowed: Sequence[IntArray]
) -> DataFrame:
    """Return one row per partition with everything that depends on the partition alone.

    `rack_of[broker_idx]` is the broker's rack index or -1; `allowed[rf]` is the even spread of `rf` replicas, from most
    to fewest, empty when no broker has a rack.

    -> topic_idx, partition, replicas, target (T), isr, elr, leader, alive (replicas that are online), rf, min_isr (m),
    min_isr_config, unclean, offline, under_min, at_min, under_replicated, cli_under_min, cli_at_min, margin,
    rack_moves, rack_verdict ("ok", "violated", "unknown"), size_bytes
    """
    brokers = F.col("target")
    named_racks = F.filter(F.transform(brokers, lambda broker: lookup(rack_of, broker)), lambda rack: rack >= 0)
    targets = F.array_except("replicas", "removing")
    rf = F.size("replicas") - F.size("adding")
    joined = (
        partitions.join(F.broadcast(topics.select("topic_idx", "min_isr_config", "unclean")), "topic_idx", "inner")
        .withColumns({"target": targets, "rf": rf, "alive": F.array_except("replicas", "offline_replicas")})
        .withColumns({"min_isr": F.least("min_isr_config", "rf"), "racks": named_racks})
    )
    counts = F.sort_array(
        F.transform(
            F.array_distinct("racks"), lambda rack: F.size(F.filter(F.col("racks"), lambda other: other == rack))
        ),
        asc=False,
    )
    limits = F.get(F.expr(f"array({', '.join(map(_array_text, allowed))})"), F.col("rf"))
    over = F.zip_with(counts, F.coalesce(limits, _int_array(())), _over_limit)
    moves = F.aggregate(over, F.lit(0), lambda total, extra: total + extra)
    named = F.size("racks")
    one_each = (F.size(F.array_distinct("racks")) == named) & (F.get(limits, named - 1) >= 1)
    moves = F.when(one_each, 0).otherwise(moves)  # the common case, and it needs no lambda
    return _with_health(joined.withColumn("rack_moves", moves)).drop("racks", "adding", "removing", "offline_replicas")


def _int_array(values: IntArray) -> Column:
    return F.expr(_array_text(values))


def _array_text(values: IntArray) -> str:
    """Return a SQL array: one call to the JVM instead of one per value."""
    return f"cast(array({', '.join(map(str, values))}) as array<int>)"


def _over_limit(count: Column, limit: Column) -> Column:
    return F.greatest(F.lit(0), F.coalesce(count, F.lit(0)) - F.coalesce(limit, F.lit(0)))


def _with_health(facts: DataFrame) -> DataFrame:
    in_sync = F.size("isr")
    leaderless = F.col("leader") < 0
    rackless = F.size("racks") < F.size("target")
    return facts.withColumns(  # in one call: Spark analyses the whole plan in each
        {
            "offline": leaderless,
            "under_min": leaderless | (in_sync < F.col("min_isr")),
            "at_min": ~leaderless & (in_sync == F.col("min_isr")),
            "under_replicated": F.col("rf") - in_sync > 0,
            "cli_under_min": leaderless | (in_sync < F.col("min_isr_config")),
            "cli_at_min": ~leaderless & (in_sync == F.col("min_isr_config")),
            "margin": in_sync - F.col("min_isr"),
            "rack_verdict": F.when(F.col("rack_moves") > 0, "violated").when(rackless, "unknown").otherwise("ok"),
        }
    )


def totals(facts: DataFrame) -> DataFrame:
    """-> one row per (rf, margin, rack_verdict): the number of partitions, and of those with each problem."""
    flags = ("offline", "under_min", "at_min", "under_replicated", "cli_under_min", "cli_at_min")
    return facts.groupBy("rf", "margin", "rack_verdict").agg(
        F.count("*").alias("partitions"),
        F.sum("rack_moves").cast("long").alias("rack_moves"),
        F.count_if(F.col("rf") == F.col("min_isr")).alias("rf_is_min_isr"),
        F.count_if(F.col("leader") != F.get("replicas", F.lit(0))).alias("non_preferred"),
        F.count_if(_fixable_by_election()).alias("fixable_by_election"),
        *[F.count_if(flag).alias(flag) for flag in flags],
    )


def _fixable_by_election() -> Column:
    preferred = F.get("replicas", F.lit(0))
    able = F.array_contains("isr", preferred) & F.array_contains("alive", preferred)
    return (F.col("leader") >= 0) & (F.col("leader") != preferred) & able


def replicas_per_broker(facts: DataFrame) -> DataFrame:
    """-> (broker_idx, replicas, preferred, out_of_sync, size_bytes), only for brokers that hold replicas."""
    held = facts.select(F.posexplode("target").alias("position", "broker_idx"), "isr", "size_bytes")
    return held.groupBy("broker_idx").agg(
        F.count("*").alias("replicas"),
        F.count_if(F.col("position") == 0).alias("preferred"),
        F.count_if(~F.array_contains("isr", F.col("broker_idx"))).alias("out_of_sync"),
        F.sum("size_bytes").alias("size_bytes"),
    )


def leaders_per_broker(facts: DataFrame) -> DataFrame:
    """-> (broker_idx, leaders)."""
    led = facts.where(F.col("leader") >= 0)
    return led.groupBy(F.col("leader").alias("broker_idx")).agg(F.count("*").alias("leaders"))


def scatter_width(facts: DataFrame) -> DataFrame:
    """-> (broker_idx, scatter_width): the number of other brokers with which each one shares a partition."""
    one = facts.select(F.explode("target").alias("broker_idx"), "target")
    both = one.select("broker_idx", F.explode("target").alias("other")).where(F.col("broker_idx") != F.col("other"))
    return both.distinct().groupBy("broker_idx").agg(F.count("*").alias("scatter_width"))


def broker_losses(facts: DataFrame, *, elr: bool) -> DataFrame:
    """Return `losses` for the loss of each single broker: one domain per broker that holds a partition."""
    touched = facts.withColumn("domain", F.explode(F.array_union("target", "isr")))
    dead = F.array(F.col("domain"))
    return losses(touched.withColumn("dead", dead), elr=elr)


def rack_losses(facts: DataFrame, rack_of: IntArray, *, elr: bool) -> DataFrame:
    """Return `losses` for the loss of each whole rack: one domain per rack that holds a partition."""
    holders = F.array_union("target", "isr")
    racks = F.array_distinct(
        F.filter(F.transform(holders, lambda broker: lookup(rack_of, broker)), lambda rack: rack >= 0)
    )
    touched = facts.withColumn("domain", F.explode(racks))
    everyone = F.array_union(F.array_union("replicas", "isr"), "elr")
    dead = F.filter(everyone, lambda broker: lookup(rack_of, broker) == F.col("domain"))
    return losses(touched.withColumn("dead", dead), elr=elr)


def losses(touched: DataFrame, *, elr: bool) -> DataFrame:
    """Return the verdicts of each (domain, partition) row before and after the loss of the brokers in `dead`.

    -> (domain, new_leader, before, after, partitions, size_bytes). `before` and `after` are verdicts. `new_leader` is
    the broker that leads afterwards where the old leader was lost, else -1. The new leader is the first replica in
    assignment order that is in sync and online or, when no in-sync replica is left and ELR is enabled, an eligible
    leader replica (PartitionChangeBuilder.electAnyLeader).
    """
    survivors = F.array_except("isr", "dead")
    eligible = F.array_except("elr", "dead") if elr else F.array().cast("array<int>")
    judged = (
        touched.withColumns({"survivors": survivors, "leader_dies": F.array_contains("dead", F.col("leader"))})
        .withColumn("candidates", F.when(F.size("survivors") > 0, F.col("survivors")).otherwise(eligible))
        .withColumn("elected", _first_alive_candidate())
        .withColumn("leads_after", F.when(F.col("leader_dies"), F.col("elected")).otherwise(F.col("leader")))
    )
    after = _verdict("leads_after", "survivors", F.array_except("target", "dead"), F.array_except("alive", "dead"))
    before = _verdict("leader", "isr", F.col("target"), F.col("alive"))
    rows = judged.select(
        "domain",
        F.when(F.col("leader_dies"), F.col("leads_after")).otherwise(-1).alias("new_leader"),
        before.alias("before"),
        after.alias("after"),
        "size_bytes",
    )
    return rows.groupBy("domain", "new_leader", "before", "after").agg(
        F.count("*").alias("partitions"), F.sum("size_bytes").alias("size_bytes")
    )


def _first_alive_candidate() -> Column:
    able = F.filter(
        F.col("replicas"),
        lambda broker: F.array_contains("candidates", broker) & F.array_contains("alive", broker),
    )
    return F.coalesce(F.get(able, F.lit(0)), F.lit(-1))


def _verdict(leader: str, in_sync: str, holders: Column, alive: Column) -> Column:
    """Return the worst verdict of a partition, from its leader, its in-sync replicas and its online replicas."""
    count = F.size(in_sync)
    return (
        F.when(F.size(holders) == 0, "lost")
        .when((F.col(leader) < 0) & F.col("unclean") & (F.size(alive) > 0), "unclean")
        .when(F.col(leader) < 0, "offline")
        .when(count < F.col("min_isr"), "under_min")
        .when(count == F.col("min_isr"), "at_min")
        .otherwise("ok")
    )


def verdicts_now(facts: DataFrame) -> DataFrame:
    """-> (verdict, partitions): the verdicts without a loss, which unaffected partitions keep."""
    verdict = _verdict("leader", "isr", F.col("target"), F.col("alive"))
    return facts.groupBy(verdict.alias("verdict")).agg(F.count("*").alias("partitions"))


def violations(facts: DataFrame, topics: DataFrame) -> DataFrame:
    """Return every partition with a problem, with its worst reason, sorted by topic and partition.

    -> (topic, partition, reason, replicas, isr, leader, rf, min_isr, margin, rack_moves, size_bytes), brokers by index.
    Reasons in this order: offline, under_min, rack, under_replicated, rack_unknown.
    """
    reason = (
        F.when(F.col("offline"), "offline")
        .when(F.col("under_min"), "under_min")
        .when(F.col("rack_verdict") == "violated", "rack")
        .when(F.col("under_replicated"), "under_replicated")
        .when(F.col("rack_verdict") == "unknown", "rack_unknown")
    )
    names = topics.select("topic_idx", F.col("name").alias("topic"))
    listed = facts.withColumn("reason", reason).where(F.col("reason").isNotNull())
    return (
        listed.join(F.broadcast(names), "topic_idx", "inner")
        .select(
            "topic",
            "partition",
            "reason",
            "replicas",
            "isr",
            "leader",
            "rf",
            "min_isr",
            "margin",
            "rack_moves",
            "size_bytes",
        )
        .orderBy("topic", "partition")
    )
