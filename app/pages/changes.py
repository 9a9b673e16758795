"""The change feed: what the metadata log changed, in words, over everything that is kept, and one change."""

import datetime as dt
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from app.cluster.about import KINDS, NAME_MAX, About
from app.cluster.cluster import Cluster
from app.cluster.history import Change
from app.http.errors import BadRequestError, NotFoundError
from app.pages.feed import FeedEntry, feed_entries, time_of
from app.pages.frame import page_of, render
from app.security.audit import committers
from app.services import PastReader, Reader, services_of
from kraft_core.protocol.metadata_records import RemoveTopicRecord

router = APIRouter(include_in_schema=False)

CHANGES_ON_PAGE: Final = 100
LINES_OF_A_CHANGE: Final = 2_000
DELETED_MAX: Final = 20
SEARCH_SECONDS: Final = 1.0
"""After this time a search shows what it has found and offers to continue."""
OFFSET_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ChangesView:
    """Model of changes.html.

    `older` is the query that continues the list, None at its end; `searched_to` the offset that a search has reached.
    `gaps` are (first, last) offsets that are not known. `trouble` says why the history is paused.
    """

    first_offset: int
    search: str
    about: str
    name: str
    kinds: Sequence[str]
    rows: Sequence[FeedEntry]
    older: str | None
    searched_to: int | None
    gaps: Sequence[tuple[int, int]]
    trouble: str


@dataclass(frozen=True, slots=True)
class _Found:
    rows: list[FeedEntry]
    older: int | None
    gaps: list[tuple[int, int]]


async def _search(cluster: Cluster, before: int | None, needle: str, about: About | None) -> _Found:
    """Search backwards through the memory and the stored log, until a page is full or the time is over."""
    rows: list[FeedEntry] = []
    gaps: list[tuple[int, int]] = []
    began = time.monotonic()
    while True:
        stretch = await cluster.archive.stretch(before)
        rows += feed_entries(stretch.changes, CHANGES_ON_PAGE - len(rows), lambda line: needle in line.lower(), about)
        if len(rows) >= CHANGES_ON_PAGE:
            return _Found(rows, rows[-1].offset, gaps)
        if stretch.gap is not None and stretch.gap.end - 2 >= stretch.gap.start:
            gaps.append((stretch.gap.start, stretch.gap.end - 2))
        before = stretch.older
        if before is None or time.monotonic() - began >= SEARCH_SECONDS or (rows and not needle and about is None):
            return _Found(rows, before, gaps)


@router.get("/changes")
async def changes(
    request: Request,
    _caller: PastReader,
    before: Annotated[int | None, Query(ge=0, le=OFFSET_MAX)] = None,
    q: Annotated[str, Query(max_length=NAME_MAX)] = "",
    about: Annotated[str, Query(max_length=20)] = "",
    name: Annotated[str, Query(max_length=NAME_MAX)] = "",
) -> Response:
    """Return the page, newest change first."""
    found = services_of(request)
    cluster, search, name = found.cluster, q.strip(), name.strip()
    if about not in ("", *KINDS):
        raise BadRequestError(f"Bad Request: about must be one of {', '.join(KINDS)} (was {about!r}).")
    wanted = About(about, name) if about and name else None
    if cluster.past is not None:
        before = cluster.past.offset + 1 if before is None else min(before, cluster.past.offset + 1)
    seen = await _search(cluster, before, search.lower(), wanted)
    rows = seen.rows
    if rows:
        actors = await found.database.read(committers, rows[-1].offset, rows[0].offset)
        rows = [replace(row, actor=actors.get(row.offset, "")) for row in rows]
    older = None
    if seen.older is not None:
        older = urlencode([("before", seen.older), ("q", search), ("about", about), ("name", name)])
    view = ChangesView(
        first_offset=cluster.archive.first_offset,
        search=search,
        about=about,
        name=name,
        kinds=KINDS,
        rows=rows,
        older=older,
        searched_to=seen.older if len(rows) < CHANGES_ON_PAGE else None,
        gaps=seen.gaps,
        trouble=cluster.archive.trouble,
    )
    return render(request, "changes.html", page=page_of(request, "Changes", "/changes"), view=view)


@dataclass(frozen=True, slots=True)
class ChangeView:
    """Model of change.html; `more` lines are left out. `deleted` are topics that it deleted, at most DELETED_MAX."""

    change: Change
    at: dt.datetime
    lines: Sequence[str]
    more: int
    actor: str
    deleted: Sequence[str]


@router.get("/changes/{offset}")
async def change(request: Request, _caller: Reader, offset: Annotated[int, Path(ge=0, le=OFFSET_MAX)]) -> Response:
    """Return one change: everything that was committed with it. Any of its offsets is its address."""
    services = services_of(request)
    archive = services.cluster.archive
    found = await archive.change_at(offset)
    if found is None:
        raise NotFoundError(f"Nothing changed at offset {offset}. {archive.kept_text()}")
    actors = await services.database.read(committers, found.offset, found.offset)
    lines = found.headlines_first
    more = max(0, len(lines) - LINES_OF_A_CHANGE)
    gone = [record.topic_id for _, record in found.records if isinstance(record, RemoveTopicRecord)]
    names = [topic.name for each in gone[:DELETED_MAX] if (topic := found.before.topics.by_id.get(each)) is not None]
    view = ChangeView(found, time_of(found), lines[:LINES_OF_A_CHANGE], more, actors.get(found.offset, ""), names)
    title = f"Change at offset {found.offset}"
    return render(request, "change.html", page=page_of(request, title, "/changes"), view=view)
