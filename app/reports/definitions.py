"""Definitions of the numbers of a placement report, on small aggregates and in plain Python.

Spark reduces a million partitions to counts (per replication factor, per broker). The bands, the even spread over racks
and the lower bound on moves are derived from these counts here. All numbers are exact integers.

Terms: `T` is the target of a partition (its replicas without those being removed), `rf` the number of its replicas
without those being added, `m` = min(`min.insync.replicas`, `rf`) the in-sync replicas that acks=all requires.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from itertools import zip_longest

RACK_OK = "ok"
RACK_VIOLATED = "violated"
RACK_UNKNOWN = "unknown"
RACK_VERDICTS = (RACK_OK, RACK_VIOLATED, RACK_UNKNOWN)
NO_RACK = -1
"""The rack index of a broker without a rack."""
DIGITS = Decimal("0.000000000001")
RF_MAX = 63
"""The largest number of replicas that the rack rule judges."""


def decimal(numerator: int, denominator: int) -> str | None:
    """Return the fraction as a decimal with 12 digits after the point, half to even; None for a denominator of 0."""
    if denominator == 0:
        return None
    with localcontext(prec=60):
        return f"{(Decimal(numerator) / Decimal(denominator)).quantize(DIGITS, ROUND_HALF_EVEN):f}"


def rack_judgement(racks: Sequence[int], allowed: Sequence[int]) -> tuple[str, int]:
    """Return the rack verdict of a target and how many of its replicas must change rack.

    `racks` has the rack index of each replica, `allowed` the even spread of that many replicas, from most to fewest. A
    target that may be even, depending on the racks of replicas without one, is unknown.
    """
    counts = sorted(Counter(rack for rack in racks if rack != NO_RACK).values(), reverse=True)
    moves = sum(max(0, count - limit) for count, limit in zip_longest(counts, allowed, fillvalue=0))
    if moves:
        return RACK_VIOLATED, moves
    return RACK_UNKNOWN if NO_RACK in racks else RACK_OK, 0


def rack_status(racks: Iterable[str | None]) -> str:
    """Return whether the registered brokers have racks: configured (all), partly configured, or none."""
    named = [bool(rack) for rack in racks]
    if not any(named):
        return "none"
    return "configured" if all(named) else "partly configured"


def even_spread(replicas: int, rack_sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the most even distribution of `replicas` over racks of these sizes, from most to fewest.

    A broker takes one replica at most, so a rack never takes more than it has brokers. Replicas without a broker are
    left out. Example: 3 replicas over racks of 2, 2 brokers: (2, 1).
    """
    counts = [0] * len(rack_sizes)
    for _ in range(min(replicas, sum(rack_sizes))):
        open_racks = [rack for rack, size in enumerate(rack_sizes) if counts[rack] < size]
        counts[min(open_racks, key=lambda rack: (counts[rack], rack))] += 1
    return tuple(sorted(counts, reverse=True))


@dataclass(frozen=True, slots=True)
class Band:
    """The number of replicas of a broker in a balanced cluster, from `low` to `high` inclusive."""

    low: int
    high: int


def rack_shares(replication_factors: Mapping[int, int], rack_sizes: Sequence[int]) -> list[Fraction]:
    """Return each rack's achievable share of all replicas: proportional to its brokers, within the rack rule.

    `replication_factors` counts partitions by replication factor. With K racks, a rack of n brokers gets at least
    sum(min(rf // K, n)) and at most sum(min(ceil(rf / K), n)) over all partitions. Between these bounds the shares are
    proportional to the brokers (water filling). Exact for one replication factor, a valid relaxation for several.
    """
    racks = len(rack_sizes)
    if racks == 0:
        return []
    total = sum(rf * partitions for rf, partitions in replication_factors.items())
    floors = [
        sum(partitions * min(rf // racks, size) for rf, partitions in replication_factors.items())
        for size in rack_sizes
    ]
    caps = [
        sum(partitions * min(-(-rf // racks), size) for rf, partitions in replication_factors.items())
        for size in rack_sizes
    ]
    total = max(min(total, sum(caps)), sum(floors))
    return _fill(total, rack_sizes, floors, caps)


def _fill(total: int, sizes: Sequence[int], floors: Sequence[int], caps: Sequence[int]) -> list[Fraction]:
    """Return clamp(level * size, floor, cap) for the one level at which the shares sum to `total`."""
    levels = sorted(
        {Fraction(bound, size) for size, low, high in zip(sizes, floors, caps, strict=True) for bound in (low, high)}
    )

    def at(level: Fraction) -> list[Fraction]:
        return [
            min(max(level * size, Fraction(low)), Fraction(high))
            for size, low, high in zip(sizes, floors, caps, strict=True)
        ]

    below = levels[0]
    for level in levels:
        if sum(at(level)) > total:
            break
        below = level
    shares = at(below)
    missing = total - sum(shares)
    growing = [rack for rack, size in enumerate(sizes) if Fraction(floors[rack]) <= below * size < caps[rack]]
    width = sum(sizes[rack] for rack in growing)
    if missing and width:
        for rack in growing:
            shares[rack] += missing * Fraction(sizes[rack], width)
    return shares


def bands(replication_factors: Mapping[int, int], brokers: Mapping[int, str | None]) -> dict[int, Band]:
    """Return the band of every eligible broker, by broker id.

    `brokers` maps the eligible brokers to their racks. If one of them has no rack, each broker counts as its own rack,
    for balance only, so that all brokers are equal.
    """
    by_rack: dict[str, list[int]] = {}
    without_racks = any(not rack for rack in brokers.values())
    for broker, rack in sorted(brokers.items()):
        by_rack.setdefault(str(broker) if without_racks or rack is None else rack, []).append(broker)
    shares = rack_shares(replication_factors, [len(ids) for ids in by_rack.values()])
    found = {}
    for ids, share in zip(by_rack.values(), shares, strict=True):
        each = share / len(ids)
        low = each.numerator // each.denominator
        found.update(dict.fromkeys(ids, Band(low, low if each.denominator == 1 else low + 1)))
    return found


def moves_from_balanced(needed: int, replicas: Mapping[int, int], band_of: Mapping[int, Band]) -> int:
    """Return a lower bound on the replica moves of any plan that repairs the racks and balances the eligible brokers.

    It is the maximum, not the sum, of the moves that the rack rule requires, the replicas above their brokers' bands,
    and the replicas missing below them, since one move can serve all three.
    """
    excess = sum(max(0, replicas.get(broker, 0) - band.high) for broker, band in band_of.items())
    deficit = sum(max(0, band.low - replicas.get(broker, 0)) for broker, band in band_of.items())
    return max(needed, excess, deficit)
