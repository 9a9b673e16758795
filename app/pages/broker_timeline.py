"""The timeline of a broker: its states as a chart, and every event of its registration as a table."""

import asyncio
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from markupsafe import Markup, escape

from app.cluster.log_events.broker_timeline import Span, Timeline, TimelineEntry, timeline
from app.cluster.log_events.events import BrokerEvent, BrokerState, state_of
from app.http.errors import NotFoundError
from app.pages.frame import UNKNOWN, duration, moment, page_items, page_of, render, rows_on_page
from app.pages.survey_notes import SurveyNotes, notes_of, survey_of
from app.services import PastReader, services_of
from app.texts import joined, phrase, shown

router = APIRouter(include_in_schema=False)

ROWS: Final = 100
WIDTH: Final = 960
HEIGHT: Final = 74
BAR: Final = (26, 24)
"""Top and height of the bars."""
SPANS_MAX: Final = 300
"""Most states in the chart; it begins with the oldest of them."""
LEAST_WIDTH: Final = 1.5
"""A short outage stays visible."""
TONES: Final[dict[BrokerState, str]] = {"active": "plain", "shutting-down": "warn", "fenced": "bad"}
SPAN_WORDS: Final[Mapping[BrokerState, str]] = {
    "active": phrase("active"),
    "shutting-down": phrase("shutting down"),
    "fenced": phrase("fenced"),
}
DETAILS: Final[Mapping[str, str]] = {
    "the broker was restarted": phrase("the broker was restarted"),
    "the same incarnation as before": phrase("the same incarnation as before"),
    "none any more": phrase("none any more"),
}
WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "registered": (phrase("registered"), "info"),
    "registered-again": (phrase("registered again"), "info"),
    "unfenced": (phrase("unfenced"), "good"),
    "fenced": (phrase("fenced"), "bad"),
    "controlled-shutdown": (phrase("controlled shutdown"), "warn"),
    "directories-offline": (phrase("directories offline"), "bad"),
    "directories-online": (phrase("directories online"), "good"),
    "cordoned": (phrase("cordoned directories"), "warn"),
    "unregistered": (phrase("unregistered"), "bad"),
}


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One event in words."""

    offset: int
    change: int
    at: dt.datetime
    text: str
    tone: str
    lasted: str
    leaders_lost: int | None
    epoch: int
    detail: str


@dataclass(frozen=True, slots=True)
class TimelineView:
    """Model of broker_timeline.html; events newest first. `chart` draws in the reader's language, None of nothing."""

    broker_id: int
    chart: Callable[[], Markup | None]
    rows: Sequence[TimelineRow]
    notes: SurveyNotes
    page: int
    pages: int


def timeline_row(entry: TimelineEntry) -> TimelineRow:
    """Return one row."""
    event = entry.event
    text, tone = WORDS[event.kind]
    lasted = UNKNOWN if entry.lasted_ms is None else duration(entry.lasted_ms)
    return TimelineRow(
        offset=event.offset,
        change=event.change,
        at=_moment(event.time_ms),
        text=text,
        tone=tone,
        lasted=phrase("%(duration)s until now", duration=lasted) if entry.is_current else lasted,
        leaders_lost=entry.leaders_lost,
        epoch=event.epoch,
        detail=detail_text(event),
    )


def detail_text(event: BrokerEvent) -> str:
    """Return the detail of an event, whose parts are known sentences, ids and racks."""
    if event.kind not in {"registered", "registered-again", "cordoned"}:
        return event.detail
    parts: list[str] = []
    for part in event.detail.split(", "):
        kind, _, name = part.partition(" ")
        if part in DETAILS:
            parts.append(DETAILS[part])
        elif kind == "incarnation":
            parts.append(phrase("incarnation %(id)s", id=name))
        elif kind == "rack":
            parts.append(phrase("rack %(name)s", name=name))
        else:
            parts.append(part)
    return joined(", ", parts)


def timeline_chart(found: Timeline, broker_id: int) -> Markup | None:
    """Return one bar for each state along the time: active, shutting down, fenced; nothing while unregistered."""
    spans = found.spans[-SPANS_MAX:]
    begin, end = spans[0].from_ms, spans[-1].to_ms
    if end <= begin:
        return None
    scale = WIDTH / (end - begin)
    top, height = BAR
    parts = [f'<line class="axis-line" x1="0" x2="{WIDTH}" y1="{top + height}" y2="{top + height}"/>']
    parts += [_bar((span.from_ms - begin) * scale, span, scale) for span in spans if span.state in TONES]
    for entry in found.entries:
        if entry.event.kind == "directories-offline" and entry.event.time_ms >= begin:
            x = (entry.event.time_ms - begin) * scale
            title = phrase("%(time)s: directories offline", time=moment(_moment(entry.event.time_ms)))
            parts.append(
                f'<circle class="tone-bad" cx="{x:.1f}" cy="14" r="4.5"><title>{escape(shown(title))}</title></circle>'
            )
    parts.append(f'<text class="note" x="0" y="{HEIGHT - 6}">{moment(_moment(begin))}</text>')
    parts.append(f'<text class="note end" x="{WIDTH}" y="{HEIGHT - 6}">{moment(_moment(end))}</text>')
    label = phrase(
        "States of broker %(id)s from %(begin)s to %(end)s",
        id=broker_id,
        begin=moment(_moment(begin)),
        end=moment(_moment(end)),
    )
    return Markup(  # noqa: S704 - numbers, times, and titles that are escaped
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(shown(label))}">{"".join(parts)}</svg>'
    )


def _bar(x: float, span: Span, scale: float) -> str:
    width = max((span.to_ms - span.from_ms) * scale, LEAST_WIDTH)
    title = phrase(
        "%(state)s for %(duration)s from %(time)s",
        state=SPAN_WORDS[span.state],
        duration=duration(span.to_ms - span.from_ms),
        time=moment(_moment(span.from_ms)),
    )
    top, height = BAR
    return (
        f'<rect class="tone-{TONES[span.state]}" x="{x:.1f}" y="{top}" width="{width:.1f}" height="{height}">'
        f"<title>{escape(shown(title))}</title></rect>"
    )


def _moment(at_ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(max(0, at_ms) / 1000, dt.UTC)


@router.get("/brokers/{broker_id}/timeline")
async def broker_timeline(
    request: Request, _caller: PastReader, broker_id: Annotated[int, Path(ge=0, le=2**31 - 1)], page: int = 1
) -> Response:
    """Return the timeline of a broker, also of one that is no longer registered."""
    cluster = services_of(request).cluster
    broker = cluster.image.cluster.brokers.get(broker_id)
    survey, now_ms = await survey_of(cluster)
    found = await asyncio.to_thread(
        timeline, survey.events, broker_id, state_now=state_of(broker), first_ms=survey.first_ms, now_ms=now_ms
    )
    notes = notes_of(survey)
    if broker is None and not found.entries and not notes.is_reading:
        raise NotFoundError(
            phrase("Broker %(id)s is not registered, and the log that is kept does not mention it.", id=broker_id)
        )
    entries, page, pages = page_items(found.entries[::-1], page, rows_on_page(request, ROWS))
    rows = [timeline_row(each) for each in entries]
    view = TimelineView(broker_id, partial(timeline_chart, found, broker_id), rows, notes, page, pages)
    title = phrase("Broker %(id)s", id=broker_id)
    return render(request, "broker_timeline.html", page=page_of(request, title, "/brokers"), view=view)
