"""A script of records whose leader changes and ISR flaps are counted by hand, for Spark's trends and for the pages."""

import datetime as dt

from kraft_core.protocol import metadata_records as r
from kraft_core.protocol.metadata_records import MetadataRecord
from tests.app.reports.lake.test_feed import topic
from tests.image.records import partition, register_broker, topic_id

START = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
MINUTE = 60_000
DAY = 24 * 60


def change(number: int, index: int, **fields: object) -> MetadataRecord:
    return r.PartitionChangeRecord(topic_id=topic_id(number), partition_id=index, **fields)


def fencing(broker_id: int, fenced: int) -> MetadataRecord:
    return r.BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=1, fenced=fenced)


SCRIPT: list[tuple[int, list[MetadataRecord]]] = [
    (0, [register_broker(broker_id, 1, fenced=True) for broker_id in (1, 2, 3)]),
    (1, [fencing(broker_id, -1) for broker_id in (1, 2, 3)]),  # the first start is no recovery
    (2, [topic(1), partition(1, 0), partition(1, 1), topic(2), partition(2, 0)]),
    # broker 3 leaves the ISR of 1-0 twice and returns twice, after 5 and 7 minutes; from 1-1 it only leaves
    (10, [change(1, 0, isr=(1, 2)), change(1, 1, isr=(1, 2))]),
    (15, [change(1, 0, isr=(1, 2, 3))]),
    (20, [change(1, 0, isr=(1, 2))]),
    (27, [change(1, 0, isr=(1, 3, 2))]),
    # broker 1 is fenced for 30 minutes: both partitions of topic 1 elect 2, and 1-0 returns to 1
    (30, [fencing(1, 1), change(1, 0, isr=(2, 3), leader=2), change(1, 1, isr=(2,), leader=2)]),
    (60, [fencing(1, -1)]),
    (61, [change(1, 0, isr=(2, 3, 1))]),
    (62, [change(1, 0, leader=1), change(2, 0, leader=1)]),  # the second is the same leader in a new epoch
    # the next day broker 2 is fenced for 10 minutes and again until the end; topic 2 is removed, topic 3 created
    (DAY, [fencing(2, 1), change(1, 1, leader=-1)]),
    (DAY + 10, [fencing(2, -1), change(1, 1, leader=2)]),
    (DAY + 20, [fencing(2, 1)]),
    (DAY + 21, [r.RemoveTopicRecord(topic_id=topic_id(2)), topic(3), partition(3, 0), partition(3, 1)]),
    (DAY + 22, [change(3, 0, replicas=(1, 2, 4), isr=(1, 2, 4))]),  # a move: broker 3 leaves and does not return
]

PARTITION_FLAPS = [("t1", 0, 3, (5 + 7 + 31) * MINUTE)]
BROKER_FLAPS = [(3, 2, 12 * MINUTE), (1, 1, 31 * MINUTE)]
PARTITION_LEADERS = [("t1", 1, 3), ("t1", 0, 2)]
BROKER_LEADERS = [(2, 3, 2), (1, 1, 2)]
