"""Downloads of the tables on pages as CSV and JSON: the rows as shown, or those of all pages.

A table's template is also the definition of its download. The page of the given address is rendered once more, for the
same caller, and the cells of its table are read, so that a download has the columns, filter, order and page of what
the reader sees. For all rows the link to the next page is followed, and each page is sent before the next is made.

CSV is UTF-8 without a byte order mark, since programs would read the mark as a part of the first column's name. A text
that a spreadsheet would take for a formula gets a leading apostrophe (`app.reports.violations.safe_cell`). Heads and
words are English in every language of the pages, since programs read them.
"""

import asyncio
import csv
import io
import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Message, Scope

from app.http.errors import BadRequestError, NotFoundError
from app.pages.frame import UNKNOWN
from app.reports.violations import safe_cell
from app.services import Reader, Services, services_of
from app.texts import ENGLISH, phrase

router = APIRouter(include_in_schema=False)

FORMATS: Final = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
NAME: Final = re.compile(r"[a-z][a-z-]{0,39}")
NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?")
LEFT_OUT: Final = frozenset({"form", "select", "button", "script", "style", "svg"})
"""Elements of a cell that are no part of its value."""
ACTIONS: Final = frozenset({"Actions", "End", "New value", "Select", ""})
"""Heads of columns that hold no data."""
ROWS_AT_ONCE: Final = 1000
"""Rows on a page that is rendered for a download of all rows."""

Value = str | int | float | None


@dataclass(slots=True)
class Column:
    """A column; `detail` is the head of a further column with the small print of its cells, empty for none."""

    head: str
    detail: str = ""

    @property
    def is_data(self) -> bool:
        """Whether the column holds data, and not buttons."""
        return self.head not in ACTIONS


@dataclass(slots=True)
class _Cell:
    """What has been read of a cell: words, the small print, and a value that the page gives beside its text."""

    is_number: bool
    detail: str
    words: list[str] = field(default_factory=list)
    small: list[str] = field(default_factory=list)
    exact: str | None = None
    exact_text: str | None = None
    """The whole value, with spaces and line breaks that a page does not show."""

    def value(self) -> Value:
        if self.exact_text is not None:
            return self.exact_text
        text = " ".join("".join(self.words).replace("\u202f", "" if self.is_number else " ").split())
        if text in {"", UNKNOWN}:
            return None if self.exact is None else _number(self.exact)
        return _number(text) if self.is_number else text


def _number(text: str) -> Value:
    plain = text.replace("\N{MINUS SIGN}", "-")
    if NUMBER.fullmatch(plain) is None:
        return text
    return float(plain) if "." in plain else int(plain)


