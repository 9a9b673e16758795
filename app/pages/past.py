"""Pages of a past state: the banner over them, and links that stay in it.

A page with `at_offset=N` or `at=TIME` shows the state at that offset of the metadata log. Its links to pages that can
do the same keep the offset; the others lead to the present. The links are changed in the finished page, so that no
template has to know of it.
"""

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from app.services import PAST_PARAMETERS, Requires, services_of

_LINK: Final = re.compile(r'\b(href|action|hx-get)="(/[^"?#]*)(\?[^"#]*)?(#[^"]*)?"')
_RELATIVE_TIME: Final = re.compile(r'(<time datetime="[^"]*" title="([^"]*)">)[^<]*<')
_GET_FORM: Final = re.compile(r'<form\b[^>]*\bmethod="get"[^>]*>')


@dataclass(frozen=True, slots=True)
class PastBanner:
    """The state that a page shows; `at` is None if its time is unknown. `now_url` and `link` are addresses."""

    offset: int
    at: dt.datetime | None
    now_url: str
    link: str


def past_banner(request: Request) -> PastBanner | None:
    """Return the banner of a page, None for one of the present."""
    past = services_of(request).cluster.past
    if past is None:
        return None
    at = dt.datetime.fromtimestamp(past.time_ms / 1000, dt.UTC) if past.time_ms > 0 else None
    others = [(name, value) for name, value in request.query_params.multi_items() if name not in PAST_PARAMETERS]
    path = request.url.path
    now_url = f"{path}?{urlencode(others)}" if others else path
    return PastBanner(past.offset, at, now_url, f"{path}?{urlencode([*others, ('at_offset', past.offset)])}")


def stay_in_past(request: Request, text: str) -> str:
    """Return a page whose links and searches keep its past state; a page of the present unchanged."""
    past = services_of(request).cluster.past
    if past is None:
        return text
    paths: tuple[re.Pattern[str], ...] = request.app.state.past_paths

    def link(match: re.Match[str]) -> str:
        name, path, query, anchor = match[1], match[2], match[3] or "", match[4] or ""
        is_now = match.string.startswith(" data-now", match.end())
        if is_now or "at_offset=" in query or not any(each.match(path) for each in paths):
            return match[0]
        mark = "&amp;" if query else "?"
        return f'{name}="{path}{query}{mark}at_offset={past.offset}{anchor}"'

    hidden = f'<input type="hidden" name="at_offset" value="{past.offset}">'
    text = _RELATIVE_TIME.sub(r"\1\2<", text)  # the time since then says nothing about a past state
    return _LINK.sub(link, _GET_FORM.sub(lambda form: form[0] + hidden, text))


def past_paths(routes: Iterable[BaseRoute]) -> tuple[re.Pattern[str], ...]:
    """Return the paths of the pages that show past states."""
    return tuple(route.path_regex for route in routes if isinstance(route, APIRoute) and _shows_past(route.dependant))


def _shows_past(dependant: Dependant) -> bool:
    requirement = dependant.call
    is_one = isinstance(requirement, Requires) and requirement.shows_past
    return is_one or any(_shows_past(each) for each in dependant.dependencies)
