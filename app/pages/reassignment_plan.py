"""A plan of reassignments: reading one, and what it would do to the cluster."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from app.cluster.partitions import Partition
from app.pages.frame import counted, ids_text
from kraft_core.image.metadata_image import MetadataImage

PLAN_BYTES_MAX: Final = 1_000_000
SHOWN_MAX: Final = 200
"""Partitions of a plan that the page lists one by one."""


class PlanError(ValueError):
    """A plan that cannot be read; the message says where and what is allowed."""


def read_plan(text: str) -> dict[Partition, Sequence[int]]:
    """Return a plan from the JSON of kafka-reassign-partitions or lines such as `orders 0 1,2,3`. Raises PlanError."""
    text = text.strip()
    if not text:
        raise PlanError("The plan is empty.")
    if len(text) > PLAN_BYTES_MAX:
        raise PlanError(f"The plan is longer than {PLAN_BYTES_MAX} characters.")
    return _read_json(text) if text.startswith("{") else _read_lines(text)


def _read_json(text: str) -> dict[Partition, Sequence[int]]:
    try:
        entries = json.loads(text)["partitions"]
        found = [(str(each["topic"]), each["partition"], tuple(each["replicas"])) for each in entries]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"[:200]
        raise PlanError(f"The plan is not JSON as kafka-reassign-partitions has it ({reason}).") from None
    return _checked([(f"entry {number}", *each) for number, each in enumerate(found, 1)])


def _read_lines(text: str) -> dict[Partition, Sequence[int]]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(None, 2)
        if not words:
            continue
        try:
            topic, index, replicas = words
            found.append((f"line {number}", topic, int(index), tuple(int(each) for each in replicas.split(","))))
        except ValueError:
            raise PlanError(f"Line {number} is '{line.strip()[:80]}', not TOPIC PARTITION BROKER,BROKER,…") from None
    return _checked(found)


def _checked(found: Sequence[tuple[str, str, object, tuple[object, ...]]]) -> dict[Partition, Sequence[int]]:
    plan: dict[Partition, Sequence[int]] = {}
    for where, topic, index, replicas in found:
        numbers = [index, *replicas]
        if any(not isinstance(each, int) or isinstance(each, bool) or not 0 <= each < 2**31 for each in numbers):
            raise PlanError(f"In {where}, partition and broker ids must be whole numbers from 0 to {2**31 - 1}.")
        key = (topic, numbers[0])
        if key in plan:
            raise PlanError(f"In {where}, {topic}-{index} is listed twice.")
        plan[key] = numbers[1:]  # type: ignore[index, assignment]  # all of them are int, as just checked
    if not plan:
        raise PlanError("The plan has no partition.")
    return plan


def _replicas(image: MetadataImage, name: str, index: int) -> Sequence[int] | None:
    topic = image.topics.topic(name)
    partition = None if topic is None else topic.partitions.get(index)
    return None if partition is None else partition.replicas


def _added(image: MetadataImage, plan: Mapping[Partition, Sequence[int]]) -> list[int]:
    """Return the broker of each replica that the plan adds."""
    return [
        each
        for (name, index), replicas in plan.items()
        for each in set(replicas) - set(_replicas(image, name, index) or ())
    ]


def plan_rows(image: MetadataImage, plan: Mapping[Partition, Sequence[int]]) -> list[tuple[str, str, str]]:
    """Return (partition, current replicas, new replicas), and a last row with the number of those left out."""
    rows = []
    for (name, index), replicas in list(plan.items())[:SHOWN_MAX]:
        now = _replicas(image, name, index)
        rows.append((f"{name}-{index}", "does not exist" if now is None else ids_text(now), ids_text(replicas)))
    if len(plan) > SHOWN_MAX:
        rows.append(("…", f"{len(plan) - SHOWN_MAX} more partitions", ""))
    return rows


def fenced_targets(image: MetadataImage, plan: Mapping[Partition, Sequence[int]]) -> list[int]:
    """Return the fenced brokers to which the plan adds a replica."""
    brokers = image.cluster.brokers
    return sorted({each for each in _added(image, plan) if each in brokers and brokers[each].fenced})


def plan_warnings(image: MetadataImage, plan: Mapping[Partition, Sequence[int]], refused: int) -> list[str]:
    """Return what to know before the plan starts. `plan` is without the partitions that were `refused`."""
    count = len(_added(image, plan))
    copied = f"{counted(count, 'replica')} {'is' if count == 1 else 'are'} copied, within the brokers' throttles."
    lines = [copied if count else "No replica is copied."]
    fenced = fenced_targets(image, plan)
    if fenced:
        subject, verb, pronoun = ("Broker", "is", "it is") if len(fenced) == 1 else ("Brokers", "are", "they are")
        lines.append(f"{subject} {ids_text(fenced)} {verb} fenced: replicas there are copied once {pronoun} back.")
    if refused and plan:
        lines.append(f"{counted(refused, 'partition')} refused and left as is. The rest of the plan starts.")
    return [*lines, "A reassignment can be cancelled while it is in progress."]
