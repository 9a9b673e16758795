"""Replicas of one log directory, distributed over the other directories of the same broker."""

from collections.abc import Iterable, Mapping

Partition = tuple[str, int]


def place_within(replicas: Mapping[Partition, int], room: Mapping[str, int | None]) -> dict[Partition, str]:
    """Return a directory for each replica that fits into one.

    `replicas`: bytes by (topic, partition). `room`: bytes that the directories may take, by path; None if unknown.

    The largest replica is placed first, each in the directory with the most room left; those of unknown room count as
    having as much as the roomiest at the start, so they take part evenly.
    """
    known = [each for each in room.values() if each is not None]
    left = {path: max(known, default=0) if each is None else each for path, each in room.items()}
    found: dict[Partition, str] = {}
    for key, size in sorted(replicas.items(), key=lambda item: (-item[1], item[0])):
        fits = [path for path in left if room[path] is None or left[path] >= size]
        if fits:
            best = _roomiest(fits, left)
            left[best] -= size
            found[key] = best
    return found


def _roomiest(paths: Iterable[str], left: Mapping[str, int]) -> str:
    return min(paths, key=lambda path: (-left[path], path))
