"""Sizes for reports and plans, from the brokers' answers about their log directories."""

from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from app.reports.proposals.layout import DirectorySpace
from kraft_core.image.metadata_image import MetadataImage, PartitionRegistration
from kraft_core.image.trie_items import values_of

if TYPE_CHECKING:
    from app.cluster.log_dirs import LogDirs


def partition_size(
    name: str, number: int, partition: PartitionRegistration, answers: "Mapping[int, LogDirs]"
) -> int | None:
    """Return the bytes of one replica of a partition of the topic `name`, None if no broker has told.

    The leader's replica counts, else the largest known one: replicas that catch up are smaller.
    """
    size = answers[partition.leader].sizes.of(name, number) if partition.leader in answers else None
    if size is not None:
        return size
    told = (answers[each].sizes.of(name, number) for each in partition.replicas if each in answers)
    return max((each for each in told if each is not None), default=None)


def partition_sizes(image: MetadataImage, answers: "Mapping[int, LogDirs]") -> dict[tuple[UUID, int], int]:
    """Return `partition_size` by (topic id, partition number), for partitions of which a broker has told."""
    if not answers:
        return {}
    return {
        (topic.id, number): size
        for topic in values_of(image.topics.by_id)
        for number, partition in topic.sorted_partitions()
        if (size := partition_size(topic.name, number, partition, answers)) is not None
    }


def directory_space(image: MetadataImage, answers: "Mapping[int, LogDirs]") -> dict[int, dict[UUID, DirectorySpace]]:
    """Return the space of log directories by broker id and directory id, where the broker tells it (KIP-827).

    An error in a directory, or an answer without sizes of volumes, leaves the directory out.
    """
    found: dict[int, dict[UUID, DirectorySpace]] = {}
    for broker_id, answer in answers.items():
        broker = image.cluster.brokers.get(broker_id)
        if broker is None:
            continue
        ids = answer.directory_ids(image, broker)
        space = {
            ids[each.path]: DirectorySpace(each.total_bytes, each.usable_bytes)
            for each in answer.dirs
            if each.path in ids and each.total_bytes is not None and each.usable_bytes is not None
        }
        if space:
            found[broker_id] = space
    return found
