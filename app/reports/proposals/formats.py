"""A proposal in the formats of Apache Kafka's tools, and as a block of the report.

Source: ReassignPartitionsCommand.formatAsReassignmentJson, LeaderElectionCommand (Kafka 4.3.1).
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from app.reports.proposals.options import BYTES
from app.reports.proposals.proposal import UNSOLVED_REASONS, ByteShare, Change, Numbers, Proposal

REASSIGN: Final = "reassign.json"
ROLLBACK: Final = "rollback.json"
ELECT: Final = "elect.json"
ANY_LOG_DIR: Final = "any"
"""Stands for a log directory of the broker's choice."""


def reassign_json(changes: Iterable[Change]) -> bytes:
    """Return the changes for `kafka-reassign-partitions --reassignment-json-file`, the broker choosing directories."""
    return _reassignment((each, each.proposed) for each in changes)


def rollback_json(changes: Iterable[Change]) -> bytes:
    """Return the present assignment of the changed partitions, in the same format: what undoes the changes."""
    return _reassignment((each, each.current) for each in changes)


def elect_json(elections: Sequence[tuple[str, int]]) -> bytes:
    """Return the elections for `kafka-leader-election --election-type preferred --path-to-json-file`."""
    rows = [{"topic": topic, "partition": number} for topic, number in sorted(elections)]
    return _compact({"partitions": rows})


def _reassignment(rows: Iterable[tuple[Change, tuple[int, ...]]]) -> bytes:
    partitions = [
        {
            "topic": change.topic,
            "partition": change.partition,
            "replicas": replicas,
            "log_dirs": [ANY_LOG_DIR] * len(replicas),
        }
        for change, replicas in sorted(rows, key=lambda row: (row[0].topic, row[0].partition))
    ]
    return _compact({"version": 1, "partitions": partitions})


def _compact(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, separators=(",", ":")) + "\n").encode()


def proposal_block(proposal: Proposal) -> dict[str, Any]:
    """Return the proposal without its changes: block `proposal` of the report (docs/reports.md), plain JSON."""
    numbers = proposal_numbers(proposal)
    if proposal.before is None or proposal.after is None:
        return numbers
    return numbers | {"brokers": _broker_rows(proposal.before, proposal.after)}


def proposal_numbers(proposal: Proposal) -> dict[str, Any]:
    """Return the block without its rows of brokers."""
    options = proposal.options
    block: dict[str, Any] = {
        "goals": sorted(options.goals),
        "tolerance_percent": options.tolerance_percent,
        "refused": list(proposal.refused),
    }
    if proposal.refused or proposal.before is None or proposal.after is None:
        return block
    if BYTES in options.goals:
        block["swaps"] = proposal.swaps
        block["byte_shares"] = list(map(_byte_share, proposal.byte_shares))
    return block | {
        "partitions": len(proposal.changes),
        "moves": proposal.moves,
        "bytes": proposal.bytes,
        "moves_of_unknown_size": proposal.moves_of_unknown_size,
        "bound": proposal.bound,
        "gap": proposal.gap,
        "exact": proposal.exact,
        "leader_changes": proposal.leader_changes,
        "leader_bound": proposal.leader_bound,
        "leader_optimum": proposal.leader_optimum,
        "elections": len(proposal.elections),
        "before": _totals(proposal.before),
        "after": _totals(proposal.after),
        "unsolved": [
            {
                "reason": each.reason,
                "text": UNSOLVED_REASONS[each.reason],
                "count": each.count,
                "partitions": [{"topic": topic, "partition": number} for topic, number in each.examples],
                "brokers": list(each.brokers),
            }
            for each in proposal.unsolved
        ],
    }


def _byte_share(share: ByteShare) -> dict[str, Any]:
    return {
        "rack": share.rack,
        "brokers": share.brokers,
        "before": {"max": share.before_max, "min": share.before_min},
        "after": {"max": share.after_max, "min": share.after_min},
        "bound": share.bound,
        "gap": share.gap,
    }


def _totals(numbers: Numbers) -> dict[str, int]:
    return {
        "replicas": numbers.replicas,
        "excess": numbers.excess,
        "deficit": numbers.deficit,
        "rack_violated": numbers.rack_violated,
        "rack_moves": numbers.rack_moves,
        "offline_replicas": numbers.offline_replicas,
        "max_leaders": numbers.max_leaders,
        "non_preferred": numbers.non_preferred,
    }


def _broker_rows(before: Numbers, after: Numbers) -> list[dict[str, Any]]:
    return [
        {
            "broker_id": then.broker_id,
            "rack": then.rack,
            "band_low": then.low,
            "band_high": then.high,
            "before": {
                "replicas": then.replicas,
                "leaders": then.leaders,
                "preferred": then.preferred,
                "size_bytes": then.size_bytes,
            },
            "after": {
                "replicas": now.replicas,
                "leaders": now.leaders,
                "preferred": now.preferred,
                "size_bytes": now.size_bytes,
            },
        }
        for then, now in zip(before.brokers, after.brokers, strict=True)
    ]
