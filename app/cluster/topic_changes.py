"""Which topics a change concerns, and when each topic was last changed, as far as the kept changes tell."""

from collections.abc import Iterator, Mapping
from uuid import UUID

from app.cluster.history import Change, History
from kraft_core.configs.config_resource import TOPIC
from kraft_core.protocol.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

_OF_A_TOPIC = (TopicRecord, PartitionRecord, PartitionChangeRecord)


def topics_of(change: Change) -> Iterator[UUID]:
    """Yield the id of each topic that a change concerns, also that of a deleted one; some repeatedly.

    Changes of a topic, its partitions and its configs count, also those that brokers cause, such as a smaller ISR.
    """
    for _, record in change.records:
        if isinstance(record, (*_OF_A_TOPIC, RemoveTopicRecord)):
            yield record.topic_id
        elif isinstance(record, ConfigRecord) and record.resource_type == TOPIC:
            topic_id = change.after.topics.by_name.get(record.resource_name)
            if topic_id is not None:
                yield topic_id


class TopicChangeTimes:
    """Follows a history and costs the changes since the last look. A topic that is missing has no kept change."""

    def __init__(self) -> None:
        self._times: dict[UUID, int] = {}
        self._next_offset = 0
        self._snapshots = 0

    def of(self, history: History) -> Mapping[UUID, int]:
        """Return the time of the newest change of each topic, in ms since 1970, by topic id."""
        has_gap = self._next_offset < history.oldest_offset or self._snapshots != history.snapshots_loaded
        if has_gap:  # a topic may have changed in between: what is known is too old to be the last change
            self._times.clear()
            self._next_offset, self._snapshots = history.oldest_offset, history.snapshots_loaded
        for change in history.since(self._next_offset):
            self._add(change)
            self._next_offset = change.offset + 1
        return self._times

    def _add(self, change: Change) -> None:
        for topic_id in topics_of(change):
            self._times[topic_id] = change.timestamp_ms
            if change.after.topics.by_id.get(topic_id) is None:
                del self._times[topic_id]
