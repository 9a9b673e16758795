"""Settings of the group coordinator, and what it needs from the broker around it."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kraft_core.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCoordinatorConfig:
    """Kafka's settings; times in ms, defaults are Kafka's."""

    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    max_group_size: int = 2**31 - 1  # group.max.size
    offset_metadata_max_bytes: int = 4_096  # offset.metadata.max.bytes
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000  # offsets.retention.minutes
    new_member_join_timeout_ms: int = 300_000  # not a setting in Kafka either


KeyAndValue = tuple[bytes, bytes | None]


class GroupLog(Protocol):
    """Where groups and offsets are kept: one partition of __consumer_offsets per group."""

    def append(self, group_id: str, records: Sequence[KeyAndValue]) -> ErrorCode:
        """Append the records of one group as one batch; NONE, or the error the group's client gets. None as value deletes."""
        ...


class TopicNames(Protocol):
    """What the coordinator asks the metadata."""

    def has_partition(self, topic: str, partition: int) -> bool:
        """Whether the partition exists now."""
        ...

    def topic_id(self, topic: str) -> uuid.UUID:
        """The topic's id, zero when there is no such topic."""
        ...

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        """The topic's name, None when there is no such id."""
        ...
