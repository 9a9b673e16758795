"""API tokens: creating one, whose secret is shown once, and revoking one."""

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import Response

from app.actions.audited import Caller
from app.clusters import clusters_of
from app.db.base import utc_now
from app.db.models import ROLES, ApiToken
from app.http.cluster_paths import key_of
from app.http.errors import FORM_REFUSED
from app.pages.accounts import TITLE, active_tokens_of, preview_or_change, refused_on_page
from app.pages.confirm import ConfirmView, curl
from app.pages.flash import Flash
from app.pages.frame import page_of, render, whole_number
from app.security.accounts import AccountError
from app.security.api_tokens import NewToken
from app.security.grants import place_of
from app.security.roles import SCOPES
from app.services import Owner, principal_of, services_of
from app.texts import phrase

router = APIRouter(include_in_schema=False, prefix="/access/tokens")


@dataclass(frozen=True, slots=True)
class ApiTokensView:
    """Model of api_tokens.html and own_tokens.html, where `roles` are those that the user may give.

    `clusters` are names by key. `secret` is shown on this page once. `refused` and `name` are of a refused form.
    """

    tokens: Sequence[ApiToken]
    clusters: Mapping[str, str]
    roles: Sequence[str] = ROLES
    scopes: Sequence[str] = SCOPES
    secret: str = ""
    secret_label: str = ""
    error: str = ""
    refused: str = ""
    name: str = ""


class TokenForm:
    """What a token is to be, from a form."""

    def __init__(
        self,
        name: Annotated[str, Form()] = "",
        role: Annotated[str, Form()] = "viewer",
        scopes: Annotated[list[str] | None, Form()] = None,
        days: Annotated[str, Form()] = "",
        cluster: Annotated[str, Form()] = "",
        topic_prefix: Annotated[str, Form()] = "",
    ) -> None:
        self.name = name
        self._role, self._scopes, self._days = role, scopes or (), days
        self._cluster, self._topic_prefix = cluster, topic_prefix.strip()

    def wanted(self, clusters: Collection[str]) -> NewToken:
        """Return the token, valid in one of these clusters or in all. Raises AccountError."""
        return NewToken(
            name=self.name.strip(),
            role=self._role,
            scopes=self._scopes,
            expires_at=_expiry_of(self._days),
            place=place_of(key_of(self._cluster) if self._cluster else None, self._topic_prefix, clusters),
        )


TokenFormDep = Annotated[TokenForm, Depends()]


async def tokens_page(request: Request, status: int = 200, **more: str) -> Response:
    """Return the tab of API tokens; `more` are the fields of ApiTokensView with a default."""
    names = clusters_of(request).names(principal_of(request))
    view = ApiTokensView(await services_of(request).security.tokens(), names, **more)
    return render(request, "api_tokens.html", status, page=page_of(request, TITLE, "/access"), view=view)


@router.get("")
async def api_tokens(request: Request, _caller: Owner) -> Response:
    """Return the tab."""
    return await tokens_page(request)


def _expiry_of(days: str) -> dt.datetime | None:
    """Return when a token expires after a number of days, None for an empty text. Raises AccountError."""
    if not days.strip():
        return None
    valid = whole_number(days, 1, 3650)
    if valid is None:
        text = phrase("'%(text)s' is not a number of days from 1 to 3650.", text=days.strip()[:40])
        raise AccountError(text, "days")
    return utc_now() + dt.timedelta(days=valid)


@router.post("")
async def add_token(request: Request, caller: Owner, form: TokenFormDep) -> Response:
    """Create an API token and return the page with its secret."""
    try:
        secret, label = await made_token(request, caller, form)
    except AccountError as refused:
        return await tokens_page(request, FORM_REFUSED, refused=refused.message, name=form.name)
    return await tokens_page(request, secret=secret, secret_label=label)


async def made_token(request: Request, caller: Caller, form: TokenForm) -> tuple[str, str]:
    """Create a token from a form and return its secret, and the label to show with it. Raises AccountError."""
    wanted = form.wanted(clusters_of(request).names(caller.principal))
    made, text = await services_of(request).security.add_token(caller.principal, wanted, caller.info)
    return text, phrase("API token %(name)s.", name=made.name)


@router.post("/{name}/revoke")
@refused_on_page(tokens_page)
async def revoke_token(request: Request, caller: Owner, name: str, confirmed: Annotated[str, Form()] = "") -> Response:
    """Preview what revoking a token ends; with confirmed=yes revoke it for good."""
    return await revocation_page(request, caller, name, "/access/tokens", TITLE, confirmed=bool(confirmed))


async def revocation_page(
    request: Request, caller: Caller, name: str, base: str, title: str, *, confirmed: bool
) -> Response:
    """Preview the revocation of a token from the page at `base` with this title; with `confirmed` revoke it.

    Raises AccountError.
    """
    security = services_of(request).security

    async def change(validate_only: bool) -> Flash:
        await security.revoke_token(caller.principal, name, caller.info, validate_only=validate_only)
        return Flash("good", phrase("API token %(name)s revoked.", name=name))

    made = await active_tokens_of(request, f"token:{name}")
    view = ConfirmView(
        title=phrase("Revoke API token %(name)s", name=name),
        active=base.rpartition("/")[0],
        back=title,
        back_url=base,
        action=f"{base}/{quote(name, safe='')}/revoke",
        button=phrase("Revoke token"),
        changes=[(phrase("API token %(name)s", name=name), phrase("active"), phrase("revoked"))],
        consequences=(
            phrase(
                "Programs that use it are refused at once; their event streams end. A revoked token cannot be restored."
            ),
            *(
                (phrase("Tokens created with it are revoked too: %(names)s.", names=", ".join(made[:10])),)
                if made
                else ()
            ),
        ),
        curl=curl(request, "DELETE", f"tokens/{quote(name, safe='')}"),
        dangerous=True,
    )
    return await preview_or_change(request, view, change, confirmed=confirmed)
