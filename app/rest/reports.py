"""Placement reports, in the style of REST v3."""

import asyncio
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query
from fastapi.responses import FileResponse, Response

from app.error_responses import NATIVE
from app.http.errors import (
    BadRequestError,
    ConflictError,
    GoneError,
    NotFoundError,
    UnavailableError,
)
from app.reports import store
from app.reports.models import ReportRun, ReportWebhook
from app.reports.runner import NoImageError
from app.reports.violations import REASONS, violations_page
from app.reports.webhooks import get_webhook
from app.reports.what_if import NoPlacementError, UnknownDomainError, lost_brokers, what_if
from app.rest.paging import NowPageDep
from app.rest.responses import DRY_RUN, accepted, answer, list_body, location_of, milliseconds, no_content, planned
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.reports import (
    ReportData,
    ReportDataList,
    RunReportBody,
    ViolationDataList,
    WhatIfData,
)
from app.rest.view import NowViewDep, View
from app.services import Reader, ReportEditor, Services, ServicesDep

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=[NATIVE, "reports"], route_class=JsonRoute)

ReportId = Annotated[int, Path(ge=1, le=2**63 - 1)]
FILES_GONE: Final[dict[int | str, dict[str, Any]]] = {410: {"description": "the files of the report are not kept here"}}
"""OpenAPI description of what needs the files of a run: the newest runs have them, on the process that ran them."""


def _report(
    view: View, services: Services, run: ReportRun, *, whole: bool, webhook: ReportWebhook | None = None
) -> dict[str, Any]:
    return view.resource(
        "KafkaPlacementReport",
        ("reports", run.id),
        (("report", run.id),),
        report_id=run.id,
        state=run.state,
        requested_by=run.requested_by,
        created_at=milliseconds(run.created_at),
        finished_at=milliseconds(run.finished_at),
        metadata_offset=run.image_offset,
        leader_epoch=run.image_epoch,
        topic_prefix=run.topic_prefix,
        reason=run.reason,
        error=run.error,
        progress=services.reports.progress(run.id) if run.state == "running" else None,
        webhook=None if webhook is None else {name: getattr(webhook, name) for name in ("state", "attempts", "error")},
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
async def run_report(
    view: NowViewDep,
    services: ServicesDep,
    caller: ReportEditor,
    validate_only: DryRun,
    body: RunReportBody | None = None,
) -> Response:
    """Start a report on the current metadata. Its resource shows the progress."""
    try:
        if validate_only:
            await services.actions.reports.check_run(caller)
            inputs = {"metadata_offset": view.image.offset, "leader_epoch": view.image.epoch}
            return planned([("report", None, inputs)])
        report_id = await services.actions.reports.run(caller, "" if body is None else body.topic_prefix)
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
    _view: NowViewDep, services: ServicesDep, caller: ReportEditor, report_id: ReportId, validate_only: DryRun
) -> Response:
    """Cancel a running report and end its processes."""
    run = await _known(services, report_id)
    if not await services.actions.reports.cancel(caller, report_id, validate_only=validate_only):
        raise ConflictError(f"Report {report_id} is not running; its state is {run.state}.", code="report-not-running")
    if validate_only:
        return planned([(f"report {report_id}", {"state": run.state}, {"state": "cancelled"})])
    return no_content()


@router.get("/reports", responses={200: {"model": ReportDataList}})
async def list_reports(view: NowViewDep, services: ServicesDep, page: NowPageDep, _caller: Reader) -> Response:
    """List the runs, newest first, without their results."""
    runs = await services.database.read(store.list_runs, 1_000)
    return page.answer(
        "KafkaPlacementReportList",
        runs,
        lambda run: -run.id,
        lambda run: _report(view, services, run, whole=False),
    )


@router.get("/reports/{report_id}", responses={200: {"model": ReportData}})
async def get_report(view: NowViewDep, services: ServicesDep, _caller: Reader, report_id: ReportId) -> Response:
    """Return one run with its result: the sections verdict, brokers, racks, what_if, violations and margins."""
    run = await _known(services, report_id)
    webhook = await services.database.read(get_webhook, report_id)
    return answer(_report(view, services, run, whole=True, webhook=webhook), view.offset)


@router.get(
    "/reports/{report_id}/event-log",
    response_class=FileResponse,
    responses={200: {"content": {"application/octet-stream": {}}}, **FILES_GONE},
)
async def get_event_log(_view: NowViewDep, services: ServicesDep, _caller: Reader, report_id: ReportId) -> Response:
    """Return Spark's event log of a run, for Spark's history server. The file name says how it is compressed."""
    await _known(services, report_id)
    found = services.reports.event_log(report_id)
    if found is None:
        raise GoneError(f"Report {report_id} has no event log on this web process.")
    return FileResponse(found, media_type="application/octet-stream", filename=found.name)


@router.get("/reports/{report_id}/violations", responses={200: {"model": ViolationDataList}, **FILES_GONE})
async def list_violations(
    view: NowViewDep,
    services: ServicesDep,
    page: NowPageDep,
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


@router.get("/reports/{report_id}/what-if", responses={200: {"model": WhatIfData}, **FILES_GONE})
async def what_if_lost(
    view: NowViewDep,
    services: ServicesDep,
    _caller: Reader,
    report_id: ReportId,
    brokers: Annotated[str, Query(max_length=65_536, description="ids of brokers, separated by commas")] = "",
    racks: Annotated[str, Query(max_length=65_536, description="names of racks, separated by commas")] = "",
) -> Response:
    """Return what the loss of these brokers and racks together would do, from the files of a report."""
    run = await _known(services, report_id)
    if run.result is None:
        raise NotFoundError(f"Report {report_id} has no result; its state is {run.state}.")
    body, out = run.result["body"], services.reports.folder_of(report_id) / "out"
    try:
        lost = lost_brokers(body, brokers, racks)
        found = await asyncio.to_thread(what_if, out, body, lost)
    except UnknownDomainError as unknown:
        raise BadRequestError(f"Bad Request: {unknown}") from unknown
    except NoPlacementError as gone:
        raise GoneError(str(gone)) from gone
    data = view.resource("KafkaPlacementWhatIf", ("reports", run.id, "what-if"), (("report", run.id),), **found)
    return answer(data, run.image_offset)
