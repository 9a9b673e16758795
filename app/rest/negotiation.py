"""Content negotiation: the API reads and writes JSON. Anything else is refused before routing.

- 406 and 415 for other media types, 400 for hostile paths.
- HEAD is answered wherever GET is. An event stream ends with its head.
- Forms of pages take no query parameters: they have no `validate_only`, and must not ignore it.
"""

import re
from typing import Final
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.errors import BadRequestError, NotAcceptableError, UnsupportedMediaTypeError
from app.http.locations import NEXT
from app.http.paths import encoded_segments, is_api, routed_path
from app.rest.routing import SAFE_METHODS
from app.texts import phrase
from kraft_core.protocol.errors import ErrorCode, KafkaError

ACCEPTABLE: Final = frozenset({"*/*", "application/*", "application/json", "application/problem+json"})
STREAM: Final = frozenset({"text/*", "text/event-stream"})
STREAM_PATH: Final = "/metadata/watch"
_HOSTILE: Final = re.compile(rb"%2f|%5c|%00|%0a|%0d", re.IGNORECASE)


class _HeadSent(Exception):  # noqa: N818 - it ends an answer in parts, whose body nobody reads
    pass


class Negotiation:
    """ASGI middleware for requests under /v3 and for forms."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request and pass it on. Raises ApiError, KafkaError INVALID_TOPIC_EXCEPTION."""
        if scope["type"] == "http" and is_api(scope["path"]):
            headers = Headers(scope=scope)
            _check_path(scope)
            _check_accept(headers, is_stream=scope["path"].endswith(STREAM_PATH))
            _check_content_type(headers)
        elif scope["type"] == "http" and scope["method"] not in SAFE_METHODS and _has_parameters(scope):
            raise BadRequestError(
                phrase("Bad Request: a form takes no query parameters; remove them from the address."),
                code="unknown-parameter",
            )
        if scope["type"] == "http" and scope["method"] == "HEAD":
            await self._head(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _head(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle HEAD as GET; the server omits the body. The metrics read the route from the original scope."""
        asked = {**scope, "method": "GET"}

        async def send_head(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.body" and message.get("more_body", False):
                raise _HeadSent

        try:
            await self._app(asked, receive, send_head)
        except _HeadSent:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            scope["route"] = asked.get("route")


def _has_parameters(scope: Scope) -> bool:
    """Return whether the address of a form has another parameter than the page to open after a login."""
    return any(name != NEXT for name, _ in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))


def _check_path(scope: Scope) -> None:
    """Refuse encoded separators and control characters: the path would reach another resource than it shows.

    Ids of groups and members may have them: their segments stay encoded (see app.http.paths).
    """
    raw: bytes = scope.get("raw_path", b"").partition(b"?")[0]
    routed = routed_path(raw.decode("latin-1"))
    if routed is not None:
        scope["path"] = routed
        segments = raw.split(b"/")
        kept = encoded_segments([each.decode("latin-1") for each in segments])
        raw = b"/".join(each for index, each in enumerate(segments) if index not in kept)
    if not _HOSTILE.search(raw):
        return
    if b"/topics/" in raw:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "The topic name contains a character other than ASCII alphanumerics, '.', '_' and '-'.",
        )
    raise BadRequestError(
        "Bad Request: the path contains an encoded separator or control character (%2F, %5C, %00, %0A, %0D)."
    )


def _check_accept(headers: Headers, *, is_stream: bool) -> None:
    accept = headers.get("accept", "").lower()
    if not accept:
        return
    wanted = {part.partition(";")[0].strip() for part in accept.split(",")}
    if not wanted & (ACCEPTABLE | STREAM if is_stream else ACCEPTABLE):
        raise NotAcceptableError(f"Accept '{accept[:80]}' cannot be satisfied: this API answers with application/json.")


def _check_content_type(headers: Headers) -> None:
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if not has_body:
        return
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise UnsupportedMediaTypeError(
            f"Content-Type '{media_type[:80]}' is not supported: this API reads application/json.",
            headers={"Accept": "application/json"},
        )
