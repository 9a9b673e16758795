"""Models of delegation tokens. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from conclave.client.models.shared import ListMetadata, Metadata
from conclave.client.structs import Answer


class CreatedDelegationTokenData(Answer, frozen=True, kw_only=True):
    """A new delegation token with its HMAC in Base64, which is in no other answer."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    token_id: str
    owner: str
    requester: str
    renewers: list[str]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int
    hmac: str


class DelegationTokenData(Answer, frozen=True, kw_only=True):
    """A delegation token. Times are in ms since 1970."""

    validated: bool | None = None
    metadata: Metadata
    cluster_id: str
    kind: str
    token_id: str
    owner: str
    requester: str
    renewers: list[str]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int


class DelegationTokenDataList(Answer, frozen=True, kw_only=True):
    """Delegation tokens."""

    metadata: ListMetadata
    data: list[DelegationTokenData]
    kind: str


class TokenEndData(Answer, frozen=True, kw_only=True):
    """A token's new expiry, in ms since 1970."""

    expiry_timestamp: int
