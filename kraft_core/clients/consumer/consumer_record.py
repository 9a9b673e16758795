"""A record as a consumer gives it. Source: ConsumerRecord of Kafka 4.3.1."""

from typing import Generic, TypeVar

import msgspec

from kraft_core.clients.client_metadata import TopicPartition

K = TypeVar("K")
V = TypeVar("V")

Headers = tuple[tuple[str, bytes | None], ...]


class ConsumerRecord(msgspec.Struct, Generic[K, V], frozen=True, gc=False):
    """One record. `timestamp_type` is 0 for CreateTime, 1 for LogAppendTime; `leader_epoch` None if unknown.

    A struct of msgspec, since it is created once per record: that takes a third of a NamedTuple's time.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: K
    value: V
    headers: Headers = ()
    leader_epoch: int | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the record is of."""
        return TopicPartition(self.topic, self.partition)
