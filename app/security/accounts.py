"""Users, sessions, login links and tokens in the database: plain functions that run in one transaction each."""

import datetime as dt

from sqlalchemy import delete, exists, func, select, update
from sqlalchemy.orm import Session as OrmSession

from app.db.models import ApiToken, LoginLink, Session, User
from app.security.roles import SCOPES, Principal, Role
from app.security.secrets import digest, new_token

FIRST_USER = "admin"
LAST_SEEN_STEP = dt.timedelta(seconds=60)  # how exactly the idle time is kept; each step costs one write


class AccountError(ValueError):
    """A request about accounts that cannot be carried out; the text is for the user. `field` names what was wrong."""

    def __init__(self, message: str, field: str = "", *, conflict: bool = False) -> None:
        super().__init__(message)
        self.field = field
        self.conflict = conflict


def check_name(name: str) -> str:
    """Return `name` if it can name a user or token. Raises AccountError."""
    if not 0 < len(name) <= 100:
        raise AccountError("A name has 1 to 100 characters.", "name")
    if not name.isprintable() or name != name.strip() or name.startswith("token:"):
        raise AccountError(
            "A name has printable characters only, no space at its ends, and does not begin with 'token:'.", "name"
        )
    return name


def user_by_name(session: OrmSession, name: str) -> User | None:
    """Return the user of this name, disabled ones too."""
    return session.scalars(select(User).where(User.name == name)).one_or_none()


def users(session: OrmSession) -> list[User]:
    """Return all users by name."""
    return list(session.scalars(select(User).order_by(User.name)))


def add_user(session: OrmSession, name: str, role: str, password_hash: str | None, now: dt.datetime) -> User:
    """Add a user. Raises AccountError for a bad or taken name or an unknown role."""
    check_name(name)
    if user_by_name(session, name) is not None:
        raise AccountError(f"There is a user '{name}' already.", "name", conflict=True)
    user = User(name=name, role=_role(role), password_hash=password_hash, created_at=now, password_changed_at=None)
    session.add(user)
    session.flush()
    return user


def change_user(session: OrmSession, name: str, now: dt.datetime, role: str | None, disabled: bool | None) -> User:
    """Change role or state of a user; a changed or disabled user's sessions end.

    Raises AccountError: no such user, unknown role, or nobody would be left who can manage users.
    """
    user = user_by_name(session, name)
    if user is None:
        raise AccountError(f"There is no user '{name}'.", "name")
    if role is not None:
        user.role = _role(role)
    if disabled is not None:
        user.disabled_at = now if disabled else None
    session.flush()
    _keep_an_admin(session)
    session.execute(delete(Session).where(Session.user_id == user.id))
    return user


def remove_user(session: OrmSession, name: str) -> None:
    """Remove a user with all sessions. Raises AccountError as `change_user` does."""
    user = user_by_name(session, name)
    if user is None:
        raise AccountError(f"There is no user '{name}'.", "name")
    session.delete(user)
    session.flush()
    _keep_an_admin(session)


def set_password(session: OrmSession, name: str, password_hash: str, now: dt.datetime) -> None:
    """Store a new password; every session of the user ends. Raises AccountError when there is no such user."""
    user = user_by_name(session, name)
    if user is None:
        raise AccountError(f"There is no user '{name}'.", "name")
    user.password_hash = password_hash
    user.password_changed_at = now
    session.execute(delete(Session).where(Session.user_id == user.id))
    session.execute(delete(LoginLink).where(LoginLink.user_id == user.id))


def _role(name: str) -> str:
    try:
        return Role.of(name).text
    except ValueError as unknown:
        raise AccountError(str(unknown), "role") from None


def _keep_an_admin(session: OrmSession) -> None:
    admins = select(func.count()).where(User.role == Role.ADMIN.text, User.disabled_at.is_(None))
    if session.scalar(admins) == 0:
        raise AccountError("One enabled admin must remain.", "role", conflict=True)


def ensure_first_user(session: OrmSession, now: dt.datetime) -> bool:
    """Make the first admin when there are no users yet; say whether anybody has ever come in by then."""
    if session.scalar(select(func.count(User.id))) == 0:
        add_user(session, FIRST_USER, Role.ADMIN.text, None, now)
    came_in = select(exists().where(User.role == Role.ADMIN.text, User.last_login_at.is_not(None)))
    return bool(session.scalar(came_in))


# sessions


def open_session(session: OrmSession, user_id: int, source: str, now: dt.datetime, absolute: dt.timedelta) -> str:
    """Start a session and return its id, which only the browser keeps. Old sessions of everybody are swept."""
    session.execute(delete(Session).where(Session.expires_at <= now))
    token = new_token()
    session.add(
        Session(
            id_digest=digest(token),
            user_id=user_id,
            created_at=now,
            last_seen_at=now,
            expires_at=now + absolute,
            source=source[:64],
        )
    )
    session.execute(update(User).where(User.id == user_id).values(last_login_at=now))
    return token


