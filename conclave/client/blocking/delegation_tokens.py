"""Methods about delegation tokens. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from conclave.client.calls import Call
from conclave.client.methods import Methods
from conclave.client.models.delegation_tokens import (
    CreatedDelegationTokenData,
    DelegationTokenData,
    DelegationTokenDataList,
    TokenEndData,
)
from conclave.client.models.shared import DryRunData
from conclave.client.pages import Pages


class DelegationTokensMethods(Methods):
    """Methods about delegation tokens."""

    def list_delegation_tokens(
        self, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> Pages[DelegationTokenDataList, DelegationTokenData]:
        """List the tokens by id, without their HMACs."""
        return Pages(
            self._send,
            Call[DelegationTokenDataList](
                "GET",
                "/v3/clusters/{cluster_id}/delegation-tokens",
                {200: DelegationTokenDataList},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def create_delegation_token(
        self,
        *,
        owner: str | UnsetType | None = UNSET,
        renewers: Sequence[str] | UnsetType = UNSET,
        max_lifetime_ms: int | UnsetType | None = UNSET,
        validate_only: bool = False,
    ) -> DryRunData | CreatedDelegationTokenData:
        """Create a token. `hmac`, which its holder logs in with, is in this answer only."""
        return self._send(
            Call[DryRunData | CreatedDelegationTokenData](
                "POST",
                "/v3/clusters/{cluster_id}/delegation-tokens",
                {200: DryRunData, 201: CreatedDelegationTokenData},
                query={"validate_only": validate_only},
                body={"owner": owner, "renewers": renewers, "max_lifetime_ms": max_lifetime_ms},
            )
        )

    def get_delegation_token(
        self, token_id: str, *, at_offset: int | None = None, at: str | None = None
    ) -> DelegationTokenData:
        """Describe one token."""
        return self._send(
            Call[DelegationTokenData](
                "GET",
                "/v3/clusters/{cluster_id}/delegation-tokens/{token_id}",
                {200: DelegationTokenData},
                path={"token_id": token_id},
                query={"at_offset": at_offset, "at": at},
                waits_for_offset=True,
            )
        )

    def renew_delegation_token(
        self, *, hmac: str, renew_period_ms: int | UnsetType | None = UNSET, validate_only: bool = False
    ) -> TokenEndData | DryRunData:
        """Extend a token's expiry, at most to its `max_timestamp`."""
        return self._send(
            Call[TokenEndData | DryRunData](
                "POST",
                "/v3/clusters/{cluster_id}/delegation-tokens:renew",
                {200: TokenEndData | DryRunData},
                query={"validate_only": validate_only},
                body={"hmac": hmac, "renew_period_ms": renew_period_ms},
            )
        )

    def expire_delegation_token(
        self, *, hmac: str, expiry_period_ms: int | UnsetType | None = UNSET, validate_only: bool = False
    ) -> TokenEndData | DryRunData:
        """Expire a token, at once or after a period."""
        return self._send(
            Call[TokenEndData | DryRunData](
                "POST",
                "/v3/clusters/{cluster_id}/delegation-tokens:expire",
                {200: TokenEndData | DryRunData},
                query={"validate_only": validate_only},
                body={"hmac": hmac, "expiry_period_ms": expiry_period_ms},
            )
        )
