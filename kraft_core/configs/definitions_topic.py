"""The configs of topics, client-metrics subscriptions and groups, as tables (see config_def.parse_table).

Names, types, defaults and allowed values are those of LogConfig, ClientMetricsConfigs and GroupConfig, Kafka 4.3.1; the
descriptions are not Kafka's. The synonyms are the broker configs from which a topic or group inherits a value that it
does not set: the first one that is set counts, with a factor that converts the broker's unit to the topic's.
"""

from typing import Final

TOPIC_TABLE: Final = """
cleanup.policy | LIST | delete | MEDIUM | [compact, delete] | What happens to old segments: `delete` drops them by age and size, `compact` keeps the last record of each key, both together do both; an empty list keeps everything.
compression.gzip.level | INT | -1 | MEDIUM | [1,...,9] or -1 | How hard gzip compresses, from 1 (fast) to 9 (small); -1 is gzip's default. Used when compression.type is gzip.
compression.lz4.level | INT | 9 | MEDIUM | [1,...,17] | How hard lz4 compresses, from 1 (fast) to 17 (small). Used when compression.type is lz4.
compression.type | STRING | producer | MEDIUM | [uncompressed, zstd, lz4, snappy, gzip, producer] | How batches are stored: `producer` keeps them as they came, `uncompressed` unpacks them, a codec repacks them with that codec.
compression.zstd.level | INT | 3 | MEDIUM | [-131072,...,22] | How hard zstd compresses, from -131072 (fast) to 22 (small). Used when compression.type is zstd.
delete.retention.ms | LONG | 86400000 | MEDIUM | [0,...] | How long compaction keeps a tombstone, in ms: a reader that begins at offset 0 must reach the end within this time to be sure of seeing every deletion.
file.delete.delay.ms | LONG | 60000 | MEDIUM | [0,...] | How long a deleted segment stays on the disk before its files are removed, in ms.
flush.messages | LONG | 9223372036854775807 | MEDIUM | [1,...] | Number of records after which the log is flushed to disk. Durability usually comes from replication, so the default leaves flushing to the operating system.
flush.ms | LONG | 9223372036854775807 | MEDIUM | [0,...] | Time after which the log is flushed to disk, in ms. The broker's log.flush.scheduler.interval.ms says how often this is checked.
follower.replication.throttled.replicas | LIST |  | MEDIUM | [partitionId]:[brokerId],[partitionId]:[brokerId],... | Replicas that copy no faster than the follower rate limit, as partition:broker pairs; `*` means all replicas of the topic.
index.interval.bytes | INT | 4096 | MEDIUM | [0,...] | Bytes of log between two entries of the offset index: a smaller number finds a record with less reading, a larger one keeps the index small.
internal.segment.bytes! | INT | null | MEDIUM |  | Size of a segment, in bytes, below the limit of segment.bytes; for tests.
leader.replication.throttled.replicas | LIST |  | MEDIUM | [partitionId]:[brokerId],[partitionId]:[brokerId],... | Replicas that are sent data no faster than the leader rate limit, as partition:broker pairs; `*` means all replicas of the topic.
local.retention.bytes | LONG | -2 | MEDIUM | [-2,...] | With tiered storage: bytes of a partition kept on the broker's disk; -2 means retention.bytes. Never more than retention.bytes.
local.retention.ms | LONG | -2 | MEDIUM | [-2,...] | With tiered storage: how long segments stay on the broker's disk, in ms; -2 means retention.ms. Never more than retention.ms.
max.compaction.lag.ms | LONG | 9223372036854775807 | MEDIUM | [1,...] | The longest time a record may stay outside compaction, in ms.
max.message.bytes | INT | 1048588 | MEDIUM | [0,...] | The largest record batch that is accepted, in bytes after compression.
message.timestamp.after.max.ms | LONG | 3600000 | MEDIUM | [0,...] | How far a record's timestamp may lie ahead of the broker's clock, in ms; later ones are refused. Ignored with LogAppendTime.
message.timestamp.before.max.ms | LONG | 9223372036854775807 | MEDIUM | [0,...] | How far a record's timestamp may lie behind the broker's clock, in ms; older ones are refused. Ignored with LogAppendTime.
message.timestamp.type | STRING | CreateTime | MEDIUM | [CreateTime, LogAppendTime] | Whose clock stamps the records: the producer's (CreateTime) or the broker's (LogAppendTime).
min.cleanable.dirty.ratio | DOUBLE | 0.5 | MEDIUM | [0,...,1] | The share of a compacted log that may be uncompacted before compaction runs; a higher ratio cleans less often and wastes more space.
min.compaction.lag.ms | LONG | 0 | MEDIUM | [0,...] | The shortest time a record stays untouched by compaction, in ms.
min.insync.replicas | INT | 1 | MEDIUM | [1,...] | How many replicas must have a record, the leader among them, before a write with acks=all succeeds and consumers see it. With replication factor 3, a value of 2 survives the loss of one broker without losing a write.
preallocate | BOOLEAN | false | MEDIUM |  | Whether a new segment's file is created at its full size.
remote.log.copy.disable | BOOLEAN | false | MEDIUM |  | With tiered storage: stop copying to the remote store and keep what is there readable; expiry then follows retention.ms and retention.bytes alone.
remote.log.delete.on.disable | BOOLEAN | false | MEDIUM |  | Whether turning tiered storage off deletes the remote data; needed to set remote.storage.enable from true to false.
remote.storage.enable | BOOLEAN | false | MEDIUM |  | Whether closed segments are copied to the remote store (tiered storage).
retention.bytes | LONG | -1 | MEDIUM |  | The size a partition may reach before its oldest segments are deleted, in bytes; -1 means no limit. It counts per partition, not per topic.
retention.ms | LONG | 604800000 | MEDIUM | [-1,...] | How long records are kept under the delete policy, in ms; -1 means no limit. Consumers must read within this time.
segment.bytes | INT | 1073741824 | MEDIUM | [1048576,...] | Size at which a new segment file begins, in bytes. Retention and compaction work on whole segments.
segment.index.bytes | INT | 10485760 | MEDIUM | [4,...] | Size reserved for a segment's offset index, in bytes; it shrinks when the segment is closed.
segment.jitter.ms | LONG | 0 | MEDIUM | [0,...] | The most that segment.ms is randomly shortened by, in ms, so that many partitions do not roll at the same time.
segment.ms | LONG | 604800000 | MEDIUM | [1,...] | Age at which a new segment begins even if the old one is not full, in ms, so that retention and compaction can take the old one.
unclean.leader.election.enable | BOOLEAN | false | MEDIUM |  | Whether a replica outside the in-sync set may become leader when no other replica can: the partition is available sooner, but loses the records that the replica lacks.
"""

