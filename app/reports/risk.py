"""The risk of correlated failures: what losing two brokers at once does, and how many sets of brokers hold data."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import combinations_with_replacement, islice
from math import comb
from typing import Any

from app.reports import definitions as d
from app.reports.aggregates import (
    PAIRS_BROKERS_MAX,
    PAIRS_LISTED,
    Aggregates,
    Brokers,
    Pair,
    PairLoss,
    PairSummary,
)
from app.reports.states import TARGET

Effect = tuple[int, int, int]
"""Partitions that newly are down, refuse writes, and are lost."""


def risk_block(brokers: Brokers, found: Aggregates, summary: PairSummary) -> dict[str, Any]:
    """Return block 8. The probabilities are for two different brokers drawn from all of the report, each pair alike."""
    count = len(brokers.rows)
    widths = sorted(summary.width.values())
    return {
        "copysets": sum(found.copysets.values()),
        "copysets_by_replicas": [
            {
                "replicas": size,
                "copysets": copysets,
                "loss_probability": d.decimal(copysets, comb(count, size)),
            }
            for size, copysets in sorted(found.copysets.items())
        ],
        "pairs_sharing": summary.sharing,
        "pairs_possible": comb(count, 2),
        "loss_probability": d.decimal(summary.losing, comb(count, 2)),
        "write_stop_probability": d.decimal(summary.stopping, comb(count, 2)),
        "scatter_width": {
            "min": widths[0] if widths else 0,
            "median": widths[(len(widths) - 1) // 2] if widths else 0,
            "max": widths[-1] if widths else 0,
        },
        "worst_pairs": [
            {
                "brokers": brokers.ids((row.first, row.second)),
                "shared": row.shared,
                "down": row.down,
                "refused": row.refused,
                "lost": row.lost,
            }
            for row in summary.worst
        ],
        "pair_matrix": _pair_matrix(brokers, found),
        "rack_matrix": _rack_matrix(brokers, found),
    }


def _pair_matrix(brokers: Brokers, found: Aggregates) -> dict[str, Any] | None:
    """Return how many partitions every two brokers share, None with more than PAIRS_BROKERS_MAX brokers."""
    size = len(brokers.rows)
    if size > PAIRS_BROKERS_MAX:
        return None
    shared = [[0] * size for _ in range(size)]
    for pair in found.pairs:
        shared[pair.first][pair.second] = shared[pair.second][pair.first] = pair.shared
    for broker, state, position, partitions in found.held:
        if found.states[state].codes[position] & TARGET:
            shared[broker][broker] += partitions
    return {"brokers": brokers.ids(range(size)), "shared": shared}


def _rack_matrix(brokers: Brokers, found: Aggregates) -> dict[str, Any] | None:
    """Return how many partitions every two racks share, from the cube; None without it and without racks.

    A rack shares with itself the partitions that have two or more replicas in it.
    """
    if found.cube is None or not brokers.racks:
        return None
    shared = [[0] * len(brokers.racks) for _ in brokers.racks]
    for row in found.cube:
        codes = found.states[row.state].codes
        inside = Counter(rack for rack, code in zip(row.racks, codes, strict=True) if code & TARGET and rack >= 0)
        for one, other in combinations_with_replacement(sorted(inside), 2):
            if one != other or inside[one] > 1:
                shared[one][other] += row.partitions
                shared[other][one] = shared[one][other]
    return {"racks": brokers.racks, "shared": shared}


def pair_summary(pairs: Sequence[Pair], losses: Mapping[int, Effect]) -> PairSummary:
    """Return the numbers of all pairs. `losses` has the effect of losing each broker."""
    both = {(pair.first, pair.second): _sum(_sum(losses[pair.first], losses[pair.second]), pair[3:]) for pair in pairs}
    width: Counter[int] = Counter()
    for pair in pairs:
        if pair.shared:
            width.update((pair.first, pair.second))
    return PairSummary(
        sharing=sum(1 for pair in pairs if pair.shared),
        losing=_pairs_with(2, losses, both),
        stopping=_pairs_with(1, losses, both),
        width=width,
        worst=_worst_pairs(losses, both, pairs),
    )


def _sum(one: Effect, other: Sequence[int]) -> Effect:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _pairs_with(kind: int, losses: Mapping[int, Effect], both: Mapping[tuple[int, int], Effect]) -> int:
    """Return how many pairs of brokers have this kind of effect on some partition when both are lost."""
    harmless = {broker for broker, effect in losses.items() if not effect[kind]}
    together = sum(
        1 for (first, second), effect in both.items() if effect[kind] and first in harmless and second in harmless
    )
    return comb(len(losses), 2) - comb(len(harmless), 2) + together


def _worst_pairs(
    losses: Mapping[int, Effect], both: Mapping[tuple[int, int], Effect], pairs: Sequence[Pair]
) -> list[PairLoss]:
    shared = {(pair.first, pair.second): pair.shared for pair in pairs}
    candidates = [PairLoss(*pair, shared[pair], *effect) for pair, effect in both.items() if any(effect)]
    for pair in islice(_worst_apart(losses, both), PAIRS_LISTED):
        effect = _sum(losses[pair[0]], losses[pair[1]])
        if any(effect):
            candidates.append(PairLoss(*pair, 0, *effect))
    candidates.sort(key=lambda row: (-row.down, -row.refused, -row.lost, -row.shared, row.first, row.second))
    return candidates[:PAIRS_LISTED]


def _worst_apart(losses: Mapping[int, Effect], both: Mapping[tuple[int, int], Effect]) -> Iterator[tuple[int, int]]:
    """Yield the pairs that are not in `both`, those with the greatest sum of effects first."""
    order = sorted(losses, key=lambda broker: ([-part for part in losses[broker]], broker))
    heap: list[tuple[list[int], int, int]] = []

    def push(one: int, other: int) -> None:
        if one < other < len(order):
            effect = _sum(losses[order[one]], losses[order[other]])
            heappush(heap, ([-part for part in effect], one, other))

    push(0, 1)
    while heap:
        _, one, other = heappop(heap)
        push(one, other + 1)
        if other == one + 1:
            push(one + 1, one + 2)
        pair = min(order[one], order[other]), max(order[one], order[other])
        if pair not in both:
            yield pair
