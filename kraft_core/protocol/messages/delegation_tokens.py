"""Delegation tokens (KIP-48).

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated

from kraft_core.protocol.wire import Message, wire


class CreateDelegationTokenRequestCreatableRenewers(Message):
    """An element of CreateDelegationTokenRequest.renewers."""

    principal_type: Annotated[str, wire("string")] = ""
    principal_name: Annotated[str, wire("string")] = ""


class CreateDelegationTokenRequest(Message):
    """Create a delegation token; apiKey 38, v1-3. Source: CreateDelegationTokenRequest.json."""

    API_KEY = 38
    VERSIONS = (1, 3)
    FLEXIBLE = 2

    owner_principal_type: Annotated[str | None, wire("string", since=3, nullable_since=3)] = ""
    owner_principal_name: Annotated[str | None, wire("string", since=3, nullable_since=3)] = ""
    renewers: Annotated[tuple[CreateDelegationTokenRequestCreatableRenewers, ...], wire("[]CreatableRenewers")] = ()
    max_lifetime_ms: Annotated[int, wire("int64")] = 0


class CreateDelegationTokenResponse(Message):
    """The new token; apiKey 38, v1-3. Source: CreateDelegationTokenResponse.json."""

    API_KEY = 38
    VERSIONS = (1, 3)
    FLEXIBLE = 2

    error_code: Annotated[int, wire("int16")] = 0
    principal_type: Annotated[str, wire("string")] = ""
    principal_name: Annotated[str, wire("string")] = ""
    token_requester_principal_type: Annotated[str, wire("string", since=3, ignorable=True)] = ""
    token_requester_principal_name: Annotated[str, wire("string", since=3, ignorable=True)] = ""
    issue_timestamp_ms: Annotated[int, wire("int64")] = 0
    expiry_timestamp_ms: Annotated[int, wire("int64")] = 0
    max_timestamp_ms: Annotated[int, wire("int64")] = 0
    token_id: Annotated[str, wire("string")] = ""
    hmac: Annotated[bytes, wire("bytes")] = b""
    throttle_time_ms: Annotated[int, wire("int32")] = 0


class RenewDelegationTokenRequest(Message):
    """Renew a delegation token; apiKey 39, v1-2. Source: RenewDelegationTokenRequest.json."""

    API_KEY = 39
    VERSIONS = (1, 2)
    FLEXIBLE = 2

    hmac: Annotated[bytes, wire("bytes")] = b""
    renew_period_ms: Annotated[int, wire("int64")] = 0


class RenewDelegationTokenResponse(Message):
    """When the token expires now; apiKey 39, v1-2. Source: RenewDelegationTokenResponse.json."""

    API_KEY = 39
    VERSIONS = (1, 2)
    FLEXIBLE = 2

    error_code: Annotated[int, wire("int16")] = 0
    expiry_timestamp_ms: Annotated[int, wire("int64")] = 0
    throttle_time_ms: Annotated[int, wire("int32")] = 0


class ExpireDelegationTokenRequest(Message):
    """Expire a delegation token; apiKey 40, v1-2. Source: ExpireDelegationTokenRequest.json."""

    API_KEY = 40
    VERSIONS = (1, 2)
    FLEXIBLE = 2

    hmac: Annotated[bytes, wire("bytes")] = b""
    expiry_time_period_ms: Annotated[int, wire("int64")] = 0


class ExpireDelegationTokenResponse(Message):
    """When the token expires now; apiKey 40, v1-2. Source: ExpireDelegationTokenResponse.json."""

    API_KEY = 40
    VERSIONS = (1, 2)
    FLEXIBLE = 2

    error_code: Annotated[int, wire("int16")] = 0
    expiry_timestamp_ms: Annotated[int, wire("int64")] = 0
    throttle_time_ms: Annotated[int, wire("int32")] = 0


class DescribeDelegationTokenRequestDescribeDelegationTokenOwner(Message):
    """An element of DescribeDelegationTokenRequest.owners."""

    principal_type: Annotated[str, wire("string")] = ""
    principal_name: Annotated[str, wire("string")] = ""


class DescribeDelegationTokenRequest(Message):
    """Ask for the tokens of owners; apiKey 41, v1-3. Source: DescribeDelegationTokenRequest.json."""

    API_KEY = 41
    VERSIONS = (1, 3)
    FLEXIBLE = 2

    owners: Annotated[
        tuple[DescribeDelegationTokenRequestDescribeDelegationTokenOwner, ...] | None,
        wire("[]DescribeDelegationTokenOwner", nullable_since=0),
    ] = ()


class DescribeDelegationTokenResponseDescribedDelegationTokenRenewer(Message):
    """An element of DescribeDelegationTokenResponse.tokens[].renewers."""

    principal_type: Annotated[str, wire("string")] = ""
    principal_name: Annotated[str, wire("string")] = ""


class DescribeDelegationTokenResponseDescribedDelegationToken(Message):
    """An element of DescribeDelegationTokenResponse.tokens."""

    principal_type: Annotated[str, wire("string")] = ""
    principal_name: Annotated[str, wire("string")] = ""
    token_requester_principal_type: Annotated[str, wire("string", since=3, ignorable=True)] = ""
    token_requester_principal_name: Annotated[str, wire("string", since=3, ignorable=True)] = ""
    issue_timestamp: Annotated[int, wire("int64")] = 0
    expiry_timestamp: Annotated[int, wire("int64")] = 0
    max_timestamp: Annotated[int, wire("int64")] = 0
    token_id: Annotated[str, wire("string")] = ""
    hmac: Annotated[bytes, wire("bytes")] = b""
    renewers: Annotated[
        tuple[DescribeDelegationTokenResponseDescribedDelegationTokenRenewer, ...],
        wire("[]DescribedDelegationTokenRenewer"),
    ] = ()


class DescribeDelegationTokenResponse(Message):
    """Delegation tokens; apiKey 41, v1-3. Source: DescribeDelegationTokenResponse.json."""

    API_KEY = 41
    VERSIONS = (1, 3)
    FLEXIBLE = 2

    error_code: Annotated[int, wire("int16")] = 0
    tokens: Annotated[
        tuple[DescribeDelegationTokenResponseDescribedDelegationToken, ...], wire("[]DescribedDelegationToken")
    ] = ()
    throttle_time_ms: Annotated[int, wire("int32")] = 0