CLIENT_METRICS_TABLE: Final = """
interval.ms | INT | 300000 | MEDIUM |  | How often a matching client pushes its metrics, in ms, from 100 to 3600000.
match | LIST |  | MEDIUM | distinct | Which clients this subscription is for, as name=regular expression over client_instance_id, client_id, client_software_name, client_software_version, client_source_address and client_source_port; empty is every client.
metrics | LIST |  | MEDIUM | distinct | Prefixes of the metric names to push; a single `*` is all of them, an empty list none.
"""

GROUP_TABLE: Final = """
consumer.assignment.interval.ms | INT | 1000 | MEDIUM | [0,...] | The least time between two assignments of a consumer group, in ms.
consumer.heartbeat.interval.ms | INT | 5000 | MEDIUM | [1,...] | How often the members of a consumer group send a heartbeat, in ms.
consumer.session.timeout.ms | INT | 45000 | MEDIUM | [1,...] | How long a member of a consumer group may stay silent before it is removed, in ms.
share.assignment.interval.ms | INT | 1000 | MEDIUM | [0,...] | The least time between two assignments of a share group, in ms.
share.auto.offset.reset | STRING | latest | MEDIUM | [latest, earliest, by_duration:PnDTnHnMn.nS] | Where a share group begins to read a partition: earliest, latest, or by_duration:<ISO 8601 duration> before now.
share.delivery.count.limit | INT | 5 | MEDIUM | [2,...] | Maximum number of delivery attempts of a record to a share group.
share.heartbeat.interval.ms | INT | 5000 | MEDIUM | [1,...] | How often the members of a share group send a heartbeat, in ms.
share.isolation.level | STRING | read_uncommitted | MEDIUM | [read_committed, read_uncommitted] | Whether a share group gets transactional records only once committed (read_committed) or all of them.
share.partition.max.record.locks | INT | 2000 | MEDIUM | [100,...] | How many records of one partition a share group may lock at a time.
share.record.lock.duration.ms | INT | 30000 | MEDIUM | [1000,...] | How long a record stays locked for the member of a share group that fetched it, in ms.
share.renew.acknowledge.enable | BOOLEAN | true | MEDIUM |  | Whether a member of a share group may renew the lock on a record by an acknowledgement.
share.session.timeout.ms | INT | 45000 | MEDIUM | [1,...] | How long a member of a share group may stay silent before it is removed, in ms.
streams.assignment.interval.ms | INT | 1000 | MEDIUM | [0,...] | The least time between two assignments of a streams group, in ms.
streams.heartbeat.interval.ms | INT | 5000 | MEDIUM | [1,...] | How often the members of a streams group send a heartbeat, in ms.
streams.initial.rebalance.delay.ms | INT | 3000 | MEDIUM | [0,...] | How long a new streams group waits for more members before its first rebalance, in ms.
streams.num.standby.replicas | INT | 0 | MEDIUM | [0,...] | How many standby copies each task of a streams group has.
streams.session.timeout.ms | INT | 45000 | MEDIUM | [1,...] | How long a member of a streams group may stay silent before it is removed, in ms.
"""

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000

TOPIC_SYNONYMS: Final[dict[str, tuple[tuple[str, int], ...]]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "preallocate": (("log.preallocate", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", _MINUTE_MS),
        ("log.retention.hours", _HOUR_MS),
    ),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
}

_GROUP_SYNONYM_FREE: Final = ("share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable")


def group_synonym(name: str) -> str | None:
    """Return the broker config from which a group config inherits, `group.` and its name; None for three configs."""
    return None if name in _GROUP_SYNONYM_FREE else f"group.{name}"
