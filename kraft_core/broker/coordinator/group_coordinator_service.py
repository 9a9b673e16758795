"""The group coordinator of a broker: which groups it coordinates, loading them, writing their records, timers.

A group belongs to the partition of __consumer_offsets given by the hash of its id, and the leader of that partition
coordinates the group. A new leader first reads the partition from its start; until it is done, the groups answer
COORDINATOR_LOAD_IN_PROGRESS.

Source: GroupCoordinatorService and CoordinatorRuntime, Kafka 4.3.1.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from kraft_core.broker.auto_topic_creation_manager import AutoTopicCreationManager
from kraft_core.broker.coordinator.coordinator_loader import CoordinatorLoader
from kraft_core.broker.coordinator.group_coordinator import GroupCoordinator
from kraft_core.broker.coordinator.group_coordinator_config import GroupCoordinatorConfig, KeyAndValue
from kraft_core.broker.coordinator.subscriptions import subscribed_topics
from kraft_core.broker.log.log_manager import PartitionKey
from kraft_core.broker.metadata_cache import MetadataCache
from kraft_core.broker.replica_manager import ReplicaManager
from kraft_core.broker.slices import Slices
from kraft_core.protocol.batch_header import read_header
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.internal_topics import CONSUMER_OFFSETS
from kraft_core.protocol.record_batch import encode_batch

log = logging.getLogger(__name__)

_NO_LEADER: Final = -1
_EXPIRY_INTERVAL_S: Final = 600.0  # offsets.retention.check.interval.ms
_OWNER: Final = ("", "group coordinator")


def java_hash(text: str) -> int:
    """Return Java's String.hashCode, as a signed 32-bit number, computed over UTF-16 units."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(data), 2):
        value = (31 * value + int.from_bytes(data[position : position + 2], "big")) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(group_id: str, partitions: int) -> int:
    """Return the partition of __consumer_offsets for a group. Source: Utils.abs, which masks the sign bit."""
    return (java_hash(group_id) & 0x7FFFFFFF) % partitions


