"""The dashboard and the change feed."""

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.cluster.history import Change
from app.cluster.quorum import Quorum
from app.pages.frame import counted, page_of, render
from app.reports import store
from app.reports.models import ReportRun
from app.security.audit import who_committed
from app.services import Reader, Services, services_of
from kraft_core.image.metadata_image import MetadataImage

router = APIRouter(include_in_schema=False)

CHANGES_ON_DASHBOARD: Final = 12
CHANGES_ON_PAGE: Final = 100
LINES_OF_ONE_CHANGE_ON_PAGE: Final = 25
LINES_OF_ONE_CHANGE: Final = 3  # on the dashboard: a broker's failure alone could fill it


@dataclass(frozen=True, slots=True)
class FeedLine:
    """One line of the change feed: what happened, at which offset, and who asked for it if we know."""

    offset: int
    epoch: int
    at: dt.datetime
    text: str
    actor: str = ""


def feed_lines(
    changes: Iterable[Change], limit: int, wanted: Callable[[str], bool] = lambda _: True, each_max: int = 10**9
) -> list[FeedLine]:
    """At least `limit` lines in words that are wanted, if there are so many; the newest change first, and each one whole.

    Within a change those that say more than what became of one partition come first. A change with more than `each_max`
    lines shows that many and says how many it leaves out.
    """
    lines: list[FeedLine] = []
    for change in changes:
        at = dt.datetime.fromtimestamp(max(0, change.timestamp_ms) / 1000, dt.UTC)
        texts = [text for text in change.headlines_first if wanted(text)]
        if len(texts) > each_max:
            texts = [*texts[:each_max], f"… and {len(texts) - each_max} more at this offset"]
        lines += [FeedLine(change.offset, change.epoch, at, text) for text in texts]
        if len(lines) >= limit:
            break
    return lines


@dataclass(frozen=True, slots=True)
class ReportSummary:
    """The last report in four lines."""

    id: int
    offset: int
    finished_at: dt.datetime | None
    moves: int
    rack_rule: str
    worst_rack: str

    @classmethod
    def of(cls, run: ReportRun) -> "ReportSummary":
        """From a run that succeeded."""
        assert run.result is not None, "a succeeded run has a result"
        assert run.image_offset is not None, "a succeeded run has an offset"
        verdict = run.result["body"]["verdict"]
        racks, worst = verdict["rack_rule"], verdict["worst_rack"]
        return cls(
            run.id,
            run.image_offset,
            run.finished_at,
            verdict["moves_from_balanced"],
            "does not apply: no broker has a rack"
            if racks is None
            else f"{racks['violated']} violated, {racks['unknown']} unknown",
            "no racks"
            if worst is None
            else f"{worst['rack']}: {worst['if_lost_refused']} partitions would refuse writes",
        )


@dataclass(frozen=True, slots=True)
class DashboardView:
    """What dashboard.html shows."""

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
    """(n of m, tone, one reason) of the voters."""
    total, silent = len(quorum.voters), [voter.id for voter in quorum.silent]
    if not quorum.has_majority:
        return f"{total - len(silent)} of {total}" if total else "unknown", "bad", f"{quorum.majority} are needed"
    if not quorum.is_live:
        return f"{total - len(silent)} of {total} answer", "warn" if silent else "", "no leader describes them"
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
    """(n of m, tone, one reason) of the brokers."""
    brokers = sorted(image.cluster.brokers.values(), key=lambda broker: broker.id)
    fenced = [str(broker.id) for broker in brokers if broker.fenced]
    leaving = [str(broker.id) for broker in brokers if broker.in_controlled_shutdown and not broker.fenced]
    text = f"{len(brokers) - len(fenced)} of {len(brokers)}"
    if not brokers:
        return "0", "warn", "none has registered"
    if fenced:
        return text, "bad", f"fenced: {', '.join(fenced[:8])}{' …' if len(fenced) > 8 else ''}"
    return text, "warn" if leaving else "good", f"shutting down: {', '.join(leaving)}" if leaving else "none fenced"


async def dashboard_view(found: Services) -> DashboardView:
    """Everything on the dashboard, from memory but for the last report."""
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
    """The front page."""
    view = await dashboard_view(services_of(request))
    return render(request, "dashboard.html", page=page_of(request, "Dashboard", "/"), view=view)


@router.get("/fragments/dashboard")
async def dashboard_fragment(request: Request, _caller: Reader) -> Response:
    """The same without its frame."""
    return render(request, "_dashboard.html", view=await dashboard_view(services_of(request)))


@dataclass(frozen=True, slots=True)
class ChangesView:
    """changes.html; `older` is the offset that continues the list, None at its end."""

    first_offset: int
    search: str
    rows: Sequence[FeedLine]
    older: int | None


@router.get("/changes")
async def changes(request: Request, _caller: Reader, before: int | None = None, q: str = "") -> Response:
    """The change feed, newest first."""
    found = services_of(request)
    history = found.cluster.history
    wanted = [change for change in history.newest(10**9) if before is None or change.offset < before]
    needle = q.strip().lower()
    rows = feed_lines(wanted, CHANGES_ON_PAGE, lambda line: needle in line.lower(), LINES_OF_ONE_CHANGE_ON_PAGE)
    if rows:
        actors = await found.database.read(who_committed, rows[-1].offset, rows[0].offset)
        rows = [FeedLine(row.offset, row.epoch, row.at, row.text, actors.get(row.offset, "")) for row in rows]
    older = rows[-1].offset if len(rows) >= CHANGES_ON_PAGE else None
    view = ChangesView(history.oldest_offset, q, rows, older)
    return render(request, "changes.html", page=page_of(request, "Changes", "/changes"), view=view)
