"""Users of an OpenID issuer in the database. A user is identified by issuer and subject; the name is only shown."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session as OrmSession

from app.db.models import RoleGrant, User
from app.security.accounts import (
    AccountConflictError,
    AccountForbiddenError,
    check_name,
    end_sessions,
    user_by_name,
)
from app.security.roles import Grant, Role
from app.texts import phrase


@dataclass(frozen=True, slots=True)
class Identity:
    """A user at an issuer."""

    issuer: str
    subject: str


def log_in(
    session: OrmSession, identity: Identity, name: str, role: Role, grants: Sequence[Grant], now: dt.datetime
) -> User:
    """Return the user of an identity with the role and the grants of this login; the first login adds the user.

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
        user = User(name=name, issuer=identity.issuer, subject=identity.subject, created_at=now, grants=[])
        session.add(user)
    elif user.disabled_at is not None:
        raise AccountForbiddenError(phrase("The user '%(name)s' is disabled.", name=user.name), "name")
    user.role, user.role_lost_at = role.text, None
    _take_group_grants(user, grants)
    session.flush()
    return user


def _take_group_grants(user: User, grants: Sequence[Grant]) -> None:
    """Replace the grants of a user's groups. Those of administrators stay."""
    wanted = {(each.cluster, each.topic_prefix, each.from_group): each.role.text for each in grants}
    for row in list(user.grants):
        place = (row.cluster, row.topic_prefix, row.from_group)
        if place in wanted:
            row.role = wanted.pop(place)
        elif row.from_group:
            user.grants.remove(row)
    for (cluster, prefix, group), role in wanted.items():
        user.grants.append(RoleGrant(cluster=cluster, topic_prefix=prefix, from_group=group, role=role))


def lose_role(session: OrmSession, identity: Identity, now: dt.datetime) -> None:
    """End the sessions, and the rights of the tokens, of a user whose groups no longer give a role."""
    user = _user_of(session, identity)
    if user is not None:
        user.role_lost_at = user.role_lost_at or now
        _take_group_grants(user, ())
        end_sessions(session, user.id)


def _user_of(session: OrmSession, identity: Identity) -> User | None:
    wanted = (User.issuer == identity.issuer, User.subject == identity.subject)
    return session.scalars(select(User).where(*wanted).with_for_update(of=User)).one_or_none()
