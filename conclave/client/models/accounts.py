"""Models of accounts. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from conclave.client.models.shared import ListMetadata, Metadata
from conclave.client.structs import Answer


class AuditEventData(Answer, frozen=True, kw_only=True):
    """One login, denial or change in the audit. `cluster` is the key of its cluster, "" for that of the settings."""

    kind: str
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


class AuditEventDataList(Answer, frozen=True, kw_only=True):
    """Audit events, newest first."""

    metadata: ListMetadata
    data: list[AuditEventData]
    kind: str


class GrantData(Answer, frozen=True, kw_only=True):
    """A role of a user in one cluster; with a prefix only for topics whose names start with it.

    `from_group` is the group of the OpenID issuer that gives it, null for one that an administrator has given.
    """

    kind: str
    cluster: str
    topic_prefix: str
    role: str
    from_group: str | None


class GrantDataList(Answer, frozen=True, kw_only=True):
    """The grants of a user, by cluster and prefix."""

    validated: bool | None = None
    metadata: ListMetadata
    data: list[GrantData]
    kind: str


class LoginLinkData(Answer, frozen=True, kw_only=True):
    """A link that logs a user in once. `url` is null in a dry run."""

    validated: bool | None = None
    kind: str
    name: str
    url: str | None


class SessionData(Answer, frozen=True, kw_only=True):
    """A browser session of a user, opened by `password`, `link` or `oidc`; `is_present` marks the caller's session.

    Without a further request it ends at `ends_at`.
    """

    kind: str
    metadata: Metadata
    id: int
    created_at: str
    last_seen_at: str
    ends_at: str
    source: str
    user_agent: str
    opened_by: str
    is_present: bool


class SessionDataList(Answer, frozen=True, kw_only=True):
    """Sessions, most recently used first."""

    metadata: ListMetadata
    data: list[SessionData]
    kind: str


class TokenData(Answer, frozen=True, kw_only=True):
    """An API token. `token`, its secret, is only in the answer that created it.

    `cluster` is the key of the one in which it is valid, null for all.
    """

    validated: bool | None = None
    kind: str
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


class TokenDataList(Answer, frozen=True, kw_only=True):
    """API tokens."""

    metadata: ListMetadata
    data: list[TokenData]
    kind: str


class UserData(Answer, frozen=True, kw_only=True):
    """A user of this web process. `issuer` is the OpenID issuer at which the user logs in, if there is one."""

    validated: bool | None = None
    kind: str
    metadata: Metadata
    name: str
    role: str
    issuer: str | None
    has_password: bool
    has_second_factor: bool
    disabled: bool
    created_at: str
    last_login_at: str | None


class UserDataList(Answer, frozen=True, kw_only=True):
    """Users."""

    metadata: ListMetadata
    data: list[UserData]
    kind: str
