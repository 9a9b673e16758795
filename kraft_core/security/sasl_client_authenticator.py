"""The client's side of Kafka's SASL login as a state machine: requests out, answers in, no I/O.

    request = login.first_request()
    while request is not None:
        request = login.received(await send(request, login.version_of(request)))

Source: SaslClientAuthenticator, Kafka 4.3.1; KIP-43, KIP-152, KIP-368.
"""

from collections.abc import Mapping
from typing import Final

from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kraft_core.protocol.wire import Message
from kraft_core.security.sasl import SaslClient, SaslError

_WRAPPED_SINCE: Final = 1


class LoginFailed(KafkaError):  # noqa: N818  # what happened, as Kafka's names say it
    """The server refused the login, or could not prove its identity. A retry needs other settings."""

    def __init__(self, message: str, code: int = ErrorCode.SASL_AUTHENTICATION_FAILED) -> None:
        super().__init__(ErrorCode(code), message)


class SaslClientAuthenticator:
    """One login. `server_versions` has the (lowest, highest) version by API key of the server's ApiVersions answer.

    Every method may raise LoginFailed. `session_lifetime_ms` is set at the end; 0 means that the login does not expire.
    """

    def __init__(self, mechanism: str, client: SaslClient, server_versions: Mapping[int, tuple[int, int]]) -> None:
        self._mechanism = mechanism
        self._client = client
        self._server_versions = server_versions
        self.session_lifetime_ms = 0

    def version_of(self, request: Message) -> int:
        """Return the version in which to send a request of this login."""
        lowest, highest = self._server_versions.get(request.API_KEY, (0, -1))
        version = min(request.VERSIONS[1], highest)
        is_wrapped = request.API_KEY != ApiKey.SASL_HANDSHAKE or version >= _WRAPPED_SINCE
        if version < max(lowest, request.VERSIONS[0]) or not is_wrapped:
            name = ApiKey(request.API_KEY).name
            raise LoginFailed(f"the server has no common version of {name}: its listener expects no SASL login")
        return version

    def first_request(self) -> Message:
        """Return the handshake."""
        return SaslHandshakeRequest(mechanism=self._mechanism)

    def received(self, answer: Message) -> Message | None:
        """Return the request after this answer to the last one; None when the login is complete."""
        if isinstance(answer, SaslHandshakeResponse):
            if answer.error_code != ErrorCode.NONE:
                offered = ", ".join(answer.mechanisms)
                text = f"the server does not accept the mechanism {self._mechanism}; it offers: {offered}"
                raise LoginFailed(text, answer.error_code)
            return self._next(b"")
        if not isinstance(answer, SaslAuthenticateResponse):
            raise LoginFailed(f"expected a SaslAuthenticateResponse, got a {type(answer).__name__}")
        if answer.error_code != ErrorCode.NONE:
            raise LoginFailed(answer.error_message or "the server refused the login", answer.error_code)
        self.session_lifetime_ms = answer.session_lifetime_ms
        if self._client.is_complete and not answer.auth_bytes:
            return None
        return self._next(answer.auth_bytes)

    def _next(self, challenge: bytes) -> Message | None:
        try:
            token = self._client.evaluate_challenge(challenge)
        except SaslError as error:
            raise LoginFailed(str(error)) from error
        if self._client.is_complete and not token:
            return None
        return SaslAuthenticateRequest(auth_bytes=token)
