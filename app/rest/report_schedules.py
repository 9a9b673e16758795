"""Schedules of placement reports, in the style of REST v3."""

from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import Response

from app.error_responses import NATIVE
from app.http.errors import FieldError, NotFoundError, UnprocessableError
from app.reports.cron import InvalidCronError, InvalidTimeZoneError, next_dues
from app.reports.models import ReportSchedule
from app.reports.schedules import ScheduleSpec, get_schedule, list_schedules
from app.reports.webhooks import InvalidWebhookError
from app.rest.paging import NowPageDep
from app.rest.responses import DRY_RUN, answer, checked, milliseconds, no_content, planned
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.reports import PutScheduleBody, ScheduleData, ScheduleDataList
from app.rest.view import NowViewDep, View
from app.services import Reader, ReportEditor, ServicesDep

router = APIRouter(prefix="/v3/clusters/{cluster_id}/report-schedules", tags=[NATIVE, "reports"], route_class=JsonRoute)

Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
FIELD_OF = {InvalidCronError: "/cron", InvalidTimeZoneError: "/time_zone", InvalidWebhookError: "/webhook_url"}


def _schedule(view: View, schedule: ReportSchedule) -> dict[str, Any]:
    dues = next_dues(schedule.cron, schedule.time_zone) if schedule.enabled else []
    times = [milliseconds(due) for due in dues]
    return view.resource(
        "KafkaPlacementSchedule",
        ("report-schedules", schedule.name),
        (("report-schedule", schedule.name),),
        name=schedule.name,
        cron=schedule.cron,
        time_zone=schedule.time_zone,
        enabled=schedule.enabled,
        topic_prefix=schedule.topic_prefix,
        on_change=schedule.on_change,
        webhook_url=schedule.webhook_url,
        next_due=times[0] if times else None,
        next_runs=times,
        changed_by=schedule.changed_by,
    )


@router.get("", responses={200: {"model": ScheduleDataList}})
async def list_report_schedules(view: NowViewDep, services: ServicesDep, page: NowPageDep, _caller: Reader) -> Response:
    """List the schedules by name."""
    schedules = await services.database.read(list_schedules)
    return page.answer(
        "KafkaPlacementScheduleList", schedules, lambda each: each.name, lambda each: _schedule(view, each)
    )


@router.get("/{name}", responses={200: {"model": ScheduleData}})
async def get_report_schedule(view: NowViewDep, services: ServicesDep, _caller: Reader, name: Name) -> Response:
    """Describe a schedule, with its next five runs."""
    schedule = await services.database.read(get_schedule, name)
    if schedule is None:
        raise NotFoundError(f"Schedule '{name}' cannot be found.")
    return answer(_schedule(view, schedule), view.offset)


@router.put("/{name}", responses={200: {"model": ScheduleData}})
async def put_report_schedule(
    view: NowViewDep,
    services: ServicesDep,
    caller: ReportEditor,
    name: Name,
    body: PutScheduleBody,
    validate_only: DryRun,
) -> Response:
    """Create or replace a schedule. It takes effect at once. A dry run shows its next five runs."""
    spec = ScheduleSpec(**body.model_dump(exclude={"validate_only"}))
    try:
        schedule = await services.actions.reports.put_schedule(caller, name, spec, validate_only=validate_only)
    except (InvalidCronError, InvalidTimeZoneError, InvalidWebhookError) as wrong:
        raise UnprocessableError(str(wrong), errors=(FieldError(FIELD_OF[type(wrong)], str(wrong)),)) from wrong
    return answer(checked(_schedule(view, schedule), validate_only=validate_only), view.offset)


@router.delete("/{name}", status_code=204, responses=DRY_RUN)
async def delete_report_schedule(
    view: NowViewDep, services: ServicesDep, caller: ReportEditor, name: Name, validate_only: DryRun
) -> Response:
    """Delete a schedule. Its reports remain."""
    schedule = await services.database.read(get_schedule, name)
    deleted = await services.actions.reports.delete_schedule(caller, name, validate_only=validate_only)
    if schedule is None or not deleted:
        raise NotFoundError(f"Schedule '{name}' cannot be found.")
    if validate_only:
        return planned([(f"schedule {name}", _schedule(view, schedule), None)])
    return no_content()
