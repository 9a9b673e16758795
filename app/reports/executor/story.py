"""What happened to a plan, as events and as sentences: pure functions of a decision, without I/O."""

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.cluster.partitions import Partition
from app.reports.executor.plan import (
    BEGINNING,
    CANCELLING,
    CLEARED,
    FAILED,
    FINISH,
    LEFT,
    MOVED,
    MOVING,
    PAUSED,
    PENDING,
    RUNNING,
    SET,
    SKIPPED,
    STALE,
    UNCHANGED,
    UNDONE,
    Decision,
    Execution,
    Row,
)
from app.reports.executor.throttles import CORDONED
from kraft_core.configs.config_resource import BROKER, TOPIC

NAMED_MAX: Final = 5
"""Partitions that an event names; the others are counted."""
ROWS: Final = "rows"
"""Kind of the events about partitions, which are added up while they follow each other closely."""
WORDS: Final = {
    "begun": "began to move",
    MOVED: "moved",
    UNCHANGED: "{was} placed so already",
    FAILED: "failed",
    STALE: "{was} skipped, since {it} had changed",
    UNDONE: "returned to {its} original replicas",
    SKIPPED: "{was} left as {it} {was}",
}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a plan; `sentence` says what the detail of each kind is."""

    kind: str
    detail: Mapping[str, Any] = field(default_factory=dict)


def happened(before: Execution, decision: Decision) -> list[Event]:
    """Return what a decision of the executor changes, in the order of the plan's phases."""
    old, new = before.plan, decision.plan
    found = [*_settings(before, decision)]
    rows = _rows(before, decision)
    again = sum(key not in before.rows for key in decision.rows)
    if again:
        found.append(Event("planned", {"partitions": again}))
    if rows:
        found.append(Event(ROWS, rows))
    reasons = list(new.reasons[len(old.reasons) :])
    if new.state == PAUSED != old.state:
        found.append(Event("paused", {"reasons": reasons}))
        reasons = []
    if new.state == CANCELLING != old.state:
        found.append(Event("failing", {"reasons": reasons}))
        reasons = []
    if new.elected and not old.elected:
        found.append(Event("elected", {"reasons": reasons}))
        reasons = []
    if new.waits_for is not None and _bare(new.waits_for) != _bare(old.waits_for or ""):
        found.append(Event("waits", {"text": new.waits_for}))
    if new.state not in {RUNNING, PAUSED, CANCELLING}:
        found.append(Event("ended", {"state": new.state, "reasons": list(new.reasons)}))
    elif reasons:
        found.append(Event("note", {"reasons": reasons}))
    return found


def _bare(text: str) -> str:
    """Return a reason to wait without its counts, which change with every partition that waits."""
    return re.sub(r"\d+ (?=partition|replica)", "", text).replace("partitions", "partition")


def _rows(before: Execution, decision: Decision) -> dict[str, Any]:
    """Return the partitions that came into a state, by the state: how many, and the names of some."""
    found: dict[str, dict[str, Any]] = {}
    for key, row in decision.rows.items():
        old = before.rows.get(key)
        then = PENDING if old is None else old.state
        if then == row.state:
            continue
        state = "begun" if row.state == BEGINNING or (row.state == MOVING and then == PENDING) else row.state
        if state in WORDS:
            each = found.setdefault(state, {"count": 0, "names": []})
            each["count"] += 1
            if len(each["names"]) < NAMED_MAX:
                each["names"].append(_named(row, with_error=state in {FAILED, STALE}))
    return found


def _named(row: Row, *, with_error: bool) -> str:
    name = f"{row.topic}-{row.partition}"
    return f"{name}: {row.error}" if with_error and row.error else name


def _settings(before: Execution, decision: Decision) -> Iterable[Event]:
    changed = [
        (key, each)
        for key, each in decision.settings.items()
        if key not in before.settings or before.settings[key].state != each.state
    ]
    for (kind, name, config), each in changed:
        if kind == BROKER and config == CORDONED and each.state in {SET, CLEARED}:
            yield Event("cordoned" if each.state == SET else "uncordoned", {"broker": int(name)})
    throttles = [(key, each) for key, each in changed if key[2] != CORDONED]
    is_set = [key for key, each in throttles if each.state == SET]
    if is_set:
        brokers = sorted({int(name) for kind, name, _ in is_set if kind == BROKER})
        topics = {name for kind, name, _ in is_set if kind == TOPIC}
        yield Event("throttled", {"rate": decision.plan.throttle, "brokers": brokers, "topics": len(topics)})
    gone = [each.state for _, each in throttles if each.state in {CLEARED, LEFT}]
    if gone:
        yield Event("unthrottled", {"cleared": gone.count(CLEARED), "left": gone.count(LEFT)})