class GroupCoordinatorService:
    """Owns the `GroupCoordinator`. Use `groups` only after `check` returned NONE."""

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        topics: AutoTopicCreationManager,
        clock_ms: Callable[[], int],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        slices: Slices,
    ) -> None:
        self.groups = GroupCoordinator(config, self, metadata)
        self._metadata = metadata
        self._replicas = replicas
        self._topics = topics
        self._clock_ms = clock_ms
        self._spawn = spawn
        self._slices = slices
        self._loaded: set[int] = set()
        self._loading: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._expiry: asyncio.TimerHandle | None = None
        replicas.on_leader_change(self._on_leader_change)

    def start(self) -> None:
        """Start the expiry of offsets."""
        loop = asyncio.get_running_loop()
        self._expiry = loop.call_later(_EXPIRY_INTERVAL_S, self._expire)

    def stop(self) -> None:
        """Stop the timers."""
        for timer in (self._timer, self._expiry):
            if timer is not None:
                timer.cancel()

    # -- which groups this broker coordinates

    def partition_of(self, group_id: str) -> int | None:
        """Return the group's partition of __consumer_offsets, None while that topic does not exist."""
        topic = self._metadata.image.topics.topic(CONSUMER_OFFSETS)
        return None if topic is None else partition_for(group_id, len(topic.partitions))

    def leader_of(self, group_id: str) -> int:
        """Return the broker that coordinates a group, -1 if there is none yet.

        Creates __consumer_offsets if it is missing.
        """
        index = self.partition_of(group_id)
        if index is None:
            self._topics.create_soon(CONSUMER_OFFSETS)
            return _NO_LEADER
        partition = self._metadata.partition(CONSUMER_OFFSETS, index)
        return _NO_LEADER if partition is None else partition.leader

    def check(self, group_id: str) -> ErrorCode:
        """Return NONE if this broker coordinates the group and has loaded it.

        Other results: INVALID_GROUP_ID, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        index = self.partition_of(group_id)
        if index is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if index in self._loaded:
            return ErrorCode.NONE
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if index in self._loading else ErrorCode.NOT_COORDINATOR

    @property
    def is_loading(self) -> bool:
        """Whether a partition is being loaded."""
        return bool(self._loading)

    def subscribed_topics(self, group_id: str) -> frozenset[str]:
        """Return the topics that the members of a group subscribe to; none for groups that are not of consumers."""
        group = self.groups.groups.get(group_id)
        return frozenset() if group is None else subscribed_topics(group)

    # -- leading and loading

    def _on_leader_change(self, key: PartitionKey, leads: bool) -> None:
        topic, index = key
        if topic != CONSUMER_OFFSETS:
            return
        if leads:
            self._loading.add(index)
            self._spawn(self._load(index))
        else:
            self._loading.discard(index)
            self._loaded.discard(index)
            self.groups.unload(lambda group_id: self.partition_of(group_id) in (index, None))

    async def _load(self, index: int) -> None:
        """Read a partition from its start, in slices, so that heartbeats and requests are served meanwhile.

        If its files cannot be read, its groups answer NOT_COORDINATOR until the leader changes. Unreadable batches are
        skipped.
        """
        try:
            _, partition_log = self._replicas.leader(CONSUMER_OFFSETS, index)
        except KafkaError:
            self._loading.discard(index)
            return
        loader = CoordinatorLoader(self.groups, lambda: index in self._loading, self._clock_ms)
        try:
            groups = await self._slices.run(loader.load(partition_log), _OWNER)
        except OSError as error:
            extra = {"partition": index, "cause": str(error)}
            log.error("groups_not_loaded", extra=extra)  # noqa: TRY400 # the cause is enough
            self._loading.discard(index)
            return
        if loader.skipped:
            extra = {"partition": index, "count": loader.skipped, "first": loader.first_cause}
            log.warning("group_records_skipped", extra=extra)
        if groups is None:
            return
        self._loading.discard(index)
        self._loaded.add(index)
        self.reschedule()
        log.info("groups_loaded", extra={"partition": index, "groups": groups})

    # -- writing

    def append(self, group_id: str, records: Sequence[KeyAndValue]) -> ErrorCode:
        """Append records of a group to its partition; see `GroupLog`.

        Return COORDINATOR_NOT_AVAILABLE or NOT_COORDINATOR if the write fails, and MESSAGE_TOO_LARGE for a batch above
        the topic's max.message.bytes.
        """
        index = self.partition_of(group_id)
        if index is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            partition, partition_log = self._replicas.leader(CONSUMER_OFFSETS, index)
            if not partition.is_sole_candidate(self._replicas.broker_id):
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
            keys, values = zip(*records, strict=True)
            batch = encode_batch(0, -1, self._clock_ms(), values, keys=keys)
            if len(batch) > partition_log.config.max_message_bytes:
                return ErrorCode.MESSAGE_TOO_LARGE
            header = read_header(batch)
            partition_log.append_stamped(batch, header, partition.registration.leader_epoch, self._clock_ms())
        except KafkaError as error:
            not_leader = error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)
            log.warning("group_record_not_written", extra={"group_id": group_id, "cause": str(error)})
            return ErrorCode.NOT_COORDINATOR if not_leader else ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._replicas.wake((CONSUMER_OFFSETS, index))
        return ErrorCode.NONE

    # -- time

    def reschedule(self) -> None:
        """Set the timer to the next deadline of any group."""
        deadline_ms = self.groups.next_deadline_ms()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None:
            delay_s = max(0.0, (deadline_ms - self._clock_ms()) / 1000)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.groups.poll(self._clock_ms())
        self.reschedule()

    def _expire(self) -> None:
        self.start()
        self.groups.expire_offsets(self._clock_ms())
