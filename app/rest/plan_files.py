"""The default plan of a placement report, in the formats of Apache Kafka's tools."""

import asyncio
from pathlib import Path as FilePath

from fastapi import APIRouter
from fastapi.responses import FileResponse

from app.error_responses import NATIVE
from app.http.errors import GoneError, NotFoundError
from app.reports import store
from app.reports.proposals.formats import ELECT, REASSIGN, ROLLBACK
from app.rest.reports import FILES_GONE, ReportId
from app.rest.routing import JsonRoute
from app.rest.view import NowViewDep
from app.services import Reader, Services, ServicesDep

router = APIRouter(
    prefix="/v3/clusters/{cluster_id}/reports/{report_id}", tags=[NATIVE, "reports"], route_class=JsonRoute
)


@router.get("/reassign.json", response_class=FileResponse, responses=FILES_GONE)
async def get_reassignment_file(
    _view: NowViewDep, services: ServicesDep, _caller: Reader, report_id: ReportId
) -> FileResponse:
    """Return the default plan for `kafka-reassign-partitions --reassignment-json-file`."""
    return await _file(services, report_id, REASSIGN)


@router.get("/rollback.json", response_class=FileResponse, responses=FILES_GONE)
async def get_rollback(_view: NowViewDep, services: ServicesDep, _caller: Reader, report_id: ReportId) -> FileResponse:
    """Return the assignment before the default plan, in the same format: what undoes the plan."""
    return await _file(services, report_id, ROLLBACK)


@router.get("/elect.json", response_class=FileResponse, responses=FILES_GONE)
async def get_elections(_view: NowViewDep, services: ServicesDep, _caller: Reader, report_id: ReportId) -> FileResponse:
    """Return the default plan's elections for `kafka-leader-election --path-to-json-file`."""
    return await _file(services, report_id, ELECT)


async def _file(services: Services, report_id: int, name: str) -> FileResponse:
    """Raise NotFoundError if the report has no plan, GoneError if its files were removed by age."""
    run = await services.database.read(store.get_run, report_id)
    if run is None:
        raise NotFoundError(f"Report {report_id} cannot be found.")
    if run.state != "succeeded" or run.result is None:
        raise NotFoundError(f"Report {report_id} has no plan; its state is {run.state}.")
    proposal = run.result["body"].get("proposal")
    if proposal is None:
        raise NotFoundError(f"Report {report_id} has no plan: it was made by a version that made none.")
    if proposal["refused"]:
        raise NotFoundError(f"Report {report_id} has no plan: {' '.join(proposal['refused'])}")
    path: FilePath = services.reports.folder_of(report_id) / "out" / name
    if not await asyncio.to_thread(path.exists):
        raise GoneError(f"The plan of report {report_id} is gone: only the files of the newest reports are kept.")
    return FileResponse(path, media_type="application/json", filename=f"report-{report_id}-{name}")
