"""The controller's event queue, a data structure without thread or lock.

## Order
Events run one at a time, in the order of `append`; a prepended event is next. A deferred event runs at its time, before
all pending events. An event that has not started by its deadline fails with TimeoutError. An exception of `run` goes to
`handle_exception` of the same event only.

## Closing
- `begin_shutdown` accepts no more events. A deferred event and an event with a deadline fail with RejectedExecution
  unless their time has come; all others still run, as in Kafka.
- `interrupt` accepts and runs no more events: all pending ones fail with Interrupted. Kafka still runs a deferred event
  whose time has come.

One owner calls every method, and `run` with a budget, so that other work is done in between.
Source: EventQueue, KafkaEventQueue, Kafka 4.3.1.
"""

from __future__ import annotations

import itertools
import logging
from abc import ABC, abstractmethod
from bisect import insort
from collections import deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from kraft_core.protocol.deadlines import NEVER_MS

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

_STALE_DEADLINES_MAX: Final = 64


class RejectedExecution(Exception):  # noqa: N818  # Kafka's name; passed to an event, never raised
    """The queue is shutting down."""


class Interrupted(Exception):  # noqa: N818  # as above
    """The queue was interrupted."""


class Event(ABC):
    """Work that runs once, in one queue.

    `is_waiting`: set by the queue while the event is pending. `cost`: the share of a run's budget; an event may set it
    while it runs.
    """

    __slots__ = ("is_waiting",)

    is_waiting: bool
    cost: int = 1

    @abstractmethod
    def run(self, now_ms: int) -> None:
        """Run the event. An exception goes to `handle_exception`."""

    @abstractmethod
    def handle_exception(self, error: Exception) -> None:
        """Handle an exception of `run`, or the reason it did not run: TimeoutError, RejectedExecution or Interrupted.

        An exception of this method is logged only.
        """


def earliest_deadline(at_ms: int) -> Callable[[int | None], int]:
    """Return a `deadline_of` for `schedule_deferred`: `at_ms`, or the time of the replaced event if that is earlier.

    Source: EarliestDeadlineFunction.
    """
    return lambda existing_ms: at_ms if existing_ms is None else min(existing_ms, at_ms)


