"""Sentences about the loss of a rack, with the remedy that helps. Another placement does not help every partition.

To survive the loss of a rack, a partition needs one replica left to keep its leader, and `min.insync.replicas` of them
to keep taking writes. Its remedy is the first of `REMEDIES` that leaves it so many.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from app.reports import definitions as d
from app.reports.aggregates import Aggregates, Brokers
from app.reports.states import TARGET, Outcomes, PartitionState

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
REMEDIES: Final = {
    SPREAD: ("Spread {} replicas over more racks.", "Spread the replicas of {} over more racks."),
    SYNC: ("Get {} out-of-sync replicas in sync again.", "Get the out-of-sync replicas of {} in sync again."),
    RACK: (
        "Add a rack, raise {} replication factor, or lower {} min.insync.replicas.",
        "Add a rack for {}, raise the replication factor, or lower min.insync.replicas.",
    ),
    REPLICAS: (
        "Raise {} replication factor or lower {} min.insync.replicas.",
        "Raise the replication factor of {} or lower min.insync.replicas.",
    ),
    SINGLE: ("Raise {} replication factor above 1.", "Raise the replication factor of the {} with one replica."),
}
"""By remedy, in the order of advice, the sentence for all partitions concerned, and the one for some of them."""


def weak_racks(brokers: Brokers, found: Aggregates) -> Iterator[str]:
    """Yield a sentence for each rack whose loss harms partitions, the most harmful first."""
    if is_single_rack(brokers):
        yield f"Rack {brokers.racks[0]} is the only rack: its loss stops the whole cluster. Add a second rack."
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
        yield f"{_loss(brokers.racks[rack], down[rack], refused[rack])} {_advice(remedies[rack], harmed[rack])}"


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


def _loss(rack: str, down: int, refused: int) -> str:
    partitions = "partition" if (down or refused) == 1 else "partitions"
    if not down:
        return f"Losing rack {rack} stops writes to {refused} {partitions}."
    writes = f" and stops writes to {refused}" if refused else ""
    return f"Losing rack {rack} takes {down} {partitions} down{writes}."


def _advice(remedies: Counter[str], harmed: int) -> str:
    """Return the remedies' sentences. One that concerns only some of the partitions says how many."""
    owner = "its" if harmed == 1 else "their"
    return " ".join(
        every.format(owner, owner) if remedies[name] == harmed else some.format(remedies[name])
        for name, (every, some) in REMEDIES.items()
        if remedies[name]
    )
