"""SASL PLAIN: name and password in one message, to be used with TLS. Source: RFC 4616; PlainSaslServer, Kafka 4.3.1."""

import hmac
from collections.abc import Mapping
from typing import Final

from kraft_core.security.sasl import SaslError

PLAIN: Final = "PLAIN"
_PARTS: Final = 3


class PlainSaslServer:
    """The server's side. `users` holds the passwords by name.

    An unknown name takes the same comparison as a wrong password, so that the time does not reveal it.
    """

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self.token_lifetime_ms = None
        self._name: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the client has logged in."""
        return self._name is not None

    @property
    def authorization_id(self) -> str:
        """Name of the user that has logged in."""
        assert self._name is not None, "the login is not complete"
        return self._name

    def evaluate_response(self, token: bytes) -> bytes:
        """Check `[authzid] NUL name NUL password`. Raises SaslError."""
        try:
            parts = token.decode().split("\x00")
        except UnicodeDecodeError:
            raise SaslError("not UTF-8") from None
        if len(parts) != _PARTS:
            raise SaslError(f"expected {_PARTS} parts, got {len(parts)}")
        authorization_id, name, password = parts
        expected = self._users.get(name)
        is_right = hmac.compare_digest(password.encode(), ("" if expected is None else expected).encode())
        if not name or not password or expected is None or not is_right:
            raise SaslError("unknown user or wrong password")
        if authorization_id not in ("", name):
            raise SaslError("the authorization id is not the user name")
        self._name = name
        return b""


class PlainSaslClient:
    """The client's side."""

    def __init__(self, username: str, password: str) -> None:
        self._username = username
        self._password = password
        self.is_complete = False

    def evaluate_challenge(self, token: bytes) -> bytes:
        """Return name and password. Raises SaslError if the server sent a challenge, since PLAIN has none."""
        if token:
            raise SaslError("the server sent a challenge, which PLAIN does not have")
        if self.is_complete:
            return b""
        self.is_complete = True
        return f"\x00{self._username}\x00{self._password}".encode()
