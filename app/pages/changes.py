"""The change feed: what the metadata log changed, in words, over everything that is kept, and one change."""

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from app.cluster.about import KINDS, NAME_MAX, About
from app.cluster.cluster import Cluster
from app.cluster.history import Change
from app.http.errors import BadRequestError, NotFoundError
from app.pages.change_lines import said
from app.pages.feed import FeedEntry, feed_entries, time_of
from app.pages.frame import page_of, render
from app.pages.shared_parts import shared
from app.security.audit import committers
from app.services import PastReader, Reader, Services, services_of
from app.texts import phrase, sentences
from kraft_core.protocol.metadata_records import RemoveTopicRecord

router = APIRouter(include_in_schema=False)

CHANGES_ON_PAGE: Final = 100
LINES_OF_A_CHANGE: Final = 2_000
DELETED_MAX: Final = 20
NEW_MAX: Final = 100
"""Most changes that are added to an open page."""
SEARCH_SECONDS: Final = 1.0
"""After this time a search shows what it has found and offers to continue."""
OFFSET_MAX: Final = 2**63 - 1
KIND_WORDS: Final[Mapping[str, str]] = {
    "topic": phrase("topic"),
    "partition": phrase("partition"),
    "broker": phrase("broker"),
    "principal": phrase("principal"),
    "config": phrase("config"),
    "feature": phrase("feature"),
}


@dataclass(frozen=True, slots=True)
class ChangesView:
    """Model of changes.html.

    `older` is the query that continues the list, None at its end; `searched_to` the offset that a search has reached.
    `gaps` are (first, last) offsets that are not known. `trouble` says why the history is paused. `live` is the address
    of the changes after this page, "" for a page that does not follow the log.
    """

    first_offset: int
    search: str
    about: str
    name: str
    kinds: Sequence[tuple[str, str]]
    rows: Sequence[FeedEntry]
    older: str | None
    searched_to: int | None
    gaps: Sequence[tuple[int, int]]
    trouble: str
    live: str


@dataclass(frozen=True, slots=True)
class NewChangesView:
    """Model of _new_changes.html: the changes after a page was loaded, newest first. `is_cut`: there are older ones."""

    live: str
    rows: Sequence[FeedEntry]
    is_cut: bool


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
        rows += feed_entries(stretch.changes, CHANGES_ON_PAGE - len(rows), _containing(needle), about)
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
    wanted = _about(about, name)
    is_live = before is None and cluster.past is None
    newest = cluster.history.newest_offset
    if is_live:
        before = newest + 1  # what is newer comes with the first update of the page
    if cluster.past is not None:
        before = cluster.past.offset + 1 if before is None else min(before, cluster.past.offset + 1)
    seen = await _search(cluster, before, search.lower(), wanted)
    rows = await _with_actors(found, seen.rows)
    older = None
    if seen.older is not None:
        older = urlencode([("before", seen.older), ("q", search), ("about", about), ("name", name)])
    view = ChangesView(
        first_offset=cluster.archive.first_offset,
        search=search,
        about=about,
        name=name,
        kinds=[(kind, KIND_WORDS[kind]) for kind in KINDS],
        rows=rows,
        older=older,
        searched_to=seen.older if len(rows) < CHANGES_ON_PAGE else None,
        gaps=seen.gaps,
        trouble=cluster.archive.trouble,
        live=_live_address(newest, search, about, name) if is_live else "",
    )
    return render(request, "changes.html", page=page_of(request, phrase("Changes"), "/changes"), view=view)


def _containing(needle: str) -> Callable[[str], bool] | None:
    return (lambda line: needle in line.lower()) if needle else None


def _about(kind: str, name: str) -> About | None:
    if kind not in ("", *KINDS):
        raise BadRequestError(
            phrase(
                "Bad Request: about must be one of %(kinds)s (was %(text)s).", kinds=", ".join(KINDS), text=f"{kind!r}"
            )
        )
    return About(kind, name) if kind and name else None


async def _with_actors(services: Services, rows: list[FeedEntry]) -> list[FeedEntry]:
    if not rows:
        return rows
    actors = await services.database.read(committers, rows[-1].offset, rows[0].offset)
    return [replace(row, actor=actors.get(row.offset, "")) for row in rows]


def _live_address(after: int, search: str, about: str, name: str) -> str:
    query = urlencode([("after", after), ("q", search), ("about", about), ("name", name)])
    return f"/fragments/changes?{query}"


@router.get("/fragments/changes")
@shared
async def new_changes(
    request: Request,
    _caller: Reader,
    after: Annotated[int, Query(ge=-1, le=OFFSET_MAX)],
    q: Annotated[str, Query(max_length=NAME_MAX)] = "",
    about: Annotated[str, Query(max_length=20)] = "",
    name: Annotated[str, Query(max_length=NAME_MAX)] = "",
) -> Response:
    """Return the changes after an offset that match, newest first: an open page adds them to its own.

    They come from the memory. If it no longer has all of them, those it has are returned.
    """
    services = services_of(request)
    history, needle = services.cluster.history, q.strip().lower()
    is_whole = after + 1 >= history.oldest_offset
    changes = history.since(max(after + 1, history.oldest_offset))[::-1]
    found = feed_entries(changes, NEW_MAX + 1, _containing(needle), _about(about, name.strip()))
    rows = await _with_actors(services, found[:NEW_MAX])
    view = NewChangesView(
        _live_address(after, q.strip(), about, name.strip()), rows, not is_whole or len(found) > NEW_MAX
    )
    return render(request, "_new_changes.html", view=view)


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
        raise NotFoundError(
            sentences([phrase("Nothing changed at offset %(offset)s.", offset=offset), archive.kept_text()])
        )
    actors = await services.database.read(committers, found.offset, found.offset)
    lines = found.headlines_first
    more = max(0, len(lines) - LINES_OF_A_CHANGE)
    gone = [record.topic_id for _, record in found.records if isinstance(record, RemoveTopicRecord)]
    names = [topic.name for each in gone[:DELETED_MAX] if (topic := found.before.topics.by_id.get(each)) is not None]
    view = ChangeView(
        found, time_of(found), list(map(said, lines[:LINES_OF_A_CHANGE])), more, actors.get(found.offset, ""), names
    )
    title = phrase("Change at offset %(offset)s", offset=found.offset)
    return render(request, "change.html", page=page_of(request, title, "/changes"), view=view)
