"""The outermost middleware: request ids, security headers, error responses, and counts for metrics.

No stack trace reaches a client: an unexpected exception becomes a generic 500 with the request's id, and the log has
the details.
"""

import ipaddress
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.config import Settings
from app.http.cluster_paths import mark_headers
from app.http.errors import UNEXPECTED
from app.security.forwarded import origin_of
from app.security.guard import is_https
from app.security.recorder import RequestInfo

log = structlog.get_logger(__name__)

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; object-src 'none'"
)
SECURITY_HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers hide the origin of our own forms too
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}

ErrorRenderer = Callable[[Request, Exception], Response]
Observe = Callable[[str, str, int, float], None]
"""Called with (method, route template, status, seconds) for each answered request."""


def new_request_id() -> str:
    """Return an id that sorts by time: milliseconds since 1970 and 64 random bits, in hex."""
    return f"{int(time.time() * 1000):012x}{secrets.token_hex(8)}"


class Edge:
    """ASGI middleware around all others."""

    def __init__(self, app: ASGIApp, *, settings: Settings, render: ErrorRenderer, observe: Observe) -> None:
        self._app = app
        self._settings = settings
        self._render = render
        self._observe = observe
        self._trusted = tuple(ipaddress.ip_network(each, strict=False) for each in settings.trusted_proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Every HTTP request gets a response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = new_request_id()
        client = scope.get("client")
        headers = Headers(scope=scope)
        origin = origin_of(client[0] if client else "local", scope["scheme"], headers, self._trusted)
        scope["scheme"] = origin.scheme
        scope.setdefault("state", {}).update(
            request_id=request_id,
            info=RequestInfo(source=origin.address, request_id=request_id, user_agent=headers.get("user-agent", "")),
            root="",
            prefix="",
            principal=None,
            csrf_token="",
        )
        status = 0

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._mark(scope, MutableHeaders(raw=message["headers"]), request_id)
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, send_marked)
            except Exception as error:  # the last place where an error can become a response
                if status:
                    log.exception("answer_cut_short", path=scope["path"])
                    raise
                await self._answer(error, scope, receive, send_marked)
            finally:
                route = scope.get("route")
                template = getattr(route, "path", None) or "other"
                self._observe(scope["method"], template, status, time.perf_counter() - started)

    def _answer(self, error: Exception, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        try:
            response = self._render(Request(scope, receive), error)
        except Exception:  # a failing error page must not leave the client without a response
            log.exception("error_page_failed", path=scope["path"])
            response = PlainTextResponse(f"Internal error, request {scope['state']['request_id']}", UNEXPECTED)
        return response(scope, receive, send)

    def _mark(self, scope: Scope, headers: MutableHeaders, request_id: str) -> None:
        mark_headers(scope["state"]["root"], headers)
        for name, value in SECURITY_HEADERS.items():
            headers.setdefault(name, value)
        headers.setdefault("Cache-Control", "no-store")
        headers["X-Request-Id"] = request_id
        if is_https(scope, self._settings):
            headers.setdefault("Strict-Transport-Security", "max-age=31536000")
