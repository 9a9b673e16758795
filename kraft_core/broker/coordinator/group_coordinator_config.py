"""The configs of the group coordinator, and the interfaces to the broker that it needs."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kraft_core.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCoordinatorConfig:
    """Configs named after Kafka's, with Kafka's defaults; times in ms."""

    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    max_group_size: int = 2**31 - 1  # group.max.size
    offset_metadata_max_bytes: int = 4_096  # offset.metadata.max.bytes
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000  # offsets.retention.minutes
    new_member_join_timeout_ms: int = 300_000  # fixed in Kafka too


KeyAndValue = tuple[bytes, bytes | None]


class GroupLog(Protocol):
    """The storage of groups and offsets: one partition of __consumer_offsets per group."""

    def append(self, group_id: str, records: Sequence[KeyAndValue]) -> ErrorCode:
        """Append records of one group as one batch; a None value deletes.

        Return NONE or the error for the group's client.
        """
        ...


class TopicNames(Protocol):
    """The topics of the metadata."""

    def has_partition(self, topic: str, partition: int) -> bool:
        """Return whether the partition exists."""
        ...

    def topic_id(self, topic: str) -> uuid.UUID:
        """Return the topic's id, zero if there is no such topic."""
        ...

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        """Return the topic's name, None if there is no such id."""
        ...
