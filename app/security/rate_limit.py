"""Counts wrong logins per account and per source, over a sliding window, for all web processes of a database.

Only failures are written. A key that must wait adds none, so a flood of attempts costs reads.
"""

import datetime as dt
import hashlib
import math
from collections.abc import Callable

from sqlalchemy import delete, select
from sqlalchemy.orm import Session as OrmSession

from app.db.database import Database
from app.db.models import LoginFailure


class RateLimit:
    """At most `attempts_max` failures per key within `window_seconds`, among those of this `kind`.

    `clock` returns the current time. The clocks of web processes should differ by little.
    """

    def __init__(
        self, database: Database, kind: str, attempts_max: int, window_seconds: int, clock: Callable[[], dt.datetime]
    ) -> None:
        self._database = database
        self._kind = kind
        self._attempts_max = attempts_max
        self._window = dt.timedelta(seconds=window_seconds)
        self._clock = clock

    async def retry_after_seconds(self, key: str) -> int:
        """Return 0 when `key` may try now, else the whole seconds until it may."""
        now = self._clock()
        return await self._database.read(self._wait, self._digest(key), now)

    async def failed(self, key: str) -> None:
        """Count one failure of `key`."""
        await self._database.write(self._add, self._digest(key), self._clock())

    async def succeeded(self, key: str) -> None:
        """Forget the failures of `key`."""
        own = LoginFailure.key_digest == self._digest(key)
        if await self._database.read(lambda session: session.scalar(select(LoginFailure.id).where(own).limit(1))):
            await self._database.write(lambda session: session.execute(delete(LoginFailure).where(own)))

    def _digest(self, key: str) -> str:
        return hashlib.sha256(f"{self._kind}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()

    def _wait(self, session: OrmSession, key: str, now: dt.datetime) -> int:
        times = select(LoginFailure.at).where(LoginFailure.key_digest == key, LoginFailure.at > now - self._window)
        newest = session.scalars(times.order_by(LoginFailure.at.desc()).limit(self._attempts_max)).all()
        if len(newest) < self._attempts_max:
            return 0
        return max(1, math.ceil((newest[-1] + self._window - now).total_seconds()))

    def _add(self, session: OrmSession, key: str, now: dt.datetime) -> None:
        session.execute(delete(LoginFailure).where(LoginFailure.at <= now - self._window))
        session.add(LoginFailure(key_digest=key, at=now))
