"""Delegation tokens (KIP-48): a new one, whose HMAC is shown this once; renewed or ended by who has that HMAC."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.cluster.delegation_tokens import AT_ONCE, DEFAULT_PERIOD, CreatedToken, read_hmac, split_principal
from app.http.errors import ApiError
from app.pages.confirm import ConfirmView
from app.pages.flash import Flash
from app.pages.frame import counted, go_to, moment, page_of, refusal, render, whole_number
from app.pages.rights import rights_page
from app.pages.rights_view import date_of
from app.pages.topic import curl
from app.services import Admin, services_of
from kraft_core.image.metadata_image import DelegationToken
from kraft_core.protocol.errors import KafkaError

router = APIRouter(include_in_schema=False, prefix="/rights/tokens")

Kind = Literal["renew", "end"]
HOUR_MS: Final = 3_600_000
HOURS_MAX: Final = 100 * 366 * 24


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenChangeView:
    """What token_change.html shows: a token before it is renewed or ended, which takes its HMAC."""

    kind: Kind
    token_id: str
    owner: str
    ends: str
    afterwards: str
    consequence: str
    hours_label: str
    button: str
    curl: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMadeView:
    """What token_made.html shows, this once. `facts` are (label, value)."""

    hmac: str
    offset: int
    facts: Sequence[tuple[str, str]]


def read_principal(text: str) -> str:
    """Read "User:alice". Raises ValueError in words."""
    if split_principal(text) is None:
        raise ValueError(f"'{text[:80]}' is no principal such as User:alice.")
    return text


def read_renewers(text: str) -> tuple[str, ...]:
    """Read principals, one a line: their names may hold commas. Raises ValueError in words."""
    return tuple(read_principal(line.strip()) for line in text.splitlines() if line.strip())


def read_hours(text: str, empty_ms: int) -> int:
    """Read hours as ms; `empty_ms` when there are none. Raises ValueError in words."""
    if not text.strip():
        return empty_ms
    hours = whole_number(text, 1, HOURS_MAX)
    if hours is None:
        raise ValueError(f"'{text.strip()[:40]}' is not a whole number of hours from 1 to {HOURS_MAX}.")
    return hours * HOUR_MS


def _hours(period_ms: int) -> str:
    return counted(period_ms // HOUR_MS, "hour")


def _ends(timestamp_ms: int) -> str:
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
    """Show what a new token would be; with confirmed=yes make it and show its HMAC."""
    services = services_of(request)
    try:
        wanted = read_principal(owner.strip()) if owner.strip() else None
        allowed, lifetime_ms = read_renewers(renewers), read_hours(hours, DEFAULT_PERIOD)
    except ValueError as wrong:
        given = {"token-owner": owner, "token-renewers": renewers, "token-hours": hours}
        return rights_page(request, str(wrong), 422, given)
    error, status = "", 200
    if confirmed:
        try:
            made = await services.actions.delegation_tokens.create(caller, wanted, allowed, lifetime_ms)
        except (KafkaError, ConnectionError) as refused:
            error, status = refusal(refused)
        else:
            page = page_of(request, "The token is made", "/rights")
            return render(request, "token_made.html", page=page, view=_made(made))
    name = wanted or "the user as whom this dashboard logs in to the controllers"
    is_bounded = lifetime_ms != DEFAULT_PERIOD
    body = {"owner": wanted, "renewers": list(allowed), "max_lifetime_ms": lifetime_ms if is_bounded else None}
    view = ConfirmView(
        back="Access control",
        back_url="/rights",
        action="/rights/tokens",
        button="Make the token",
        changes=[
            (f"Delegation token of {name}", "none", "a new one"),
            ("May be renewed by", "", ", ".join(allowed) or "its owner alone"),
            (
                "Ends at the latest",
                "",
                f"after {_hours(lifetime_ms)}" if is_bounded else "as delegation.token.max.lifetime.ms says",
            ),
        ],
        consequences=[
            f"Who has the token's id and HMAC can log in as {wanted or 'that user'} where SCRAM is spoken, without a password.",
            "The HMAC is shown once, on the next page. The cluster and this dashboard keep it nowhere.",
        ],
        curl=curl(request, services, "POST", "delegation-tokens", {key: each for key, each in body.items() if each}),
        fields=[("owner", owner), ("renewers", renewers), ("hours", hours)],
        error=error,
    )
    return render(request, "confirm.html", status, page=page_of(request, "Make a token", "/rights"), view=view)


def _made(made: CreatedToken) -> TokenMadeView:
    token = made.token
    return TokenMadeView(
        hmac=base64.b64encode(made.hmac).decode(),
        offset=made.offset,
        facts=[
            ("Token id", token.token_id),
            ("Owner", token.owner),
            ("Made by", token.requester),
            ("May be renewed by", ", ".join(token.renewers) or "its owner alone"),
            ("Ends", _ends(token.expiration_timestamp)),
            ("At the latest, if renewed", _ends(token.max_timestamp)),
        ],
    )


def _known(request: Request, token_id: str) -> DelegationToken:
    found = services_of(request).cluster.image.delegation_tokens.get(token_id)
    if found is None:
        raise ApiError(404, f"There is no delegation token '{token_id[:40]}' (any more).")
    return found


def _change_page(request: Request, token: DelegationToken, kind: Kind, error: str = "", status: int = 200) -> Response:
    is_end = kind == "end"
    action, period = ("expire", "expiry_period_ms") if is_end else ("renew", "renew_period_ms")
    body = {"hmac": "HMAC in Base64", period: HOUR_MS}
    latest = f"at the latest {_ends(token.max_timestamp)}"
    view = TokenChangeView(
        kind=kind,
        token_id=token.token_id,
        owner=token.owner,
        ends=_ends(token.expiration_timestamp),
        afterwards=f"at once, or in so many hours, {latest}" if is_end else f"so many hours from now, {latest}",
        consequence="Nobody logs in by an ended token; connections that are open stay so until they must log in again."
        if is_end
        else f"Its owner and these may renew it: {', '.join(token.renewers) or 'nobody else'}.",
        hours_label="In how many hours; empty: at once"
        if is_end
        else "For how many hours; empty: as delegation.token.expiry.time.ms says",
        button="End the token" if is_end else "Renew the token",
        curl=curl(request, services_of(request), "POST", f"delegation-tokens:{action}", body),
        error=error,
    )
    title = "End a token" if is_end else "Renew a token"
    return render(request, "token_change.html", status, page=page_of(request, title, "/rights"), view=view)


@router.get("/{token_id}/{kind}")
async def before_change(request: Request, _caller: Admin, token_id: str, kind: Kind) -> Response:
    """Show what will change, and ask for the HMAC."""
    return _change_page(request, _known(request, token_id), kind)


@router.post("/{token_id}/{kind}")
async def change(
    request: Request,
    caller: Admin,
    token_id: str,
    kind: Kind,
    hmac: Annotated[str, Form()] = "",
    hours: Annotated[str, Form()] = "",
) -> Response:
    """Renew or end it, and say what that changed. A HMAC of another token changes that one: then this is told."""
    services = services_of(request)
    token = _known(request, token_id)
    try:
        period_ms = read_hours(hours, AT_ONCE if kind == "end" else DEFAULT_PERIOD)
        tokens = services.actions.delegation_tokens
        tell = tokens.expire if kind == "end" else tokens.renew
        offset, end = await tell(caller, read_hmac(hmac.strip()), period_ms)
    except ValueError as wrong:
        return _change_page(request, token, kind, str(wrong), 422)
    except (KafkaError, ConnectionError) as refused:
        return _change_page(request, token, kind, *refusal(refused))
    now = services.cluster.image.delegation_tokens.get(token_id)
    if now is None:
        note = Flash("good", f"The token {token_id} of {token.owner} is ended since offset {offset}.")
    elif now.expiration_timestamp == end:
        was = _ends(token.expiration_timestamp)
        note = Flash(
            "good", f"The token {token_id} of {token.owner} ends {_ends(end)} (before: {was}), offset {offset}."
        )
    else:
        note = Flash("bad", f"That was the HMAC of another token, which ends {_ends(end)} since offset {offset}.")
    return go_to(request, "/rights", note)
