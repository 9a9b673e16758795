"""Replay of topic and partition records onto a mutable working copy, which becomes a new TopicsImage at the end.

Plain dicts, with each changed topic frozen once, keep a batch of thousands of partitions cheap.
Source: TopicsDelta, TopicDelta, PartitionRegistration, Kafka 4.3.1.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec
from rpds import HashTrieMap

from kraft_core.image.replay_error import ReplayError
from kraft_core.image.topics_image import (
    RECOVERED,
    RECOVERING,
    PartitionRegistration,
    TopicImage,
    TopicsImage,
    intern_brokers,
    intern_ids,
    intern_uuids,
)
from kraft_core.protocol.uuids import DIRECTORY_MIGRATING

if TYPE_CHECKING:
    from uuid import UUID

    from kraft_core.protocol.metadata_records import (
        ClearElrRecord,
        PartitionChangeRecord,
        PartitionRecord,
        RemoveTopicRecord,
        TopicRecord,
    )

NO_LEADER_CHANGE: Final = -2
NO_RECOVERY_STATE_CHANGE: Final = -1
_RECOVERY_STATES: Final = (RECOVERED, RECOVERING)


def partition_from_record(record: PartitionRecord) -> PartitionRegistration:
    """Return the partition of a PartitionRecord; without directories every replica is MIGRATING."""
    replicas = intern_ids(record.replicas)
    elr, last_known_elr = record.eligible_leader_replicas, record.last_known_elr
    return PartitionRegistration(  # usually only replicas and ISR are set: avoid the calls for a million partitions
        replicas=replicas,
        directories=_directories(record.directories, len(replicas), record),
        isr=replicas if record.isr == replicas else intern_ids(record.isr),
        removing_replicas=intern_ids(record.removing_replicas) if record.removing_replicas else (),
        adding_replicas=intern_ids(record.adding_replicas) if record.adding_replicas else (),
        elr=intern_ids(elr) if elr else (),
        last_known_elr=intern_ids(last_known_elr) if last_known_elr else (),
        leader=record.leader,
        leader_recovery_state=_recovery_state(record),
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
    )


def merge_partition(partition: PartitionRegistration, record: PartitionChangeRecord) -> PartitionRegistration:
    """Return the partition after a change.

    The partition epoch increases by one; the leader epoch by one if the record has a leader, even the same one.
    """
    replicas, directories = partition.replicas, partition.directories
    if record.replicas is not None or record.directories is not None:
        replicas = replicas if record.replicas is None else intern_ids(record.replicas)
        directories = directories if record.directories is None else record.directories
        directories = _directories(directories, len(replicas), record)
    leads = record.leader != NO_LEADER_CHANGE
    keeps_state = record.leader_recovery_state == NO_RECOVERY_STATE_CHANGE
    return PartitionRegistration(
        replicas=replicas,
        directories=directories,
        isr=partition.isr if record.isr is None else intern_ids(record.isr),
        removing_replicas=_changed(partition.removing_replicas, record.removing_replicas),
        adding_replicas=_changed(partition.adding_replicas, record.adding_replicas),
        elr=_changed(partition.elr, record.eligible_leader_replicas),
        last_known_elr=_changed(partition.last_known_elr, record.last_known_elr),
        leader=record.leader if leads else partition.leader,
        leader_recovery_state=partition.leader_recovery_state if keeps_state else _recovery_state(record),
        leader_epoch=partition.leader_epoch + 1 if leads else partition.leader_epoch,
        partition_epoch=partition.partition_epoch + 1,
    )


def _recovery_state(record: PartitionRecord | PartitionChangeRecord) -> int:
    state = record.leader_recovery_state
    if state not in _RECOVERY_STATES:
        raise ReplayError(f"Value {state} is not a valid leader recovery state: {record}")
    return state


def _changed(before: tuple[int, ...], change: tuple[int, ...] | None) -> tuple[int, ...]:
    return before if change is None else intern_ids(change)


def _directories(
    directories: tuple[UUID, ...], replica_count: int, record: PartitionRecord | PartitionChangeRecord
) -> tuple[UUID, ...]:
    if len(directories) == replica_count:
        return intern_uuids(directories)
    if not any(directory != DIRECTORY_MIGRATING for directory in directories):
        return intern_uuids((DIRECTORY_MIGRATING,) * replica_count)
    raise ReplayError(f"The lengths for replicas and directories do not match: {record}")


class _WorkingTopic:
    """A topic being changed: its old state, and the partitions that differ."""

    __slots__ = ("changed", "replicas", "topic")

    def __init__(self, topic: TopicImage) -> None:
        self.topic = topic
        self.changed: dict[int, PartitionRegistration] = {}
        self.replicas: set[tuple[int, ...]] = set()

    def partition(self, index: int) -> PartitionRegistration | None:
        return self.changed.get(index) or self.topic.partitions.get(index)

    def freeze(self) -> TopicImage:
        if not self.changed:
            return self.topic
        topic, partitions = self.topic, self.topic.partitions
        partitions = HashTrieMap(self.changed) if len(partitions) == 0 else partitions.update(self.changed)
        brokers = topic.brokers
        if not brokers.issuperset(chain.from_iterable(self.replicas)):
            brokers = intern_brokers(brokers.union(*self.replicas))
        return TopicImage(topic.name, topic.id, partitions, brokers)


class TopicsDelta:
    """Changes on top of a TopicsImage, not yet frozen. Records are applied in log order; see `apply`."""

    __slots__ = ("_by_id", "_by_name", "_working")

    def __init__(self, base: TopicsImage) -> None:
        self._by_id = base.by_id
        self._by_name = base.by_name
        self._working: dict[int, _WorkingTopic] = {}  # by the topic id's number, which hashes much faster than a UUID

    def _topic(self, topic_id: UUID) -> _WorkingTopic:
        working = self._working.get(topic_id.int)
        if working is None:
            topic = self._by_id.get(topic_id)
            if topic is None:
                raise ReplayError(f"No topic with id {topic_id} exists.")
            working = self._working[topic_id.int] = _WorkingTopic(topic)
        return working

    def name_of(self, topic_id: UUID) -> str:
        """Return the name of a topic. Raises ReplayError for one that does not exist."""
        return self._topic(topic_id).topic.name

    def partition(self, topic_id: UUID, index: int) -> PartitionRegistration | None:
        """Return a partition as it is now. Raises ReplayError for a topic that does not exist."""
        return self._topic(topic_id).partition(index)

    def replay_topic(self, record: TopicRecord) -> None:
        """Create a topic without partitions; its name and id must be new."""
        if record.name in self._by_name or record.topic_id in self._by_id:
            raise ReplayError(f"Topic {record.name!r} with id {record.topic_id} exists already.")
        topic = TopicImage(record.name, record.topic_id)
        self._by_id = self._by_id.insert(topic.id, topic)
        self._by_name = self._by_name.insert(record.name, record.topic_id)
        self._working[record.topic_id.int] = _WorkingTopic(topic)

    def replay_partition(self, record: PartitionRecord) -> None:
        """Create a partition, or replace its state by the record's."""
        working = self._topic(record.topic_id)
        partition = partition_from_record(record)
        working.changed[record.partition_id] = partition
        working.replicas.add(partition.replicas)

    def replay_partition_change(self, record: PartitionChangeRecord) -> None:
        """Change an existing partition."""
        working = self._topic(record.topic_id)
        before = working.partition(record.partition_id)
        if before is None:
            raise ReplayError(f"Topic {working.topic.name!r} has no partition {record.partition_id}.")
        partition = merge_partition(before, record)
        working.changed[record.partition_id] = partition
        if record.replicas is not None:
            working.replicas.add(partition.replicas)

    def replay_remove_topic(self, record: RemoveTopicRecord) -> str:
        """Delete a topic with its partitions; return its name, so that its configs can be deleted."""
        topic = self._topic(record.topic_id).topic
        del self._working[record.topic_id.int]
        self._by_id = self._by_id.remove(record.topic_id)
        self._by_name = self._by_name.remove(topic.name)
        return topic.name

    def replay_clear_elr(self, record: ClearElrRecord) -> None:
        """Clear the ELR and last known ELR of one topic, or of all for an empty name (KIP-966).

        The partition epoch of each partition that had one increases.
        """
        if record.topic_name:
            topic_id = self._by_name.get(record.topic_name)
            if topic_id is None:
                raise ReplayError(f"Cannot clear the ELR of topic {record.topic_name!r}: it does not exist.")
            topics = [topic_id]
        else:
            topics = list(self._by_id)
        for topic_id in topics:
            working = self._topic(topic_id)
            for index in set(working.topic.partitions) | set(working.changed):
                partition = working.partition(index)
                if partition is not None and (partition.elr or partition.last_known_elr):
                    working.changed[index] = msgspec.structs.replace(
                        partition, elr=(), last_known_elr=(), partition_epoch=partition.partition_epoch + 1
                    )

    def apply(self) -> TopicsImage:
        """Return a new image with the changes; the base does not change."""
        by_id = self._by_id
        for working in self._working.values():
            topic = working.freeze()
            if topic is not working.topic:
                by_id = by_id.insert(topic.id, topic)
        return TopicsImage(by_id=by_id, by_name=self._by_name)
