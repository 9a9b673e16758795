"""The account of the logged-in user: password and sessions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.actions.audited import Caller
from app.http.errors import FORM_REFUSED, ForbiddenError
from app.pages.flash import Flash
from app.pages.frame import go_to, page_of, render
from app.security.accounts import AccountError, OpenSession
from app.security.passwords import LENGTH_MIN
from app.services import Reader, services_of
from app.texts import phrase

router = APIRouter(include_in_schema=False, prefix="/account")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAccountView:
    """Model of own_account.html. An API token has neither a password nor sessions, and an issuer's user no password."""

    is_user: bool
    has_own_password: bool
    needs_current_password: bool
    length_min: int
    sessions: Sequence[OpenSession]
    error: str


async def _page(request: Request, caller: Caller, error: str = "", status: int = 200) -> Response:
    security, principal = services_of(request).security, caller.principal
    is_user = principal.session_id is not None
    view = OwnAccountView(
        is_user=is_user,
        has_own_password=is_user and (await security.user(principal.name)).issuer is None,
        needs_current_password=await security.needs_present_password(principal),
        length_min=LENGTH_MIN,
        sessions=await security.sessions_of(principal.name, principal.session_id) if is_user else (),
        error=error,
    )
    return render(request, "own_account.html", status, page=page_of(request, phrase("Your account")), view=view)


def _require_user(caller: Caller) -> None:
    if caller.principal.session_id is None:
        raise ForbiddenError(phrase("An API token has no password and no sessions."))


@router.get("")
async def account(request: Request, caller: Reader) -> Response:
    """Return the page."""
    return await _page(request, caller)


@router.post("/password")
async def set_password(
    request: Request,
    caller: Reader,
    present: Annotated[str, Form()] = "",
    password: Annotated[str, Form()] = "",
) -> Response:
    """Set the user's password."""
    _require_user(caller)
    try:
        await services_of(request).security.set_own_password(caller.principal, present, password, caller.info)
    except AccountError as refused:
        return await _page(request, caller, refused.message, FORM_REFUSED)
    return go_to(request, "/account", Flash("good", phrase("Password set. Your other sessions have ended.")))


@router.post("/sessions/{session_id}/end")
async def end_session(request: Request, caller: Reader, session_id: int) -> Response:
    """End one session of the user."""
    _require_user(caller)
    try:
        await services_of(request).security.end_session(
            caller.principal, caller.principal.name, session_id, caller.info
        )
    except AccountError as refused:
        return await _page(request, caller, refused.message, FORM_REFUSED)
    return go_to(request, "/account", Flash("good", phrase("Session ended.")))


@router.post("/end-other-sessions")
async def end_other_sessions(request: Request, caller: Reader) -> Response:
    """End all sessions of the user but this one."""
    _require_user(caller)
    await services_of(request).security.end_sessions(caller.principal, caller.principal.name, caller.info)
    return go_to(request, "/account", Flash("good", phrase("Your other sessions have ended.")))
