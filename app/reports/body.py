"""Builds the report's body from the small tables to which Spark has reduced the snapshot.

The body is JSON of integers, strings and nulls with sorted lists, so that the same snapshot gives the same bytes.
Percentages are computed where they are shown.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.reports import definitions as d

Row = Mapping[str, Any]
DOWN = ("lost", "offline", "unclean")
"""Verdicts of partitions without a leader."""
REFUSED = (*DOWN, "under_min")
"""Verdicts of partitions that refuse writes with acks=all."""


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers of the snapshot, by dense index, and their racks."""

    rows: Sequence[Row]

    @property
    def racks(self) -> list[str]:
        """Sorted names of the racks with a registered broker."""
        return sorted({row["rack"] for row in self.rows if row["rack"]})

    def rack_of(self) -> list[int]:
        """Rack index of each broker, -1 without a rack."""
        index_of = {rack: index for index, rack in enumerate(self.racks)}
        return [index_of.get(row["rack"], -1) for row in self.rows]

    def rack_sizes(self) -> list[int]:
        """The number of registered brokers per rack."""
        counts = Counter(self.rack_of())
        return [counts[index] for index in range(len(self.racks))]

    def eligible(self) -> dict[int, str | None]:
        """Index and rack of each broker that may take replicas."""
        return {row["broker_idx"]: row["rack"] for row in self.rows if row["eligible"]}

    def ids(self, indexes: Iterable[int]) -> list[int]:
        """Return the broker ids of indexes."""
        return [self.rows[index]["broker_id"] for index in indexes]


@dataclass(frozen=True, slots=True)
class Aggregates:
    """The collected results of the transforms of the same names."""

    totals: Sequence[Row]
    replicas: Sequence[Row]
    leaders: Sequence[Row]
    scatter: Sequence[Row]
    verdicts_now: Sequence[Row]
    broker_losses: Sequence[Row]
    rack_losses: Sequence[Row]
    violations_by_reason: Mapping[str, int]


def report_body(brokers: Brokers, found: Aggregates) -> dict[str, Any]:
    """Return the blocks of a report (docs/reports.md): verdict, brokers, racks, what_if, violations, margins."""
    now = dict.fromkeys(d.VERDICTS, 0)
    now.update({row["verdict"]: row["partitions"] for row in found.verdicts_now})
    rf_counts: Counter[int] = Counter()
    for row in found.totals:
        rf_counts[row["rf"]] += row["partitions"]
    band_of = d.bands(rf_counts, brokers.eligible())
    held = {row["broker_idx"]: row for row in found.replicas}
    led = {row["broker_idx"]: row["leaders"] for row in found.leaders}
    lost_brokers = what_if(found.broker_losses, now, led)
    lost_racks = what_if(found.rack_losses, now, led)
    broker_block = broker_rows(brokers, held, led, found.scatter, band_of, lost_brokers)
    rack_block = rack_rows(brokers, broker_block, rf_counts, lost_racks)
    return {
        "verdict": verdict_strip(brokers, found.totals, held, band_of, rack_block),
        "brokers": broker_block,
        "racks": rack_block,
        "what_if": {
            "now": now,
            "racks": [_named_loss(rack, lost_racks.get(index), now) for index, rack in enumerate(brokers.racks)],
            "brokers": [
                _named_loss(row["broker_id"], lost_brokers.get(row["broker_idx"]), now) for row in brokers.rows
            ],
        },
        "violations": {
            "total": sum(found.violations_by_reason.values()),
            "by_reason": dict(found.violations_by_reason),
        },
        "margins": margins(found.totals),
    }


def what_if(losses: Sequence[Row], now: Mapping[str, int], led: Mapping[int, int]) -> dict[int, dict[str, Any]]:
    """Return the effect of losing each domain: verdicts of all partitions, the newly refused or down, new leaders.

    Partitions without a replica in the domain keep their present verdict.
    """
    after: dict[int, dict[str, int]] = {}
    newly: dict[int, Counter[str]] = defaultdict(Counter)
    taken: dict[int, Counter[int]] = defaultdict(Counter)
    for row in losses:
        domain, count = row["domain"], row["partitions"]
        verdicts = after.setdefault(domain, dict(now))
        verdicts[row["before"]] -= count
        verdicts[row["after"]] += count
        newly[domain]["down"] += count * (row["after"] in DOWN and row["before"] not in DOWN)
        newly[domain]["refused"] += count * (row["after"] in REFUSED and row["before"] not in REFUSED)
        newly[domain]["lost"] += count * (row["after"] == "lost" and row["before"] != "lost")
        if row["new_leader"] >= 0:
            taken[domain][row["new_leader"]] += count
    return {
        domain: {
            "verdicts": verdicts,
            "newly_down": newly[domain]["down"],
            "newly_refused": newly[domain]["refused"],
            "newly_lost": newly[domain]["lost"],
            "leaders_moved": sum(taken[domain].values()),
            "hottest_leaders": max((led.get(broker, 0) + more for broker, more in taken[domain].items()), default=0),
        }
        for domain, verdicts in after.items()
    }


