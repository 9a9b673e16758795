"""What `KafkaProducer.send` returns: the outcome of one record, to be awaited.

Source: RecordMetadata, FutureRecordMetadata of Kafka 4.3.1.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import NamedTuple

import msgspec

from kraft_core.clients.producer.produce_request_result import NO_OFFSET, NO_TIMESTAMP, ProduceRequestResult


class RecordMetadata(NamedTuple):
    """Where a record was written. `offset` is -1 with acks=0; sizes are in bytes, -1 for null.

    `timestamp` in ms is the record's own, or the broker's with message.timestamp.type=LogAppendTime.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    serialized_key_size: int
    serialized_value_size: int


class FutureRecordMetadata(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The outcome of one record. It costs little until it is awaited, and an error that nobody awaits is not logged."""

    _result: ProduceRequestResult
    _index: int
    _timestamp: int
    _key_size: int
    _value_size: int

    def done(self) -> bool:
        """Whether the record was acknowledged or has failed."""
        return self._result.resolve(self._index)[0].is_done

    def result(self) -> RecordMetadata:
        """Return where the record was written. Raises its KafkaError, and InvalidStateError before the outcome."""
        result, index = self._result.resolve(self._index)
        if not result.is_done:
            raise asyncio.InvalidStateError("The record has no outcome yet: await it.")
        if result.error_of is not None:
            raise result.error_of(index)
        return RecordMetadata(
            result.tp.topic,
            result.tp.partition,
            NO_OFFSET if result.base_offset < 0 else result.base_offset + index,
            self._timestamp if result.log_append_time == NO_TIMESTAMP else result.log_append_time,
            self._key_size,
            self._value_size,
        )

    def add_done_callback(self, callback: "Callable[[FutureRecordMetadata], None]") -> None:
        """Call with this future at the outcome, at once if it is there. The callback must not block or raise."""
        self._result.when_done(self._index, lambda: callback(self))

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        """Wait for the outcome; returns and raises as `result`."""
        if not self.done():
            waiter = asyncio.get_running_loop().create_future()
            self._result.when_done(self._index, lambda: None if waiter.done() else waiter.set_result(None))
            yield from waiter
        return self.result()
