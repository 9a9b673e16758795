"""The guard before every request: Host, credentials, CSRF, body. Everything that is not open requires a caller.

One ASGI middleware, so that no route can omit a check. In order: the Host header must be one of ours; a session cookie
or an API token must name a caller, except on open paths; a change made with a cookie must come from our own pages and
carry the token of its session; the body must be small and arrive in time, and JSON must be strict. The role that each
route requires is checked later.

A token is sent as Bearer, or on the API as Basic with its name as the user. Browsers keep Basic credentials and send
them with requests of other sites too, so a change with them must not come from another site.
"""

import asyncio
import base64
import re
from contextlib import nullcontext, suppress
from typing import Final, NoReturn
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.config import Settings
from app.db.outage import DatabaseUnavailableError
from app.http.errors import (
    BadRequestError,
    ContentTooLargeError,
    ForbiddenError,
    MisdirectedRequestError,
    NotLoggedInError,
    RequestTimeoutError,
)
from app.http.locations import KEPT_FORM, NEXT
from app.http.paths import is_api
from app.http.strict_json import json_document, json_documents
from app.security.forwarded import network_of
from app.security.kept_forms import LIFETIME
from app.security.recorder import RequestInfo
from app.security.roles import ANONYMOUS, Principal
from app.security.secrets import new_token, same
from app.security.service import Security
from app.security.slots import HEALTH_PATHS, STRANGERS_BODY_BYTES_MAX, Held, Pool, Slots
from app.texts import phrase

SESSION_COOKIE: Final = "conclave_session"
VISITOR_COOKIE: Final = "conclave_visitor"
KEPT_COOKIE: Final = "conclave_kept_form"
CSRF_FIELD: Final = "csrf_token"
CSRF_HEADER: Final = "x-csrf-token"
FORM_TYPE: Final = "application/x-www-form-urlencoded"
OPEN_PATHS: Final = frozenset(
    {
        "/login",
        "/login/link",
        "/login/code",
        "/login/oidc",
        "/login/oidc/callback",
        "/language",
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
        "/favicon.ico",
        "/robots.txt",
    }
)
OPEN_PREFIXES: Final = ("/static/",)
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
BODY_SECONDS: Final = 30
FORM_FIELDS_MAX: Final = 10_000
STRANGERS_BODY_SECONDS: Final = 5
STREAMED_BODY: Final = "/records"
"""End of paths whose bodies may be several JSON documents."""
HOST: Final = re.compile(r"(?P<name>[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?", re.ASCII)


