"""Coming and going, one's own password, users, API tokens, and the audit."""

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.db.base import utc_now
from app.db.models import ROLES, ApiToken, User
from app.errors import ApiError
from app.flash import Flash
from app.locations import redirect
from app.pages.frame import go_to, page_of, render, whole_number
from app.security.accounts import AccountError
from app.security.audit import AuditFilter, events
from app.security.guard import SESSION_COOKIE, is_https
from app.services import Admin, Reader, info_of, services_of, visitor_of

router = APIRouter(include_in_schema=False)

EVENTS_ON_PAGE: Final = 100


def safe_next(address: str) -> str:
    """Return where to go after the login: a path of ours, else the dashboard. Raises ApiError 400 for no address at all."""
    try:
        parts = urlsplit(address)
    except ValueError:
        raise ApiError(400, f"Bad Request: next is not an address of this server: {address[:100]!r}.") from None
    if parts.scheme or parts.netloc or not address.startswith("/") or address.startswith(("//", "/\\")):
        return "/"
    return address if address.isprintable() else "/"


def _with_session(request: Request, session_id: str, location: str) -> Response:
    services = services_of(request)
    response = redirect(location)
    response.set_cookie(
        SESSION_COOKIE,
        session_id,
        max_age=services.security.absolute_seconds,
        httponly=True,
        samesite="lax",
        secure=is_https(request.scope, services.settings),
    )
    return response


def _login_page(request: Request, error: str = "", name: str = "", next_: str = "/", status: int = 200) -> Response:
    page = page_of(request, "Log in")
    context = {"error": error, "name": name, "next": next_}
    return render(request, "login.html", status, page=page, **context)


@router.get("/login")
async def login_form(request: Request, next: str = "/") -> Response:  # noqa: A002 - the name every login page uses
    """Ask for name and password; who is in already goes on."""
    if visitor_of(request) is not None:
        return redirect(safe_next(next))
    return _login_page(request, next_=safe_next(next))


@router.post("/login")
async def login(
    request: Request,
    name: Annotated[str, Form()] = "",
    password: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = "/",  # noqa: A002 - see login_form
) -> Response:
    """Open a session."""
    services = services_of(request)
    location = safe_next(next)
    try:
        session_id = await services.security.login(name, password, info_of(request))
    except ApiError as refused:
        response = _login_page(request, refused.message, name, location, refused.status)
        response.headers.update(refused.headers)
        return response
    return _with_session(request, session_id, location)


@router.get("/login/link")
async def link_form(request: Request, token: str = "") -> Response:
    """A link is used by a click, so that a mail program that looks at it does not use it up."""
    return render(request, "login_link.html", page=page_of(request, "Log in"), token=token[:200], error="")


@router.post("/login/link")
async def use_link(request: Request, token: Annotated[str, Form()] = "") -> Response:
    """Open a session with a one-time link."""
    services = services_of(request)
    try:
        session_id = await services.security.login_by_link(token, info_of(request))
    except ApiError as refused:
        page = page_of(request, "Log in")
        return render(request, "login_link.html", refused.status, page=page, token="", error=refused.message)
    return _with_session(request, session_id, "/")


@router.post("/logout")
async def logout(request: Request, caller: Reader) -> Response:
    """End the session."""
    await services_of(request).security.logout(caller.principal, caller.info)
    response = redirect("/login")
    response.delete_cookie(SESSION_COOKIE)
    return response


@router.get("/account")
async def account(request: Request, _caller: Reader) -> Response:
    """One's own account."""
    return render(request, "account.html", page=page_of(request, "Your account"), error="")


@router.post("/account/password")
async def set_password(request: Request, caller: Reader, password: Annotated[str, Form()] = "") -> Response:
    """Set one's own password."""
    services = services_of(request)
    if caller.principal.kind != "user":
        raise ApiError(403, "A token has no password.")
    try:
        await services.security.set_password(caller.principal, caller.principal.name, password, caller.info)
    except AccountError as weak:
        return render(request, "account.html", 422, page=page_of(request, "Your account"), error=str(weak))
    return go_to(request, "/login", Flash("good", "The password was set. Log in with it."))


@dataclass(frozen=True, slots=True)
class AccessView:
    """access.html; `secret` is shown on this one page only."""

    users: Sequence[User]
    tokens: Sequence[ApiToken]
    roles: Sequence[str] = ROLES
    secret: str = ""
    secret_label: str = ""
    error: str = ""


async def _access_page(request: Request, status: int = 200, **more: str) -> Response:
    security = services_of(request).security
    view = AccessView(await security.users(), await security.tokens(), **more)
    return render(request, "access.html", status, page=page_of(request, "Users and tokens", "/access"), view=view)


