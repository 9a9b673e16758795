"""Bodies and answers about users, sessions, API tokens and audit events."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from app.rest.schemas.base import Answer, ChangeBody, ListOf, Metadata, Validated

RoleName = Literal["viewer", "editor", "admin"]
Password = Annotated[str, StringConstraints(max_length=1_000)]
AccountName = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class CreateUserBody(ChangeBody):
    """A new user; without a password only a login link lets them in."""

    name: AccountName
    role: RoleName
    password: Password | None = None


class UpdateUserBody(ChangeBody):
    """Changes of a user; what is absent stays. `present_password` goes with a change of one's own password in a session."""

    role: RoleName | None = None
    disabled: bool | None = None
    password: Password | None = None
    present_password: Password = ""


class CreateTokenBody(ChangeBody):
    """A new API token; without scopes it may do all its role allows."""

    name: AccountName
    role: RoleName
    scopes: Annotated[tuple[str, ...], Field(max_length=20, strict=False)] = ()
    expires_in_days: Annotated[int, Field(ge=1, le=3650)] | None = None


class UserData(Validated):
    """A user of this installation."""

    kind: Literal["ConclaveUser"]
    metadata: Metadata
    name: str
    role: str
    has_password: bool
    disabled: bool
    created_at: str
    last_login_at: str | None


class UserDataList(ListOf[UserData]):
    """Users."""

    kind: Literal["ConclaveUserList"]


class TokenData(Validated):
    """An API token; its text is in the answer to its creation alone."""

    kind: Literal["ConclaveToken"]
    metadata: Metadata
    name: str
    hint: str
    role: str
    scopes: list[str]
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
    """One browser that a user is logged in with; `opened_by` is password or link."""

    kind: Literal["ConclaveSession"]
    metadata: Metadata
    id: int
    created_at: str
    last_seen_at: str
    source: str
    user_agent: str
    opened_by: str
    is_present: bool


class SessionDataList(ListOf[SessionData]):
    """Sessions, the last used first."""

    kind: Literal["ConclaveSessionList"]


class AuditEventData(Answer):
    """One login, denial or change."""

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
    metadata_offset: int | None


class AuditEventDataList(ListOf[AuditEventData]):
    """Events, newest first."""

    kind: Literal["ConclaveAuditEventList"]


class LoginLinkData(Validated):
    """A link that logs in once; a dry run makes none, so its `url` is null."""

    kind: Literal["ConclaveLoginLink"]
    name: str
    url: str | None
