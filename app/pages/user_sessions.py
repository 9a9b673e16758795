"""Browser sessions: those of all users, and how one or all of a user are ended, also on a user's own account."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import Response

from app.actions.audited import Caller
from app.pages.accounts import TITLE, preview_or_change, refused_on_page
from app.pages.confirm import ConfirmView, curl
from app.pages.flash import Flash
from app.pages.frame import moment, page_of, render
from app.security.accounts import SESSIONS_SHOWN, OpenSession, UnknownAccountError
from app.security.roles import Role
from app.services import Owner, principal_of, services_of
from app.texts import phrase

router = APIRouter(include_in_schema=False, prefix="/access")

SESSIONS: Final = "/access/sessions"


@dataclass(frozen=True, slots=True)
class SessionsView:
    """Model of sessions.html. `user` is the only one whose sessions are shown, "" for those of all."""

    sessions: Sequence[OpenSession]
    user: str
    most: int = SESSIONS_SHOWN
    error: str = ""


async def sessions_page(request: Request, status: int = 200, user: str = "", error: str = "") -> Response:
    """Return the tab of sessions."""
    present = principal_of(request).session_id
    found = await services_of(request).security.sessions_of(user or None, present)
    view = SessionsView(found, user, error=error)
    return render(request, "sessions.html", status, page=page_of(request, TITLE, "/access"), view=view)


@router.get("/sessions")
@refused_on_page(sessions_page)
async def sessions(request: Request, _caller: Owner, user: Annotated[str, Query(max_length=100)] = "") -> Response:
    """Return the tab, of all users or of one."""
    return await sessions_page(request, user=user)


@router.post("/users/{name}/sessions/{session_id}/end")
@refused_on_page(sessions_page)
async def end_session(
    request: Request, caller: Owner, name: str, session_id: int, confirmed: Annotated[str, Form()] = ""
) -> Response:
    """Preview the end of a session of a user; with confirmed=yes end it."""
    return await ending_page(request, caller, name, (TITLE, SESSIONS), session_id, confirmed=bool(confirmed))


@router.post("/users/{name}/end-sessions")
@refused_on_page(sessions_page)
async def end_sessions(request: Request, caller: Owner, name: str, confirmed: Annotated[str, Form()] = "") -> Response:
    """Preview which sessions of a user end; with confirmed=yes end them. The caller's own session stays."""
    return await ending_page(request, caller, name, (TITLE, SESSIONS), confirmed=bool(confirmed))


async def ending_page(
    request: Request,
    caller: Caller,
    name: str,
    back: tuple[str, str],
    session_id: int | None = None,
    *,
    confirmed: bool,
) -> Response:
    """Preview the end of a session of a user, or of all but the caller's; with `confirmed` end them.

    `back` is the title and the address of the page from which it is done. Raises AccountError.
    """
    security, principal = services_of(request).security, caller.principal
    found = await security.sessions_of(name, principal.session_id)
    ending = [each for each in found if (not each.is_present if session_id is None else each.id == session_id)]
    if session_id is not None and not ending:
        raise UnknownAccountError(phrase("There is no session %(id)s of '%(name)s'.", id=session_id, name=name))

    async def change(validate_only: bool) -> Flash:
        if session_id is None:
            await security.end_sessions(principal, name, caller.info, validate_only=validate_only)
            return Flash("good", phrase("Sessions of %(name)s ended.", name=name))
        await security.end_session(principal, name, session_id, caller.info, validate_only=validate_only)
        return Flash("good", phrase("Session ended."))

    rest = f"users/{quote(name, safe='')}/sessions" + ("" if session_id is None else f"/{session_id}")
    view = ConfirmView(
        title=phrase("End sessions of %(name)s", name=name)
        if session_id is None
        else phrase("End a session of %(name)s", name=name),
        active="/access" if back[1] == SESSIONS else "",
        back=back[0],
        back_url=back[1],
        action=request.url.path,
        button=phrase("End sessions") if session_id is None else phrase("End session"),
        changes=[(_browser(each), moment(each.last_seen_at), phrase("ended")) for each in ending],
        consequences=[
            phrase("Who uses it has to log in again; open pages end at once.")
            if ending
            else phrase("%(name)s has no open session.", name=name)
        ],
        curl=curl(request, "DELETE", rest) if principal.own_role >= Role.ADMIN else "",
        dangerous=True,
    )
    return await preview_or_change(request, view, change, confirmed=confirmed)


def _browser(session: OpenSession) -> str:
    browser = session.user_agent or phrase("Unknown browser")
    return phrase("%(browser)s from %(address)s", browser=browser, address=session.source)
