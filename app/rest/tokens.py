"""Delegation tokens of the cluster, which clients show in place of a password. Tokens of this API are in accounts."""

import base64
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.answers import NATIVE
from app.cluster.delegation_tokens import AT_ONCE, DEFAULT_PERIOD, read_hmac
from app.http.errors import ApiError
from app.http.locations import located
from app.rest.common import DRY_RUN, PageDep, View, ViewDep, answer, dry_answer, list_body
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
from app.services import Admin, Services, ServicesDep
from kraft_core.image.metadata_image import DelegationToken

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=[NATIVE, "delegation-tokens"], route_class=JsonRoute)

_HMAC_UNKNOWN: Final = "whether a token has this HMAC, and whether this process may change it"
_ACLS_UNKNOWN: Final = "whether this process may make a token for the owner"


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
async def list_delegation_tokens(request: Request, view: ViewDep, page: PageDep, _caller: Admin) -> Response:
    """List the tokens by id, without what their holders show."""
    tokens = sorted(view.image.delegation_tokens.values(), key=lambda token: token.token_id)
    body = list_body(
        request,
        view,
        "KafkaDelegationTokenList",
        tokens,
        page,
        lambda token: token.token_id,
        lambda token: _token_data(view, token),
    )
    return answer(body, view.offset)


@router.get("/delegation-tokens/{token_id}", responses={200: {"model": DelegationTokenData}})
async def get_delegation_token(token_id: str, view: ViewDep, _caller: Admin) -> Response:
    """Describe one token."""
    found = view.image.delegation_tokens.get(token_id)
    if found is None:
        raise ApiError(404, f"Delegation token {token_id} cannot be found in cluster {view.cluster_id}.")
    return answer(_token_data(view, found), view.offset)


@router.post("/delegation-tokens", status_code=201, responses={201: {"model": CreatedDelegationTokenData}, **DRY_RUN})
async def create_delegation_token(
    body: CreateDelegationTokenBody, view: ViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Make a token; `hmac` is what its holder shows, and only this answer has it."""
    if validate_only:
        await services.actions.delegation_tokens.check(owner=body.owner, renewers=body.renewers)
        wanted = body.model_dump(exclude={"validate_only"})
        return dry_answer([("delegation token", None, wanted)], [_ACLS_UNKNOWN])
    lifetime_ms = DEFAULT_PERIOD if body.max_lifetime_ms is None else body.max_lifetime_ms
    made = await services.actions.delegation_tokens.create(caller, body.owner, body.renewers, lifetime_ms)
    shown = _token_data(view, made.token, hmac=base64.b64encode(made.hmac).decode())
    return answer(shown, made.offset, 201, headers=located(shown["metadata"]["self"]))


async def _planned_end(services: Services, hmac: str, period_ms: int | None) -> Response:
    """Answer a dry run. Only the controllers can tell whose HMAC it is, and they have no dry run."""
    await services.actions.delegation_tokens.check(hmac=read_hmac(hmac))
    return dry_answer([("delegation token", None, {"period_ms": period_ms})], [_HMAC_UNKNOWN])


@router.post("/delegation-tokens:renew", responses={200: {"model": TokenEndData | DryRunData}})
async def renew_delegation_token(
    body: RenewDelegationTokenBody, _view: ViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Renew a token, never beyond its last moment."""
    if validate_only:
        return await _planned_end(services, body.hmac, body.renew_period_ms)
    period_ms = DEFAULT_PERIOD if body.renew_period_ms is None else body.renew_period_ms
    offset, end = await services.actions.delegation_tokens.renew(caller, read_hmac(body.hmac), period_ms)
    return answer({"expiry_timestamp": end}, offset)


@router.post("/delegation-tokens:expire", responses={200: {"model": TokenEndData | DryRunData}})
async def expire_delegation_token(
    body: ExpireDelegationTokenBody, _view: ViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """End a token, at once or in a while."""
    if validate_only:
        return await _planned_end(services, body.hmac, body.expiry_period_ms)
    period_ms = AT_ONCE if body.expiry_period_ms is None else body.expiry_period_ms
    offset, end = await services.actions.delegation_tokens.expire(caller, read_hmac(body.hmac), period_ms)
    return answer({"expiry_timestamp": end}, offset)
