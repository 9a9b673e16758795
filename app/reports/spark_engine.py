"""The report's engine on Spark: collects the transforms' small results. The verdicts are computed here, not there."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from app.reports import transforms as t
from app.reports.aggregates import (
    CUBE_RACKS_MAX,
    PAIRS_BROKERS_MAX,
    PAIRS_LISTED,
    Aggregates,
    Brokers,
    CubeRow,
    Held,
    Judged,
    Pair,
    PairLoss,
    PairSummary,
    RackHit,
    Size,
)
from app.reports.body import broker_loads
from app.reports.plain import pair_effect, positions_by_rack, sort_key
from app.reports.states import LEADER, TARGET, Outcomes, PartitionState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Key = tuple[int, tuple[int, ...], int, int, int, bool]
"""The columns of `transforms.STATE`."""

STATES = pa.schema(
    [
        ("size", pa.int32()),
        ("codes", pa.list_(pa.int32())),
        ("leader_at", pa.int32()),
        ("rf", pa.int32()),
        ("min_isr_config", pa.int32()),
        ("unclean", pa.bool_()),
        ("state", pa.int32()),
        (
            "pairs",
            pa.list_(pa.struct([(name, pa.int32()) for name in ("one", "other", "shared", "down", "refused", "lost")])),
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class Tables:
    """A snapshot as Spark's tables."""

    spark: "SparkSession"
    partitions: "DataFrame"
    topics: "DataFrame"
    brokers: Brokers
    elr: bool


def collect(frame: "DataFrame") -> list[dict[str, Any]]:
    """Return all rows of a small result as dictionaries."""
    return [row.asDict() for row in frame.collect()]


def facts_of(tables: Tables) -> "DataFrame":
    """Return the facts of all partitions, to be kept in memory for `aggregate`."""
    brokers = tables.brokers
    rack_of, allowed = brokers.rack_of() or [-1], brokers.allowed()
    return t.partition_facts(tables.partitions, tables.topics, rack_of, allowed, elr=tables.elr)


def aggregate(tables: Tables, facts: "DataFrame", stage: Callable[[str], None]) -> Aggregates:
    """Return what Spark counts. `stage` is called with the name of each stage of the job that begins.

    Left to the driver, see `app.reports.columns_engine`: topics, the optimum of leaders, new leaders, and examples.
    """
    stage("counting partitions")
    rows = collect(t.judged(facts))
    states, index = _states(rows)
    outcomes = Outcomes(states)
    known = t.with_states(facts, _state_table(tables.spark, index, outcomes))
    stage("counting replicas and leaders")
    held = collect(t.held(known))
    heldings = sorted(Held(row["broker_idx"], row["state"], row["position"], row["partitions"]) for row in held)
    stage("losing each rack")
    cube, hits = _racks(known, tables.brokers)
    stage("losing pairs of brokers")
    pairs, summary = _pairs(tables, known, states, heldings)
    copysets = {row["replicas"]: row["copysets"] for row in collect(t.copysets(facts))}
    return Aggregates(
        states=states,
        judged=_judged(rows, index),
        held=heldings,
        rack_hits=hits,
        cube=cube,
        pairs=pairs,
        pair_summary=summary,
        copysets=copysets,
        sizes=_sizes(held, states),
    )


def _key(row: Mapping[str, Any]) -> Key:
    return row["size"], tuple(row["codes"]), row["leader_at"], row["rf"], row["min_isr_config"], row["unclean"]


def _state(key: Key) -> PartitionState:
    size, codes, leader, factor, config, unclean = key
    every = codes or (t.HEALTHY,) * size
    return PartitionState(
        tuple(code | LEADER if position == leader else code for position, code in enumerate(every)),
        factor,
        config,
        unclean,
    )


def _states(rows: Sequence[Mapping[str, Any]]) -> tuple[list[PartitionState], dict[Key, int]]:
    """Return the distinct states, sorted, and the index of the state of each key."""
    state_of = {_key(row): _state(_key(row)) for row in rows}
    states = sorted(set(state_of.values()), key=sort_key)
    position = {state: index for index, state in enumerate(states)}
    return states, {key: position[state] for key, state in state_of.items()}


def _judged(rows: Sequence[Mapping[str, Any]], index: Mapping[Key, int]) -> list[Judged]:
    counts: Counter[tuple[int, str, int]] = Counter()
    for row in rows:
        counts[index[_key(row)], row["rack_verdict"], row["rack_moves"]] += row["partitions"]
    return [Judged(*key, count) for key, count in sorted(counts.items())]


def _state_table(spark: "SparkSession", index: Mapping[Key, int], outcomes: Outcomes) -> "DataFrame":
    rows = []
    for (size, codes, leader, factor, config, unclean), state in index.items():
        effects = [
            (one, other, *pair_effect(outcomes, state, one, other)) for one, other in combinations(range(size), 2)
        ]
        names = ("one", "other", "shared", "down", "refused", "lost")
        rows.append(
            {
                "size": size,
                "codes": list(codes),
                "leader_at": leader,
                "rf": factor,
                "min_isr_config": config,
                "unclean": unclean,
                "state": state,
                "pairs": [dict(zip(names, effect, strict=True)) for effect in effects],
            }
        )
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=STATES))


def _racks(known: "DataFrame", brokers: Brokers) -> tuple[list[CubeRow] | None, list[RackHit]]:
    if len(brokers.racks) > CUBE_RACKS_MAX:
        hits = collect(t.rack_hits(known))
        return None, sorted(RackHit(row["rack_idx"], row["state"], row["lost"], row["partitions"]) for row in hits)
    cube = sorted(CubeRow(row["state"], tuple(row["racks"]), row["partitions"]) for row in collect(t.cube(known)))
    counts: Counter[tuple[int, int, int]] = Counter()
    same = list(range(len(brokers.racks)))
    for state, racks, partitions in cube:
        for rack, lost in positions_by_rack(racks, [*same, -1]).items():
            counts[rack, state, lost] += partitions
    return cube, [RackHit(*key, count) for key, count in sorted(counts.items())]


def _pairs(
    tables: Tables, known: "DataFrame", states: Sequence[PartitionState], held: Sequence[Held]
) -> tuple[list[Pair], PairSummary | None]:
    """Return the pairs of brokers that share partitions or, with too many brokers, no pair and the summary of all."""
    pairs = t.pairs(known)
    if len(tables.brokers.rows) <= PAIRS_BROKERS_MAX:
        return sorted(Pair(**row) for row in collect(pairs)), None
    loads = broker_loads(tables.brokers, Aggregates(states=states, held=held), Outcomes(states))
    rows = [(broker, *load.loss.newly) for broker, load in enumerate(loads)]
    losses = tables.spark.createDataFrame(rows, "broker int, down bigint, refused bigint, lost bigint")
    every = t.pair_losses(pairs, losses).persist()
    (totals,) = collect(t.pair_totals(every))
    width = {row["broker"]: row["width"] for row in collect(t.scatter_widths(every))}
    worst = [PairLoss(**row) for row in collect(t.worst_pairs(every, PAIRS_LISTED))]
    every.unpersist()
    return [], PairSummary(**totals, width=width, worst=worst)


def _sizes(held: Sequence[Mapping[str, Any]], states: Sequence[PartitionState]) -> dict[int, Size]:
    total: Counter[int] = Counter()
    known: Counter[int] = Counter()
    for row in held:
        if states[row["state"]].codes[row["position"]] & TARGET and row["known"]:
            total[row["broker_idx"]] += row["size_bytes"]
            known[row["broker_idx"]] += row["known"]
    return {broker: Size(total[broker], count) for broker, count in known.items()}
