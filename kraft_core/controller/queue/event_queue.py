"""The controller's event queue as a plain data structure: its owner says what time it is and when to run how much.

Events run one at a time, in the order in which they were appended; a prepended one comes next. A deferred event runs
when its time has come, before everything that waits. An event with a deadline that is not begun by then never runs: it
is told TimeoutError. What an event raises is told to that event alone.

    begin_shutdown   nothing more is taken. What has a time, a deadline or a schedule, that has not come yet is told
                     RejectedExecution; all else that waits still runs. So it is in Kafka.
    interrupt        nothing more is taken and nothing more runs: whatever waits is told Interrupted. Kafka would
                     still run a deferred event whose time has come.

There is no thread and no lock: one owner calls every method, `run` whenever there is something to run, with a budget,
so that it comes to other work in between. Source: EventQueue, KafkaEventQueue of Kafka 4.3.1.
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


class RejectedExecution(Exception):  # noqa: N818  # Kafka's word for it; told to an event, never raised
    """The queue is shutting down."""


class Interrupted(Exception):  # noqa: N818  # as above
    """The queue was interrupted."""


class Event(ABC):
    """Something to run once, put into one queue once.

    `is_waiting` is the queue's: whether it has yet to be begun. `cost` is how much of a run's budget it takes; an event
    that finds out only while it runs how much it does may say so then.
    """

    __slots__ = ("is_waiting",)

    is_waiting: bool
    cost: int = 1

    @abstractmethod
    def run(self, now_ms: int) -> None:
        """Run. What this raises goes to `handle_exception`."""

    @abstractmethod
    def handle_exception(self, error: Exception) -> None:
        """Take what `run` raised, or why it could not be begun: TimeoutError, RejectedExecution or Interrupted.

        What this raises itself is logged and goes no further.
        """


def earliest_deadline(at_ms: int) -> Callable[[int | None], int]:
    """For `schedule_deferred`: run at `at_ms`, or when the event it replaces would have run, if that is earlier.

    Source: EarliestDeadlineFunction.
    """
    return lambda existing_ms: at_ms if existing_ms is None else min(existing_ms, at_ms)


class EventQueue:
    """Events that wait for their turn and for their time; see the module. Times are ms of the owner's clock."""

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
        self._appended: deque[Event] = deque()  # with some that wait no more
        self._appended_count = 0  # of those that wait
        self._deadlines: list[tuple[int, int, Event]] = []  # a heap, with some that wait no more
        self._deferred: list[tuple[int, int, str | None, Event]] = []  # in order of their times; there are few
        self._tags: dict[str, tuple[int, int, str | None, Event]] = {}
        self._numbers = itertools.count()  # events of the same time keep their order
        self._is_shutting_down = False
        self._is_interrupted = False

    def __len__(self) -> int:
        """Count the events that wait, the deferred ones included."""
        return self._appended_count + len(self._deferred)

    # -- putting in

    def append(self, event: Event, deadline_ms: int = NEVER_MS) -> None:
        """Let `event` run after all that wait. If it is not begun before `deadline_ms`, it is told TimeoutError."""
        if self._is_refused(event):
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
        """Let `event` run before all that was appended or prepended."""
        if self._is_refused(event):
            return
        event.is_waiting = True
        self._appended_count += 1
        self._appended.appendleft(event)

    def schedule_deferred(self, tag: str | None, deadline_of: Callable[[int | None], int], event: Event) -> None:
        """Run `event` at a time. It replaces the deferred event with the same tag, which is told nothing.

        `deadline_of` gets the time of the event that is replaced, None without one, and returns that of the new one.
        """
        if self._is_refused(event):
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
        """Forget the deferred event with this tag, which is told nothing; nothing when there is none."""
        entry = self._tags.pop(tag, None)
        if entry is not None:
            self._deferred.remove(entry)
            entry[3].is_waiting = False

    def begin_shutdown(self) -> None:
        """Take no more events; see the module. Those that are refused are told by the next `run`."""
        self._is_shutting_down = True

    def interrupt(self) -> None:
        """Take no more events and run none; those that wait are told by the next `run`, or by the one under way."""
        self._is_interrupted = True

    def _is_refused(self, event: Event) -> bool:
        if self._is_shutting_down:
            _tell(event, RejectedExecution("The event queue is shutting down"))
        elif self._is_interrupted:
            _tell(event, Interrupted("The event queue was interrupted"))
        else:
            return False
        return True

    # -- running

    def next_deadline_ms(self, now_ms: int) -> int:
        """Return when `run` is wanted: `now_ms` while events wait for their turn, else when the first deferred is due."""
        if self._appended_count or (self._deferred and (self._is_shutting_down or self._is_interrupted)):
            return now_ms
        return self._deferred[0][0] if self._deferred else NEVER_MS

    def run(self, now_ms: int, budget: int) -> int:
        """Run what is due until the budget is used up; return what was used, which may be more by the last event's cost.

        Who is told why it does not run counts too. What an event puts in is run as well, if it is due and the budget
        lasts.
        """
        used = 0
        while used < budget:
            event, error = self._take(now_ms)
            if event is None:
                break
            if error is None:
                try:
                    event.run(now_ms)
                except Exception as raised:  # noqa: BLE001  # one event's fault stops no other; that event is told
                    error = raised
            if error is not None:
                _tell(event, error)
            used += event.cost
        if not self._appended_count:
            self._appended.clear()
            self._deadlines.clear()
        return used

    def _take(self, now_ms: int) -> tuple[Event | None, Exception | None]:
        """Take out the event whose turn it is, with what it is to be told instead of being run."""
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
        """Take out the event with the earliest time, if it is due or if the queue is closing."""
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
            error = TimeoutError("The event was not begun before its deadline")
        elif self._is_interrupted:
            error = Interrupted("The event queue was interrupted")
        elif at_ms > now_ms:
            error = RejectedExecution("The event queue is shutting down")
        return event, error


def _tell(event: Event, error: Exception) -> None:
    try:
        event.handle_exception(error)
    except Exception:  # it had its chance
        log.exception("unexpected_error_in_handle_exception", extra={"event": type(event).__name__})
