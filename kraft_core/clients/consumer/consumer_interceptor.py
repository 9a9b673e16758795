"""Objects that see, and may change, the records and commits of a consumer. Source: ConsumerInterceptor, Kafka 4.3.1."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.consumer_record import ConsumerRecord
from kraft_core.clients.interceptors import Interceptors
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata

Records: TypeAlias = dict[TopicPartition, list[ConsumerRecord[Any, Any]]]


class ConsumerInterceptor:
    """Base class that changes nothing. What an interceptor raises is logged and does not concern the consumer."""

    def on_consume(self, records: Records) -> Records:
        """Return the records that a poll returns instead of `records`, which have been deserialized."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """See offsets that the group's coordinator has stored, also those of enable.auto.commit."""

    def close(self) -> None:
        """Release what the interceptor holds."""


class ConsumerInterceptors(Interceptors[ConsumerInterceptor]):
    """The interceptors of one consumer, called in order."""

    def on_consume(self, records: Records) -> Records:
        """Pass the records through all of them."""
        return self._pass_through(lambda interceptor, passed: interceptor.on_consume(passed), records)

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Report committed offsets to all of them."""
        self._call_each(lambda interceptor: interceptor.on_commit(offsets))
