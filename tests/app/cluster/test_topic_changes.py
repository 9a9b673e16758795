"""The time of the last change of each topic, from the kept changes."""

from collections.abc import Sequence
from uuid import UUID

from app.cluster.history import History
from app.cluster.topic_changes import TopicChangeTimes
from kraft_core.clients.observed_log import ObservedLog
from kraft_core.configs.config_resource import BROKER, TOPIC
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol import metadata_records as r
from kraft_core.protocol.record_batch import encode_batch

ORDERS, LOGS = UUID(int=1), UUID(int=2)
CREATED = [
    r.TopicRecord(name="orders", topic_id=ORDERS),
    r.TopicRecord(name="logs", topic_id=LOGS),
    r.PartitionRecord(partition_id=0, topic_id=LOGS, replicas=(1,), isr=(1,), leader=1),
]


class Feed:
    """A history that is fed with one batch at a time; each is a second younger."""

    def __init__(self, records_max: int = 100) -> None:
        self.history = History(records_max)
        self._log = ObservedLog()
        self._offset = 0
        self.time_ms = 1_000_000

    def add(self, *records: r.MetadataRecord) -> int:
        """Add a batch and return its time."""
        self.time_ms += 1_000
        values = [r.encode_record(record, type(record).VERSIONS[1]) for record in records]
        self._log.append(encode_batch(self._offset, 1, self.time_ms, values), 1)
        self._offset += len(values)
        self._log.advance(self._offset)
        change = self._log.next_change()
        assert change is not None
        self.history.add(change)
        return self.time_ms


def fed(records: Sequence[r.MetadataRecord], records_max: int = 100) -> tuple[Feed, int]:
    feed = Feed(records_max)
    return feed, feed.add(*records)


def test_topics_partitions_and_configs_count_and_deleted_topics_are_forgotten() -> None:
    feed, created = fed(CREATED)
    times = TopicChangeTimes()
    assert times.of(feed.history) == {ORDERS: created, LOGS: created}
    led = feed.add(r.PartitionChangeRecord(partition_id=0, topic_id=LOGS, leader=-1))
    assert times.of(feed.history) == {ORDERS: created, LOGS: led}
    set_at = feed.add(r.ConfigRecord(resource_type=TOPIC, resource_name="orders", name="retention.ms", value="1"))
    feed.add(r.ConfigRecord(resource_type=BROKER, resource_name="orders", name="log.retention.ms", value="1"))
    assert times.of(feed.history) == {ORDERS: set_at, LOGS: led}
    feed.add(r.RemoveTopicRecord(topic_id=LOGS))
    assert times.of(feed.history) == {ORDERS: set_at}
    assert TopicChangeTimes().of(feed.history) == {ORDERS: set_at}, "one reading of the whole history gives the same"


def test_a_time_stays_known_after_its_change_is_dropped_but_not_across_a_gap() -> None:
    feed, created = fed(CREATED, records_max=4)
    watched, late = TopicChangeTimes(), TopicChangeTimes()
    late.of(feed.history)
    for value in ("1", "2", "3", "4", "5", "6"):
        config = r.ConfigRecord(resource_type=TOPIC, resource_name="orders", name="retention.ms", value=value)
        newest = feed.add(config)
        assert watched.of(feed.history).get(ORDERS, newest) == newest
    assert feed.history.oldest_offset > len(CREATED), "the creation is no longer kept"
    assert watched.of(feed.history) == {ORDERS: newest, LOGS: created}
    assert late.of(feed.history) == {ORDERS: newest}, "logs may have changed in what was dropped unread"
    feed.history.snapshot(MetadataImage.EMPTY)
    assert watched.of(feed.history) == {}
