"""What the API speaks: JSON both ways. Anything else is refused before a route sees it (406, 415, hostile paths 400).

HEAD is answered where GET is, without the event stream, which has no end. Forms of pages take no query parameter at all, so
that `validate_only`, which they do not have, is never ignored.
"""

import re
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.http.errors import ApiError
from app.rest.routing import SAFE_METHODS
from kraft_core.protocol.errors import ErrorCode, KafkaError

ACCEPTABLE: Final = frozenset({"*/*", "application/*", "application/json", "application/problem+json"})
STREAM: Final = frozenset({"text/*", "text/event-stream"})
STREAM_PATH: Final = "/metadata/watch"
_HOSTILE: Final = re.compile(rb"%2f|%5c|%00|%0a|%0d", re.IGNORECASE)


class Negotiation:
    """ASGI middleware for everything under /v3, and for forms."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request and hand it on. Raises ApiError and KafkaError."""
        if scope["type"] == "http" and scope["path"].startswith("/v3"):
            headers = Headers(scope=scope)
            _check_path(scope)
            _check_accept(headers, is_stream=scope["path"].endswith(STREAM_PATH))
            _check_content_type(headers)
            if scope["method"] == "HEAD" and not scope["path"].endswith(STREAM_PATH):
                await self._head(scope, receive, send)
                return
        elif scope["type"] == "http" and scope["method"] not in SAFE_METHODS and scope["query_string"]:
            raise ApiError(400, "Bad Request: a form takes no query parameters.", code="unknown-parameter")
        await self._app(scope, receive, send)

    async def _head(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask as GET; the server leaves the body out. The route is noted where the metrics look for it."""
        asked = {**scope, "method": "GET"}
        try:
            await self._app(asked, receive, send)
        finally:
            scope["route"] = asked.get("route")


def _check_path(scope: Scope) -> None:
    """Encoded separators and control characters would reach another resource than the path shows."""
    raw: bytes = scope.get("raw_path", b"").partition(b"?")[0]
    if not _HOSTILE.search(raw):
        return
    if b"/topics/" in raw:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name holds a character that no topic name has.")
    raise ApiError(400, "Bad Request: the path holds an encoded separator or control character.")


def _check_accept(headers: Headers, *, is_stream: bool) -> None:
    accept = headers.get("accept", "").lower()
    if not accept:
        return
    wanted = {part.partition(";")[0].strip() for part in accept.split(",")}
    if not wanted & (ACCEPTABLE | STREAM if is_stream else ACCEPTABLE):
        raise ApiError(406, "This API answers application/json.")


def _check_content_type(headers: Headers) -> None:
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if not has_body:
        return
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise ApiError(415, "This API reads application/json.", headers={"Accept": "application/json"})
