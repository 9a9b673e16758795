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
from app.texts import Text, joined, phrase, phrases, recognised, sentences
from kraft_core.configs.config_resource import BROKER, TOPIC

NAMED_MAX: Final = 5
"""Partitions that an event names; the others are counted."""
ROWS: Final = "rows"
"""Kind of the events about partitions, which are added up while they follow each other closely."""
TOLD: Final = ("begun", MOVED, UNCHANGED, FAILED, STALE, UNDONE, SKIPPED)
"""The states of partitions, in the order of the story's sentences."""


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
        if state in TOLD:
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


def sentence(kind: str, detail: Mapping[str, Any]) -> Text:
    """Return an event in words, without the one who caused it."""
    match kind:
        case "made":
            return _made(detail)
        case "approved":
            return phrase("Approved.")
        case "started":
            return phrase("Started.")
        case "resumed":
            return phrase("Resumed.")
        case "paused":
            return _with(None, detail.get("reasons") or [phrase("Paused: no further partition begins.")])
        case "cancelled":
            return _cancelled(detail)
        case "changed":
            changes = [
                phrase("%(name)s from %(was)s to %(now)s", name=recognised(str(name)), was=was, now=now)
                for name, was, now in detail["values"]
            ]
            return phrase("Changed: %(changes)s.", changes=joined("; ", changes))
        case "throttled":
            return _throttled(detail)
        case "unthrottled":
            cleared, left = _configs(detail["cleared"]), _configs(detail["left"])
            if not detail["left"]:
                return phrase("Throttles cleared: %(cleared)s as before.", cleared=cleared)
            return phrase(
                "Throttles cleared: %(cleared)s as before; %(left)s left, since somebody else has changed them.",
                cleared=cleared,
                left=left,
            )
        case "cordoned":
            return phrase("Broker %(id)s cordoned: no new replica is placed there.", id=detail["broker"])
        case "uncordoned":
            return phrase("The cordon of broker %(id)s is as before.", id=detail["broker"])
        case "rows":
            return sentences([_rows_sentence(state, detail[state]) for state in TOLD if state in detail])
        case "stuck":
            return phrase(
                "%(partitions)s without progress for %(minutes)s min.",
                partitions=_some(detail),
                minutes=detail["minutes"],
            )
        case "planned":
            return phrase(
                "Planned again: %(partitions)s came to what is drained meanwhile.",
                partitions=_partitions(detail["partitions"]),
            )
        case "failing":
            return _with(phrase("The plan fails, and what moves returns."), detail["reasons"])
        case "elected":
            return _with(phrase("Preferred leaders elected where they changed."), detail["reasons"])
        case "waits":
            return phrase("Waits: %(reason)s", reason=recognised(detail["text"]))
        case "continued":
            return phrase("Another web process continues the plan, or the same one after a break.")
        case "ended":
            return _ended(detail)
    return _with(None, detail.get("reasons", ()))


def _with(first: str | None, reasons: Iterable[str]) -> Text:
    """Return a sentence and the stored reasons after it."""
    return sentences([*([] if first is None else [first]), *map(recognised, reasons)])


def _made(detail: Mapping[str, Any]) -> Text:
    partitions = _partitions(detail["partitions"])
    match detail["origin"]:
        case "pasted":
            return phrase(
                "Saved as a draft with %(partitions)s, with replicas that were typed or pasted.", partitions=partitions
            )
        case "report":
            return phrase("Saved as a draft with %(partitions)s, as a report proposed.", partitions=partitions)
        case "options":
            return phrase("Saved as a draft with %(partitions)s, as the planner proposed.", partitions=partitions)
        case "drain":
            return phrase("Saved as a draft with %(partitions)s, to drain.", partitions=partitions)
    return phrase("Saved as a draft with %(partitions)s, to bring another plan back.", partitions=partitions)


def _cancelled(detail: Mapping[str, Any]) -> Text:
    match detail.get("begun"):
        case "undo":
            return phrase("Cancelled: partitions that move return to their original replicas.")
        case "finish":
            return phrase("Cancelled: partitions that move arrive, no further one begins.")
    return phrase("Cancelled before it was started.")


