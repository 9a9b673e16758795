"""Producing one record: the form, its preview, and the result."""

from dataclasses import dataclass, replace
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.cluster.records import NewRecord
from app.http.errors import FORM_REFUSED
from app.pages.confirm import ConfirmView, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import go_to, number, page_of, render, size
from app.pages.topic import known_topic
from app.records.contents import content_of, visible
from app.records.entry import ENTRY_TYPES, EntryError, EntryType, entered, entered_headers, rest_body
from app.services import RecordWriter, services_of
from app.texts import phrase, sentence_of
from kraft_core.clients.producer.partitioner import partition_for_key
from kraft_core.image.metadata_image import TopicImage
from kraft_core.protocol.errors import KafkaError

router = APIRouter(include_in_schema=False)

SHOWN_CHARACTERS: Final = 2_000
TYPE_CHOICES: Final = tuple(
    zip(ENTRY_TYPES, (phrase("text"), "json", "hex", "base64", "int32", "int64", "null"), strict=True)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceForm:
    """Model of produce.html: the form as it was entered."""

    name: str
    partitions: int
    partition: str = ""
    key_type: str = "text"
    key: str = ""
    value_type: str = "text"
    value: str = ""
    headers: str = ""
    error: str = ""
    types: tuple[tuple[str, str], ...] = TYPE_CHOICES

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The fields that the confirmation posts again."""
        names = ("partition", "key_type", "key", "value_type", "value", "headers")
        return [(name, getattr(self, name)) for name in names]


def new_record(topic: TopicImage, form: ProduceForm) -> NewRecord:
    """Return the record of a form. Raises EntryError."""
    partition = None
    if form.partition.strip():
        text = form.partition.strip()
        is_number = text.isascii() and text.isdigit() and len(text) < 10
        if not is_number or int(text) not in topic.partitions:
            raise EntryError(
                phrase(
                    "Partition: '%(text)s' does not exist; allowed are 0 to %(last)s.",
                    text=text[:40],
                    last=len(topic.partitions) - 1,
                )
            )
        partition = int(text)
    return NewRecord(
        key=entered(phrase("Key"), form.key, _type(phrase("Key"), form.key_type)),
        value=entered(phrase("Value"), form.value, _type(phrase("Value"), form.value_type)),
        headers=entered_headers(form.headers),
        partition=partition,
    )


def _type(what: str, text: str) -> EntryType:
    if text not in ENTRY_TYPES:
        raise EntryError(
            phrase(
                "%(what)s: '%(text)s' is not a type; allowed are %(allowed)s.",
                what=what,
                text=text[:40],
                allowed=", ".join(ENTRY_TYPES),
            )
        )
    return text


def _shown(data: bytes | None) -> str:
    content = content_of(data, "auto", SHOWN_CHARACTERS)
    if content.kind in {"null", "empty"}:
        return content.kind
    text = f"{content.text}{'…' if content.is_cut else ''}"
    return phrase("%(text)s (%(kind)s, %(size)s)", text=text, kind=content.kind, size=size(content.size))


def _preview(request: Request, topic: TopicImage, form: ProduceForm, record: NewRecord) -> ConfirmView:
    partition: str = phrase("chosen by the producer")
    if record.partition is not None:
        partition = str(record.partition)
    elif record.key is not None:
        index = partition_for_key(record.key, len(topic.partitions))
        partition = phrase("%(index)s, by the key", index=index)
    headers = [
        (phrase("Header %(name)s", name=visible(name[:100])), "", "null" if value is None else _shown(value))
        for name, value in record.headers
    ]
    warnings = [phrase("A record cannot be taken back. Every consumer of the topic will read it.")]
    if record.value is None:
        warnings.append(phrase("The value is null: a compacted topic deletes this key."))
    body = rest_body(record.key, record.value, record.headers, record.partition)
    path = f"/topics/{quote(topic.name, safe='')}"
    return ConfirmView(
        title=phrase("Produce to %(topic)s", topic=topic.name),
        active="/topics",
        back=topic.name,
        back_url=path,
        action=f"{path}/produce",
        button=phrase("Produce"),
        changes=[
            (phrase("Partition"), "", partition),
            (phrase("Key"), "", _shown(record.key)),
            (phrase("Value"), "", _shown(record.value)),
            *headers,
        ],
        consequences=warnings,
        curl=cluster_curl(request, "POST", f"topics/{topic.name}/records", body),
        fields=form.fields,
    )


@router.get("/topics/{name}/produce")
async def produce_form(request: Request, _caller: RecordWriter, name: str) -> Response:
    """Return the form."""
    topic = known_topic(services_of(request).cluster, name)
    return _form_page(request, ProduceForm(name=name, partitions=len(topic.partitions)))


def _form_page(request: Request, form: ProduceForm, status: int = 200) -> Response:
    title = phrase("Produce to %(topic)s", topic=form.name)
    return render(request, "produce.html", status, page=page_of(request, title, "/topics"), view=form)


@router.post("/topics/{name}/produce")
async def produce(
    request: Request,
    caller: RecordWriter,
    name: str,
    partition: Annotated[str, Form()] = "",
    key_type: Annotated[str, Form()] = "text",
    key: Annotated[str, Form()] = "",
    value_type: Annotated[str, Form()] = "text",
    value: Annotated[str, Form()] = "",
    headers: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Return the preview or, confirmed, write the record and go to it."""
    services = services_of(request)
    topic = known_topic(services.cluster, name)
    form = ProduceForm(
        name=name,
        partitions=len(topic.partitions),
        partition=partition,
        key_type=key_type,
        key=key,
        value_type=value_type,
        value=value,
        headers=headers,
    )
    try:
        record = new_record(topic, form)
    except EntryError as wrong:
        return _form_page(request, replace(form, error=sentence_of(wrong)), FORM_REFUSED)

    async def apply() -> Response:
        (done,) = await services.actions.records.produce(caller, name, [record])
        if isinstance(done, KafkaError):
            raise done
        where = {"partition": done.partition, "offset": number(done.offset)}
        note = Flash("good", phrase("Written to partition %(partition)s at offset %(offset)s.", **where))
        address = f"/topics/{quote(name, safe='')}/messages/{done.partition}/{done.offset}"
        return go_to(request, address, note)

    view = _preview(request, topic, form, record)
    return await preview_or_apply(request, view, confirmed=confirmed == "yes", apply=apply)
