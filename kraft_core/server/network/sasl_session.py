"""SaslSession: connects an accepted connection with its SaslServerAuthenticator.

A connection that does not log in within LOGIN_TIMEOUT_MS is closed. After a failed login the connection is not read any
more; after the listener's `connection.failed.authentication.delay.ms` it gets the answer and is closed.

Source: KafkaChannel, Selector.DelayedAuthenticationFailureClose and Processor.processCompletedReceives, Kafka 4.3.1.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from kraft_core.security.listener_security import PLAINTEXT_SERVER, ServerSecurity
from kraft_core.security.sasl_server_authenticator import (
    ApiVersionsAnswer,
    SaslMechanism,
    SaslServerAuthenticator,
    Step,
)

log = logging.getLogger(__name__)

LOGIN_TIMEOUT_MS: Final = 30_000
"""Timeout of a TLS handshake, and of the login after it; in Kafka only connections.max.idle.ms limits them."""


@dataclass(frozen=True, slots=True)
class ListenerLogin:
    """The authentication of a listener's clients. `mechanisms` is empty or None without SASL."""

    security: ServerSecurity = PLAINTEXT_SERVER
    mechanisms: Mapping[str, SaslMechanism] | None = None
    api_versions: ApiVersionsAnswer | None = None


class LoginConnection(Protocol):
    """The interface of a connection that a session uses."""

    client_host: str
    principal: str
    token_authenticated: bool

    def reply(self, frame: bytes, answer: bytes) -> None:
        """Send the answer to `frame` once all earlier requests are answered."""

    def mute(self) -> None:
        """Stop reading."""

    def limit_frames(self, max_frame_bytes: int | None) -> None:
        """Accept frames up to this size; None for the listener's limit."""

    def close(self, cause: str) -> None:
        """Close the connection."""


class SaslSession:
    """The logins of one connection, on the event loop. Call `end` when the connection ends."""

    def __init__(
        self, connection: LoginConnection, login: ListenerLogin, listener_name: str, loop: asyncio.AbstractEventLoop
    ) -> None:
        assert login.mechanisms is not None, "a listener with SASL has mechanisms"
        assert login.api_versions is not None, "a listener with SASL answers ApiVersions before the login"
        self._connection = connection
        self._login = login.security
        self._listener_name = listener_name
        self._loop = loop
        self._authenticator = SaslServerAuthenticator(login.mechanisms, login.api_versions)
        self._timer: asyncio.TimerHandle | None = loop.call_later(
            LOGIN_TIMEOUT_MS / 1000, connection.close, "login timed out"
        )
        connection.limit_frames(self._login.max_receive_bytes)

    def take(self, frame: bytes) -> bool:
        """Handle a frame of a login or after its expiry; return False for a request to serve."""
        now_ms = int(self._loop.time() * 1000)
        authenticator = self._authenticator
        if authenticator.is_due(frame, now_ms):
            self._carry_out(frame, authenticator.receive(frame, now_ms))
            return True
        if authenticator.is_expired(now_ms):
            self._connection.close("the login has expired and the client did not renew it")
            return True
        return False

    def end(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _carry_out(self, frame: bytes, step: Step) -> None:
        if step.failure is not None:
            self._fail(frame, step)
            return
        if step.principal is not None:
            self.end()
            self._connection.principal = step.principal
            self._connection.token_authenticated = step.is_token
            self._connection.limit_frames(None)
            log.info(
                "authentication_succeeded",
                extra=self._log_fields() | {"principal": step.principal, "by_token": step.is_token},
            )
        self._connection.reply(frame, step.answer)

    def _fail(self, frame: bytes, step: Step) -> None:
        log.info("authentication_failed", extra=self._log_fields() | {"cause": step.failure})
        self.end()
        self._connection.mute()
        if step.is_delayed:
            self._timer = self._loop.call_later(self._login.failed_delay_ms / 1000, self._close, frame, step.answer)
        else:
            self._connection.close("the login failed")

    def _close(self, frame: bytes, answer: bytes) -> None:
        if answer:
            self._connection.reply(frame, answer)
        self._connection.close("the login failed")

    def _log_fields(self) -> dict[str, str]:
        return {
            "listener": self._listener_name,
            "client_host": self._connection.client_host,
            "mechanism": self._authenticator.mechanism,
        }