class EventQueue:
    """Pending and deferred events; see the module. Times are ms of the owner's clock."""

    __slots__ = (
        "_appended",
        "_appended_count",
        "_deadlines",
        "_deferred",
        "_is_interrupted",
        "_is_shutting_down",
        "_numbers",
        "_tags",
    )

    def __init__(self) -> None:
        self._appended: deque[Event] = deque()  # includes events that are no longer pending
        self._appended_count = 0  # of pending events
        self._deadlines: list[tuple[int, int, Event]] = []  # a heap; includes events that are no longer pending
        self._deferred: list[tuple[int, int, str | None, Event]] = []  # by time; few
        self._tags: dict[str, tuple[int, int, str | None, Event]] = {}
        self._numbers = itertools.count()  # keeps the order of events with equal times
        self._is_shutting_down = False
        self._is_interrupted = False

    def __len__(self) -> int:
        """Return the number of pending and deferred events."""
        return self._appended_count + len(self._deferred)

    # -- adding events

    def append(self, event: Event, deadline_ms: int = NEVER_MS) -> None:
        """Run `event` after all pending events. If it has not started by `deadline_ms`, it fails with TimeoutError."""
        if self._is_rejected(event):
            return
        event.is_waiting = True
        self._appended_count += 1
        self._appended.append(event)
        if deadline_ms < NEVER_MS:
            heappush(self._deadlines, (deadline_ms, next(self._numbers), event))
            if len(self._deadlines) > 2 * self._appended_count + _STALE_DEADLINES_MAX:
                self._deadlines = [each for each in self._deadlines if each[2].is_waiting]
                heapify(self._deadlines)

    def prepend(self, event: Event) -> None:
        """Run `event` before all pending events."""
        if self._is_rejected(event):
            return
        event.is_waiting = True
        self._appended_count += 1
        self._appended.appendleft(event)

    def schedule_deferred(self, tag: str | None, deadline_of: Callable[[int | None], int], event: Event) -> None:
        """Run `event` at a time. It replaces the deferred event with the same tag, which is not notified.

        `deadline_of` maps the time of the replaced event, None without one, to the time of the new event.
        """
        if self._is_rejected(event):
            return
        existing_ms = None
        if tag is not None and tag in self._tags:
            existing_ms = self._tags[tag][0]
            self.cancel_deferred(tag)
        event.is_waiting = True
        entry = (deadline_of(existing_ms), next(self._numbers), tag, event)
        insort(self._deferred, entry)
        if tag is not None:
            self._tags[tag] = entry

    def cancel_deferred(self, tag: str) -> None:
        """Remove the deferred event with this tag, if any. It is not notified."""
        entry = self._tags.pop(tag, None)
        if entry is not None:
            self._deferred.remove(entry)
            entry[3].is_waiting = False

    def begin_shutdown(self) -> None:
        """Accept no more events; see the module. The next `run` notifies the rejected ones."""
        self._is_shutting_down = True

    def interrupt(self) -> None:
        """Accept and run no more events; the current or next `run` notifies the pending ones."""
        self._is_interrupted = True

    def _is_rejected(self, event: Event) -> bool:
        if self._is_shutting_down:
            _notify(event, RejectedExecution("The event queue is shutting down"))
        elif self._is_interrupted:
            _notify(event, Interrupted("The event queue was interrupted"))
        else:
            return False
        return True

    # -- running

    def next_deadline_ms(self, now_ms: int) -> int:
        """Return the time for the next `run`: `now_ms` while an event is pending, else of the first deferred one."""
        if self._appended_count or (self._deferred and (self._is_shutting_down or self._is_interrupted)):
            return now_ms
        return self._deferred[0][0] if self._deferred else NEVER_MS

    def run(self, now_ms: int, budget: int) -> int:
        """Run due events until their cost reaches the budget; return the cost, which may exceed it by the last event.

        Events that fail without running count too. Events that are added meanwhile run as well if they are due.
        """
        used = 0
        while used < budget:
            event, error = self._take(now_ms)
            if event is None:
                break
            if error is None:
                try:
                    event.run(now_ms)
                except Exception as raised:  # noqa: BLE001  # the fault of one event does not stop others
                    error = raised
            if error is not None:
                _notify(event, error)
            used += event.cost
        if not self._appended_count:
            self._appended.clear()
            self._deadlines.clear()
        return used

    def _take(self, now_ms: int) -> tuple[Event | None, Exception | None]:
        """Remove the next event; also return the error if it must fail instead of run."""
        deadlines, deferred = self._deadlines, self._deferred
        if (
            (deadlines and deadlines[0][0] <= now_ms)
            or (deferred and deferred[0][0] <= now_ms)
            or self._is_shutting_down
            or self._is_interrupted
        ):
            event, error = self._take_timed(now_ms)
            if event is not None:
                return event, error
        appended = self._appended
        while appended:
            event = appended.popleft()
            if event.is_waiting:
                event.is_waiting = False
                self._appended_count -= 1
                return event, Interrupted("The event queue was interrupted") if self._is_interrupted else None
        return None, None

    def _take_timed(self, now_ms: int) -> tuple[Event | None, Exception | None]:
        """Remove the event with the earliest time, if it is due or the queue is closing."""
        deadlines, deferred = self._deadlines, self._deferred
        while deadlines and not deadlines[0][2].is_waiting:
            heappop(deadlines)
        is_deferred = bool(deferred) and (not deadlines or deferred[0][:2] < deadlines[0][:2])
        first = deferred if is_deferred else deadlines
        is_closing = self._is_shutting_down or self._is_interrupted
        if not first or (first[0][0] > now_ms and not is_closing):
            return None, None
        at_ms, event = first[0][0], first[0][-1]
        if is_deferred:
            tag = deferred.pop(0)[2]
            if tag is not None:
                del self._tags[tag]
        else:
            heappop(deadlines)
            self._appended_count -= 1
        event.is_waiting = False
        error: Exception | None = None
        if at_ms <= now_ms and not is_deferred:
            error = TimeoutError("The event did not start before its deadline")
        elif self._is_interrupted:
            error = Interrupted("The event queue was interrupted")
        elif at_ms > now_ms:
            error = RejectedExecution("The event queue is shutting down")
        return event, error


def _notify(event: Event, error: Exception) -> None:
    try:
        event.handle_exception(error)
    except Exception:  # the event has had its notification
        log.exception("unexpected_error_in_handle_exception", extra={"event": type(event).__name__})
