"""Search over everything that has a page: entries of the navigation, topics, brokers and groups.

The page /search works without scripts; keys.js shows its fragment in a dialog (Ctrl-K).
"""

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from app.pages.frame import page_of, render
from app.pages.group_links import group_path
from app.pages.language import language_of
from app.pages.navigation import navigation_of
from app.services import Reader, Services, principal_of, services_of
from app.texts import phrase, shown, speaking

router = APIRouter(include_in_schema=False)

FOUND_MAX: Final = 20
TOPICS_MAX: Final = 10
GROUPS_MAX: Final = 6
GROUPS_WAIT_SECONDS: Final = 0.1
"""How long a search waits for the first list of groups; later ones take the lists that are known, and ask again."""
GROUPS_FRESH_SECONDS: Final = 15.0
QUERY_MAX: Final = 249  # the longest name of a topic


@dataclass(frozen=True, slots=True)
class Found:
    """One place to go to: its address, name, kind in words, and icon."""

    href: str
    name: str
    kind: str
    icon: str


@dataclass(frozen=True, slots=True)
class SearchView:
    """Model of search.html."""

    query: str
    found: Sequence[Found]


def found_in(services: Services, request: Request, query: str, group_ids: Sequence[str]) -> Iterator[Found]:
    """Yield what contains the words of `query` in any case, pages first. Everything has a name or an id."""
    words = query.lower().split()
    principal = principal_of(request)
    for group in navigation_of(principal.role, principal.own_role):
        for entry in group.entries:
            label = f"{entry.label} {shown(entry.label)}".lower()
            if all(word in label for word in words):
                yield Found(entry.href, entry.label, group.title, entry.icon)
    if not words:
        return
    cluster = services.cluster
    rows = cluster.topic_table.page(search=query, page_size=TOPICS_MAX).rows
    exact = query.strip()
    for row in sorted(rows, key=lambda row: (row.name != exact, not row.name.startswith(exact))):
        yield Found(f"/topics/{quote(row.name, safe='')}", row.name, phrase("topic"), "layers")
    number = words[-1]
    if number.isdigit():
        for broker_id in sorted(cluster.image.cluster.brokers):
            if str(broker_id).startswith(number) and all(word in f"broker {broker_id}" for word in words):
                yield Found(f"/brokers/{broker_id}", phrase("Broker %(id)s", id=broker_id), phrase("broker"), "server")
    matching = [each for each in group_ids if all(word in each.lower() for word in words)]
    for group_id in heapq.nsmallest(
        GROUPS_MAX, matching, lambda each: (each != exact, not each.startswith(exact), each)
    ):
        yield Found(group_path(group_id), group_id, phrase("group"), "groups")


async def search_view(request: Request, query: str) -> SearchView:
    """Return the first results. A broker that does not answer costs its own groups, and no time."""
    services = services_of(request)
    group_ids: list[str] = []
    if query.strip():
        groups = services.cluster.groups
        listed = await groups.list(0.0, GROUPS_FRESH_SECONDS)
        if listed.asked_at is None:
            listed = await groups.list(GROUPS_WAIT_SECONDS, GROUPS_FRESH_SECONDS)
        group_ids = [each.group_id for each in listed.groups]
    with speaking(language_of(request)):  # pages are found by their names in the language of the reader too
        found = list(itertools.islice(found_in(services, request, query, group_ids), FOUND_MAX))
    return SearchView(query, found)


SearchQuery = Annotated[str, Query(alias="q", max_length=QUERY_MAX)]


@router.get("/search")
async def search(request: Request, _caller: Reader, query: SearchQuery = "") -> Response:
    """Return the page."""
    return render(
        request, "search.html", page=page_of(request, phrase("Search")), view=await search_view(request, query)
    )


@router.get("/fragments/search")
async def search_fragment(request: Request, _caller: Reader, query: SearchQuery = "") -> Response:
    """Return the results."""
    return render(request, "_search.html", view=await search_view(request, query))
