"""Replicas in the log directories of their brokers: where they are, what is still to be moved, what stands in the way.

Only the brokers know this, so everything here is computed from their newest answers (DescribeLogDirs). An answer may be
older than what has been requested since; requesting the same directory again changes nothing.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping

from app.cluster.log_dirs import NOT_ASKED, LogDir, LogDirs
from app.cluster.partitions import Partition
from app.reports.executor.plan import Row
from app.reports.proposals.layout import DirectorySpace
from app.texts import phrase
from kraft_core.image.metadata_image import MetadataImage

Answers = Mapping[int, LogDirs]
"""What the brokers have told of their log directories, by broker id."""
Wanted = dict[int, dict[Partition, str]]
"""Wanted log directories, by broker and partition."""


def placed(row: Row, answers: Answers) -> list[int]:
    """Return the brokers whose replica is in the wanted log directory."""
    return [each for each, path in row.wanted_dirs.items() if _path(row, each, answers) == path]


def is_placed(row: Row, answers: Answers) -> bool:
    """Whether all replicas are known to be in the wanted log directories."""
    return len(placed(row, answers)) == len(row.wanted_dirs)


def to_place(rows: Iterable[Row], answers: Answers) -> Wanted:
    """Return the replicas that are in another log directory and are not being copied to the wanted one."""
    found: Wanted = defaultdict(dict)
    for row in rows:
        for broker_id, path in row.wanted_dirs.items():
            future = answers.get(broker_id, NOT_ASKED).future_of(*row.key)
            if _path(row, broker_id, answers) not in {None, path} and (future is None or future[0] != path):
                found[broker_id][row.key] = path
    return dict(found)


def to_put_back(rows: Iterable[Row], answers: Answers) -> Wanted:
    """Return the replicas that are being copied to another log directory, with the one in which they are."""
    found: Wanted = defaultdict(dict)
    for row in rows:
        for broker_id in row.wanted_dirs:
            now = _path(row, broker_id, answers)
            if now is not None and answers[broker_id].future_of(*row.key) is not None:
                found[broker_id][row.key] = now
    return dict(found)


def is_put_back(row: Row, image: MetadataImage, answers: Answers, since: dt.datetime | None) -> bool:
    """Whether no replica is being copied to another log directory, as told after `since`.

    A broker that is down counts as put back: nothing can be requested of it.
    """
    for broker_id in row.wanted_dirs:
        broker = image.cluster.brokers.get(broker_id)
        if broker is None or broker.fenced:
            continue
        told = answers.get(broker_id, NOT_ASKED)
        if told.asked_at is None or (since is not None and told.asked_at <= since):
            return False
        if told.future_of(*row.key) is not None:
            return False
    return True


def to_create(rows: Iterable[Row]) -> Wanted:
    """Return the log directories in which new replicas are to be created."""
    found: Wanted = defaultdict(dict)
    for row in rows:
        for broker_id in row.adding:
            if broker_id in row.wanted_dirs:
                found[broker_id][row.key] = row.wanted_dirs[broker_id]
    return dict(found)


def copied_bytes(row: Row, isr: Iterable[int], answers: Answers) -> int | None:
    """Return the bytes that the incomplete copies of a partition have, None while a broker has not told."""
    behind = set(row.adding).difference(isr)
    if any(answers.get(each, NOT_ASKED).asked_at is None for each in (*behind, *row.wanted_dirs)):
        return None
    futures = [answers[each].future_of(*row.key) for each in row.wanted_dirs]
    arriving = sum(size for _, size in filter(None, futures))
    return arriving + sum(answers[each].sizes.of(*row.key) or 0 for each in behind)


def unusable(answers: Answers, broker_id: int, path: str) -> str | None:
    """Return why replicas of a log directory cannot be read or written, as a sentence; None if they can."""
    told = answers.get(broker_id, NOT_ASKED)
    if told.asked_at is None:
        if told.error:
            text = phrase("Broker %(id)s has not told its log directories: %(error)s.", id=broker_id, error=told.error)
        else:
            text = phrase("Broker %(id)s has not told its log directories.", id=broker_id)
        return str(text)
    directory = told.directory(path)
    if directory is None:
        known = ", ".join(sorted(each.path for each in told.dirs))
        text = phrase(
            "Broker %(id)s has no log directory '%(path)s'; it has %(paths)s.",
            id=broker_id,
            path=path[:200],
            paths=known,
        )
        return str(text)
    if directory.error:
        values = {"path": path, "id": broker_id, "error": directory.error}
        return str(phrase("Log directory %(path)s of broker %(id)s is offline: %(error)s", **values))
    return None


def problem(answers: Answers, broker_id: int, path: str, needed_bytes: int) -> str | None:
    """Return why a log directory cannot take `needed_bytes` more, as a sentence; None if it can.

    Where the broker does not tell the size of the volume, nothing is known to be too much.
    """
    found = unusable(answers, broker_id, path)
    directory = answers[broker_id].directory(path) if found is None else None
    if directory is None:
        return found
    if directory.is_cordoned:
        return str(phrase("Log directory %(path)s of broker %(id)s is cordoned.", path=path, id=broker_id))
    room = room_bytes(directory)
    if room is not None and needed_bytes > room:
        text = phrase(
            "Log directory %(path)s of broker %(id)s is too small: "
            "%(needed)s bytes are needed, and %(room)s may be used.",
            path=path,
            id=broker_id,
            needed=needed_bytes,
            room=room,
        )
        return str(text)
    return None


def room_bytes(directory: LogDir) -> int | None:
    """Return what a log directory may take, None where the broker does not tell the size of its volume."""
    if directory.total_bytes is None or directory.usable_bytes is None:
        return None
    return DirectorySpace(directory.total_bytes, directory.usable_bytes).room_bytes


def held_in(
    image: MetadataImage, answers: Answers, log_dirs: Iterable[tuple[int, str]]
) -> dict[tuple[int, str], int | None]:
    """Return how many replicas each log directory holds or receives; None where the broker is down or has not told."""
    found: dict[tuple[int, str], int | None] = {}
    for broker_id, path in log_dirs:
        broker = image.cluster.brokers.get(broker_id)
        told = answers.get(broker_id, NOT_ASKED)
        directory = None if broker is None or broker.fenced or told.error else told.directory(path)
        coming = sum(told.dirs[number].path == path for _, number in told.sizes.futures.values())
        found[broker_id, path] = None if directory is None else directory.replicas + coming
    return found


def _path(row: Row, broker_id: int, answers: Answers) -> str | None:
    return answers.get(broker_id, NOT_ASKED).path_of(*row.key)
