"""RequestTurns: limits the share of requests in each turn of the event loop, so that the node's work is not delayed.

Timers, raft, heartbeats and answers of other nodes run on the same loop. The requests of all listeners of a process
take TURN_BUDGET_S of a turn plus at most one request; the others wait for the next turn. Connections wait by the rank
of their next request: first the requests that keep the quorum and the brokers alive, then small ones, then large ones,
of which at least one is served each turn.

Sans-IO except for the clock, which tests replace.
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
"""Time that is carried into the next turn, so that a turn with few small requests needs no callback on the loop."""


class Rank(IntEnum):
    """Priority of requests; the lowest number first."""

    URGENT = 0
    SMALL = 1
    LARGE = 2


class WaitingConnection(Protocol):
    """A connection whose next request waits for a turn."""

    def take_turn(self) -> None:
        """Handle requests while there is time, and wait again if there are more."""


class RequestTurns:
    """The time that requests took in this turn, and the connections that wait for the next turn."""

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
        """Number of waiting connections."""
        return sum(map(len, self._waiting))

    def may_take(self, rank: Rank) -> bool:
        """Return whether a request of this rank may be served now; otherwise its connection must wait."""
        if self._serving is not None:
            return rank is self._serving and self._spent_s < self._budget_s(rank)
        if self._is_open and any(self._waiting[: rank + 1]):
            return False
        return self._spent_s < self._budget_s(rank)

    @staticmethod
    def _budget_s(rank: Rank) -> float:
        """Return the budget of a turn: urgent requests may use twice as much as the others together."""
        return 2 * TURN_BUDGET_S if rank is Rank.URGENT else TURN_BUDGET_S

    def begin(self) -> float:
        """Return the start time of a request, for `end`."""
        return self.clock_s()

    def end(self, began_s: float) -> None:
        """Add the time of a request to the turn."""
        self._spent_s += self.clock_s() - began_s
        if self._spent_s > _UNCOUNTED_S and not self._is_open:
            self._is_open = True
            self._call_soon(self._next_turn)

    def wait(self, connection: WaitingConnection, rank: Rank) -> None:
        """Add a connection that waits for a turn."""
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
        """Serve the waiting connections of a rank while there is time; at least one large request."""
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
    """Return the object of an event loop that all its listeners share."""
    found = _BY_LOOP.get(loop)
    if found is None:
        found = _BY_LOOP[loop] = RequestTurns(loop.call_soon)
    return found
