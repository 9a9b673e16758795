"""Sizes of replicas and log directories, which only the brokers know (DescribeLogDirs).

Asked for as `BrokerAnswers` does: a broker that does not answer costs its own cells and no page. Remote (tiered) bytes
are not counted.
"""

import datetime as dt
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, cast
from uuid import UUID

from app.cluster.broker_answers import WAIT_SECONDS, Answer, BrokerAnswers
from app.cluster.broker_requests import BrokerRequests
from kraft_core.clients.admin.admin_call import error_of
from kraft_core.clients.admin.log_dirs import alter_replica_log_dirs_request, alter_replica_log_dirs_results
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.messages import (
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponseDescribeLogDirsResult,
)

FRESH_SECONDS: Final = 10.0


class ReplicaSizes:
    """The sizes of a broker's replicas in bytes, 18 bytes of memory each.

    `futures`: size and number of the directory of replicas that are being copied to another directory, by topic and
    partition. They are not among the others.
    """

    def __init__(self, results: Collection[DescribeLogDirsResponseDescribeLogDirsResult] = ()) -> None:
        rows = sorted(
            (topic.name, each.partition_index, each.partition_size, number)
            for number, found in enumerate(results)
            for topic in found.topics
            for each in topic.partitions
            if not each.is_future_key
        )
        self._topics = sorted({row[0] for row in rows})
        number_of = {name: number for number, name in enumerate(self._topics)}
        self._keys = array("q", [number_of[row[0]] << 32 | row[1] for row in rows])
        self._sizes = array("q", [row[2] for row in rows])
        self._dirs = array("h", [row[3] for row in rows])
        self.futures = {
            (topic.name, each.partition_index): (each.partition_size, number)
            for number, found in enumerate(results)
            for topic in found.topics
            for each in topic.partitions
            if each.is_future_key
        }

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[tuple[str, int, int, int]]:
        """Yield topic, partition, size in bytes and the number of the directory, sorted."""
        for key, size, number in zip(self._keys, self._sizes, self._dirs, strict=True):
            yield self._topics[key >> 32], key & 0xFFFF_FFFF, size, number

    def of_topic(self, topic: str) -> int | None:
        """Return the size of all replicas of a topic, None if the broker has none."""
        number = bisect_left(self._topics, topic)
        if number == len(self._topics) or self._topics[number] != topic:
            return None
        first, end = bisect_left(self._keys, number << 32), bisect_left(self._keys, (number + 1) << 32)
        return sum(self._sizes[first:end])

    def of(self, topic: str, partition: int) -> int | None:
        """Return the size of one replica, None if the broker has none."""
        found = self._index(topic, partition)
        return None if found is None else self._sizes[found]

    def directory_of(self, topic: str, partition: int) -> int | None:
        """Return the number of the directory of one replica, None if the broker has none."""
        found = self._index(topic, partition)
        return None if found is None else self._dirs[found]

    def _index(self, topic: str, partition: int) -> int | None:
        number = bisect_left(self._topics, topic)
        if number == len(self._topics) or self._topics[number] != topic:
            return None
        key = number << 32 | partition
        found = bisect_left(self._keys, key)
        return found if found < len(self._keys) and self._keys[found] == key else None


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory. `error` is Kafka's message if it cannot be used, else "". Sizes in bytes, None if unknown."""

    path: str
    error: str
    size_bytes: int
    replicas: int
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool


@dataclass(frozen=True, slots=True)
class LogDirs:
    """The log directories of a broker at `asked_at` or later, None if it has not answered yet.

    `error` says why the last request failed; the other values are then those of an earlier answer.
    """

    asked_at: dt.datetime | None = None
    dirs: tuple[LogDir, ...] = ()
    sizes: ReplicaSizes = field(default_factory=ReplicaSizes)
    error: str = ""

    @property
    def size_bytes(self) -> int | None:
        """The bytes of all replicas of the broker, None if it has not answered."""
        return None if self.asked_at is None else sum(each.size_bytes for each in self.dirs)

    def path_of(self, topic: str, partition: int) -> str | None:
        """Return the directory of one replica, None if the broker has none or has not answered."""
        number = self.sizes.directory_of(topic, partition)
        return None if number is None else self.dirs[number].path

    def future_of(self, topic: str, partition: int) -> tuple[str, int] | None:
        """Return the directory to which a replica is being copied and its bytes there, None without such a copy."""
        found = self.sizes.futures.get((topic, partition))
        return None if found is None else (self.dirs[found[1]].path, found[0])

    def directory(self, path: str) -> LogDir | None:
        """Return one directory, None if the broker does not have it."""
        return next((each for each in self.dirs if each.path == path), None)

    def directory_ids(self, image: MetadataImage, broker: BrokerRegistration) -> dict[str, UUID]:
        """Return the directory id of each path.

        A broker's answer has no ids. A path has the id that the metadata log gives for most of its replicas, and if one
        path and one id are left over, these belong together.
        """
        votes: dict[int, Counter[UUID]] = defaultdict(Counter)
        for topic, partition, _, number in self.sizes:
            found = image.topics.topic(topic)
            placed = found.partitions.get(partition) if found else None
            directory = placed.directory(broker.id) if placed else None
            if directory in broker.directories:
                votes[number][directory] += 1
        ids = {self.dirs[number].path: counts.most_common(1)[0][0] for number, counts in votes.items()}
        paths = [each.path for each in self.dirs if each.path not in ids and not each.error]
        left = [each for each in broker.directories if each not in ids.values()]
        if len(paths) == len(left) == 1:
            ids[paths[0]] = left[0]
        return ids


