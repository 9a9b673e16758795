"""Authenticated callers, and what each role allows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, Literal

from app.texts import phrase

RoleName = Literal["viewer", "editor", "admin"]
"""The name of a role, as people and programs write it."""


class Role(IntEnum):
    """Rights of a user or a token. Each role includes the rights of the roles below it."""

    NONE = 0
    """Log in, and no more than grants give."""
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


@dataclass(frozen=True, slots=True)
class Grant:
    """A role in the cluster with this key; with a `topic_prefix` only for topics whose names start with it.

    `from_group` is the group of the OpenID issuer that gives it, "" for one that an administrator has given.
    """

    cluster: str
    topic_prefix: str
    role: Role
    from_group: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """A cluster by its key, or with a `topic_prefix` its topics whose names start with it."""

    cluster: str
    topic_prefix: str = ""

    def narrowed(self, own_role: Role, grants: Sequence[Grant]) -> tuple[Grant, ...]:
        """Return what a caller with this own role and these grants may do here, as grants."""
        found = [Grant(self.cluster, self.topic_prefix, own_role)] if own_role is not Role.NONE else []
        for each in grants:
            if each.cluster == self.cluster:
                longer, shorter = sorted((each.topic_prefix, self.topic_prefix), key=len, reverse=True)
                if longer.startswith(shorter):
                    found.append(replace(each, topic_prefix=longer))
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller. `session_id` is set for browsers only.

    `own_role` is valid in all clusters and for what belongs to none, such as users; `grants` add to it. `cluster` is
    the key of the request's cluster.
    """

    kind: Literal["user", "token"]
    id: int
    name: str
    own_role: Role
    grants: tuple[Grant, ...] = ()
    cluster: str = ""
    scopes: frozenset[str] = frozenset()
    session_id: str | None = None

    def in_cluster(self, key: str) -> "Principal":
        """Return the caller in another cluster."""
        return replace(self, cluster=key)

    @property
    def role(self) -> Role:
        """The role in the cluster of the request, for all topics."""
        return self.role_in(self.cluster)

    @property
    def highest_role(self) -> Role:
        """The highest role that the caller has anywhere."""
        return max((self.own_role, *(grant.role for grant in self.grants)))

    def role_in(self, key: str) -> Role:
        """Return the role in a cluster, for all topics. A role for some topics includes viewing the cluster."""
        there = [grant for grant in self.grants if grant.cluster == key]
        return max((self.own_role, *(Role.VIEWER if each.topic_prefix else each.role for each in there)))

    def role_on(self, topic: str) -> Role:
        """Return the role for a topic of the request's cluster."""
        here = [grant for grant in self.grants if grant.cluster == self.cluster]
        return max((self.own_role, *(each.role for each in here if topic.startswith(each.topic_prefix))))

    @property
    def has_topics(self) -> bool:
        """Whether the caller may change some topics of the cluster, though not all."""
        return any(each.role >= Role.EDITOR and each.cluster == self.cluster for each in self.grants)

    @property
    def audit_name(self) -> str:
        """The name in the audit: a user's name, or `token:` and the token's name."""
        return self.name if self.kind == "user" else f"token:{self.name}"

    @property
    def actor(self) -> Actor:
        """The caller as the audit names it."""
        return Actor(self.audit_name, self.kind)

    def may(self, role: Role, scope: str) -> bool:
        """Return whether the caller has at least `role` in the cluster, and its token includes `scope`."""
        return self.role >= role and self.has_scope(scope)

    def has_scope(self, scope: str) -> bool:
        """Return whether the token of the caller includes `scope`."""
        return not self.scopes or scope in self.scopes
