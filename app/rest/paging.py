"""Lists in pages: `page_size` bounds a page, `page_token` names the key of the last item of the page before.

A key instead of an index keeps pages consistent while items are created and deleted.
"""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import urlencode

from fastapi import Depends, Query, Request
from fastapi.responses import Response

from app.http.errors import BadRequestError
from app.http.paths import quoted_path
from app.rest.responses import answer, list_body
from app.rest.view import NowViewDep, View, ViewDep

PAGE_SIZE_MAX: Final = 1_000
_OTHER_LIST: Final = "Bad Request: page_token belongs to another list; take it from metadata.next of this one."

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the list at the request's path: at most `size` items whose keys are greater than `after`."""

    request: Request
    view: View
    size: int = PAGE_SIZE_MAX
    after: Any = None

    @property
    def url(self) -> str:
        """Return the address of the list without its query."""
        return f"{self.view.base_url}{quoted_path(self.request.scope['path'])}"

    def next_url(self, key: Any) -> str:
        """Return the address of the page that begins after the item with this key; other parameters are kept."""
        content = json.dumps({"list": self.request.scope["path"], "after": key}).encode()
        token = base64.urlsafe_b64encode(content).decode()
        others = [(name, value) for name, value in self.request.query_params.multi_items() if name != "page_token"]
        return f"{self.url}?{urlencode([*others, ('page_token', token)])}"

    def body(
        self, kind: str, items: Sequence[T], key: Callable[[T], Any], shape: Callable[[T], dict[str, Any]]
    ) -> dict[str, Any]:
        """Return this page of `items`, which are sorted by `key`. Only its items are shaped.

        Raises BadRequestError when the token belongs to another list.
        """
        chosen = self.chosen(items, key)
        following = self.next_url(key(chosen[-1])) if chosen and key(chosen[-1]) != key(items[-1]) else None
        return list_body(kind, self.url, [shape(item) for item in chosen], following)

    def chosen(self, items: Sequence[T], key: Callable[[T], Any]) -> Sequence[T]:
        """Return the items of this page. Raises BadRequestError when the token belongs to another list."""
        start = 0 if self.after is None else self._start(items, key)
        return items[start : start + self.size]

    def answer(
        self, kind: str, items: Sequence[T], key: Callable[[T], Any], shape: Callable[[T], dict[str, Any]]
    ) -> Response:
        """Return the response with `body` and the view's offset."""
        return answer(self.body(kind, items, key, shape), self.view.offset)

    def check_after(self, *types: type) -> None:
        """Raise BadRequestError unless the key of the token has exactly these types, or there is no token."""
        if self.after is None:
            return
        if not isinstance(self.after, list) or [type(part) for part in self.after] != list(types):
            raise BadRequestError(_OTHER_LIST)

    def _start(self, items: Sequence[T], key: Callable[[T], Any]) -> int:
        """Return the index of the first item after the token's key (binary search)."""
        low, high = 0, len(items)
        wanted = tuple(self.after) if isinstance(self.after, list) else self.after
        try:
            while low < high:
                middle = (low + high) // 2
                if key(items[middle]) <= wanted:
                    low = middle + 1
                else:
                    high = middle
        except TypeError:
            raise BadRequestError(_OTHER_LIST) from None
        return low


PageSize = Annotated[int, Query(ge=1, le=PAGE_SIZE_MAX, description="largest number of items")]
PageToken = Annotated[str | None, Query(max_length=2_000, description="from `metadata.next`")]


async def now_page_of(
    request: Request, view: NowViewDep, page_size: PageSize = PAGE_SIZE_MAX, page_token: PageToken = None
) -> Page:
    """Return the requested page. Raises BadRequestError for a malformed token and for one of another list."""
    return _page(request, view, page_size, page_token)


async def page_of(
    request: Request, view: ViewDep, page_size: PageSize = PAGE_SIZE_MAX, page_token: PageToken = None
) -> Page:
    """Return the requested page of a list that may be of a past state. Raises as `now_page_of`."""
    return _page(request, view, page_size, page_token)


def _page(request: Request, view: View, page_size: int, page_token: str | None) -> Page:
    if page_token is None:
        return Page(request, view, page_size)
    try:
        content = json.loads(base64.urlsafe_b64decode(page_token.encode("ascii")))
        path, after = content["list"], content["after"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadRequestError(
            "Bad Request: page_token is malformed; take it from metadata.next of this list."
        ) from None
    if path != request.scope["path"]:
        raise BadRequestError(_OTHER_LIST)
    return Page(request, view, page_size, after)


NowPageDep = Annotated[Page, Depends(now_page_of)]
PageDep = Annotated[Page, Depends(page_of)]