NOT_ASKED: Final = LogDirs()
NOT_IN_LOG: Final = LogDirs()
"""What is known of a past state: the metadata log has no sizes."""


def topic_size(topic: str, answers: Iterable[LogDirs]) -> int | None:
    """Return the bytes of all replicas of a topic on the brokers that have answered, None if none of them has one."""
    known = [size for each in answers if (size := each.sizes.of_topic(topic)) is not None]
    return sum(known) if known else None


class BrokerLogDirs:
    """The log directories of all brokers, as far as somebody has asked for them. Used on the event loop only."""

    def __init__(self, requests: BrokerRequests) -> None:
        self._requests = requests
        self._brokers: dict[int, BrokerRegistration] = {}
        self._answers = BrokerAnswers[int, LogDirs](self._ask)

    async def of(
        self,
        brokers: Iterable[BrokerRegistration],
        wait_seconds: float = WAIT_SECONDS,
        fresh_seconds: float = FRESH_SECONDS,
    ) -> Mapping[int, LogDirs]:
        """Return what is known of these brokers, by id, after asking those with no answer or an older one.

        Waits for the answers for `wait_seconds` at most; a request that takes longer continues in the background. A
        fenced broker is not asked.
        """
        wanted = {broker.id: broker for broker in brokers}
        self._brokers.update(wanted)
        active = {broker_id: broker_id for broker_id, broker in wanted.items() if not broker.fenced}
        await self._answers.of(active, wait_seconds, fresh_seconds)
        return {broker_id: _with_error(self._answers.known(broker_id)) for broker_id in wanted}

    async def move(
        self, broker: BrokerRegistration, wanted: Mapping[tuple[str, int], str]
    ) -> dict[tuple[str, int], KafkaError]:
        """Let a broker move replicas to its directories with these paths, and return the errors by partition.

        REPLICA_NOT_AVAILABLE: it has no such replica, and will create it in that directory. LOG_DIR_NOT_FOUND,
        KAFKA_STORAGE_ERROR: the directory is unknown or offline. INVALID_REPLICA_ASSIGNMENT: it is cordoned. A replica
        that is there already stays, and a copy of it to another directory is cancelled. Raises ConnectionError.
        """
        partitions = {TopicPartition(*each): path for each, path in wanted.items()}
        answer = await self._requests.send(broker, alter_replica_log_dirs_request(partitions))
        results = alter_replica_log_dirs_results(cast("AlterReplicaLogDirsResponse", answer))
        return {(topic, index): error for (topic, index), error in results.items() if error is not None}

    async def stop(self) -> None:
        """Cancel pending requests."""
        await self._answers.stop()

    async def _ask(self, broker_id: int, _keys: Sequence[int]) -> Mapping[int, LogDirs | KafkaError]:
        asked_at = dt.datetime.now(dt.UTC)
        answer = await self._requests.send(self._brokers[broker_id], DescribeLogDirsRequest(topics=None))
        return {broker_id: _log_dirs(cast("DescribeLogDirsResponse", answer), asked_at)}


def _with_error(answer: Answer[LogDirs]) -> LogDirs:
    found = answer.value or NOT_ASKED
    return found if answer.error is None else replace(found, error=str(answer.error))


class PastLogDirs(BrokerLogDirs):
    """The log directories in a past state, of which only the brokers of then could tell."""

    async def of(
        self,
        brokers: Iterable[BrokerRegistration],
        wait_seconds: float = WAIT_SECONDS,
        fresh_seconds: float = FRESH_SECONDS,
    ) -> Mapping[int, LogDirs]:
        """Return NOT_IN_LOG for each broker."""
        return {broker.id: NOT_IN_LOG for broker in brokers}


def _log_dirs(answer: DescribeLogDirsResponse, asked_at: dt.datetime) -> LogDirs:
    refused = error_of(answer.error_code)
    if refused is not None:
        raise refused
    return LogDirs(asked_at, tuple(_log_dir(each) for each in answer.results), ReplicaSizes(answer.results))


def _log_dir(found: DescribeLogDirsResponseDescribeLogDirsResult) -> LogDir:
    sizes = [each.partition_size for topic in found.topics for each in topic.partitions if not each.is_future_key]
    return LogDir(
        path=found.log_dir,
        error=str(error_of(found.error_code) or ""),
        size_bytes=sum(sizes),
        replicas=len(sizes),
        total_bytes=found.total_bytes if found.total_bytes >= 0 else None,
        usable_bytes=found.usable_bytes if found.usable_bytes >= 0 else None,
        is_cordoned=found.is_cordoned,
    )
