"""Bodies and answers about users, sessions, API tokens and audit events."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from app.rest.schemas.base import Answer, ChangeBody, ListOf, Metadata, Validated
from app.security.roles import RoleName

Password = Annotated[str, StringConstraints(max_length=1_000)]
UserRoleName = Literal["none", "viewer", "editor", "admin"]
"""The name of a user's own role; a user without one has what the grants give."""
AccountName = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class CreateUserBody(ChangeBody):
    """A new user. Without a password the user can log in only with a login link."""

    name: AccountName
    role: UserRoleName
    password: Password | None = None


class UpdateUserBody(ChangeBody):
    """Changes of a user. Absent members stay. A session that changes its own password must give `present_password`."""

    role: UserRoleName | None = None
    disabled: bool | None = None
    password: Password | None = None
    present_password: Password = ""


class CreateTokenBody(ChangeBody):
    """A new API token. Without scopes the token has all rights of its role.

    With the key of a `cluster`, "" for that of the settings, it is valid there only; with a prefix for its topics.
    """

    name: AccountName
    role: RoleName
    scopes: Annotated[tuple[str, ...], Field(max_length=20, strict=False)] = ()
    cluster: str | None = Field(default=None, max_length=32)
    topic_prefix: str = Field(default="", max_length=249, pattern=r"^[A-Za-z0-9._-]*$")
    expires_in_days: Annotated[int, Field(ge=1, le=3650)] | None = None


class UserData(Validated):
    """A user of this web process. `issuer` is the OpenID issuer at which the user logs in, if there is one."""

    kind: Literal["ConclaveUser"]
    metadata: Metadata
    name: str
    role: str
    issuer: str | None
    has_password: bool
    has_second_factor: bool
    disabled: bool
    created_at: str
    last_login_at: str | None


class UserDataList(ListOf[UserData]):
    """Users."""

    kind: Literal["ConclaveUserList"]


class GrantBody(ChangeBody):
    """A role in the cluster with this key, "" for that of the settings: for topics with the prefix, or all."""

    cluster: str = Field(default="", max_length=32)
    topic_prefix: str = Field(default="", max_length=249, pattern=r"^[A-Za-z0-9._-]*$")
    role: RoleName


class GrantData(Answer):
    """A role of a user in one cluster; with a prefix only for topics whose names start with it.

    `from_group` is the group of the OpenID issuer that gives it, null for one that an administrator has given.
    """

    kind: Literal["ConclaveGrant"]
    cluster: str
    topic_prefix: str
    role: RoleName
    from_group: str | None


class GrantDataList(ListOf[GrantData], Validated):
    """The grants of a user, by cluster and prefix."""

    kind: Literal["ConclaveGrantList"]


class TokenData(Validated):
    """An API token. `token`, its secret, is only in the answer that created it.

    `cluster` is the key of the one in which it is valid, null for all.
    """

    kind: Literal["ConclaveToken"]
    metadata: Metadata
    name: str
    hint: str
    role: str
    scopes: list[str]
    cluster: str | None
    topic_prefix: str
    created_by: str
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    revoked_at: str | None
    token: str | None = None


class TokenDataList(ListOf[TokenData]):
    """API tokens."""

    kind: Literal["ConclaveTokenList"]


class SessionData(Answer):
    """A browser session of a user, opened by `password`, `link` or `oidc`; `is_present` marks the caller's session.

    Without a further request it ends at `ends_at`.
    """

    kind: Literal["ConclaveSession"]
    metadata: Metadata
    id: int
    created_at: str
    last_seen_at: str
    ends_at: str
    source: str
    user_agent: str
    opened_by: str
    is_present: bool


class SessionDataList(ListOf[SessionData]):
    """Sessions, most recently used first."""

    kind: Literal["ConclaveSessionList"]


class AuditEventData(Answer):
    """One login, denial or change in the audit. `cluster` is the key of its cluster, "" for that of the settings."""

    kind: Literal["ConclaveAuditEvent"]
    id: int
    at: str
    actor: str
    actor_kind: str
    source: str
    action: str
    resource: str
    result: str
    count: int
    error: str | None
    detail: dict[str, object]
    request_id: str
    cluster: str
    metadata_offset: int | None


class AuditEventDataList(ListOf[AuditEventData]):
    """Audit events, newest first."""

    kind: Literal["ConclaveAuditEventList"]


class LoginLinkData(Validated):
    """A link that logs a user in once. `url` is null in a dry run."""

    kind: Literal["ConclaveLoginLink"]
    name: str
    url: str | None
