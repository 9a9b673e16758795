"""Errors of a consumer that the application sees, beside those of `protocol.errors`.

Source: the classes of the same names in org.apache.kafka.clients.consumer and common.errors, Kafka 4.3.1.
"""
# ruff: noqa: N818  Kafka's own names of errors have no suffix

from collections.abc import Collection, Mapping

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.protocol.errors import ErrorCode, KafkaError, RequestTimedOut

API_TIMEOUT = "timeout_ms, by default default.api.timeout.ms"
"""What limits the time of a consumer's operations."""


def timed_out(
    what: str, time_ms: float, last_error: KafkaError | None = None, limit: str = API_TIMEOUT
) -> RequestTimedOut:
    """Return the error of an operation without a result after `time_ms`; `what` was not done, and `limit` said so."""
    last = "" if last_error is None else f" The last error was: {last_error.message}"
    return RequestTimedOut(f"{what} within {time_ms:.0f} ms ({limit}).{last}")


def names_of(partitions: Collection[TopicPartition]) -> str:
    """Return partitions for a message: `a-0, b-1`, at most ten of them."""
    names = [f"{topic}-{partition}" for topic, partition in sorted(partitions)[:10]]
    more = len(partitions) - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


class NoOffsetForPartition(KafkaError):
    """Partitions have no committed offset and auto.offset.reset is none. Seek, or set auto.offset.reset."""

    def __init__(self, partitions: Collection[TopicPartition]) -> None:
        text = f"no committed offset and no auto.offset.reset for {names_of(partitions)}: seek to an offset"
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        self.partitions = frozenset(partitions)


class OffsetOutOfRange(KafkaError):
    """A position is outside the log and auto.offset.reset is none. `offsets` are the positions by partition."""

    def __init__(self, offsets: Mapping[TopicPartition, int]) -> None:
        named = ", ".join(f"{topic}-{partition} at {offset}" for (topic, partition), offset in sorted(offsets.items()))
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"positions outside the log and no auto.offset.reset: {named}; seek"
        )
        self.offsets = dict(offsets)


class LogTruncation(OffsetOutOfRange):
    """The leader's log no longer has the records before a position: an unclean election truncated it (KIP-320).

    `divergent_offsets` has the first offset that differs by partition, where the broker knows it.
    """

    def __init__(
        self, offsets: Mapping[TopicPartition, int], divergent_offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        super().__init__(offsets)
        named = names_of(list(offsets))
        self.message = f"records before the position were truncated and no auto.offset.reset is set: {named}; seek"
        self.args = (self.message,)
        self.divergent_offsets = dict(divergent_offsets)


class PartitionNotAssigned(KafkaError):
    """The call names a partition that is not assigned to this consumer."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(
            ErrorCode.INVALID_REQUEST, f"partition {partition.topic}-{partition.partition} is not assigned"
        )
        self.partition = partition


class InvalidSubscription(KafkaError):
    """Topics, a pattern and assigned partitions exclude each other; unsubscribe first."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.INVALID_REQUEST,
            "subscription to topics, to a pattern and assigned partitions exclude each other: unsubscribe first",
        )


class RecordUnreadable(KafkaError):
    """A fetched batch cannot be read: bad CRC, damaged data or an unknown codec.

    `partition` and `offset` name the next record; seek past it to continue.
    """

    def __init__(self, partition: TopicPartition, offset: int, cause: KafkaError) -> None:
        where = f"{partition.topic}-{partition.partition} at offset {offset}"
        super().__init__(cause.code, f"cannot read the next record of {where}: {cause.message}; seek past it")
        self.partition = partition
        self.offset = offset


class RecordDeserialization(KafkaError):
    """A deserializer failed. `origin` is "key" or "value"; seek to `offset` + 1 to continue."""

    def __init__(self, origin: str, partition: TopicPartition, offset: int, cause: Exception) -> None:
        where = f"{partition.topic}-{partition.partition} at offset {offset}"
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, f"the {origin} of {where} cannot be deserialized: {cause}")
        self.origin = origin
        self.partition = partition
        self.offset = offset
