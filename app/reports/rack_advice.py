"""Sentences about the loss of a rack, with the remedy that helps. Another placement does not help every partition.

To survive the loss of a rack, a partition needs one replica left to keep its leader, and `min.insync.replicas` of them
to keep taking writes. Its remedy is the least that leaves it so many.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from app.reports import definitions as d
from app.reports.aggregates import Aggregates, Brokers
from app.reports.states import TARGET, Outcomes, PartitionState
from app.texts import Text, phrase, phrases

SYNC: Final = "sync"
"""Its replicas are well placed, and some outside the rack are not in sync."""
SPREAD: Final = "spread"
"""An even spread over the present racks is enough."""
RACK: Final = "rack"
"""Replicas in racks of their own are enough, and there are too few racks for that."""
REPLICAS: Final = "replicas"
"""All replicas must be in sync for a write, so that wherever they are, the loss of any one stops writes."""
SINGLE: Final = "single"
"""It has one replica."""
ORDER: Final = (SPREAD, SYNC, RACK, REPLICAS, SINGLE)
"""The remedies in the order of advice."""


def weak_racks(brokers: Brokers, found: Aggregates) -> Iterator[str]:
    """Yield a sentence for each rack whose loss harms partitions, the most harmful first."""
    if is_single_rack(brokers):
        yield phrase(
            "Rack %(rack)s is the only rack: its loss stops the whole cluster. Add a second rack.",
            rack=brokers.racks[0],
        )
        return
    outcomes = Outcomes(found.states)
    sizes = brokers.rack_sizes()
    rackless = sum(1 for row in brokers.rows if row["state"] != "UNREGISTERED" and not row["rack"])
    sizes += [rackless] if rackless else []  # where these brokers are is unknown; their racks can only be further ones
    left = cache(lambda replicas: replicas - max(d.even_spread(replicas, sizes)))
    down: Counter[int] = Counter()
    refused: Counter[int] = Counter()
    harmed: Counter[int] = Counter()
    remedies: dict[int, Counter[str]] = defaultdict(Counter)
    for rack, index, lost, partitions in found.rack_hits:
        newly_down, newly_refused, _ = outcomes.newly(index, lost)
        if not newly_down and not newly_refused:
            continue
        state = found.states[index]
        needs = ([1] if newly_down else []) + ([min(state.min_isr_config, state.target)] if newly_refused else [])
        for name in {_remedy(state, lost, need, left) for need in needs}:
            remedies[rack][name] += partitions
        down[rack] += partitions * newly_down
        refused[rack] += partitions * newly_refused
        harmed[rack] += partitions
    for rack in sorted(harmed, key=lambda rack: (-down[rack], -refused[rack], rack)):
        yield _loss(brokers.racks[rack], down[rack], refused[rack], _advice(remedies[rack], harmed[rack]))


def partitions_text(count: int) -> Text:
    """Return a count of partitions."""
    return phrases("%(count)s partition", "%(count)s partitions", count)


def is_single_rack(brokers: Brokers) -> bool:
    """Return whether every registered broker is known to be in one and the same rack."""
    registered = {row["rack"] or None for row in brokers.rows if row["state"] != "UNREGISTERED"}
    return len(registered) == 1 and None not in registered


def _remedy(state: PartitionState, lost: int, need: int, left: Callable[[int], int]) -> str:
    """Return the remedy that leaves a partition `need` replicas when a rack of the positions `lost` is lost.

    `left(n)`: the replicas that the loss of any one rack leaves of n that are spread evenly.
    """
    replicas = state.target
    if replicas <= 1:
        return SINGLE
    if sum(1 for position, code in enumerate(state.codes) if code & TARGET and not lost >> position & 1) >= need:
        return SYNC
    if left(replicas) >= need:
        return SPREAD
    return RACK if replicas - 1 >= need else REPLICAS


def _loss(rack: str, down: int, refused: int, remedy: Text) -> Text:
    partitions = partitions_text(down or refused)
    if not down:
        return phrase(
            "Losing rack %(rack)s stops writes to %(partitions)s. %(remedy)s",
            rack=rack,
            partitions=partitions,
            remedy=remedy,
        )
    if not refused:
        return phrase(
            "Losing rack %(rack)s takes %(partitions)s down. %(remedy)s",
            rack=rack,
            partitions=partitions,
            remedy=remedy,
        )
    return phrase(
        "Losing rack %(rack)s takes %(partitions)s down and stops writes to %(refused)s. %(remedy)s",
        rack=rack,
        partitions=partitions,
        refused=refused,
        remedy=remedy,
    )


def _advice(remedies: Counter[str], harmed: int) -> Text:
    """Return the remedies' sentences. One that concerns only some of the partitions says how many."""
    names = [name for name in ORDER if remedies[name]]
    sentences = [
        _for_all(name, harmed) if remedies[name] == harmed else _for_some(name, remedies[name]) for name in names
    ]
    found = sentences.pop()
    while sentences:
        found = phrase("%(remedy)s Also: %(rest)s", remedy=sentences.pop(), rest=found)
    return found


def _for_all(name: str, partitions: int) -> Text:
    match name:
        case "spread":
            return phrases("Spread its replicas over more racks.", "Spread their replicas over more racks.", partitions)
        case "sync":
            return phrases(
                "Get its out-of-sync replicas in sync again.",
                "Get their out-of-sync replicas in sync again.",
                partitions,
            )
        case "rack":
            return phrases(
                "Add a rack, raise its replication factor, or lower its min.insync.replicas.",
                "Add a rack, raise their replication factor, or lower their min.insync.replicas.",
                partitions,
            )
        case "replicas":
            return phrases(
                "Raise its replication factor or lower its min.insync.replicas.",
                "Raise their replication factor or lower their min.insync.replicas.",
                partitions,
            )
    return phrases("Raise its replication factor above 1.", "Raise their replication factor above 1.", partitions)


def _for_some(name: str, partitions: int) -> Text:
    match name:
        case "spread":
            return phrase("Spread the replicas of %(some)s over more racks.", some=partitions)
        case "sync":
            return phrase("Get the out-of-sync replicas of %(some)s in sync again.", some=partitions)
        case "rack":
            return phrase(
                "Add a rack for %(some)s, raise the replication factor, or lower min.insync.replicas.", some=partitions
            )
        case "replicas":
            return phrase("Raise the replication factor of %(some)s or lower min.insync.replicas.", some=partitions)
    return phrase("Raise the replication factor of the %(some)s with one replica.", some=partitions)
