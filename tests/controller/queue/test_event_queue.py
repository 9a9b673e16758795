"""The event queue: order, deadlines, deferred events and their tags, faults, shutdown, interrupt, budget."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_core.controller.queue.event_queue import (
    Event,
    EventQueue,
    Interrupted,
    RejectedExecution,
    earliest_deadline,
)
from kraft_core.protocol.deadlines import NEVER_MS

ALL = 1_000


def deadline(at_ms: int) -> Callable[[int | None], int]:
    """Run at `at_ms`, regardless of the replaced event's time."""
    return lambda _: at_ms


class Noted(Event):
    """An event that records its run or its error; `then` is called while it runs."""

    def __init__(self, journal: list[object], name: object, then: Callable[[], object] = lambda: None) -> None:
        self.journal = journal
        self.name = name
        self.then = then

    def run(self, now_ms: int) -> None:
        self.journal.append(self.name)
        self.then()

    def handle_exception(self, error: Exception) -> None:
        self.journal.append((self.name, type(error)))


class Journal(list[object]):
    """A queue, and the record of its events in order."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = EventQueue()

    def event(self, name: object, then: Callable[[], object] = lambda: None) -> Noted:
        return Noted(self, name, then)


@pytest.fixture
def journal() -> Journal:
    return Journal()


def test_events_run_in_the_order_in_which_they_were_appended(journal: Journal) -> None:
    for name in "abc":
        journal.queue.append(journal.event(name))
    assert journal.queue.run(0, ALL) == 3
    assert journal == ["a", "b", "c"]


def test_prepended_events_run_next_and_the_last_prepended_first(journal: Journal) -> None:
    journal.queue.append(journal.event("appended", lambda: journal.queue.prepend(journal.event("urgent"))))
    journal.queue.append(journal.event("later"))
    journal.queue.prepend(journal.event("second"))
    journal.queue.prepend(journal.event("first"))
    journal.queue.run(0, ALL)
    assert journal == ["first", "second", "appended", "urgent", "later"]


def test_an_event_begun_before_its_deadline_runs(journal: Journal) -> None:
    journal.queue.append(journal.event("a"), 10)
    journal.queue.run(9, ALL)
    assert journal == ["a"]


def test_the_deadline_of_a_completed_event_affects_no_other(journal: Journal) -> None:
    for name in ("a", "b", "c"):
        journal.queue.append(journal.event(name), 10 if name == "a" else NEVER_MS)
    journal.queue.run(9, 1)
    journal.queue.run(10, 1)
    assert journal == ["a", "b"]
    assert len(journal.queue) == 1


def test_an_event_that_expires_while_pending_is_notified_and_never_runs(journal: Journal) -> None:
    """KafkaEventQueueTest.testTimeouts."""
    for name, deadline_ms in (("first", NEVER_MS), ("late", 10), ("in time", 11)):
        journal.queue.append(journal.event(name), deadline_ms)
    journal.queue.run(10, ALL)
    assert journal == [("late", TimeoutError), "first", "in time"]


def test_an_expired_event_is_notified_before_the_events_ahead_of_it_have_run(journal: Journal) -> None:
    for name in range(5):
        journal.queue.append(journal.event(name))
    journal.queue.append(journal.event("late"), 10)
    journal.queue.run(9, 2)
    journal.queue.run(10, 2)
    assert journal == [0, 1, ("late", TimeoutError), 2]


def test_a_deferred_event_runs_at_its_time_before_pending_events(journal: Journal) -> None:
    """KafkaEventQueueTest.testDeferredIsQueuedAfterTriggering."""
    journal.queue.schedule_deferred("tag", deadline(10), journal.event("deferred"))
    journal.queue.append(journal.event("a"))
    journal.queue.run(9, ALL)
    assert journal == ["a"]
    journal.queue.append(journal.event("b"))
    journal.queue.run(10, ALL)
    assert journal == ["a", "deferred", "b"]


def test_deferred_events_run_in_the_order_of_their_times(journal: Journal) -> None:
    for name, at_ms in (("c", 30), ("a", 10), ("b", 20), ("also b", 20)):
        journal.queue.schedule_deferred(None, deadline(at_ms), journal.event(name))
    journal.queue.run(30, ALL)
    assert journal == ["a", "b", "also b", "c"]


def test_a_deferred_event_replaces_the_one_with_its_tag(journal: Journal) -> None:
    """KafkaEventQueueTest.testScheduleDeferredWithTagReplacement."""
    journal.queue.schedule_deferred("tag", deadline(10), journal.event("old"))
    journal.queue.schedule_deferred("other", deadline(11), journal.event("other"))
    journal.queue.schedule_deferred("tag", deadline(20), journal.event("new"))
    assert len(journal.queue) == 2
    journal.queue.run(19, ALL)
    assert journal == ["other"], "the replaced event is not notified"
    journal.queue.run(20, ALL)
    assert journal == ["other", "new"]


def test_earliest_deadline_keeps_the_earlier_of_both_times(journal: Journal) -> None:
    journal.queue.schedule_deferred("tag", earliest_deadline(20), journal.event("a"))
    journal.queue.schedule_deferred("tag", earliest_deadline(30), journal.event("b"))
    assert journal.queue.next_deadline_ms(0) == 20
    journal.queue.schedule_deferred("tag", earliest_deadline(10), journal.event("c"))
    assert journal.queue.next_deadline_ms(0) == 10
    journal.queue.run(30, ALL)
    assert journal == ["c"]
    journal.queue.schedule_deferred("tag", earliest_deadline(50), journal.event("d"))
    assert journal.queue.next_deadline_ms(30) == 50, "completed events do not count"


def test_a_cancelled_event_neither_runs_nor_is_notified(journal: Journal) -> None:
    journal.queue.schedule_deferred("tag", deadline(10), journal.event("a"))
    journal.queue.cancel_deferred("tag")
    journal.queue.cancel_deferred("never scheduled")
    journal.queue.run(10, ALL)
    assert journal == []
    assert len(journal.queue) == 0


def test_an_exception_is_passed_to_its_event_and_stops_no_other(journal: Journal) -> None:
    """KafkaEventQueueTest.testHandleExceptionThrowingAnException."""

    class Faulty(Noted):
        def handle_exception(self, error: Exception) -> None:
            super().handle_exception(error)
            raise OverflowError

    def fails() -> None:
        raise ZeroDivisionError

    journal.queue.append(Faulty(journal, "a", fails))
    journal.queue.append(journal.event("b", fails))
    journal.queue.append(journal.event("c"))
    assert journal.queue.run(0, ALL) == 3
    assert journal == ["a", ("a", ZeroDivisionError), "b", ("b", ZeroDivisionError), "c"]


def test_after_shutdown_no_event_is_accepted(journal: Journal) -> None:
    """KafkaEventQueueTest.testRejectedExecutionException."""
    journal.queue.begin_shutdown()
    journal.queue.append(journal.event("a"))
    journal.queue.prepend(journal.event("b"))
    journal.queue.schedule_deferred("tag", deadline(0), journal.event("c"))
    assert journal == [("a", RejectedExecution), ("b", RejectedExecution), ("c", RejectedExecution)]
    assert (len(journal.queue), journal.queue.next_deadline_ms(5)) == (0, NEVER_MS)


def test_at_shutdown_timed_events_are_rejected_and_the_others_run(journal: Journal) -> None:
    """KafkaEventQueueTest.testShutdownBeforeDeferred; KafkaEventQueue also rejects events with a deadline."""
    journal.queue.append(journal.event("a"))
    journal.queue.append(journal.event("with deadline"), 20)
    journal.queue.append(journal.event("too late"), 5)
    journal.queue.schedule_deferred("tag", deadline(10), journal.event("not yet"))
    journal.queue.schedule_deferred("other", deadline(5), journal.event("due"))
    journal.queue.begin_shutdown()
    assert journal == [], "only run notifies rejected events"
    journal.queue.run(5, ALL)
    refused = [("not yet", RejectedExecution), ("with deadline", RejectedExecution)]
    assert journal == [("too late", TimeoutError), "due", *refused, "a"]


def test_a_queue_with_deferred_events_must_run_at_once_on_shutdown(journal: Journal) -> None:
    journal.queue.schedule_deferred("tag", deadline(10), journal.event("a"))
    assert journal.queue.next_deadline_ms(5) == 10
    journal.queue.begin_shutdown()
    assert journal.queue.next_deadline_ms(5) == 5


def test_an_interrupt_fails_all_pending_events(journal: Journal) -> None:
    """KafkaEventQueueTest.testInterruptedExceptionHandling, testInterruptedWithDeferredEvents."""
    journal.queue.append(journal.event("begun", journal.queue.interrupt))
    journal.queue.append(journal.event("a"))
    journal.queue.append(journal.event("b"), 20)
    journal.queue.schedule_deferred("tag", deadline(10), journal.event("c"))
    journal.queue.run(5, ALL)
    assert journal == ["begun", ("c", Interrupted), ("b", Interrupted), ("a", Interrupted)]
    journal.queue.append(journal.event("d"))
    assert journal[-1] == ("d", Interrupted)


def test_after_an_interrupt_no_due_event_runs(journal: Journal) -> None:
    journal.queue.schedule_deferred("tag", deadline(5), journal.event("due"))
    journal.queue.interrupt()
    assert journal.queue.next_deadline_ms(4) == 4
    journal.queue.run(5, ALL)
    assert journal == [("due", Interrupted)]


def test_an_interrupted_queue_can_still_be_shut_down(journal: Journal) -> None:
    """KafkaEventQueueTest.testInterruptedWithEmptyQueue."""
    journal.queue.interrupt()
    journal.queue.begin_shutdown()
    journal.queue.append(journal.event("a"))
    assert journal == [("a", RejectedExecution)]


def test_a_run_ends_with_its_budget_and_the_queue_reports_pending_events(journal: Journal) -> None:
    for name in range(3):
        journal.queue.append(journal.event(name))
    journal.queue.append(journal.event("late"), 1)
    journal.queue.schedule_deferred("tag", deadline(2), journal.event("deferred"))
    assert journal.queue.run(2, 2) == 2
    assert journal == [("late", TimeoutError), "deferred"], "expired events count too"
    assert journal.queue.next_deadline_ms(2) == 2
    assert journal.queue.run(2, 2) == 2
    assert journal.queue.run(2, 2) == 1
    assert journal.queue.run(2, 2) == 0
    assert journal[2:] == [0, 1, 2]
    assert journal.queue.next_deadline_ms(2) == NEVER_MS


def test_a_costly_event_uses_more_of_the_budget(journal: Journal) -> None:
    dear = journal.event("dear", lambda: setattr(dear, "cost", 5))
    for event in (journal.event("a"), dear, journal.event("b"), journal.event("c")):
        journal.queue.append(event)
    assert journal.queue.run(0, 3) == 6
    assert journal == ["a", "dear"]
    assert journal.queue.run(0, 3) == 2


def test_an_event_appended_by_an_event_runs_in_the_same_run(journal: Journal) -> None:
    journal.queue.append(journal.event("a", lambda: journal.queue.append(journal.event("b"))))
    assert journal.queue.run(0, ALL) == 2
    assert journal == ["a", "b"]


def test_the_length_counts_pending_events(journal: Journal) -> None:
    """KafkaEventQueueTest.testSize."""
    journal.queue.append(journal.event("a"))
    journal.queue.append(journal.event("late"), 1)
    journal.queue.schedule_deferred("tag", deadline(10), journal.event("b"))
    assert len(journal.queue) == 3
    journal.queue.run(1, 1)
    assert len(journal.queue) == 2
    journal.queue.run(1, ALL)
    assert len(journal.queue) == 1
    journal.queue.run(10, ALL)
    assert len(journal.queue) == 0


def test_deadlines_of_completed_events_are_dropped_under_constant_load(journal: Journal) -> None:
    journal.queue.append(journal.event(0), 1_000_000)
    for name in range(1, 5_000):
        journal.queue.append(journal.event(name), 1_000_000)
        assert journal.queue.run(name, 1) == 1
    assert len(journal.queue) == 1
    assert len(journal.queue._deadlines) < 200


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(0, 30)),
            st.tuples(st.just("defer"), st.integers(0, 30)),
            st.tuples(st.just("run"), st.integers(0, 4)),
            st.tuples(st.just("pass"), st.integers(0, 10)),
        )
    ),
    st.sampled_from(["none", "begin_shutdown", "interrupt"]),
)
def test_every_event_runs_or_is_notified_exactly_once_and_none_runs_after_its_deadline(
    actions: list[tuple[str, int]], end: str
) -> None:
    journal, now_ms, put_in = Journal(), 0, 0
    deadlines: dict[object, int] = {}
    begun: dict[object, int] = {}

    def event(deadline_ms: int) -> Noted:
        deadlines[put_in] = deadline_ms
        name = put_in
        return journal.event(name, lambda: begun.update({name: now_ms}))

    for action, number in actions:
        if action == "append":
            journal.queue.append(event(now_ms + number), now_ms + number)
        elif action == "defer":
            journal.queue.schedule_deferred(None, deadline(now_ms + number), event(NEVER_MS))
        elif action == "run":
            assert journal.queue.run(now_ms, number) <= number
        else:
            now_ms += number
        put_in += action in {"append", "defer"}
        assert len(journal.queue) + len(journal) == put_in
    if end == "none":
        now_ms += 1_000
    else:
        getattr(journal.queue, end)()
    while journal.queue.next_deadline_ms(now_ms) <= now_ms:
        assert journal.queue.run(now_ms, 2) > 0, "it never requests a run without work"
    names = [each[0] if isinstance(each, tuple) else each for each in journal]
    assert sorted(names, key=str) == sorted(range(put_in), key=str)
    assert all(at_ms < deadlines[name] for name, at_ms in begun.items())
