"""The part of a report that needs single partitions: one pass over the snapshot's files, with numpy.

Each chunk gives the tables of DETAILS, and those of all chunks are added up. In the driver, after Spark has counted the
rest, or in Spark's tasks (see `app.reports.arrow_engine`).
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from app.reports.aggregates import Aggregates, Brokers
from app.reports.columns import Array, Chunk, Worst, broker_hits, judge, rack_hits, read_chunks, topic_names
from app.reports.leader_columns import LeaderColumns, optimum_of
from app.reports.placement_file import FILE, PlacementWriter
from app.reports.states import Outcomes, PartitionState
from app.reports.sums import Table, added, grouped
from app.reports.topic_columns import TopicColumns, topic_rows, worst_topics

DETAILS = ("led", "taken broker", "taken rack", "leaders")
"""Tables of sums, each with one value: partitions by leader; by lost broker or rack and the broker that takes over; by
leader and brokers that could lead. Beside them: "topics", "worst broker" and "worst rack", see TopicColumns and Worst.
"""


def details_of(chunk: Chunk, states: Sequence[PartitionState], brokers: Brokers) -> dict[str, Table]:
    """Return the tables of a chunk."""
    outcomes, flow = Outcomes(states), LeaderColumns(states, brokers)
    leaders = flow.leaders(chunk)
    found: dict[str, Table] = {
        "led": grouped([leaders[leaders >= 0]]),
        "leaders": flow.groups(chunk),
        "topics": TopicColumns(states, brokers).rows(chunk),
    }
    for kind, hits in (("broker", broker_hits(chunk)), ("rack", rack_hits(chunk, brokers.rack_of()))):
        judgement, worst = judge(chunk, hits, outcomes), Worst()
        worst.add(chunk, hits, judgement)
        moved = judgement.heir >= 0
        found[f"taken {kind}"] = grouped([hits.domain[moved], judgement.heir[moved]])
        found[f"worst {kind}"] = worst.rows
    return found


def with_details(
    found: Aggregates, parts: Sequence[dict[str, Table]], brokers: Brokers, names: Sequence[str]
) -> Aggregates:
    """Return the aggregates with the details of all chunks, which are taken out of `parts`.

    `names` are those of all topics by index.
    """
    if not parts:
        return dataclasses.replace(found, topics=[])
    sums = {name: added([part.pop(name) for part in parts], 1, absent=len(brokers.rows)) for name in DETAILS}
    led = np.zeros(len(brokers.rows), np.int64)
    led[sums["led"][0]] = sums["led"][1]
    examples = {}
    for kind in ("broker", "rack"):
        worst = Worst()
        worst.add_rows(np.concatenate([part[f"worst {kind}"] for part in parts], axis=1))
        examples[kind] = worst.pages(names.__getitem__)
    topics = worst_topics(np.concatenate([part["topics"] for part in parts], axis=1))
    return dataclasses.replace(
        found,
        hottest_without_broker=hottest(led, sums["taken broker"]),
        hottest_without_rack=hottest(led, sums["taken rack"]),
        leaders=optimum_of(sums["leaders"], len(brokers.rows)),
        topics=topic_rows(topics, names),
        broker_examples=examples["broker"],
        rack_examples=examples["rack"],
    )


def complete(
    found: Aggregates, snapshot: Path, files: Sequence[str], out: Path, brokers: Brokers, *, elr: bool
) -> Aggregates:
    """Return the aggregates with topics, leaders and examples, and write `placement.arrow`."""
    names = topic_names(snapshot)
    index = {state: number for number, state in enumerate(found.states)}
    parts = []
    with PlacementWriter(out / FILE, names, found.states, brokers) as writer:
        for chunk in read_chunks(snapshot, files, index, elr=elr):
            writer.write(chunk)
            parts.append(details_of(chunk, found.states, brokers))
    return with_details(found, parts, brokers, names)


def hottest(led: Array, taken: Table) -> dict[int, int]:
    """Return the most leaders that a broker has after taking over from each lost domain."""
    found: dict[int, int] = {}
    for domain, total in zip(taken[0].tolist(), (led[taken[1]] + taken[2]).tolist(), strict=True):
        found[domain] = max(found.get(domain, 0), total)
    return found
