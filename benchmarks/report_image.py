"""The metadata image that reports and plans are measured with, built from seeded records.

300 brokers in 6 racks, three replicas in three racks. One partition in a hundred has a replica out of sync, one in a
thousand has two replicas in one rack. Topics are striped over the brokers, as they are created, or `scattered`: the
replicas of each partition are at random places, as after years of reassignments.
"""

import itertools
from collections.abc import Iterator
from random import Random
from uuid import UUID

from kraft_core.image.metadata_delta import replay_all
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.metadata_records import (
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from kraft_core.protocol.uuids import random_uuid

BROKERS = 300
RACKS = 6
SEED = 1


def _brokers(random: Random, count: int, dead_rack: int | None = None) -> Iterator[MetadataRecord]:
    yield FeatureLevelRecord(name="metadata.version", feature_level=30)
    for broker_id in range(count):
        yield RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=random_uuid(random),
            broker_epoch=broker_id + 1,
            rack=f"rack-{broker_id % RACKS}",
            fenced=broker_id % RACKS == dead_rack,
            log_dirs=(random_uuid(random),),
        )


def _topic(
    random: Random,
    name: str,
    partitions: int,
    directories: list[UUID],
    dead_rack: int | None = None,
    *,
    scattered: bool = False,
) -> Iterator[MetadataRecord]:
    """Yield the records of a topic whose partitions' replicas are in different racks."""
    topic_id, brokers = random_uuid(random), len(directories)
    yield TopicRecord(name=name, topic_id=topic_id)
    start = random.randrange(brokers)
    for number in range(partitions):
        first = (start + number) % brokers
        step = RACKS if random.random() < 0.001 else 1
        shifts: tuple[int, ...] = (0, step, 2 * step)
        if scattered:
            first = int(random.random() * brokers)
            shifts = (0, *(shift + RACKS * int(random.random() * (brokers // RACKS - 3)) for shift in shifts[1:]))
            if shifts[1] == shifts[2]:  # a broker has one replica of a partition at most
                shifts = (*shifts[:2], shifts[2] + RACKS)
        replicas = tuple((first + shift) % brokers for shift in shifts)
        in_sync: tuple[int, ...] = replicas[:2] if random.random() < 0.01 else replicas
        if dead_rack is not None:
            in_sync = tuple(replica for replica in in_sync if replica % RACKS != dead_rack)
        yield PartitionRecord(
            partition_id=number,
            topic_id=topic_id,
            replicas=replicas,
            isr=in_sync,
            leader=in_sync[0] if in_sync else -1,
            leader_epoch=0,
            partition_epoch=0,
            directories=tuple(directories[replica] for replica in replicas),
        )


def synthetic_image(
    topics: int, partitions: int, brokers: int = BROKERS, dead_rack: int | None = None, *, scattered: bool = False
) -> MetadataImage:
    """Return an image of `topics` topics with `partitions` partitions each, equal in every run.

    The brokers of `dead_rack` (0 to 5) are fenced, in no ISR, and lead nothing. For `scattered` see the module.
    """
    random = Random(SEED)
    image = replay_all(MetadataImage.EMPTY, _brokers(random, brokers, dead_rack), brokers, 1)
    directories = [image.cluster.brokers[broker_id].directories[0] for broker_id in range(brokers)]
    records = itertools.chain.from_iterable(
        _topic(random, f"topic-{number:05d}", partitions, directories, dead_rack, scattered=scattered)
        for number in range(topics)
    )
    return replay_all(image, records, topics * (partitions + 1), 1)
