"""Roles of users in one cluster or for a prefix of topics, beyond their own: as admins give and take them.

The grants that groups of an OpenID issuer give are made by `identities`, at logins.
"""

import re
from collections.abc import Collection
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session as OrmSession

from app.db.database import Database
from app.db.models import RoleGrant
from app.security.accounts import AccountConflictError, AccountError, UnknownAccountError, grants_of, known_user
from app.security.recorder import RequestInfo
from app.security.roles import Grant, Place, Principal, Role
from app.security.service import Security, check_may_make_users
from app.texts import joined, phrase

GRANTS_MAX: Final = 100
"""How many grants an admin may give to a user: each request reads them."""
_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]{0,249}")


class RoleGrants:
    """The grants of all users. Those of groups come and go with logins at the issuer, and cannot be changed here."""

    def __init__(self, security: Security, database: Database) -> None:
        self._security = security
        self._database = database

    async def of(self, name: str) -> tuple[Grant, ...]:
        """Return the grants of a user, by cluster and prefix. Raises AccountError."""
        return await self._database.read(lambda session: grants_of(known_user(session, name)))

    async def put(
        self,
        principal: Principal,
        name: str,
        grant: Grant,
        clusters: Collection[str],
        info: RequestInfo,
        *,
        validate_only: bool = False,
    ) -> tuple[Grant, ...]:
        """Give a user a role in one of `clusters`, instead of the one given there before, and return all grants.

        Raises AccountError.
        """
        check_may_make_users(principal)
        check_place(Place(grant.cluster, grant.topic_prefix), clusters)
        if grant.role is Role.NONE:
            raise AccountError(phrase("A grant needs a role: viewer, editor or admin."), "role")
        write = self._database.dry_run if validate_only else self._database.write
        found = await write(_put, name, grant)
        if not validate_only:
            self._security.streams.check_soon()
            await self._record(principal, "user.grant", name, grant, info)
        return found

    async def remove(
        self,
        principal: Principal,
        name: str,
        cluster: str,
        topic_prefix: str,
        info: RequestInfo,
        *,
        validate_only: bool = False,
    ) -> None:
        """Take a grant from a user. Raises AccountError."""
        check_may_make_users(principal)
        write = self._database.dry_run if validate_only else self._database.write
        grant = await write(_remove, name, cluster, topic_prefix)
        if not validate_only:
            self._security.streams.check_soon()
            await self._record(principal, "user.revoke-grant", name, grant, info)

    async def _record(self, principal: Principal, action: str, name: str, grant: Grant, info: RequestInfo) -> None:
        detail = {"cluster": grant.cluster, "topic_prefix": grant.topic_prefix, "role": grant.role.text}
        await self._security.record(principal.actor, action, f"user/{name}", "ok", info, detail=detail)


def check_place(place: Place, clusters: Collection[str]) -> None:
    """Raise AccountError for an unknown cluster, or for a prefix that no topic can have."""
    if place.cluster not in clusters:
        known = joined(", ", sorted(each or "''" for each in clusters))
        text = phrase("cluster '%(key)s' is not one of %(known)s.", key=place.cluster[:60], known=known)
        raise AccountError(text, "cluster")
    if _PREFIX.fullmatch(place.topic_prefix) is None:
        text = phrase(
            "'%(prefix)s' starts no topic name: letters, digits, '.', '_' and '-' are allowed.",
            prefix=place.topic_prefix[:80],
        )
        raise AccountError(text, "topic_prefix")


def place_of(cluster: str | None, topic_prefix: str, clusters: Collection[str]) -> Place | None:
    """Return where a token is to be valid, None for everywhere. Raises AccountError."""
    if cluster is None:
        if topic_prefix:
            raise AccountError(phrase("A prefix of topics needs a cluster."), "topic_prefix")
        return None
    place = Place(cluster, topic_prefix)
    check_place(place, clusters)
    return place


def _put(session: OrmSession, name: str, grant: Grant) -> tuple[Grant, ...]:
    user = known_user(session, name)
    given = [row for row in user.grants if not row.from_group]
    for row in given:
        if (row.cluster, row.topic_prefix) == (grant.cluster, grant.topic_prefix):
            row.role = grant.role.text
            return grants_of(user)
    if len(given) >= GRANTS_MAX:
        raise AccountConflictError(phrase("A user may have %(most)s grants.", most=GRANTS_MAX))
    user.grants.append(RoleGrant(cluster=grant.cluster, topic_prefix=grant.topic_prefix, role=grant.role.text))
    session.flush()
    return grants_of(user)


def _remove(session: OrmSession, name: str, cluster: str, topic_prefix: str) -> Grant:
    user = known_user(session, name)
    wanted = (RoleGrant.user_id == user.id, RoleGrant.cluster == cluster, RoleGrant.topic_prefix == topic_prefix)
    row = session.scalar(select(RoleGrant).where(*wanted).order_by(RoleGrant.from_group))
    if row is None:
        raise UnknownAccountError(phrase("'%(name)s' has no such grant.", name=name))
    if row.from_group:
        raise AccountConflictError(
            phrase(
                "'%(name)s' has this role from the group '%(group)s': take it at the login service, or in oidc_roles.",
                name=name,
                group=row.from_group,
            )
        )
    session.delete(row)
    return Grant(row.cluster, row.topic_prefix, Role.of(row.role))
