"""The life of one broker as the metadata log tells it: its states, how long each lasted, and the leaders it cost.

A leader counts as lost with an event when the broker stops leading a partition in the same change, or later and before
its next event.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.cluster.log_events.events import BrokerEvent, BrokerState, Event, PartitionMove


@dataclass(slots=True)
class TimelineEntry:
    """One event. `lasted_ms` is the time that its state lasted, until now if `is_current`; None if it changed none.

    `leaders_lost` is None after an event that leaves the broker active, and cost no leader.
    """

    event: BrokerEvent
    lasted_ms: int | None = None
    is_current: bool = False
    leaders_lost: int | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which a broker had one state; `offset` is that of its first event, -1 for the first known state."""

    state: BrokerState
    from_ms: int
    to_ms: int
    offset: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The events of a broker, oldest first, and its states from the first known time on."""

    entries: Sequence[TimelineEntry]
    spans: Sequence[Span]


def timeline(
    events: Iterable[Event], broker_id: int, *, state_now: BrokerState, first_ms: int, now_ms: int
) -> Timeline:
    """Return the timeline of one broker from the events, oldest first.

    `first_ms` is the time from which on the log was read; `state_now` is that of a broker without any event.
    """
    entries: list[TimelineEntry] = []
    lost_at: list[int] = []  # the offsets of the changes that took leaders from it
    for event in events:
        if isinstance(event, BrokerEvent) and event.broker_id == broker_id:
            entries.append(TimelineEntry(event))
        elif isinstance(event, PartitionMove) and event.leader_before == broker_id != event.leader:
            lost_at.append(event.change)
    states = [each for each in entries if _is_new_state(each.event)]
    ends = [*(each.event.time_ms for each in states[1:]), now_ms]
    for entry, end in zip(states, ends, strict=False):
        entry.lasted_ms = max(0, end - entry.event.time_ms)
        entry.is_current = entry is states[-1]
    _count_lost(entries, lost_at)
    return Timeline(entries, _spans(states, state_now, first_ms, now_ms))


def _is_new_state(event: BrokerEvent) -> bool:
    if event.kind in {"registered", "registered-again"}:
        return True
    return event.before != event.after and not event.kind.startswith(("directories", "cordoned"))


def _count_lost(entries: Sequence[TimelineEntry], lost_at: Sequence[int]) -> None:
    """Count each lost leader with the newest event of the broker up to the change that took it."""
    numbers = [0] * len(entries)
    current, following = -1, 0
    for change in lost_at:
        while following < len(entries) and entries[following].event.change <= change:
            current, following = following, following + 1
        if current >= 0:
            numbers[current] += 1
    for entry, number in zip(entries, numbers, strict=True):
        if number or entry.event.after != "active":
            entry.leaders_lost = number


def _spans(states: Sequence[TimelineEntry], state_now: BrokerState, first_ms: int, now_ms: int) -> list[Span]:
    if not states:
        return [Span(state_now, first_ms, max(first_ms, now_ms), -1)]
    events = [each.event for each in states]
    spans = [Span(events[0].before, min(first_ms, events[0].time_ms), events[0].time_ms, -1)]
    for event, end in zip(events, [*(each.time_ms for each in events[1:]), now_ms], strict=True):
        spans.append(Span(event.after, event.time_ms, max(end, event.time_ms), event.offset))
    return spans
