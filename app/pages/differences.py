"""What differs between the metadata at two offsets of the log."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from app.cluster.differences import Difference, differences
from app.http.errors import BadRequestError
from app.pages.change_lines import said
from app.pages.frame import page_items, page_of, render, whole_number
from app.services import Reader, past_at, services_of
from app.texts import phrase

router = APIRouter(include_in_schema=False)

ON_PAGE: Final = 50
OFFSET_TEXT_MAX: Final = 30
KINDS: Final[Mapping[str, str]] = {
    "feature": phrase("feature"),
    "broker": phrase("broker"),
    "controller": phrase("controller"),
    "topic": phrase("topic"),
    "config": phrase("config"),
    "quota": phrase("quota"),
    "acl": "acl",
    "scram": "scram",
    "delegation-token": phrase("delegation-token"),
}
HOWS: Final[Mapping[str, str]] = {
    "added": phrase("added"),
    "removed": phrase("removed"),
    "changed": phrase("changed"),
}


@dataclass(frozen=True, slots=True)
class DifferencesView:
    """Model of differences.html. `before` and `after` are offsets as text; `counts` are (kind, number)."""

    before: str
    after: str
    is_compared: bool
    rows: Sequence[Difference]
    counts: Sequence[tuple[str, int]]
    page: int
    pages: int
    kinds: Mapping[str, str] = field(default_factory=lambda: KINDS)
    hows: Mapping[str, str] = field(default_factory=lambda: HOWS)
    said: Callable[[str], str] = said


@router.get("/changes/diff")
async def compare(
    request: Request,
    _caller: Reader,
    before: Annotated[str, Query(alias="from", max_length=OFFSET_TEXT_MAX)] = "",
    after: Annotated[str, Query(alias="to", max_length=OFFSET_TEXT_MAX)] = "",
    page: int = 1,
) -> Response:
    """Return the form, and with two offsets the differences. Without `to`, the newest state is compared."""
    cluster = services_of(request).cluster
    newest = cluster.observer.applied_offset
    if not before.strip():
        view = DifferencesView("", after.strip() or str(max(0, newest)), False, (), (), 1, 1)
        return _page(request, view)
    offsets = [_offset(before), _offset(after) if after.strip() else newest]
    states = [(await past_at(cluster.archive.at_offset(each))).image for each in offsets]
    found = await asyncio.to_thread(differences, *states)
    shown, page, pages = page_items(found, page, ON_PAGE)
    kinds = list(dict.fromkeys(each.kind for each in found))
    counts = [(kind, sum(each.kind == kind for each in found)) for kind in kinds]
    return _page(request, DifferencesView(str(offsets[0]), str(offsets[1]), True, shown, counts, page, pages))


def _page(request: Request, view: DifferencesView) -> Response:
    return render(
        request, "differences.html", page=page_of(request, phrase("Compare two states"), "/changes"), view=view
    )


def _offset(text: str) -> int:
    found = whole_number(text, 0, 10**10)
    if found is None:
        raise BadRequestError(
            phrase("Bad Request: '%(text)s' is not an offset of the metadata log.", text=text[:OFFSET_TEXT_MAX])
        )
    return found