def _partitions(count: int) -> Text:
    return phrases("%(count)s partition", "%(count)s partitions", count, count=f"{count:,}")


def _configs(count: int) -> Text:
    return phrases("%(count)s config", "%(count)s configs", count, count=f"{count:,}")


def _some(each: Mapping[str, Any]) -> Text:
    """Return a count of partitions with the names of some."""
    partitions, more = _partitions(each["count"]), each["count"] - len(each["names"])
    named = joined(", ", map(recognised, each["names"]))
    if more:
        named = phrase("%(names)s and %(more)s more", names=named, more=f"{more:,}")
    return phrase("%(partitions)s (%(names)s)", partitions=partitions, names=named)


def _rows_sentence(state: str, each: Mapping[str, Any]) -> Text:
    count, some = each["count"], _some(each)
    match state:
        case "begun":
            return phrase("%(partitions)s began to move.", partitions=some)
        case "moved":
            return phrase("%(partitions)s moved.", partitions=some)
        case "unchanged":
            return phrases(
                "%(partitions)s was placed so already.",
                "%(partitions)s were placed so already.",
                count,
                partitions=some,
            )
        case "failed":
            return phrase("%(partitions)s failed.", partitions=some)
        case "stale":
            return phrases(
                "%(partitions)s was skipped, since it had changed.",
                "%(partitions)s were skipped, since they had changed.",
                count,
                partitions=some,
            )
        case "undone":
            return phrases(
                "%(partitions)s returned to its original replicas.",
                "%(partitions)s returned to their original replicas.",
                count,
                partitions=some,
            )
    return phrases(
        "%(partitions)s was left as it was.", "%(partitions)s were left as they were.", count, partitions=some
    )


def _throttled(detail: Mapping[str, Any]) -> Text:
    rate: int = detail["rate"] or 0
    scale, unit = next((each for each in _SCALES if rate >= each[0]), (1, "B/s"))
    parts = []
    brokers: Sequence[int] = detail["brokers"]
    if brokers:
        listed: str = ", ".join(map(str, brokers[:20]))
        if len(brokers) > 20:
            listed = phrase("%(ids)s and others", ids=listed)
        parts.append(
            phrases(
                "%(rate)s on broker %(ids)s",
                "%(rate)s on brokers %(ids)s",
                len(brokers),
                rate=f"{rate / scale:.4g} {unit}",
                ids=listed,
            )
        )
    if detail["topics"]:
        count = detail["topics"]
        parts.append(phrases("for %(count)s topic", "for %(count)s topics", count, count=f"{count:,}"))
    return phrase("Throttles set: %(what)s.", what=joined(", ", parts))


_SCALES: Final = ((2**30, "GiB/s"), (2**20, "MiB/s"), (2**10, "KiB/s"))


def _ended(detail: Mapping[str, Any]) -> Text:
    result = detail.get("result") or {}
    states: Mapping[str, int] = result.get("partitions") or {}
    total, placed = sum(states.values()), sum(states.get(each, 0) for each in (MOVED, UNCHANGED))
    added = result.get("replicas_added", 0)
    values = {
        "placed": f"{placed:,}",
        "partitions": _partitions(total),
        "replicas": phrases("%(count)s replica", "%(count)s replicas", added, count=f"{added:,}"),
    }
    if result.get("seconds") is None:
        checked = phrase("%(placed)s of %(partitions)s verified in place, %(replicas)s added.", **values)
    else:
        checked = phrase(
            "%(placed)s of %(partitions)s verified in place, %(replicas)s added in %(time)s.",
            time=_duration(result["seconds"]),
            **values,
        )
    match detail["state"]:
        case "done":
            return phrase("Done: %(what)s", what=checked)
        case "cancelled":
            return phrase("Cancelled: %(what)s", what=checked)
    return _with(phrase("Failed: %(what)s", what=checked), detail["reasons"])


def _duration(seconds: float) -> Text:
    whole = round(seconds)
    if whole < 120:
        return phrase("%(seconds)s s", seconds=whole)
    if whole < 7_200:
        return phrase("%(minutes)s min", minutes=whole // 60)
    return phrase("%(hours)s h %(minutes)s min", hours=whole // 3_600, minutes=whole % 3_600 // 60)
