"""Lookups of a broker's partitions. Source: BrokersToIsrs, Kafka 4.3.1."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.image.topics_image import PartitionRegistration, TopicImage

PartitionRef = tuple["TopicImage", int, "PartitionRegistration"]
"""A partition with its topic and index."""


def partitions_with_broker_in_isr(image: MetadataImage, broker_id: int) -> Iterator[PartitionRef]:
    """Yield the partitions that have the broker in their ISR."""
    return (ref for ref in image.topics.partitions_of_broker(broker_id) if broker_id in ref[2].isr)


def partitions_with_broker_in_elr(image: MetadataImage, broker_id: int) -> Iterator[PartitionRef]:
    """Yield the partitions that have the broker among their eligible leader replicas."""
    return (ref for ref in image.topics.partitions_of_broker(broker_id) if broker_id in ref[2].elr)


def partitions_with_broker_in_directory(
    image: MetadataImage, broker_id: int, directory: UUID
) -> Iterator[PartitionRef]:
    """Yield the partitions whose replica on the broker is stored in the log directory."""
    return (ref for ref in image.topics.partitions_of_broker(broker_id) if ref[2].directory(broker_id) == directory)


def has_leaderships(image: MetadataImage, broker_id: int) -> bool:
    """Report whether the broker leads any partition; its controlled shutdown waits until it leads none."""
    return any(partition.leader == broker_id for _, _, partition in image.topics.partitions_of_broker(broker_id))
