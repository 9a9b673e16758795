"""API tokens in the database: made, revoked, and what each may do at this moment.

A token goes with its maker. The maker is a user, or another token and so, in the end, a user or the environment. At each
use the token may do what it was given and what every maker up that line may do now: so a lower role counts at once, and a
user who is disabled or removed, or a token that is revoked or expired, takes along all that was made with it.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import select, update
from sqlalchemy.orm import Session as OrmSession

from app.db.models import ApiToken, User
from app.security.accounts import (
    LAST_SEEN_STEP,
    AccountConflictError,
    AccountError,
    AccountForbiddenError,
    UnknownAccountError,
    check_name,
)
from app.security.roles import SCOPES, Principal, Role
from app.security.secrets import digest, new_token
from app.security.text import plain_text

ENVIRONMENT_TOKEN: Final = "environment"  # noqa: S105 - the name of a token, not a token
GENERATIONS_MAX: Final = 4  # tokens that were made by tokens: each costs one more look at every request


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token may do now, and until when. `makers` is how many tokens stand above it."""

    role: Role
    scopes: frozenset[str]
    ends_at: dt.datetime | None
    makers: int


def tokens(session: OrmSession) -> list[ApiToken]:
    """Return all tokens by name, revoked ones too."""
    return list(session.scalars(select(ApiToken).order_by(ApiToken.name)))


def token_by_name(session: OrmSession, name: str) -> ApiToken | None:
    """Return the token of this name, a revoked one too."""
    return session.scalars(select(ApiToken).where(ApiToken.name == plain_text(name))).one_or_none()


def grant_of(session: OrmSession, token: ApiToken, now: dt.datetime) -> Grant | None:
    """Return what a token may do now; None when it, or any of its makers, is no good."""
    role, scopes, ends_at = Role.ADMIN, frozenset(token.scopes), None
    above: ApiToken | None = token
    for makers in range(GENERATIONS_MAX + 1):
        if above is None or above.revoked_at is not None or (above.expires_at is not None and above.expires_at <= now):
            return None
        role = min(role, Role.of(above.role))
        if above.scopes:
            scopes = scopes & frozenset(above.scopes) if scopes else frozenset(above.scopes)
            if not scopes:  # which would mean all of them
                return None
        if above.expires_at is not None:
            ends_at = above.expires_at if ends_at is None else min(ends_at, above.expires_at)
        if above.parent_id is None:
            maker_role = _role_of_maker(session, above)
            return None if maker_role is None else Grant(min(role, maker_role), scopes, ends_at, makers)
        above = session.get(ApiToken, above.parent_id)
    return None


def _role_of_maker(session: OrmSession, token: ApiToken) -> Role | None:
    if token.maker_id is None:
        return Role.ADMIN if token.name == ENVIRONMENT_TOKEN else None
    maker = session.get(User, token.maker_id)
    return None if maker is None or maker.disabled_at is not None else Role.of(maker.role)


def add_token(
    session: OrmSession,
    *,
    name: str,
    role: str,
    scopes: Sequence[str],
    maker: Principal,
    now: dt.datetime,
    expires_at: dt.datetime | None,
) -> tuple[ApiToken, str]:
    """Add a token and return it with its text, which is nowhere kept. Raises AccountError.

    It cannot be given more than its maker has: no higher role, no scope and no day beyond the maker's.
    """
    check_name(name)
    if name == ENVIRONMENT_TOKEN:
        raise AccountError(f"The name '{name}' is kept for the token of CONCLAVE_ADMIN_TOKEN.", "name")
    if token_by_name(session, name) is not None:
        raise AccountConflictError(f"There is a token '{name}' already.", "name")
    wanted = _role(role)
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown:
        raise AccountError(f"Unknown scope {', '.join(unknown)}; known: {', '.join(SCOPES)}.", "scopes")
    if expires_at is not None and expires_at <= now:
        raise AccountError("The token would have expired already.", "expires_at")
    _check_not_beyond(session, maker, wanted, scopes, expires_at, now)
    text = new_token("cnc_")
    made = ApiToken(
        name=name,
        token_digest=digest(text),
        hint=text[:8],
        role=wanted.text,
        scopes=sorted(set(scopes)),
        created_by=maker.audit_name,
        maker_id=maker.id if maker.kind == "user" else None,
        parent_id=maker.id if maker.kind == "token" else None,
        created_at=now,
        expires_at=expires_at,
    )
    session.add(made)
    session.flush()
    return made, text


