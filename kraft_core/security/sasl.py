"""SASL mechanisms as state machines: a token in, a token out, no I/O.

    SaslError          the other side's token cannot be accepted; why goes to the log, never to the client
    └── (text)         `for_client` is what the client is told instead, the same for every wrong login

Source: javax.security.sasl, as Kafka uses it.
"""

from typing import Protocol


class SaslError(Exception):
    """A login that failed. The message is for this side's log; it holds no secret."""


class SaslServer(Protocol):
    """The server's side of one login. `authorization_id` is who logged in, once `is_complete`."""

    @property
    def token_lifetime_ms(self) -> int | None:
        """For how long the delegation token is still good that was logged in with; None without one."""

    @property
    def is_complete(self) -> bool:
        """Whether the client has logged in."""

    @property
    def authorization_id(self) -> str:
        """Who has logged in."""

    def evaluate_response(self, token: bytes) -> bytes:
        """Take the client's next token, give the answer to it. Raises SaslError when the login failed."""


class SaslClient(Protocol):
    """The client's side of one login."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing more is expected of the server."""

    def evaluate_challenge(self, token: bytes) -> bytes:
        """Take the server's token (empty at first), give the next. Raises SaslError for a server not to be trusted."""
