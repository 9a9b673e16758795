"""Sentences that say what to do about a report's findings and name the rack or broker, and why there may be no plan."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from app.reports.aggregates import Aggregates, Brokers
from app.reports.rack_advice import weak_racks

NAMED = 5
"""The most brokers or racks named in one sentence; the rest is counted."""
Block = Mapping[str, Any]


def advice(body: Block, brokers: Brokers, found: Aggregates) -> list[str]:
    """Return the advice for a report, the most urgent first."""
    return [
        *_dead_brokers(body["brokers"], _stuck(brokers, found)),
        *weak_racks(brokers, found),
        *_racks_to_set(body),
        *_racks_to_grow(body["racks"]),
        *_full_brokers(body["brokers"]),
        *_leaders(body),
    ]


def _named(names: Sequence[object], one: str, many: str) -> str:
    """Return "Broker 1", "Brokers 1, 2 and 3" or "Brokers 1, 2, 3, 4, 5 and 7 more"."""
    shown = [str(name) for name in names[:NAMED]]
    if len(names) == 1:
        return f"{one} {shown[0]}"
    if len(names) > NAMED:
        return f"{many} {', '.join(shown)} and {len(names) - NAMED} more"
    return f"{many} {', '.join(shown[:-1])} and {shown[-1]}"


def _brokers(rows: Sequence[Block]) -> str:
    return _named([row["broker_id"] for row in rows], "Broker", "Brokers")


def _count(number: int, one: str) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def _stuck(brokers: Brokers, found: Aggregates) -> set[int]:
    """Return the ids of the brokers with no replica that another broker could hold: too few may take replicas."""
    eligible = set(brokers.eligible())
    movable = {row.broker for row in found.held if found.states[row.state].target <= len(eligible - {row.broker})}
    return set(brokers.ids({row.broker for row in found.held} - movable))


def _dead_brokers(brokers: Sequence[Block], stuck: Collection[int]) -> Iterator[str]:
    for state in ("UNREGISTERED", "FENCED"):
        rows = [row for row in brokers if row["state"] == state and row["replicas"]]
        if rows:
            held = _count(sum(row["replicas"] for row in rows), "replica")
            one = len(rows) == 1
            it, its = ("it", "its") if one else ("them", "their")
            remedy = f"Start {it}, or move {its}" if state == "FENCED" else f"Move {its}"
            remedy += " replicas to other brokers."
            if all(row["broker_id"] in stuck for row in rows):
                first = f"Start {it}: n" if state == "FENCED" else "N"
                remedy = f"{first}o other broker can take {its} replicas until more are added."
            is_, holds = ("is", "holds") if one else ("are", "hold")
            yield f"{_brokers(rows)} {is_} {state.lower()} and {holds} {held}. {remedy}"
    away = [row for row in brokers if row["state"] == "ACTIVE" and row["offline_replicas"]]
    if away:
        held = _count(sum(row["offline_replicas"] for row in away), "replica")
        has = "has" if len(away) == 1 else "have"
        remedy = "Repair the disks, or move the replicas."
        if all(row["broker_id"] in stuck for row in away):
            remedy = "Repair the disks: no other broker can take the replicas until more are added."
        yield f"{_brokers(away)} {has} {held} in offline log directories. {remedy}"


def _racks_to_set(body: Block) -> Iterator[str]:
    registered = [row for row in body["brokers"] if row["state"] != "UNREGISTERED"]
    rackless = [row for row in registered if not row["rack"]]
    if rackless and len(rackless) == len(registered):
        yield "No broker has a rack, so the rack rule cannot be checked. Set broker.rack on every broker."
    elif rackless:
        has, its = ("has", "its") if len(rackless) == 1 else ("have", "their")
        yield f"{_brokers(rackless)} {has} no rack, so {its} partitions cannot be judged. Set {its} broker.rack."


def _racks_to_grow(racks: Sequence[Block]) -> Iterator[str]:
    """Name the racks whose brokers must hold more than those of other racks, even when the cluster is balanced."""
    usable = [row for row in racks if row["share_low"] is not None and row["eligible_brokers"]]
    if not usable:
        return
    easiest = min(usable, key=lambda row: Fraction(row["share_high"], row["eligible_brokers"]))
    least = Fraction(easiest["share_high"], easiest["eligible_brokers"])
    for row in usable:
        if row["share_low"] // row["eligible_brokers"] >= least + 1:
            yield (
                f"Add brokers in rack {row['rack']}: the rack rule puts {row['share_low']} replicas on its"
                f" {_count(row['eligible_brokers'], 'broker')}, more for each than in rack {easiest['rack']}."
            )


def _full_brokers(brokers: Sequence[Block]) -> Iterator[str]:
    over = sorted((row for row in brokers if row["excess"]), key=lambda row: (-row["excess"], row["broker_id"]))
    if over:
        excess = _count(sum(row["excess"] for row in over), "replica")
        verb = "holds" if len(over) == 1 else "hold"
        below = any(row["deficit"] for row in brokers)
        target = "brokers below their band" if below else "brokers with fewer, which stay in their band"
        yield f"{_brokers(over)} {verb} {excess} more than balanced. Move them to {target}."


def _leaders(body: Block) -> Iterator[str]:
    leaders, verdict = body["leaders"], body["verdict"]
    if verdict["fixable_by_election"]:
        yield (
            f"A preferred election returns {_count(verdict['fixable_by_election'], 'partition')} to the first replica."
        )
    if leaders["leaders_max"] > leaders["leader_optimum"]:
        most = [row for row in body["brokers"] if row["leaders"] == leaders["leaders_max"]]
        verb = "leads" if len(most) == 1 else "lead"
        yield (
            f"{_brokers(most)} {verb} {_count(leaders['leaders_max'], 'partition')}; at most"
            f" {leaders['leader_optimum']} are needed, after {_count(leaders['leader_changes'], 'change')} of leaders"
            " that move no data."
        )


def refused(brokers: Brokers, found: Aggregates) -> list[str]:
    """Return why no plan of moves can be made at all; empty when one can."""
    total = sum(row.partitions for row in found.judged)
    if not total:
        return ["There is no partition."]
    eligible = len(brokers.eligible())
    if not eligible:
        return ["No broker may take replicas: each is fenced, shutting down, or has no uncordoned log directory."]
    states = found.states
    reasons = (
        ("without a leader", lambda state: state.leader < 0),
        ("being reassigned", lambda state: any(code & 32 or not code & 1 for code in state.codes)),
        (f"with more replicas than the {_count(eligible, 'eligible broker')}", lambda state: state.target > eligible),
    )
    movable = [row for row in found.judged if not any(holds(states[row.state]) for _, holds in reasons)]
    if movable:
        return []
    counts = [
        (text, sum(row.partitions for row in found.judged if holds(states[row.state]))) for text, holds in reasons
    ]
    return [f"{_count(count, 'partition')} {text}: no plan moves such partitions." for text, count in counts if count]
