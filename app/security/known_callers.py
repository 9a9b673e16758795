"""Callers by their credentials, kept for as long as the database stays as it was when they were looked up.

Each request asks the database for a number that every commit changes, whichever process makes it. While that number is
the same, so are the rights of a caller, until a time: its session or token ends, or its last use must be noted again.
So a revoked token is refused at its next request, as without this memory. Where a database has no such number, each
request looks its caller up.
"""

import datetime as dt
from collections.abc import Callable
from typing import Concatenate, Final, ParamSpec, TypeAlias

from sqlalchemy.orm import Session as OrmSession

from app.db.database import Database
from app.security.roles import Principal
from app.security.secrets import digest

P = ParamSpec("P")

CALLERS_MAX: Final = 1_024

Found: TypeAlias = tuple[Principal, dt.datetime]
"""A caller, and the time at which it must be looked up again."""


class KnownCallers:
    """The callers of one process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen: int | None = None
        self._found: dict[str, Found] = {}

    async def find(
        self,
        secret: str,
        now: dt.datetime,
        look: Callable[Concatenate[OrmSession, P], Found | None],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Found | None:
        """Return the caller of a token or session id, looked up by `look` if necessary; None for an unknown one."""
        version = self._database.version()  # before the lookup: a commit in between makes what was found old
        if version is None:
            return await self._database.read(look, *args, **kwargs)
        if version != self._seen:
            self._seen = version
            self._found.clear()
        key = digest(secret)
        known = self._found.get(key)
        if known is not None and now < known[1]:
            return known
        found = await self._database.read(look, *args, **kwargs)
        if found is not None and version == self._seen and len(self._found) < CALLERS_MAX:
            self._found[key] = found
        return found
