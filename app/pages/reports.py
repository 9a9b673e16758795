"""Placement reports: the runs and their schedules, one report with charts, and its data as JSON and CSV."""

import csv
import datetime as dt
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from markupsafe import Markup

from app.http.errors import NotFoundError
from app.pages import charts
from app.pages.flash import Flash
from app.pages.frame import go_to, page_of, render
from app.pages.report_preview import preview
from app.pages.report_schedules import Delivery
from app.reports import store
from app.reports.cron import next_dues
from app.reports.models import ACTIVE_STATES, ReportRun
from app.reports.progress import STAGES
from app.reports.runner import NoImageError
from app.reports.schedules import list_schedules
from app.reports.violations import VIOLATIONS, safe_cell, violations_csv
from app.reports.webhooks import last_webhooks
from app.services import Reader, ReportEditor, Services, services_of
from app.texts import phrase, recognised

router = APIRouter(include_in_schema=False)

RUNS_SHOWN: Final = 30
VIOLATIONS_SHOWN: Final = 50
STATE_NAMES: Final = {
    "queued": phrase("queued"),
    "snapshotting": phrase("snapshotting"),
    "running": phrase("running"),
    "storing": phrase("storing"),
    "succeeded": phrase("succeeded"),
    "failed": phrase("failed"),
    "cancelled": phrase("cancelled"),
    "timed_out": phrase("timed out"),
    "lost": phrase("lost"),
}
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
    words: str
    tone: str
    image_offset: int | None
    created_at: dt.datetime
    took: str
    requested_by: str
    topic_prefix: str
    error: str
    has_log: bool
    has_events: bool


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """One schedule; `next_due` is None when it is disabled, `delivery` the last notification of its webhook."""

    name: str
    cron: str
    time_zone: str
    topic_prefix: str
    on_change: bool
    next_due: dt.datetime | None
    changed_by: str
    has_webhook: bool
    delivery: Delivery | None


@dataclass(frozen=True, slots=True)
class ReportsView:
    """Model of reports.html."""

    running: RunningRow | None
    runs: Sequence[RunRow]
    schedules: Sequence[ScheduleRow]
    trend: Callable[[], Markup] | None
    trend_runs: int


def took(begun: dt.datetime, ended: dt.datetime | None) -> str:
    """Return the duration of a run, empty while it runs."""
    return "" if ended is None else f"{(ended - begun).total_seconds():.1f} s"


def running_row(services: Services, run: ReportRun) -> RunningRow:
    """Return the progress that the process of the run reports."""
    said = services.reports.progress(run.id) if run.state == "running" else None
    if said is None:
        waiting = {"queued": phrase("waiting"), "snapshotting": phrase("writing the snapshot")}
        return RunningRow(run.id, 0, len(STAGES), waiting.get(run.state, STATE_NAMES[run.state]))
    values = {"name": recognised(said["name"]), "stage": said["stage"], "stages": said["stages"]}
    if said["tasks"]:
        done = {"done": said["tasks_done"], "tasks": said["tasks"]}
        text = phrase("%(name)s (stage %(stage)s of %(stages)s, %(done)s of %(tasks)s tasks)", **values, **done)
    else:
        text = phrase("%(name)s (stage %(stage)s of %(stages)s)", **values)
    return RunningRow(run.id, said["stage"], said["stages"], text)


async def reports_view(services: Services) -> ReportsView:
    """Return the runs, newest first, and the schedules."""
    runs = await services.database.read(store.list_runs, RUNS_SHOWN)
    schedules = await services.database.read(list_schedules)
    delivered = await services.database.read(last_webhooks)
    history = await services.database.read(store.verdict_history)
    active = next((run for run in runs if run.state in ACTIVE_STATES), None)
    return ReportsView(
        running=None if active is None else running_row(services, active),
        runs=[
            RunRow(
                id=run.id,
                state=run.state,
                words=STATE_NAMES[run.state],
                tone=TONES.get(run.state, "info"),
                image_offset=run.image_offset,
                created_at=run.created_at,
                took=took(run.created_at, run.finished_at),
                requested_by=run.requested_by,
                topic_prefix=run.topic_prefix,
                error=run.error or "",
                has_log=(services.reports.folder_of(run.id) / "run.log").exists(),
                has_events=run.state not in ACTIVE_STATES and services.reports.event_log(run.id) is not None,
            )
            for run in runs
        ],
        schedules=[
            ScheduleRow(
                each.name,
                each.cron,
                each.time_zone,
                each.topic_prefix,
                each.on_change,
                next(iter(next_dues(each.cron, each.time_zone, count=1)), None) if each.enabled else None,
                each.changed_by,
                each.webhook_url is not None,
                Delivery.of(delivered[each.id]) if each.id in delivered else None,
            )
            for each in schedules
        ],
        trend=partial(charts.trend_chart, history) if len(history) > 1 else None,
        trend_runs=len(history),
    )


@router.get("/reports")
async def reports(request: Request, _caller: Reader) -> Response:
    """Return the list."""
    services = services_of(request)
    view = await reports_view(services)
    has_report = await services.database.read(store.has_succeeded)
    now = None if has_report else await preview(services.cluster.image)
    page = page_of(request, phrase("Placement reports"), "/reports")
    return render(request, "reports.html", page=page, view=view, preview=now)


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
        return go_to(request, "/reports", Flash("warn", recognised(str(refused))))
    return go_to(request, "/reports", Flash("good", phrase("Report #%(id)s started.", id=run_id)))


@router.post("/reports/{run_id}/cancel")
async def cancel(request: Request, caller: ReportEditor, run_id: int) -> Response:
    """Cancel a run."""
    if await services_of(request).actions.reports.cancel(caller, run_id):
        return go_to(request, "/reports", Flash("good", phrase("Report #%(id)s cancelled.", id=run_id)))
    return go_to(request, "/reports", Flash("warn", phrase("Report #%(id)s is not running.", id=run_id)))


async def known_report(services: Services, run_id: int) -> ReportRun:
    """Return a run that succeeded. Raises NotFoundError."""
    run = await services.database.read(store.get_run, run_id)
    if run is None or run.result is None:
        raise NotFoundError(phrase("There is no report %(id)s.", id=run_id))
    return run


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
    if not (out / VIOLATIONS).exists():
        raise NotFoundError(phrase("The list of violations of report %(id)s no longer exists.", id=run_id))
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
        raise NotFoundError(phrase("There is no report %(id)s.", id=run_id))
    text = services.reports.log_tail(run_id)
    if "text/html" not in request.headers.get("accept", "text/html"):
        return PlainTextResponse(text)
    page = page_of(request, phrase("Log of report %(id)s", id=run_id), "/reports")
    return render(request, "log.html", page=page, text=text, back_url="/reports", back=phrase("Reports"))


@router.get("/reports/{run_id}/event-log")
async def event_log(request: Request, _caller: Reader, run_id: int) -> Response:
    """Return Spark's event log of a run."""
    found = services_of(request).reports.event_log(run_id)
    if found is None:
        raise NotFoundError(phrase("There is no event log of report %(id)s.", id=run_id))
    return FileResponse(found, media_type="application/octet-stream", filename=found.name)
