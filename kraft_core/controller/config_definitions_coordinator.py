"""The settings of a broker that concern its groups, transactions and offsets, as a table (see config_def.parse_table).

Names, types, defaults and allowed values are those of AbstractKafkaConfig.CONFIG_DEF, Kafka 4.3.1; the sentences are our own.
A type ends in its update mode: ro after a restart, pb on one broker at run time, cw on the whole cluster at run time.
"""

from typing import Final

COORDINATOR_TABLE: Final = """
group.consumer.assignment.interval.ms | INT/cw | 1000 | MEDIUM | [0,...] | 
group.consumer.assignors | LIST/ro | uniform,range | MEDIUM | distinct+ | 
group.consumer.heartbeat.interval.ms | INT/ro | 5000 | MEDIUM | [1,...] | 
group.consumer.max.assignment.interval.ms | INT/ro | 15000 | MEDIUM | [0,...] | 
group.consumer.max.heartbeat.interval.ms | INT/ro | 15000 | MEDIUM | [1,...] | 
group.consumer.max.session.timeout.ms | INT/ro | 60000 | MEDIUM | [1,...] | 
group.consumer.max.size | INT/ro | 2147483647 | MEDIUM | [1,...] | 
group.consumer.migration.policy | STRING/ro | bidirectional | MEDIUM | (case insensitive) [DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL] | 
group.consumer.min.assignment.interval.ms | INT/ro | 0 | MEDIUM | [0,...] | 
group.consumer.min.heartbeat.interval.ms | INT/ro | 5000 | MEDIUM | [1,...] | 
group.consumer.min.session.timeout.ms | INT/ro | 45000 | MEDIUM | [1,...] | 
group.consumer.regex.refresh.interval.ms! | INT/ro | 600000 | MEDIUM | [10000,...] | 
group.consumer.session.timeout.ms | INT/ro | 45000 | MEDIUM | [1,...] | 
group.coordinator.append.linger.ms | INT/ro | -1 | MEDIUM | [-1,...] | 
group.coordinator.background.threads | INT/ro | 2 | HIGH | [1,...] | 
group.coordinator.cached.buffer.max.bytes | INT/cw | 1048588 | MEDIUM | [524288,...] | 
group.coordinator.rebalance.protocols | LIST/ro | classic,consumer,streams | MEDIUM | [consumer, classic, share, streams]+ | 
group.coordinator.threads | INT/ro | 4 | HIGH | [1,...] | 
group.initial.rebalance.delay.ms | INT/ro | 3000 | MEDIUM |  | 
group.max.session.timeout.ms | INT/ro | 1800000 | MEDIUM |  | 
group.max.size | INT/ro | 2147483647 | MEDIUM | [1,...] | 
group.min.session.timeout.ms | INT/ro | 6000 | MEDIUM |  | 
group.share.assignment.interval.ms | INT/cw | 1000 | MEDIUM | [0,...] | 
group.share.assignors | LIST/ro | simple | MEDIUM | distinct+ | 
group.share.delivery.count.limit | INT/ro | 5 | MEDIUM | [2,...,10] | 
group.share.heartbeat.interval.ms | INT/ro | 5000 | MEDIUM | [1,...] | 
group.share.initialize.retry.interval.ms! | INT/ro | 30000 | LOW | [1,...] | 
group.share.max.assignment.interval.ms | INT/ro | 15000 | MEDIUM | [0,...] | 
group.share.max.delivery.count.limit | INT/ro | 10 | MEDIUM | [5,...,25] | 
group.share.max.heartbeat.interval.ms | INT/ro | 15000 | MEDIUM | [1,...] | 
group.share.max.partition.max.record.locks | INT/ro | 4000 | MEDIUM | [2000,...,10000] | 
group.share.max.record.lock.duration.ms | INT/ro | 60000 | MEDIUM | [30000,...,3600000] | 
group.share.max.session.timeout.ms | INT/ro | 60000 | MEDIUM | [1,...] | 
group.share.max.share.sessions | INT/ro | 2000 | MEDIUM | [1,...] | 
group.share.max.size | INT/ro | 200 | MEDIUM | [1,...,1000] | 
group.share.min.assignment.interval.ms | INT/ro | 0 | MEDIUM | [0,...] | 
group.share.min.delivery.count.limit | INT/ro | 2 | MEDIUM | [2,...,5] | 
group.share.min.heartbeat.interval.ms | INT/ro | 5000 | MEDIUM | [1,...] | 
group.share.min.partition.max.record.locks | INT/ro | 100 | MEDIUM | [100,...,2000] | 
group.share.min.record.lock.duration.ms | INT/ro | 15000 | MEDIUM | [1000,...,30000] | 
group.share.min.session.timeout.ms | INT/ro | 45000 | MEDIUM | [1,...] | 
group.share.partition.max.record.locks | INT/ro | 2000 | MEDIUM | [100,...,10000] | 
group.share.persister.class.name! | STRING/ro | org.apache.kafka.server.share.persister.DefaultStatePersister | MEDIUM |  | 
group.share.record.lock.duration.ms | INT/ro | 30000 | MEDIUM | [1000,...,3600000] | 
group.share.session.timeout.ms | INT/ro | 45000 | MEDIUM | [1,...] | 
group.streams.assignment.interval.ms | INT/cw | 1000 | MEDIUM | [0,...] | 
group.streams.heartbeat.interval.ms | INT/ro | 5000 | MEDIUM | [1,...] | 
group.streams.initial.rebalance.delay.ms | INT/ro | 3000 | MEDIUM | [0,...] | 
group.streams.max.assignment.interval.ms | INT/ro | 15000 | MEDIUM | [0,...] | 
group.streams.max.heartbeat.interval.ms | INT/ro | 15000 | MEDIUM | [1,...] | 
group.streams.max.session.timeout.ms | INT/ro | 60000 | MEDIUM | [1,...] | 
group.streams.max.size | INT/ro | 2147483647 | MEDIUM | [1,...] | 
group.streams.max.standby.replicas | INT/ro | 2 | MEDIUM | [0,...] | 
group.streams.min.assignment.interval.ms | INT/ro | 0 | MEDIUM | [0,...] | 
group.streams.min.heartbeat.interval.ms | INT/ro | 5000 | MEDIUM | [1,...] | 
group.streams.min.session.timeout.ms | INT/ro | 45000 | MEDIUM | [1,...] | 
group.streams.num.standby.replicas | INT/ro | 0 | MEDIUM | [0,...] | 
group.streams.session.timeout.ms | INT/ro | 45000 | MEDIUM | [1,...] | 
offset.metadata.max.bytes | INT/ro | 4096 | HIGH |  | 
offsets.commit.timeout.ms | INT/ro | 5000 | HIGH | [1,...] | 
offsets.load.buffer.size | INT/ro | 5242880 | HIGH | [1,...] | 
offsets.retention.check.interval.ms | LONG/ro | 600000 | HIGH | [1,...] | 
offsets.retention.minutes | INT/ro | 10080 | HIGH | [1,...] | 
offsets.topic.compression.codec | INT/ro | 0 | HIGH |  | 
offsets.topic.num.partitions | INT/ro | 50 | HIGH | [1,...] | 
offsets.topic.replication.factor | SHORT/ro | 3 | HIGH | [1,...] | 
offsets.topic.segment.bytes | INT/ro | 104857600 | HIGH | [1,...] | 
producer.id.expiration.check.interval.ms! | INT/ro | 600000 | LOW | [1,...] | 
producer.id.expiration.ms | INT/cw | 86400000 | LOW | [1,...] | 
share.coordinator.append.linger.ms | INT/ro | -1 | MEDIUM | [-1,...] | 
share.coordinator.cached.buffer.max.bytes | INT/cw | 1048588 | MEDIUM | [524288,...] | 
share.coordinator.cold.partition.snapshot.interval.ms! | INT/ro | 300000 | LOW | [1,...] | 
share.coordinator.load.buffer.size | INT/ro | 5242880 | HIGH | [1,...] | 
share.coordinator.snapshot.update.records.per.snapshot | INT/ro | 500 | MEDIUM | [0,...,500] | 
share.coordinator.state.topic.compression.codec | INT/ro | 0 | HIGH |  | 
share.coordinator.state.topic.min.isr | SHORT/ro | 2 | HIGH | [1,...] | 
share.coordinator.state.topic.num.partitions | INT/ro | 50 | HIGH | [1,...] | 
share.coordinator.state.topic.prune.interval.ms! | INT/ro | 300000 | LOW | [1,...] | 
share.coordinator.state.topic.replication.factor | SHORT/ro | 3 | HIGH | [1,...] | 
share.coordinator.state.topic.segment.bytes | INT/ro | 104857600 | HIGH | [1,...] | 
share.coordinator.threads | INT/ro | 1 | MEDIUM | [1,...] | 
share.coordinator.write.timeout.ms | INT/ro | 5000 | HIGH | [1,...] | 
share.fetch.purgatory.purge.interval.requests | INT/ro | 1000 | MEDIUM |  | 
transaction.abort.timed.out.transaction.cleanup.interval.ms | INT/ro | 10000 | LOW | [1,...] | 
transaction.max.timeout.ms | INT/ro | 900000 | HIGH | [1,...] | 
transaction.partition.verification.enable | BOOLEAN/cw | true | LOW |  | 
transaction.remove.expired.transaction.cleanup.interval.ms | INT/ro | 3600000 | LOW | [1,...] | 
transaction.state.log.load.buffer.size | INT/ro | 5242880 | HIGH | [1,...] | 
transaction.state.log.min.isr | INT/ro | 2 | HIGH | [1,...] | 
transaction.state.log.num.partitions | INT/ro | 50 | HIGH | [1,...] | 
transaction.state.log.replication.factor | SHORT/ro | 3 | HIGH | [1,...] | 
transaction.state.log.segment.bytes | INT/ro | 104857600 | HIGH | [1,...] | 
transaction.two.phase.commit.enable | BOOLEAN/ro | false | LOW |  | 
transactional.id.expiration.ms | INT/ro | 604800000 | HIGH | [1,...] | 
"""
