"""The dashboard: the quorum, the brokers, the topics, the latest changes and the latest report."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from markupsafe import Markup

from app.cluster.cluster import Cluster
from app.cluster.log_store.archive import Past
from app.cluster.quorum import Quorum
from app.cluster.samples import rates
from app.pages.feed import FeedEntry, feed_entries
from app.pages.frame import UNKNOWN, counted, number, page_of, render
from app.pages.health import DAY_MS, Health, health_of, past_health
from app.pages.placement_charts import sparkline
from app.pages.report_trends import TrendSummary
from app.pages.shared_parts import shared
from app.pages.survey_notes import survey_of
from app.reports.latest import LatestReport
from app.services import PastReader, Reader, Services, services_of
from app.texts import Text, joined, phrase
from kraft_core.image.metadata_image import MetadataImage

router = APIRouter(include_in_schema=False)

CHANGES_ON_DASHBOARD: Final = 12
NODES_MAX: Final = 60
LEAST_SAMPLES: Final = 3
STRETCHES_MAX: Final = 5
"""Parts of the stored log that are read for the changes before a past state."""
NOT_IN_LOG: Final = phrase(
    "The metadata log does not tell, so it is not known for the past: which controllers answered and were caught up,"
    " the lines of the last half hour, and reports. The voters are those that the leader named when it was elected."
)


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
    def of(cls, report: LatestReport) -> "ReportSummary":
        """Return the summary of a report."""
        verdict = report.verdict
        racks, worst = verdict["rack_rule"], verdict["worst_rack"]
        return cls(
            report.id,
            report.offset,
            report.finished_at,
            verdict["moves_from_balanced"],
            phrase("not applicable: no broker has a rack")
            if racks is None
            else phrase("%(violated)s violated, %(unknown)s unknown", **racks),
            phrase("no racks")
            if worst is None
            else phrase("%(rack)s: %(if_lost_refused)s partitions would reject writes", **worst),
        )


@dataclass(frozen=True, slots=True)
class Card:
    """One number with its page, its reason or detail, and its line over the last half hour ("" if there is none)."""

    label: str
    value: str
    href: str
    tone: str = ""
    why: str = ""
    key: str = ""
    trend: Markup | str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A voter or broker at a glance."""

    text: str
    state: str
    tone: str
    href: str


@dataclass(frozen=True, slots=True)
class DashboardView:
    """Model of _dashboard.html. `more_brokers` is the number of brokers that are not shown.

    `unknown`: what a past state cannot tell, "" for the present.
    """

    unknown: str
    health: Health
    cards: Sequence[Card]
    voters: Sequence[Node]
    brokers: Sequence[Node]
    more_brokers: int
    changes: Sequence[FeedEntry]
    report: ReportSummary | None
    trends: TrendSummary | None


def voters_verdict(quorum: Quorum) -> tuple[str, str, str]:
    """Return (n of m, tone, reason) of the voters."""
    total, silent = len(quorum.voters), [voter.id for voter in quorum.silent]
    if not quorum.has_majority:
        text = _of(total - len(silent), total) if total else phrase("unknown")
        return text, "bad", phrase("%(count)s required", count=quorum.majority)
    if not quorum.is_live:
        text = phrase("%(some)s of %(all)s answer", some=total - len(silent), all=total)
        return text, "warn" if silent else "", phrase("no leader")
    good = sum(voter.is_caught_up and not voter.is_silent for voter in quorum.voters)
    behind = [voter.id for voter in quorum.behind]
    reasons = []
    if silent:
        reasons.append(phrase("silent: %(ids)s", ids=", ".join(map(str, silent))))
    if behind:
        reasons.append(phrase("not caught up: %(ids)s", ids=", ".join(map(str, behind))))
    if not reasons:
        return _of(good, total), "", phrase("all caught up")
    return _of(good, total), "bad" if good < quorum.majority else "warn", joined("; ", reasons)


def _of(some: int, total: int) -> Text:
    return phrase("%(some)s of %(all)s", some=some, all=total)


