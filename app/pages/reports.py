"""Placement reports: the runs and their schedules, one report with charts, and its data as JSON and CSV."""

import csv
import datetime as dt
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from markupsafe import Markup

from app.http.errors import NotFoundError
from app.pages import charts
from app.pages.flash import Flash
from app.pages.frame import UNKNOWN, go_to, number, page_of, render, whole_number
from app.reports import store
from app.reports.models import ACTIVE_STATES, ReportRun
from app.reports.runner import NoImageError
from app.reports.scheduler import InvalidCronError, next_due
from app.reports.violations import REASONS, safe_cell, violations_csv, violations_page
from app.services import Reader, ReportEditor, Services, services_of

router = APIRouter(include_in_schema=False)

RUNS_SHOWN: Final = 30
VIOLATIONS_SHOWN: Final = 50
TONES: Final = {"succeeded": "good", "failed": "bad", "timed_out": "bad", "lost": "warn", "cancelled": "warn"}


@dataclass(frozen=True, slots=True)
class RunningRow:
    """Progress of the run in progress."""

    id: int
    stage: int
    stages: int
    text: str


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run in the list."""

    id: int
    state: str
    tone: str
    image_offset: int | None
    created_at: dt.datetime
    took: str
    requested_by: str
    error: str
    has_log: bool


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """One schedule; `next_due` is None when it is disabled."""

    name: str
    cron: str
    enabled: bool
    next_due: dt.datetime | None
    changed_by: str


@dataclass(frozen=True, slots=True)
class ReportsView:
    """Model of reports.html."""

    running: RunningRow | None
    runs: Sequence[RunRow]
    schedules: Sequence[ScheduleRow]
    trend: Markup | None
    trend_runs: int


def took(begun: dt.datetime, ended: dt.datetime | None) -> str:
    """Return the duration of a run, empty while it runs."""
    return "" if ended is None else f"{(ended - begun).total_seconds():.1f} s"


def running_row(services: Services, run: ReportRun) -> RunningRow:
    """Return the progress that the process of the run reports."""
    said = services.reports.progress(run.id) if run.state == "running" else None
    if said is None:
        return RunningRow(
            run.id, 0, 8, {"queued": "waiting", "snapshotting": "writing the snapshot"}.get(run.state, run.state)
        )
    tasks = f", {said['tasks_done']} of {said['tasks']} tasks" if said["tasks"] else ""
    return RunningRow(
        run.id, said["stage"], said["stages"], f"{said['name']} (stage {said['stage']} of {said['stages']}{tasks})"
    )


async def reports_view(services: Services) -> ReportsView:
    """Return the runs, newest first, and the schedules."""
    runs = await services.database.read(store.list_runs, RUNS_SHOWN)
    schedules = await services.database.read(store.schedules)
    history = await services.database.read(store.verdict_history)
    active = next((run for run in runs if run.state in ACTIVE_STATES), None)
    return ReportsView(
        running=None if active is None else running_row(services, active),
        runs=[
            RunRow(
                id=run.id,
                state=run.state,
                tone=TONES.get(run.state, "info"),
                image_offset=run.image_offset,
                created_at=run.created_at,
                took=took(run.created_at, run.finished_at),
                requested_by=run.requested_by,
                error=run.error or "",
                has_log=(services.reports.folder_of(run.id) / "run.log").exists(),
            )
            for run in runs
        ],
        schedules=[
            ScheduleRow(
                each.name, each.cron, each.enabled, next_due(each.cron) if each.enabled else None, each.changed_by
            )
            for each in schedules
        ],
        trend=charts.trend_chart(history) if len(history) > 1 else None,
        trend_runs=len(history),
    )


@router.get("/reports")
async def reports(request: Request, _caller: Reader) -> Response:
    """Return the list."""
    view = await reports_view(services_of(request))
    return render(request, "reports.html", page=page_of(request, "Placement reports", "/reports"), view=view)


@router.get("/fragments/report-runs")
async def runs_fragment(request: Request, _caller: Reader) -> Response:
    """Return the runs without the frame of the page, which requests them every second during a run."""
    view = await reports_view(services_of(request))
    return render(request, "_report_runs.html", page=page_of(request, ""), view=view)


@router.post("/reports")
async def run_now(request: Request, caller: ReportEditor) -> Response:
    """Start a run."""
    services = services_of(request)
    try:
        run_id = await services.actions.reports.run(caller)
    except (NoImageError, store.ReportBusyError) as refused:
        return go_to(request, "/reports", Flash("warn", str(refused)))
    return go_to(request, "/reports", Flash("good", f"Report #{run_id} started."))


@router.post("/reports/{run_id}/cancel")
async def cancel(request: Request, caller: ReportEditor, run_id: int) -> Response:
    """Cancel a run."""
    if await services_of(request).actions.reports.cancel(caller, run_id):
        return go_to(request, "/reports", Flash("good", f"Report #{run_id} cancelled."))
    return go_to(request, "/reports", Flash("warn", f"Report #{run_id} is not running."))


@router.post("/reports/schedules/{name}")
async def put_schedule(
    request: Request,
    caller: ReportEditor,
    name: str,
    cron: Annotated[str, Form()] = "",
    enabled: Annotated[str, Form()] = "",
) -> Response:
    """Change a schedule."""
    try:
        await services_of(request).actions.reports.put_schedule(caller, name, cron.strip(), enabled=bool(enabled))
    except InvalidCronError as refused:
        return go_to(request, "/reports", Flash("bad", str(refused)))
    return go_to(request, "/reports", Flash("good", f"Schedule {name} saved."))


@dataclass(frozen=True, slots=True)
class StripItem:
    """One number of the verdict, with its change since the previous report."""

    label: str
    value: str
    tone: str
    why: str
    delta: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportView:
    """Model of report.html."""

    id: int
    header: Mapping[str, Any]
    finished_at: dt.datetime | None
    requested_by: str
    took: str
    verdict: Mapping[str, Any]
    strip: Sequence[StripItem]
    brokers: Sequence[Mapping[str, Any]]
    brokers_chart: Markup | None
    bars_max: int
    racks: Sequence[Mapping[str, Any]]
    racks_chart: Markup | None
    now: Mapping[str, int]
    rack_losses: Sequence[Mapping[str, Any]]
    broker_losses: Sequence[Mapping[str, Any]]
    losses_chart: Markup | None
    margins: Mapping[str, Any]
    margins_chart: Markup | None
    violations: Sequence[Mapping[str, Any]]
    violations_total: int
    violations_gone: str
    reasons: Sequence[tuple[str, int]]
    reason: str
    search: str
    page: int
    pages: int
    page_query: str


def strip(verdict: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[StripItem]:
    """Return the numbers of the verdict, with their change since the verdict `before`."""

    def item(label: str, key: str, tone: str, why: str = "") -> StripItem:
        value = verdict[key]
        change = None if before is None else value - before[key]
        delta = "" if change is None else "unchanged" if change == 0 else f"{change:+,}".replace(",", "\u202f")
        return StripItem(label, number(value), tone if value else "good", why, delta)

    racks = verdict["rack_rule"]
    worst = verdict["worst_rack"]
    share = 100 * verdict["moves_from_balanced"] / verdict["replicas"] if verdict["replicas"] else 0.0
    rack_item = (
        StripItem("Rack rule", UNKNOWN, "", "no broker has a rack", "")
        if racks is None
        else StripItem(
            "Rack rule violations",
            number(racks["violated"]),
            "bad" if racks["violated"] else "good",
            f"{number(racks['unknown'])} unknown",
            "",
        )
    )
    items = [
        item("Offline", "offline", "bad"),
        item("Under min ISR", "under_min", "bad", f"kafka-topics: {number(verdict['cli_under_min'])}"),
        item("Under-replicated", "under_replicated", "warn"),
        rack_item,
        item(
            "Moves to balance",
            "moves_from_balanced",
            "warn",
            f"{share:.1f} % of {number(verdict['replicas'])} replicas",
        ),
        item(
            "Non-preferred leaders",
            "non_preferred",
            "warn",
            f"{number(verdict['fixable_by_election'])} fixable by election",
        ),
    ]
    if worst is not None:
        tone = "bad" if worst["if_lost_down"] else "warn" if worst["if_lost_refused"] else "good"
        why = (
            f"{number(worst['if_lost_refused'])} would reject writes, {number(worst['if_lost_down'])} lose their leader"
        )
        items.append(StripItem("Worst rack loss", worst["rack"], tone, why, ""))
    return items


async def known_report(services: Services, run_id: int) -> ReportRun:
    """Return a run that succeeded. Raises NotFoundError."""
    run = await services.database.read(store.get_run, run_id)
    if run is None or run.result is None:
        raise NotFoundError(f"There is no report {run_id}.")
    return run


def report_view(run: ReportRun, before: ReportRun | None, asked: Mapping[str, str], listed: "Listed") -> ReportView:
    """Return the report as the page shows it, compared with the run `before`."""
    assert run.result is not None, "the caller has checked"
    body, header = run.result["body"], run.result["header"]
    previous = None if before is None or before.result is None else before.result["body"]["verdict"]
    what_if = body["what_if"]
    query = {name: asked[name] for name in ("reason", "q") if asked.get(name)}
    return ReportView(
        id=run.id,
        header=header,
        finished_at=run.finished_at,
        requested_by=run.requested_by,
        took=f"{header['duration_ms'] / 1000:.1f} s",
        verdict=body["verdict"],
        strip=strip(body["verdict"], previous),
        brokers=body["brokers"],
        brokers_chart=charts.brokers_chart(body["brokers"]) if body["brokers"] else None,
        bars_max=charts.BARS_MAX,
        racks=body["racks"],
        racks_chart=charts.racks_chart(body["racks"]) if body["racks"] else None,
        now=what_if["now"],
        rack_losses=what_if["racks"],
        broker_losses=what_if["brokers"],
        losses_chart=charts.losses_chart(what_if["racks"]) if what_if["racks"] else None,
        margins=body["margins"],
        margins_chart=charts.margins_chart(body["margins"]["histogram"]) if body["margins"]["histogram"] else None,
        violations=listed.rows,
        violations_total=body["violations"]["total"],
        violations_gone=listed.gone,
        reasons=[(reason, body["violations"]["by_reason"].get(reason, 0)) for reason in REASONS],
        reason=asked.get("reason", ""),
        search=asked.get("q", ""),
        page=listed.page,
        pages=listed.pages,
        page_query=f"{urlencode(query)}&" if query else "",
    )


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of violations; `gone` says why the list is missing."""

    rows: Sequence[Mapping[str, Any]]
    page: int
    pages: int
    gone: str = ""


