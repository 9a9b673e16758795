"""Sentences that say what to do about a report's findings and name the rack or broker, and why there may be no plan."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from app.reports.aggregates import Aggregates, Brokers
from app.reports.rack_advice import partitions_text, weak_racks
from app.reports.states import PartitionState
from app.texts import Text, phrase, phrases

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


def _brokers(rows: Sequence[Block]) -> Text:
    """Return "Broker 1", "Brokers 1, 2 and 3" or "Brokers 1, 2, 3, 4, 5 and 7 more"."""
    shown = [str(row["broker_id"]) for row in rows[:NAMED]]
    if len(rows) == 1:
        return phrase("Broker %(id)s", id=shown[0])
    if len(rows) > NAMED:
        return phrase("Brokers %(ids)s and %(more)s more", ids=", ".join(shown), more=len(rows) - NAMED)
    return phrase("Brokers %(ids)s and %(last)s", ids=", ".join(shown[:-1]), last=shown[-1])


def _replicas(count: int) -> Text:
    return phrases("%(count)s replica", "%(count)s replicas", count)


def _stuck(brokers: Brokers, found: Aggregates) -> set[int]:
    """Return the ids of the brokers with no replica that another broker could hold: too few may take replicas."""
    eligible = set(brokers.eligible())
    movable = {row.broker for row in found.held if found.states[row.state].target <= len(eligible - {row.broker})}
    return set(brokers.ids({row.broker for row in found.held} - movable))


def _dead_brokers(brokers: Sequence[Block], stuck: Collection[int]) -> Iterator[str]:
    rows = [row for row in brokers if row["state"] == "UNREGISTERED" and row["replicas"]]
    if rows:
        yield phrases(
            "%(brokers)s is unregistered and holds %(replicas)s. %(remedy)s",
            "%(brokers)s are unregistered and hold %(replicas)s. %(remedy)s",
            len(rows),
            brokers=_brokers(rows),
            replicas=_replicas(sum(row["replicas"] for row in rows)),
            remedy=_no_taker(len(rows)) if _all_in(rows, stuck) else _to_move(len(rows)),
        )
    rows = [row for row in brokers if row["state"] == "FENCED" and row["replicas"]]
    if rows:
        yield phrases(
            "%(brokers)s is fenced and holds %(replicas)s. %(remedy)s",
            "%(brokers)s are fenced and hold %(replicas)s. %(remedy)s",
            len(rows),
            brokers=_brokers(rows),
            replicas=_replicas(sum(row["replicas"] for row in rows)),
            remedy=_to_start(len(rows), can_move=not _all_in(rows, stuck)),
        )
    away = [row for row in brokers if row["state"] == "ACTIVE" and row["offline_replicas"]]
    if away:
        yield phrases(
            "%(brokers)s has %(replicas)s in offline log directories. %(remedy)s",
            "%(brokers)s have %(replicas)s in offline log directories. %(remedy)s",
            len(away),
            brokers=_brokers(away),
            replicas=_replicas(sum(row["offline_replicas"] for row in away)),
            remedy=phrase("Repair the disks: no other broker can take the replicas until more are added.")
            if _all_in(away, stuck)
            else phrase("Repair the disks, or move the replicas."),
        )


def _all_in(rows: Sequence[Block], ids: Collection[int]) -> bool:
    return all(row["broker_id"] in ids for row in rows)


def _no_taker(brokers: int) -> Text:
    return phrases(
        "No other broker can take its replicas until more are added.",
        "No other broker can take their replicas until more are added.",
        brokers,
    )


def _to_move(brokers: int) -> Text:
    return phrases("Move its replicas to other brokers.", "Move their replicas to other brokers.", brokers)


def _to_start(brokers: int, *, can_move: bool) -> Text:
    if can_move:
        return phrases(
            "Start it, or move its replicas to other brokers.",
            "Start them, or move their replicas to other brokers.",
            brokers,
        )
    return phrases(
        "Start it: no other broker can take its replicas until more are added.",
        "Start them: no other broker can take their replicas until more are added.",
        brokers,
    )


def _racks_to_set(body: Block) -> Iterator[str]:
    registered = [row for row in body["brokers"] if row["state"] != "UNREGISTERED"]
    rackless = [row for row in registered if not row["rack"]]
    if rackless and len(rackless) == len(registered):
        yield phrase("No broker has a rack, so the rack rule cannot be checked. Set broker.rack on every broker.")
    elif rackless:
        yield phrases(
            "%(brokers)s has no rack, so its partitions cannot be judged. Set its broker.rack.",
            "%(brokers)s have no rack, so their partitions cannot be judged. Set their broker.rack.",
            len(rackless),
            brokers=_brokers(rackless),
        )


def _racks_to_grow(racks: Sequence[Block]) -> Iterator[str]:
    """Name the racks whose brokers must hold more than those of other racks, even when the cluster is balanced."""
    usable = [row for row in racks if row["share_low"] is not None and row["eligible_brokers"]]
    if not usable:
        return
    easiest = min(usable, key=lambda row: Fraction(row["share_high"], row["eligible_brokers"]))
    least = Fraction(easiest["share_high"], easiest["eligible_brokers"])
    for row in usable:
        if row["share_low"] // row["eligible_brokers"] >= least + 1:
            yield phrases(
                "Add brokers in rack %(rack)s: the rack rule puts %(replicas)s replicas on its %(count)s broker, "
                "more for each than in rack %(easiest)s.",
                "Add brokers in rack %(rack)s: the rack rule puts %(replicas)s replicas on its %(count)s brokers, "
                "more for each than in rack %(easiest)s.",
                row["eligible_brokers"],
                rack=row["rack"],
                replicas=row["share_low"],
                easiest=easiest["rack"],
            )


def _full_brokers(brokers: Sequence[Block]) -> Iterator[str]:
    over = sorted((row for row in brokers if row["excess"]), key=lambda row: (-row["excess"], row["broker_id"]))
    if over:
        yield phrases(
            "%(brokers)s holds %(replicas)s more than balanced. %(remedy)s",
            "%(brokers)s hold %(replicas)s more than balanced. %(remedy)s",
            len(over),
            brokers=_brokers(over),
            replicas=_replicas(sum(row["excess"] for row in over)),
            remedy=phrase("Move them to brokers below their band.")
            if any(row["deficit"] for row in brokers)
            else phrase("Move them to brokers with fewer, which stay in their band."),
        )


def _leaders(body: Block) -> Iterator[str]:
    leaders, verdict = body["leaders"], body["verdict"]
    if verdict["fixable_by_election"]:
        returned = partitions_text(verdict["fixable_by_election"])
        yield phrase("A preferred election returns %(partitions)s to the first replica.", partitions=returned)
    if leaders["leaders_max"] > leaders["leader_optimum"]:
        most = [row for row in body["brokers"] if row["leaders"] == leaders["leaders_max"]]
        changes = leaders["leader_changes"]
        yield phrases(
            "%(brokers)s leads %(partitions)s; at most %(optimum)s are needed, "
            "after %(changes)s of leaders that move no data.",
            "%(brokers)s lead %(partitions)s; at most %(optimum)s are needed, "
            "after %(changes)s of leaders that move no data.",
            len(most),
            brokers=_brokers(most),
            partitions=partitions_text(leaders["leaders_max"]),
            optimum=leaders["leader_optimum"],
            changes=phrases("%(count)s change", "%(count)s changes", changes),
        )


def refused(brokers: Brokers, found: Aggregates) -> list[str]:
    """Return why no plan of moves can be made at all; empty when one can."""
    total = sum(row.partitions for row in found.judged)
    if not total:
        return [phrase("There is no partition.")]
    eligible = len(brokers.eligible())
    if not eligible:
        return [
            phrase("No broker may take replicas: each is fenced, shutting down, or has no uncordoned log directory.")
        ]
    states = found.states
    reasons: dict[str, Callable[[PartitionState], bool]] = {
        "leaderless": lambda state: state.leader < 0,
        "moving": lambda state: any(code & 32 or not code & 1 for code in state.codes),
        "wide": lambda state: state.target > eligible,
    }
    movable = [row for row in found.judged if not any(holds(states[row.state]) for holds in reasons.values())]
    if movable:
        return []
    counts = {
        name: sum(row.partitions for row in found.judged if holds(states[row.state])) for name, holds in reasons.items()
    }
    return [_unmovable(name, count, eligible) for name, count in counts.items() if count]


def _unmovable(name: str, count: int, eligible: int) -> Text:
    partitions = partitions_text(count)
    match name:
        case "leaderless":
            return phrase("%(partitions)s without a leader: no plan moves such partitions.", partitions=partitions)
        case "moving":
            return phrase("%(partitions)s being reassigned: no plan moves such partitions.", partitions=partitions)
    return phrase(
        "%(partitions)s with more replicas than the %(eligible)s eligible brokers: no plan moves such partitions.",
        partitions=partitions,
        eligible=eligible,
    )
