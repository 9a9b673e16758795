"""Delegation tokens (KIP-48): created, renewed and expired. The image has their properties, but not their HMACs."""

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
"""An expiry period that expires a token now."""
HMAC_BYTES = 64
DEFAULT_PERIOD = -1
"""A lifetime or a renewal period as the controllers' settings define it."""


class CreatedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A new token with its HMAC, which is shown only once."""

    token: DelegationToken
    hmac: bytes
    offset: int

    def __repr__(self) -> str:
        """Keep the HMAC out of logs and tracebacks."""
        return "CreatedToken([hidden])"


def read_hmac(text: str) -> bytes:
    """Return the bytes of an HMAC in Base64. Raises KafkaError INVALID_REQUEST, without the text in its message."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The HMAC is not valid Base64.") from None


def split_principal(text: str) -> tuple[str, str] | None:
    """Return (type, name) of a principal such as "User:alice", None when either is missing."""
    kind, _, name = text.partition(":")
    return (kind, name) if kind and name else None


def _principal(text: str) -> tuple[str, str]:
    """Return (type, name) of a principal such as "User:alice". Raises KafkaError INVALID_REQUEST."""
    found = split_principal(text)
    if found is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"'{text}' is not a principal such as User:alice.")
    return found


class DelegationTokenAdmin(Changes):
    """Changes of delegation tokens.

    All raise KafkaError DELEGATION_TOKEN_REQUEST_NOT_ALLOWED when this process does not authenticate to the
    controllers, and DELEGATION_TOKEN_AUTH_DISABLED when they have no delegation.token.secret.key.
    """

    async def create(self, owner: str | None, renewers: tuple[str, ...], max_lifetime_ms: int) -> CreatedToken:
        """Create a token for `owner`, or for this process's own user when None. Principals are "User:name".

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
        """Raise the error of a change, as far as it can be found without the token's key.

        Renews a token that cannot exist, which changes nothing and shows whether delegation tokens are enabled. Raises
        KafkaError INVALID_REQUEST for text that is not a principal, INVALID_PRINCIPAL_TYPE for a principal that is not
        a user, DELEGATION_TOKEN_NOT_FOUND when no token can have this `hmac`.
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
        """Extend a token's expiry. Returns the offset and the new expiry in ms since 1970.

        Raises KafkaError DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH.
        """
        before = self._history.newest_offset
        answer = await self._ask(
            RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), RenewDelegationTokenResponse
        )
        raise_for(answer.error_code, None)
        offset = await self._committed(before, lambda record: isinstance(record, DelegationTokenRecord))
        return offset, answer.expiry_timestamp_ms

    async def expire(self, hmac: bytes, period_ms: int) -> tuple[int, int]:
        """Set a token's expiry to `period_ms` from now, or AT_ONCE. Returns and raises as `renew` does."""
        before = self._history.newest_offset
        answer = await self._ask(
            ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms), ExpireDelegationTokenResponse
        )
        raise_for(answer.error_code, None)
        offset = await self._committed(
            before, lambda record: isinstance(record, DelegationTokenRecord | RemoveDelegationTokenRecord)
        )
        return offset, answer.expiry_timestamp_ms
