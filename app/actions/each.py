"""One change of many items: each succeeds or fails on its own, and is audited as if it had been changed alone."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

ITEMS_MAX: Final = 1_000
"""The most items of one change."""
AT_ONCE: Final = 8
"""The most items that are changed at the same time."""

Item = TypeVar("Item")
Made = TypeVar("Made")


async def for_each(
    items: Sequence[Item], make: Callable[[Item], Awaitable[Made]], refusals: tuple[type[Exception], ...]
) -> list[Made | Exception]:
    """Return what `make` makes of each item, in order; for a refused item, the one of `refusals` that it raised."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(item: Item) -> Made | Exception:
        async with limit:
            try:
                return await make(item)
            except refusals as refused:
                return refused

    return list(await asyncio.gather(*(one(item) for item in items)))
