"""Builds the report's body from the aggregates of an engine (see `app.reports.aggregates` and docs/reports.md).

The body is JSON of integers, strings and nulls with sorted lists, so that the same snapshot gives the same bytes.
Fractions are decimals with 12 digits, as strings. Percentages are computed where they are shown.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from app.reports import definitions as d
from app.reports.advice import advice, refused
from app.reports.aggregates import Aggregates, Brokers, Row, ranked_topics, reason
from app.reports.risk import pair_summary, risk_block
from app.reports.states import ADDING, IN_SYNC, LEADER, ONLINE, TARGET, VERDICTS, Outcomes, PartitionState

REPORT_VERSION = 3
"""Version of the names in a report. Pages show reports of this version only."""


def report_body(brokers: Brokers, found: Aggregates) -> dict[str, Any]:
    """Return the blocks of a report, as docs/reports.md describes them."""
    outcomes = Outcomes(found.states)
    loads = broker_loads(brokers, found, outcomes)
    now = dict.fromkeys(VERDICTS, 0)
    for row in found.judged:
        now[outcomes.now(row.state)] += row.partitions
    target_sizes: Counter[int] = Counter()
    for row in found.judged:
        target_sizes[found.states[row.state].target] += row.partitions
    band_of = d.bands(target_sizes, brokers.eligible())
    pairs = found.pair_summary or pair_summary(found.pairs, {at: load.loss.newly for at, load in enumerate(loads)})
    broker_block = broker_rows(brokers, loads, band_of, pairs.width, found)
    rack_losses = rack_effects(brokers, found, outcomes)
    rack_block = rack_rows(brokers, broker_block, target_sizes, rack_losses)
    strip = verdict_strip(brokers, found, broker_block, band_of, rack_block, rack_losses)
    leaders = leader_block(brokers, found, broker_block)
    body = {
        "verdict": strip,
        "brokers": broker_block,
        "racks": rack_block,
        "leaders": leaders,
        "what_if": {
            "now": now,
            "racks": [
                rack_losses[index].row(rack, now, found.rack_examples.get(index, ()))
                for index, rack in enumerate(brokers.racks)
            ],
            "brokers": [
                load.loss.row(row["broker_id"], now, found.broker_examples.get(row["broker_idx"], ()))
                for row, load in zip(brokers.rows, loads, strict=True)
            ],
        },
        "violations": violations_block(brokers, found),
        "margins": margins(found),
        "topics": topic_rows(brokers, found),
        "risk": risk_block(brokers, found, pairs),
        "sizes": sizes_block(found, strip["replicas"]),
        "cube": cube_block(brokers, found),
    }
    return body | {"advice": list(map(str, advice(body))), "refused": list(map(str, refused(brokers, found)))}


@dataclass(slots=True)
class Loss:
    """The effect of losing a domain on the partitions with a replica in it."""

    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    down: int = 0
    refused: int = 0
    lost: int = 0
    leaders_moved: int = 0
    hottest: int = 0

    def add(self, outcomes: Outcomes, state: int, positions: int, partitions: int) -> None:
        """Add partitions of a state that lose these positions."""
        after = outcomes.after(state, positions)
        down, refused, lost = outcomes.newly(state, positions)
        self.before[outcomes.now(state)] += partitions
        self.after[after.verdict] += partitions
        self.down += partitions * down
        self.refused += partitions * refused
        self.lost += partitions * lost
        self.leaders_moved += partitions * (after.heir >= 0)

    @property
    def newly(self) -> tuple[int, int, int]:
        """The partitions that newly are down, refuse writes, and are lost."""
        return self.down, self.refused, self.lost

    def row(self, name: str | int | None, now: Mapping[str, int], examples: Sequence[Row]) -> dict[str, Any]:
        """Return the row of what_if. Partitions without a replica in the domain keep their present verdict."""
        return {
            "domain": name,
            "verdicts": {verdict: count - self.before[verdict] + self.after[verdict] for verdict, count in now.items()},
            "newly_down": self.down,
            "newly_refused": self.refused,
            "newly_lost": self.lost,
            "leaders_moved": self.leaders_moved,
            "hottest_leaders": self.hottest,
            "partitions": list(examples),
        }


@dataclass(slots=True)
class BrokerLoad:
    """What a broker holds."""

    replicas: int = 0
    leaders: int = 0
    preferred: int = 0
    out_of_sync: int = 0
    offline_replicas: int = 0
    adding: int = 0
    removing: int = 0
    loss: Loss = field(default_factory=Loss)


def broker_loads(brokers: Brokers, found: Aggregates, outcomes: Outcomes) -> list[BrokerLoad]:
    """Return the load of each broker."""
    loads = [BrokerLoad() for _ in brokers.rows]
    preferred = [_preferred_position(state) for state in found.states]
    for broker, state, position, partitions in found.held:
        load, code = loads[broker], found.states[state].codes[position]
        if code & TARGET:
            load.replicas += partitions
            load.out_of_sync += 0 if code & IN_SYNC else partitions
            load.preferred += partitions if position == preferred[state] else 0
        else:
            load.removing += partitions
        load.leaders += partitions if code & LEADER else 0
        load.offline_replicas += 0 if code & ONLINE else partitions
        load.adding += partitions if code & ADDING else 0
        load.loss.add(outcomes, state, 1 << position, partitions)
    for broker, load in enumerate(loads):
        load.loss.hottest = found.hottest_without_broker.get(broker, 0)
    return loads


def _preferred_position(state: PartitionState) -> int:
    return next((position for position, code in enumerate(state.codes) if code & TARGET), -1)


def rack_effects(brokers: Brokers, found: Aggregates, outcomes: Outcomes) -> list[Loss]:
    """Return the effect of losing each rack."""
    losses = [Loss() for _ in brokers.racks]
    for rack, state, positions, partitions in found.rack_hits:
        losses[rack].add(outcomes, state, positions, partitions)
    for rack, loss in enumerate(losses):
        loss.hottest = found.hottest_without_rack.get(rack, 0)
    return losses


def broker_rows(
    brokers: Brokers,
    loads: Sequence[BrokerLoad],
    band_of: Mapping[int, d.Band],
    width: Mapping[int, int],
    found: Aggregates,
) -> list[dict[str, Any]]:
    """Return block 2: one row per broker, also for idle, fenced and unregistered ones. Eligible ones have a band."""
    rows = []
    for broker, load in zip(brokers.rows, loads, strict=True):
        index = broker["broker_idx"]
        band, size = band_of.get(index), found.sizes.get(index)
        rows.append(
            {
                "broker_id": broker["broker_id"],
                "rack": broker["rack"],
                "state": broker["state"],
                "eligible": broker["eligible"],
                "replicas": load.replicas,
                "leaders": load.leaders,
                "preferred": load.preferred,
                "out_of_sync": load.out_of_sync,
                "offline_replicas": load.offline_replicas,
                "adding": load.adding,
                "removing": load.removing,
                "size_bytes": size.bytes if size and size.known else None,
                "band_low": band.low if band else None,
                "band_high": band.high if band else None,
                "excess": max(0, load.replicas - band.high) if band else None,
                "deficit": max(0, band.low - load.replicas) if band else None,
                "scatter_width": width.get(index, 0),
                "if_lost_refused": load.loss.refused,
                "if_lost_down": load.loss.down,
            }
        )
    return rows


def rack_rows(
    brokers: Brokers,
    broker_block: Sequence[Mapping[str, Any]],
    target_sizes: Mapping[int, int],
    losses: Sequence[Loss],
) -> list[dict[str, Any]]:
    """Return block 3: a row per rack. `share_low` and `share_high` bound the achievable share, null if none is."""
    names = brokers.racks
    eligible = Counter(rack for rack in brokers.eligible().values() if rack)
    usable = [rack for rack in names if eligible[rack]]
    complete = all(rack for rack in brokers.eligible().values())
    shares = dict(zip(usable, d.rack_shares(target_sizes, [eligible[rack] for rack in usable]), strict=True))
    inside: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in broker_block:
        if row["rack"]:
            inside[row["rack"]].append(row)
    rows = []
    for rack, loss in zip(names, losses, strict=True):
        share = shares.get(rack) if complete else None
        sizes = [row["size_bytes"] for row in inside[rack] if row["size_bytes"] is not None]
        rows.append(
            {
                "rack": rack,
                "brokers": len(inside[rack]),
                "eligible_brokers": eligible[rack],
                "replicas": sum(row["replicas"] for row in inside[rack]),
                "leaders": sum(row["leaders"] for row in inside[rack]),
                "offline_replicas": sum(row["offline_replicas"] for row in inside[rack]),
                "size_bytes": sum(sizes) if sizes else None,
                "share_low": share.numerator // share.denominator if share is not None else None,
                "share_high": -(-share.numerator // share.denominator) if share is not None else None,
                "if_lost_refused": loss.refused,
                "if_lost_down": loss.down,
            }
        )
    return rows


def verdict_strip(
    brokers: Brokers,
    found: Aggregates,
    broker_block: Sequence[Mapping[str, Any]],
    band_of: Mapping[int, d.Band],
    rack_block: Sequence[Mapping[str, Any]],
    rack_losses: Sequence[Loss],
) -> dict[str, Any]:
    """Return block 1. `rack_rule` is null when no broker has a rack, since no partition can violate it then."""
    has_racks = bool(brokers.racks)
    by_verdict: Counter[str] = Counter()
    needed = 0
    for row in found.judged:
        by_verdict[row.rack_verdict] += row.partitions
        needed += row.rack_moves * row.partitions if has_racks else 0
    replicas = {index: row["replicas"] for index, row in enumerate(broker_block)}
    worst = max(range(len(rack_block)), key=lambda rack: _harm(rack, rack_losses[rack]), default=None)
    filled = max((Fraction(replicas[index], band.high) for index, band in band_of.items() if band.high), default=None)
    on_eligible = [replicas[index] for index in band_of]
    return {
        **health(found),
        **{name: sum(row[name] for row in broker_block) for name in ("offline_replicas", "adding", "removing")},
        "replicas": sum(replicas.values()),
        "rack_rule": {name: by_verdict[name] for name in d.RACK_VERDICTS} if has_racks else None,
        "rack_status": d.rack_status(row["rack"] for row in brokers.rows if row["state"] != "UNREGISTERED"),
        "single_failure_domain": len(brokers.racks) == 1,
        "rack_moves_needed": needed,
        "moves_from_balanced": d.moves_from_balanced(needed, replicas, band_of),
        "achievable_ratio": d.decimal(*filled.as_integer_ratio()) if filled is not None else None,
        "max_over_mean": d.decimal(max(on_eligible, default=0) * len(on_eligible), sum(on_eligible)),
        "worst_rack": None
        if worst is None
        else {key: rack_block[worst][key] for key in ("rack", "if_lost_down", "if_lost_refused")},
    }


def _harm(rack: int, loss: Loss) -> tuple[int, ...]:
    """Return the sort key of a rack's loss: down, refused, then lost and at min ISR, more leaders, and the name."""
    return loss.down, loss.refused, loss.lost, loss.after["at_min"], loss.leaders_moved, -rack