@router.get("/access")
async def access(request: Request, _caller: Admin) -> Response:
    """Users and tokens."""
    return await _access_page(request)


@router.post("/access/users")
async def add_user(
    request: Request, caller: Admin, name: Annotated[str, Form()] = "", role: Annotated[str, Form()] = "viewer"
) -> Response:
    """Add a user, who comes in by a link."""
    security = services_of(request).security
    try:
        user = await security.add_user(caller.principal, name.strip(), role, None, caller.info)
    except AccountError as refused:
        return await _access_page(request, 422, error=str(refused))
    return await _link_for(request, caller, user.name)


async def _link_for(request: Request, caller: Admin, name: str) -> Response:
    services = services_of(request)
    base_url = services.settings.public_url or str(request.base_url).rstrip("/")
    try:
        link = await services.security.login_link(caller.principal, name, base_url, caller.info)
    except AccountError as refused:
        return await _access_page(request, 422, error=str(refused))
    return await _access_page(request, secret=link, secret_label=f"This link lets {name} log in once, within 24 hours.")


@router.post("/access/users/{name}/login-link")
async def login_link(request: Request, caller: Admin, name: str) -> Response:
    """Make a one-time link for a user."""
    return await _link_for(request, caller, name)


@router.post("/access/users/{name}/role")
async def change_role(request: Request, caller: Admin, name: str, role: Annotated[str, Form()] = "") -> Response:
    """Give a user another role."""
    try:
        await services_of(request).security.change_user(caller.principal, name, role, None, caller.info)
    except AccountError as refused:
        return await _access_page(request, 422, error=str(refused))
    return go_to(request, "/access", Flash("good", f"{name} is {role} now."))


@router.post("/access/users/{name}/delete")
async def remove_user(request: Request, caller: Admin, name: str) -> Response:
    """Remove a user."""
    try:
        await services_of(request).security.remove_user(caller.principal, name, caller.info)
    except AccountError as refused:
        return await _access_page(request, 422, error=str(refused))
    return go_to(request, "/access", Flash("good", f"{name} was removed."))


@router.post("/access/tokens")
async def add_token(
    request: Request,
    caller: Admin,
    name: Annotated[str, Form()] = "",
    role: Annotated[str, Form()] = "viewer",
    days: Annotated[str, Form()] = "",
) -> Response:
    """Make an API token; its text is shown once."""
    valid = whole_number(days, 1, 3650) if days.strip() else None
    if days.strip() and valid is None:
        return await _access_page(request, 422, error=f"'{days.strip()[:40]}' is not a number of days from 1 to 3650.")
    expires_at = None if valid is None else utc_now() + dt.timedelta(days=valid)
    try:
        made, text = await services_of(request).security.add_token(
            caller.principal, name=name.strip(), role=role, scopes=[], expires_at=expires_at, info=caller.info
        )
    except AccountError as refused:
        return await _access_page(request, 422, error=str(refused))
    return await _access_page(request, secret=text, secret_label=f"The token {made.name}.")


@router.post("/access/tokens/{name}/revoke")
async def revoke_token(request: Request, caller: Admin, name: str) -> Response:
    """Revoke a token for good."""
    try:
        await services_of(request).security.revoke_token(caller.principal, name, caller.info)
    except AccountError as refused:
        return await _access_page(request, 422, error=str(refused))
    return go_to(request, "/access", Flash("good", f"The token {name} was revoked."))


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One event."""

    at: dt.datetime
    actor: str
    source: str
    action: str
    resource: str
    result: str
    count: int
    error: str | None
    detail_text: str
    metadata_offset: int | None


@dataclass(frozen=True, slots=True)
class AuditView:
    """audit.html; `older` continues the list."""

    actor: str
    resource: str
    rows: Sequence[AuditRow]
    older: int | None


def _detail(detail: dict[str, Any]) -> str:
    return json.dumps(detail, ensure_ascii=False, sort_keys=True) if detail else ""


@router.get("/audit")
async def audit(
    request: Request, _caller: Admin, actor: str = "", resource: str = "", before: int | None = None
) -> Response:
    """What users and programs did, newest first."""
    wanted = AuditFilter(actor=actor.strip(), resource=resource.strip(), before_id=before)
    found = await services_of(request).database.read(events, wanted, EVENTS_ON_PAGE)
    rows = [
        AuditRow(
            each.at,
            each.actor,
            each.source,
            each.action,
            each.resource,
            each.result,
            each.count,
            each.error,
            _detail(each.detail),
            each.metadata_offset,
        )
        for each in found
    ]
    view = AuditView(actor, resource, rows, found[-1].id if len(found) == EVENTS_ON_PAGE else None)
    return render(request, "audit.html", page=page_of(request, "Audit", "/audit"), view=view)
