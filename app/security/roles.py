"""Who is asking, and what a role may do."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal


class Role(IntEnum):
    """What a user or a token may do; each role may do what the ones below it may."""

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
            raise ValueError(f"'{name}' is not a role: {known}") from None

    @property
    def text(self) -> str:
        """The name as users write it."""
        return self.name.lower()


SCOPES: Final = ("read", "topics", "configs", "reports", "admin")
"""What a token can be narrowed to; an empty list of scopes means all its role allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller. `name` is what the audit says; `session_id` is set for browsers only."""

    kind: Literal["user", "token"]
    id: int
    name: str
    role: Role
    scopes: frozenset[str] = frozenset()
    session_id: str | None = None

    @property
    def audit_name(self) -> str:
        """How the audit names it: a user's name, or `token:` and the token's."""
        return self.name if self.kind == "user" else f"token:{self.name}"

    def may(self, role: Role, scope: str) -> bool:
        """Whether the caller has at least `role`, and `scope` is not left out of its token."""
        return self.role >= role and (not self.scopes or scope in self.scopes)
