"""Delegation tokens (KIP-48): made for an owner, renewed by its renewers, gone when their time is over.

The log holds who and until when. What a client shows is the token's HMAC under delegation.token.secret.key, which every
node can work out from the id and none stores. Without that key there are no tokens.

Source: DelegationTokenControlManager, DelegationTokenManager, ControllerApis, Kafka 4.3.1.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

import msgspec

from kraft_core.controller.controller_request_context import ANONYMOUS
from kraft_core.controller.controller_result import ControllerResult
from kraft_core.image.metadata_image import DelegationToken
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenResponse,
)
from kraft_core.protocol.metadata_records import DelegationTokenRecord, RemoveDelegationTokenRecord
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
    """Say whether tokens may be asked for on this connection: one that shows who the client is, and not by a token.

    A broker's envelope is believed, as in Kafka.
    """
    if context.token_authenticated:
        return False
    if context.forwarded:
        return True
    is_anonymous_ssl = context.security_protocol == SecurityProtocol.SSL and context.principal == ANONYMOUS
    return context.security_protocol != SecurityProtocol.PLAINTEXT and not is_anonymous_ssl


def token_owner(request: CreateDelegationTokenRequest, context: ControllerRequestContext) -> str:
    """Return the principal that a new token is for: the one named (KIP-373), else the one who asks."""
    if not request.owner_principal_name:
        return context.principal
    return f"{request.owner_principal_type}:{request.owner_principal_name}"


def token_hmac(secret_key: str, token_id: str) -> bytes:
    """Return what the holder of a token shows: 64 bytes. Source: DelegationTokenManager.createHmac."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


def refused(
    request: CreateDelegationTokenRequest | RenewDelegationTokenRequest | ExpireDelegationTokenRequest,
    context: ControllerRequestContext,
    code: ErrorCode,
) -> CreateDelegationTokenResponse | RenewDelegationTokenResponse | ExpireDelegationTokenResponse:
    """Answer a request that does not get as far as the controller; every timestamp is -1."""
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
    """Makes, renews and ends tokens. It keeps nothing but HMACs, which follow from ids and the key."""

    def __init__(self, config: ControllerConfig, random: Random) -> None:
        self._secret_key = config.delegation_token_secret_key or ""
        self._max_lifetime_ms = config.delegation_token_max_lifetime_ms
        self._expiry_time_ms = config.delegation_token_expiry_time_ms
        self._random = random
        self._ids_by_hmac: dict[bytes, str] = {}

    @property
    def is_enabled(self) -> bool:
        """Whether there is a key to make tokens with."""
        return bool(self._secret_key)

    def hmac_of(self, token_id: str) -> bytes:
        """Return what the holder of a token shows."""
        return token_hmac(self._secret_key, token_id)

    def create(
        self,
        image: MetadataImage,
        request: CreateDelegationTokenRequest,
        context: ControllerRequestContext,
        now_ms: int,
    ) -> ControllerResult[CreateDelegationTokenResponse]:
        """Make a token for the owner; whether the asker may is checked before.

        It lasts as long as asked, at most delegation.token.max.lifetime.ms, and must be renewed within
        delegation.token.expiry.time.ms. Errors: DELEGATION_TOKEN_AUTH_DISABLED, UNSUPPORTED_VERSION below
        metadata.version 14, INVALID_PRINCIPAL_TYPE for a renewer who is no user.
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
        """Put off a token's end, by the time asked or delegation.token.expiry.time.ms, never beyond its last moment.

        Errors: those of `create`, DELEGATION_TOKEN_NOT_FOUND, _EXPIRED, _OWNER_MISMATCH for one who is neither owner
        nor renewer.
        """
        try:
            token = self._held_token(image, request.hmac)
            if _is_over(token, now_ms):
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
        """End a token at once (a period below 0), or set when it ends. Errors as for `renew`."""
        try:
            token = self._held_token(image, request.hmac)
            _check_may_renew(token, context.principal)
            if request.expiry_time_period_ms >= 0 and _is_over(token, now_ms):
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
        """Remove tokens whose time is over, up to 1,000 at once; True when there may be more."""
        over = sorted(each.token_id for each in image.delegation_tokens.values() if _is_over(each, now_ms))
        records = [RemoveDelegationTokenRecord(token_id=token_id) for token_id in over[:_EXPIRED_PER_SWEEP]]
        return ControllerResult(records, len(over) >= _EXPIRED_PER_SWEEP)

    def _check_available(self, image: MetadataImage) -> None:
        if not self.is_enabled:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        if not is_delegation_token_supported(image.features.metadata_version or 0):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)

    def _held_token(self, image: MetadataImage, shown: bytes) -> DelegationToken:
        """Find the token that has this HMAC. Raises KafkaError also when there can be no tokens."""
        self._check_available(image)
        tokens = image.delegation_tokens
        known = set(self._ids_by_hmac.values())
        if len(known) != len(tokens) or any(token_id not in known for token_id in tokens):
            self._ids_by_hmac = {self.hmac_of(token_id): token_id for token_id in tokens}
        token_id = self._ids_by_hmac.get(shown)
        if token_id is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return tokens[token_id]


def token_record(token: DelegationToken) -> DelegationTokenRecord:
    """Say a token as a record."""
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=token.renewers,
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=token.expiration_timestamp,
        token_id=token.token_id,
    )


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


def _is_over(token: DelegationToken, now_ms: int) -> bool:
    return token.max_timestamp < now_ms or token.expiration_timestamp < now_ms


def _check_may_renew(token: DelegationToken, principal: str) -> None:
    if principal != token.owner and principal not in token.renewers:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
