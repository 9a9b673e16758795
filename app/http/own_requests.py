"""Requests of a page to the API of the same process, in the name of the page's caller.

Such a request passes all middleware again: host, credentials, CSRF, limits, roles and audit are those of any other.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.types import Message, Scope

_KEPT: Final = frozenset(
    {
        b"authorization",
        b"cookie",
        b"host",
        b"origin",
        b"sec-fetch-site",
        b"user-agent",
        b"x-forwarded-for",
        b"x-forwarded-proto",
    }
)
"""Headers of the page's request by which the caller and its origin are recognised."""


@dataclass(frozen=True, slots=True)
class OwnAnswer:
    """The answer to a request."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


async def ask(
    request: Request, method: str, target: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> OwnAnswer:
    """Send a request to `target`, an encoded path with its query, and return the whole answer."""
    path, _, query = target.partition("?")
    own = {**(headers or {}), "content-length": str(len(body))}
    scope: Scope = {
        "type": "http",
        "asgi": request.scope["asgi"],
        "http_version": request.scope["http_version"],
        "method": method,
        "scheme": request.scope["scheme"],
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "headers": [
            *((name, value) for name, value in request.scope["headers"] if name in _KEPT),
            *((name.lower().encode("ascii"), value.encode("ascii")) for name, value in own.items()),
        ],
        "client": request.scope["client"],
        "server": request.scope["server"],
    }
    bodies = [body]
    received: list[Message] = []

    async def receive() -> Message:
        if not bodies:
            await asyncio.get_running_loop().create_future()  # the caller never disconnects
        return {"type": "http.request", "body": bodies.pop(), "more_body": False}

    async def send(message: Message) -> None:
        received.append(message)

    await request.app(scope, receive, send)
    head, *parts = received
    named = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in head["headers"]]
    return OwnAnswer(head["status"], named, b"".join(part.get("body", b"") for part in parts))
