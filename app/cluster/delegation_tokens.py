"""Delegation tokens (KIP-48): made, renewed and ended. What is told of them stands in the image, their HMACs do not."""

import base64
import binascii

import msgspec

from app.cluster.changes import Changes, raise_for
from kraft_core.image.metadata_image import DelegationToken
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenRequestCreatableRenewers,
    CreateDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kraft_core.protocol.metadata_records import DelegationTokenRecord, RemoveDelegationTokenRecord

AT_ONCE = -1
"""An expiry period that ends a token now."""
HMAC_BYTES = 64
DEFAULT_PERIOD = -1
"""A lifetime or a renewal as the controllers' settings have it."""


class CreatedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A new token and what its holder shows, which is told this once."""

    token: DelegationToken
    hmac: bytes
    offset: int

    def __repr__(self) -> str:
        """Keep the token out of logs and tracebacks."""
        return "CreatedToken([hidden])"


def read_hmac(text: str) -> bytes:
    """Read an HMAC in Base64. Raises KafkaError INVALID_REQUEST, which does not repeat it."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The HMAC is not Base64.") from None


def split_principal(text: str) -> tuple[str, str] | None:
    """(type, name) of "User:alice"; None for what has not both."""
    kind, _, name = text.partition(":")
    return (kind, name) if kind and name else None


def _principal(text: str) -> tuple[str, str]:
    """(type, name) of "User:alice". Raises KafkaError INVALID_REQUEST."""
    found = split_principal(text)
    if found is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"'{text}' is no principal such as User:alice.")
    return found


class DelegationTokenAdmin(Changes):
    """Changes of delegation tokens.

    All raise KafkaError DELEGATION_TOKEN_REQUEST_NOT_ALLOWED where this process does not log in to the controllers,
    DELEGATION_TOKEN_AUTH_DISABLED where these have no delegation.token.secret.key.
    """

    async def create(self, owner: str | None, renewers: tuple[str, ...], max_lifetime_ms: int) -> CreatedToken:
        """Make a token for `owner`, or for the user that this process is; principals are "User:name".

        Raises KafkaError INVALID_REQUEST, INVALID_PRINCIPAL_TYPE, DELEGATION_TOKEN_AUTHORIZATION_FAILED.
        """
        owner_type, owner_name = (None, None) if owner is None else _principal(owner)
        request = CreateDelegationTokenRequest(
            owner_principal_type=owner_type,
            owner_principal_name=owner_name,
            renewers=tuple(
                CreateDelegationTokenRequestCreatableRenewers(principal_type=kind, principal_name=name)
                for kind, name in map(_principal, renewers)
            ),
            max_lifetime_ms=max_lifetime_ms,
        )
        before = self._history.newest_offset
        answer = await self._ask(request, CreateDelegationTokenResponse)
        raise_for(answer.error_code, None)
        offset = await self._committed(
            before,
            lambda record: isinstance(record, DelegationTokenRecord) and record.token_id == answer.token_id,
        )
        token = DelegationToken(
            token_id=answer.token_id,
            owner=f"{answer.principal_type}:{answer.principal_name}",
            requester=f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}",
            renewers=renewers,
            issue_timestamp=answer.issue_timestamp_ms,
            max_timestamp=answer.max_timestamp_ms,
            expiration_timestamp=answer.expiry_timestamp_ms,
        )
        return CreatedToken(token=token, hmac=answer.hmac, offset=offset)

    async def check(self, hmac: bytes | None = None, owner: str | None = None, renewers: tuple[str, ...] = ()) -> None:
        """Raise what a change would be refused for, as far as that shows without the token's key.

        A renewal of a token that cannot exist tells whether there are tokens at all, and changes nothing. Raises
        KafkaError INVALID_REQUEST for what is no principal, INVALID_PRINCIPAL_TYPE for one that is no user,
        DELEGATION_TOKEN_NOT_FOUND while there is no token that `hmac` could be of.
        """
        if owner is not None:
            _principal(owner)
        if any(kind != "User" for kind, _ in map(_principal, renewers)):
            raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
        probe = RenewDelegationTokenRequest(hmac=b"", renew_period_ms=DEFAULT_PERIOD)
        answer = await self._ask(probe, RenewDelegationTokenResponse)
        if answer.error_code != ErrorCode.DELEGATION_TOKEN_NOT_FOUND:
            raise_for(answer.error_code, None)
        if hmac is not None and (len(hmac) != HMAC_BYTES or not self._observer.image.delegation_tokens):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)

    async def renew(self, hmac: bytes, period_ms: int) -> tuple[int, int]:
        """Put a token's end off; returns the offset and the new end in ms since 1970.

        Raises KafkaError DELEGATION_TOKEN_NOT_FOUND, _EXPIRED, _OWNER_MISMATCH.
        """
        before = self._history.newest_offset
        answer = await self._ask(
            RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), RenewDelegationTokenResponse
        )
        raise_for(answer.error_code, None)
        offset = await self._committed(before, lambda record: isinstance(record, DelegationTokenRecord))
        return offset, answer.expiry_timestamp_ms

    async def expire(self, hmac: bytes, period_ms: int) -> tuple[int, int]:
        """Set when a token ends, AT_ONCE or in so many ms; returns as `renew` does, and raises the same."""
        before = self._history.newest_offset
        answer = await self._ask(
            ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms), ExpireDelegationTokenResponse
        )
        raise_for(answer.error_code, None)
        offset = await self._committed(
            before, lambda record: isinstance(record, DelegationTokenRecord | RemoveDelegationTokenRecord)
        )
        return offset, answer.expiry_timestamp_ms
