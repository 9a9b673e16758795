"""Kafka's login on the client's side, as a state machine: the next request out, its answer in, no I/O.

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
    """The server refused the login, or is not to be trusted. Trying again with the same settings is no use."""

    def __init__(self, message: str, code: int = ErrorCode.SASL_AUTHENTICATION_FAILED) -> None:
        super().__init__(ErrorCode(code), message)


class SaslClientAuthenticator:
    """One login. `server_versions` are the version ranges by api key that the server gave in its ApiVersions answer.

    Raises LoginFailed from any step; `session_lifetime_ms` is known at the end, 0 when the login is good for ever.
    """

    def __init__(self, mechanism: str, client: SaslClient, server_versions: Mapping[int, tuple[int, int]]) -> None:
        self._mechanism = mechanism
        self._client = client
        self._server_versions = server_versions
        self.session_lifetime_ms = 0

    def version_of(self, request: Message) -> int:
        """Return the version to send a request of this login in."""
        lowest, highest = self._server_versions.get(request.API_KEY, (0, -1))
        version = min(request.VERSIONS[1], highest)
        is_wrapped = request.API_KEY != ApiKey.SASL_HANDSHAKE or version >= _WRAPPED_SINCE
        if version < max(lowest, request.VERSIONS[0]) or not is_wrapped:
            name = ApiKey(request.API_KEY).name
            raise LoginFailed(f"the server does not speak {name} in a version of ours: it expects no SASL login here")
        return version

    def first_request(self) -> Message:
        """Return the handshake."""
        return SaslHandshakeRequest(mechanism=self._mechanism)

    def received(self, answer: Message) -> Message | None:
        """Take the answer to the last request -> the next one; None when the login is complete."""
        if isinstance(answer, SaslHandshakeResponse):
            if answer.error_code != ErrorCode.NONE:
                offered = ", ".join(answer.mechanisms)
                text = f"the server does not accept the mechanism {self._mechanism}; it offers: {offered}"
                raise LoginFailed(text, answer.error_code)
            return self._next(b"")
        if not isinstance(answer, SaslAuthenticateResponse):
            raise LoginFailed(f"an answer of another kind: {type(answer).__name__}")
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
