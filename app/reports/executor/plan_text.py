"""A reassignment plan as text: the JSON of kafka-reassign-partitions, or lines."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.cluster.partitions import Partition
from app.reports.proposals.formats import ANY_LOG_DIR
from app.texts import phrase

PLAN_BYTES_MAX: Final = 1_000_000


class PlanError(ValueError):
    """A plan that cannot be read; the message says where and what is allowed."""


@dataclass(frozen=True, slots=True)
class PlanText:
    """New replicas of partitions. `log_dirs`: paths parallel to them, or `any`, where the plan names a directory."""

    replicas: dict[Partition, Sequence[int]]
    log_dirs: dict[Partition, tuple[str, ...]] = field(default_factory=dict)


def read_plan(text: str) -> PlanText:
    """Return a plan from the JSON of kafka-reassign-partitions or lines such as `orders 0 1,2,3`. Raises PlanError."""
    text = text.strip()
    if not text:
        raise PlanError(phrase("The plan is empty."))
    if len(text) > PLAN_BYTES_MAX:
        raise PlanError(phrase("The plan is longer than %(most)s characters.", most=PLAN_BYTES_MAX))
    return _read_json(text) if text.startswith("{") else _read_lines(text)


def _read_json(text: str) -> PlanText:
    try:
        entries = json.loads(text)["partitions"]
        found = [(str(each["topic"]), each["partition"], tuple(each["replicas"])) for each in entries]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"[:200]
        raise PlanError(
            phrase("The plan is not JSON as kafka-reassign-partitions has it (%(reason)s).", reason=reason)
        ) from None
    plan = _checked([(phrase("entry %(number)s", number=number), *each) for number, each in enumerate(found, 1)])
    named = {
        (str(each["topic"]), each["partition"]): _log_dirs(phrase("entry %(number)s", number=number), each)
        for number, each in enumerate(entries, 1)
    }
    return PlanText(plan, {key: paths for key, paths in named.items() if set(paths) - {ANY_LOG_DIR}})


def _log_dirs(where: str, entry: dict[str, Any]) -> tuple[str, ...]:
    paths = entry.get("log_dirs") or []
    if not isinstance(paths, list) or not all(isinstance(each, str) for each in paths):
        raise PlanError(
            phrase("In %(where)s, log_dirs must be a list of paths or '%(any)s'.", where=where, any=ANY_LOG_DIR)
        )
    if paths and len(paths) != len(entry["replicas"]):
        raise PlanError(
            phrase(
                "In %(where)s, log_dirs has %(count)s entries for %(replicas)s replicas.",
                where=where,
                count=len(paths),
                replicas=len(entry["replicas"]),
            )
        )
    wrong = [each for each in paths if each != ANY_LOG_DIR and not each.startswith("/")]
    if wrong:
        raise PlanError(
            phrase(
                "In %(where)s, log directory '%(path)s' is neither '%(any)s' nor an absolute path.",
                where=where,
                path=wrong[0][:80],
                any=ANY_LOG_DIR,
            )
        )
    return tuple(paths)


def _read_lines(text: str) -> PlanText:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(None, 2)
        if not words:
            continue
        try:
            topic, index, replicas = words
            found.append(
                (
                    phrase("line %(number)s", number=number),
                    topic,
                    int(index),
                    tuple(int(each) for each in replicas.split(",")),
                )
            )
        except ValueError:
            raise PlanError(
                phrase(
                    "Line %(number)s is '%(line)s', not TOPIC PARTITION BROKER,BROKER,…",
                    number=number,
                    line=line.strip()[:80],
                )
            ) from None
    return PlanText(_checked(found))


def _checked(found: Sequence[tuple[str, str, object, tuple[object, ...]]]) -> dict[Partition, Sequence[int]]:
    plan: dict[Partition, Sequence[int]] = {}
    for where, topic, index, replicas in found:
        numbers = [index, *replicas]
        if any(not isinstance(each, int) or isinstance(each, bool) or not 0 <= each < 2**31 for each in numbers):
            raise PlanError(
                phrase(
                    "In %(where)s, partition and broker ids must be whole numbers from 0 to %(most)s.",
                    where=where,
                    most=2**31 - 1,
                )
            )
        key = (topic, numbers[0])
        if key in plan:
            raise PlanError(phrase("In %(where)s, %(name)s is listed twice.", where=where, name=f"{topic}-{index}"))
        plan[key] = numbers[1:]  # type: ignore[index, assignment]  # all of them are int, as just checked
    if not plan:
        raise PlanError(phrase("The plan has no partition."))
    return plan
