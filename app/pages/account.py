"""One's own account: the password, and the browsers that are logged in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.actions.audited import Caller
from app.http.errors import ApiError
from app.pages.flash import Flash
from app.pages.frame import go_to, page_of, render
from app.security.accounts import AccountError, OpenSession
from app.security.passwords import LENGTH_MIN
from app.services import Reader, services_of

router = APIRouter(include_in_schema=False, prefix="/account")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountView:
    """account.html. A token has neither a password nor sessions."""

    is_user: bool
    asks_for_present: bool
    length_min: int
    sessions: Sequence[OpenSession]
    error: str


async def _page(request: Request, caller: Caller, error: str = "", status: int = 200) -> Response:
    security, principal = services_of(request).security, caller.principal
    is_user = principal.session_id is not None
    view = AccountView(
        is_user=is_user,
        asks_for_present=await security.needs_present_password(principal),
        length_min=LENGTH_MIN,
        sessions=await security.sessions_of(principal.name, principal.session_id) if is_user else (),
        error=error,
    )
    return render(request, "account.html", status, page=page_of(request, "Your account"), view=view)


def _require_user(caller: Caller) -> None:
    if caller.principal.session_id is None:
        raise ApiError(403, "A token has no password and no sessions.")


@router.get("")
async def account(request: Request, caller: Reader) -> Response:
    """One's own account."""
    return await _page(request, caller)


@router.post("/password")
async def set_password(
    request: Request,
    caller: Reader,
    present: Annotated[str, Form()] = "",
    password: Annotated[str, Form()] = "",
) -> Response:
    """Set one's own password."""
    _require_user(caller)
    try:
        await services_of(request).security.set_own_password(caller.principal, present, password, caller.info)
    except AccountError as refused:
        return await _page(request, caller, str(refused), 422)
    return go_to(request, "/account", Flash("good", "The password was set. Your other sessions have ended."))


@router.post("/sessions/{session_id}/end")
async def end_session(request: Request, caller: Reader, session_id: int) -> Response:
    """End one of one's own sessions."""
    _require_user(caller)
    try:
        await services_of(request).security.end_session(
            caller.principal, caller.principal.name, session_id, caller.info
        )
    except AccountError as refused:
        return await _page(request, caller, str(refused), 422)
    return go_to(request, "/account", Flash("good", "The session has ended."))


@router.post("/end-other-sessions")
async def end_other_sessions(request: Request, caller: Reader) -> Response:
    """End all of one's own sessions but this one."""
    _require_user(caller)
    await services_of(request).security.end_sessions(caller.principal, caller.principal.name, caller.info)
    return go_to(request, "/account", Flash("good", "Your other sessions have ended."))
