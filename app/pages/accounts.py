"""The users of this dashboard: roles, login links, second factors.

The tabs of API tokens and of sessions are in `api_tokens` and `user_sessions`.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.clusters import clusters_of
from app.db.models import USER_ROLES, User
from app.http.errors import FORM_REFUSED
from app.pages.confirm import ConfirmView, curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import counted, page_of, render
from app.security.accounts import AccountError
from app.services import Owner, base_url_of, services_of
from app.texts import phrase

router = APIRouter(include_in_schema=False, prefix="/access")

TITLE = phrase("Users and tokens")
UserChange = partial(ConfirmView, active="/access", back=TITLE, back_url="/access", dangerous=True)
"""The preview of a change on the tab of users."""


@dataclass(frozen=True, slots=True)
class UsersView:
    """Model of users.html; `link` is shown on this page once. `refused` and `name` are of a refused form.

    `unknown_clusters` are keys in the setting oidc_roles that no cluster has.
    """

    users: Sequence[User]
    unknown_clusters: Sequence[str]
    roles: Sequence[str] = USER_ROLES
    link: str = ""
    link_label: str = ""
    error: str = ""
    refused: str = ""
    name: str = ""


def _unknown_clusters(request: Request) -> list[str]:
    found, oidc = clusters_of(request), services_of(request).oidc
    named = set[str]() if oidc is None else {each.cluster for each in oidc.given if each.cluster}
    return sorted(each for each in named if found.get(each) is None and each not in found.not_started)


async def users_page(request: Request, status: int = 200, **more: str) -> Response:
    """Return the tab of users; `more` are the fields of UsersView with a default."""
    view = UsersView(await services_of(request).security.users(), _unknown_clusters(request), **more)
    return render(request, "users.html", status, page=page_of(request, TITLE, "/access"), view=view)


def refused_on_page(
    page: Callable[..., Awaitable[Response]], *, is_form: bool = False
) -> Callable[[Callable[..., Awaitable[Response]]], Callable[..., Awaitable[Response]]]:
    """Wrap a handler so that an AccountError is shown on its tab, with `is_form` in its form with the typed name."""

    def wrapped(handler: Callable[..., Awaitable[Response]]) -> Callable[..., Awaitable[Response]]:
        @wraps(handler)
        async def shown(request: Request, **given: Any) -> Response:
            try:
                return await handler(request, **given)
            except AccountError as refused:
                if is_form:
                    return await page(request, FORM_REFUSED, refused=refused.message, name=given.get("name", ""))
                return await page(request, FORM_REFUSED, error=refused.message)

        return shown

    return wrapped


@router.get("")
async def accounts(request: Request, _caller: Owner) -> Response:
    """Return the page."""
    return await users_page(request)


@router.post("/users")
@refused_on_page(users_page, is_form=True)
async def add_user(
    request: Request, caller: Owner, name: Annotated[str, Form()] = "", role: Annotated[str, Form()] = "viewer"
) -> Response:
    """Add a user and return the page with a login link."""
    user = await services_of(request).security.add_user(caller.principal, name.strip(), role, None, caller.info)
    return await _link_page(request, caller, user.name)


async def _link_page(request: Request, caller: Owner, name: str) -> Response:
    security = services_of(request).security
    link = await security.login_link(caller.principal, name, base_url_of(request), caller.info)
    return await users_page(
        request, link=link, link_label=phrase("Login link for %(name)s: valid once, for 24 hours.", name=name)
    )


async def preview_or_change(
    request: Request, view: ConfirmView, change: Callable[[bool], Awaitable[Flash | Response]], *, confirmed: bool
) -> Response:
    """Return the preview of a change of users, tokens or sessions; if it is confirmed, make it.

    `change` gets whether it only validates. It raises AccountError, on the preview too.
    """
    if not confirmed:
        await change(True)
    return await preview_or_apply(request, view, confirmed=confirmed, apply=lambda: change(False))


async def active_tokens_of(request: Request, name: str) -> list[str]:
    """Return the names of the active tokens that a user or a token has created."""
    tokens = await services_of(request).security.tokens()
    return [each.name for each in tokens if each.created_by == name and each.revoked_at is None]


def _tokens_line(names: Sequence[str], fate: str) -> tuple[str, ...]:
    if not names:
        return ()
    named = ", ".join(names[:10])
    if len(names) > 10:
        named = phrase("%(names)s and %(count)s more", names=named, count=len(names) - 10)
    tokens = counted(len(names), "API token")
    return (phrase("%(tokens)s created by this user %(fate)s: %(names)s.", tokens=tokens, fate=fate, names=named),)


def _path(name: str, rest: str = "") -> str:
    return f"users/{quote(name, safe='')}{rest}"


@router.post("/users/{name}/login-link")
@refused_on_page(users_page)
async def login_link(request: Request, caller: Owner, name: str, confirmed: Annotated[str, Form()] = "") -> Response:
    """Preview a one-time login link for a user; with confirmed=yes create it and show it."""
    security = services_of(request).security
    await security.login_link(caller.principal, name, base_url_of(request), caller.info, validate_only=True)
    view = UserChange(
        title=phrase("Create a login link for %(name)s", name=name),
        action=f"/access/{_path(name, '/login-link')}",
        button=phrase("Create link"),
        changes=[
            (
                phrase("Login link of %(name)s", name=name),
                phrase("earlier links, if there are any"),
                phrase("a new one, valid once within 24 hours"),
            )
        ],
        consequences=(phrase("Earlier links of %(name)s no longer log in.", name=name),),
        curl=curl(request, "POST", _path(name, "/login-link")),
        dangerous=False,
    )
    return await preview_or_apply(
        request, view, confirmed=bool(confirmed), apply=lambda: _link_page(request, caller, name)
    )


@router.post("/users/{name}/role")
@refused_on_page(users_page)
async def change_role(
    request: Request,
    caller: Owner,
    name: str,
    role: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview a change of a user's role; with confirmed=yes make it."""
    security = services_of(request).security
    user = await security.user(name)

    async def change(validate_only: bool) -> Flash:
        await security.change_user(caller.principal, name, role, None, caller.info, validate_only=validate_only)
        return Flash("good", phrase("%(name)s is now %(role)s.", name=name, role=role))

    view = UserChange(
        title=phrase("Change role of %(name)s", name=name),
        action=f"/access/{_path(name, '/role')}",
        button=phrase("Change role"),
        changes=[(phrase("Role of %(name)s", name=name), user.role, role)],
        consequences=(
            phrase("All sessions of %(name)s end at once.", name=name),
            *_tokens_line(await active_tokens_of(request, name), phrase("are limited to the new role")),
        ),
        fields=[("role", role)],
        curl=curl(request, "PATCH", _path(name), {"role": role}),
    )
    return await preview_or_change(request, view, change, confirmed=bool(confirmed))


