"""Compressed answers: gzip for a client that accepts it, where it saves something and reveals nothing.

An answer that has a secret next to text of an attacker's choice must not be compressed, since its size then reveals
the secret (BREACH). So pages, which carry the token of their session, are never compressed, nor answers to changes, nor
what a page of another site asks for.
"""

import asyncio
import re
import zlib
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.entity_tags import weak
from app.http.paths import is_api

BYTES_MIN: Final = 1_024
THREAD_BYTES: Final = 65_536
"""A larger answer is compressed on a thread: other requests do not wait for it."""
LEVEL: Final = 1
STATIC_LEVEL: Final = 9
_PATHS: Final = frozenset({"/openapi.json", "/metrics"})
_KINDS: Final = ("application/json", "application/problem+json", "text/plain")
_QUALITY: Final = re.compile(r";\s*q=([01](?:\.[0-9]{0,3})?)\s*$")


class Compression:
    """ASGI middleware for answers to GET of the API. An event stream passes at once: it has another media type."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, and compress its answer if the client accepts that."""
        if scope["type"] == "http" and scope["method"] == "GET" and _is_open_to(scope):
            send = _Compressed(send).send
        await self._app(scope, receive, send)


def _is_open_to(scope: Scope) -> bool:
    path = scope["path"]
    if not is_api(path) and path not in _PATHS:
        return False
    headers = Headers(scope=scope)
    return accepts_gzip(headers.get("accept-encoding", "")) and headers.get("sec-fetch-site") != "cross-site"


class _Compressed:
    """The way of one answer to its client. Its head waits for the body, whose length it has."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._head: Message | None = None

    async def send(self, message: Message) -> None:
        """Send a message, compressed if the body is whole."""
        if message["type"] == "http.response.start" and _is_worth_it(message):
            self._head = message
            return
        head, self._head = self._head, None
        if head is not None:
            body = message.get("body", b"")
            if not message.get("more_body", False):
                body = await _in_turn(body)
                _mark(MutableHeaders(raw=head["headers"]), len(body))
                message = {**message, "body": body}
            await self._send(head)
        await self._send(message)


def _is_worth_it(head: Message) -> bool:
    headers = Headers(raw=head["headers"])
    return (
        head["status"] == 200
        and int(headers.get("content-length", "0")) >= BYTES_MIN
        and headers.get("content-type", "").startswith(_KINDS)
        and "content-encoding" not in headers
    )


def _mark(headers: MutableHeaders, length: int) -> None:
    headers["Content-Length"] = str(length)
    headers["Content-Encoding"] = "gzip"
    headers.add_vary_header("Accept-Encoding")
    if "etag" in headers:
        headers["ETag"] = weak(headers["ETag"])


async def _in_turn(body: bytes) -> bytes:
    return gzipped(body) if len(body) <= THREAD_BYTES else await asyncio.to_thread(gzipped, body)


def gzipped(content: bytes, level: int = LEVEL) -> bytes:
    """Return the content in gzip's format, the same bytes each time."""
    packer = zlib.compressobj(level, zlib.DEFLATED, 31)
    return packer.compress(content) + packer.flush()


def accepts_gzip(header: str) -> bool:
    """Return whether a client accepts gzip, and does not prefer the content as it is (RFC 9110, section 12.5.3)."""
    qualities = {}
    for part in header.lower().split(",") if header else ():
        name, found = part.partition(";")[0].strip(), _QUALITY.search(part)
        qualities[name] = float(found[1]) if found else 0.0 if ";" in part else 1.0
    quality = qualities.get("gzip", qualities.get("*", 0.0))
    return quality > 0 and quality >= qualities.get("identity", 0.0)
