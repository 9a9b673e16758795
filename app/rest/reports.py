"""Placement reports and their schedules, in the style of REST v3."""

import datetime as dt
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from app.error_responses import NATIVE
from app.http.errors import (
    BadRequestError,
    ConflictError,
    FieldError,
    GoneError,
    NotFoundError,
    UnavailableError,
    UnprocessableError,
)
from app.reports import store
from app.reports.models import ReportRun, ReportSchedule
from app.reports.runner import NoImageError
from app.reports.scheduler import InvalidCronError, next_due
from app.reports.violations import REASONS, violations_page
from app.rest.paging import PageDep
from app.rest.responses import DRY_RUN, accepted, answer, checked, list_body, location_of, no_content, planned
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.reports import (
    PutScheduleBody,
    ReportData,
    ReportDataList,
    ScheduleData,
    ScheduleDataList,
    ViolationDataList,
)
from app.rest.view import View, ViewDep
from app.services import Reader, ReportEditor, Services, ServicesDep

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=[NATIVE, "reports"], route_class=JsonRoute)

ReportId = Annotated[int, Path(ge=1, le=2**63 - 1)]


def _ms(moment: dt.datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)


def _report(view: View, services: Services, run: ReportRun, *, whole: bool) -> dict[str, Any]:
    return view.resource(
        "KafkaPlacementReport",
        ("reports", run.id),
        (("report", run.id),),
        report_id=run.id,
        state=run.state,
        requested_by=run.requested_by,
        created_at=_ms(run.created_at),
        finished_at=_ms(run.finished_at),
        metadata_offset=run.image_offset,
        leader_epoch=run.image_epoch,
        reason=run.reason,
        error=run.error,
        progress=services.reports.progress(run.id) if run.state == "running" else None,
        result=run.result if whole else None,
    )


async def _known(services: Services, report_id: int) -> ReportRun:
    run = await services.database.read(store.get_run, report_id)
    if run is None:
        raise NotFoundError(f"Report {report_id} cannot be found.")
    return run


@router.post(
    "/reports:run",
    status_code=202,
    responses={**DRY_RUN, 202: {"model": ReportData}, 409: {"description": "another report is running"}},
)
async def run_report(view: ViewDep, services: ServicesDep, caller: ReportEditor, validate_only: DryRun) -> Response:
    """Start a report on the current metadata. Its resource shows the progress."""
    try:
        if validate_only:
            await services.actions.reports.check_run(caller)
            inputs = {"metadata_offset": view.image.offset, "leader_epoch": view.image.epoch}
            return planned([("report", None, inputs)])
        report_id = await services.actions.reports.run(caller)
    except store.ReportBusyError as busy:
        raise ConflictError(str(busy), code="report-busy") from busy
    except NoImageError as early:
        raise UnavailableError(str(early), retry_after_seconds=1) from early
    run = await _known(services, report_id)
    data = _report(view, services, run, whole=False)
    return accepted(data, view.offset, location_of(data))


@router.post(
    "/reports/{report_id}:cancel",
    status_code=204,
    responses={**DRY_RUN, 409: {"description": "the report is not running"}},
)
async def cancel_report(
    _view: ViewDep, services: ServicesDep, caller: ReportEditor, report_id: ReportId, validate_only: DryRun
) -> Response:
    """Cancel a running report and end its processes."""
    run = await _known(services, report_id)
    if not await services.actions.reports.cancel(caller, report_id, validate_only=validate_only):
        raise ConflictError(f"Report {report_id} is not running; its state is {run.state}.", code="report-not-running")
    if validate_only:
        return planned([(f"report {report_id}", {"state": run.state}, {"state": "cancelled"})])
    return no_content()


@router.get("/reports", responses={200: {"model": ReportDataList}})
async def list_reports(view: ViewDep, services: ServicesDep, page: PageDep, _caller: Reader) -> Response:
    """List the runs, newest first, without their results."""
    runs = await services.database.read(store.list_runs, 1_000)
    return page.answer(
        "KafkaPlacementReportList",
        runs,
        lambda run: -run.id,
        lambda run: _report(view, services, run, whole=False),
    )


@router.get("/reports/{report_id}", responses={200: {"model": ReportData}})
async def get_report(view: ViewDep, services: ServicesDep, _caller: Reader, report_id: ReportId) -> Response:
    """Return one run with its result: the sections verdict, brokers, racks, what_if, violations and margins."""
    return answer(_report(view, services, await _known(services, report_id), whole=True), view.offset)


@router.get("/reports/{report_id}/violations", responses={200: {"model": ViolationDataList}})
async def list_violations(
    view: ViewDep,
    services: ServicesDep,
    page: PageDep,
    _caller: Reader,
    report_id: ReportId,
    reason: Annotated[str | None, Query(description=f"one of {', '.join(REASONS)}")] = None,
    topic: Annotated[str, Query(max_length=249, description="part of the topic name")] = "",
) -> Response:
    """List the partitions that violate a placement rule."""
    run = await _known(services, report_id)
    if run.state != "succeeded":
        raise NotFoundError(f"Report {report_id} has no result; its state is {run.state}.")
    if reason is not None and reason not in REASONS:
        raise BadRequestError(f"Bad Request: reason cannot be '{reason[:40]}'; allowed: {', '.join(REASONS)}.")
    start = page.after if isinstance(page.after, int) and page.after >= 0 else 0
    out = services.reports.folder_of(report_id) / "out"
    try:
        rows, total = violations_page(out, reason=reason, search=topic, offset=start, limit=page.size)
    except FileNotFoundError as gone:
        raise GoneError(str(gone)) from gone
    end = start + len(rows)
    following = page.next_url(end) if end < total else None
    body = list_body("KafkaPlacementViolationList", page.url, rows, following)
    return answer({**body, "total": total}, run.image_offset)


def _schedule(view: View, schedule: ReportSchedule) -> dict[str, Any]:
    return view.resource(
        "KafkaPlacementSchedule",
        ("report-schedules", schedule.name),
        (("report-schedule", schedule.name),),
        name=schedule.name,
        cron=schedule.cron,
        enabled=schedule.enabled,
        next_due=_ms(next_due(schedule.cron)) if schedule.enabled else None,
        changed_by=schedule.changed_by,
    )


@router.get("/report-schedules", responses={200: {"model": ScheduleDataList}})
async def list_schedules(view: ViewDep, services: ServicesDep, page: PageDep, _caller: Reader) -> Response:
    """List the schedules by name."""
    schedules = await services.database.read(store.schedules)
    return page.answer(
        "KafkaPlacementScheduleList", schedules, lambda each: each.name, lambda each: _schedule(view, each)
    )


@router.put("/report-schedules/{name}", responses={200: {"model": ScheduleData}})
async def put_schedule(
    view: ViewDep,
    services: ServicesDep,
    caller: ReportEditor,
    name: Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,64}$")],
    body: PutScheduleBody,
    validate_only: DryRun,
) -> Response:
    """Create or replace a schedule. It takes effect at once."""
    try:
        schedule = await services.actions.reports.put_schedule(
            caller, name, body.cron, enabled=body.enabled, validate_only=validate_only
        )
    except InvalidCronError as wrong:
        raise UnprocessableError(str(wrong), errors=(FieldError("/cron", str(wrong)),)) from wrong
    return answer(checked(_schedule(view, schedule), validate_only=validate_only), view.offset)
