"""Work that waits until a value reaches a threshold, or for its deadline; as data, without threads or futures.

Fetches wait for the log to grow, appends for the high watermark. Source: ThresholdPurgatory of Kafka 4.3.1.
"""

from bisect import bisect_right, insort
from heapq import heappop, heappush
from typing import Generic, TypeVar

from kraft_core.protocol.deadlines import NEVER_MS

T = TypeVar("T")


class ThresholdPurgatory(Generic[T]):
    """Values by the threshold that they wait for. They leave in the order of their thresholds."""

    __slots__ = ("_deadlines", "_next_ticket", "_order", "_values")

    def __init__(self) -> None:
        self._values: dict[int, tuple[int, T]] = {}  # ticket -> threshold, value
        self._order: list[tuple[int, int]] = []  # (threshold, ticket), of all in `_values`
        self._deadlines: list[tuple[int, int]] = []  # heap of (deadline, ticket), of those in `_values` and some more
        self._next_ticket = 0

    def __len__(self) -> int:
        return len(self._order)

    def wait(self, threshold: int, value: T, deadline_ms: int = NEVER_MS) -> int:
        """Add a value that waits for `threshold`; return its ticket. Kafka calls it await."""
        ticket = self._next_ticket = self._next_ticket + 1
        self._values[ticket] = (threshold, value)
        entry = (threshold, ticket)
        if not self._order or entry > self._order[-1]:
            self._order.append(entry)
        else:
            insort(self._order, entry)
        if deadline_ms < NEVER_MS:
            heappush(self._deadlines, (deadline_ms, ticket))
        return ticket

    def complete(self, reached: int) -> list[T]:
        """Remove and return the values that wait for `reached` or less."""
        if not self._order or self._order[0][0] > reached:
            return []
        count = bisect_right(self._order, (reached, self._next_ticket))
        done = [self._values.pop(ticket)[1] for _, ticket in self._order[:count]]
        del self._order[:count]
        if not self._order:
            self._deadlines.clear()
        return done

    def complete_all(self) -> list[T]:
        """Remove and return all values."""
        done = [self._values[ticket][1] for _, ticket in self._order]
        self._values.clear()
        self._order.clear()
        self._deadlines.clear()
        return done

    def expire(self, now_ms: int) -> list[T]:
        """Remove and return the values whose deadline has passed, the earliest deadline first."""
        over = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            value = self.cancel(heappop(self._deadlines)[1])
            if value is not None:
                over.append(value)
        return over

    def cancel(self, ticket: int) -> T | None:
        """Remove and return the value of this ticket; None when it has left already."""
        found = self._values.pop(ticket, None)
        if found is None:
            return None
        threshold, value = found
        del self._order[bisect_right(self._order, (threshold, ticket)) - 1]
        return value

    def next_deadline_ms(self) -> int:
        """Return the earliest deadline; NEVER_MS when there is none."""
        while self._deadlines and self._deadlines[0][1] not in self._values:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else NEVER_MS
