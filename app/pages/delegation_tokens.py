"""Delegation tokens (KIP-48): creating one, whose HMAC is shown once; renewing and expiring one with that HMAC."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.cluster.delegation_tokens import AT_ONCE, DEFAULT_PERIOD, CreatedToken, read_hmac, split_principal
from app.http.errors import FORM_REFUSED, NotFoundError
from app.pages.access_control import TITLE, date_of, tokens_page
from app.pages.confirm import ConfirmView, Input, cluster_curl, confirm_page, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import moment, number, page_of, render, whole_number
from app.services import Admin, services_of
from app.texts import phrase, phrases, sentence_of
from kraft_core.image.metadata_image import DelegationToken

router = APIRouter(include_in_schema=False, prefix="/rights/tokens")

Kind = Literal["renew", "end"]
HOUR_MS: Final = 3_600_000
HOURS_MAX: Final = 100 * 366 * 24


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCreatedView:
    """Model of delegation_token_created.html, the only page with the HMAC. `facts` are (label, value)."""

    hmac: str
    offset: int
    facts: Sequence[tuple[str, str]]


def read_principal(text: str) -> str:
    """Return a principal such as "User:alice". Raises ValueError in words."""
    if split_principal(text) is None:
        raise ValueError(phrase("'%(text)s' is not a principal such as User:alice.", text=text[:80]))
    return text


def read_renewers(text: str) -> tuple[str, ...]:
    """Return principals, one per line: their names may contain commas. Raises ValueError in words."""
    return tuple(read_principal(line.strip()) for line in text.splitlines() if line.strip())


def read_hours(text: str, empty_ms: int) -> int:
    """Return hours as ms, `empty_ms` for empty text. Raises ValueError in words."""
    if not text.strip():
        return empty_ms
    hours = whole_number(text, 1, HOURS_MAX)
    if hours is None:
        wrong = text.strip()[:40]
        raise ValueError(
            phrase("'%(text)s' is not a whole number of hours from 1 to %(most)s.", text=wrong, most=HOURS_MAX)
        )
    return hours * HOUR_MS


def _date(timestamp_ms: int) -> str:
    return moment(date_of(timestamp_ms))


@router.post("")
async def create(
    request: Request,
    caller: Admin,
    owner: Annotated[str, Form()] = "",
    renewers: Annotated[str, Form()] = "",
    hours: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview a new token; with confirmed=yes create it and return the page with its HMAC."""
    try:
        wanted = read_principal(owner.strip()) if owner.strip() else None
        allowed, lifetime_ms = read_renewers(renewers), read_hours(hours, DEFAULT_PERIOD)
    except ValueError as wrong:
        given = {"token-owner": owner, "token-renewers": renewers, "token-hours": hours}
        return tokens_page(request, sentence_of(wrong), FORM_REFUSED, given)

    async def apply() -> Response:
        created = await services_of(request).actions.delegation_tokens.create(caller, wanted, allowed, lifetime_ms)
        page = page_of(request, phrase("Delegation token created"), "/rights")
        return render(request, "delegation_token_created.html", page=page, view=_created_view(created))

    is_limited = lifetime_ms != DEFAULT_PERIOD
    hours_given = lifetime_ms // HOUR_MS
    lifetime = (
        phrases("%(count)s hour", "%(count)s hours", hours_given, count=number(hours_given))
        if is_limited
        else phrase("set by delegation.token.max.lifetime.ms")
    )
    body = {"owner": wanted, "renewers": list(allowed), "max_lifetime_ms": lifetime_ms if is_limited else None}
    view = ConfirmView(
        title=phrase("Create delegation token"),
        active="/rights",
        back=TITLE,
        back_url="/rights/tokens",
        action="/rights/tokens",
        button=phrase("Create token"),
        changes=[
            (phrase("Owner"), "", wanted or phrase("the user of this dashboard's connection to the controllers")),
            (phrase("Renewers"), "", ", ".join(allowed) or phrase("owner only")),
            (phrase("Maximum lifetime"), "", lifetime),
        ],
        consequences=[
            phrase("Clients with the token id and HMAC authenticate as the owner by SCRAM, without a password."),
            phrase("The HMAC is shown once, on the next page. Neither the cluster nor this dashboard keeps it."),
        ],
        curl=cluster_curl(request, "POST", "delegation-tokens", {key: each for key, each in body.items() if each}),
        fields=[("owner", owner), ("renewers", renewers), ("hours", hours)],
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply)


