"""SCRAM credentials (KIP-554).

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated

from kraft_core.protocol.wire import Message, wire


class DescribeUserScramCredentialsRequestUserName(Message):
    """An element of DescribeUserScramCredentialsRequest.users."""

    name: Annotated[str, wire("string")] = ""


class DescribeUserScramCredentialsRequest(Message):
    """Ask which SCRAM credentials users have; apiKey 50, v0. Source: DescribeUserScramCredentialsRequest.json."""

    API_KEY = 50
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    users: Annotated[
        tuple[DescribeUserScramCredentialsRequestUserName, ...] | None, wire("[]UserName", nullable_since=0)
    ] = ()


class DescribeUserScramCredentialsResponseCredentialInfo(Message):
    """An element of DescribeUserScramCredentialsResponse.results[].credential_infos."""

    mechanism: Annotated[int, wire("int8")] = 0
    iterations: Annotated[int, wire("int32")] = 0


class DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult(Message):
    """An element of DescribeUserScramCredentialsResponse.results."""

    user: Annotated[str, wire("string")] = ""
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""
    credential_infos: Annotated[
        tuple[DescribeUserScramCredentialsResponseCredentialInfo, ...], wire("[]CredentialInfo")
    ] = ()


class DescribeUserScramCredentialsResponse(Message):
    """Mechanisms and iterations by user; apiKey 50, v0. Source: DescribeUserScramCredentialsResponse.json."""

    API_KEY = 50
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""
    results: Annotated[
        tuple[DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult, ...],
        wire("[]DescribeUserScramCredentialsResult"),
    ] = ()


class AlterUserScramCredentialsRequestScramCredentialDeletion(Message):
    """An element of AlterUserScramCredentialsRequest.deletions."""

    name: Annotated[str, wire("string")] = ""
    mechanism: Annotated[int, wire("int8")] = 0


class AlterUserScramCredentialsRequestScramCredentialUpsertion(Message):
    """An element of AlterUserScramCredentialsRequest.upsertions."""

    name: Annotated[str, wire("string")] = ""
    mechanism: Annotated[int, wire("int8")] = 0
    iterations: Annotated[int, wire("int32")] = 0
    salt: Annotated[bytes, wire("bytes")] = b""
    salted_password: Annotated[bytes, wire("bytes")] = b""


class AlterUserScramCredentialsRequest(Message):
    """Set or delete SCRAM credentials; apiKey 51, v0. Source: AlterUserScramCredentialsRequest.json."""

    API_KEY = 51
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    deletions: Annotated[
        tuple[AlterUserScramCredentialsRequestScramCredentialDeletion, ...], wire("[]ScramCredentialDeletion")
    ] = ()
    upsertions: Annotated[
        tuple[AlterUserScramCredentialsRequestScramCredentialUpsertion, ...], wire("[]ScramCredentialUpsertion")
    ] = ()


class AlterUserScramCredentialsResponseAlterUserScramCredentialsResult(Message):
    """An element of AlterUserScramCredentialsResponse.results."""

    user: Annotated[str, wire("string")] = ""
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""


class AlterUserScramCredentialsResponse(Message):
    """The users changed, one by one; apiKey 51, v0. Source: AlterUserScramCredentialsResponse.json."""

    API_KEY = 51
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    results: Annotated[
        tuple[AlterUserScramCredentialsResponseAlterUserScramCredentialsResult, ...],
        wire("[]AlterUserScramCredentialsResult"),
    ] = ()
