"""Limits on concurrent use per caller, so that no caller can take the process from the others.

    health    /healthz, /readyz, /metrics           separate slots: probes are answered under any load
    login     /login and below it, /static/         separate slots, with a limit per source
    streams   event streams                         a limit per caller, and a limit for all
    requests  everything else                       a limit per caller, and a limit for all

A caller is a user, a token or, when anonymous, an address. A refusal is 429 when the caller has too much and 503 when
all have, both with Retry-After. Bodies are counted in bytes, from their arrival until their request is done. The limits
per caller on streams, requests and bodies hold over all web processes of a PostgreSQL: see caller_shares.
Credentials are looked up for a few requests of one source at a time; further requests of that source wait.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final, Self

from app.http.errors import TooManyRequestsError, UnavailableError
from app.texts import phrase

HEALTH_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics"})
LOGIN_PATHS: Final = frozenset({"/login", "/login/code", "/login/link", "/login/oidc", "/login/oidc/callback"})
STREAM_ENDS: Final = ("/events", "/metadata/watch")

HEALTH_MAX: Final = 64
LOGIN_MAX: Final = 512
LOGIN_OF_SOURCE_MAX: Final = 32
REQUESTS_MAX: Final = 1_024
REQUESTS_OF_CALLER_MAX: Final = 256
LOOKUPS_OF_SOURCE: Final = 8
BODIES_BYTES_MAX: Final = 64 << 20
BODIES_OF_CALLER_BYTES_MAX: Final = 16 << 20
STRANGERS_BODY_BYTES_MAX: Final = 16 << 10
RETRY_AFTER_SECONDS: Final = 1


Lease = Callable[["Pool", str, int], Awaitable[None]]
"""Leases slots for a holder from the share of all processes, as far as there are any."""


@dataclass(slots=True)
class Pool:
    """Slots of one kind: `each_max` per holder, `total_max` for all. `what` is the plural in refusals.

    A holder may have `free` slots without a lease: all of them unless the limit is shared with other processes. Above
    that it may have what is `leased` for it; `peaks` are the most that such holders have had lately.
    """

    what: str
    total_max: int
    each_max: int
    total: int = 0
    held: Counter[str] = field(default_factory=Counter)
    free: int = field(init=False)
    leased: dict[str, int] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)
    lease: Lease | None = None

    def __post_init__(self) -> None:
        """Let a holder have all slots: without other processes nothing is leased."""
        self.free = self.each_max

    async def prepare(self, holder: str, amount: int = 1) -> None:
        """Lease slots if the holder needs a lease to take this amount."""
        if self.lease is not None and self.lacks(holder, amount):
            await self.lease(self, holder, amount)

    def lacks(self, holder: str, amount: int = 1) -> bool:
        """Return whether a lease would let the holder take this amount."""
        wanted = self.held[holder] + amount
        return wanted > self.free and self.leased.get(holder, 0) < wanted <= self.each_max

    def take(self, holder: str, amount: int = 1) -> None:
        """Take slots. Raises TooManyRequestsError or UnavailableError, and has taken none then."""
        wanted = self.held[holder] + amount
        if wanted > self.free and wanted > self.leased.get(holder, 0):
            raise _refused(
                TooManyRequestsError,
                42902,
                phrase(
                    "You have too many %(what)s at once; at most %(most)s are allowed. Try again later.",
                    what=self.what,
                    most=f"{self.each_max:,}",
                ),
            )
        if self.total + amount > self.total_max:
            raise _refused(
                UnavailableError,
                50302,
                phrase(
                    "There are too many %(what)s at once; at most %(most)s are served. Try again later.",
                    what=self.what,
                    most=f"{self.total_max:,}",
                ),
            )
        self.held[holder] = wanted
        self.total += amount
        if wanted > self.free and wanted > self.peaks.get(holder, 0):
            self.peaks[holder] = wanted

    def give_back(self, holder: str, amount: int = 1) -> None:
        """Return slots."""
        self.total -= amount
        self.held[holder] -= amount
        if self.held[holder] <= 0:
            del self.held[holder]

    @contextmanager
    def slot(self, holder: str) -> Iterator[None]:
        """Hold one slot. Raises TooManyRequestsError or UnavailableError."""
        self.take(holder)
        try:
            yield
        finally:
            self.give_back(holder)


class Held:
    """What one holder has taken of a pool, in pieces. All of it is returned at the end."""

    def __init__(self, pool: Pool, holder: str) -> None:
        self._pool = pool
        self._holder = holder
        self._amount = 0

    async def take(self, amount: int) -> None:
        """Take more. Raises TooManyRequestsError or UnavailableError."""
        if self._pool.lacks(self._holder, amount):
            await self._pool.prepare(self._holder, amount)
        self._pool.take(self._holder, amount)
        self._amount += amount

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._amount:
            self._pool.give_back(self._holder, self._amount)


class Slots:
    """The slots of one process with `connections` connections and a largest body of `body_bytes_max`."""

    def __init__(self, connections: int, body_bytes_max: int) -> None:
        self.health = Pool(phrase("probes"), HEALTH_MAX, HEALTH_MAX)
        self.login = Pool(phrase("requests of the login page"), LOGIN_MAX, LOGIN_OF_SOURCE_MAX)
        self.streams = Pool(phrase("event streams"), connections * 5 // 8, max(4, connections // 4))
        self.requests = Pool(
            phrase("requests"), min(REQUESTS_MAX, connections), min(REQUESTS_OF_CALLER_MAX, connections // 2)
        )
        own = max(BODIES_OF_CALLER_BYTES_MAX, body_bytes_max)
        self.bodies = Pool(phrase("bytes of request bodies"), max(BODIES_BYTES_MAX, 2 * own), own)
        self._lookups: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @property
    def of_callers(self) -> dict[str, Pool]:
        """The pools with a limit per caller, by name."""
        return {"streams": self.streams, "requests": self.requests, "bodies": self.bodies}

    def pool_of(self, path: str) -> Pool:
        """Return the pool for requests of this path."""
        if path in HEALTH_PATHS:
            return self.health
        if path in LOGIN_PATHS or path.startswith("/static/"):
            return self.login
        return self.streams if path.endswith(STREAM_ENDS) else self.requests

    @asynccontextmanager
    async def lookup(self, source: str) -> AsyncIterator[None]:
        """Wait until the source may look up another request's credentials."""
        turn, waiting = self._lookups.get(source, (asyncio.Semaphore(LOOKUPS_OF_SOURCE), 0))
        self._lookups[source] = (turn, waiting + 1)
        try:
            async with turn:
                yield
        finally:
            waiting = self._lookups[source][1] - 1
            if waiting:
                self._lookups[source] = (turn, waiting)
            else:
                del self._lookups[source]


def _refused(
    kind: type[TooManyRequestsError] | type[UnavailableError], error_code: int, message: str
) -> TooManyRequestsError | UnavailableError:
    return kind(
        message,
        error_code=error_code,
        headers={"Connection": "close"},
        retry_after_seconds=RETRY_AFTER_SECONDS,
    )
