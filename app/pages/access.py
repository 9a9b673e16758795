"""Coming and going, users, API tokens, and the audit."""

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.db.base import utc_now
from app.db.models import ROLES, ApiToken, User
from app.http.errors import ApiError
from app.http.locations import redirect
from app.pages.confirm import ConfirmView, account_curl_line
from app.pages.flash import Flash
from app.pages.frame import counted, go_to, moment, page_of, render, whole_number
from app.security.accounts import AccountError
from app.security.audit import AuditFilter, events
from app.security.guard import SESSION_COOKIE, is_https
from app.services import Admin, Reader, base_url_of, info_of, services_of, visitor_of

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
    try:
        link = await services.security.login_link(caller.principal, name, base_url_of(request), caller.info)
    except AccountError as refused:
        return await _access_page(request, 422, error=str(refused))
    return await _access_page(request, secret=link, secret_label=f"This link lets {name} log in once, within 24 hours.")


@router.post("/access/users/{name}/login-link")
async def login_link(request: Request, caller: Admin, name: str) -> Response:
    """Make a one-time link for a user."""
    return await _link_for(request, caller, name)


def _confirm(request: Request, view: ConfirmView, title: str, status: int = 200) -> Response:
    return render(request, "confirm.html", status, page=page_of(request, title, "/access"), view=view)


async def _tokens_of(request: Request, name: str) -> list[str]:
    """Names of the good tokens that a user has made."""
    tokens = await services_of(request).security.tokens()
    return [each.name for each in tokens if each.created_by == name and each.revoked_at is None]


def _with_tokens(names: Sequence[str], what: str) -> tuple[str, ...]:
    if not names:
        return ()
    shown = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    return (f"{counted(len(names), 'API token')} of this user {what}: {shown}.",)


@router.post("/access/users/{name}/role")
async def change_role(
    request: Request,
    caller: Admin,
    name: str,
    role: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Show what another role would change; with confirmed=yes give it."""
    services = services_of(request)
    try:
        user = await services.security.user(name)
        if confirmed:
            await services.security.change_user(caller.principal, name, role, None, caller.info)
            return go_to(request, "/access", Flash("good", f"{name} is {role} now."))
        await services.security.change_user(caller.principal, name, role, None, caller.info, validate_only=True)
    except AccountError as refused:
        return await _access_page(request, 422, error=str(refused))
    view = ConfirmView(
        back="Users and tokens",
        back_url="/access",
        action=f"/access/users/{quote(name, safe='')}/role",
        button=f"Make {name} {role}",
        changes=[(f"Role of {name}", user.role, role)],
        consequences=(
            f"Every session of {name} ends at once.",
            *_with_tokens(await _tokens_of(request, name), "may do no more than the new role from then on"),
        ),
        fields=[("role", role)],
        curl=account_curl_line(base_url_of(request), "PATCH", f"users/{quote(name, safe='')}", {"role": role}),
        dangerous=True,
    )
    return _confirm(request, view, f"Change the role of {name}")


@router.post("/access/users/{name}/delete")
async def remove_user(request: Request, caller: Admin, name: str, confirmed: Annotated[str, Form()] = "") -> Response:
    """Show what goes with a user; with confirmed=yes remove the user."""
    services = services_of(request)
    try:
        user = await services.security.user(name)
        if confirmed:
            await services.security.remove_user(caller.principal, name, caller.info)
            return go_to(request, "/access", Flash("good", f"{name} was removed."))
        await services.security.remove_user(caller.principal, name, caller.info, validate_only=True)
    except AccountError as refused:
        return await _access_page(request, 422, error=str(refused))
    view = ConfirmView(
        back="Users and tokens",
        back_url="/access",
        action=f"/access/users/{quote(name, safe='')}/delete",
        button=f"Remove {name}",
        changes=[(f"User {name}", user.role, "removed")],
        consequences=(
            f"Every session of {name} ends at once. What {name} did stays in the audit.",
            *_with_tokens(await _tokens_of(request, name), "and all that were made with them are removed as well"),
        ),
        curl=account_curl_line(base_url_of(request), "DELETE", f"users/{quote(name, safe='')}"),
        dangerous=True,
    )
    return _confirm(request, view, f"Remove {name}")


@router.post("/access/users/{name}/end-sessions")
async def end_sessions(request: Request, caller: Admin, name: str, confirmed: Annotated[str, Form()] = "") -> Response:
    """Show a user's sessions; with confirmed=yes end them, but for the one that asks."""
    services = services_of(request)
    try:
        found = await services.security.sessions_of(name, caller.principal.session_id)
        if confirmed:
            await services.security.end_sessions(caller.principal, name, caller.info)
            return go_to(request, "/access", Flash("good", f"The sessions of {name} have ended."))
    except AccountError as refused:
        return await _access_page(request, 422, error=str(refused))
    view = ConfirmView(
        back="Users and tokens",
        back_url="/access",
        action=f"/access/users/{quote(name, safe='')}/end-sessions",
        button=f"End the sessions of {name}",
        changes=[
            (f"From {each.source}, {each.user_agent or 'unknown browser'}", moment(each.last_seen_at), "ended")
            for each in found
            if not each.is_present
        ],
        consequences=() if found else (f"{name} has no open session.",),
        curl=account_curl_line(base_url_of(request), "DELETE", f"users/{quote(name, safe='')}/sessions"),
        dangerous=True,
    )
    return _confirm(request, view, f"End the sessions of {name}")


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
async def revoke_token(request: Request, caller: Admin, name: str, confirmed: Annotated[str, Form()] = "") -> Response:
    """Show what revoking a token ends; with confirmed=yes revoke it for good."""
    services = services_of(request)
    validate_only = not confirmed
    try:
        await services.security.revoke_token(caller.principal, name, caller.info, validate_only=validate_only)
    except AccountError as refused:
        return await _access_page(request, 422, error=str(refused))
    if confirmed:
        return go_to(request, "/access", Flash("good", f"The token {name} was revoked."))
    made = await _tokens_of(request, f"token:{name}")
    view = ConfirmView(
        back="Users and tokens",
        back_url="/access",
        action=f"/access/tokens/{quote(name, safe='')}/revoke",
        button=f"Revoke {name}",
        changes=[(f"Token {name}", "good", "revoked")],
        consequences=(
            "Programs that use it are refused at once, and their event streams end. It cannot be made good again.",
            *((f"So are the tokens made with it: {', '.join(made[:10])}.",) if made else ()),
        ),
        curl=account_curl_line(base_url_of(request), "DELETE", f"tokens/{quote(name, safe='')}"),
        dangerous=True,
    )
    return _confirm(request, view, f"Revoke the token {name}")


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
