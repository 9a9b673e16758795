"""Users, sessions and login links in the database: plain functions that run in one transaction each."""

import datetime as dt
from dataclasses import dataclass

from sqlalchemy import delete, exists, func, select, update
from sqlalchemy.orm import Session as OrmSession

from app.db.models import LoginLink, Session, User
from app.security.roles import Grant, Principal, Role
from app.security.secrets import digest, new_token
from app.security.text import plain_text
from app.texts import phrase, sentence_of

FIRST_USER = "admin"
LAST_SEEN_STEP = dt.timedelta(seconds=60)  # resolution of the idle time; each step costs one write
SESSIONS_MAX = 50  # per user; a further login ends the oldest
SESSIONS_SHOWN = 1_000  # in a list of all users


class AccountError(ValueError):
    """A refused request about accounts. The text is for the user; `field` names the wrong input, "" for none."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.field = field


class UnknownAccountError(AccountError):
    """The user, token or session does not exist."""


class AccountConflictError(AccountError):
    """The state of the accounts forbids the change: a name is taken, or no admin would remain."""


class AccountForbiddenError(AccountError):
    """The caller may not make this change."""


def check_name(name: str) -> str:
    """Return `name` if it is a valid name of a user or token. Raises AccountError."""
    if not 0 < len(name) <= 100:
        raise AccountError(phrase("The name has %(count)s characters; 1 to 100 are allowed.", count=len(name)), "name")
    if not name.isprintable() or name != name.strip() or name.startswith("token:"):
        raise AccountError(
            phrase("A name has printable characters only, no spaces at its ends, and does not start with 'token:'."),
            "name",
        )
    return name


def user_by_name(session: OrmSession, name: str) -> User | None:
    """Return the user of this name, also a disabled one, or None."""
    return session.scalars(select(User).where(User.name == plain_text(name))).one_or_none()


def users(session: OrmSession) -> list[User]:
    """Return all users by name."""
    return list(session.scalars(select(User).order_by(User.name)))


def add_user(session: OrmSession, name: str, role: str, password_hash: str | None, now: dt.datetime) -> User:
    """Add a user. Raises AccountError for a bad or taken name or an unknown role."""
    check_name(name)
    if user_by_name(session, name) is not None:
        raise AccountConflictError(phrase("A user '%(name)s' already exists.", name=name), "name")
    user = User(name=name, role=_role(role), password_hash=password_hash, created_at=now, password_changed_at=None)
    session.add(user)
    session.flush()
    return user


def change_user(session: OrmSession, name: str, now: dt.datetime, role: str | None, disabled: bool | None) -> User:
    """Change the role or state of a user. The user's sessions end.

    Raises AccountError for an unknown user or role, and when no user would remain who can manage users.
    """
    user = known_user(session, name) if role is None else _local_user(session, name)
    if role is not None:
        user.role = _role(role)
    if disabled is not None:
        user.disabled_at = now if disabled else None
    session.flush()
    _keep_an_admin(session)
    session.execute(delete(Session).where(Session.user_id == user.id))
    return user


def remove_user(session: OrmSession, name: str) -> None:
    """Remove a user with all sessions and the tokens that it created. Raises AccountError as `change_user` does."""
    user = known_user(session, name)
    session.delete(user)
    session.flush()
    _keep_an_admin(session)


def set_password(
    session: OrmSession, name: str, password_hash: str, now: dt.datetime, kept_session: str | None = None
) -> None:
    """Store a new password. The user's links and sessions end, except `kept_session`, in which it was changed.

    Raises AccountError when the user does not exist, or logs in at an OpenID issuer.
    """
    user = _local_user(session, name)
    user.password_hash = password_hash
    user.password_changed_at = now
    end_sessions(session, user.id, kept_session)
    session.execute(delete(LoginLink).where(LoginLink.user_id == user.id))
    if kept_session is not None:  # a session opened by a link has a password from now on
        kept = update(Session).where(Session.id_digest == digest(kept_session))
        session.execute(kept.values(opened_by="password"))


def _role(name: str) -> str:
    try:
        return Role.of(name).text
    except ValueError as unknown:
        raise AccountError(sentence_of(unknown), "role") from None


def _keep_an_admin(session: OrmSession) -> None:
    """Raise AccountConflictError unless an enabled admin remains who needs no OpenID issuer to log in."""
    admins = select(func.count()).where(User.role == Role.ADMIN.text, User.disabled_at.is_(None), User.issuer.is_(None))
    if session.scalar(admins) == 0:
        raise AccountConflictError(phrase("One enabled admin must remain."), "role")


def ensure_first_user(session: OrmSession, now: dt.datetime) -> bool:
    """Create the first admin when there are no users. Returns whether an admin has ever logged in."""
    if session.scalar(select(func.count(User.id))) == 0:
        add_user(session, FIRST_USER, Role.ADMIN.text, None, now)
    came_in = select(exists().where(User.role == Role.ADMIN.text, User.last_login_at.is_not(None)))
    return bool(session.scalar(came_in))


# sessions


def open_session(
    session: OrmSession,
    user_id: int,
    *,
    source: str,
    user_agent: str,
    opened_by: str,
    now: dt.datetime,
    absolute: dt.timedelta,
) -> str:
    """Start a session and return its id, which only the browser keeps. Expired sessions of all users are deleted."""
    session.execute(delete(Session).where(Session.expires_at <= now))
    own = select(Session.id).where(Session.user_id == user_id).order_by(Session.last_seen_at.desc(), Session.id.desc())
    session.execute(delete(Session).where(Session.id.in_(list(session.scalars(own.offset(SESSIONS_MAX - 1))))))
    token = new_token()
    session.add(
        Session(
            id_digest=digest(token),
            user_id=user_id,
            created_at=now,
            last_seen_at=now,
            expires_at=now + absolute,
            source=source[:64],
            user_agent=plain_text(user_agent, 255),
            opened_by=opened_by,
        )
    )
    session.execute(update(User).where(User.id == user_id).values(last_login_at=now))
    return token


def principal_of_session(
    session: OrmSession, token: str, now: dt.datetime, idle: dt.timedelta
) -> tuple[Principal, dt.datetime] | None:
    """Return the caller of a session, None when it has ended, and until when that holds without a look.

    A time that has come means that the last-seen time is due for an update.
    """
    found = session.scalars(select(Session).where(Session.id_digest == digest(token))).one_or_none()
    if found is None or not found.user.is_active:
        return None
    if found.expires_at <= now or found.last_seen_at + idle <= now:
        return None
    user = found.user
    own_role, grants = Role.of(user.role), grants_of(user)
    principal = Principal(kind="user", id=user.id, name=user.name, own_role=own_role, grants=grants, session_id=token)
    return principal, min(found.expires_at, found.last_seen_at + min(idle, LAST_SEEN_STEP))


def grants_of(user: User) -> tuple[Grant, ...]:
    """Return the grants of a user, always in the same order."""
    found = [Grant(each.cluster, each.topic_prefix, Role.of(each.role), each.from_group) for each in user.grants]
    return tuple(sorted(found, key=lambda each: (each.cluster, each.topic_prefix, each.from_group)))


def touch_session(session: OrmSession, token: str, now: dt.datetime) -> None:
    """Update the last-seen time of the session."""
    session.execute(update(Session).where(Session.id_digest == digest(token)).values(last_seen_at=now))


def close_session(session: OrmSession, token: str) -> None:
    """End the session."""
    session.execute(delete(Session).where(Session.id_digest == digest(token)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSession:
    """One session of a user. It ends at `ends_at` unless it is used. `is_present`: the session of the request."""

    id: int
    user: str
    created_at: dt.datetime
    last_seen_at: dt.datetime
    ends_at: dt.datetime
    source: str
    user_agent: str
    opened_by: str
    is_present: bool


def sessions_of(
    session: OrmSession, name: str | None, now: dt.datetime, idle: dt.timedelta, present: str | None
) -> list[OpenSession]:
    """Return the valid sessions of a user, or the last used ones of all users, the last used first.

    Raises AccountError when the user does not exist.
    """
    valid = select(Session).where(Session.expires_at > now, Session.last_seen_at > now - idle)
    if name is not None:
        valid = valid.where(Session.user_id == known_user(session, name).id)
    newest = valid.order_by(Session.last_seen_at.desc(), Session.id.desc()).limit(SESSIONS_SHOWN)
    return [
        OpenSession(
            id=each.id,
            user=each.user.name,
            created_at=each.created_at,
            last_seen_at=each.last_seen_at,
            ends_at=min(each.expires_at, each.last_seen_at + idle),
            source=each.source,
            user_agent=each.user_agent,
            opened_by=each.opened_by,
            is_present=present is not None and each.id_digest == digest(present),
        )
        for each in session.scalars(newest)
    ]


def end_session(session: OrmSession, name: str, session_id: int) -> None:
    """End one session of a user by its number. Raises AccountError when the user or the session does not exist."""
    user = known_user(session, name)
    found = session.get(Session, session_id)
    if found is None or found.user_id != user.id:
        raise UnknownAccountError(
            phrase("There is no session %(id)s of '%(name)s'.", id=session_id, name=name), "session"
        )
    session.delete(found)


def end_sessions(session: OrmSession, user_id: int, kept: str | None = None) -> None:
    """End all sessions of a user, except `kept`."""
    ended = delete(Session).where(Session.user_id == user_id)
    session.execute(ended if kept is None else ended.where(Session.id_digest != digest(kept)))


def end_sessions_of(session: OrmSession, name: str, kept: str | None) -> None:
    """End all sessions of a user, except `kept`. Raises AccountError when the user does not exist."""
    end_sessions(session, known_user(session, name).id, kept)


def opened_by_link(session: OrmSession, token: str) -> bool:
    """Return whether a one-time link opened the session, and no password has been set in it."""
    how = select(Session.opened_by).where(Session.id_digest == digest(token))
    return session.scalar(how) == "link"


def known_user(session: OrmSession, name: str) -> User:
    """Return the user of this name. Raises AccountError when there is none."""
    user = user_by_name(session, name)
    if user is None:
        raise UnknownAccountError(phrase("There is no user '%(name)s'.", name=name), "name")
    return user


def _local_user(session: OrmSession, name: str) -> User:
    """Return the user of this name. Raises AccountError when there is none, or when an OpenID issuer has the user."""
    user = known_user(session, name)
    if user.issuer is not None:
        raise AccountConflictError(
            phrase("'%(name)s' logs in at the login service, which also gives the role.", name=name), "name"
        )
    return user


def has_session_from(session: OrmSession, name: str, source: str) -> bool:
    """Return whether this user has a session from this source, and so is not locked out by attempts of others."""
    query = select(exists().where(User.name == name, Session.user_id == User.id, Session.source == source[:64]))
    return bool(session.scalar(query))


# login links


def make_login_link(
    session: OrmSession, user_name: str, now: dt.datetime, lifetime: dt.timedelta, *, is_way_in: bool = False
) -> str:
    """Return a token that logs `user_name` in once. Raises AccountError.

    Earlier links of the user end. A link created on this machine (`is_way_in`), not by an admin, also ends the earlier
    one of this kind, for any user: a database has one.
    """
    user = _local_user(session, user_name)
    ended = LoginLink.user_id == user.id
    session.execute(delete(LoginLink).where(ended | LoginLink.is_way_in if is_way_in else ended))
    token = new_token()
    session.add(
        LoginLink(
            token_digest=digest(token),
            user_id=user.id,
            created_at=now,
            expires_at=now + lifetime,
            is_way_in=is_way_in,
        )
    )
    return token


def invited_by_link(session: OrmSession, token: str, now: dt.datetime) -> str | None:
    """Return the name of the user who has to choose a password with this link, None when it is of no such kind.

    That is a link that an admin created for a user without a password.
    """
    link = session.scalars(select(LoginLink).where(LoginLink.token_digest == digest(token))).one_or_none()
    if link is None or link.used_at is not None or link.expires_at <= now or link.is_way_in:
        return None
    return link.user.name if link.user.is_active and link.user.password_hash is None else None


def use_login_link(session: OrmSession, token: str, now: dt.datetime) -> User | None:
    """Use up the link and return its user. None when the link is unknown, used or expired, or the user is disabled."""
    link = session.scalars(
        select(LoginLink).where(LoginLink.token_digest == digest(token)).with_for_update(of=LoginLink)
    ).one_or_none()
    if link is None or link.used_at is not None or link.expires_at <= now or not link.user.is_active:
        return None
    link.used_at = now
    return link.user
