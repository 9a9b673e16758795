"""The API tokens that the logged-in user has created, for their own programs."""

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.actions.audited import Caller
from app.clusters import clusters_of
from app.db.models import ApiToken
from app.http.errors import FORM_REFUSED
from app.pages.api_tokens import ApiTokensView, TokenFormDep, made_token, revocation_page
from app.pages.frame import page_of, render
from app.pages.own_account import require_user
from app.security.accounts import AccountError
from app.security.roles import Role
from app.services import Anyone, services_of
from app.texts import phrase

router = APIRouter(include_in_schema=False, prefix="/account/tokens")

TITLE = phrase("Your API tokens")


async def _own_tokens(request: Request, caller: Caller) -> list[ApiToken]:
    return [each for each in await services_of(request).security.tokens() if each.maker_id == caller.principal.id]


async def _page(request: Request, caller: Caller, status: int = 200, **more: str) -> Response:
    roles = [role.text for role in Role if Role.NONE < role <= caller.principal.highest_role]
    names = clusters_of(request).names(caller.principal)
    view = ApiTokensView(await _own_tokens(request, caller), names, roles, **more)
    return render(request, "own_tokens.html", status, page=page_of(request, TITLE), view=view)


@router.get("")
async def own_tokens(request: Request, caller: Anyone) -> Response:
    """Return the page."""
    require_user(caller)
    return await _page(request, caller)


@router.post("")
async def add_own_token(request: Request, caller: Anyone, form: TokenFormDep) -> Response:
    """Create a token of the user, with no more rights than the user has, and return the page with its secret."""
    require_user(caller)
    try:
        secret, label = await made_token(request, caller, form)
    except AccountError as refused:
        return await _page(request, caller, FORM_REFUSED, refused=refused.message, name=form.name)
    return await _page(request, caller, secret=secret, secret_label=label)


@router.post("/{name}/revoke")
async def revoke_own_token(
    request: Request, caller: Anyone, name: str, confirmed: Annotated[str, Form()] = ""
) -> Response:
    """Preview what revoking a token of the user ends; with confirmed=yes revoke it for good."""
    require_user(caller)
    if name not in {each.name for each in await _own_tokens(request, caller)}:
        return await _page(request, caller, FORM_REFUSED, error=phrase("You have no token '%(name)s'.", name=name))
    return await revocation_page(request, caller, name, "/account/tokens", TITLE, confirmed=bool(confirmed))
