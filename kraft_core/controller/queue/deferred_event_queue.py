"""Answers that wait for the log: each is given once its offset is committed. Source: DeferredEventQueue."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraft_core.controller.queue.controller_events import RequestEvent
    from kraft_core.protocol.wire import Message


class DeferredAnswer(msgspec.Struct, frozen=True):
    """A response to give when everything up to `offset` is committed, and the request it answers."""

    offset: int
    request: RequestEvent
    response: Message


class DeferredEventQueue:
    """Waiting answers in order of their offsets, which never go down."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[DeferredAnswer] = deque()

    def __len__(self) -> int:
        """Count the answers that wait."""
        return len(self._waiting)

    def add(self, answer: DeferredAnswer) -> None:
        """Let an answer wait; its offset must not lie before the last one's."""
        assert not self._waiting or answer.offset >= self._waiting[-1].offset, "answers must wait in log order"
        self._waiting.append(answer)

    def complete_up_to(self, offset: int) -> Iterator[DeferredAnswer]:
        """Yield and forget the answers whose offset is committed."""
        while self._waiting and self._waiting[0].offset <= offset:
            yield self._waiting.popleft()

    def fail_all(self) -> Iterator[DeferredAnswer]:
        """Yield and forget all, as their writes may never commit."""
        while self._waiting:
            yield self._waiting.popleft()
