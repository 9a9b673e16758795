"""Users of an OpenID issuer in the database. A user is identified by issuer and subject; the name is only shown."""

import datetime as dt
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session as OrmSession

from app.db.models import User
from app.security.accounts import (
    AccountConflictError,
    AccountForbiddenError,
    check_name,
    end_sessions,
    user_by_name,
)
from app.security.roles import Role
from app.texts import phrase


@dataclass(frozen=True, slots=True)
class Identity:
    """A user at an issuer."""

    issuer: str
    subject: str


def log_in(session: OrmSession, identity: Identity, name: str, role: Role, now: dt.datetime) -> User:
    """Return the user of an identity with the role of this login; the first login adds the user.

    Raises AccountForbiddenError for a disabled user, AccountConflictError when the name of a new user belongs to
    somebody else, and AccountError for a name that no user can have.
    """
    user = _user_of(session, identity)
    if user is None:
        check_name(name)
        if user_by_name(session, name) is not None:
            raise AccountConflictError(
                phrase(
                    "The name '%(name)s' belongs to another user of Conclave. Ask an administrator to remove that "
                    "user, or for another name at the login service.",
                    name=name,
                ),
                "name",
            )
        user = User(name=name, issuer=identity.issuer, subject=identity.subject, created_at=now)
        session.add(user)
    elif user.disabled_at is not None:
        raise AccountForbiddenError(phrase("The user '%(name)s' is disabled.", name=user.name), "name")
    user.role, user.role_lost_at = role.text, None
    session.flush()
    return user


def lose_role(session: OrmSession, identity: Identity, now: dt.datetime) -> None:
    """End the sessions, and the rights of the tokens, of a user whose groups no longer give a role."""
    user = _user_of(session, identity)
    if user is not None:
        user.role_lost_at = user.role_lost_at or now
        end_sessions(session, user.id)


def _user_of(session: OrmSession, identity: Identity) -> User | None:
    wanted = (User.issuer == identity.issuer, User.subject == identity.subject)
    return session.scalars(select(User).where(*wanted)).one_or_none()