def list_violations(services: Services, run_id: int, asked: Mapping[str, str]) -> Listed:
    """Return the page of violations of an address."""
    page = whole_number(asked.get("page", "1"), 1, 10**7) or 1
    reason = asked.get("reason") if asked.get("reason") in REASONS else None
    start = (page - 1) * VIOLATIONS_SHOWN
    out = services.reports.folder_of(run_id) / "out"
    try:
        rows, total = violations_page(
            out, reason=reason, search=asked.get("q", ""), offset=start, limit=VIOLATIONS_SHOWN
        )
    except FileNotFoundError as gone:
        return Listed([], 1, 1, str(gone))
    return Listed(rows, page, max(1, -(-total // VIOLATIONS_SHOWN)))


@router.get("/reports/{run_id}.json")
async def report_json(request: Request, _caller: Reader, run_id: int) -> Response:
    """Return the report as the job wrote it."""
    run = await known_report(services_of(request), run_id)
    return JSONResponse(run.result, headers={"Content-Disposition": f'attachment; filename="report-{run_id}.json"'})


@router.get("/reports/{run_id}/violations.csv")
async def violations_file(request: Request, _caller: Reader, run_id: int) -> Response:
    """Return all violations as CSV."""
    services = services_of(request)
    await known_report(services, run_id)
    out = services.reports.folder_of(run_id) / "out"
    if not (out / "violations.parquet").exists():
        raise NotFoundError(f"The list of violations of report {run_id} no longer exists.")
    headers = {"Content-Disposition": f'attachment; filename="report-{run_id}-violations.csv"'}
    return StreamingResponse(violations_csv(out), media_type="text/csv; charset=utf-8", headers=headers)


@router.get("/reports/{run_id}/brokers.csv")
async def brokers_file(request: Request, _caller: Reader, run_id: int) -> Response:
    """Return the table of brokers as CSV."""
    run = await known_report(services_of(request), run_id)
    assert run.result is not None, "known_report has checked"
    rows = run.result["body"]["brokers"]
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: safe_cell(value) for name, value in row.items()} for row in rows)
    headers = {"Content-Disposition": f'attachment; filename="report-{run_id}-brokers.csv"'}
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


@router.get("/reports/{run_id}/log")
async def report_log(request: Request, _caller: Reader, run_id: int) -> Response:
    """Return the log of the job."""
    services = services_of(request)
    if await services.database.read(store.get_run, run_id) is None:
        raise NotFoundError(f"There is no report {run_id}.")
    text = services.reports.log_tail(run_id)
    if "text/html" not in request.headers.get("accept", "text/html"):
        return PlainTextResponse(text)
    page = page_of(request, f"Log of report {run_id}", "/reports")
    return render(request, "log.html", page=page, text=text, back_url="/reports", back="Reports")


@router.get("/reports/{run_id}")
async def report(request: Request, _caller: Reader, run_id: int) -> Response:
    """Return one report."""
    services = services_of(request)
    run = await known_report(services, run_id)
    before = await services.database.read(store.latest_report, run_id)
    listed = list_violations(services, run_id, request.query_params)
    view = report_view(run, before, request.query_params, listed)
    return render(request, "report.html", page=page_of(request, f"Placement report #{run_id}", "/reports"), view=view)