def _check_not_beyond(
    session: OrmSession,
    maker: Principal,
    role: Role,
    scopes: Sequence[str],
    expires_at: dt.datetime | None,
    now: dt.datetime,
) -> None:
    """Raise AccountError when a token would have more than its maker."""
    if role > maker.role:
        raise _beyond(f"the role {role.text}: your role is {maker.role.text}", "role")
    if maker.scopes and (not scopes or not set(scopes) <= maker.scopes):
        raise _beyond(f"other scopes than yours, which are {', '.join(sorted(maker.scopes))}", "scopes")
    if maker.kind != "token":
        return
    own = session.get(ApiToken, maker.id)
    grant = None if own is None else grant_of(session, own, now)
    if grant is None:
        raise _beyond("anything: your own token is no good any more", "name")
    if grant.ends_at is not None and (expires_at is None or expires_at > grant.ends_at):
        raise _beyond(f"an end after yours, which is {grant.ends_at.isoformat(timespec='seconds')}", "expires_at")
    if grant.makers + 1 >= GENERATIONS_MAX:
        raise _beyond(f"a line of more than {GENERATIONS_MAX} tokens; make it with an older one, or as a user", "name")


def _beyond(what: str, field: str) -> AccountForbiddenError:
    return AccountForbiddenError(f"A token cannot be given {what}.", field)


def take_environment_token(session: OrmSession, text: str, now: dt.datetime) -> None:
    """Set up the token of the environment at a first start; later starts leave what an admin may have revoked alone."""
    if token_by_name(session, ENVIRONMENT_TOKEN) is None:
        session.add(
            ApiToken(
                name=ENVIRONMENT_TOKEN,
                token_digest=digest(text),
                hint="",  # a token somebody chose may be short: show none of it
                role=Role.ADMIN.text,
                scopes=[],
                created_by="CONCLAVE_ADMIN_TOKEN",
                created_at=now,
            )
        )


def revoke_token(session: OrmSession, name: str, now: dt.datetime) -> ApiToken:
    """Revoke a token and all tokens made with it. Raises AccountError when there is none of this name."""
    found = token_by_name(session, name)
    if found is None:
        raise UnknownAccountError(f"There is no token '{name}'.", "name")
    if found.revoked_at is None:
        found.revoked_at = now
    return found


def principal_of_token(session: OrmSession, text: str, now: dt.datetime) -> tuple[Principal, bool] | None:
    """Return whom the token stands for, and whether its last-used time should be moved; None when it is no good."""
    found = session.scalars(select(ApiToken).where(ApiToken.token_digest == digest(text))).one_or_none()
    principal = None if found is None else _principal(session, found, now)
    if found is None or principal is None:
        return None
    return principal, found.last_used_at is None or found.last_used_at + LAST_SEEN_STEP <= now


def principal_of_token_id(session: OrmSession, token_id: int, now: dt.datetime) -> Principal | None:
    """Return whom the token stands for, by its number; None when it is no good."""
    found = session.get(ApiToken, token_id)
    return None if found is None else _principal(session, found, now)


def _principal(session: OrmSession, token: ApiToken, now: dt.datetime) -> Principal | None:
    grant = grant_of(session, token, now)
    if grant is None:
        return None
    return Principal(kind="token", id=token.id, name=token.name, role=grant.role, scopes=grant.scopes)


def touch_token(session: OrmSession, text: str, now: dt.datetime) -> None:
    """Note that the token was used."""
    session.execute(update(ApiToken).where(ApiToken.token_digest == digest(text)).values(last_used_at=now))


def _role(name: str) -> Role:
    try:
        return Role.of(name)
    except ValueError as unknown:
        raise AccountError(str(unknown), "role") from None
