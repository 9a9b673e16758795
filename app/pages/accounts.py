"""The users of this dashboard: roles, login links, sessions. The page also lists the API tokens."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.db.models import ROLES, ApiToken, User
from app.http.errors import FORM_REFUSED
from app.pages.confirm import ConfirmView, curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import counted, moment, page_of, render
from app.security.accounts import AccountError
from app.services import Admin, base_url_of, services_of

router = APIRouter(include_in_schema=False, prefix="/access")

TITLE = "Users and tokens"


@dataclass(frozen=True, slots=True)
class AccountsView:
    """Model of accounts.html; `secret` is shown on this page once."""

    users: Sequence[User]
    tokens: Sequence[ApiToken]
    roles: Sequence[str] = ROLES
    secret: str = ""
    secret_label: str = ""
    error: str = ""


async def accounts_page(request: Request, status: int = 200, **more: str) -> Response:
    """Return the page; `more` are the fields of AccountsView with a default."""
    security = services_of(request).security
    view = AccountsView(await security.users(), await security.tokens(), **more)
    return render(request, "accounts.html", status, page=page_of(request, TITLE, "/access"), view=view)


def refused_on_accounts_page(handler: Callable[..., Awaitable[Response]]) -> Callable[..., Awaitable[Response]]:
    """Wrap a handler so that an AccountError is shown on the page of users and tokens."""

    @wraps(handler)
    async def shown(request: Request, **given: Any) -> Response:
        try:
            return await handler(request, **given)
        except AccountError as refused:
            return await accounts_page(request, FORM_REFUSED, error=str(refused))

    return shown


@router.get("")
async def accounts(request: Request, _caller: Admin) -> Response:
    """Return the page."""
    return await accounts_page(request)


@router.post("/users")
@refused_on_accounts_page
async def add_user(
    request: Request, caller: Admin, name: Annotated[str, Form()] = "", role: Annotated[str, Form()] = "viewer"
) -> Response:
    """Add a user and return the page with a login link."""
    user = await services_of(request).security.add_user(caller.principal, name.strip(), role, None, caller.info)
    return await _link_page(request, caller, user.name)


@router.post("/users/{name}/login-link")
@refused_on_accounts_page
async def login_link(request: Request, caller: Admin, name: str) -> Response:
    """Create a one-time login link for a user."""
    return await _link_page(request, caller, name)


async def _link_page(request: Request, caller: Admin, name: str) -> Response:
    security = services_of(request).security
    link = await security.login_link(caller.principal, name, base_url_of(request), caller.info)
    return await accounts_page(request, secret=link, secret_label=f"Login link for {name}: valid once, for 24 hours.")


async def active_tokens_of(request: Request, name: str) -> list[str]:
    """Return the names of the active tokens that a user or a token has created."""
    tokens = await services_of(request).security.tokens()
    return [each.name for each in tokens if each.created_by == name and each.revoked_at is None]


def _tokens_line(names: Sequence[str], fate: str) -> tuple[str, ...]:
    if not names:
        return ()
    shown = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    return (f"{counted(len(names), 'API token')} created by this user {fate}: {shown}.",)


def _path(name: str, rest: str = "") -> str:
    return f"users/{quote(name, safe='')}{rest}"


@router.post("/users/{name}/role")
@refused_on_accounts_page
async def change_role(
    request: Request,
    caller: Admin,
    name: str,
    role: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview a change of a user's role; with confirmed=yes make it."""
    security = services_of(request).security
    user = await security.user(name)

    async def dry_run() -> ConfirmView:
        await security.change_user(caller.principal, name, role, None, caller.info, validate_only=True)
        return view

    async def apply() -> Flash:
        await security.change_user(caller.principal, name, role, None, caller.info)
        return Flash("good", f"{name} is now {role}.")

    view = ConfirmView(
        title=f"Change role of {name}",
        active="/access",
        back=TITLE,
        back_url="/access",
        action=f"/access/{_path(name, '/role')}",
        button="Change role",
        changes=[(f"Role of {name}", user.role, role)],
        consequences=(
            f"All sessions of {name} end at once.",
            *_tokens_line(await active_tokens_of(request, name), "are limited to the new role"),
        ),
        fields=[("role", role)],
        curl=curl(request, "PATCH", _path(name), {"role": role}),
        dangerous=True,
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply, dry_run=dry_run)


@router.post("/users/{name}/delete")
@refused_on_accounts_page
async def delete_user(request: Request, caller: Admin, name: str, confirmed: Annotated[str, Form()] = "") -> Response:
    """Preview the deletion of a user; with confirmed=yes delete the user."""
    security = services_of(request).security
    user = await security.user(name)

    async def dry_run() -> ConfirmView:
        await security.remove_user(caller.principal, name, caller.info, validate_only=True)
        return view

    async def apply() -> Flash:
        await security.remove_user(caller.principal, name, caller.info)
        return Flash("good", f"User {name} deleted.")

    view = ConfirmView(
        title=f"Delete user {name}",
        active="/access",
        back=TITLE,
        back_url="/access",
        action=f"/access/{_path(name, '/delete')}",
        button="Delete user",
        changes=[(f"User {name}", user.role, "deleted")],
        consequences=(
            f"All sessions of {name} end at once. The audit log is kept.",
            *_tokens_line(await active_tokens_of(request, name), "and all tokens created with them are deleted too"),
        ),
        curl=curl(request, "DELETE", _path(name)),
        dangerous=True,
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply, dry_run=dry_run)


@router.post("/users/{name}/end-sessions")
@refused_on_accounts_page
async def end_sessions(request: Request, caller: Admin, name: str, confirmed: Annotated[str, Form()] = "") -> Response:
    """Preview which sessions of a user end; with confirmed=yes end them. The caller's own session stays."""
    security = services_of(request).security
    found = await security.sessions_of(name, caller.principal.session_id)

    async def apply() -> Flash:
        await security.end_sessions(caller.principal, name, caller.info)
        return Flash("good", f"Sessions of {name} ended.")

    view = ConfirmView(
        title=f"End sessions of {name}",
        active="/access",
        back=TITLE,
        back_url="/access",
        action=f"/access/{_path(name, '/end-sessions')}",
        button="End sessions",
        changes=[
            (f"{each.user_agent or 'Unknown browser'} from {each.source}", moment(each.last_seen_at), "ended")
            for each in found
            if not each.is_present
        ],
        consequences=() if found else (f"{name} has no open session.",),
        curl=curl(request, "DELETE", _path(name, "/sessions")),
        dangerous=True,
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply)