class TableReader(HTMLParser):
    """Reads the table with the attribute `data-table` of this name, and the address of the next page."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.columns: list[Column] = []
        self.rows: list[list[Value]] = []
        self.next = ""
        self.offset = -1
        self.is_found = False
        self._name = name
        self._inside = self._in_body = self._has_heads = False
        self._left_out: list[str] = []
        self._head: Column | None = None
        self._row: list[_Cell] | None = None
        self._cell: _Cell | None = None
        self._small = 0
        self._divs: list[bool] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where in the table the text that follows stands."""
        given = {name: value or "" for name, value in attrs}
        if tag == "a" and given.get("rel") == "next":
            self.next = given.get("href", "")
        if tag == "table" and given.get("data-table") == self._name:
            self._inside = self.is_found = True
            self._in_body = False  # a page may have several parts of one table
        if not self._inside or self._left_out:
            if self._left_out and tag == self._left_out[0]:
                self._left_out.append(tag)
            return
        if tag in LEFT_OUT:
            self._left_out.append(tag)
        elif tag == "tbody":
            self._in_body = self._has_heads = True
        elif tag == "tr":
            self._row = [] if self._in_body else None
        elif tag in {"td", "th"} and self._in_body:
            self._start_cell("num" in given.get("class", "").split(), given.get("data-exact"))
        elif tag == "th":
            self._head = Column("", given.get("data-detail", ""))
        elif self._cell is not None:
            self._start_inside(self._cell, tag, given)

    def _start_cell(self, is_number: bool, exact_text: str | None) -> None:
        assert self._row is not None, "cells stand in rows"
        at = len(self._row)
        self._cell = _Cell(is_number, self.columns[at].detail if at < len(self.columns) else "")
        self._cell.exact_text = exact_text
        self._row.append(self._cell)

    def _start_inside(self, cell: _Cell, tag: str, given: dict[str, str]) -> None:
        if tag in {"div", "span", "time", "data"}:
            (cell.small if self._small else cell.words).append(" ")
        if tag == "div":
            is_small = not {"doc", "small"}.isdisjoint(given.get("class", "").split())
            self._divs.append(is_small and bool(cell.detail))
            self._small += self._divs[-1]
        elif tag == "data":
            cell.exact = given.get("value", "")
            self._left_out.append(tag)
        elif tag == "time":
            cell.words.append(given.get("datetime", ""))
            self._left_out.append(tag)

    def handle_data(self, data: str) -> None:
        """Add a text to the head or cell in which it stands."""
        if not self._inside or self._left_out:
            return
        if self._head is not None:
            self._head.head += data
        elif self._cell is not None:
            (self._cell.small if self._small else self._cell.words).append(data)

    def handle_endtag(self, tag: str) -> None:
        """Note that an element has ended."""
        if self._left_out:
            if tag == self._left_out[-1]:
                self._left_out.pop()
        elif tag == "table":
            self._inside = False
        elif tag == "th" and self._head is not None:
            self._head.head = " ".join(self._head.head.replace("\u2191", "").replace("\u2193", "").split())
            if not self._has_heads:
                self.columns.append(self._head)
            self._head = None
        elif tag in {"td", "th"}:
            self._cell = None
        elif tag == "div" and self._divs:
            self._small -= self._divs.pop()
        elif tag == "tr" and self._row is not None:
            self._add_row(self._row)
            self._row = None

    def _add_row(self, cells: Sequence[_Cell]) -> None:
        row: list[Value] = []
        for at, column in enumerate(self.columns):
            cell = cells[at] if at < len(cells) else _Cell(False, "")
            if column.is_data:
                row.append(cell.value())
            if column.detail:
                row.append(" ".join("".join(cell.small).split()) or None)
        self.rows.append(row)

    @property
    def heads(self) -> list[str]:
        """The heads of the columns of `rows`."""
        return [
            head for column in self.columns for head in (column.head if column.is_data else "", column.detail) if head
        ]


def names_of(heads: Sequence[str]) -> list[str]:
    """Return the names of columns in JSON: lower case with underscores, each once."""
    names: list[str] = []
    for head in heads:
        name = re.sub(r"\W+", "_", head.lower()).strip("_") or "column"
        names.append(name if name not in names else f"{name}_{len(names) + 1}")
    return names


async def rendered(request: Request, address: str, rows: int | None) -> tuple[str, int]:
    """Return the HTML of a page for the caller of `request`, with so many rows on it if it can, and its offset.

    Raises what the page raises, and BadRequestError for an address that is no page.
    """
    parts = urlsplit(address)
    if not parts.path.startswith("/") or parts.netloc or parts.scheme or parts.path == "/download":
        raise BadRequestError(phrase("of: '%(address)s' is not the address of a page.", address=address[:80]))
    scope: Scope = {
        **{key: value for key, value in request.scope.items() if key not in {"endpoint", "path_params", "route"}},
        "path": parts.path,
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "state": {**request.scope["state"], "rows_on_page": rows, "language": ENGLISH, "root": ""},
        "starlette.exception_handlers": ({}, {}),  # what the page raises is answered as if this request had raised it
    }
    body: list[bytes] = []
    asked: list[bool] = []

    async def receive() -> Message:
        if not asked:
            asked.append(True)
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.Event().wait()  # until the answer has ended
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            kinds = [value for name, value in message["headers"] if name == b"content-type"]
            if message["status"] != 200 or not kinds or not kinds[0].startswith(b"text/html"):
                raise BadRequestError(phrase("of: '%(address)s' is not the address of a page.", address=address[:80]))
        else:
            body.append(message.get("body", b""))

    await request.app.router(scope, receive, send)
    shown: Services = scope["state"].get("past_services") or services_of(request)
    return b"".join(body).decode(), shown.cluster.image.offset


