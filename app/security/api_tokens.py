"""API tokens in the database: creation, revocation, and the present rights of each.

A token depends on its maker: a user, or another token whose own makers lead to a user or the environment. At each use
it has the rights that it was given and that every maker above it has now. So a lower role takes effect at once, and
with a user who is disabled or removed, or a token that is revoked or expired, all tokens made with it become invalid.
A token may be limited to one cluster, or to its topics with a prefix; the tokens made with it are so too.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    grants_of,
)
from app.security.roles import SCOPES, Grant, Place, Principal, Role
from app.security.secrets import digest, new_token
from app.security.text import plain_text
from app.texts import phrase, sentence_of

ENVIRONMENT_TOKEN: Final = "environment"  # noqa: S105 - the name of a token, not a token
GENERATIONS_MAX: Final = 4  # tokens made by tokens: each generation costs one more read per request


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """What a token is to be. Without scopes it has all of its role; without a place it is valid everywhere."""

    name: str
    role: str
    scopes: Sequence[str] = ()
    expires_at: dt.datetime | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Rights:
    """Present rights of a token, and their end. `makers` is the number of tokens above it."""

    role: Role
    grants: tuple[Grant, ...]
    scopes: frozenset[str]
    ends_at: dt.datetime | None
    makers: int


def tokens(session: OrmSession) -> list[ApiToken]:
    """Return all tokens by name, including revoked ones."""
    return list(session.scalars(select(ApiToken).order_by(ApiToken.name)))


def token_by_name(session: OrmSession, name: str) -> ApiToken | None:
    """Return the token of this name, also a revoked one, or None."""
    return session.scalars(select(ApiToken).where(ApiToken.name == plain_text(name))).one_or_none()


def rights_of(session: OrmSession, token: ApiToken, now: dt.datetime) -> Rights | None:
    """Return the present rights of a token, None when it or one of its makers is invalid."""
    role, scopes, ends_at = Role.ADMIN, frozenset(token.scopes), None
    places: list[Place] = []
    above: ApiToken | None = token
    for makers in range(GENERATIONS_MAX + 1):
        if above is None or above.revoked_at is not None or (above.expires_at is not None and above.expires_at <= now):
            return None
        role = min(role, Role.of(above.role))
        if above.cluster is not None:
            places.append(Place(above.cluster, above.topic_prefix))
        if above.scopes:
            scopes = scopes & frozenset(above.scopes) if scopes else frozenset(above.scopes)
            if not scopes:  # an empty set would mean all scopes
                return None
        if above.expires_at is not None:
            ends_at = above.expires_at if ends_at is None else min(ends_at, above.expires_at)
        if above.parent_id is None:
            maker = _roles_of_maker(session, above)
            if maker is None:
                return None
            own_role = min(role, maker[0])
            grants = tuple(replace(each, role=min(each.role, role)) for each in maker[1])
            for place in places:
                own_role, grants = Role.NONE, place.narrowed(own_role, grants)
            return Rights(own_role, grants, scopes, ends_at, makers)
        above = session.get(ApiToken, above.parent_id)
    return None


def _roles_of_maker(session: OrmSession, token: ApiToken) -> tuple[Role, tuple[Grant, ...]] | None:
    """Return the present role and grants of the user who made a token, None if there are none any longer."""
    if token.maker_id is None:
        return (Role.ADMIN, ()) if token.name == ENVIRONMENT_TOKEN else None
    maker = session.get(User, token.maker_id)
    return None if maker is None or not maker.is_active else (Role.of(maker.role), grants_of(maker))


def add_token(session: OrmSession, wanted: NewToken, maker: Principal, now: dt.datetime) -> tuple[ApiToken, str]:
    """Add a token and return it with its text, which is not stored. Raises AccountError.

    A token cannot have more than its maker: no higher role, no further scope and no later expiry.
    """
    name, expires_at = wanted.name, wanted.expires_at
    check_name(name)
    if name == ENVIRONMENT_TOKEN:
        raise AccountError(
            phrase("The name '%(name)s' is reserved for the token of CONCLAVE_ADMIN_TOKEN.", name=name), "name"
        )
    if token_by_name(session, name) is not None:
        raise AccountConflictError(phrase("A token '%(name)s' already exists.", name=name), "name")
    role = _role(wanted.role)
    unknown = sorted(set(wanted.scopes) - set(SCOPES))
    if unknown:
        raise AccountError(
            phrase("Unknown scope %(names)s; known: %(known)s.", names=", ".join(unknown), known=", ".join(SCOPES)),
            "scopes",
        )
    if expires_at is not None and expires_at <= now:
        raise AccountError(phrase("The expiry is in the past."), "expires_at")
    _check_not_beyond(session, maker, role, wanted.scopes, expires_at, now)
    text = new_token("cnc_")
    made = ApiToken(
        name=name,
        token_digest=digest(text),
        hint=text[:8],
        role=role.text,
        scopes=sorted(set(wanted.scopes)),
        cluster=None if wanted.place is None else wanted.place.cluster,
        topic_prefix="" if wanted.place is None else wanted.place.topic_prefix,
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
    """Raise AccountForbiddenError when a token would have more rights than its maker."""
    if role > maker.highest_role:
        text = phrase("the role %(role)s: your role is %(own)s", role=role.text, own=maker.highest_role.text)
        raise _too_much(text, "role")
    if maker.scopes and (not scopes or not set(scopes) <= maker.scopes):
        own_scopes = ", ".join(sorted(maker.scopes))
        raise _too_much(phrase("other scopes than yours, which are %(names)s", names=own_scopes), "scopes")
    if maker.kind != "token":
        return
    own = session.get(ApiToken, maker.id)
    rights = None if own is None else rights_of(session, own, now)
    if rights is None:
        raise _too_much(phrase("any rights: your own token is no longer valid"), "name")
    if rights.ends_at is not None and (expires_at is None or expires_at > rights.ends_at):
        ends_at = rights.ends_at.isoformat(timespec="seconds")
        raise _too_much(phrase("an expiry after yours, which is %(time)s", time=ends_at), "expires_at")
    if rights.makers + 1 >= GENERATIONS_MAX:
        text = phrase(
            "more than %(most)s generations of tokens; create it with an older one, or as a user", most=GENERATIONS_MAX
        )
        raise _too_much(text, "name")


def _too_much(what: str, field: str) -> AccountForbiddenError:
    return AccountForbiddenError(phrase("A token cannot be given %(what)s.", what=what), field)


def take_environment_token(session: OrmSession, text: str, now: dt.datetime) -> None:
    """Create the token of the environment at the first start. Later starts do not restore a revoked one."""
    if token_by_name(session, ENVIRONMENT_TOKEN) is None:
        session.add(
            ApiToken(
                name=ENVIRONMENT_TOKEN,
                token_digest=digest(text),
                hint="",  # a chosen token may be short, so none of it is shown
                role=Role.ADMIN.text,
                scopes=[],
                created_by="CONCLAVE_ADMIN_TOKEN",
                created_at=now,
            )
        )


def revoke_token(session: OrmSession, name: str, now: dt.datetime) -> ApiToken:
    """Revoke a token and all tokens created with it. Raises UnknownAccountError if no token has this name."""
    found = token_by_name(session, name)
    if found is None:
        raise UnknownAccountError(phrase("There is no token '%(name)s'.", name=name), "name")
    if found.revoked_at is None:
        found.revoked_at = now
    return found


def principal_of_token(session: OrmSession, text: str, now: dt.datetime) -> tuple[Principal, dt.datetime] | None:
    """Return the caller of a token, None when it is invalid, and until when that holds without a look.

    A time that has come means that the last-used time is due for an update.
    """
    found = session.scalars(select(ApiToken).where(ApiToken.token_digest == digest(text))).one_or_none()
    rights = None if found is None else rights_of(session, found, now)
    if found is None or rights is None:
        return None
    noted_until = now if found.last_used_at is None else found.last_used_at + LAST_SEEN_STEP
    return _principal(found, rights), noted_until if rights.ends_at is None else min(noted_until, rights.ends_at)


def principal_of_token_id(session: OrmSession, token_id: int, now: dt.datetime) -> Principal | None:
    """Return the caller of a token by its number, None when it is invalid."""
    found = session.get(ApiToken, token_id)
    rights = None if found is None else rights_of(session, found, now)
    return None if found is None or rights is None else _principal(found, rights)


def _principal(token: ApiToken, rights: Rights) -> Principal:
    return Principal(
        kind="token", id=token.id, name=token.name, own_role=rights.role, grants=rights.grants, scopes=rights.scopes
    )


def touch_token(session: OrmSession, text: str, now: dt.datetime) -> None:
    """Update the last-used time of the token."""
    session.execute(update(ApiToken).where(ApiToken.token_digest == digest(text)).values(last_used_at=now))


def _role(name: str) -> Role:
    try:
        role = Role.of(name)
    except ValueError as unknown:
        raise AccountError(sentence_of(unknown), "role") from None
    if role is Role.NONE:
        raise AccountError(phrase("A token needs a role."), "role")
    return role
