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
from app.pages.user_sessions import ending_page
from app.security.accounts import AccountError, OpenSession
from app.security.passwords import LENGTH_MIN
from app.services import Anyone, services_of
from app.texts import phrase

router = APIRouter(include_in_schema=False, prefix="/account")

TITLE = phrase("Your account")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAccountView:
    """Model of own_account.html. An API token has neither a password nor sessions, and an issuer's user no password."""

    is_user: bool
    is_at_issuer: bool
    has_password: bool
    has_second_factor: bool
    recovery_codes: int
    needs_current_password: bool
    length_min: int
    sessions: Sequence[OpenSession]
    error: str


async def account_page(request: Request, caller: Caller, error: str = "", status: int = 200) -> Response:
    """Return the page."""
    security, principal = services_of(request).security, caller.principal
    is_user = principal.session_id is not None
    user = await security.user(principal.name) if is_user else None
    view = OwnAccountView(
        is_user=is_user,
        is_at_issuer=user is not None and user.issuer is not None,
        has_password=user is not None and user.password_hash is not None,
        has_second_factor=user is not None and user.totp_secret is not None,
        recovery_codes=0 if user is None else len(user.recovery_digests or ()),
        needs_current_password=await security.needs_present_password(principal),
        length_min=LENGTH_MIN,
        sessions=await security.sessions_of(principal.name, principal.session_id) if is_user else (),
        error=error,
    )
    return render(request, "own_account.html", status, page=page_of(request, TITLE), view=view)


def require_user(caller: Caller) -> None:
    """Raise ForbiddenError for a token."""
    if caller.principal.session_id is None:
        raise ForbiddenError(phrase("An API token has no password and no sessions."))


@router.get("")
async def account(request: Request, caller: Anyone) -> Response:
    """Return the page."""
    return await account_page(request, caller)


@router.post("/password")
async def set_password(
    request: Request,
    caller: Anyone,
    present: Annotated[str, Form()] = "",
    password: Annotated[str, Form()] = "",
) -> Response:
    """Set the user's password."""
    require_user(caller)
    try:
        await services_of(request).security.set_own_password(caller.principal, present, password, caller.info)
    except AccountError as refused:
        return await account_page(request, caller, refused.message, FORM_REFUSED)
    return go_to(request, "/account", Flash("good", phrase("Password set. Your other sessions have ended.")))


@router.post("/sessions/{session_id}/end")
async def end_session(
    request: Request, caller: Anyone, session_id: int, confirmed: Annotated[str, Form()] = ""
) -> Response:
    """Preview the end of a session of the user; with confirmed=yes end it."""
    return await _ending(request, caller, session_id, confirmed=bool(confirmed))


@router.post("/end-other-sessions")
async def end_other_sessions(request: Request, caller: Anyone, confirmed: Annotated[str, Form()] = "") -> Response:
    """Preview which sessions of the user end; with confirmed=yes end all but this one."""
    return await _ending(request, caller, confirmed=bool(confirmed))


async def _ending(request: Request, caller: Caller, session_id: int | None = None, *, confirmed: bool) -> Response:
    require_user(caller)
    back, name = (TITLE, "/account"), caller.principal.name
    try:
        return await ending_page(request, caller, name, back, session_id, confirmed=confirmed)
    except AccountError as refused:
        return await account_page(request, caller, refused.message, FORM_REFUSED)
