"""The API tokens that the logged-in user has created, for programs of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.actions.audited import Caller
from app.db.models import ApiToken
from app.http.errors import FORM_REFUSED
from app.pages.api_tokens import expiry_of, revocation_of
from app.pages.confirm import preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import page_of, render
from app.pages.own_account import require_user
from app.security.accounts import AccountError
from app.security.roles import SCOPES, Role
from app.services import Anyone, services_of
from app.texts import phrase

router = APIRouter(include_in_schema=False, prefix="/account/tokens")

TITLE = phrase("Your API tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTokensView:
    """Model of own_tokens.html; the fields are those of ApiTokensView, and the roles are those the user may give."""

    tokens: Sequence[ApiToken]
    roles: Sequence[str]
    scopes: Sequence[str] = SCOPES
    secret: str = ""
    secret_label: str = ""
    error: str = ""
    refused: str = ""
    name: str = ""


async def _own_tokens(request: Request, caller: Caller) -> list[ApiToken]:
    return [each for each in await services_of(request).security.tokens() if each.maker_id == caller.principal.id]


async def _page(request: Request, caller: Caller, status: int = 200, **more: str) -> Response:
    roles = [role.text for role in Role if Role.NONE < role <= caller.principal.highest_role]
    view = OwnTokensView(tokens=await _own_tokens(request, caller), roles=roles, **more)
    return render(request, "own_tokens.html", status, page=page_of(request, TITLE), view=view)


@router.get("")
async def own_tokens(request: Request, caller: Anyone) -> Response:
    """Return the page."""
    require_user(caller)
    return await _page(request, caller)


@router.post("")
async def add_own_token(
    request: Request,
    caller: Anyone,
    name: Annotated[str, Form()] = "",
    role: Annotated[str, Form()] = "viewer",
    scopes: Annotated[list[str] | None, Form()] = None,
    days: Annotated[str, Form()] = "",
) -> Response:
    """Create a token of the user, with no more rights than the user has, and return the page with its secret."""
    require_user(caller)
    try:
        made, text = await services_of(request).security.add_token(
            caller.principal,
            name=name.strip(),
            role=role,
            scopes=scopes or [],
            expires_at=expiry_of(days),
            info=caller.info,
        )
    except AccountError as refused:
        return await _page(request, caller, FORM_REFUSED, refused=refused.message, name=name)
    return await _page(request, caller, secret=text, secret_label=phrase("API token %(name)s.", name=made.name))


@router.post("/{name}/revoke")
async def revoke_own_token(
    request: Request, caller: Anyone, name: str, confirmed: Annotated[str, Form()] = ""
) -> Response:
    """Preview what revoking a token of the user ends; with confirmed=yes revoke it for good."""
    require_user(caller)
    security = services_of(request).security
    if name not in {each.name for each in await _own_tokens(request, caller)}:
        return await _page(request, caller, FORM_REFUSED, error=phrase("You have no token '%(name)s'.", name=name))

    async def apply() -> Flash:
        await security.revoke_token(caller.principal, name, caller.info)
        return Flash("good", phrase("API token %(name)s revoked.", name=name))

    view = await revocation_of(request, name, "/account/tokens", TITLE)
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply)
