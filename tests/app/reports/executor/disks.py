"""The log directories of simulated brokers: two each, `/a` and `/b`, which hold replicas and copies between them."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from app.cluster.log_dirs import LogDir, LogDirs, ReplicaSizes
from app.cluster.partitions import Partition
from kraft_core.protocol.messages import (
    DescribeLogDirsResponseDescribeLogDirsPartition,
    DescribeLogDirsResponseDescribeLogDirsResult,
    DescribeLogDirsResponseDescribeLogDirsTopic,
)

PATHS = ("/a", "/b")
Held = Iterable[tuple[str, int, int]]
"""Topic, partition and bytes."""


def results(held: Held, futures: Held = ()) -> DescribeLogDirsResponseDescribeLogDirsResult:
    """What a broker says of one directory."""
    rows = [(each, False) for each in held] + [(each, True) for each in futures]
    return DescribeLogDirsResponseDescribeLogDirsResult(
        topics=tuple(
            DescribeLogDirsResponseDescribeLogDirsTopic(
                name=topic,
                partitions=(
                    DescribeLogDirsResponseDescribeLogDirsPartition(
                        partition_index=index, partition_size=size, is_future_key=is_future
                    ),
                ),
            )
            for (topic, index, size), is_future in rows
        )
    )


def log_dirs(
    held: Mapping[str, Held],
    futures: Mapping[str, Held] | None = None,
    *,
    asked_at: dt.datetime | None = None,
    room: Mapping[str, int] | None = None,
    cordoned: Iterable[str] = (),
    offline: Iterable[str] = (),
) -> LogDirs:
    """The answer of a broker with these replicas and copies by directory. `room`: what may be used, of ten times it."""
    found = [results(list(each), (futures or {}).get(path, ())) for path, each in held.items()]
    dirs = tuple(
        LogDir(
            path=path,
            error="KAFKA_STORAGE_ERROR" if path in offline else "",
            size_bytes=sum(size for _, _, size in each),
            replicas=len(list(each)),
            total_bytes=None if room is None else 10 * room[path],
            usable_bytes=None if room is None else 2 * room[path],
            is_cordoned=path in cordoned,
        )
        for path, each in held.items()
    )
    return LogDirs(asked_at or dt.datetime.now(dt.UTC), dirs, ReplicaSizes(found))


@dataclass
class Disks:
    """Where the replicas are, by (broker, topic, partition), and the copies under way with their destinations."""

    places: dict[tuple[int, str, int], str] = field(default_factory=dict)
    futures: dict[tuple[int, str, int], str] = field(default_factory=dict)
    cordoned: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def move(self, broker: int, wanted: Mapping[Partition, str], held: Iterable[Partition]) -> dict[Partition, str]:
        """Carry out AlterReplicaLogDirs, and return what is refused."""
        refused: dict[Partition, str] = {}
        for key, path in wanted.items():
            replica = (broker, *key)
            if path in self.cordoned.get(broker, ()):
                refused[key] = f"{path} is cordoned"
            elif key not in held:
                self.places[replica] = path
            else:
                self.futures.pop(replica, None)
                if self.places.get(replica, PATHS[0]) != path:
                    self.futures[replica] = path
        return refused

    def advance(self, choose: Callable[[Partition], bool]) -> None:
        """Let the copies of the chosen partitions arrive."""
        for replica in list(self.futures):
            if choose(replica[1:]):
                self.places[replica] = self.futures.pop(replica)

    def answer(self, broker: int, held: Iterable[Partition], asked_at: dt.datetime) -> LogDirs:
        """Return what a broker says that has these replicas, of 100 bytes each, half of them copied."""
        rows: dict[str, list[tuple[str, int, int]]] = {path: [] for path in PATHS}
        coming: dict[str, list[tuple[str, int, int]]] = {path: [] for path in PATHS}
        for topic, index in held:
            rows[self.places.get((broker, topic, index), PATHS[0])].append((topic, index, 100))
            future = self.futures.get((broker, topic, index))
            if future is not None:
                coming[future].append((topic, index, 50))
        return log_dirs(rows, coming, asked_at=asked_at, cordoned=self.cordoned.get(broker, ()))
