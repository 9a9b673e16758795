"""The dashboard: the quorum, the brokers, the topics, the latest changes and the latest report."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.cluster.quorum import Quorum
from app.pages.changes import FeedLine, feed_lines
from app.pages.frame import counted, page_of, render
from app.reports import store
from app.reports.models import ReportRun
from app.services import Reader, Services, services_of
from kraft_core.image.metadata_image import MetadataImage

router = APIRouter(include_in_schema=False)

CHANGES_ON_DASHBOARD: Final = 12
LINES_OF_ONE_CHANGE: Final = 3  # the failure of one broker could fill the dashboard


@dataclass(frozen=True, slots=True)
class ReportSummary:
    """The latest report in four lines."""

    id: int
    offset: int
    finished_at: dt.datetime | None
    moves: int
    rack_rule: str
    worst_rack: str

    @classmethod
    def of(cls, run: ReportRun) -> "ReportSummary":
        """Return the summary of a run that succeeded."""
        assert run.result is not None, "a succeeded run has a result"
        assert run.image_offset is not None, "a succeeded run has an offset"
        verdict = run.result["body"]["verdict"]
        racks, worst = verdict["rack_rule"], verdict["worst_rack"]
        return cls(
            run.id,
            run.image_offset,
            run.finished_at,
            verdict["moves_from_balanced"],
            "not applicable: no broker has a rack"
            if racks is None
            else f"{racks['violated']} violated, {racks['unknown']} unknown",
            "no racks"
            if worst is None
            else f"{worst['rack']}: {worst['if_lost_refused']} partitions would reject writes",
        )


@dataclass(frozen=True, slots=True)
class DashboardView:
    """Model of dashboard.html."""

    problem: str
    is_known: bool
    has_leader: bool
    leader_text: str
    leader_where: str
    epoch: int
    high_watermark: int
    voters_text: str
    voters_tone: str
    voters_why: str
    brokers_text: str
    brokers_tone: str
    brokers_why: str
    topics: int | None
    partitions_text: str
    offline: int | None
    under_min: int | None
    under_replicated: int | None
    changes: Sequence[FeedLine]
    report: ReportSummary | None


def voters_verdict(quorum: Quorum) -> tuple[str, str, str]:
    """Return (n of m, tone, reason) of the voters."""
    total, silent = len(quorum.voters), [voter.id for voter in quorum.silent]
    if not quorum.has_majority:
        return f"{total - len(silent)} of {total}" if total else "unknown", "bad", f"{quorum.majority} required"
    if not quorum.is_live:
        return f"{total - len(silent)} of {total} answer", "warn" if silent else "", "no leader"
    good = sum(voter.is_caught_up and not voter.is_silent for voter in quorum.voters)
    behind = [voter.id for voter in quorum.voters if not voter.is_caught_up and not voter.is_silent]
    reasons = [
        f"{what}: {', '.join(map(str, which))}"
        for what, which in (("silent", silent), ("not caught up", behind))
        if which
    ]
    if not reasons:
        return f"{good} of {total}", "good", "all caught up"
    return f"{good} of {total}", "bad" if good < quorum.majority else "warn", "; ".join(reasons)


def brokers_verdict(image: MetadataImage) -> tuple[str, str, str]:
    """Return (n of m, tone, reason) of the brokers."""
    brokers = sorted(image.cluster.brokers.values(), key=lambda broker: broker.id)
    fenced = [str(broker.id) for broker in brokers if broker.fenced]
    leaving = [str(broker.id) for broker in brokers if broker.in_controlled_shutdown and not broker.fenced]
    text = f"{len(brokers) - len(fenced)} of {len(brokers)}"
    if not brokers:
        return "0", "warn", "none registered"
    if fenced:
        return text, "bad", f"fenced: {', '.join(fenced[:8])}{' …' if len(fenced) > 8 else ''}"
    return text, "warn" if leaving else "good", f"shutting down: {', '.join(leaving)}" if leaving else "none fenced"


async def dashboard_view(found: Services) -> DashboardView:
    """Return the dashboard, from memory except for the latest report."""
    cluster = found.cluster
    freshness, image = cluster.freshness, cluster.image
    quorum = cluster.quorum
    totals = cluster.topic_table.totals()
    changes = cluster.history.newest(CHANGES_ON_DASHBOARD)
    run = await found.database.read(store.latest_report)
    leader, is_known = quorum.leader, freshness.is_ready
    problem = "" if is_known else f"No metadata yet: {freshness.error or 'the quorum has not answered'}."
    voters = voters_verdict(quorum)
    brokers = brokers_verdict(image) if is_known else ("unknown", "", "")
    return DashboardView(
        problem=problem,
        is_known=is_known,
        has_leader=quorum.standing == "led",
        leader_text="none" if quorum.leader_id is None else f"node {quorum.leader_id}",
        leader_where=", ".join(f"{host}:{port}" for _, host, port in leader.endpoints) if leader else "",
        epoch=quorum.leader_epoch,
        high_watermark=max(quorum.high_watermark, freshness.high_watermark),
        voters_text=voters[0],
        voters_tone=voters[1],
        voters_why=voters[2],
        brokers_text=brokers[0],
        brokers_tone=brokers[1],
        brokers_why=brokers[2],
        topics=totals.topics if is_known else None,
        partitions_text=counted(totals.partitions, "partition") if is_known else "",
        offline=totals.offline if is_known else None,
        under_min=totals.under_min if is_known else None,
        under_replicated=totals.under_replicated if is_known else None,
        changes=feed_lines(changes, CHANGES_ON_DASHBOARD, each_max=LINES_OF_ONE_CHANGE),
        report=None if run is None else ReportSummary.of(run),
    )


@router.get("/")
async def dashboard(request: Request, _caller: Reader) -> Response:
    """Return the page."""
    view = await dashboard_view(services_of(request))
    return render(request, "dashboard.html", page=page_of(request, "Dashboard", "/"), view=view)


@router.get("/fragments/dashboard")
async def dashboard_fragment(request: Request, _caller: Reader) -> Response:
    """Return the page without its frame."""
    return render(request, "_dashboard.html", view=await dashboard_view(services_of(request)))
