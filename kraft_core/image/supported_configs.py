"""Which configs an image holds: the names that Kafka 4.3.1 knows, by resource type.

A log that an older release began may set configs that are gone, such as a topic's message.format.version. Kafka passes
them over when it replays, and so must an image: they would come back with each snapshot, and the controller, which
checks all configs of a resource together, would refuse every further change of that resource. Broker settings are not
checked, since plugins add their own. Source: SupportedConfigChecker, DefaultSupportedConfigChecker, Kafka 4.3.1.
"""

from typing import Final

from kraft_core.image.metadata_image import BROKER, CLIENT_METRICS, GROUP, TOPIC

SUPPORTED_CONFIGS: Final = {
    TOPIC: frozenset(
        {
            "cleanup.policy",
            "compression.gzip.level",
            "compression.lz4.level",
            "compression.type",
            "compression.zstd.level",
            "delete.retention.ms",
            "file.delete.delay.ms",
            "flush.messages",
            "flush.ms",
            "follower.replication.throttled.replicas",
            "index.interval.bytes",
            "internal.segment.bytes",
            "leader.replication.throttled.replicas",
            "local.retention.bytes",
            "local.retention.ms",
            "max.compaction.lag.ms",
            "max.message.bytes",
            "message.timestamp.after.max.ms",
            "message.timestamp.before.max.ms",
            "message.timestamp.type",
            "min.cleanable.dirty.ratio",
            "min.compaction.lag.ms",
            "min.insync.replicas",
            "preallocate",
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
            "remote.storage.enable",
            "retention.bytes",
            "retention.ms",
            "segment.bytes",
            "segment.index.bytes",
            "segment.jitter.ms",
            "segment.ms",
            "unclean.leader.election.enable",
        }
    ),
    CLIENT_METRICS: frozenset(
        {
            "interval.ms",
            "match",
            "metrics",
        }
    ),
    GROUP: frozenset(
        {
            "consumer.assignment.interval.ms",
            "consumer.heartbeat.interval.ms",
            "consumer.session.timeout.ms",
            "share.assignment.interval.ms",
            "share.auto.offset.reset",
            "share.delivery.count.limit",
            "share.heartbeat.interval.ms",
            "share.isolation.level",
            "share.partition.max.record.locks",
            "share.record.lock.duration.ms",
            "share.renew.acknowledge.enable",
            "share.session.timeout.ms",
            "streams.assignment.interval.ms",
            "streams.heartbeat.interval.ms",
            "streams.initial.rebalance.delay.ms",
            "streams.num.standby.replicas",
            "streams.session.timeout.ms",
        }
    ),
}
"""Names by ConfigResource type; config_definitions has what they mean."""

_NONE: Final[frozenset[str]] = frozenset()


def is_supported_config(resource_type: int, name: str) -> bool:
    """Whether a config is part of metadata; none is for a resource type without definitions."""
    return resource_type == BROKER or name in SUPPORTED_CONFIGS.get(resource_type, _NONE)
