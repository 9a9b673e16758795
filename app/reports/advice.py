"""Sentences that say what to do about a report's findings and name the rack or broker, and why there may be no plan."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from app.reports.aggregates import Aggregates, Brokers
from app.reports.states import PartitionState
from app.texts import Text, phrase, phrases

NAMED = 5
"""The most brokers or racks named in one sentence; the rest is counted."""
Block = Mapping[str, Any]


def advice(body: Block) -> list[str]:
    """Return the advice for a report, the most urgent first."""
    return [
        *_dead_brokers(body["brokers"]),
        *_weak_racks(body),
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


def _partitions(count: int) -> Text:
    return phrases("%(count)s partition", "%(count)s partitions", count)


def _dead_brokers(brokers: Sequence[Block]) -> Iterator[str]:
    rows = [row for row in brokers if row["state"] == "UNREGISTERED" and row["replicas"]]
    if rows:
        yield phrases(
            "%(brokers)s is unregistered and holds %(replicas)s. Move its replicas to other brokers.",
            "%(brokers)s are unregistered and hold %(replicas)s. Move their replicas to other brokers.",
            len(rows),
            brokers=_brokers(rows),
            replicas=_replicas(sum(row["replicas"] for row in rows)),
        )
    rows = [row for row in brokers if row["state"] == "FENCED" and row["replicas"]]
    if rows:
        yield phrases(
            "%(brokers)s is fenced and holds %(replicas)s. Start it, or move its replicas to other brokers.",
            "%(brokers)s are fenced and hold %(replicas)s. Start them, or move their replicas to other brokers.",
            len(rows),
            brokers=_brokers(rows),
            replicas=_replicas(sum(row["replicas"] for row in rows)),
        )
    away = [row for row in brokers if row["state"] == "ACTIVE" and row["offline_replicas"]]
    if away:
        yield phrases(
            "%(brokers)s has %(replicas)s in offline log directories. Repair the disks, or move the replicas.",
            "%(brokers)s have %(replicas)s in offline log directories. Repair the disks, or move the replicas.",
            len(away),
            brokers=_brokers(away),
            replicas=_replicas(sum(row["offline_replicas"] for row in away)),
        )


def _weak_racks(body: Block) -> Iterator[str]:
    if body["verdict"]["single_failure_domain"]:
        yield phrase(
            "Rack %(rack)s is the only rack: its loss stops the whole cluster. Add a second rack.",
            rack=body["racks"][0]["rack"],
        )
        return
    for row in sorted(body["racks"], key=lambda row: (-row["if_lost_down"], -row["if_lost_refused"], row["rack"])):
        if row["if_lost_down"] or row["if_lost_refused"]:
            yield phrase(
                "Losing rack %(rack)s takes %(partitions)s down and stops writes to %(refused)s. "
                "Spread their replicas over more racks.",
                rack=row["rack"],
                partitions=_partitions(row["if_lost_down"]),
                refused=row["if_lost_refused"],
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
    least = min(row["share_high"] / row["eligible_brokers"] for row in usable)
    for row in usable:
        if row["share_low"] // row["eligible_brokers"] >= least + 1:
            yield phrases(
                "Add brokers in rack %(rack)s: the rack rule puts %(replicas)s replicas on its %(count)s broker, "
                "more for each than elsewhere.",
                "Add brokers in rack %(rack)s: the rack rule puts %(replicas)s replicas on its %(count)s brokers, "
                "more for each than elsewhere.",
                row["eligible_brokers"],
                rack=row["rack"],
                replicas=row["share_low"],
            )


def _full_brokers(brokers: Sequence[Block]) -> Iterator[str]:
    over = sorted((row for row in brokers if row["excess"]), key=lambda row: (-row["excess"], row["broker_id"]))
    if over:
        yield phrases(
            "%(brokers)s holds %(replicas)s more than balanced. Move them to brokers below their band.",
            "%(brokers)s hold %(replicas)s more than balanced. Move them to brokers below their band.",
            len(over),
            brokers=_brokers(over),
            replicas=_replicas(sum(row["excess"] for row in over)),
        )


def _leaders(body: Block) -> Iterator[str]:
    leaders, verdict = body["leaders"], body["verdict"]
    if verdict["fixable_by_election"]:
        returned = _partitions(verdict["fixable_by_election"])
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
            partitions=_partitions(leaders["leaders_max"]),
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
    partitions = _partitions(count)
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
