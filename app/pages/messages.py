"""The messages of a topic: windows by offset or time, the newest, filters, one record, and a live tail."""

import datetime as dt
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from app.cluster.record_windows import Window
from app.cluster.records import Found, Tailed, TooManyReadersError
from app.http.errors import FORM_REFUSED, NotFoundError
from app.pages.frame import REFUSALS, html_of, number, page_of, refusal, render, size
from app.pages.message_query import CURSOR_MAX, MessageForm, QueryError, cursor_text, parse_form, query_of
from app.pages.topic import known_topic
from app.records.contents import FORMATS, Content, Decoder, content_of, sizes_of, visible
from app.records.filters import FIELDS, OPERATORS
from app.services import RecordReader, services_of
from kraft_core.clients.consumer.clipping_decoder import ClippedRecord
from kraft_core.clients.consumer.uniform_records import Raw
from kraft_core.image.metadata_image import TopicImage

router = APIRouter(include_in_schema=False)

PREVIEW_CHARACTERS: Final = 160
DETAIL_CHARACTERS: Final = 4_000
WHOLE_CHARACTERS: Final = 1 << 20
HEADERS_SHOWN: Final = 100
PARTS_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One record. `headers` are (name, content); `has_headers` is false if they were too long to keep."""

    partition: int
    offset: int
    time: str
    time_type: str
    key: Content
    value: Content
    headers: Sequence[tuple[str, Content]]
    has_headers: bool
    size: int
    url: str

    @property
    def key_line(self) -> str:
        """The key in one line."""
        return _line(self.key)

    @property
    def value_line(self) -> str:
        """The value in one line."""
        return _line(self.value)


@dataclass(frozen=True, slots=True)
class PartRow:
    """How far one partition was read: the offsets of its log, those that were read, and the error."""

    index: int
    log: str
    read: str
    scanned: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesView:
    """Model of messages.html."""

    name: str
    partitions: int
    form: MessageForm
    rows: Sequence[MessageRow] = ()
    summary: str = ""
    stopped: str = ""
    errors: Sequence[str] = ()
    parts: Sequence[PartRow] = ()
    older_url: str = ""
    newer_url: str = ""
    tail_url: str = ""
    note: str = ""
    error: str = ""
    formats: Sequence[str] = FORMATS
    fields: Sequence[str] = FIELDS
    operators: Sequence[str] = OPERATORS


@dataclass(frozen=True, slots=True)
class MessageView:
    """Model of message.html."""

    name: str
    row: MessageRow


def message_row(name: str, record: Raw, decoder: Decoder, most: int = DETAIL_CHARACTERS) -> MessageRow:
    """Return a record with contents of at most `most` characters."""
    key, value = decoder.shown(record, most)
    headers = [
        (visible(each[:PREVIEW_CHARACTERS]), content_of(content, "auto", DETAIL_CHARACTERS))
        for each, content in record.headers[:HEADERS_SHOWN]
    ]
    return MessageRow(
        partition=record.partition,
        offset=record.offset,
        time=time_text(record.timestamp_ms),
        time_type="log append time" if record.timestamp_type else "create time",
        key=key,
        value=value,
        headers=headers,
        has_headers=not isinstance(record, ClippedRecord) or record.has_headers,
        size=sum(max(0, each) for each in sizes_of(record)),
        url=f"/topics/{quote(name, safe='')}/messages/{record.partition}/{record.offset}",
    )


def time_text(timestamp_ms: int) -> str:
    """Return a timestamp to the ms in UTC; the number if no calendar has it."""
    try:
        moment = dt.datetime.fromtimestamp(timestamp_ms / 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{timestamp_ms % 1000:03d}"


def _line(content: Content) -> str:
    text = " ".join(content.text[: PREVIEW_CHARACTERS * 4].split())
    return text[:PREVIEW_CHARACTERS] + ("…" if len(text) > PREVIEW_CHARACTERS or content.is_cut else "")


def _summary(found: Found) -> str:
    window = found.window
    shown = f"{number(len(window.records))} record{'' if len(window.records) == 1 else 's'}."
    return (
        f"{shown} Scanned {number(window.scanned)} ({size(window.scanned_bytes)}) "
        f"in {len(window.parts)} partition{'' if len(window.parts) == 1 else 's'}, {found.seconds:.1f} s."
    )


def _stopped(window: Window) -> str:
    """Return where a limit ended the window, "" if none did."""
    if not window.stopped:
        return ""
    reached = [
        f"partition {each.index} {'down ' if window.is_backwards else ''}to offset {number(each.position)}"
        for each in window.parts.values()
        if each.scanned and not each.is_at_bound
    ]
    where = "; ".join(reached[:3]) + (f" and {len(reached) - 3} more" if len(reached) > 3 else "")
    return f"Stopped after {window.stopped}{': ' + where if where else ''}."


def _parts(window: Window) -> list[PartRow]:
    return [
        PartRow(
            each.index,
            f"{number(each.first)} to {number(each.end)}",
            f"{number(min(each.start, each.position))} to {number(max(each.start, each.position))}",
            each.scanned,
            each.error,
        )
        for each in list(window.parts.values())[:PARTS_SHOWN]
    ]


def messages_view(topic: TopicImage, form: MessageForm, found: Found) -> MessagesView:
    """Return the page of a window."""
    window, base = found.window, f"/topics/{quote(topic.name, safe='')}/messages"

    def url(at: Mapping[int, int], direction: str) -> str:
        return (
            f"{base}?{urlencode([*form.pairs(position=False), ('cursor', cursor_text(at)), ('direction', direction)])}"
        )

    can_continue = len(window.parts) <= CURSOR_MAX
    return MessagesView(
        name=topic.name,
        partitions=len(topic.partitions),
        form=form,
        rows=[message_row(topic.name, record, found.decoder) for record in window.records],
        summary=_summary(found),
        stopped=_stopped(window),
        errors=[f"Partition {index} is not shown: {error}" for index, error in sorted(found.errors.items())],
        parts=_parts(window),
        older_url=url(window.older, "older") if can_continue and window.has_older else "",
        newer_url=url(window.newer, "newer") if can_continue and (window.has_newer or window.is_backwards) else "",
        tail_url=f"{base}/events?{urlencode(form.pairs(position=False))}",
        note="" if can_continue else f"Of more than {CURSOR_MAX} partitions only one window is shown; choose one.",
    )


@router.get("/topics/{name}/messages")
async def messages(request: Request, caller: RecordReader, name: str) -> Response:
    """Return a window of records. The address has the whole query, so that it can be shared."""
    services = services_of(request)
    topic = known_topic(services.cluster, name)
    form = parse_form(request.query_params)
    status = 200
    view = MessagesView(name=name, partitions=len(topic.partitions), form=form)
    try:
        found = await services.actions.records.read(caller, query_of(topic, form))
        view = messages_view(topic, form, found)
    except QueryError as wrong:
        view, status = _with_error(view, str(wrong)), FORM_REFUSED
    except TooManyReadersError as busy:
        view, status = _with_error(view, str(busy)), busy.status
    except REFUSALS as refused:
        text, status = refusal(refused)
        view = _with_error(view, text)
    return render(request, "messages.html", status, page=page_of(request, name, "/topics"), view=view)


def _with_error(view: MessagesView, error: str) -> MessagesView:
    return MessagesView(name=view.name, partitions=view.partitions, form=view.form, error=error)


@router.get("/topics/{name}/messages/events")
async def tail(request: Request, caller: RecordReader, name: str) -> Response:
    """Return server-sent events for messages.js: rows of new records, and what was passed over.

    The id of an event is the cursor behind it, so that a reader resumes without gap or repeat.
    """
    services = services_of(request)
    topic = known_topic(services.cluster, name)
    form = parse_form(request.query_params)
    resumed = request.headers.get("last-event-id", "")
    try:
        query = query_of(topic, form.resumed(resumed) if resumed else form)
    except QueryError as wrong:
        raise NotFoundError(str(wrong)) from None

    async def stream() -> AsyncIterator[str]:
        yield "retry: 1000\n\n"
        try:
            async for each in services.actions.records.tail(caller, query):
                yield _event(request, name, each)
                if services.cluster.is_stopping or await request.is_disconnected():
                    return
        except (TooManyReadersError, *REFUSALS) as failure:
            yield f"event: failed\ndata: {json.dumps(str(failure))}\n\n"

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)


def _event(request: Request, name: str, tailed: Tailed) -> str:
    rows = [message_row(name, record, tailed.decoder) for record in reversed(tailed.records)]
    data = {
        "rows": html_of(request, "_message_rows.html", rows=rows) if rows else "",
        "count": len(rows),
        "passed_over": tailed.passed_over,
        "errors": [f"Partition {index}: {error}" for index, error in sorted(tailed.errors.items())][:5],
    }
    cursor = cursor_text(tailed.positions) if len(tailed.positions) <= CURSOR_MAX else ""
    return f"id: {cursor}\nevent: records\ndata: {json.dumps(data)}\n\n"


@router.get("/topics/{name}/messages/{partition}/{offset}")
async def message(request: Request, caller: RecordReader, name: str, partition: int, offset: int) -> Response:
    """Return one record with up to 1 MiB of its key and value."""
    topic = known_topic(services_of(request).cluster, name)
    record = await _one(request, caller, topic, partition, offset)
    decoder = Decoder(name, schemas=services_of(request).cluster.records.schemas)
    await decoder.prepare([record])
    row = message_row(name, record, decoder, WHOLE_CHARACTERS)
    title = f"{name} / {partition} / {offset}"
    view = MessageView(name, row)
    return render(request, "message.html", page=page_of(request, title, "/topics"), view=view)


@router.get("/topics/{name}/messages/{partition}/{offset}/{part}")
async def raw_content(
    request: Request, caller: RecordReader, name: str, partition: int, offset: int, part: str
) -> Response:
    """Return the bytes of a record's key or value as a file."""
    if part not in {"key", "value"}:
        raise NotFoundError(f"A record has a key and a value, and no '{part[:40]}'.")
    topic = known_topic(services_of(request).cluster, name)
    record = await _one(request, caller, topic, partition, offset, is_whole=True)
    content = record.key if part == "key" else record.value
    if content is None:
        raise NotFoundError(f"The {part} of this record is null.")
    headers = {
        "Content-Disposition": f'attachment; filename="{name}-{partition}-{offset}-{part}.bin"',
        "Cache-Control": "no-store",
    }
    return Response(content, media_type="application/octet-stream", headers=headers)


async def _one(
    request: Request, caller: RecordReader, topic: TopicImage, partition: int, offset: int, *, is_whole: bool = False
) -> Raw:
    if partition not in topic.partitions:
        raise NotFoundError(f"Topic '{topic.name}' has no partition {partition}.")
    actions = services_of(request).actions
    record = await actions.records.read_one(caller, topic, partition, offset, is_whole=is_whole)
    if record is None:
        raise NotFoundError(f"Partition {partition} of '{topic.name}' has no record at offset {offset} (any more).")
    return record