class Guard:
    """ASGI middleware. Sets `principal`, `csrf_token` and `info` in the request's state."""

    def __init__(self, app: ASGIApp, *, security: Security, settings: Settings, slots: Slots) -> None:
        self._app = app
        self._slots = slots
        self._security = security
        self._settings = settings
        self._host_names = settings.host_names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request and pass it on. Raises ApiError when it is refused."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        self._check_host(headers)
        state = scope["state"]  # set by Edge
        source = network_of(state["info"].source)
        pool = self._slots.pool_of(scope["path"])
        if pool is self._slots.health or pool is self._slots.login:
            with pool.slot(source):
                await self._serve(scope, receive, send, headers, source)
        else:
            await self._serve(scope, receive, send, headers, source, pool)

    async def _serve(
        self, scope: Scope, receive: Receive, send: Send, headers: Headers, source: str, pool: Pool | None = None
    ) -> None:
        """Authenticate the request and pass it on, in a slot of its caller if `pool` is given."""
        state = scope["state"]
        cookies = _cookies(headers)
        principal = None
        if not is_public(scope["path"]):  # open to everybody, even when the database is unavailable
            async with self._slots.lookup(source):
                principal = await self._authenticate(scope, headers, cookies)
        if principal is not None:
            principal = principal.in_cluster(state["info"].cluster)
        state["principal"] = principal
        visitor = cookies.get(VISITOR_COOKIE) or new_token()
        by_cookie = principal is None or principal.session_id is not None
        if principal is not None and principal.session_id:
            state["csrf_token"] = self._security.csrf_token(principal.session_id)
        else:
            state["csrf_token"] = self._security.csrf_token_of_visitor(visitor)
        if principal is None and not _is_open(scope["path"]):
            raise NotLoggedInError(await self._keep_form(scope, receive, headers, cookies, source))
        holder = source if principal is None else f"{principal.kind}:{principal.id}"
        if principal is None and VISITOR_COOKIE not in cookies and scope["path"] in {"/login", "/login/link"}:
            send = _with_cookie(
                send, f"{VISITOR_COOKIE}={visitor}; Path=/; HttpOnly; SameSite=Strict{self._secure(scope)}"
            )
        if pool is not None and pool.lacks(holder):
            await pool.prepare(holder)
        with pool.slot(holder) if pool is not None else nullcontext(), Held(self._slots.bodies, holder) as held:
            if scope["method"] not in SAFE_METHODS:
                bytes_max, seconds = self._settings.body_bytes_max, BODY_SECONDS
                if principal is None:  # a login form is small
                    bytes_max, seconds = STRANGERS_BODY_BYTES_MAX, STRANGERS_BODY_SECONDS
                body = await _read_body(receive, headers, bytes_max, seconds, held)
                if by_cookie:
                    await self._check_csrf(scope, headers, body, principal)
                elif not headers["authorization"].lower().startswith("bearer "):
                    await self._check_origin(scope, headers, principal)
                _check_json(headers, body, scope["path"])
                receive = _replay(body, receive)
            if principal is None:
                await self._app(scope, receive, send)
            else:
                await self._security.streams.serve(principal, self._app, scope, receive, send)

    async def _keep_form(
        self, scope: Scope, receive: Receive, headers: Headers, cookies: dict[str, str], source: str
    ) -> str:
        """Keep the form of a page that was loaded in a session that has ended. Return its cookie, else ""."""
        session_id = cookies.get(SESSION_COOKIE)
        is_form = scope["method"] == "POST" and headers.get("content-type", "").lower().startswith(FORM_TYPE)
        query = scope["query_string"].decode("latin-1")
        names_page = NEXT in parse_qs(query)
        is_ours = self._same_origin(scope, headers) and not is_api(scope["path"])
        if not session_id or not is_form or names_page or not is_ours:
            return ""
        with self._slots.login.slot(source), Held(self._slots.bodies, source) as held:
            body = await _read_body(receive, headers, self._settings.body_bytes_max, STRANGERS_BODY_SECONDS, held)
            given = _form_field(headers, body, CSRF_FIELD)
            if not given or not same(given, self._security.csrf_token(session_id)):
                return ""
            key = self._security.kept_form_key(session_id)
            address = scope["path"] + (f"?{query}" if query else "")
            with suppress(ValueError, DatabaseUnavailableError):
                await self._security.kept_forms.keep(key, address, body, FORM_FIELDS_MAX)
                life = f"Path={scope['state']['root']}{KEPT_FORM}; Max-Age={int(LIFETIME.total_seconds())}"
                return f"{KEPT_COOKIE}={key}; {life}; HttpOnly; SameSite=Lax{self._secure(scope)}"
        return ""

    def _secure(self, scope: Scope) -> str:
        return "; Secure" if is_https(scope, self._settings) else ""

    def _check_host(self, headers: Headers) -> None:
        """Raise ApiError unless the only Host header is one of our names, with or without a port (DNS rebinding)."""
        given = headers.getlist("host")
        found = HOST.fullmatch(given[0].lower()) if len(given) == 1 else None
        if found is None or not 0 < int(found["port"] or 80) < 65_536:
            raise BadRequestError(phrase("Bad Request: there must be one Host header, as NAME or NAME:PORT."))
        if found["name"] not in self._host_names:
            raise MisdirectedRequestError(
                phrase("This server does not answer for that host name; see the setting allowed_hosts.")
            )

    async def _authenticate(self, scope: Scope, headers: Headers, cookies: dict[str, str]) -> Principal | None:
        """Return the caller. A wrong token is an error; an ended session is an anonymous caller."""
        authorization = headers.get("authorization")
        if authorization is not None:
            key, token = _credentials(authorization, takes_basic=is_api(scope["path"]))
            return await self._security.principal_of_token(token, scope["state"]["info"], key)
        session_id = cookies.get(SESSION_COOKIE)
        return await self._security.principal_of_session(session_id) if session_id else None

    async def _check_csrf(self, scope: Scope, headers: Headers, body: bytes, principal: Principal | None) -> None:
        """Raise ForbiddenError unless a change by cookie comes from our own pages and has the token of its session."""
        await self._check_origin(scope, headers, principal)
        given = headers.get(CSRF_HEADER) or _form_field(headers, body, CSRF_FIELD)
        if not given or not same(given, scope["state"]["csrf_token"]):
            cause = phrase("The form's token is missing or belongs to another session; load the page again.")
            await self._refuse(scope, principal, cause)

    async def _check_origin(self, scope: Scope, headers: Headers, principal: Principal | None) -> None:
        """Raise ForbiddenError for a request of another site's page."""
        if not self._same_origin(scope, headers):
            await self._refuse(scope, principal, phrase("The request comes from another site."))

    async def _refuse(self, scope: Scope, principal: Principal | None, cause: str) -> NoReturn:
        actor = principal.actor if principal else ANONYMOUS
        info: RequestInfo = scope["state"]["info"]
        await self._security.record(actor, "csrf", scope["path"], "denied", info, error=cause)
        raise ForbiddenError(cause, code="csrf")

    def _same_origin(self, scope: Scope, headers: Headers) -> bool:
        origin = headers.get("origin")
        if origin is not None:
            ours = {f"{'https' if is_https(scope, self._settings) else 'http'}://{headers.get('host', '').lower()}"}
            if self._settings.public_url:
                ours.add(self._settings.public_url.lower())
            return origin.lower() in ours
        return headers.get("sec-fetch-site", "same-origin") in {"same-origin", "none"}


