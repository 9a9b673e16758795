"""Invariants 23 to 28 of docs/invariants.md, checked after each replayed record.

They are judged from the images before and after the record, without help of the code under test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_core.protocol.metadata_records import ClearElrRecord, ConfigRecord, PartitionChangeRecord, PartitionRecord

if TYPE_CHECKING:
    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.image.topics_image import PartitionRegistration
    from kraft_core.protocol.metadata_records import MetadataRecord

NONE = -1
RECOVERING = 1


def check_step(before: MetadataImage, record: MetadataRecord, after: MetadataImage) -> None:
    """Check one record and its replay."""
    if isinstance(record, PartitionRecord | PartitionChangeRecord):
        topic = before.topics.by_id.get(record.topic_id)
        assert topic is not None, f"27: {record} names no topic"
        partition = after.topics.by_id[record.topic_id].partitions[record.partition_id]
        _check_partition(partition)
        old = topic.partitions.get(record.partition_id)
        if isinstance(record, PartitionRecord):
            assert old is None, f"27: {record} creates a partition twice"
            _check_new_leader(after, partition)
        else:
            assert old is not None, f"27: {record} changes no partition"
            _check_change(before, record, old, partition)
    elif isinstance(record, ConfigRecord) and record.resource_type == 2 and record.value is not None:
        assert record.resource_name in after.topics.by_name, f"27: {record} configures no topic"
    elif isinstance(record, ClearElrRecord) and record.topic_name:
        assert record.topic_name in after.topics.by_name
    assert len(after.topics.by_name) == len(after.topics.by_id), "28: a name stands for two topics"


def _check_partition(partition: PartitionRegistration) -> None:
    replicas, isr, elr = set(partition.replicas), set(partition.isr), set(partition.elr)
    assert len(replicas) == len(partition.replicas) > 0, f"23: {partition}"
    assert len(isr) == len(partition.isr), f"23: {partition}"
    assert len(elr) == len(partition.elr), f"23: {partition}"
    assert isr <= replicas, f"23: {partition}"
    assert elr <= replicas, f"23: {partition}"
    assert not isr & elr, f"23: {partition}"
    assert partition.leader == NONE or partition.leader in isr, f"23: {partition}"
    assert set(partition.adding_replicas) <= replicas, f"23: {partition}"
    assert set(partition.removing_replicas) <= replicas, f"23: {partition}"
    assert len(partition.last_known_elr) <= 1, f"23: {partition}"
    assert len(partition.directories) == len(partition.replicas), f"23: {partition}"


def _check_new_leader(image: MetadataImage, partition: PartitionRegistration) -> None:
    broker = image.cluster.brokers.get(partition.leader)
    assert broker is not None, f"24: {partition}"
    assert broker.active, f"24: {partition} is led by {broker}"
    directory = partition.directory(partition.leader)
    assert directory is not None, f"24: {partition}"
    assert broker.has_online_dir(directory), f"24: {partition} lies offline on {broker}"


def _check_change(
    image: MetadataImage, record: PartitionChangeRecord, old: PartitionRegistration, new: PartitionRegistration
) -> None:
    assert new.partition_epoch == old.partition_epoch + 1, f"25: {record}"
    assert new.leader_epoch == old.leader_epoch + (record.leader != -2), f"25: {record}"
    if new.leader not in {old.leader, NONE}:
        assert new.leader_epoch > old.leader_epoch, f"25: {record}"
        _check_new_leader(image, new)
    # The change that completes a reassignment may also add replicas to the ISR.
    completes = old.is_reassigning and not new.is_reassigning and new.isr != old.isr
    vouched_for = old.replicas if old.leader != NONE and completes else ()
    was_in_sync = {*old.isr, *old.elr, *vouched_for}
    if new.leader != NONE and new.leader not in was_in_sync:
        assert new.isr == (new.leader,), f"26: {old} -> {new}"
        assert new.leader_recovery_state == RECOVERING, f"26: {old} -> {new}"
        assert new.elr == (), f"26: {old} -> {new}"
