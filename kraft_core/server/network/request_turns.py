"""A share of each turn of the event loop for the requests of all connections, so that the node's own work is never behind them.

Timers, raft, heartbeats and answers of other nodes run on the same loop. Requests of all listeners of a process together
take TURN_BUDGET_S of a turn, and one request more at most; the rest waits for the next turn, in which everything else had
its time. Connections wait by the rank of their next request: first what keeps the quorum and the brokers alive, then
small requests, then large ones, of which one a turn is served whatever else waits.

Sans-IO but for the clock: a test gives its own.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from time import perf_counter
from typing import Final, Protocol
from weakref import WeakKeyDictionary

TURN_BUDGET_S: Final = 0.005
LARGE_REQUEST_BYTES: Final = 65_536
_UNCOUNTED_S: Final = TURN_BUDGET_S / 5
"""Time of requests that is carried into the next turn, so that a turn of few small requests costs no callback of the loop."""


class Rank(IntEnum):
    """Which requests go first."""

    URGENT = 0
    SMALL = 1
    LARGE = 2


class WaitingConnection(Protocol):
    """A connection whose next request waits."""

    def take_turn(self) -> None:
        """Take requests as far as there is time, and wait again with the rest."""


class RequestTurns:
    """The time that requests took in this turn, and the connections that wait for the next."""

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], clock_s: Callable[[], float] = perf_counter
    ) -> None:
        self.clock_s = clock_s
        self._call_soon = call_soon
        self._spent_s = 0.0
        self._is_open = False
        self._waiting: tuple[deque[WaitingConnection], ...] = (deque(), deque(), deque())
        self._serving: Rank | None = None

    @property
    def waiting(self) -> int:
        """Connections that wait."""
        return sum(map(len, self._waiting))

    def may_take(self, rank: Rank) -> bool:
        """Whether a request of this rank may be served now; else its connection waits."""
        if self._serving is not None:
            return rank is self._serving and self._spent_s < self._budget_s(rank)
        if self._is_open and any(self._waiting[: rank + 1]):
            return False
        return self._spent_s < self._budget_s(rank)

    @staticmethod
    def _budget_s(rank: Rank) -> float:
        """Urgent requests have time left when others have used the turn's."""
        return 2 * TURN_BUDGET_S if rank is Rank.URGENT else TURN_BUDGET_S

    def begin(self) -> float:
        """Begin a request; give the result to `end`."""
        return self.clock_s()

    def end(self, began_s: float) -> None:
        """Count the time of a request."""
        self._spent_s += self.clock_s() - began_s
        if self._spent_s > _UNCOUNTED_S and not self._is_open:
            self._is_open = True
            self._call_soon(self._next_turn)

    def wait(self, connection: WaitingConnection, rank: Rank) -> None:
        """Let a connection wait for a turn."""
        self._waiting[rank].append(connection)
        if not self._is_open:
            self._is_open = True
            self._call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_open = False
        self._spent_s = 0.0
        try:
            for rank in Rank:
                self._serve(rank)
        finally:
            self._serving = None
        if any(self._waiting) and not self._is_open:
            self._is_open = True
            self._call_soon(self._next_turn)

    def _serve(self, rank: Rank) -> None:
        """Serve those that wait now, while there is time; one large request always."""
        self._serving = rank
        queue = self._waiting[rank]
        if rank is Rank.LARGE and queue:
            self._spent_s = min(self._spent_s, TURN_BUDGET_S / 2)
        for _ in range(len(queue)):
            if self._spent_s >= self._budget_s(rank):
                return
            queue.popleft().take_turn()


_BY_LOOP: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, RequestTurns]] = WeakKeyDictionary()


def turns_of(loop: asyncio.AbstractEventLoop) -> RequestTurns:
    """Return the one object of an event loop, which all its listeners share."""
    found = _BY_LOOP.get(loop)
    if found is None:
        found = _BY_LOOP[loop] = RequestTurns(loop.call_soon)
    return found