def first_page(address: str) -> str:
    """Return the address without the page at which it stands."""
    parts = urlsplit(address)
    query = [(name, value) for name, value in parse_qsl(parts.query) if name not in {"page", "before"}]
    return parts.path + (f"?{urlencode(query)}" if query else "")


async def read_page(request: Request, address: str, table: str, rows: int | None) -> TableReader:
    """Return the table of a page. Raises NotFoundError if the page has no such table."""
    reader = TableReader(table)
    html, reader.offset = await rendered(request, address, rows)
    reader.feed(html)
    if not reader.is_found:
        raise NotFoundError(
            phrase("'%(address)s' has no rows in a table '%(table)s'.", address=address[:80], table=table)
        )
    return reader


async def pages(request: Request, first: TableReader, table: str, *, whole: bool) -> AsyncIterator[list[list[Value]]]:
    """Yield the rows of a page, and of those that follow it for the whole table."""
    yield first.rows
    following = first.next if whole else ""
    while following:
        reader = TableReader(table)
        reader.feed((await rendered(request, following, ROWS_AT_ONCE))[0])
        yield reader.rows
        following = reader.next


async def as_csv(heads: Sequence[str], found: AsyncIterator[list[list[Value]]]) -> AsyncIterator[str]:
    """Yield CSV with a line of heads."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([safe_cell(head) for head in heads])
    async for rows in found:
        writer.writerows([safe_cell(value) for value in row] for row in rows)
        yield text.getvalue()
        text.seek(0)
        text.truncate()


async def as_json(
    about: dict[str, Any], heads: Sequence[str], found: AsyncIterator[list[list[Value]]]
) -> AsyncIterator[str]:
    """Yield one JSON object: what the table is, and `rows`, a list of objects."""
    names, separator = names_of(heads), ""
    yield json.dumps(about)[:-1] + ', "rows": ['
    async for rows in found:
        for row in rows:
            yield separator + "\n" + json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False)
            separator = ","
    yield "\n]}\n"


@router.get("/download")
async def download(request: Request, _caller: Reader) -> Response:
    """Return a table of the page `of` in the format `format`; with `whole=yes` all pages of it."""
    asked = request.query_params
    table, kind, address = asked.get("table", ""), asked.get("format", ""), asked.get("of", "")
    whole = asked.get("whole") == "yes"
    if kind not in FORMATS:
        raise BadRequestError(
            phrase("format: '%(kind)s' is not one of %(kinds)s.", kind=kind[:40], kinds=", ".join(FORMATS))
        )
    if NAME.fullmatch(table) is None:
        raise BadRequestError(phrase("table: '%(table)s' is not the name of a table.", table=table[:40]))
    first = await read_page(request, first_page(address) if whole else address, table, ROWS_AT_ONCE if whole else None)
    cluster_id = services_of(request).cluster.cluster_id or "cluster"
    about = {"cluster_id": cluster_id, "metadata_offset": first.offset, "table": table}
    found = pages(request, first, table, whole=whole)
    text = as_csv(first.heads, found) if kind == "csv" else as_json(about, first.heads, found)
    name = f"{cluster_id}-{table}-{first.offset}.{kind}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingResponse(text, media_type=FORMATS[kind], headers=headers)
