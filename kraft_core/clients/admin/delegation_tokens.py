"""Admin's operations on delegation tokens. Source: KafkaAdminClient of Kafka 4.3.1; KIP-48, KIP-373."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from kraft_core.clients.admin.admin_call import CONTROLLER, AdminCalls, RequestContext, error_of, single
from kraft_core.protocol.errors import KafkaError, UnsupportedVersion
from kraft_core.protocol.messages import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenRequestCreatableRenewers,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenRequestDescribeDelegationTokenOwner,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

_FIRST_OWNER_VERSION = 3  # of CreateDelegationToken


class KafkaPrincipal(NamedTuple):
    """A principal's type, `User` as a rule, and name."""

    type: str
    name: str


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token. Times are ms since 1970. `hmac` is the secret that logs in."""

    token_id: str
    hmac: bytes = field(repr=False)
    owner: KafkaPrincipal
    requester: KafkaPrincipal
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int
    renewers: tuple[KafkaPrincipal, ...] = ()


class DelegationTokenCalls(AdminCalls):
    """Delegation tokens. All raise KafkaError: each changes one token."""

    async def create_delegation_token(
        self,
        *,
        renewers: Collection[KafkaPrincipal] = (),
        owner: KafkaPrincipal | None = None,
        max_lifetime_ms: int = -1,
    ) -> DelegationToken:
        """Create a token of the user, or of another owner (KIP-373); -1: as long as the brokers allow."""

        def build(context: RequestContext[None]) -> CreateDelegationTokenRequest:
            has_owner = context.version >= _FIRST_OWNER_VERSION
            if owner is not None and not has_owner:
                raise UnsupportedVersion("The broker creates tokens for the user who asks only.")
            return CreateDelegationTokenRequest(
                owner_principal_type=owner.type if owner else "",
                owner_principal_name=owner.name if owner else "",
                renewers=tuple(
                    CreateDelegationTokenRequestCreatableRenewers(principal_type=kind, principal_name=name)
                    for kind, name in renewers
                ),
                max_lifetime_ms=max_lifetime_ms,
            )

        def read(answer: CreateDelegationTokenResponse) -> DelegationToken | KafkaError:
            owned_by = KafkaPrincipal(answer.principal_type, answer.principal_name)
            requester = KafkaPrincipal(answer.token_requester_principal_type, answer.token_requester_principal_name)
            return error_of(answer.error_code) or DelegationToken(
                answer.token_id,
                answer.hmac,
                owned_by,
                requester if requester.name else owned_by,
                answer.issue_timestamp_ms,
                answer.expiry_timestamp_ms,
                answer.max_timestamp_ms,
                tuple(renewers),
            )

        return await self.run_single(single(CreateDelegationTokenRequest(), read, CONTROLLER, build=build))

    async def renew_delegation_token(self, hmac: bytes, *, renew_time_period_ms: int = -1) -> int:
        """Extend a token's expiry, and return it in ms since 1970; -1: by the brokers' usual period."""

        def read(answer: RenewDelegationTokenResponse) -> int | KafkaError:
            return error_of(answer.error_code) or answer.expiry_timestamp_ms

        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=renew_time_period_ms)
        return await self.run_single(single(request, read, CONTROLLER))

    async def expire_delegation_token(self, hmac: bytes, *, expiry_time_period_ms: int = -1) -> int:
        """Let a token expire after a period, and return when, in ms since 1970; -1: now."""

        def read(answer: ExpireDelegationTokenResponse) -> int | KafkaError:
            return error_of(answer.error_code) or answer.expiry_timestamp_ms

        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=expiry_time_period_ms)
        return await self.run_single(single(request, read, CONTROLLER))

    async def describe_delegation_token(
        self, owners: Collection[KafkaPrincipal] | None = None
    ) -> list[DelegationToken]:
        """Return the tokens of owners, or all that the user may see."""
        request = DescribeDelegationTokenRequest(
            owners=None
            if owners is None
            else tuple(
                DescribeDelegationTokenRequestDescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                for kind, name in owners
            )
        )

        def read(answer: DescribeDelegationTokenResponse) -> list[DelegationToken] | KafkaError:
            return error_of(answer.error_code) or [
                DelegationToken(
                    each.token_id,
                    each.hmac,
                    KafkaPrincipal(each.principal_type, each.principal_name),
                    KafkaPrincipal(each.token_requester_principal_type, each.token_requester_principal_name),
                    each.issue_timestamp,
                    each.expiry_timestamp,
                    each.max_timestamp,
                    tuple(KafkaPrincipal(renewer.principal_type, renewer.principal_name) for renewer in each.renewers),
                )
                for each in answer.tokens
            ]

        return await self.run_single(single(request, read))
