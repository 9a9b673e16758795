"""Event streams end with the right to read them.

A stream lives for hours on credentials that were checked once, at its beginning. So each process asks the database every
half second whether the callers of its open streams are still who they were: a session that ended, a token that was
revoked or expired (or whose maker was), a user who was disabled, removed or given another role ends the caller's streams
within a second, whichever process the change was made in. A change made in this process is looked at at once.

One transaction asks for all callers, however many streams each has. While the database does not answer, streams stay.
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
"""Returns for each caller who it is now; None when its session or token is no good any more."""


class Streams:
    """The open event streams of one process."""

    def __init__(self, present: Present) -> None:
        self._present = present
        self._open: dict[asyncio.Timeout, Principal] = {}
        self._changed = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None

    def check_soon(self) -> None:
        """Look at all streams at once: somebody's rights have changed."""
        self._changed.set()

    async def serve(self, principal: Principal, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the request; if its answer is an event stream, end that properly when the caller's rights end."""
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
                await self._end_those_without_rights()
            except Exception as error:  # noqa: BLE001 - whatever a driver raises: the next look decides
                log.debug("streams_not_checked", error=type(error).__name__)

    async def _end_those_without_rights(self) -> None:
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
