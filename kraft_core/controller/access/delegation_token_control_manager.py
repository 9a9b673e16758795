"""Delegation tokens (KIP-48): created for an owner, extended by its renewers, removed when expired.

The log holds a token's owner, renewers and timestamps. A client authenticates with the token's HMAC under
delegation.token.secret.key, which every node computes from the token id and none stores. Without that key there are no
tokens.

Source: DelegationTokenControlManager, DelegationTokenManager, ControllerApis, Kafka 4.3.1.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

import msgspec

from kraft_core.controller.controller_request_context import ANONYMOUS
from kraft_core.controller.controller_result import ControllerResult
from kraft_core.image.image_writer import token_record
from kraft_core.image.metadata_image import DelegationToken
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenResponse,
)
from kraft_core.protocol.metadata_records import RemoveDelegationTokenRecord
from kraft_core.protocol.metadata_version import is_delegation_token_supported
from kraft_core.protocol.security_protocol import SecurityProtocol
from kraft_core.protocol.uuids import random_uuid, uuid_to_text

if TYPE_CHECKING:
    from random import Random

    from kraft_core.controller.controller_config import ControllerConfig
    from kraft_core.controller.controller_request_context import ControllerRequestContext
    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.protocol.messages import RenewDelegationTokenRequest

USER_TYPE: Final = "User"
ERROR_TIMESTAMP_MS: Final = -1
_INT64_MAX: Final = 2**63 - 1
_EXPIRED_PER_SWEEP: Final = 1000


def allows_token_requests(context: ControllerRequestContext) -> bool:
    """Report whether the connection may send token requests: its client is authenticated, and not by a token.

    A forwarded request is always accepted, as in Kafka: the broker has checked its own connection.
    """
    if context.token_authenticated:
        return False
    if context.forwarded:
        return True
    is_anonymous_ssl = context.security_protocol == SecurityProtocol.SSL and context.principal == ANONYMOUS
    return context.security_protocol != SecurityProtocol.PLAINTEXT and not is_anonymous_ssl


def token_owner(request: CreateDelegationTokenRequest, context: ControllerRequestContext) -> str:
    """Return the owner of a new token: the named principal (KIP-373), else the sender."""
    if not request.owner_principal_name:
        return context.principal
    return f"{request.owner_principal_type}:{request.owner_principal_name}"


def token_hmac(secret_key: str, token_id: str) -> bytes:
    """Return the HMAC that a token's client authenticates with: 64 bytes. Source: DelegationTokenManager.createHmac."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


def refused(
    request: CreateDelegationTokenRequest | RenewDelegationTokenRequest | ExpireDelegationTokenRequest,
    context: ControllerRequestContext,
    code: ErrorCode,
) -> CreateDelegationTokenResponse | RenewDelegationTokenResponse | ExpireDelegationTokenResponse:
    """Return the response to a request that is refused before it is queued; every timestamp is -1."""
    if isinstance(request, CreateDelegationTokenRequest):
        return _created(
            token_owner(request, context),
            context.principal,
            error_code=code,
            issue_timestamp_ms=ERROR_TIMESTAMP_MS,
            expiry_timestamp_ms=ERROR_TIMESTAMP_MS,
            max_timestamp_ms=ERROR_TIMESTAMP_MS,
        )
    is_expiry = isinstance(request, ExpireDelegationTokenRequest)
    response = ExpireDelegationTokenResponse if is_expiry else RenewDelegationTokenResponse
    return response(error_code=code, expiry_timestamp_ms=ERROR_TIMESTAMP_MS)