def is_https(scope: Scope, settings: Settings) -> bool:
    """Return whether the user's browser uses TLS, to us or to the proxy of `public_url`."""
    public = settings.public_url
    return scope.get("scheme") == "https" or (public is not None and urlsplit(public).scheme == "https")


def is_public(path: str) -> bool:
    """Return whether a path has the same answer for every caller: health, metrics and static files."""
    return path in HEALTH_PATHS or path.startswith(OPEN_PREFIXES)


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIXES)


def _credentials(authorization: str, *, takes_basic: bool) -> tuple[str | None, str]:
    """Return the name of the token, if the scheme has one, and its text, empty when it cannot be read."""
    scheme, _, given = authorization.partition(" ")
    match scheme.lower():
        case "bearer":
            return None, given.strip()
        case "basic" if takes_basic:
            try:
                key, _, secret = base64.b64decode(given.strip(), validate=True).decode().partition(":")
            except ValueError:
                return None, ""
            return key, secret
        case _:
            return None, ""


def _cookies(headers: Headers) -> dict[str, str]:
    """Return the cookies of the request. The first one of a name counts."""
    found: dict[str, str] = {}
    for part in headers.get("cookie", "").split(";"):
        name, separator, value = part.strip().partition("=")
        if separator:
            found.setdefault(name, value)
    return found


def _form_field(headers: Headers, body: bytes, name: str) -> str | None:
    if not headers.get("content-type", "").lower().startswith(FORM_TYPE):
        return None
    try:
        return parse_qs(body.decode("utf-8"), max_num_fields=FORM_FIELDS_MAX).get(name, [None])[0]
    except ValueError:
        raise BadRequestError(
            phrase(
                "The form cannot be parsed, or has more than %(most)s fields. Nothing has changed.",
                most=FORM_FIELDS_MAX,
            )
        ) from None


def _with_cookie(send: Send, cookie: str) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"set-cookie", cookie.encode("latin-1"))]}
        await send(message)

    return wrapped


async def _read_body(receive: Receive, headers: Headers, bytes_max: int, seconds: float, held: Held) -> bytes:
    """Return the whole body.

    Raises ContentTooLargeError, RequestTimeoutError when it arrives too slowly, and TooManyRequestsError or
    UnavailableError when bodies fill the memory.
    """
    too_large = ContentTooLargeError(
        phrase("The body is larger than %(most)s bytes.", most=bytes_max), headers={"Connection": "close"}
    )
    announced = headers.get("content-length", "0")
    if not announced.isascii() or not announced.isdigit():
        raise BadRequestError("Content-Length is not a number.")
    if int(announced) > bytes_max:
        raise too_large
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise BadRequestError("The client disconnected.", code="client-gone")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                await held.take(len(parts[-1]))
                if size > bytes_max:
                    raise too_large
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise RequestTimeoutError(
            phrase("The body did not arrive within %(seconds)s s.", seconds=f"{seconds:g}"),
            headers={"Connection": "close"},
        ) from None


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return the body once, then what the server sends next, such as a disconnect."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _check_json(headers: Headers, body: bytes, path: str) -> None:
    """Refuse ambiguous JSON. Raises BadRequestError."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if not body or not (media_type == "application/json" or media_type.endswith("+json")):
        return
    if path.endswith(STREAMED_BODY):
        json_documents(body)
    else:
        json_document(body)
