"""Responses that are deferred until their offset is committed. Source: DeferredEventQueue."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraft_core.controller.queue.controller_events import RequestEvent
    from kraft_core.protocol.wire import Message


class DeferredResponse(msgspec.Struct, frozen=True):
    """A response to `request` that is sent once all records up to `offset` are committed."""

    offset: int
    request: RequestEvent
    response: Message


class DeferredEventQueue:
    """Deferred responses in the order of their offsets, which never decrease."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[DeferredResponse] = deque()

    def __len__(self) -> int:
        """Return the number of deferred responses."""
        return len(self._waiting)

    def add(self, response: DeferredResponse) -> None:
        """Defer a response; its offset must not be lower than that of the last one."""
        assert not self._waiting or response.offset >= self._waiting[-1].offset, (
            "responses must be deferred in log order"
        )
        self._waiting.append(response)

    def complete_up_to(self, offset: int) -> Iterator[DeferredResponse]:
        """Remove and yield the responses whose offset is committed."""
        while self._waiting and self._waiting[0].offset <= offset:
            yield self._waiting.popleft()

    def fail_all(self) -> Iterator[DeferredResponse]:
        """Remove and yield all responses, because their records may never be committed."""
        while self._waiting:
            yield self._waiting.popleft()
