"""Schedules of placement reports: one schedule, its change and its deletion, each with a preview."""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.http.errors import NotFoundError
from app.pages.confirm import ConfirmView, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import go_to, number, page_of, render
from app.reports.cron import EXAMPLE, InvalidCronError, InvalidTimeZoneError, next_dues
from app.reports.models import ReportSchedule, ReportWebhook
from app.reports.schedules import ScheduleSpec, get_schedule
from app.reports.webhooks import InvalidWebhookError, webhooks_of
from app.services import Reader, ReportEditor, Services, base_url_of, root_of, services_of
from app.texts import joined, phrase, recognised

router = APIRouter(include_in_schema=False)

NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
PREFIX: Final = re.compile(r"[A-Za-z0-9._-]{0,249}")
REFUSED: Final = (InvalidCronError, InvalidTimeZoneError, InvalidWebhookError)
DAYS: Final = (
    phrase("Mon"),
    phrase("Tue"),
    phrase("Wed"),
    phrase("Thu"),
    phrase("Fri"),
    phrase("Sat"),
    phrase("Sun"),
)
LABELS: Final = {
    "cron": phrase("Cron"),
    "time_zone": phrase("Time zone"),
    "enabled": phrase("Enabled"),
    "topic_prefix": phrase("Topics that start with"),
    "on_change": phrase("After topology changes"),
    "webhook_url": phrase("Webhook"),
}
DELIVERIES_SHOWN: Final = 10
DELIVERY_STATES: Final = {
    "waiting": (phrase("pending"), "info"),
    "sending": (phrase("sending"), "info"),
    "delivered": (phrase("delivered"), "good"),
    "failed": (phrase("given up"), "bad"),
    "unconfirmed": (phrase("unconfirmed"), "warn"),
}
"""The text and the tone of a notification's state. Unconfirmed: sent, but without an answer, so not sent again."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One notification of a schedule's webhook; `result` is the receiver's status or what went wrong."""

    run_id: int
    state: str
    tone: str
    attempts: int
    sent_at: dt.datetime | None
    result: str
    next_at: dt.datetime | None

    @classmethod
    def of(cls, webhook: ReportWebhook) -> "Delivery":
        """Return a notification as pages show it."""
        state, tone = DELIVERY_STATES[webhook.state]
        answered = "" if webhook.status is None else f"HTTP {webhook.status}"
        return cls(
            webhook.run_id,
            state,
            tone,
            webhook.attempts,
            webhook.sent_at,
            webhook.error or answered,
            webhook.due_at if webhook.state == "waiting" else None,
        )


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """Model of schedule.html. `name` is empty for a new schedule; `next_runs` are texts.

    `counts` says how many deliveries are in which state.
    """

    name: str
    spec: ScheduleSpec
    next_runs: Sequence[str]
    deliveries: Sequence[Delivery] = ()
    counts: str = ""


def spec_of(schedule: ReportSchedule) -> ScheduleSpec:
    """Return what a user has said about a schedule."""
    return ScheduleSpec(**{name: getattr(schedule, name) for name in LABELS})


def due_texts(spec: ScheduleSpec) -> list[str]:
    """Return the next runs in the schedule's time zone, none when it is disabled. Raises as `cron_trigger`."""
    dues = next_dues(spec.cron, spec.time_zone)
    return [_due_text(due) for due in dues] if spec.enabled else []


def _due_text(due: dt.datetime) -> str:
    return phrase("%(day)s %(time)s", day=DAYS[due.weekday()], time=due.strftime("%Y-%m-%d %H:%M %Z"))


def read_spec(form: Mapping[str, Any]) -> tuple[str, ScheduleSpec]:
    """Return name and schedule of a form."""
    given = {key: str(value).strip() for key, value in form.items()}
    spec = ScheduleSpec(
        cron=given.get("cron", "")[:128],
        time_zone=given.get("time_zone", "") or "UTC",
        enabled=bool(given.get("enabled")),
        topic_prefix=given.get("topic_prefix", ""),
        on_change=bool(given.get("on_change")),
        webhook_url=given.get("webhook_url") or None,
    )
    return given.get("name", ""), spec


def wrong_field(name: str, spec: ScheduleSpec) -> str:
    """Return what is wrong with name or prefix, empty if nothing."""
    if NAME.fullmatch(name) is None:
        return phrase("'%(name)s' is not a name: 1 to 64 letters, digits, '.', '_' or '-' are allowed.", name=name[:80])
    if PREFIX.fullmatch(spec.topic_prefix) is None:
        return phrase(
            "'%(prefix)s' starts no topic name: letters, digits, '.', '_' and '-' are allowed.",
            prefix=spec.topic_prefix[:80],
        )
    return ""


def _shown(value: str | bool | None) -> str:
    if isinstance(value, bool):
        return phrase("yes") if value else phrase("no")
    return phrase("none") if value is None else value or phrase("all")


async def _known(services: Services, name: str) -> ReportSchedule:
    schedule = await services.database.read(get_schedule, name)
    if schedule is None:
        raise NotFoundError(phrase("There is no schedule '%(name)s'.", name=name))
    return schedule


