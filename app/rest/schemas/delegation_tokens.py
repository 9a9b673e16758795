"""Bodies and answers about delegation tokens."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from app.rest.schemas.base import Answer, ChangeBody, ListOf, Resource

PrincipalName = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
Hmac = Annotated[str, StringConstraints(max_length=1_000)]
PeriodMs = Annotated[int, Field(ge=1, le=2**63 - 1)]


class CreateDelegationTokenBody(ChangeBody):
    """A new token. Without `owner` it belongs to the user that this process logs in as. Principals are `User:name`."""

    owner: PrincipalName | None = None
    renewers: Annotated[tuple[PrincipalName, ...], Field(max_length=100, strict=False)] = ()
    max_lifetime_ms: PeriodMs | None = None


class RenewDelegationTokenBody(ChangeBody):
    """The token's HMAC in Base64. `renew_period_ms` counts from now and defaults to the controllers' config."""

    hmac: Hmac
    renew_period_ms: PeriodMs | None = None


class ExpireDelegationTokenBody(ChangeBody):
    """The token's HMAC in Base64. Without `expiry_period_ms` the token expires at once."""

    hmac: Hmac
    expiry_period_ms: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None


class DelegationTokenData(Resource):
    """A delegation token. Times are in ms since 1970."""

    kind: Literal["KafkaDelegationToken"]
    token_id: str
    owner: str
    requester: str
    renewers: list[str]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int


class DelegationTokenDataList(ListOf[DelegationTokenData]):
    """Delegation tokens."""

    kind: Literal["KafkaDelegationTokenList"]


class CreatedDelegationTokenData(DelegationTokenData):
    """A new delegation token with its HMAC in Base64, which is in no other answer."""

    hmac: str


class TokenEndData(Answer):
    """A token's new expiry, in ms since 1970."""

    expiry_timestamp: int
