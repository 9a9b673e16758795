"""The change feed: what the metadata log changed, in words."""

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.cluster.history import Change
from app.pages.frame import page_of, render
from app.security.audit import committers
from app.services import Reader, services_of

router = APIRouter(include_in_schema=False)

CHANGES_ON_PAGE: Final = 100
LINES_OF_ONE_CHANGE_ON_PAGE: Final = 25


@dataclass(frozen=True, slots=True)
class FeedLine:
    """One line of the change feed. `actor` is empty for a change made elsewhere."""

    offset: int
    epoch: int
    at: dt.datetime
    text: str
    actor: str = ""


def feed_lines(
    changes: Iterable[Change], limit: int, wanted: Callable[[str], bool] = lambda _: True, each_max: int = 10**9
) -> list[FeedLine]:
    """Return the `wanted` lines of whole changes, newest change first, until there are at least `limit` lines.

    Within a change, lines about single partitions come last. A change with more than `each_max` lines is cut to that
    many, with a last line that gives the number left out.
    """
    lines: list[FeedLine] = []
    for change in changes:
        at = dt.datetime.fromtimestamp(max(0, change.timestamp_ms) / 1000, dt.UTC)
        texts = [text for text in change.headlines_first if wanted(text)]
        if len(texts) > each_max:
            texts = [*texts[:each_max], f"… and {len(texts) - each_max} more at this offset"]
        lines += [FeedLine(change.offset, change.epoch, at, text) for text in texts]
        if len(lines) >= limit:
            break
    return lines


@dataclass(frozen=True, slots=True)
class ChangesView:
    """Model of changes.html; `older` is the offset that continues the list, None at its end."""

    first_offset: int
    search: str
    rows: Sequence[FeedLine]
    older: int | None


@router.get("/changes")
async def changes(request: Request, _caller: Reader, before: int | None = None, q: str = "") -> Response:
    """Return the page, newest change first."""
    found = services_of(request)
    history = found.cluster.history
    wanted = [change for change in history.newest(10**9) if before is None or change.offset < before]
    needle = q.strip().lower()
    rows = feed_lines(wanted, CHANGES_ON_PAGE, lambda line: needle in line.lower(), LINES_OF_ONE_CHANGE_ON_PAGE)
    if rows:
        actors = await found.database.read(committers, rows[-1].offset, rows[0].offset)
        rows = [replace(row, actor=actors.get(row.offset, "")) for row in rows]
    older = rows[-1].offset if len(rows) >= CHANGES_ON_PAGE else None
    view = ChangesView(history.oldest_offset, q, rows, older)
    return render(request, "changes.html", page=page_of(request, "Changes", "/changes"), view=view)
