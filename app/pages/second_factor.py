"""The second factor of the logged-in user: setting it up, recovery codes, and turning it off."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.http.errors import FORM_REFUSED
from app.pages.confirm import ConfirmView, Input, confirm_page, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import page_of, render
from app.pages.own_account import TITLE, account_page, require_user
from app.security.accounts import AccountError
from app.security.second_factors import Setup
from app.security.totp import qr_code
from app.services import Anyone, base_url_of, services_of
from app.texts import phrase

router = APIRouter(include_in_schema=False, prefix="/account/second-factor")

CodeNeeded = partial(
    ConfirmView,
    active="",
    back=TITLE,
    back_url="/account",
    curl="",
    inputs=(Input("code", phrase("Code of your authenticator, or a recovery code"), "code", required=True),),
    dangerous=True,
)
"""The preview of a change that needs a code, which counts once, and so is entered on the preview."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupView:
    """Model of second_factor.html: the secret to enter into an authenticator, as text and as an image."""

    setup: Setup
    image: str
    groups: Sequence[str]
    error: str


def _host(request: Request) -> str:
    return urlsplit(base_url_of(request)).hostname or ""


def _setup_page(request: Request, setup: Setup, error: str = "", status: int = 200) -> Response:
    groups = [setup.text[at : at + 4] for at in range(0, len(setup.text), 4)]
    view = SetupView(setup=setup, image=qr_code(setup.uri), groups=groups, error=error)
    page = page_of(request, phrase("Set up a second factor"))
    return render(request, "second_factor.html", status, page=page, view=view)


def _codes_page(request: Request, codes: Sequence[str]) -> Response:
    page = page_of(request, phrase("Recovery codes"))
    return render(request, "recovery_codes.html", 200, page=page, codes=codes)


@router.post("/start")
async def start(request: Request, caller: Anyone, present: Annotated[str, Form()] = "") -> Response:
    """Show a new secret. It counts once a first code has been entered."""
    require_user(caller)
    factors = services_of(request).second_factors
    try:
        setup = await factors.start(caller.principal, present, _host(request), caller.info)
    except AccountError as refused:
        return await account_page(request, caller, refused.message, FORM_REFUSED)
    return _setup_page(request, setup)


@router.post("/on")
async def turn_on(
    request: Request, caller: Anyone, sealed: Annotated[str, Form()] = "", code: Annotated[str, Form()] = ""
) -> Response:
    """Turn the factor on and show the recovery codes."""
    require_user(caller)
    factors = services_of(request).second_factors
    try:
        codes = await factors.turn_on(caller.principal, sealed, code, caller.info)
    except AccountError as refused:
        try:
            setup = factors.setup_again(caller.principal, sealed, _host(request))
        except AccountError:
            return await account_page(request, caller, refused.message, FORM_REFUSED)
        return _setup_page(request, setup, refused.message, FORM_REFUSED)
    return _codes_page(request, codes)


@router.post("/codes")
async def renew_codes(
    request: Request, caller: Anyone, code: Annotated[str, Form()] = "", confirmed: Annotated[str, Form()] = ""
) -> Response:
    """Preview new recovery codes and ask for a code; with confirmed=yes show them. The old ones no longer count."""
    require_user(caller)

    async def apply() -> Response:
        factors = services_of(request).second_factors
        return _codes_page(request, await factors.renew_recovery_codes(caller.principal, code, caller.info))

    view = CodeNeeded(
        title=phrase("Make new recovery codes"),
        action="/account/second-factor/codes",
        button=phrase("Make new codes"),
        changes=[(phrase("Recovery codes"), phrase("those you have"), phrase("ten new ones"))],
        consequences=(phrase("Those you have no longer log in. The next page shows the new ones, once."),),
    )
    return await _confirmed(request, view, apply, confirmed=bool(confirmed))


@router.post("/off")
async def turn_off(
    request: Request, caller: Anyone, code: Annotated[str, Form()] = "", confirmed: Annotated[str, Form()] = ""
) -> Response:
    """Preview that the factor is off and ask for a code; with confirmed=yes turn it off."""
    require_user(caller)

    async def apply() -> Flash:
        await services_of(request).second_factors.turn_off(caller.principal, code, caller.info)
        return Flash("good", phrase("Your second factor is off."))

    view = CodeNeeded(
        title=phrase("Turn off the second factor"),
        action="/account/second-factor/off",
        button=phrase("Turn off"),
        changes=[(phrase("Second factor"), phrase("on"), phrase("off"))],
        consequences=(phrase("The password alone logs in then, and your recovery codes no longer count."),),
    )
    return await _confirmed(request, view, apply, confirmed=bool(confirmed))


async def _confirmed(
    request: Request, view: ConfirmView, apply: Callable[[], Awaitable[Flash | Response]], *, confirmed: bool
) -> Response:
    try:
        return await preview_or_apply(request, view, confirmed=confirmed, apply=apply)
    except AccountError as refused:
        return confirm_page(request, replace(view, error=refused.message), FORM_REFUSED)
