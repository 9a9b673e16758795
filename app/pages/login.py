"""Login by password or one-time link, and logout."""

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.http.errors import ApiError
from app.http.locations import redirect, safe_next
from app.pages.frame import page_of, render
from app.security.guard import SESSION_COOKIE, is_https
from app.services import Reader, info_of, services_of, visitor_of
from app.texts import phrase

router = APIRouter(include_in_schema=False)


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
    page = page_of(request, phrase("Log in"))
    return render(request, "login.html", status, page=page, error=error, name=name, next=next_)


@router.get("/login")
async def login_form(request: Request, next: str = "/") -> Response:  # noqa: A002 - the name every login page uses
    """Return the login form; a visitor with a session is redirected at once."""
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


def _link_page(request: Request, token: str = "", error: str = "", status: int = 200) -> Response:
    return render(request, "login_link.html", status, page=page_of(request, phrase("Log in")), token=token, error=error)


@router.get("/login/link")
async def link_form(request: Request, token: str = "") -> Response:
    """Return a page with a button: the link is used by the click, not by a mail program that opens it."""
    return _link_page(request, token[:200])


@router.post("/login/link")
async def use_link(request: Request, token: Annotated[str, Form()] = "") -> Response:
    """Open a session with a one-time link."""
    try:
        session_id = await services_of(request).security.login_by_link(token, info_of(request))
    except ApiError as refused:
        return _link_page(request, error=refused.message, status=refused.status)
    return _with_session(request, session_id, "/")


@router.post("/logout")
async def logout(request: Request, caller: Reader) -> Response:
    """End the session."""
    await services_of(request).security.logout(caller.principal, caller.info)
    response = redirect("/login")
    response.delete_cookie(SESSION_COOKIE)
    return response
