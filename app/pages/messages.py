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
from app.http.cluster_paths import under_root
from app.http.errors import FORM_REFUSED, NotFoundError
from app.pages.frame import REFUSALS, html_of, number, page_of, refusal, render, size
from app.pages.language import language_of
from app.pages.message_query import CURSOR_MAX, STARTS, MessageForm, QueryError, cursor_text, parse_form, query_of
from app.pages.topic import known_topic
from app.records.contents import FORMATS, Content, Decoder, content_of, sizes_of, visible
from app.records.filters import FIELDS, OPERATORS
from app.services import RecordReader, root_of, services_of
from app.texts import joined, phrase, phrases, sentence_of, sentences, shown, speaking
from kraft_core.clients.consumer.clipping_decoder import ClippedRecord
from kraft_core.clients.consumer.uniform_records import Raw
from kraft_core.image.metadata_image import TopicImage

router = APIRouter(include_in_schema=False)

PREVIEW_CHARACTERS: Final = 160
DETAIL_CHARACTERS: Final = 4_000
WHOLE_CHARACTERS: Final = 1 << 20
HEADERS_SHOWN: Final = 100
PARTS_SHOWN: Final = 200
Choices = Sequence[tuple[str, str]]
START_CHOICES: Final[Choices] = list(
    zip(STARTS, (phrase("newest"), phrase("beginning"), phrase("offset"), phrase("time")), strict=True)
)
FORMAT_CHOICES: Final[Choices] = list(
    zip(
        FORMATS,
        (phrase("auto"), phrase("text"), "json", "hex", "base64", phrase("integer"), phrase("schema")),
        strict=True,
    )
)
FIELD_CHOICES: Final[Choices] = list(zip(FIELDS, (phrase("key"), phrase("value"), phrase("header")), strict=True))
OPERATOR_CHOICES: Final[Choices] = list(
    zip(OPERATORS, (phrase("contains"), phrase("equals"), phrase("matches")), strict=True)
)


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
    starts: Choices = tuple(START_CHOICES)
    formats: Choices = tuple(FORMAT_CHOICES)
    fields: Choices = tuple(FIELD_CHOICES)
    operators: Choices = tuple(OPERATOR_CHOICES)


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
        time_type=phrase("log append time") if record.timestamp_type else phrase("create time"),
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
    records = phrases("%(count)s record.", "%(count)s records.", len(window.records), count=number(len(window.records)))
    scanned = phrases(
        "Scanned %(scanned)s (%(size)s) in %(count)s partition, %(seconds)s s.",
        "Scanned %(scanned)s (%(size)s) in %(count)s partitions, %(seconds)s s.",
        len(window.parts),
        scanned=number(window.scanned),
        size=size(window.scanned_bytes),
        seconds=f"{found.seconds:.1f}",
    )
    return sentences([records, scanned])


def _stopped(window: Window) -> str:
    """Return where a limit ended the window, "" if none did."""
    if not window.stopped:
        return ""
    reached = [
        phrase("partition %(index)s down to offset %(offset)s", index=each.index, offset=number(each.position))
        if window.is_backwards
        else phrase("partition %(index)s to offset %(offset)s", index=each.index, offset=number(each.position))
        for each in window.parts.values()
        if each.scanned and not each.is_at_bound
    ]
    where = joined("; ", reached[:3])
    if len(reached) > 3:
        where = phrase("%(names)s and %(count)s more", names=where, count=len(reached) - 3)
    if not where:
        return phrase("Stopped after %(limit)s.", limit=window.stopped)
    return phrase("Stopped after %(limit)s: %(where)s.", limit=window.stopped, where=where)


def _range(first: int, last: int) -> str:
    return phrase("%(first)s to %(last)s", first=number(first), last=number(last))


def _parts(window: Window) -> list[PartRow]:
    return [
        PartRow(
            each.index,
            _range(each.first, each.end),
            _range(min(each.start, each.position), max(each.start, each.position)),
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
        errors=[
            phrase("Partition %(index)s is not shown: %(error)s", index=index, error=error)
            for index, error in sorted(found.errors.items())
        ],
        parts=_parts(window),
        older_url=url(window.older, "older") if can_continue and window.has_older else "",
        newer_url=url(window.newer, "newer") if can_continue and (window.has_newer or window.is_backwards) else "",
        tail_url=f"{base}/events?{urlencode(form.pairs(position=False))}",
        note=""
        if can_continue
        else phrase("Of more than %(most)s partitions only one window is shown; choose one.", most=CURSOR_MAX),
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
        view, status = _with_error(view, sentence_of(wrong)), FORM_REFUSED
    except TooManyReadersError as busy:
        view, status = _with_error(view, sentence_of(busy)), busy.status
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
        raise NotFoundError(sentence_of(wrong)) from None

    async def stream() -> AsyncIterator[str]:
        yield "retry: 1000\n\n"
        try:
            async for each in services.actions.records.tail(caller, query):
                yield _event(request, name, each)
                if services.cluster.is_stopping or await request.is_disconnected():
                    return
        except (TooManyReadersError, *REFUSALS) as failure:
            yield f"event: failed\ndata: {json.dumps(_said(request, sentence_of(failure)))}\n\n"

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)


def _said(request: Request, text: str) -> str:
    """Return a text in the language of the reader, for messages.js."""
    with speaking(language_of(request)):
        return str(shown(text))


def _event(request: Request, name: str, tailed: Tailed) -> str:
    rows = [message_row(name, record, tailed.decoder) for record in reversed(tailed.records)]
    data = {
        "rows": under_root(root_of(request), html_of(request, "_message_rows.html", rows=rows)) if rows else "",
        "count": len(rows),
        "passed_over": tailed.passed_over,
        "errors": [
            _said(request, phrase("Partition %(index)s: %(error)s", index=index, error=error))
            for index, error in sorted(tailed.errors.items())[:5]
        ],
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
        raise NotFoundError(phrase("A record has a key and a value, and no '%(part)s'.", part=part[:40]))
    topic = known_topic(services_of(request).cluster, name)
    record = await _one(request, caller, topic, partition, offset, is_whole=True)
    content = record.key if part == "key" else record.value
    if content is None:
        is_key = part == "key"
        raise NotFoundError(
            phrase("The key of this record is null.") if is_key else phrase("The value of this record is null.")
        )
    headers = {
        "Content-Disposition": f'attachment; filename="{name}-{partition}-{offset}-{part}.bin"',
        "Cache-Control": "no-store",
    }
    return Response(content, media_type="application/octet-stream", headers=headers)


async def _one(
    request: Request, caller: RecordReader, topic: TopicImage, partition: int, offset: int, *, is_whole: bool = False
) -> Raw:
    if partition not in topic.partitions:
        raise NotFoundError(phrase("Topic '%(topic)s' has no partition %(index)s.", topic=topic.name, index=partition))
    actions = services_of(request).actions
    record = await actions.records.read_one(caller, topic, partition, offset, is_whole=is_whole)
    if record is None:
        raise NotFoundError(
            phrase(
                "Partition %(index)s of '%(topic)s' has no record at offset %(offset)s (any more).",
                index=partition,
                topic=topic.name,
                offset=offset,
            )
        )
    return record
