"""TLS between an accepted socket and its connection: a protocol to the one, the transport to the other.

The connection is counted as soon as it is accepted, so that handshakes which never end are bounded like all else, and
buffers nothing in clear: what arrives is decrypted and handed on, what is sent goes straight to the socket's buffer.
asyncio's own TLS for listeners does neither.

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
    """The connection behind TLS, itself a protocol of asyncio's."""

    principal: str

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport: count the connection in."""

    def data_received(self, data: bytes) -> None:
        """Take data in clear."""

    def pause_writing(self) -> None:
        """Hear that the peer does not read."""

    def resume_writing(self) -> None:
        """Hear that the peer reads again."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Hear of the end."""

    def close(self, cause: str) -> None:
        """End the connection."""


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """One accepted connection with TLS; the handshake must be done within LOGIN_TIMEOUT_MS."""

    def __init__(
        self, connection: SecuredConnection, security: ServerSecurity, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__()
        assert security.tls is not None, "for listeners with TLS"
        self._connection = connection
        self._security = security
        self._tls = TlsConnection(security.tls)
        self._timer = loop.call_later(LOGIN_TIMEOUT_MS / 1000, connection.close, "no TLS handshake in time")
        self._plain: asyncio.Transport | None = None

    # -- what the socket says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin. Called by asyncio."""
        self._plain = cast("asyncio.Transport", transport)
        self._connection.connection_made(self)

    def data_received(self, data: bytes) -> None:
        """Decrypt and hand on. Called by asyncio."""
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
        """Pass on that the peer does not read. Called by asyncio."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the peer reads again. Called by asyncio."""
        self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the end on. Called by asyncio."""
        self._timer.cancel()
        self._connection.connection_lost(exc)

    # -- what the connection says

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send data, encrypted."""
        if not self.is_closing():
            self._tls.send(bytes(data))
            self._flush()

    def close(self) -> None:
        """Say the end of TLS and close once everything is sent."""
        if self._plain is not None and not self._plain.is_closing():
            self._tls.close()
            self._flush()
            self._plain.close()

    def abort(self) -> None:
        """Close at once."""
        if self._plain is not None:
            self._plain.abort()

    def is_closing(self) -> bool:
        """Whether the end has begun."""
        return self._plain is None or self._plain.is_closing()

    def pause_reading(self) -> None:
        """Take nothing more from the socket for now."""
        if self._plain is not None:
            self._plain.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if self._plain is not None:
            self._plain.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set from how many unsent bytes on the connection is told to pause."""
        if self._plain is not None:
            self._plain.set_write_buffer_limits(high=high, low=low)

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait to be sent."""
        return 0 if self._plain is None else self._plain.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the socket knows of its peer."""
        return default if self._plain is None else self._plain.get_extra_info(name, default)

    # -- inside

    def _flush(self) -> None:
        data = self._tls.data_to_send()
        if data and self._plain is not None:
            self._plain.write(data)

    def _admit(self) -> bool:
        """Name the client by its certificate; False when no rule gives it a name, which ends the connection."""
        self._timer.cancel()
        certificate = None if self._security.has_sasl else self._tls.peer_certificate
        if certificate is None:
            self._connection.principal = ANONYMOUS
            return True
        from kraft_core.security.distinguished_name import subject_of  # brings `cryptography`: not for plain listeners

        try:
            name = self._security.principal_mapper.name_of(subject_of(certificate))
        except ValueError as error:
            self._connection.close(f"no principal for the client's certificate: {error}")
            return False
        self._connection.principal = f"User:{name}"
        return True
