"""Authenticated callers, and what each role allows."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal

from app.texts import phrase

RoleName = Literal["viewer", "editor", "admin"]
"""The name of a role, as people and programs write it."""


class Role(IntEnum):
    """Rights of a user or a token. Each role includes the rights of the roles below it."""

    VIEWER = 1
    """Read everything that is not a secret."""
    EDITOR = 2
    """Change topics and configs, run reports."""
    ADMIN = 3
    """Manage users, tokens, brokers and the quorum; read the audit."""

    @classmethod
    def of(cls, name: str) -> "Role":
        """Return the role of this name. Raises ValueError for any other text."""
        try:
            return cls[name.upper()]
        except KeyError:
            known = ", ".join(role.text for role in cls)
            raise ValueError(phrase("'%(name)s' is not a role: %(known)s", name=name, known=known)) from None

    @property
    def text(self) -> str:
        """The name as users write it, in lower case."""
        return self.name.lower()


SCOPES: Final = ("read", "topics", "groups", "configs", "records", "reports", "admin")
"""Scopes that restrict a token. An empty list of scopes means everything that its role allows."""


@dataclass(frozen=True, slots=True)
class Actor:
    """A caller as the audit names it. An anonymous actor's name is the one it tried to log in with, or ANONYMOUS's."""

    name: str
    kind: Literal["user", "token", "anonymous"]


ANONYMOUS: Final = Actor("anonymous", "anonymous")


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller. `session_id` is set for browsers only."""

    kind: Literal["user", "token"]
    id: int
    name: str
    role: Role
    scopes: frozenset[str] = frozenset()
    session_id: str | None = None

    @property
    def audit_name(self) -> str:
        """The name in the audit: a user's name, or `token:` and the token's name."""
        return self.name if self.kind == "user" else f"token:{self.name}"

    @property
    def actor(self) -> Actor:
        """The caller as the audit names it."""
        return Actor(self.audit_name, self.kind)

    def may(self, role: Role, scope: str) -> bool:
        """Return whether the caller has at least `role`, and its token includes `scope`."""
        return self.role >= role and (not self.scopes or scope in self.scopes)
