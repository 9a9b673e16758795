"""Delegation tokens of the cluster, in the style of REST v3. API tokens of this process are in `accounts`."""

import base64
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import Response

from app.cluster.delegation_tokens import AT_ONCE, DEFAULT_PERIOD, read_hmac
from app.error_responses import NATIVE
from app.rest.paging import PageDep
from app.rest.responses import DRY_RUN, answer, created, location_of, planned
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.base import DryRunData
from app.rest.schemas.delegation_tokens import (
    CreatedDelegationTokenData,
    CreateDelegationTokenBody,
    DelegationTokenData,
    DelegationTokenDataList,
    ExpireDelegationTokenBody,
    RenewDelegationTokenBody,
    TokenEndData,
)
from app.rest.view import NowViewDep, View, ViewDep
from app.services import Admin, Services, ServicesDep
from kraft_core.image.metadata_image import DelegationToken

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=[NATIVE, "delegation-tokens"], route_class=JsonRoute)

_HMAC_UNKNOWN: Final = "whether a token has this HMAC, and whether this process may change it"
_ACLS_UNKNOWN: Final = "whether this process may create a token for the owner"


def _token_data(view: View, token: DelegationToken, **more: Any) -> dict[str, Any]:
    return view.resource(
        "KafkaDelegationToken",
        ("delegation-tokens", token.token_id),
        (("delegation-token", token.token_id),),
        token_id=token.token_id,
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        **more,
    )


@router.get("/delegation-tokens", responses={200: {"model": DelegationTokenDataList}})
async def list_delegation_tokens(view: ViewDep, page: PageDep, _caller: Admin) -> Response:
    """List the tokens by id, without their HMACs."""
    tokens = sorted(view.image.delegation_tokens.values(), key=lambda token: token.token_id)
    return page.answer(
        "KafkaDelegationTokenList", tokens, lambda token: token.token_id, lambda token: _token_data(view, token)
    )


@router.get("/delegation-tokens/{token_id}", responses={200: {"model": DelegationTokenData}})
async def get_delegation_token(token_id: str, view: ViewDep, _caller: Admin) -> Response:
    """Describe one token."""
    found = view.image.delegation_tokens.get(token_id)
    if found is None:
        raise view.not_found(f"Delegation token {token_id}")
    return answer(_token_data(view, found), view.offset)


@router.post("/delegation-tokens", status_code=201, responses={201: {"model": CreatedDelegationTokenData}, **DRY_RUN})
async def create_delegation_token(
    body: CreateDelegationTokenBody, view: NowViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Create a token. `hmac`, which its holder logs in with, is in this answer only."""
    if validate_only:
        await services.actions.delegation_tokens.check(owner=body.owner, renewers=body.renewers)
        wanted = body.model_dump(exclude={"validate_only"})
        return planned([("delegation token", None, wanted)], [_ACLS_UNKNOWN])
    lifetime_ms = DEFAULT_PERIOD if body.max_lifetime_ms is None else body.max_lifetime_ms
    made = await services.actions.delegation_tokens.create(caller, body.owner, body.renewers, lifetime_ms)
    data = _token_data(view, made.token, hmac=base64.b64encode(made.hmac).decode())
    return created(data, made.offset, headers=location_of(data))


@router.post("/delegation-tokens:renew", responses={200: {"model": TokenEndData | DryRunData}})
async def renew_delegation_token(
    body: RenewDelegationTokenBody, _view: NowViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Extend a token's expiry, at most to its `max_timestamp`."""
    if validate_only:
        return await _planned_expiry(services, body.hmac, body.renew_period_ms)
    period_ms = DEFAULT_PERIOD if body.renew_period_ms is None else body.renew_period_ms
    return _expiry(*await services.actions.delegation_tokens.renew(caller, read_hmac(body.hmac), period_ms))


@router.post("/delegation-tokens:expire", responses={200: {"model": TokenEndData | DryRunData}})
async def expire_delegation_token(
    body: ExpireDelegationTokenBody, _view: NowViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Expire a token, at once or after a period."""
    if validate_only:
        return await _planned_expiry(services, body.hmac, body.expiry_period_ms)
    period_ms = AT_ONCE if body.expiry_period_ms is None else body.expiry_period_ms
    return _expiry(*await services.actions.delegation_tokens.expire(caller, read_hmac(body.hmac), period_ms))


def _expiry(offset: int, expiry_ms: int) -> Response:
    return answer({"expiry_timestamp": expiry_ms}, offset)


async def _planned_expiry(services: Services, hmac: str, period_ms: int | None) -> Response:
    """Return a dry run. Only the controllers can tell which token has the HMAC, and they have no dry run."""
    await services.actions.delegation_tokens.check(hmac=read_hmac(hmac))
    return planned([("delegation token", None, {"period_ms": period_ms})], [_HMAC_UNKNOWN])
