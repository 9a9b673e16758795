"""The report's Spark transforms: DataFrame to DataFrame only, without a session, I/O, or a Python function per row.

Brokers have a dense index (`broker_idx`, 0..n-1 in order of broker id), as do racks (-1 for none), topics (`topic_idx`,
in order of name) and states (`app.reports.states`). The snapshot's tables are described in `app.reports.export`.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from app.reports.states import ADDING, ELIGIBLE, IN_SYNC, ONLINE, TARGET

IntArray = Sequence[int]

STATE = ("size", "codes", "leader_at", "rf", "min_isr_config", "unclean")
"""The columns that make up a partition's state.

`codes` is without LEADER, which `leader_at` stands for. It is empty where every one of the `size` replicas has the code
HEALTHY, which is nearly everywhere.
"""
HEALTHY = TARGET | IN_SYNC | ONLINE


def lookup(table: IntArray, index: Column) -> Column:
    """Return `table[index]` as a column, null when the index is out of range."""
    return F.get(_int_array(table), index)


def partition_facts(
    partitions: DataFrame, topics: DataFrame, rack_of: IntArray, allowed: Sequence[IntArray], *, elr: bool
) -> DataFrame:
    """Return one row per partition with everything that depends on the partition alone.

    `rack_of[broker_idx]` is the broker's rack index or -1; `allowed[n]` is the even spread of `n` replicas, from most
    to fewest, empty when no broker has a rack. `elr`: whether eligible leader replicas are enabled.

    -> topic_idx, partition, replicas, isr, leader (broker_idx), the columns of STATE (leader_at: position, -1 none),
    removing, racks (by position), min_isr (m), margin, rack_moves, rack_verdict, size_bytes
    """
    plain = (F.size("isr") == F.size("replicas")) & (
        F.size("elr") + F.size("adding") + F.size("removing") + F.size("offline_replicas") == 0
    )
    rf = F.size("replicas") - F.size("adding")
    joined = (
        partitions.join(F.broadcast(topics.select("topic_idx", "min_isr_config", "unclean")), "topic_idx", "inner")
        .withColumns(
            {
                "size": F.size("replicas"),
                "codes": F.when(plain, _int_array(())).otherwise(_codes(elr=elr)),
                "leader_at": F.array_position("replicas", F.col("leader")).cast("int") - 1,
                "rf": rf,
                "min_isr": F.least("min_isr_config", rf),
                "racks": F.transform("replicas", lambda broker: lookup(rack_of, broker)),
            }
        )
        .withColumn("margin", F.size("isr") - F.col("min_isr"))
    )
    judged = _with_rack_verdict(joined, rack_of, allowed)
    return judged.drop("elr", "adding", "offline_replicas", "leader_epoch", "partition_epoch")


def _target() -> Column:
    return F.when(F.size("removing") == 0, F.col("replicas")).otherwise(F.array_except("replicas", "removing"))


def _codes(*, elr: bool) -> Column:
    """Return the codes of the replicas, without LEADER."""
    flags = [("isr", IN_SYNC), ("adding", ADDING), *([("elr", ELIGIBLE)] if elr else [])]

    def code(broker: Column) -> Column:
        total = F.when(F.array_contains("removing", broker), 0).otherwise(TARGET)
        total += F.when(F.array_contains("offline_replicas", broker), 0).otherwise(ONLINE)
        for column, flag in flags:
            total += F.when(F.array_contains(column, broker), flag).otherwise(0)
        return total

    return F.transform("replicas", code)


def _with_rack_verdict(facts: DataFrame, rack_of: IntArray, allowed: Sequence[IntArray]) -> DataFrame:
    """Add rack_moves and rack_verdict, see `app.reports.definitions.rack_judgement`."""
    every = F.transform(_target(), lambda broker: lookup(rack_of, broker))
    complete = min(rack_of, default=0) >= 0
    racks = F.when(F.size("removing") == 0, F.col("racks")).otherwise(every)
    named = racks if complete else F.filter(racks, lambda rack: rack >= 0)
    facts = facts.withColumn("named", named)
    limits = F.coalesce(
        F.get(F.expr(f"array({', '.join(map(_array_text, allowed))})"), F.size(_target())), _int_array(())
    )
    counts = F.sort_array(
        F.transform(
            F.array_distinct("named"), lambda rack: F.size(F.filter(F.col("named"), lambda other: other == rack))
        ),
        asc=False,
    )
    over = F.zip_with(counts, limits, _over_limit)
    moves = F.aggregate(over, F.lit(0), lambda total, extra: total + extra)
    one_each = (F.size(F.array_distinct("named")) == F.size("named")) & (F.get(limits, F.size("named") - 1) >= 1)
    verdict = F.when(F.col("rack_moves") > 0, "violated").when(F.size("named") < F.size(_target()), "unknown")
    # one replica in each rack is the common case, and it needs no lambda
    return (
        facts.withColumn("rack_moves", F.when(one_each, 0).otherwise(moves))
        .withColumn("rack_verdict", verdict.otherwise("ok"))
        .drop("named")
    )


def _int_array(values: IntArray) -> Column:
    return F.expr(_array_text(values))


def _array_text(values: IntArray) -> str:
    """Return a SQL array: one call to the JVM instead of one per value."""
    return f"cast(array({', '.join(map(str, values))}) as array<int>)"


def _over_limit(count: Column, limit: Column) -> Column:
    return F.greatest(F.lit(0), F.coalesce(count, F.lit(0)) - F.coalesce(limit, F.lit(0)))


def judged(facts: DataFrame) -> DataFrame:
    """-> (the columns of STATE, rack_verdict, rack_moves, partitions): some dozens of rows."""
    return facts.groupBy(*STATE, "rack_verdict", "rack_moves").agg(F.count("*").alias("partitions"))


def with_states(facts: DataFrame, states: DataFrame) -> DataFrame:
    """Return the facts with the columns of `states`, which has one row for each distinct STATE."""
    return facts.join(F.broadcast(states), list(STATE), "inner")


def held(facts: DataFrame) -> DataFrame:
    """-> (broker_idx, state, position, partitions, size_bytes, known): `known` counts the known sizes."""
    one = facts.select("state", F.posexplode("replicas").alias("position", "broker_idx"), "size_bytes")
    return one.groupBy("broker_idx", "state", "position").agg(
        F.count("*").alias("partitions"), F.sum("size_bytes").alias("size_bytes"), F.count("size_bytes").alias("known")
    )


def cube(facts: DataFrame) -> DataFrame:
    """-> (state, racks, partitions), with racks by position: some hundred rows for few racks."""
    return facts.groupBy("state", "racks").agg(F.count("*").alias("partitions"))


def rack_hits(facts: DataFrame) -> DataFrame:
    """-> (rack_idx, state, lost, partitions): partitions with the positions of the bit mask `lost` in that rack."""
    masks = F.transform(
        F.array_distinct(F.filter("racks", lambda rack: rack >= 0)),
        lambda rack: F.struct(rack.alias("rack_idx"), _positions(rack).alias("lost")),
    )
    one = facts.select("state", F.inline(masks))
    return one.groupBy("rack_idx", "state", "lost").agg(F.count("*").alias("partitions"))


def _positions(rack: Column) -> Column:
    bits = F.transform(
        "racks",
        lambda other, at: F.when(other == rack, F.call_function("shiftleft", F.lit(1).cast("long"), at)).otherwise(
            F.lit(0).cast("long")
        ),
    )
    return F.aggregate(bits, F.lit(0).cast("long"), lambda total, bit: total + bit)


def pairs(facts: DataFrame) -> DataFrame:
    """-> (first, second, shared, down, refused, lost): every two brokers with a common partition, first < second.

    `facts` has the effects of each pair of positions in the column `pairs`, from the states.
    """
    one = facts.select("replicas", F.inline("pairs"))
    left, right = F.get("replicas", F.col("one")), F.get("replicas", F.col("other"))
    return (
        one.withColumns({"first": F.least(left, right), "second": F.greatest(left, right)})
        .groupBy("first", "second")
        .agg(*[F.sum(name).alias(name) for name in ("shared", "down", "refused", "lost")])
    )


def pair_losses(pairs: DataFrame, losses: DataFrame) -> DataFrame:
    """-> (first, second, shared, down, refused, lost): every two brokers and the whole effect of losing both.

    `losses` has the effect of losing each broker: (broker, down, refused, lost).
    """
    effects = ("down", "refused", "lost")
    one = losses.select(F.col("broker").alias("first"), *[F.col(name).alias(f"{name}_1") for name in effects])
    other = losses.select(F.col("broker").alias("second"), *[F.col(name).alias(f"{name}_2") for name in effects])
    every = one.crossJoin(F.broadcast(other)).where(F.col("first") < F.col("second"))
    return every.join(pairs, ["first", "second"], "left").select(
        "first",
        "second",
        F.coalesce("shared", F.lit(0)).alias("shared"),
        *[
            (F.col(f"{name}_1") + F.col(f"{name}_2") + F.coalesce(F.col(name), F.lit(0))).alias(name)
            for name in effects
        ],
    )


def pair_totals(losses: DataFrame) -> DataFrame:
    """-> (sharing, losing, stopping): one row, from `pair_losses`. See `app.reports.aggregates.PairSummary`."""
    counted = (("sharing", "shared"), ("losing", "lost"), ("stopping", "refused"))
    return losses.agg(*[F.count_if(F.col(name) > 0).alias(label) for label, name in counted])


def scatter_widths(losses: DataFrame) -> DataFrame:
    """-> (broker, width): with how many others each broker shares a partition."""
    sharing = losses.where(F.col("shared") > 0).select(F.explode(F.array("first", "second")).alias("broker"))
    return sharing.groupBy("broker").agg(F.count("*").alias("width"))


def worst_pairs(losses: DataFrame, limit: int) -> DataFrame:
    """Return the pairs whose loss does most harm, of those from `pair_losses` that do any, the worst first."""
    harmful = losses.where((F.col("down") != 0) | (F.col("refused") != 0) | (F.col("lost") != 0))
    order = [F.desc(name) for name in ("down", "refused", "lost", "shared")]
    return harmful.orderBy(*order, "first", "second").limit(limit)


def copysets(facts: DataFrame) -> DataFrame:
    """-> (replicas, copysets): the number of distinct targets by their size."""
    distinct = facts.select(F.array_sort(_target()).alias("target")).distinct()
    return distinct.groupBy(F.size("target").alias("replicas")).agg(F.count("*").alias("copysets"))


def violations(facts: DataFrame, topics: DataFrame) -> DataFrame:
    """Return every partition with a problem, with its worst reason, the most severe first, then by topic and partition.

    -> (topic, partition, reason, replicas, isr, leader, rf, min_isr, margin, rack_moves, size_bytes), brokers by index.
    Reasons in this order: offline, under_min, rack, under_replicated, rack_unknown.
    """
    severity = (
        F.when(F.col("leader_at") < 0, 0)
        .when(F.col("margin") < 0, 1)
        .when(F.col("rack_verdict") == "violated", 2)
        .when(F.col("rf") > F.size("isr"), 3)
        .when(F.col("rack_verdict") == "unknown", 4)
    )
    names = topics.select("topic_idx", F.col("name").alias("topic"))
    listed = facts.withColumn("severity", severity).where(F.col("severity").isNotNull())
    reasons = F.array(*map(F.lit, ("offline", "under_min", "rack", "under_replicated", "rack_unknown")))
    return (
        listed.join(F.broadcast(names), "topic_idx", "inner")
        .orderBy("severity", "topic_idx", "partition")
        .select(
            "topic",
            "partition",
            F.get(reasons, F.col("severity")).alias("reason"),
            "replicas",
            "isr",
            "leader",
            "rf",
            "min_isr",
            "margin",
            "rack_moves",
            "size_bytes",
        )
    )