def _named_loss(name: str | int, loss: Mapping[str, Any] | None, now: Mapping[str, int]) -> dict[str, Any]:
    nothing = {
        "verdicts": dict(now),
        "newly_down": 0,
        "newly_refused": 0,
        "newly_lost": 0,
        "leaders_moved": 0,
        "hottest_leaders": 0,
    }
    return {"domain": name, **(loss or nothing)}


def broker_rows(
    brokers: Brokers,
    held: Mapping[int, Row],
    led: Mapping[int, int],
    scatter: Sequence[Row],
    band_of: Mapping[int, d.Band],
    losses: Mapping[int, Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Return block 2: one row per broker, also for idle, fenced and unregistered ones. Eligible ones have a band."""
    width = {row["broker_idx"]: row["scatter_width"] for row in scatter}
    rows = []
    for broker in brokers.rows:
        index = broker["broker_idx"]
        own, band, loss = held.get(index), band_of.get(index), losses.get(index)
        replicas = own["replicas"] if own else 0
        rows.append(
            {
                "broker_id": broker["broker_id"],
                "rack": broker["rack"],
                "state": broker["state"],
                "eligible": broker["eligible"],
                "replicas": replicas,
                "leaders": led.get(index, 0),
                "preferred": own["preferred"] if own else 0,
                "out_of_sync": own["out_of_sync"] if own else 0,
                "size_bytes": own["size_bytes"] if own else None,
                "band_low": band.low if band else None,
                "band_high": band.high if band else None,
                "excess": max(0, replicas - band.high) if band else None,
                "deficit": max(0, band.low - replicas) if band else None,
                "scatter_width": width.get(index, 0),
                "if_lost_refused": loss["newly_refused"] if loss else 0,
                "if_lost_down": loss["newly_down"] if loss else 0,
            }
        )
    return rows


def rack_rows(
    brokers: Brokers,
    broker_block: Sequence[Mapping[str, Any]],
    rf_counts: Mapping[int, int],
    losses: Mapping[int, Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Return block 3: a row per rack. `share_low` and `share_high` bound the achievable share, null if none is."""
    names = brokers.racks
    eligible = Counter(rack for rack in brokers.eligible().values() if rack)
    usable = [rack for rack in names if eligible[rack]]
    complete = all(rack for rack in brokers.eligible().values())
    shares = dict(zip(usable, d.rack_shares(rf_counts, [eligible[rack] for rack in usable]), strict=True))
    rows = []
    for index, rack in enumerate(names):
        inside = [row for row in broker_block if row["rack"] == rack]
        share = shares.get(rack) if complete else None
        sizes = [row["size_bytes"] for row in inside if row["size_bytes"] is not None]
        loss = losses.get(index)
        rows.append(
            {
                "rack": rack,
                "brokers": len(inside),
                "eligible_brokers": eligible[rack],
                "replicas": sum(row["replicas"] for row in inside),
                "leaders": sum(row["leaders"] for row in inside),
                "size_bytes": sum(sizes) if sizes else None,
                "share_low": share.numerator // share.denominator if share is not None else None,
                "share_high": -(-share.numerator // share.denominator) if share is not None else None,
                "if_lost_refused": loss["newly_refused"] if loss else 0,
                "if_lost_down": loss["newly_down"] if loss else 0,
            }
        )
    return rows


def verdict_strip(
    brokers: Brokers,
    totals: Sequence[Row],
    held: Mapping[int, Row],
    band_of: Mapping[int, d.Band],
    rack_block: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return block 1. `rack_rule` is null when no broker has a rack, since no partition can violate it then."""
    summed = {key: sum(row[key] for row in totals) for key in ("partitions", "offline", "under_min", "at_min")}
    summed |= {
        key: sum(row[key] for row in totals)
        for key in ("under_replicated", "cli_under_min", "cli_at_min", "non_preferred", "fixable_by_election")
    }
    by_verdict: Counter[str] = Counter()
    for row in totals:
        by_verdict[row["rack_verdict"]] += row["partitions"]
    needed = sum(row["rack_moves"] for row in totals)
    replicas = {index: row["replicas"] for index, row in held.items()}
    worst = max(rack_block, key=lambda row: (row["if_lost_down"], row["if_lost_refused"], row["rack"]), default=None)
    has_racks = bool(brokers.racks)
    return {
        **summed,
        "replicas": sum(replicas.values()),
        "rack_rule": {name: by_verdict[name] for name in ("ok", "violated", "unknown")} if has_racks else None,
        "single_failure_domain": len(brokers.racks) == 1,
        "rack_moves_needed": needed if has_racks else 0,
        "moves_from_balanced": d.moves_from_balanced(needed if has_racks else 0, replicas, band_of),
        "worst_rack": {key: worst[key] for key in ("rack", "if_lost_down", "if_lost_refused")} if worst else None,
    }


def margins(totals: Sequence[Row]) -> dict[str, Any]:
    """Return block 6: how many in-sync replicas partitions can lose before writes stop (|ISR| - m)."""
    histogram: Counter[int] = Counter()
    for row in totals:
        histogram[row["margin"]] += row["partitions"]
    return {
        "histogram": [{"margin": margin, "partitions": histogram[margin]} for margin in sorted(histogram)],
        "no_redundancy": sum(row["partitions"] for row in totals if row["rf"] == 1),
        "no_write_survives_a_loss": sum(row["rf_is_min_isr"] for row in totals),
    }
