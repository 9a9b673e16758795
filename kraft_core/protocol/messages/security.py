"""SASL, and requests forwarded in a principal's name (KIP-43, 368, 590).

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated

from kraft_core.protocol.wire import Message, wire


class SaslHandshakeRequest(Message):
    """Choose a SASL mechanism; apiKey 17, v0-1. Source: SaslHandshakeRequest.json."""

    API_KEY = 17
    VERSIONS = (0, 1)

    mechanism: Annotated[str, wire("string")] = ""


class SaslHandshakeResponse(Message):
    """The mechanisms of the server; apiKey 17, v0-1. Source: SaslHandshakeResponse.json."""

    API_KEY = 17
    VERSIONS = (0, 1)

    error_code: Annotated[int, wire("int16")] = 0
    mechanisms: Annotated[tuple[str, ...], wire("[]string")] = ()


class SaslAuthenticateRequest(Message):
    """Carry SASL bytes to the server; apiKey 36, v0-2. Source: SaslAuthenticateRequest.json."""

    API_KEY = 36
    VERSIONS = (0, 2)
    FLEXIBLE = 2

    auth_bytes: Annotated[bytes, wire("bytes")] = b""


class SaslAuthenticateResponse(Message):
    """Carry SASL bytes to the client; apiKey 36, v0-2. Source: SaslAuthenticateResponse.json."""

    API_KEY = 36
    VERSIONS = (0, 2)
    FLEXIBLE = 2

    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""
    auth_bytes: Annotated[bytes, wire("bytes")] = b""
    session_lifetime_ms: Annotated[int, wire("int64", since=1, ignorable=True)] = 0


class EnvelopeRequest(Message):
    """Carry a client's request from a broker to the controller; apiKey 58, v0. Source: EnvelopeRequest.json."""

    API_KEY = 58
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    request_data: Annotated[bytes, wire("bytes")] = b""
    request_principal: Annotated[bytes | None, wire("bytes", nullable_since=0)] = b""
    client_host_address: Annotated[bytes, wire("bytes")] = b""


class EnvelopeResponse(Message):
    """Carry the controller's answer back; apiKey 58, v0. Source: EnvelopeResponse.json."""

    API_KEY = 58
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    response_data: Annotated[bytes | None, wire("bytes", nullable_since=0)] = None
    error_code: Annotated[int, wire("int16")] = 0


class DefaultPrincipalData(Message):
    """A principal inside an Envelope, behind an int16 version; v0. Source: DefaultPrincipalData.json."""

    VERSIONS = (0, 0)
    FLEXIBLE = 0

    type: Annotated[str, wire("string")] = ""
    name: Annotated[str, wire("string")] = ""
    token_authenticated: Annotated[bool, wire("bool")] = False