def _created_view(created: CreatedToken) -> TokenCreatedView:
    token = created.token
    return TokenCreatedView(
        hmac=base64.b64encode(created.hmac).decode(),
        offset=created.offset,
        facts=[
            (phrase("Token id"), token.token_id),
            (phrase("Owner"), token.owner),
            (phrase("Requester"), token.requester),
            (phrase("Renewers"), ", ".join(token.renewers) or phrase("owner only")),
            (phrase("Expires"), _date(token.expiration_timestamp)),
            (phrase("Renewable until"), _date(token.max_timestamp)),
        ],
    )


def _known(request: Request, token_id: str) -> DelegationToken:
    found = services_of(request).cluster.image.delegation_tokens.get(token_id)
    if found is None:
        raise NotFoundError(phrase("There is no delegation token '%(id)s'.", id=token_id[:40]))
    return found


def _change_view(request: Request, token: DelegationToken, kind: Kind) -> ConfirmView:
    is_end = kind == "end"
    action, period = ("expire", "expiry_period_ms") if is_end else ("renew", "renew_period_ms")
    latest = _date(token.max_timestamp)
    return ConfirmView(
        title=phrase("Expire delegation token") if is_end else phrase("Renew delegation token"),
        active="/rights",
        back=TITLE,
        back_url="/rights/tokens",
        action=f"/rights/tokens/{token.token_id}/{kind}",
        button=phrase("Expire token") if is_end else phrase("Renew token"),
        changes=[
            (
                phrase("Expiry of token %(id)s of %(owner)s", id=token.token_id, owner=token.owner),
                _date(token.expiration_timestamp),
                phrase("now, or in the given hours, at most until %(time)s", time=latest)
                if is_end
                else phrase("in the given hours, at most until %(time)s", time=latest),
            )
        ],
        consequences=[
            phrase(
                "Clients cannot authenticate with an expired token. Open connections last until they must do so again."
            )
            if is_end
            else phrase("Renewers besides the owner: %(names)s.", names=", ".join(token.renewers) or phrase("none"))
        ],
        curl=cluster_curl(request, "POST", f"delegation-tokens:{action}", {"hmac": "HMAC in Base64", period: HOUR_MS}),
        inputs=[
            Input(
                "hmac",
                phrase("HMAC of the token (Base64), shown when it was created"),
                kind="password",
                required=True,
            ),
            Input(
                "hours",
                phrase("Expire in hours (empty: now)")
                if is_end
                else phrase("Hours (empty: delegation.token.expiry.time.ms)"),
                kind="numeric",
            ),
        ],
        dangerous=is_end,
    )


@router.get("/{token_id}/{kind}")
async def before_change(request: Request, _caller: Admin, token_id: str, kind: Kind) -> Response:
    """Return the preview, with a field for the HMAC."""
    return confirm_page(request, _change_view(request, _known(request, token_id), kind))


@router.post("/{token_id}/{kind}")
async def change(
    request: Request,
    caller: Admin,
    token_id: str,
    kind: Kind,
    hmac: Annotated[str, Form()] = "",
    hours: Annotated[str, Form()] = "",
) -> Response:
    """Renew or expire the token. The HMAC of another token changes that one, and the message says so."""
    services = services_of(request)
    token = _known(request, token_id)
    period_ms, error = DEFAULT_PERIOD, ""
    try:
        period_ms = read_hours(hours, AT_ONCE if kind == "end" else DEFAULT_PERIOD)
    except ValueError as wrong:
        error = sentence_of(wrong)

    async def apply() -> Flash:
        tokens = services.actions.delegation_tokens
        send = tokens.expire if kind == "end" else tokens.renew
        offset, expiry = await send(caller, read_hmac(hmac.strip()), period_ms)
        return _done(token, services.cluster.image.delegation_tokens.get(token_id), offset, expiry)

    view = _change_view(request, token, kind)
    return await preview_or_apply(request, view, confirmed=True, apply=apply, error=error)


def _done(token: DelegationToken, now: DelegationToken | None, offset: int, expiry: int) -> Flash:
    about = {"id": token.token_id, "owner": token.owner, "offset": str(offset), "expiry": _date(expiry)}
    if now is None:
        return Flash("good", phrase("Token %(id)s of %(owner)s expired at offset %(offset)s.", **about))
    if now.expiration_timestamp != expiry:
        return Flash(
            "bad",
            phrase(
                "This is the HMAC of another token, which now expires %(expiry)s, changed at offset %(offset)s.",
                **about,
            ),
        )
    return Flash(
        "good",
        phrase(
            "Token %(id)s of %(owner)s now expires %(expiry)s (was %(was)s), changed at offset %(offset)s.",
            was=_date(token.expiration_timestamp),
            **about,
        ),
    )
