"""SASL mechanisms as state machines: a token in, a token out, no I/O. Source: javax.security.sasl, as Kafka uses it."""

from typing import Protocol


class SaslError(Exception):
    """A failed login. The message is for this side's log, never for the peer; it holds no secret."""


class SaslServer(Protocol):
    """The server's side of one login."""

    @property
    def token_lifetime_ms(self) -> int | None:
        """Remaining lifetime of the delegation token of this login; None for a login without a token."""

    @property
    def is_complete(self) -> bool:
        """Whether the client has logged in."""

    @property
    def authorization_id(self) -> str:
        """Name of the user that has logged in, once `is_complete`."""

    def evaluate_response(self, token: bytes) -> bytes:
        """Return the answer to the client's next token. Raises SaslError if the login failed."""


class SaslClient(Protocol):
    """The client's side of one login."""

    @property
    def is_complete(self) -> bool:
        """Whether no further token of the server is expected."""

    def evaluate_challenge(self, token: bytes) -> bytes:
        """Return the next token after the server's (empty at first). Raises SaslError for an untrusted server."""
