"""A metadata image that is complete enough to decide which logs belong to a broker.

A log may be set aside only by an image that contains everything committed before this start of the broker: a local
snapshot or high watermark may be older than the newest topics. The proof is the broker's registration. Each start
registers with a new incarnation id, and the quorum commits that registration after everything before it, so an image
with this id is complete.

Source: BrokerServer.startup, which waits for initialCatchUpFuture, Kafka 4.3.1; KIP-631.
"""

import uuid
from typing import Final

from kraft_core.image.metadata_image import MetadataImage, PartitionRegistration, TopicImage


class CaughtUpImage:
    """An image that contains the registration of this start of the broker. Raises ValueError for any other image."""

    __slots__ = ("broker_id", "image")

    def __init__(self, image: MetadataImage, broker_id: int, incarnation_id: uuid.UUID) -> None:
        if not is_caught_up(image, broker_id, incarnation_id):
            raise ValueError(
                f"The image at offset {image.offset} does not contain broker {broker_id}'s registration "
                f"as incarnation {incarnation_id}."
            )
        self.image: Final = image
        self.broker_id: Final = broker_id

    def topic(self, topic_id: uuid.UUID) -> TopicImage | None:
        """Return the topic with this id, None if there is none."""
        return self.image.topics.by_id.get(topic_id)

    def assignment(self, topic_id: uuid.UUID, partition: int) -> PartitionRegistration | None:
        """Return the partition if this broker is one of its replicas, else None."""
        topic = self.topic(topic_id)
        registration = None if topic is None else topic.partitions.get(partition)
        return registration if registration is not None and self.broker_id in registration.replicas else None

    def reason_unassigned(self, topic_id: uuid.UUID | None, partition: int) -> str:
        """Return the reason why `assignment` is None."""
        where = f"the metadata at offset {self.image.offset}"
        if topic_id is None:
            return "the folder has no partition.metadata with a topic id"
        topic = self.topic(topic_id)
        if topic is None:
            return f"{where} has no topic with this id"
        if topic.partitions.get(partition) is None:
            return f"{where} has no partition {partition} of topic {topic.name}"
        return f"{where} does not name broker {self.broker_id} as a replica of {topic.name}-{partition}"


def is_caught_up(image: MetadataImage, broker_id: int, incarnation_id: uuid.UUID) -> bool:
    """Return whether `image` contains the broker's registration with `incarnation_id`."""
    registration = image.cluster.brokers.get(broker_id)
    return registration is not None and registration.incarnation_id == incarnation_id
