"""TlsTransport: TLS between an accepted socket, to which it is a protocol, and its connection, to which a transport.

The connection is counted as soon as it is accepted, so that handshakes that never end are limited too. No plaintext is
buffered: received bytes are decrypted and passed on, sent bytes go to the socket's buffer at once. asyncio's TLS for
servers does neither.

Source: SslTransportLayer and SslChannelBuilder.SslAuthenticator, Kafka 4.3.1.
"""

import asyncio
import ssl
from typing import Any, Protocol, cast

from kraft_core.controller.controller_request_context import ANONYMOUS
from kraft_core.security.listener_security import ServerSecurity
from kraft_core.security.tls_connection import TlsConnection
from kraft_core.server.network.sasl_session import LOGIN_TIMEOUT_MS


class SecuredConnection(Protocol):
    """The connection behind TLS, an asyncio protocol."""

    principal: str

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; the connection is counted from now on."""

    def data_received(self, data: bytes) -> None:
        """Handle plaintext."""

    def pause_writing(self) -> None:
        """Stop writing: the peer does not read."""

    def resume_writing(self) -> None:
        """Resume writing: the peer reads again."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""

    def close(self, cause: str) -> None:
        """Close the connection."""


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """One accepted connection with TLS; the handshake must complete within LOGIN_TIMEOUT_MS."""

    def __init__(
        self, connection: SecuredConnection, security: ServerSecurity, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__()
        assert security.tls is not None, "for listeners with TLS"
        self._connection = connection
        self._security = security
        self._tls = TlsConnection(security.tls)
        self._timer = loop.call_later(LOGIN_TIMEOUT_MS / 1000, connection.close, "TLS handshake timed out")
        self._plain: asyncio.Transport | None = None

    # -- protocol of the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake. Called by asyncio."""
        self._plain = cast("asyncio.Transport", transport)
        self._connection.connection_made(self)

    def data_received(self, data: bytes) -> None:
        """Decrypt and pass on. Called by asyncio."""
        if self.is_closing():
            return
        is_new = not self._tls.is_established
        try:
            clear = self._tls.receive_data(data)
        except ssl.SSLError as error:
            self._flush()
            self._connection.close(f"TLS failed: {error.reason or error}")
            return
        self._flush()
        if is_new and self._tls.is_established and not self._admit():
            return
        if clear:
            self._connection.data_received(clear)
        if self._tls.is_closed_by_peer:
            self.close()

    def pause_writing(self) -> None:
        """Pause the connection: the peer does not read. Called by asyncio."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Resume the connection: the peer reads again. Called by asyncio."""
        self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on the end. Called by asyncio."""
        self._timer.cancel()
        self._connection.connection_lost(exc)

    # -- transport of the connection

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send data."""
        if not self.is_closing():
            self._tls.send(bytes(data))
            self._flush()

    def close(self) -> None:
        """Send TLS's close alert and close once everything is sent."""
        if self._plain is not None and not self._plain.is_closing():
            self._tls.close()
            self._flush()
            self._plain.close()

    def abort(self) -> None:
        """Close at once."""
        if self._plain is not None:
            self._plain.abort()

    def is_closing(self) -> bool:
        """Whether the transport is closing or closed."""
        return self._plain is None or self._plain.is_closing()

    def pause_reading(self) -> None:
        """Pause reading from the socket."""
        if self._plain is not None:
            self._plain.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading from the socket."""
        if self._plain is not None:
            self._plain.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the number of unsent bytes at which the connection is paused."""
        if self._plain is not None:
            self._plain.set_write_buffer_limits(high=high, low=low)

    def get_write_buffer_size(self) -> int:
        """Return the number of unsent bytes."""
        return 0 if self._plain is None else self._plain.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return information about the socket."""
        return default if self._plain is None else self._plain.get_extra_info(name, default)

    # -- inside

    def _flush(self) -> None:
        data = self._tls.data_to_send()
        if data and self._plain is not None:
            self._plain.write(data)

    def _admit(self) -> bool:
        """Set the principal from the client's certificate; return False and close if no rule matches."""
        self._timer.cancel()
        certificate = None if self._security.has_sasl else self._tls.peer_certificate
        if certificate is None:
            self._connection.principal = ANONYMOUS
            return True
        from kraft_core.security.distinguished_name import subject_of  # imports `cryptography`, which only TLS needs

        try:
            name = self._security.principal_mapper.name_of(subject_of(certificate))
        except ValueError as error:
            self._connection.close(f"no principal for the client's certificate: {error}")
            return False
        self._connection.principal = f"User:{name}"
        return True
