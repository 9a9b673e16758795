"""The server's side of TLS as a state machine: network bytes in, plaintext out, and the reverse. No I/O.

    plaintext = tls.receive_data(data)  # b"" during the handshake
    transport.write(tls.data_to_send())

Raises ssl.SSLError for a peer that violates the protocol or has no valid certificate; `data_to_send` then returns the
alert for the peer.
"""

import ssl
from typing import Final

_READ_BYTES: Final = 65_536


class TlsConnection:
    """The server's side of one connection."""

    __slots__ = ("_incoming", "_object", "_outgoing", "is_closed_by_peer", "is_established")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_established = False
        self.is_closed_by_peer = False

    @property
    def peer_certificate(self) -> bytes | None:
        """The peer's valid certificate (DER); None if it sent none."""
        return self._object.getpeercert(binary_form=True)

    def receive_data(self, data: bytes) -> bytes:
        """Return the plaintext of bytes from the network."""
        self._incoming.write(data)
        if not self.is_established and not self._shake_hands():
            return b""
        parts = []
        try:
            while part := self._object.read(_READ_BYTES):
                parts.append(part)
            self.is_closed_by_peer = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_closed_by_peer = True
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def send(self, data: bytes) -> None:
        """Encrypt bytes for the peer; `data_to_send` returns them."""
        self._object.write(data)

    def data_to_send(self) -> bytes:
        """Return the bytes to write to the network since the last call."""
        return self._outgoing.read()

    def close(self) -> None:
        """Send the close alert; `data_to_send` returns it."""
        if self.is_established:
            try:
                self._object.unwrap()
            except ssl.SSLError:
                return  # the peer has not sent its close alert yet, and need not

    def _shake_hands(self) -> bool:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.is_established = True
        return True
