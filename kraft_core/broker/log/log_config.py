"""The configs of one log, from a topic's effective configs.

Source: LogConfig and TopicConfig, Kafka 4.3.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass

NO_LIMIT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The topic configs that a log uses, with Kafka's defaults; -1 means no limit where Kafka says so."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    flush_messages: int = 2**63 - 1
    flush_ms: int = 2**63 - 1
    retention_bytes: int = NO_LIMIT
    retention_ms: int = 7 * 24 * 3600 * 1000
    max_message_bytes: int = 1024 * 1024 + 12
    delete_retention_ms: int = 24 * 3600 * 1000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    file_delete_delay_ms: int = 60_000
    min_cleanable_dirty_ratio: float = 0.5
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    min_insync_replicas: int = 1
    log_append_time: bool = False
    timestamp_before_max_ms: int = 2**63 - 1
    timestamp_after_max_ms: int = 3600 * 1000

    @property
    def is_compacted(self) -> bool:
        """Whether older values of a key may be dropped, so that every record needs a key."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether retention by time and size applies."""
        return "delete" in self.cleanup_policy


_INTEGERS = {
    "segment.bytes": "segment_bytes",
    "segment.ms": "segment_ms",
    "index.interval.bytes": "index_interval_bytes",
    "flush.messages": "flush_messages",
    "flush.ms": "flush_ms",
    "retention.bytes": "retention_bytes",
    "retention.ms": "retention_ms",
    "max.message.bytes": "max_message_bytes",
    "delete.retention.ms": "delete_retention_ms",
    "min.compaction.lag.ms": "min_compaction_lag_ms",
    "max.compaction.lag.ms": "max_compaction_lag_ms",
    "file.delete.delay.ms": "file_delete_delay_ms",
    "min.insync.replicas": "min_insync_replicas",
    "message.timestamp.before.max.ms": "timestamp_before_max_ms",
    "message.timestamp.after.max.ms": "timestamp_after_max_ms",
}


def log_config(effective: Mapping[str, str]) -> LogConfig:
    """Return the configs of a log from a topic's effective configs, Kafka's names and values as text.

    A missing name keeps the default. Raises ValueError for an invalid value; the controller has validated all of them.
    """
    values: dict[str, int | float | str | bool | frozenset[str]] = {
        field: int(effective[name]) for name, field in _INTEGERS.items() if name in effective
    }
    if "min.cleanable.dirty.ratio" in effective:
        values["min_cleanable_dirty_ratio"] = float(effective["min.cleanable.dirty.ratio"])
    if "cleanup.policy" in effective:
        policies = (policy.strip() for policy in effective["cleanup.policy"].split(","))
        values["cleanup_policy"] = frozenset(policy for policy in policies if policy)
    if "message.timestamp.type" in effective:
        values["log_append_time"] = effective["message.timestamp.type"] == "LogAppendTime"
    return LogConfig(**values)  # type: ignore[arg-type] # each name is mapped to a field of its type