def brokers_verdict(image: MetadataImage) -> tuple[str, str, str]:
    """Return (n of m, tone, reason) of the brokers."""
    brokers = sorted(image.cluster.brokers.values(), key=lambda broker: broker.id)
    fenced = [str(broker.id) for broker in brokers if broker.fenced]
    leaving = [str(broker.id) for broker in brokers if broker.in_controlled_shutdown and not broker.fenced]
    text = _of(len(brokers) - len(fenced), len(brokers))
    if not brokers:
        return "0", "warn", phrase("none registered")
    if fenced:
        named = ", ".join(fenced[:8]) + (" …" if len(fenced) > 8 else "")
        return text, "bad", phrase("fenced: %(ids)s", ids=named)
    if leaving:
        return text, "warn", phrase("shutting down: %(ids)s", ids=", ".join(leaving))
    return text, "", phrase("none fenced")


def cards_of(cluster: Cluster) -> list[Card]:
    """Return the row of cards."""
    quorum, image, is_known = cluster.quorum, cluster.image, cluster.freshness.is_ready
    totals, samples = cluster.topic_table.totals(), cluster.samples.all
    leader = quorum.leader
    where = ", ".join(f"{host}:{port}" for _, host, port in leader.endpoints) if leader else ""
    led = quorum.standing == "led"
    changes = rates(samples)

    def count(label: str, value: int, query: str, tone: str, field: str) -> Card:
        trend = _line([getattr(each, field) for each in samples])
        return Card(label, number(value if is_known else None), query, tone if value else "", trend=trend)

    return [
        Card(
            phrase("Leader"),
            phrase("none") if quorum.leader_id is None else phrase("node %(id)s", id=quorum.leader_id),
            "/quorum",
            "" if led else "bad",
            joined(", ", [phrase("epoch %(epoch)s", epoch=quorum.leader_epoch), *([where] if where else [])]),
        ),
        Card(phrase("Voters"), *_placed(voters_verdict(quorum), "/quorum")),
        Card(
            phrase("Brokers"), *_placed(brokers_verdict(image) if is_known else (phrase("unknown"), "", ""), "/brokers")
        ),
        Card(
            phrase("Topics"),
            number(totals.topics if is_known else None),
            "/topics",
            why=counted(totals.partitions, "partition") if is_known else "",
            trend=_line([each.partitions for each in samples]),
        ),
        count(phrase("Offline partitions"), totals.offline, "/topics?problem=offline", "bad", "offline"),
        count(phrase("Under min ISR"), totals.under_min, "/topics?problem=under-min", "bad", "under_min"),
        count(
            phrase("Under-replicated"),
            totals.under_replicated,
            "/topics?problem=under-replicated",
            "warn",
            "under_replicated",
        ),
        Card(
            phrase("High watermark"),
            number(max(quorum.high_watermark, cluster.freshness.high_watermark)),
            "/changes",
            why=phrase("%(count)s records a minute", count=f"{changes[-1]:.0f}") if changes else "",
            key="high_watermark",
            trend=_line(changes),
        ),
    ]


def past_cards(cluster: Cluster) -> list[Card]:
    """Return the row of cards of a past state. The log does not tell whether the voters answered."""
    quorum, totals = cluster.quorum, cluster.topic_table.totals()
    counts = (
        (phrase("Offline partitions"), totals.offline, "/topics?problem=offline", "bad"),
        (phrase("Under min ISR"), totals.under_min, "/topics?problem=under-min", "bad"),
        (phrase("Under-replicated"), totals.under_replicated, "/topics?problem=under-replicated", "warn"),
    )
    leader, epoch = UNKNOWN, ""
    if quorum.leader_id is not None:
        leader = phrase("node %(id)s", id=quorum.leader_id)
        epoch = phrase("epoch %(epoch)s", epoch=quorum.leader_epoch)
    voters = number(len(quorum.voters) or None)
    return [
        Card(phrase("Leader"), leader, "/quorum", why=epoch),
        Card(phrase("Voters"), voters, "/quorum", why=phrase("whether they answered is not known")),
        Card(phrase("Brokers"), *_placed(brokers_verdict(cluster.image), "/brokers")),
        Card(phrase("Topics"), number(totals.topics), "/topics", why=counted(totals.partitions, "partition")),
        *(Card(label, number(value), href, tone if value else "") for label, value, href, tone in counts),
        Card(phrase("High watermark"), number(quorum.high_watermark), "/changes"),
    ]


def _placed(verdict: tuple[str, str, str], href: str) -> tuple[str, str, str, str]:
    text, tone, why = verdict
    return text, href, tone, why