def principal_of_session(
    session: OrmSession, token: str, now: dt.datetime, idle: dt.timedelta
) -> tuple[Principal, bool] | None:
    """Return who the session belongs to, and whether its last-seen time should be moved; None when it has ended."""
    found = session.scalars(select(Session).where(Session.id_digest == digest(token))).one_or_none()
    if found is None or found.user.disabled_at is not None:
        return None
    if found.expires_at <= now or found.last_seen_at + idle <= now:
        return None
    user = found.user
    principal = Principal(kind="user", id=user.id, name=user.name, role=Role.of(user.role), session_id=token)
    return principal, found.last_seen_at + LAST_SEEN_STEP <= now


def touch_session(session: OrmSession, token: str, now: dt.datetime) -> None:
    """Note that the session was used."""
    session.execute(update(Session).where(Session.id_digest == digest(token)).values(last_seen_at=now))


def close_session(session: OrmSession, token: str) -> None:
    """End the session."""
    session.execute(delete(Session).where(Session.id_digest == digest(token)))


def was_here_before(session: OrmSession, name: str, source: str) -> bool:
    """Whether this user has a session from this source: such a user is not locked out by a stranger's attempts."""
    query = select(exists().where(User.name == name, Session.user_id == User.id, Session.source == source[:64]))
    return bool(session.scalar(query))


# login links


def make_login_link(session: OrmSession, user_name: str, now: dt.datetime, lifetime: dt.timedelta) -> str:
    """Return a token that logs `user_name` in once; earlier links of the user end. Raises AccountError."""
    user = user_by_name(session, user_name)
    if user is None:
        raise AccountError(f"There is no user '{user_name}'.", "name")
    session.execute(delete(LoginLink).where(LoginLink.user_id == user.id))
    token = new_token()
    session.add(LoginLink(token_digest=digest(token), user_id=user.id, created_at=now, expires_at=now + lifetime))
    return token


def use_login_link(session: OrmSession, token: str, now: dt.datetime) -> User | None:
    """Use up the link and return its user; None when it is unknown, used or too old, or the user is disabled."""
    link = session.scalars(
        select(LoginLink).where(LoginLink.token_digest == digest(token)).with_for_update(of=LoginLink)
    ).one_or_none()
    if link is None or link.used_at is not None or link.expires_at <= now or link.user.disabled_at is not None:
        return None
    link.used_at = now
    return link.user


# API tokens


def tokens(session: OrmSession) -> list[ApiToken]:
    """Return all tokens by name, revoked ones too."""
    return list(session.scalars(select(ApiToken).order_by(ApiToken.name)))


def add_token(
    session: OrmSession,
    *,
    name: str,
    role: str,
    scopes: list[str],
    created_by: str,
    now: dt.datetime,
    expires_at: dt.datetime | None,
    token: str | None = None,
) -> tuple[ApiToken, str]:
    """Add a token and return it with its text, which is nowhere kept. Raises AccountError."""
    check_name(name)
    if session.scalars(select(ApiToken).where(ApiToken.name == name)).one_or_none() is not None:
        raise AccountError(f"There is a token '{name}' already.", "name", conflict=True)
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown:
        raise AccountError(f"Unknown scope {', '.join(unknown)}; known: {', '.join(SCOPES)}.", "scopes")
    if expires_at is not None and expires_at <= now:
        raise AccountError("The token would have expired already.", "expires_at")
    text = token or new_token("cnc_")
    made = ApiToken(
        name=name,
        token_digest=digest(text),
        hint=text[:8] if token is None else "",  # a token somebody chose may be short: show none of it
        role=_role(role),
        scopes=sorted(set(scopes)),
        created_by=created_by,
        created_at=now,
        expires_at=expires_at,
    )
    session.add(made)
    session.flush()
    return made, text


def revoke_token(session: OrmSession, name: str, now: dt.datetime) -> ApiToken:
    """Revoke a token for good. Raises AccountError when there is none of this name."""
    found = session.scalars(select(ApiToken).where(ApiToken.name == name)).one_or_none()
    if found is None:
        raise AccountError(f"There is no token '{name}'.", "name")
    if found.revoked_at is None:
        found.revoked_at = now
    return found


def principal_of_token(session: OrmSession, text: str, now: dt.datetime) -> tuple[Principal, bool] | None:
    """Return who the token stands for, and whether its last-used time should be moved; None when it is no good."""
    found = session.scalars(select(ApiToken).where(ApiToken.token_digest == digest(text))).one_or_none()
    if found is None or found.revoked_at is not None or (found.expires_at is not None and found.expires_at <= now):
        return None
    principal = Principal(
        kind="token", id=found.id, name=found.name, role=Role.of(found.role), scopes=frozenset(found.scopes)
    )
    return principal, found.last_used_at is None or found.last_used_at + LAST_SEEN_STEP <= now


def touch_token(session: OrmSession, text: str, now: dt.datetime) -> None:
    """Note that the token was used."""
    session.execute(update(ApiToken).where(ApiToken.token_digest == digest(text)).values(last_used_at=now))
