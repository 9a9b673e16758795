"""The part of a report that needs single partitions: one pass over the snapshot's files, with numpy.

Each chunk gives the tables of DETAILS, and those of all chunks are added up. In the driver, after Spark has counted the
rest, or in Spark's tasks (see `app.reports.arrow_engine`).
"""

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from app.reports.aggregates import Aggregates, Brokers
from app.reports.columns import Array, Chunk, Worst, broker_hits, judge, rack_hits, read_chunks, topic_names
from app.reports.keyed_files import FOLDER, KeyedFile, write_keyed
from app.reports.leader_columns import LeaderColumns, LedGroups
from app.reports.leaders import leader_optimum
from app.reports.placement_file import FILE, PlacementWriter
from app.reports.states import Outcomes, PartitionState
from app.reports.sums import Table, added, grouped
from app.reports.topic_columns import TopicColumns, topic_rows, worst_topics

DETAILS = ("led", "taken broker", "taken rack", "starting", "able")
"""Tables of sums, each with one value: partitions by leader; by lost broker or rack and the broker that takes over; for
the last ones see LeaderColumns. Beside them: "alike" of LeaderColumns, "topics" of TopicColumns, and "worst broker" and
"worst rack" of Worst.
"""


def details_of(chunk: Chunk, states: Sequence[PartitionState], brokers: Brokers) -> dict[str, Table]:
    """Return the tables of a chunk."""
    outcomes, flow = Outcomes(states), LeaderColumns(states, brokers)
    leaders = flow.leaders(chunk)
    found: dict[str, Table] = {
        "led": grouped([leaders[leaders >= 0]]),
        **flow.groups(chunk),
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
    found: Aggregates,
    parts: Sequence[dict[str, Table]],
    alike: Sequence[KeyedFile],
    brokers: Brokers,
    names: Sequence[str],
) -> Aggregates:
    """Return the aggregates with the details of all chunks, which are taken out of `parts`.

    `alike` has the tables of that name. `names` are those of all topics by index.
    """
    if not parts:
        return dataclasses.replace(found, topics=[])
    sums = {name: added([part.pop(name) for part in parts], 1) for name in DETAILS}
    led, loads = _by_broker(sums["led"], brokers), _by_broker(sums["starting"], brokers)
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
        leaders=leader_optimum(loads.tolist(), sums["able"][0].tolist(), LedGroups(alike, len(brokers.rows))),
        topics=topic_rows(topics, names),
        broker_examples=examples["broker"],
        rack_examples=examples["rack"],
    )


def _by_broker(table: Table, brokers: Brokers) -> Array:
    """Return the values of a table that has the broker as its key, 0 where it has none."""
    found = np.zeros(len(brokers.rows), np.int64)
    found[table[0]] = table[1]
    return found


def complete(
    found: Aggregates, snapshot: Path, files: Sequence[str], out: Path, brokers: Brokers, *, elr: bool
) -> Aggregates:
    """Return the aggregates with topics, leaders and examples, and write `placement.arrow`."""
    names = topic_names(snapshot)
    index = {state: number for number, state in enumerate(found.states)}
    parts, alike = [], []
    with PlacementWriter(out / FILE, names, found.states, brokers) as writer:
        for number, chunk in enumerate(read_chunks(snapshot, files, index, elr=elr)):
            writer.write(chunk)
            details = details_of(chunk, found.states, brokers)
            alike.append(write_keyed(details.pop("alike"), out / FOLDER / f"alike-{number:05d}"))
            parts.append(details)
    found = with_details(found, parts, alike, brokers, names)
    shutil.rmtree(out / FOLDER, ignore_errors=True)
    return found


def hottest(led: Array, taken: Table) -> dict[int, int]:
    """Return the most leaders that a broker has after taking over from each lost domain."""
    found: dict[int, int] = {}
    for domain, total in zip(taken[0].tolist(), (led[taken[1]] + taken[2]).tolist(), strict=True):
        found[domain] = max(found.get(domain, 0), total)
    return found
