"""Objects that see, and may change, the records of a producer. Source: ProducerInterceptor, Kafka 4.3.1."""

from dataclasses import dataclass
from typing import Any

from kraft_core.clients.interceptors import Interceptors
from kraft_core.clients.producer.future_record_metadata import RecordMetadata
from kraft_core.clients.producer.producer_batch import Headers


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record as the application sends it, before its serializers."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Headers = ()


class ProducerInterceptor:
    """Base class that changes nothing. What an interceptor raises is logged and does not concern the record."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send instead of `record`."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None, headers: Headers) -> None:
        """See the outcome of a record: `metadata`, or `error`."""

    def close(self) -> None:
        """Release what the interceptor holds."""


class ProducerInterceptors(Interceptors[ProducerInterceptor]):
    """The interceptors of one producer, called in order."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Pass the record through all of them."""
        return self._pass_through(lambda interceptor, passed: interceptor.on_send(passed), record)

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None, headers: Headers) -> None:
        """Report the outcome to all of them."""
        self._call_each(lambda interceptor: interceptor.on_acknowledgement(metadata, error, headers))
