"""Parts of open pages that many readers fetch at the same moment are made once.

After a change every open page fetches its live parts again (live.js, with the header X-Live). A handler marked with
`shared` makes one answer for all readers who would get the same bytes: those with the same address, rights, language,
theme and columns, at the same stamp of the metadata and after the same changes of groups, which the metadata does not
have. Their rights are checked before, for each request. The answer is made for a reader without a name, a session or
messages; the CSRF token of each reader is put in afterwards.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Final

from fastapi import Request
from fastapi.responses import Response

from app.pages.columns import COOKIE_PREFIX
from app.pages.flash import FLASH_COOKIE
from app.pages.language import language_of
from app.pages.theme import theme_of
from app.services import base_url_of, csrf_token_of, principal_of, services_of

Handler = Callable[..., Coroutine[Any, Any, Response]]

HEADER: Final = "x-live"
ANSWERS_MAX: Final = 64
BODY_BYTES_MAX: Final = 256 << 10
FRESH_SECONDS: Final = 0.5
"""How long an answer is given out after its making began: parts also show what brokers tell, which no stamp covers."""


@dataclass(frozen=True, slots=True)
class _Made:
    answer: "asyncio.Task[Response]"
    begun_at: float

    def is_valid(self, now: float) -> bool:
        if not self.answer.done():
            return True
        failed = self.answer.cancelled() or self.answer.exception() is not None
        return not failed and now - self.begun_at < FRESH_SECONDS and len(self.answer.result().body) <= BODY_BYTES_MAX


class SharedParts:
    """The answers about one cluster, of the newest stamp only and at most ANSWERS_MAX."""

    def __init__(self) -> None:
        self._token = secrets.token_hex(16)  # stands for the CSRF token in answers; nobody outside can know it
        self._stamp = ""
        self._made: dict[tuple[object, ...], _Made] = {}

    async def answer(self, request: Request, make: Callable[[Request], Coroutine[Any, Any, Response]]) -> Response:
        """Return the answer to a request, made now or for another reader. Raises what `make` raises."""
        cluster, now = services_of(request).cluster, asyncio.get_running_loop().time()
        stamp = f"{cluster.stamp}-{cluster.groups.changes}"
        if stamp != self._stamp:
            self._stamp = stamp
            self._made.clear()
        key = _key(request)
        made = self._made.get(key)
        if made is None or not made.is_valid(now):
            self._made.pop(key, None)
            if len(self._made) >= ANSWERS_MAX:
                del self._made[next(iter(self._made))]
            made = self._made[key] = _Made(asyncio.create_task(make(self._of_nobody(request))), now)
            made.answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._for(request, await asyncio.shield(made.answer))

    def _of_nobody(self, request: Request) -> Request:
        """Return the request of a reader with the same rights, of whom nothing else is known."""
        nobody = replace(principal_of(request), kind="user", id=0, name="", session_id=None)
        state = {**request.scope["state"], "principal": nobody, "csrf_token": self._token}
        made = Request({**request.scope, "state": state})
        made.cookies.pop(FLASH_COOKIE, None)
        return made

    def _for(self, request: Request, made: Response) -> Response:
        body = bytes(made.body).replace(self._token.encode(), csrf_token_of(request).encode())
        answer = Response(body, made.status_code)
        answer.raw_headers += [(name, value) for name, value in made.raw_headers if name != b"content-length"]
        return answer


def _key(request: Request) -> tuple[object, ...]:
    """Return everything that an answer depends on, apart from the state of the cluster."""
    reader = principal_of(request)
    columns = sorted((name, value) for name, value in request.cookies.items() if name.startswith(COOKIE_PREFIX))
    return (
        request.url.path,
        request.url.query,
        base_url_of(request),
        request.headers.get("accept", ""),
        language_of(request),
        theme_of(request),
        tuple(columns),
        reader.own_role,
        reader.grants,
        reader.scopes,
    )


def shared(handler: Handler) -> Handler:
    """Let live readers of a page share its answer. The page depends on the rights of its caller, and on nobody's name.

    Other requests, such as those of a person who opens the page, are answered by the handler itself.
    """

    @wraps(handler)
    async def answer(request: Request, **arguments: Any) -> Response:
        is_plain = services_of(request).cluster.past is None and not hasattr(request.state, "rows_on_page")
        if not is_plain or HEADER not in request.headers:
            return await handler(request, **arguments)
        kept: dict[str, SharedParts] = request.app.state.shared_parts
        parts = kept.setdefault(services_of(request).key, SharedParts())
        return await parts.answer(request, lambda nobody: handler(nobody, **arguments))

    return answer
