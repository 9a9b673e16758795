"""Login by password, by one-time link or at an OpenID issuer, and logout."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.http.cluster_paths import address_under_root
from app.http.errors import CHANGE_REFUSED, FORM_REFUSED, ApiError, NoSuchPathError
from app.http.locations import redirect, safe_next
from app.pages.frame import page_of, render
from app.security.accounts import AccountError
from app.security.guard import SESSION_COOKIE, is_https
from app.security.oidc.returned import LOGIN_LIFETIME, Returned
from app.security.passwords import LENGTH_MIN
from app.security.second_factors import STEP_REFUSED
from app.services import Anyone, base_url_of, info_of, root_of, services_of, visitor_of
from app.texts import phrase

if TYPE_CHECKING:
    from app.security.oidc.logins import OidcLogins

router = APIRouter(include_in_schema=False)

OIDC_COOKIE: Final = "conclave_oidc"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkView:
    """Model of login_link.html. `invited` has to choose a password first; without a `token` the page has no form."""

    token: str
    error: str
    invited: str | None
    length_min: int


@dataclass(frozen=True, slots=True)
class IssuerButton:
    """The link to the login at the issuer. Not a form: the content policy restricts forms to this server."""

    label: str
    url: str


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


def _issuer_url(next_: str) -> str:
    return f"/login/oidc?next={quote(next_, safe='')}"


def _login_page(request: Request, error: str = "", name: str = "", next_: str = "/", status: int = 200) -> Response:
    page, oidc = page_of(request, phrase("Log in")), services_of(request).oidc
    label = "" if oidc is None else oidc.label or phrase("Log in with single sign-on")
    issuer = IssuerButton(label, _issuer_url(next_)) if label else None
    return render(request, "login.html", status, page=page, error=error, name=name, next=next_, issuer=issuer)


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
        entered = await services.second_factors.login(name, password, info_of(request))
    except ApiError as refused:
        response = _login_page(request, refused.message, name, location, refused.status)
        response.headers.update(refused.headers)
        return response
    if entered.step:
        return _code_page(request, entered.step, location)
    return _with_session(request, entered.session_id, location)


def _code_page(request: Request, step: str, next_: str, error: str = "", status: int = 200) -> Response:
    page = page_of(request, phrase("Log in"))
    return render(request, "login_code.html", status, page=page, step=step, next=next_, error=error)


@router.post("/login/code")
async def login_with_code(
    request: Request,
    step: Annotated[str, Form()] = "",
    code: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = "/",  # noqa: A002 - see login_form
) -> Response:
    """Open a session of a user with a second factor, after the password."""
    location = safe_next(next)
    try:
        session_id = await services_of(request).second_factors.finish(step, code, info_of(request))
    except ApiError as refused:
        if refused.message == STEP_REFUSED:
            return _login_page(request, refused.message, next_=location, status=refused.status)
        response = _code_page(request, step, location, refused.message, refused.status)
        response.headers.update(refused.headers)
        return response
    return _with_session(request, session_id, location)


def _link_page(
    request: Request, token: str = "", error: str = "", status: int = 200, invited: str | None = None
) -> Response:
    view = LinkView(token=token, error=error, invited=invited, length_min=LENGTH_MIN)
    return render(request, "login_link.html", status, page=page_of(request, phrase("Log in")), view=view)


@router.get("/login/link")
async def link_form(request: Request, token: str = "") -> Response:
    """Return a page with a button: the link is used by the click, not by a mail program that opens it."""
    token = token[:200]
    return _link_page(request, token, invited=await services_of(request).security.invited_by_link(token))


@router.post("/login/link")
async def use_link(
    request: Request, token: Annotated[str, Form()] = "", password: Annotated[str, Form()] = ""
) -> Response:
    """Open a session with a one-time link, and set the password that a new user has to choose."""
    security = services_of(request).security
    try:
        session_id = await security.login_by_link(token, info_of(request), password)
    except AccountError as weak:
        return _link_page(request, token, weak.message, FORM_REFUSED, await security.invited_by_link(token))
    except ApiError as refused:
        return _link_page(request, error=refused.message, status=refused.status)
    return _with_session(request, session_id, "/")


def _issuer_of(request: Request) -> "OidcLogins":
    found = services_of(request).oidc
    if found is None:
        raise NoSuchPathError
    return found


def _refused_page(request: Request, error: ApiError | AccountError, next_: str) -> Response:
    page, status = page_of(request, phrase("Log in")), error.status if isinstance(error, ApiError) else CHANGE_REFUSED
    response = render(request, "login_refused.html", status, page=page, error=error.message, again=_issuer_url(next_))
    response.headers.update(error.headers if isinstance(error, ApiError) else {})
    return response


@router.get("/login/oidc")
async def begin_at_issuer(request: Request, next: str = "/") -> Response:  # noqa: A002 - see login_form
    """Redirect to the issuer's login page."""
    oidc, location = _issuer_of(request), safe_next(next)
    if visitor_of(request) is not None:
        return redirect(location)
    try:
        url, cookie = await oidc.begin(base_url_of(request), address_under_root(root_of(request), location))
    except ApiError as refused:
        return _refused_page(request, refused, location)
    response = redirect(url)
    response.set_cookie(
        OIDC_COOKIE,
        cookie,
        max_age=int(LOGIN_LIFETIME.total_seconds()),
        path="/login/oidc",
        httponly=True,
        samesite="lax",  # the issuer's redirect comes from another site
        secure=is_https(request.scope, services_of(request).settings),
    )
    return response


@router.get("/login/oidc/callback")
async def finish_at_issuer(
    request: Request, state: str = "", code: str = "", error: str = "", iss: str | None = None
) -> Response:
    """Open a session for the user that the issuer names."""
    oidc = _issuer_of(request)
    returned = Returned(cookie=request.cookies.get(OIDC_COOKIE, ""), state=state, code=code, error=error, issuer=iss)
    try:
        session_id, location = await oidc.finish(base_url_of(request), returned, info_of(request))
    except (ApiError, AccountError) as refused:
        response = _refused_page(request, refused, "/")
    else:
        response = _with_session(request, session_id, safe_next(location))
    response.delete_cookie(OIDC_COOKIE, path="/login/oidc")
    return response


@router.post("/logout")
async def logout(request: Request, caller: Anyone) -> Response:
    """End the session."""
    await services_of(request).security.logout(caller.principal, caller.info)
    response = redirect("/login")
    response.delete_cookie(SESSION_COOKIE)
    return response