@router.post("/users/{name}/delete")
@refused_on_page(users_page)
async def delete_user(request: Request, caller: Owner, name: str, confirmed: Annotated[str, Form()] = "") -> Response:
    """Preview the deletion of a user; with confirmed=yes delete the user."""
    security = services_of(request).security
    user = await security.user(name)

    async def change(validate_only: bool) -> Flash:
        await security.remove_user(caller.principal, name, caller.info, validate_only=validate_only)
        return Flash("good", phrase("User %(name)s deleted.", name=name))

    view = UserChange(
        title=phrase("Delete user %(name)s", name=name),
        action=f"/access/{_path(name, '/delete')}",
        button=phrase("Delete user"),
        changes=[(phrase("User %(name)s", name=name), user.role, phrase("deleted"))],
        consequences=(
            phrase("All sessions of %(name)s end at once. The audit log is kept.", name=name),
            *_tokens_line(
                await active_tokens_of(request, name), phrase("and all tokens created with them are deleted too")
            ),
        ),
        curl=curl(request, "DELETE", _path(name)),
    )
    return await preview_or_change(request, view, change, confirmed=bool(confirmed))


@router.post("/users/{name}/reset-second-factor")
@refused_on_page(users_page)
async def reset_second_factor(
    request: Request, caller: Owner, name: str, confirmed: Annotated[str, Form()] = ""
) -> Response:
    """Preview turning off the second factor of a user who has lost it; with confirmed=yes turn it off."""
    factors = services_of(request).second_factors

    async def change(validate_only: bool) -> Flash:
        await factors.reset(caller.principal, name, caller.info, validate_only=validate_only)
        return Flash("good", phrase("The second factor of %(name)s is off.", name=name))

    view = UserChange(
        title=phrase("Reset the second factor of %(name)s", name=name),
        action=f"/access/{_path(name, '/reset-second-factor')}",
        button=phrase("Reset second factor"),
        changes=[(phrase("Second factor of %(name)s", name=name), phrase("on"), phrase("off"))],
        consequences=(
            phrase(
                "All sessions of %(name)s end at once. The password alone logs in until another is set up.", name=name
            ),
        ),
        curl=curl(request, "DELETE", _path(name, "/second-factor")),
    )
    return await preview_or_change(request, view, change, confirmed=bool(confirmed))
