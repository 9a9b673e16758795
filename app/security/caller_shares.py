"""Shares the limits per caller among the web processes of one PostgreSQL, so that they hold for all together.

1. A process lets a caller have an eighth of each limit without asking. This costs nothing, and needs no database.
2. Beyond it, the process leases slots for that caller, in blocks of this size: one transaction for all requests that
   wait for it. A lease is granted if the shares of all processes stay within the limit.
3. Every 3 s a process extends its leases, and returns those that its callers have not needed since the last time. A
   process that stops returns all; one that was killed loses them after 15 s.
4. While the database is unavailable, leases that have not expired stay; nothing more is leased.

So the shares of up to eight processes never exceed the limit, except when a process starts while others have leased all
of it: by one eighth, until those extend their leases. On SQLite, for a single process, nothing is shared.
"""

import asyncio
import contextlib
import datetime as dt
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import structlog
from sqlalchemy import delete, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session as OrmSession

from app.db.base import utc_now
from app.db.database import Database
from app.db.locks import Lock, hold
from app.db.models import WebProcess
from app.db.outage import DatabaseUnavailableError
from app.security.slots import Pool
from app.tasks import cancel_tasks

log = structlog.get_logger(__name__)

PARTS: Final = 8
"""A process has this part of each limit without a lease."""
RENEW_SECONDS: Final = 3.0
LEASE_SECONDS: Final = 15
"""How long leases outlive the last extension by their process. The clocks of web processes must differ by less."""
REFUSED_SECONDS: Final = 0.5
"""For how long nothing is leased for a caller after a refusal, so that refused requests cost no transactions."""

Leases = dict[str, dict[str, int]]
"""Slots by the name of their pool and by holder."""


class CallerShares:
    """The leases of this process in the limits of `pools`. Runs from `start` to `stop`."""

    def __init__(
        self, database: Database, pools: Mapping[str, Pool], clock: Callable[[], dt.datetime] = utc_now
    ) -> None:
        self._database = database
        self._pools = pools
        self._clock = clock
        self._process = secrets.token_hex(16)
        self._wanted: Counter[tuple[str, str]] = Counter()  # slots that requests wait for, by pool and holder
        self._refused: dict[tuple[str, str], float] = {}  # until when nothing more is leased
        self._asked = asyncio.Event()
        self._next: asyncio.Future[None] | None = None  # the end of the next transaction; None while nothing is shared
        self._valid_until = 0.0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Share the limits from now on. Raises DatabaseUnavailableError. Does nothing on SQLite."""
        if self._database.engine.dialect.name != "postgresql":
            return
        await self._database.write(agree, self._process, {}, {}, self._clock())
        for pool in self._pools.values():
            pool.free = max(1, pool.each_max // PARTS)
            pool.peaks = {holder: held for holder, held in pool.held.items() if held > pool.free}
            pool.lease = self._lease
        self._next = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(), name="caller-shares")

    async def stop(self) -> None:
        """Return all leases. Raises DatabaseUnavailableError."""
        await cancel_tasks(self._task)
        if self._next is not None:
            self._next.set_result(None)
            self._next = None
            own = delete(WebProcess).where(WebProcess.id == self._process)
            await self._database.write(lambda session: session.execute(own))

    async def _lease(self, pool: Pool, holder: str, amount: int) -> None:
        """Wait until the holder can take this amount, or is refused."""
        key = (next(name for name, each in self._pools.items() if each is pool), holder)
        loop = asyncio.get_running_loop()
        while self._next is not None and pool.lacks(holder, amount) and self._refused.get(key, 0.0) <= loop.time():
            self._wanted[key] += amount
            self._asked.set()
            await asyncio.shield(self._next)

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        renew_at = clock() + RENEW_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), renew_at - clock())
            self._asked.clear()
            await self._agree()
            if clock() >= renew_at:
                renew_at = clock() + RENEW_SECONDS
                for pool in self._pools.values():
                    pool.peaks = {holder: held for holder, held in pool.held.items() if held > pool.free}

    async def _agree(self) -> None:
        """Lease what is needed, return what is not, and let the requests that wait for it continue."""
        done, self._next = self._next, asyncio.get_running_loop().create_future()
        wanted, self._wanted = self._wanted, Counter()
        try:
            await self._exchange(wanted)
        finally:
            if done is not None:
                done.set_result(None)

    async def _exchange(self, wanted: Mapping[tuple[str, str], int]) -> None:
        clock = asyncio.get_running_loop().time
        begun_at, needs = clock(), self._needs(wanted)
        for name, pool in self._pools.items():  # what is returned is not used while the others learn of it
            pool.leased = {holder: min(n, needs[name].get(holder, 0)) for holder, n in pool.leased.items()}
        limits = {name: (pool.free, pool.each_max) for name, pool in self._pools.items()}
        try:
            granted = await self._database.write(agree, self._process, limits, needs, self._clock())
        except SQLAlchemyError as error:
            if not isinstance(error, DatabaseUnavailableError):
                log.exception("limits_not_shared")
            is_expired = clock() >= self._valid_until
            granted = {name: {} if is_expired else pool.leased for name, pool in self._pools.items()}
        else:
            self._valid_until = begun_at + LEASE_SECONDS
        self._refused = {key: until for key, until in self._refused.items() if until > clock()}
        for name, pool in self._pools.items():
            pool.leased = granted[name]
        for (name, holder), amount in wanted.items():
            pool = self._pools[name]
            if pool.held[holder] + amount > max(pool.free, pool.leased.get(holder, 0)):
                self._refused[name, holder] = clock() + REFUSED_SECONDS

    def _needs(self, wanted: Mapping[tuple[str, str], int]) -> Leases:
        """Return the slots that each holder above the free share needs, as whole blocks."""
        needs: Leases = {}
        for name, pool in self._pools.items():
            most = dict(pool.peaks)
            for holder in (each for other, each in wanted if other == name):
                most[holder] = max(most.get(holder, 0), pool.held[holder] + wanted[name, holder])
            needs[name] = {
                holder: min(pool.each_max, -(-each // pool.free) * pool.free)
                for holder, each in most.items()
                if each > pool.free
            }
        return needs


def agree(
    session: OrmSession, process: str, limits: Mapping[str, tuple[int, int]], asked: Leases, now: dt.datetime
) -> Leases:
    """Replace the leases of a process by those asked for, as far as the shares of the others allow. Return them.

    `limits`: of each pool, what every process may use without a lease, and what all together may use.
    """
    hold(session, Lock.CALLER_SHARES)
    session.execute(delete(WebProcess).where(WebProcess.lease_until < now))
    others = session.scalars(select(WebProcess.leased).where(WebProcess.id != process)).all()
    granted: Leases = {}
    for name, holders in asked.items():
        free, most = limits[name]
        granted[name] = {}
        for holder, wanted in holders.items():
            left = most - sum(max(free, other.get(name, {}).get(holder, 0)) for other in others)
            if min(wanted, left) > free:
                granted[name][holder] = min(wanted, left)
    own = session.get(WebProcess, process) or WebProcess(id=process)
    own.lease_until, own.leased = now + dt.timedelta(seconds=LEASE_SECONDS), granted
    session.add(own)
    return granted
