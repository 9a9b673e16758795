"""What a plan of reassignments would do to the cluster."""

from collections.abc import Mapping, Sequence
from typing import Final

from app.cluster.partitions import Partition
from app.pages.frame import counted, ids_text
from kraft_core.image.metadata_image import MetadataImage

SHOWN_MAX: Final = 200
"""Partitions of a plan that the page lists one by one."""


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
