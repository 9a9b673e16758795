"""Makes the default plan of a report, in the report job, and stores it beside the report."""

from pathlib import Path
from typing import Any

from app.reports.proposals.formats import (
    ELECT,
    REASSIGN,
    ROLLBACK,
    elect_json,
    proposal_block,
    reassign_json,
    rollback_json,
)
from app.reports.proposals.options import DEFAULT_OPTIONS
from app.reports.proposals.planner import propose
from app.reports.proposals.proposal import Proposal
from app.reports.proposals.snapshot import layout_from_snapshot
from app.texts import phrase
from kraft_core.storage.files import replace_file

MAX_PARTITIONS = 3_000_000
"""Above it a report leaves the plan to those who ask for one: it would take minutes of each run."""


def make_default_plan(snapshot: Path, out: Path, partitions: int, offset: int, epoch: int) -> dict[str, Any]:
    """Write the plan in the formats of Kafka's tools into `out`, and return the block `proposal` of the report's body.

    A refused plan has no files. Takes about 6 s per million partitions. Raises OSError if the disk is full.
    """
    if partitions > MAX_PARTITIONS:
        reason = phrase(
            "The cluster has %(count)s partitions; a default plan is made for at most %(most)s. "
            "Make a plan of its own on the page Plans or by REST.",
            count=f"{partitions:,}",
            most=f"{MAX_PARTITIONS:,}",
        )
        return proposal_block(Proposal(options=DEFAULT_OPTIONS, offset=offset, epoch=epoch, refused=(reason,)))
    proposal = propose(layout_from_snapshot(snapshot), DEFAULT_OPTIONS)
    if not proposal.refused:
        replace_file(out / REASSIGN, reassign_json(proposal.changes))
        replace_file(out / ROLLBACK, rollback_json(proposal.changes))
        replace_file(out / ELECT, elect_json(proposal.elections))
    return proposal_block(proposal)