def health(found: Aggregates) -> dict[str, int]:
    """Return the number of partitions with each problem."""
    counts = dict.fromkeys(
        ("partitions", "offline", "under_min", "at_min", "under_replicated", "cli_under_min", "cli_at_min"), 0
    )
    counts |= {"non_preferred": 0, "fixable_by_election": 0}
    for row in found.judged:
        state = found.states[row.state]
        led = state.leader >= 0
        counts["partitions"] += row.partitions
        for name, holds in (
            ("offline", not led),
            ("under_min", not led or state.margin < 0),
            ("at_min", led and state.margin == 0),
            ("under_replicated", state.replication_factor > state.in_sync),
            ("cli_under_min", not led or state.in_sync < state.min_isr_config),
            ("cli_at_min", led and state.in_sync == state.min_isr_config),
            ("non_preferred", state.leader != 0),
            ("fixable_by_election", state.fixable_by_election),
        ):
            counts[name] += row.partitions if holds else 0
    return counts


def leader_block(brokers: Brokers, found: Aggregates, broker_block: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how even the leaders are, and how even they could be without moving data."""
    optimum = found.leaders
    return {
        "leaders_max": max((row["leaders"] for row in broker_block), default=0),
        "leader_optimum": optimum.maximum,
        "leader_changes": optimum.changes,
        "leader_certificate": {"brokers": sorted(brokers.ids(optimum.brokers)), "bound": optimum.bound},
    }


def margins(found: Aggregates) -> dict[str, Any]:
    """Return block 6: how many in-sync replicas partitions can lose before writes stop (|ISR| - m)."""
    histogram: Counter[int] = Counter()
    leaderless: Counter[int] = Counter()
    single = last = 0
    for row in found.judged:
        state = found.states[row.state]
        histogram[state.margin] += row.partitions
        leaderless[state.margin] += 0 if state.leader >= 0 else row.partitions
        single += row.partitions if state.replication_factor == 1 else 0
        last += row.partitions if state.replication_factor == state.min_isr else 0
    return {
        "histogram": [
            {"margin": margin, "partitions": histogram[margin], "leaderless": leaderless[margin]}
            for margin in sorted(histogram)
        ],
        "no_redundancy": single,
        "no_write_survives_a_loss": last,
    }


def violations_block(brokers: Brokers, found: Aggregates) -> dict[str, Any]:
    """Return how many partitions are listed as violations, and for which reason."""
    by_reason: Counter[str] = Counter()
    for row in found.judged:
        if why := reason(found.states[row.state], row.rack_verdict, has_racks=bool(brokers.racks)):
            by_reason[why] += row.partitions
    return {"total": by_reason.total(), "by_reason": {name: by_reason[name] for name in sorted(by_reason)}}


def topic_rows(brokers: Brokers, found: Aggregates) -> list[dict[str, Any]]:
    """Return block 7: the worst topics of each ranking."""
    eligible = len(brokers.eligible())
    return [
        {
            "topic": row.topic,
            "partitions": row.partitions,
            "replicas": row.replicas,
            "replication_factor": row.replication_factor,
            "rf1": row.rf1,
            "rf_is_min_isr": row.rf_is_min_isr,
            "brokers_used": row.brokers_used,
            "replicas_min": row.replicas_min,
            "replicas_max": row.replicas_max,
            "excess": row.excess,
            "leaders_max": row.leaders_max,
            "leader_skew": row.leader_skew,
            "spread": d.decimal(row.brokers_used, eligible),
            "spread_reachable": d.decimal(min(eligible, row.replicas), eligible),
            "worst_by": rankings,
        }
        for row, rankings in ranked_topics(found.topics)
    ]


def sizes_block(found: Aggregates, replicas: int) -> dict[str, Any]:
    """Return the bytes of all replicas with a known size; null, never 0, where no size is known."""
    known = sum(size.known for size in found.sizes.values())
    return {
        "size_bytes": sum(size.bytes for size in found.sizes.values()) if known else None,
        "replicas_known": known,
        "coverage": d.decimal(known, replicas) if known else None,
    }


def cube_block(brokers: Brokers, found: Aggregates) -> dict[str, Any] | None:
    """Return the counts of partitions by state and racks, from which every set of racks is answered."""
    if found.cube is None:
        return None
    return {
        "racks": brokers.racks,
        "states": [
            [list(state.codes), state.replication_factor, state.min_isr_config, int(state.unclean)]
            for state in found.states
        ],
        "rows": [[row.state, list(row.racks), row.partitions] for row in sorted(found.cube)],
    }
