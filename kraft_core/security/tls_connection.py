"""TLS as a state machine for the accepting side: bytes of the network in, clear bytes out, and the reverse. No I/O.

    clear = tls.receive_data(data)      # b"" while the handshake goes on
    transport.write(tls.data_to_send())

Raises ssl.SSLError for a peer that breaks the protocol or shows no good certificate; what `data_to_send` then holds is
the alert that tells the peer.
"""

import ssl
from typing import Final

_READ_BYTES: Final = 65_536


class TlsConnection:
    """The server's end of one connection."""

    __slots__ = ("_incoming", "_object", "_outgoing", "is_closed_by_peer", "is_established")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_established = False
        self.is_closed_by_peer = False

    @property
    def peer_certificate(self) -> bytes | None:
        """The certificate (DER) that the peer has shown and that was found good; None if it showed none."""
        return self._object.getpeercert(binary_form=True)

    def receive_data(self, data: bytes) -> bytes:
        """Take what came from the network; return what it says in clear."""
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
        """Take what shall go to the peer; `data_to_send` has it encrypted."""
        self._object.write(data)

    def data_to_send(self) -> bytes:
        """Take out what must go to the network."""
        return self._outgoing.read()

    def close(self) -> None:
        """Say the end; `data_to_send` has it."""
        if self.is_established:
            try:
                self._object.unwrap()
            except ssl.SSLError:
                return  # the peer has not said its end yet, and need not

    def _shake_hands(self) -> bool:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.is_established = True
        return True
