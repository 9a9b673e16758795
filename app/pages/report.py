"""One placement report: its blocks with charts, compared with another run, and what a loss of one's choice would do."""

import asyncio
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response
from markupsafe import Markup

from app.http.errors import NotFoundError
from app.pages import charts, placement_charts
from app.pages.frame import page_of, render, rows_on_page, whole_number
from app.pages.report_rows import MatrixView, matrices, rows_url
from app.pages.report_strip import StripItem, strip
from app.pages.report_trends import trend_lines
from app.pages.reports import known_report
from app.reports import store
from app.reports.body import REPORT_VERSION
from app.reports.models import ReportRun
from app.reports.violations import REASONS, violations_page
from app.reports.what_if import NoPlacementError, UnknownDomainError, lost_brokers, what_if
from app.services import Reader, Services, services_of
from app.texts import capitalised, phrase, recognised, sentence_of

router = APIRouter(include_in_schema=False)

VIOLATIONS_SHOWN: Final = 25
BROKERS_SHOWN: Final = 12
LOSSES_SHOWN: Final = 12
TOPICS_SHOWN: Final = 12
COMPARABLE_RUNS: Final = 30
VERDICT_NAMES: Final = {
    "lost": phrase("lost"),
    "offline": phrase("offline"),
    "unclean": phrase("unclean"),
    "under_min": phrase("under min"),
    "at_min": phrase("at min"),
    "ok": phrase("ok"),
}
VERDICTS: Final = tuple(VERDICT_NAMES)
REASON_NAMES: Final = {
    "offline": phrase("offline"),
    "under_min": phrase("under min"),
    "rack": phrase("rack"),
    "under_replicated": phrase("under replicated"),
    "rack_unknown": phrase("rack unknown"),
}
RANKINGS: Final = {
    "excess": phrase("excess"),
    "leader_skew": phrase("leader skew"),
    "rf1": phrase("rf1"),
    "rf_is_min_isr": phrase("rf is min isr"),
}
"""What topics are ranked by."""

Row = Mapping[str, Any]
Chart = Callable[[], Markup | None]


@dataclass(frozen=True, slots=True)
class Ranked:
    """Rows of a table: the ones to look at first, and the rest, which the page folds."""

    first: Sequence[Row]
    rest: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Picker:
    """The form for a loss of one's choice, and its answer."""

    racks: Sequence[tuple[str, bool]]
    brokers: str
    result: Row | None
    error: str