class DelegationTokenControlManager:
    """Creates, renews and expires tokens. It keeps only HMACs, which follow from the ids and the key."""

    def __init__(self, config: ControllerConfig, random: Random) -> None:
        self._secret_key = config.delegation_token_secret_key or ""
        self._max_lifetime_ms = config.delegation_token_max_lifetime_ms
        self._expiry_time_ms = config.delegation_token_expiry_time_ms
        self._random = random
        self._ids_by_hmac: dict[bytes, str] = {}

    @property
    def is_enabled(self) -> bool:
        """Whether delegation.token.secret.key is set."""
        return bool(self._secret_key)

    def hmac_of(self, token_id: str) -> bytes:
        """Return the HMAC that the token's client authenticates with."""
        return token_hmac(self._secret_key, token_id)

    def create(
        self,
        image: MetadataImage,
        request: CreateDelegationTokenRequest,
        context: ControllerRequestContext,
        now_ms: int,
    ) -> ControllerResult[CreateDelegationTokenResponse]:
        """Create a token for the owner. The sender's right to do so is checked before.

        It expires after delegation.token.expiry.time.ms unless it is renewed, and finally after the requested lifetime,
        at most delegation.token.max.lifetime.ms. Errors: DELEGATION_TOKEN_AUTH_DISABLED, UNSUPPORTED_VERSION below
        metadata.version 14, INVALID_PRINCIPAL_TYPE for a renewer that is not a user.
        """
        owner = token_owner(request, context)
        try:
            self._check_available(image)
            if any(renewer.principal_type != USER_TYPE for renewer in request.renewers):
                raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
        except KafkaError as error:
            return ControllerResult((), _created(owner, context.principal, error_code=error.code))
        lifetime_ms = self._max_lifetime_ms
        if request.max_lifetime_ms > 0:
            lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
        max_timestamp = min(_INT64_MAX, now_ms + lifetime_ms)
        token = DelegationToken(
            token_id=uuid_to_text(random_uuid(self._random)),
            owner=owner,
            requester=context.principal,
            renewers=tuple(f"{each.principal_type}:{each.principal_name}" for each in request.renewers),
            issue_timestamp=now_ms,
            max_timestamp=max_timestamp,
            expiration_timestamp=min(max_timestamp, now_ms + self._expiry_time_ms),
        )
        response = _created(
            owner,
            context.principal,
            issue_timestamp_ms=now_ms,
            expiry_timestamp_ms=token.expiration_timestamp,
            max_timestamp_ms=max_timestamp,
            token_id=token.token_id,
            hmac=self.hmac_of(token.token_id),
        )
        return ControllerResult.atomic_of([token_record(token)], response)

    def renew(
        self, image: MetadataImage, request: RenewDelegationTokenRequest, context: ControllerRequestContext, now_ms: int
    ) -> ControllerResult[RenewDelegationTokenResponse]:
        """Extend the token's expiry by the requested period, at most delegation.token.expiry.time.ms.

        The expiry never exceeds the token's maximum timestamp. Errors: those of `create`, DELEGATION_TOKEN_NOT_FOUND,
        _EXPIRED, _OWNER_MISMATCH for a sender that is neither owner nor renewer.
        """
        try:
            token = self._token_by_hmac(image, request.hmac)
            if _is_expired(token, now_ms):
                raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
            _check_may_renew(token, context.principal)
        except KafkaError as error:
            return ControllerResult((), RenewDelegationTokenResponse(error_code=error.code))
        period_ms = self._expiry_time_ms
        if request.renew_period_ms > 0:
            period_ms = min(period_ms, request.renew_period_ms)
        expiry = min(token.max_timestamp, now_ms + period_ms)
        record = token_record(msgspec.structs.replace(token, expiration_timestamp=expiry))
        return ControllerResult.atomic_of([record], RenewDelegationTokenResponse(expiry_timestamp_ms=expiry))

    def expire(
        self,
        image: MetadataImage,
        request: ExpireDelegationTokenRequest,
        context: ControllerRequestContext,
        now_ms: int,
    ) -> ControllerResult[ExpireDelegationTokenResponse]:
        """Expire a token immediately (a period below 0), or set its expiry. Errors as for `renew`."""
        try:
            token = self._token_by_hmac(image, request.hmac)
            _check_may_renew(token, context.principal)
            if request.expiry_time_period_ms >= 0 and _is_expired(token, now_ms):
                raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        except KafkaError as error:
            return ControllerResult((), ExpireDelegationTokenResponse(error_code=error.code))
        if request.expiry_time_period_ms < 0:
            gone = RemoveDelegationTokenRecord(token_id=token.token_id)
            return ControllerResult.atomic_of([gone], ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms))
        expiry = min(token.max_timestamp, now_ms + request.expiry_time_period_ms)
        record = token_record(msgspec.structs.replace(token, expiration_timestamp=expiry))
        return ControllerResult.atomic_of([record], ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry))

    def sweep_expired(self, image: MetadataImage, now_ms: int) -> ControllerResult[bool]:
        """Remove expired tokens, up to 1,000 at once; the response is True when more may have expired."""
        over = sorted(each.token_id for each in image.delegation_tokens.values() if _is_expired(each, now_ms))
        records = [RemoveDelegationTokenRecord(token_id=token_id) for token_id in over[:_EXPIRED_PER_SWEEP]]
        return ControllerResult(records, len(over) >= _EXPIRED_PER_SWEEP)

    def _check_available(self, image: MetadataImage) -> None:
        if not self.is_enabled:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        if not is_delegation_token_supported(image.features.metadata_version or 0):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)

    def _token_by_hmac(self, image: MetadataImage, token_hmac_bytes: bytes) -> DelegationToken:
        """Return the token with this HMAC. Raises KafkaError if there is none, or if tokens are not available."""
        self._check_available(image)
        tokens = image.delegation_tokens
        known = set(self._ids_by_hmac.values())
        if len(known) != len(tokens) or any(token_id not in known for token_id in tokens):
            self._ids_by_hmac = {self.hmac_of(token_id): token_id for token_id in tokens}
        token_id = self._ids_by_hmac.get(token_hmac_bytes)
        if token_id is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return tokens[token_id]


def _created(owner: str, requester: str, **fields: int | str | bytes) -> CreateDelegationTokenResponse:
    owner_type, _, owner_name = owner.partition(":")
    requester_type, _, requester_name = requester.partition(":")
    return msgspec.structs.replace(
        CreateDelegationTokenResponse(
            principal_type=owner_type,
            principal_name=owner_name,
            token_requester_principal_type=requester_type,
            token_requester_principal_name=requester_name,
        ),
        **fields,
    )


def _is_expired(token: DelegationToken, now_ms: int) -> bool:
    return token.max_timestamp < now_ms or token.expiration_timestamp < now_ms


def _check_may_renew(token: DelegationToken, principal: str) -> None:
    if principal != token.owner and principal not in token.renewers:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
