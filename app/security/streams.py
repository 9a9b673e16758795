"""Ends event streams when the caller loses the right to read them.

A stream may last for hours, and its credentials are checked at its start only. So each process asks the database every
half second whether the callers of its open streams still have their rights. When a session ends, a token (or its maker)
is revoked or expires, or a user is disabled, removed or given another role, the caller's streams end within a second,
whichever process made the change. A change made in this process is checked at once.

One transaction checks all callers, however many streams each has. While the database does not answer, streams stay
open.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.security.roles import Principal

log = structlog.get_logger(__name__)

CHECK_SECONDS: Final = 0.5

Present = Callable[[Sequence[Principal]], Awaitable[list[Principal | None]]]
"""Returns the present rights of each caller, None when its session or token is no longer valid."""


class Streams:
    """The open event streams of one process."""

    def __init__(self, present: Present) -> None:
        self._present = present
        self._open: dict[asyncio.Timeout, Principal] = {}
        self._changed = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None

    def check_soon(self) -> None:
        """Check all streams at once, after a change of rights."""
        self._changed.set()

    async def serve(self, principal: Principal, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the request. If its response is an event stream, end it cleanly when the caller loses its rights."""
        is_complete = False
        limit = asyncio.timeout(None)

        async def watched(message: Message) -> None:
            nonlocal is_complete
            if message["type"] == "http.response.start" and _is_event_stream(message):
                self._add(limit, principal)
            is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        try:
            async with limit:
                await app(scope, receive, watched)
        except TimeoutError:
            if not limit.expired():
                raise
            if not is_complete:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._open.pop(limit, None)

    def _add(self, limit: asyncio.Timeout, principal: Principal) -> None:
        self._open[limit] = principal
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._watch_all(), name="event-streams")

    async def _watch_all(self) -> None:
        while self._open:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), CHECK_SECONDS)
            self._changed.clear()
            try:
                await self._end_streams_without_rights()
            except Exception as error:  # noqa: BLE001 - any error of a driver: the next check decides
                log.debug("streams_not_checked", error=type(error).__name__)

    async def _end_streams_without_rights(self) -> None:
        callers = list(set(self._open.values()))
        now = dict(zip(callers, await self._present(callers), strict=True))
        loop = asyncio.get_running_loop()
        for limit, principal in list(self._open.items()):
            if principal in now and now[principal] != principal:
                self._open.pop(limit, None)
                limit.reschedule(loop.time())


def _is_event_stream(message: Message) -> bool:
    kinds = [value for name, value in message["headers"] if name.lower() == b"content-type"]
    return any(kind.startswith(b"text/event-stream") for kind in kinds)
