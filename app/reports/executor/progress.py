"""One partition of a plan against the metadata image: how far it is, whether it may begin, what stands in its way."""

import datetime as dt
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from app.cluster.partitions import Partition
from app.reports.executor.directories import (
    Answers,
    copied_bytes,
    is_placed,
    is_put_back,
    placed,
    problem,
)
from app.reports.executor.plan import (
    BEGINNING,
    FAILED,
    MOVED,
    MOVING,
    STALE,
    UNCHANGED,
    UNDOING,
    UNDONE,
    Row,
)
from app.texts import phrase
from kraft_core.image.metadata_image import MetadataImage

_GONE: Final = str(phrase("The partition does not exist any more."))
_CANCELLED_ELSEWHERE: Final = str(phrase("The reassignment was cancelled outside of this plan."))
_IN_OTHER_DIRECTORY: Final = str(phrase("The replicas have moved, but not all are in the wanted log directory."))
_IN_PROGRESS: Final = str(phrase("Another reassignment of the partition is in progress."))


def observed(row: Row, image: MetadataImage, now: dt.datetime, answers: Answers) -> Row:
    """Return a row that is in progress as the image and the brokers' answers show it; every other row as it is."""
    if row.state not in {BEGINNING, MOVING, UNDOING}:
        return row
    found = row.registration(image)
    if found is None:
        return replace(row, state=STALE, error=_GONE)
    if not found.is_reassigning:
        return _arrived(row, found.replicas, image, now, answers)
    target = {each for each in found.replicas if each not in found.removing_replicas}
    if target != set(row.proposed):
        replicas = ", ".join(map(str, sorted(target)))
        error = str(phrase("Another reassignment, to %(replicas)s, has replaced this one.", replicas=replicas))
        return replace(row, state={BEGINNING: STALE, MOVING: FAILED, UNDOING: UNDONE}[row.state], error=error)
    return _advanced(row, len(set(row.adding) & set(found.isr)), copied_bytes(row, found.isr, answers), now)


def _advanced(row: Row, caught_up: int, copied: int | None, now: dt.datetime) -> Row:
    """Return a row that moves. Complete copies, or more bytes of the others, are progress."""
    copied = row.copied_bytes if copied is None else copied
    if row.state == BEGINNING:
        return replace(row, state=MOVING, changed_at=now, caught_up=caught_up, copied_bytes=copied)
    if row.state != MOVING or (caught_up, copied) == (row.caught_up, row.copied_bytes):
        return row
    grown = caught_up > row.caught_up or copied > row.copied_bytes
    changed_at = now if grown else row.changed_at
    return replace(row, caught_up=max(caught_up, row.caught_up), copied_bytes=copied, changed_at=changed_at)


def _arrived(row: Row, replicas: tuple[int, ...], image: MetadataImage, now: dt.datetime, answers: Answers) -> Row:
    if replicas == row.proposed:
        if is_placed(row, answers):
            return replace(row, state=MOVED, caught_up=len(row.copies), copied_bytes=0, error=None)
        if row.state == UNDOING:
            return _put_back(row, image, answers)
        complete = len(row.adding) + len(set(placed(row, answers)).intersection(row.relocated))
        return _advanced(row, complete, copied_bytes(row, replicas, answers), now)
    if row.state == UNDOING:
        if set(replicas) == set(row.original) and replicas != row.original:
            return row  # cancelled, but in another order: the original one is still to be requested
        return replace(row, state=UNDONE, caught_up=0)
    if row.state == MOVING:
        return replace(row, state=FAILED, error=_CANCELLED_ELSEWHERE)
    return row if replicas == row.original else replace(row, state=STALE, error=_stale_text(replicas))


def _put_back(row: Row, image: MetadataImage, answers: Answers) -> Row:
    if not is_put_back(row, image, answers, row.changed_at):
        return row
    error = _IN_OTHER_DIRECTORY if row.adding else None
    return replace(row, state=UNDONE, caught_up=0, copied_bytes=0, error=error)


def checked(row: Row, image: MetadataImage, answers: Answers) -> Row:
    """Return a pending row, with a final state if the partition is not as the plan was made for."""
    found = row.registration(image)
    if found is None:
        return replace(row, state=STALE, error=_GONE)
    if found.is_reassigning:
        target = {each for each in found.replicas if each not in found.removing_replicas}
        if target == set(row.proposed):
            return replace(row, state=MOVING)
        return replace(row, state=STALE, error=_IN_PROGRESS)
    if found.replicas == row.proposed and is_placed(row, answers):
        return replace(row, state=UNCHANGED)
    if found.replicas not in {row.original, row.proposed}:
        return replace(row, state=STALE, error=_stale_text(found.replicas))
    missing = [each for each in row.adding if each not in image.cluster.brokers]
    if missing:
        return replace(row, state=FAILED, error=str(phrase("Broker %(id)s is not registered.", id=missing[0])))
    return row


def _stale_text(replicas: Iterable[int]) -> str:
    named = ", ".join(map(str, replicas))
    return str(phrase("The replicas are %(replicas)s now, not those that the plan was made for.", replicas=named))


def obstacle(row: Row, image: MetadataImage, answers: Answers) -> str | None:
    """Return why a partition cannot begin yet, None if it can.

    A target broker or log directory is down, cordoned or full, or the partition has no leader to copy from.
    """
    for broker_id in row.relocated:
        broker = image.cluster.brokers.get(broker_id)
        if broker is None or not broker.active:
            return str(phrase("Broker %(id)s is down.", id=broker_id))
    for broker_id in row.adding:
        broker = image.cluster.brokers[broker_id]
        if not broker.active:
            return str(phrase("Broker %(id)s is down.", id=broker_id))
        if not broker.has_uncordoned_dirs():
            return str(phrase("Broker %(id)s is cordoned.", id=broker_id))
    for broker_id, path in row.wanted_dirs.items():
        held = problem(answers, broker_id, path, row.size_bytes or 0) if broker_id in row.copies else None
        if held is not None:
            return held
    found = row.registration(image)
    return str(phrase("They have no leader.")) if row.adding and (found is None or not found.has_leader) else None


def to_elect(rows: Iterable[Row], image: MetadataImage) -> tuple[Partition, ...]:
    """Return the moved partitions whose new preferred replica is in sync and does not lead."""
    found = []
    for row in rows:
        if row.state == MOVED and row.proposed[0] != row.original[0]:
            now = row.registration(image)
            if now is not None and not now.has_preferred_leader and now.preferred_replica in now.isr:
                found.append(row.key)
    return tuple(found)


def replicas_left(image: MetadataImage, brokers: Iterable[int]) -> dict[int, int]:
    """Return how many replicas each of the brokers still holds, without those that are being removed."""
    held: dict[int, int] = {}
    for broker_id in brokers:
        count = sum(
            broker_id not in partition.removing_replicas
            for _, _, partition in image.topics.partitions_of_broker(broker_id)
        )
        if count:
            held[broker_id] = count
    return held
