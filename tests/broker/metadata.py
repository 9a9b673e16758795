"""Metadata images for tests of the broker."""

import uuid
from collections.abc import Mapping

from kraft_core.broker.caught_up_image import CaughtUpImage
from kraft_core.image.metadata_delta import replay_all
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.metadata_records import MetadataRecord, PartitionRecord, RegisterBrokerRecord, TopicRecord

BROKER_ID = 1
INCARNATION_ID = uuid.UUID(int=77)


def image_of(topics: Mapping[str, tuple[uuid.UUID, int]], replica: int = BROKER_ID) -> MetadataImage:
    """Return an image of topics given by name with id and number of partitions.

    Every partition is on broker `replica`; broker 1 is registered.
    """
    records: list[MetadataRecord] = [
        RegisterBrokerRecord(broker_id=BROKER_ID, incarnation_id=INCARNATION_ID, broker_epoch=5)
    ]
    for name, (topic_id, partitions) in topics.items():
        records.append(TopicRecord(name=name, topic_id=topic_id))
        records += [
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=(replica,),
                isr=(replica,),
                leader=replica,
                leader_epoch=0,
                partition_epoch=0,
                directories=(uuid.UUID(int=0),),
            )
            for index in range(partitions)
        ]
    return replay_all(MetadataImage.EMPTY, records, 9, 1)


def caught_up(**topics: tuple[uuid.UUID, int]) -> CaughtUpImage:
    """Return the same image, marked as complete."""
    return CaughtUpImage(image_of(topics), BROKER_ID, INCARNATION_ID)