def _line(values: Sequence[float]) -> Markup | str:
    return sparkline(values) if len(values) >= LEAST_SAMPLES and max(values) > min(values) else ""


def voter_nodes(quorum: Quorum) -> list[Node]:
    """Return the voters, the leader first."""
    return [
        Node(
            phrase("node %(id)s", id=voter.id),
            phrase("leader")
            if voter.is_leader
            else phrase("silent")
            if voter.is_silent
            else ""
            if voter.is_caught_up
            else phrase("behind"),
            "bad" if voter.is_silent else "" if voter.is_caught_up or not quorum.is_live else "warn",
            "/quorum",
        )
        for voter in sorted(quorum.voters, key=lambda voter: (not voter.is_leader, voter.id))
    ]


def broker_nodes(image: MetadataImage) -> list[Node]:
    """Return the brokers, those with a problem first."""
    nodes = []
    for broker in sorted(image.cluster.brokers.values(), key=lambda each: each.id):
        state = ""
        if broker.fenced:
            state = phrase("fenced")
        elif broker.in_controlled_shutdown:
            state = phrase("shutting down")
        tone = "bad" if broker.fenced else "warn" if state else ""
        nodes.append(Node(phrase("broker %(id)s", id=broker.id), state, tone, f"/brokers/{broker.id}"))
    return sorted(nodes, key=lambda node: ("bad", "warn", "").index(node.tone))


async def dashboard_view(found: Services) -> DashboardView:
    """Return the dashboard, from memory except for the latest report."""
    cluster = found.cluster
    report = await found.latest_reports.get()
    brokers = broker_nodes(cluster.image)
    return DashboardView(
        unknown="",
        health=health_of(cluster),
        cards=cards_of(cluster),
        voters=voter_nodes(cluster.quorum),
        brokers=brokers[:NODES_MAX],
        more_brokers=max(0, len(brokers) - NODES_MAX),
        changes=feed_entries(cluster.history.newest(4 * CHANGES_ON_DASHBOARD), CHANGES_ON_DASHBOARD),
        report=None if report is None else ReportSummary.of(report),
        trends=TrendSummary.of(report),
    )


async def past_dashboard_view(found: Services, past: Past) -> DashboardView:
    """Return the dashboard as far as the metadata log tells it for a past offset."""
    cluster = found.cluster
    survey, at_ms = await survey_of(cluster)
    unclean = sum(each.election not in {"", "elr"} and each.time_ms >= at_ms - DAY_MS for each in survey.moves)
    brokers = broker_nodes(cluster.image)
    return DashboardView(
        unknown=NOT_IN_LOG,
        health=past_health(cluster.image, cluster.topic_table.totals(), unclean),
        cards=past_cards(cluster),
        voters=[
            Node(phrase("node %(id)s", id=voter.id), phrase("leader") if voter.is_leader else "", "unknown", "/quorum")
            for voter in cluster.quorum.voters
        ],
        brokers=brokers[:NODES_MAX],
        more_brokers=max(0, len(brokers) - NODES_MAX),
        changes=await _changes_before(cluster, past.offset + 1),
        report=None,
        trends=None,
    )


async def _changes_before(cluster: Cluster, before: int | None) -> list[FeedEntry]:
    """Return the newest changes before an offset, wherever they are kept."""
    entries: list[FeedEntry] = []
    for _ in range(STRETCHES_MAX):
        if before is None or len(entries) >= CHANGES_ON_DASHBOARD:
            break
        stretch = await cluster.archive.stretch(before)
        entries += feed_entries(stretch.changes, CHANGES_ON_DASHBOARD - len(entries))
        before = stretch.older
    return entries


@router.get("/")
async def dashboard(request: Request, _caller: PastReader) -> Response:
    """Return the page."""
    services = services_of(request)
    past = services.cluster.past
    view = await dashboard_view(services) if past is None else await past_dashboard_view(services, past)
    return render(request, "dashboard.html", page=page_of(request, phrase("Dashboard"), "/"), view=view)


@router.get("/fragments/dashboard")
@shared
async def dashboard_fragment(request: Request, _caller: Reader) -> Response:
    """Return the page without its frame."""
    return render(request, "_dashboard.html", view=await dashboard_view(services_of(request)))
