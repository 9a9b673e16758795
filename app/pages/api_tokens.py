"""API tokens: creating one, whose secret is shown once, and revoking one."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.actions.audited import Caller
from app.clusters import clusters_of
from app.db.base import utc_now
from app.db.models import ROLES, ApiToken
from app.http.cluster_paths import HOME
from app.pages.accounts import TITLE, active_tokens_of, preview_or_change, refused_on_page
from app.pages.confirm import ConfirmView, curl
from app.pages.flash import Flash
from app.pages.frame import page_of, render, whole_number
from app.security.accounts import AccountError
from app.security.api_tokens import NewToken
from app.security.grants import place_of
from app.security.roles import SCOPES, Place
from app.services import Owner, services_of
from app.texts import phrase

router = APIRouter(include_in_schema=False, prefix="/access/tokens")


@dataclass(frozen=True, slots=True)
class ApiTokensView:
    """Model of api_tokens.html and own_tokens.html, where `roles` are those that the user may give.

    `clusters` are (key, name). `secret` is shown on this page once. `refused` and `name` are of a refused form.
    """

    tokens: Sequence[ApiToken]
    clusters: Sequence[tuple[str, str]]
    roles: Sequence[str] = ROLES
    scopes: Sequence[str] = SCOPES
    secret: str = ""
    secret_label: str = ""
    error: str = ""
    refused: str = ""
    name: str = ""

    def cluster_name(self, key: str) -> str:
        """Return the name of a cluster, its key if it is not known."""
        return dict(self.clusters).get(key, key)


def named_clusters(request: Request) -> list[tuple[str, str]]:
    """Return the key and the name of each cluster."""
    return [(each.key, each.settings.cluster_name) for each in clusters_of(request).all()]


async def tokens_page(request: Request, status: int = 200, **more: str) -> Response:
    """Return the tab of API tokens; `more` are the fields of ApiTokensView with a default."""
    view = ApiTokensView(await services_of(request).security.tokens(), named_clusters(request), **more)
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
@refused_on_page(tokens_page, is_form=True)
async def add_token(
    request: Request,
    caller: Owner,
    name: Annotated[str, Form()] = "",
    role: Annotated[str, Form()] = "viewer",
    scopes: Annotated[list[str] | None, Form()] = None,
    days: Annotated[str, Form()] = "",
    cluster: Annotated[str, Form()] = "",
    topic_prefix: Annotated[str, Form()] = "",
) -> Response:
    """Create an API token and return the page with its secret."""
    place = token_place(request, cluster, topic_prefix)
    secret, label = await made_token(request, caller, name, role, scopes, days, place)
    return await tokens_page(request, secret=secret, secret_label=label)


def token_place(request: Request, cluster: str, topic_prefix: str) -> Place | None:
    """Return where a token from a form is to be valid, None for everywhere. Raises AccountError."""
    key = None if not cluster else "" if cluster == HOME else cluster
    return place_of(key, topic_prefix.strip(), [each.key for each in clusters_of(request).all()])


async def made_token(
    request: Request,
    caller: Caller,
    name: str,
    role: str,
    scopes: list[str] | None,
    days: str,
    place: Place | None,
) -> tuple[str, str]:
    """Create a token from a form and return its secret, and the label to show with it. Raises AccountError."""
    wanted = NewToken(name=name.strip(), role=role, scopes=scopes or (), expires_at=_expiry_of(days), place=place)
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