@router.get("/reports/new-schedule")
async def new_schedule(request: Request, _caller: ReportEditor) -> Response:
    """Return the form of a new schedule."""
    view = ScheduleView("", ScheduleSpec(cron=EXAMPLE), [])
    return render(request, "schedule.html", page=page_of(request, phrase("New schedule"), "/reports"), view=view)


@router.get("/reports/schedules/{name}")
async def schedule_page(request: Request, _caller: Reader, name: str) -> Response:
    """Return a schedule."""
    schedule = await _known(services_of(request), name)
    spec = spec_of(schedule)
    recent, counts = await services_of(request).database.read(webhooks_of, schedule.id, DELIVERIES_SHOWN)
    shown = [
        phrase("%(count)s %(state)s", count=number(counts[state]), state=text)
        for state, (text, _) in DELIVERY_STATES.items()
        if counts.get(state)
    ]
    said = phrase("%(counts)s.", counts=joined(", ", shown)) if shown else ""
    view = ScheduleView(name, spec, due_texts(spec), [Delivery.of(each) for each in recent], said)
    page = page_of(request, phrase("Schedule %(name)s", name=name), "/reports")
    return render(request, "schedule.html", page=page, view=view)


@router.post("/reports/schedules")
async def put_schedule(request: Request, caller: ReportEditor) -> Response:
    """Create or change a schedule after a preview, which shows its next runs."""
    services = services_of(request)
    form = {key: str(value) for key, value in (await request.form()).items()}
    name, spec = read_spec(form)
    known = await services.database.read(get_schedule, name)
    before = {} if known is None else asdict(spec_of(known))
    wanted = asdict(spec)
    error, runs = wrong_field(name, spec), list[str]()
    if not error:
        try:
            await services.actions.reports.put_schedule(caller, name, spec, validate_only=True)
            runs = due_texts(spec)
        except REFUSED as refused:
            error = recognised(str(refused))
    changes = [
        (LABELS[key], _shown(before[key]) if before else phrase("none"), _shown(value))
        for key, value in wanted.items()
        if not before or before[key] != value
    ]

    async def apply() -> Flash:
        await services.actions.reports.put_schedule(caller, name, spec)
        return Flash("good", phrase("Schedule %(name)s saved.", name=name))

    view = ConfirmView(
        title=phrase("Change schedule %(name)s", name=name[:100])
        if known
        else phrase("Create schedule %(name)s", name=name[:100]),
        active="/reports",
        back=phrase("Reports"),
        back_url="/reports",
        action="/reports/schedules",
        button=phrase("Save schedule"),
        changes=changes,
        consequences=[phrase("Next run: %(run)s", run=run) for run in runs]
        or [phrase("No run is planned while the schedule is disabled.")],
        curl=cluster_curl(request, "PUT", f"report-schedules/{name}", wanted),
        fields=[(key, value) for key, value in form.items() if key not in {"csrf_token", "confirmed"}],
    )
    return await preview_or_apply(request, view, confirmed=bool(form.get("confirmed")), apply=apply, error=error)


@router.post("/reports/schedules/{name}/test")
async def send_test(request: Request, caller: ReportEditor, name: str) -> Response:
    """Send a test to the schedule's webhook, and say how that ended."""
    services = services_of(request)
    schedule = await _known(services, name)
    try:
        sent = await services.actions.reports.send_test(
            caller, schedule, services.cluster.cluster_id, f"{base_url_of(request)}{root_of(request)}"
        )
    except InvalidWebhookError as refused:
        return go_to(
            request,
            f"/reports/schedules/{name}",
            Flash("bad", phrase("No test was sent: %(reason)s.", reason=recognised(str(refused)))),
        )
    if sent.state == "delivered":
        note = Flash("good", phrase("Test delivered: the receiver answered %(status)s.", status=sent.status))
    else:
        note = Flash("bad", phrase("Test not delivered: %(error)s.", error=recognised(sent.error or "")))
    return go_to(request, f"/reports/schedules/{name}", note)


@router.post("/reports/schedules/{name}/delete")
async def delete_schedule(request: Request, caller: ReportEditor, name: str) -> Response:
    """Delete a schedule after a preview."""
    services = services_of(request)
    schedule = await _known(services, name)
    form = await request.form()

    async def apply() -> Flash:
        await services.actions.reports.delete_schedule(caller, name)
        return Flash("good", phrase("Schedule %(name)s deleted.", name=name))

    view = ConfirmView(
        title=phrase("Delete schedule %(name)s", name=name),
        active="/reports",
        back=phrase("Reports"),
        back_url="/reports",
        action=f"/reports/schedules/{name}/delete",
        button=phrase("Delete schedule"),
        changes=[(phrase("Schedule %(name)s", name=name), f"{schedule.cron} {schedule.time_zone}", phrase("none"))],
        consequences=[phrase("Its reports remain.")],
        curl=cluster_curl(request, "DELETE", f"report-schedules/{name}"),
        dangerous=True,
    )
    return await preview_or_apply(request, view, confirmed=bool(form.get("confirmed")), apply=apply)
