"""The query of the messages page: what the form has, what the address says, and what is read."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, cast, get_args

from starlette.datastructures import QueryParams

from app.cluster.records import RecordQuery
from app.records.contents import FORMATS, Format
from app.records.filters import Field, FilterTextError, Operator, RecordFilter, RecordFilters
from app.records.positions import AtOffset, AtTime, BeforeEnd, Position, PositionTextError, parse_to
from app.texts import phrase, sentence_of
from kraft_core.image.metadata_image import TopicImage

STARTS: Final = ("newest", "beginning", "offset", "time")
COUNTS: Final = (20, 50, 100, 500)
CURSOR_MAX: Final = 200
"""Partitions that an address can have a position of."""
FILTERS_MAX: Final = 3
TEXT_MAX: Final = 1_000
POSITION_MAX: Final = 200


class QueryError(ValueError):
    """The query is invalid. The text has the value and what is allowed."""


@dataclass(frozen=True, slots=True)
class FilterRow:
    """One row of the filter form, as it was entered."""

    field: str = "value"
    name: str = ""
    operator: str = "contains"
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageForm:
    """The form as it was entered; nothing is checked yet."""

    partition: str = ""
    start: str = "newest"
    position: str = ""
    count: str = "50"
    isolation: str = "committed"
    key_format: str = "auto"
    value_format: str = "auto"
    filters: tuple[FilterRow, ...] = ()
    cursor: str = ""
    direction: str = ""

    @property
    def filter_rows(self) -> list[FilterRow]:
        """The filters, and an empty one to fill in."""
        return [*self.filters, FilterRow()][:FILTERS_MAX]

    @property
    def counts(self) -> tuple[int, ...]:
        """The sizes of windows to choose from."""
        return COUNTS

    def pairs(self, *, position: bool = True) -> list[tuple[str, str]]:
        """Return the query as pairs for an address, without where it starts unless `position`."""
        names = ["partition", "count", "isolation", "key_format", "value_format"]
        names += ["start", "position"] if position else []
        default = MessageForm()
        found = [(name, getattr(self, name)) for name in names if getattr(self, name) != getattr(default, name)]
        for each in self.filters:
            found += [("field", each.field), ("name", each.name), ("operator", each.operator), ("text", each.text)]
        return found

    def resumed(self, cursor: str) -> "MessageForm":
        """Return the same query from a cursor on."""
        return replace(self, cursor=cursor, direction="newer")


def parse_form(params: QueryParams) -> MessageForm:
    """Return the form of an address. Unknown parameters are ignored."""
    default = MessageForm()
    lists = [params.getlist(name)[: FILTERS_MAX + 1] for name in ("field", "name", "operator", "text")]
    rows = [FilterRow(*row) for row in zip(*lists, strict=False)]
    singles = (
        "partition", "start", "position", "count", "isolation", "key_format", "value_format", "cursor", "direction",
    )  # fmt: skip
    values = {name: params.get(name, "").strip()[: TEXT_MAX * 5] or getattr(default, name) for name in singles}
    return MessageForm(filters=tuple(row for row in rows if row.text), **values)


def query_of(topic: TopicImage, form: MessageForm) -> RecordQuery:
    """Check a form and return what to read. Raises QueryError."""
    at = _cursor(form.cursor)
    return RecordQuery(
        topic=topic,
        partitions=_partition(topic, form.partition),
        start=_start(form),
        at=at,
        is_backwards=_one_of("direction", form.direction, ("older", "newer")) == "older"
        if at
        else form.start == "newest",
        count=int(_one_of("count", form.count, tuple(map(str, COUNTS)))),
        is_committed=_one_of("isolation", form.isolation, ("committed", "all")) == "committed",
        filters=_filters(form.filters),
        key_format=cast("Format", _one_of("key_format", form.key_format, FORMATS)),
        value_format=cast("Format", _one_of("value_format", form.value_format, FORMATS)),
    )


def cursor_text(positions: Mapping[int, int]) -> str:
    """Return offsets by partition as part of an address."""
    return ",".join(f"{index}:{offset}" for index, offset in sorted(positions.items()))


def _cursor(text: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for part in text.split(",")[: CURSOR_MAX + 1] if text else ():
        index, _, offset = part.partition(":")
        if not (_is_number(index) and _is_number(offset)):
            raise QueryError(phrase("cursor: '%(text)s' is not PARTITION:OFFSET.", text=part[:40]))
        found[int(index)] = int(offset)
    return found


def _partition(topic: TopicImage, text: str) -> tuple[int, ...]:
    if not text:
        return ()
    if not _is_number(text) or int(text) not in topic.partitions:
        raise QueryError(
            phrase(
                "Partition '%(text)s' does not exist: allowed are 0 to %(last)s.",
                text=text[:40],
                last=len(topic.partitions) - 1,
            )
        )
    return (int(text),)


def _start(form: MessageForm) -> Position:
    match _one_of("start", form.start, STARTS):
        case "newest":
            return BeforeEnd(0)
        case "beginning":
            return None
        case kind:
            try:
                found = parse_to(form.position[:POSITION_MAX])
            except PositionTextError as wrong:
                raise QueryError(phrase("Position: %(error)s.", error=sentence_of(wrong))) from None
            text = form.position[:40]
            if kind == "offset" and not isinstance(found, AtOffset):
                raise QueryError(phrase("Position: '%(text)s' is not an offset.", text=text))
            if kind == "time" and not isinstance(found, AtTime):
                raise QueryError(phrase("Position: '%(text)s' is not a time.", text=text))
            return found


def _filters(rows: tuple[FilterRow, ...]) -> RecordFilters:
    if len(rows) > FILTERS_MAX:
        raise QueryError(phrase("At most %(most)s filters are allowed.", most=FILTERS_MAX))
    try:
        return RecordFilters(
            RecordFilter(
                cast("Field", _one_of("field", row.field, get_args(Field))),
                cast("Operator", _one_of("operator", row.operator, get_args(Operator))),
                row.text[:TEXT_MAX],
                row.name.strip()[:TEXT_MAX],
            )
            for row in rows
        )
    except FilterTextError as wrong:
        raise QueryError(phrase("Filter: %(error)s.", error=sentence_of(wrong))) from None


def _one_of(what: str, text: str, allowed: tuple[str, ...]) -> str:
    if text not in allowed:
        raise QueryError(
            phrase(
                "%(what)s: '%(text)s' is not one of %(allowed)s.", what=what, text=text[:40], allowed=", ".join(allowed)
            )
        )
    return text


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18
