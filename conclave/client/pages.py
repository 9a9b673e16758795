"""Lists in pages: iterate over the items, or over the pages with what the list itself says."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl, urlsplit

from conclave.client.calls import Call

PageT = TypeVar("PageT")
ItemT = TypeVar("ItemT")


class Pages(Generic[PageT, ItemT]):
    """A list. Each iteration asks again, page by page as far as it goes."""

    def __init__(self, send: Callable[[Call[PageT]], PageT], call: Call[PageT]) -> None:
        self._send = send
        self._call = call

    def __iter__(self) -> Iterator[ItemT]:
        """Iterate over the items of all pages. Raises ConclaveError."""
        for page in self.by_page():
            yield from _data(page)

    def by_page(self) -> Iterator[PageT]:
        """Iterate over the pages. Raises ConclaveError."""
        following: Call[PageT] | None = self._call
        while following is not None:
            page = self._send(following)
            yield page
            following = _next(following, page)


class AsyncPages(Generic[PageT, ItemT]):
    """A list. Each iteration asks again, page by page as far as it goes."""

    def __init__(self, send: Callable[[Call[PageT]], Awaitable[PageT]], call: Call[PageT]) -> None:
        self._send = send
        self._call = call

    async def __aiter__(self) -> AsyncIterator[ItemT]:
        """Iterate over the items of all pages. Raises ConclaveError."""
        async for page in self.by_page():
            for item in _data(page):
                yield item

    async def by_page(self) -> AsyncIterator[PageT]:
        """Iterate over the pages. Raises ConclaveError."""
        following: Call[PageT] | None = self._call
        while following is not None:
            page = await self._send(following)
            yield page
            following = _next(following, page)


def _data(page: Any) -> list[Any]:
    items: list[Any] = page.data
    return items


def _next(call: Call[PageT], page: Any) -> Call[PageT] | None:
    """Return the call of the next page, None after the last.

    Only the query of its address is taken: the token must not go to another host, and a proxy may have another path.
    """
    address = page.metadata.next
    if address is None:
        return None
    query = dict(parse_qsl(urlsplit(address).query, keep_blank_values=True))
    query.pop("min_offset", None)
    return replace(call, query=query)