@dataclass(frozen=True, slots=True)
class Trends:
    """The trends of the lake (docs/reports.md): `found`, and a line per number over the days."""

    found: Row
    lines: Sequence[tuple[str, str, Markup]]


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of violations; `gone` says why the list is missing."""

    rows: Sequence[Row]
    page: int
    pages: int
    gone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportView:
    """Model of report.html. `body` is the report's, see docs/reports.md. Charts are drawn in the reader's language."""

    id: int
    header: Row
    finished_at: dt.datetime | None
    requested_by: str
    took: str
    body: Row
    advice: Sequence[str]
    strip: Sequence[StripItem]
    compared: int | None
    comparable: Sequence[int]
    brokers: Ranked
    brokers_summary: str
    brokers_chart: Chart
    proposal_chart: Chart
    broker_losses: Ranked
    topics: Ranked
    margins_chart: Chart
    matrices: Sequence[MatrixView]
    rows_url: str
    picker: Picker
    trends: Trends | None
    violations: Listed
    reasons: Sequence[tuple[str, int]]
    reason: str
    search: str
    page_query: str
    plan_url: str


def _harm(row: Row) -> tuple[int, ...]:
    """Sort key of losses: most partitions newly down first, then writes refused, lost, at min ISR, leaders moved."""
    at_min = row["verdicts"]["at_min"]
    return -row["newly_down"], -row["newly_refused"], -row["newly_lost"], -at_min, -row["leaders_moved"]


def _trouble(row: Row) -> tuple[bool, int, int]:
    """Sort key of brokers: those that are not active first, then by distance from the balanced range."""
    return row["state"] == "ACTIVE", -abs(placement_charts.deviation(row) or 0), row["broker_id"]


def _ranked(rows: Sequence[Row], shown: int) -> Ranked:
    return Ranked(rows[:shown], rows[shown:])


def list_violations(services: Services, run_id: int, asked: Mapping[str, str], size: int) -> Listed:
    """Return the page of violations of an address."""
    page = whole_number(asked.get("page", "1"), 1, 10**7) or 1
    reason = asked.get("reason") if asked.get("reason") in REASONS else None
    start = (page - 1) * size
    out = services.reports.folder_of(run_id) / "out"
    try:
        rows, total = violations_page(out, reason=reason, search=asked.get("q", ""), offset=start, limit=size)
    except FileNotFoundError as gone:
        return Listed([], 1, 1, recognised(str(gone)))
    return Listed(rows, page, max(1, -(-total // size)))


async def picked_loss(services: Services, run: ReportRun, racks: Sequence[str], brokers: str) -> Picker:
    """Return the picker with the effect of losing these racks and brokers (ids separated by commas or spaces)."""
    assert run.result is not None, "the caller has checked"
    body = run.result["body"]
    choices = [(row["rack"], row["rack"] in racks) for row in body["racks"]]
    words = brokers.replace(",", " ").split()
    if not words and not racks:
        return Picker(choices, "", None, "")
    out = services.reports.folder_of(run.id) / "out"
    try:
        lost = lost_brokers(body, ",".join(words), ",".join(racks))
        found = await asyncio.to_thread(what_if, out, body, lost)
    except (UnknownDomainError, NoPlacementError) as refused:
        return Picker(choices, brokers, None, capitalised(sentence_of(refused)))
    return Picker(choices, brokers, found, "")


def trends_view(found: Row | None) -> Trends | None:
    """Return the trends with lines for what has at least two days, None without a lake."""
    if found is None:
        return None
    return Trends(found, trend_lines(found))


def report_view(
    run: ReportRun,
    before: ReportRun | None,
    comparable: Sequence[int],
    asked: Mapping[str, str],
    listed: Listed,
    picker: Picker,
) -> ReportView:
    """Return the report as the page shows it, compared with the run `before`."""
    assert run.result is not None, "the caller has checked"
    body, header = run.result["body"], run.result["header"]
    previous = None if before is None or before.result is None else before.result["body"]["verdict"]
    query = {name: asked[name] for name in ("reason", "q", "compare") if asked.get(name)}
    plan = body.get("proposal") or {}
    histogram = body["margins"]["histogram"]
    return ReportView(
        id=run.id,
        header=header,
        finished_at=run.finished_at,
        requested_by=run.requested_by,
        took=f"{header['duration_ms'] / 1000:.1f} s",
        body=body,
        advice=[recognised(each) for each in body["advice"]],
        strip=strip(body["verdict"], previous, rows_url(run.id)),
        compared=None if before is None else before.id,
        comparable=comparable,
        brokers=_ranked(sorted(body["brokers"], key=_trouble), BROKERS_SHOWN),
        brokers_summary=placement_charts.summary(body["brokers"]),
        brokers_chart=partial(placement_charts.deviation_chart, body["brokers"]),
        proposal_chart=partial(placement_charts.moved_chart, plan.get("brokers", ())),
        broker_losses=_ranked(sorted(body["what_if"]["brokers"], key=_harm), LOSSES_SHOWN),
        topics=_ranked(body["topics"], TOPICS_SHOWN),
        margins_chart=partial(charts.margins_chart, histogram) if histogram else lambda: None,
        matrices=matrices(run.id, body["risk"]),
        rows_url=rows_url(run.id),
        picker=picker,
        trends=trends_view(run.result.get("trends")),
        violations=listed,
        reasons=[(reason, body["violations"]["by_reason"].get(reason, 0)) for reason in REASONS],
        reason=asked.get("reason", ""),
        search=asked.get("q", ""),
        page_query=f"{urlencode(query)}&" if query else "",
        plan_url=f"/v3/clusters/{quote(header['cluster_id'])}/reports/{run.id}",
    )


async def compared_run(services: Services, run: ReportRun, wanted: str) -> ReportRun | None:
    """Return the run to compare with: the one asked for, else the one before. None if this version cannot show it.

    Raises NotFoundError for a bad choice.
    """
    if wanted:
        other: ReportRun | None = await known_report(services, whole_number(wanted, 1, 2**31 - 1) or 0)
    else:
        other = await services.database.read(store.latest_report, run.id, run.topic_prefix)
    return other if other is not None and is_current(other) else None


def is_current(run: ReportRun) -> bool:
    """Return whether this version of the program can show the report."""
    return run.result is not None and run.result["report_version"] == REPORT_VERSION


@router.get("/reports/{run_id}")
async def report(request: Request, _caller: Reader, run_id: int) -> Response:
    """Return one report."""
    services = services_of(request)
    run = await known_report(services, run_id)
    if not is_current(run):
        raise NotFoundError(
            phrase(
                "Report %(id)s was made by another version of Conclave. /reports/%(id)s.json has its numbers.",
                id=run_id,
            )
        )
    asked = request.query_params
    before = await compared_run(services, run, asked.get("compare", ""))
    runs = await services.database.read(store.list_runs, COMPARABLE_RUNS)
    comparable = [each.id for each in runs if each.state == "succeeded" and each.id != run_id]
    listed = list_violations(services, run_id, asked, rows_on_page(request, VIOLATIONS_SHOWN))
    picker = await picked_loss(services, run, asked.getlist("rack"), asked.get("brokers", ""))
    view = report_view(run, before, comparable, asked, listed, picker)
    page = page_of(request, phrase("Placement report #%(id)s", id=run_id), "/reports")
    return render(
        request,
        "report.html",
        page=page,
        view=view,
        heat=placement_charts.heat,
        deviation=placement_charts.deviation,
        verdicts=VERDICTS,
        verdict_names=VERDICT_NAMES,
        reason_names=REASON_NAMES,
        rankings=RANKINGS,
    )
