"""The partitions that this broker replicates: their leaders, their logs and the requests that wait for them.

The metadata image decides. A partition that this broker leads has an open log. A followed partition keeps the log it
has, but nothing is copied into it in this version (see `Partition.is_sole_candidate`). The log of a deleted partition
is deleted.

Source: ReplicaManager, Kafka 4.3.1.
"""

import asyncio
import logging
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kraft_core.broker.log.log_manager import LogManager, PartitionKey
from kraft_core.broker.log.log_validator import ProducedBatch
from kraft_core.broker.log.unified_log import AppendInfo, UnifiedLog
from kraft_core.broker.partition import Partition
from kraft_core.broker.slices import SLICE_S
from kraft_core.image.metadata_image import MetadataImage, PartitionRegistration, TopicImage
from kraft_core.image.trie_items import items_of
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.wire import Message

log = logging.getLogger(__name__)

ACKS_ALL: Final = -1
NO_ACKS: Final = 0
_RETRY_S: Final = 1.0
Waker = Callable[[PartitionKey], None]


class ReplicaManager:
    """Partitions by (topic, index), updated from the image by `on_image`."""

    def __init__(self, broker_id: int, logs: LogManager, clock_ms: Callable[[], int]) -> None:
        self.broker_id = broker_id
        self.logs = logs
        self.partitions: dict[PartitionKey, Partition] = {}
        self.isrs_to_alter: set[PartitionKey] = set()
        self._clock_ms = clock_ms
        self._image = MetadataImage.EMPTY
        self._wakers: dict[PartitionKey, set[Waker]] = {}
        self._leader_listeners: list[Callable[[PartitionKey, bool], None]] = []
        self._unopened: deque[PartitionKey] = deque()
        self._opens_next_turn = False
        logs.failures.on_failure(lambda directory: self._stop_offline())

    # -- metadata

    def on_leader_change(self, listener: Callable[[PartitionKey, bool], None]) -> None:
        """Call `listener(key, leads)` when this broker becomes or stops being the leader of a partition."""
        self._leader_listeners.append(listener)

    def on_image(self, old: MetadataImage, new: MetadataImage, records: Sequence[Message]) -> None:
        """Apply a new image: the topics that `records` name, or all topics of this broker after a snapshot.

        A log is deleted when a committed record removed its partition. After a snapshot there is no such record, so the
        log is set aside.
        """
        self._image = new
        for topic_id in self._changed_topics(old, new, records):
            self._update_topic(
                old.topics.by_id.get(topic_id), new.topics.by_id.get(topic_id), is_removal_seen=bool(records)
            )
        self._open_some()

    def _changed_topics(
        self, old: MetadataImage, new: MetadataImage, records: Sequence[Message]
    ) -> Iterable[uuid.UUID]:
        if records:
            named = (getattr(record, "topic_id", None) for record in records)
            return dict.fromkeys(topic_id for topic_id in named if topic_id is not None)
        ours = [*old.topics.topics_of_broker(self.broker_id), *new.topics.topics_of_broker(self.broker_id)]
        return dict.fromkeys(topic.id for topic in ours)

    def _update_topic(self, old: TopicImage | None, new: TopicImage | None, *, is_removal_seen: bool) -> None:
        before = {} if old is None else dict(items_of(old.partitions))
        after = {} if new is None else dict(items_of(new.partitions))
        for index in before.keys() | after.keys():
            registration = after.get(index)
            if new is not None and registration is not None and self.broker_id in registration.replicas:
                self._update_partition(new, index, registration, is_removal_seen=is_removal_seen)
            elif old is not None:
                self._drop(old, index, is_removal_seen=is_removal_seen)

    def _update_partition(
        self, topic: TopicImage, index: int, registration: PartitionRegistration, *, is_removal_seen: bool
    ) -> None:
        key = topic.name, index
        partition = self.partitions.get(key)
        if partition is not None and partition.topic_id != topic.id:
            self._drop_key(key, is_removal_seen=is_removal_seen)
            partition = None
        if partition is None:
            partition = Partition(topic.name, index, topic.id, registration, None)
            self.partitions[key] = partition
        partition.registration = registration
        if registration.leader != self.broker_id:
            self._resign(partition)
        elif partition.log is None:
            self._unopened.append(key)
        self._note_isr(key, partition)
        self.wake(key)

    def _note_isr(self, key: PartitionKey, partition: Partition) -> None:
        if partition.log is not None and partition.has_isr_to_alter(self.broker_id):
            self.isrs_to_alter.add(key)
        else:
            self.isrs_to_alter.discard(key)

    def _resign(self, partition: Partition) -> None:
        """Stop leading and release the log."""
        if partition.log is not None:
            partition.log = None
            self._notify_listeners(partition, leads=False)

    def _open_later(self, key: PartitionKey, partition: Partition, error: KafkaError) -> None:
        """Log once that a log cannot be opened, and retry: a full disk may have room later.

        A failed directory is not retried.
        """
        if self.logs.offline_directory_of(*key, partition.topic_id) is not None:
            return
        if not partition.is_failure_logged:
            partition.is_failure_logged = True
            extra = {"topic": partition.topic, "partition": partition.index, "cause": error.message}
            log.error("log_not_opened", extra=extra)

        def again() -> None:
            if self.partitions.get(key) is partition:
                self._unopened.append(key)
                self._open_some()

        asyncio.get_running_loop().call_later(_RETRY_S, again)

    def _stop_offline(self) -> None:
        """Stop leading the partitions in a failed directory.

        Clients get KAFKA_STORAGE_ERROR until the leader has moved.
        """
        for key, partition in list(self.partitions.items()):
            if partition.log is not None and partition.log.is_offline:
                self.isrs_to_alter.discard(key)
                self._resign(partition)
                self.wake(key)

    def _notify_listeners(self, partition: Partition, *, leads: bool) -> None:
        for listener in self._leader_listeners:
            listener((partition.topic, partition.index), leads)

    def _open_some(self) -> None:
        """Open logs of led partitions in slices, one a turn of the loop: a request may create thousands of them."""
        if not self._opens_next_turn:
            self._open_slice()

    def _open_slice(self) -> None:
        self._opens_next_turn = False
        end_s = time.perf_counter() + SLICE_S
        try:
            while self._unopened:
                self._open(self._unopened.popleft())
                if time.perf_counter() >= end_s:
                    break
        finally:
            if self._unopened:
                self._opens_next_turn = True
                asyncio.get_running_loop().call_soon(self._open_slice)

    def _open(self, key: PartitionKey) -> None:
        partition = self.partitions.get(key)
        if partition is None or partition.log is not None or partition.registration.leader != self.broker_id:
            return
        directory_id = partition.registration.directory(self.broker_id) or uuid.UUID(int=0)
        try:
            partition.log = self.logs.get_or_create(partition.topic, partition.index, partition.topic_id, directory_id)
        except KafkaError as error:
            self._open_later(key, partition, error)
            return
        self._note_isr(key, partition)
        self._notify_listeners(partition, leads=True)
        self.wake(key)

    def _drop(self, topic: TopicImage, index: int, *, is_removal_seen: bool) -> None:
        partition = self.partitions.get((topic.name, index))
        if partition is not None and partition.topic_id == topic.id:
            self._drop_key((topic.name, index), is_removal_seen=is_removal_seen)

    def _drop_key(self, key: PartitionKey, *, is_removal_seen: bool) -> None:
        partition = self.partitions.pop(key)
        self.isrs_to_alter.discard(key)
        if is_removal_seen:
            self.logs.delete(*key)
        else:
            self.logs.set_aside(*key, "a newer snapshot of the metadata does not assign it to this broker")
        self._resign(partition)
        self.wake(key)

    # -- lookups

    def leader(self, topic: str, index: int, current_leader_epoch: int = -1) -> tuple[Partition, UnifiedLog]:
        """Return the partition and its log if this broker leads it in the epoch that the client knows (-1: any).

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
        KAFKA_STORAGE_ERROR.
        """
        partition = self.partitions.get((topic, index))
        if partition is None:
            found = self._image.topics.topic(topic)
            if found is None or index not in found.partitions:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {topic}-{index}.")
            reason = f"Broker {self.broker_id} has no replica of {topic}-{index}."
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason)
        registration = partition.registration
        if current_leader_epoch >= 0 and current_leader_epoch != registration.leader_epoch:
            old = current_leader_epoch < registration.leader_epoch
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH if old else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{topic}-{index} is in leader epoch {registration.leader_epoch}, not {current_leader_epoch}.",
            )
        if registration.leader != self.broker_id:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Broker {self.broker_id} does not lead {topic}-{index}."
            )
        if partition.log is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {topic}-{index} is not open.")
        return partition, partition.log

    # -- append

    def append(self, topic: str, index: int, batch: ProducedBatch, acks: int) -> AppendInfo:
        """Append one produced batch and notify the requests that wait for the partition.

        Raises KafkaError as `leader` and `UnifiedLog.append_produced` do, and NOT_ENOUGH_REPLICAS, which clients retry,
        in two cases: `acks` is not 0 and another replica could become leader without the batch; `acks` is -1 and
        min.insync.replicas is not met.
        """
        partition, partition_log = self.leader(topic, index)
        registration = partition.registration
        if acks != NO_ACKS and not partition.is_sole_candidate(self.broker_id):
            others = sorted({*registration.isr, *registration.elr} - {self.broker_id})
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The replicas {others} of {topic}-{index} may become leader, and broker {self.broker_id} does not "
                "replicate to them: no write is acknowledged until they leave the in-sync and the eligible replicas.",
            )
        if acks == ACKS_ALL and len(registration.isr) < partition_log.config.min_insync_replicas:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{topic}-{index} has the in-sync replicas {list(registration.isr)}; min.insync.replicas is "
                f"{partition_log.config.min_insync_replicas}.",
            )
        info = partition_log.append_produced(batch, partition.registration.leader_epoch, self._clock_ms())
        if not info.is_duplicate:
            self.wake((topic, index))
        return info

    # -- waiting

    def wait_for(self, keys: Iterable[PartitionKey], waker: Waker) -> None:
        """Call `waker` at each change of these partitions until `stop_waiting`."""
        for key in keys:
            self._wakers.setdefault(key, set()).add(waker)

    def stop_waiting(self, keys: Iterable[PartitionKey], waker: Waker) -> None:
        """Remove what `wait_for` added."""
        for key in keys:
            waiting = self._wakers.get(key)
            if waiting is not None:
                waiting.discard(waker)
                if not waiting:
                    del self._wakers[key]

    def wake(self, key: PartitionKey) -> None:
        """Notify the requests that wait for a partition."""
        for waker in tuple(self._wakers.get(key, ())):
            waker(key)