def added_up(older: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    """Return two details of kind ROWS as one."""
    found = {state: dict(each) for state, each in older.items()}
    for state, each in newer.items():
        known = found.setdefault(state, {"count": 0, "names": []})
        known["count"] += each["count"]
        known["names"] = [*known["names"], *each["names"]][:NAMED_MAX]
    return found


def stuck_rows(rows: Mapping[Partition, Row], minutes: int, now: dt.datetime) -> frozenset[Partition]:
    """Return the partitions that move and have had no progress for so long."""
    late = now - dt.timedelta(minutes=minutes)
    return frozenset(
        key for key, row in rows.items() if row.state == MOVING and row.changed_at is not None and row.changed_at < late
    )


def stuck_event(keys: Iterable[Partition], minutes: int) -> Event:
    """Return the event of partitions that have become stuck."""
    names = sorted(f"{topic}-{number}" for topic, number in keys)
    return Event("stuck", {"count": len(names), "names": names[:NAMED_MAX], "minutes": minutes})


# sentences


def sentence(kind: str, detail: Mapping[str, Any]) -> str:
    """Return an event in words, without the one who caused it."""
    match kind:
        case "made":
            return f"Saved as a draft with {_count(detail['partitions'], 'partition')}{_ORIGINS[detail['origin']]}."
        case "approved" | "started" | "resumed":
            return f"{kind.capitalize()}."
        case "paused":
            return " ".join(detail.get("reasons") or ["Paused: no further partition begins."])
        case "cancelled":
            return _CANCELLED.get(detail.get("begun") or "", "Cancelled before it was started.")
        case "changed":
            return "Changed: " + "; ".join(f"{name} from {was} to {now}" for name, was, now in detail["values"]) + "."
        case "throttled":
            return _throttled(detail)
        case "unthrottled":
            left = detail["left"]
            kept = f"; {_count(left, 'config')} left, since somebody else has changed them" if left else ""
            return f"Throttles cleared: {_count(detail['cleared'], 'config')} as before{kept}."
        case "cordoned":
            return f"Broker {detail['broker']} cordoned: no new replica is placed there."
        case "uncordoned":
            return f"The cordon of broker {detail['broker']} is as before."
        case "rows":
            return " ".join(_rows_sentence(state, detail[state]) for state in WORDS if state in detail)
        case "stuck":
            return f"{_some(detail)} without progress for {detail['minutes']} min."
        case "planned":
            return f"Planned again: {_count(detail['partitions'], 'partition')} came to what is drained meanwhile."
        case "failing":
            return " ".join(["The plan fails, and what moves returns.", *detail["reasons"]])
        case "elected":
            return " ".join(["Preferred leaders elected where they changed.", *detail["reasons"]])
        case "waits":
            return f"Waits: {detail['text']}"
        case "continued":
            return "Another web process continues the plan, or the same one after a break."
        case "ended":
            return _ended(detail)
    return " ".join(detail.get("reasons", ()))


_ORIGINS: Final = {
    "pasted": ", with replicas that were typed or pasted",
    "report": ", as a report proposed",
    "options": ", as the planner proposed",
    "drain": ", to drain",
    "rollback": ", to bring another plan back",
}
_CANCELLED: Final = {
    "undo": "Cancelled: partitions that move return to their original replicas.",
    FINISH: "Cancelled: partitions that move arrive, no further one begins.",
}


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _some(each: Mapping[str, Any]) -> str:
    """Return a count of partitions with the names of some."""
    names = ", ".join(each["names"])
    more = each["count"] - len(each["names"])
    return f"{_count(each['count'], 'partition')} ({names}{f' and {more:,} more' if more else ''})"


def _rows_sentence(state: str, each: Mapping[str, Any]) -> str:
    one = each["count"] == 1
    words = WORDS[state].format(was="was" if one else "were", it="it" if one else "they", its="its" if one else "their")
    return f"{_some(each)} {words}."


def _throttled(detail: Mapping[str, Any]) -> str:
    rate: int = detail["rate"] or 0
    scale, unit = next((each for each in _SCALES if rate >= each[0]), (1, "B/s"))
    parts = []
    brokers: Sequence[int] = detail["brokers"]
    if brokers:
        listed = ", ".join(map(str, brokers[:20])) + (" and others" if len(brokers) > 20 else "")
        parts.append(f"{rate / scale:.4g} {unit} on broker{'' if len(brokers) == 1 else 's'} {listed}")
    if detail["topics"]:
        parts.append(f"for {_count(detail['topics'], 'topic')}")
    return f"Throttles set: {', '.join(parts)}."


_SCALES: Final = ((2**30, "GiB/s"), (2**20, "MiB/s"), (2**10, "KiB/s"))


def _ended(detail: Mapping[str, Any]) -> str:
    result = detail.get("result") or {}
    states: Mapping[str, int] = result.get("partitions") or {}
    total, placed = sum(states.values()), sum(states.get(each, 0) for each in (MOVED, UNCHANGED))
    added = _count(result.get("replicas_added", 0), "replica")
    seconds = result.get("seconds")
    took = "" if seconds is None else f" in {_duration(seconds)}"
    checked = f"{placed:,} of {_count(total, 'partition')} verified in place, {added} added{took}."
    first = {"done": "Done", "failed": "Failed", "cancelled": "Cancelled"}[detail["state"]]
    reasons = detail["reasons"] if detail["state"] == "failed" else ()
    return " ".join([f"{first}: {checked}", *reasons])


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7_200 else f"{whole // 3_600} h {whole % 3_600 // 60} min"
