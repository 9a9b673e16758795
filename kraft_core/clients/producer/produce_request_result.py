"""The outcome of one batch, shared by all its records.

Source: ProduceRequestResult, FutureRecordMetadata of Kafka 4.3.1.
"""

from bisect import bisect_right
from collections.abc import Callable

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.errors import KafkaError

NO_OFFSET = -1
NO_TIMESTAMP = -1


class ProduceRequestResult:
    """The outcome of a batch: its base offset, or an error per record.

    A batch that is split never gets an outcome of its own: `resolve` finds the part that has a record.
    """

    __slots__ = ("_first_indexes", "_parts", "_waiters", "base_offset", "error_of", "is_done", "log_append_time", "tp")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.tp = topic_partition
        self.is_done = False
        self.base_offset = NO_OFFSET
        self.log_append_time = NO_TIMESTAMP
        self.error_of: Callable[[int], KafkaError] | None = None
        self._waiters: list[tuple[int, Callable[[], None]]] | None = None
        self._parts: list[ProduceRequestResult] = []
        self._first_indexes: list[int] = []

    def done(self, base_offset: int, log_append_time: int, error_of: Callable[[int], KafkaError] | None) -> None:
        """Set the outcome and call the waiters. `error_of` gives the error of the record with an index."""
        assert not self.is_done, "a batch has one outcome"
        self.base_offset, self.log_append_time, self.error_of = base_offset, log_append_time, error_of
        self.is_done = True
        waiters, self._waiters = self._waiters, None
        for _, waiter in waiters or ():
            waiter()

    def when_done(self, index: int, waiter: Callable[[], None]) -> None:
        """Call `waiter` when the record's outcome is known; at once if it is."""
        if self._parts:
            part, index = self._part_of(index)
            part.when_done(index, waiter)
        elif self.is_done:
            waiter()
        elif self._waiters is None:
            self._waiters = [(index, waiter)]
        else:
            self._waiters.append((index, waiter))

    def split(self, parts: list[tuple[int, "ProduceRequestResult"]]) -> None:
        """Leave the outcome to `parts`, each with the index of its first record, in order."""
        self._first_indexes = [first for first, _ in parts]
        self._parts = [part for _, part in parts]
        waiters, self._waiters = self._waiters, None
        for index, waiter in waiters or ():
            self.when_done(index, waiter)

    def resolve(self, index: int) -> tuple["ProduceRequestResult", int]:
        """Return the result that holds the record's outcome, and the record's index in it."""
        result: ProduceRequestResult = self
        if self._parts:
            part, index = self._part_of(index)
            result, index = part.resolve(index)
        return result, index

    def _part_of(self, index: int) -> tuple["ProduceRequestResult", int]:
        number = bisect_right(self._first_indexes, index) - 1
        return self._parts[number], index - self._first_indexes[number]
