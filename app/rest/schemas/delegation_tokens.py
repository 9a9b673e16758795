"""Bodies and answers about delegation tokens."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from app.rest.schemas.base import Answer, ChangeBody, ListOf, Resource

PrincipalName = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
Hmac = Annotated[str, StringConstraints(max_length=1_000)]
PeriodMs = Annotated[int, Field(ge=1, le=2**63 - 1)]


class CreateDelegationTokenBody(ChangeBody):
    """Whom a token is for (absent: the user this process logs in as), who may renew it, how long it can last."""

    owner: PrincipalName | None = None
    renewers: Annotated[tuple[PrincipalName, ...], Field(max_length=100, strict=False)] = ()
    max_lifetime_ms: PeriodMs | None = None


class RenewDelegationTokenBody(ChangeBody):
    """The token's HMAC in Base64, and for how long it shall last from now; absent: as the controllers' setting says."""

    hmac: Hmac
    renew_period_ms: PeriodMs | None = None


class ExpireDelegationTokenBody(ChangeBody):
    """The token's HMAC in Base64, and in how long it shall end; absent: at once."""

    hmac: Hmac
    expiry_period_ms: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None


class DelegationTokenData(Resource):
    """A delegation token; times in ms since 1970. `hmac` is there in the answer that made the token, and nowhere else."""

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
    """A new delegation token."""

    hmac: str


class TokenEndData(Answer):
    """When a token ends, in ms since 1970."""

    expiry_timestamp: int
