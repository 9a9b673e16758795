"""The settings of a broker or controller: network, logs, replication, tiered storage and the quorum, as a table (see config_def.parse_table).

Names, types, defaults and allowed values are those of AbstractKafkaConfig.CONFIG_DEF, Kafka 4.3.1; the sentences are our own.
A type ends in its update mode: ro after a restart, pb on one broker at run time, cw on the whole cluster at run time.
"""

from typing import Final

BROKER_TABLE: Final = """
add.partitions.to.txn.retry.backoff.max.ms | INT/ro | 100 | HIGH | [0,...] | 
add.partitions.to.txn.retry.backoff.ms | INT/ro | 20 | HIGH | [1,...] | 
advertised.listeners | LIST/ro | null | HIGH | distinct+? | 
alter.config.policy.class.name | CLASS/ro | null | LOW |  | 
alter.log.dirs.replication.quota.window.num | INT/ro | 11 | LOW | [1,...] | 
alter.log.dirs.replication.quota.window.size.seconds | INT/ro | 1 | LOW | [1,...] | 
auto.create.topics.enable | BOOLEAN/ro | true | HIGH |  | 
auto.leader.rebalance.enable | BOOLEAN/ro | true | HIGH |  | 
background.threads | INT/cw | 10 | HIGH | [1,...] | 
broker.heartbeat.interval.ms | INT/ro | 2000 | MEDIUM |  | 
broker.id | INT/ro | -1 | HIGH |  | 
broker.rack | STRING/ro | null | MEDIUM |  | 
broker.session.timeout.ms | INT/ro | 9000 | MEDIUM |  | 
client.quota.callback.class | CLASS/ro | null | LOW |  | 
compression.gzip.level | INT/cw | -1 | MEDIUM | [1,...,9] or -1 | 
compression.lz4.level | INT/cw | 9 | MEDIUM | [1,...,17] | 
compression.type | STRING/cw | producer | HIGH | [uncompressed, zstd, lz4, snappy, gzip, producer] | 
compression.zstd.level | INT/cw | 3 | MEDIUM | [-131072,...,22] | 
config.providers | LIST/cw |  | LOW | distinct | 
connections.max.idle.ms | LONG/ro | 600000 | MEDIUM |  | 
controlled.shutdown.enable | BOOLEAN/ro | true | MEDIUM |  | 
controller.listener.names | LIST/ro | - | HIGH | distinct+ | 
controller.performance.always.log.threshold.ms! | LONG/ro | 2000 | MEDIUM | [0,...] | 
controller.performance.sample.period.ms! | LONG/ro | 60000 | MEDIUM | [100,...] | 
controller.quorum.append.linger.ms | INT/ro | 25 | MEDIUM | [0,...] | 
controller.quorum.auto.join.enable | BOOLEAN/ro | false | LOW |  | 
controller.quorum.bootstrap.servers | LIST/ro |  | HIGH |  | 
controller.quorum.election.backoff.max.ms | INT/ro | 1000 | HIGH | [0,...] | 
controller.quorum.election.timeout.ms | INT/ro | 1000 | HIGH | [0,...] | 
controller.quorum.fetch.max.bytes | INT/ro | 1048576 | LOW | [1,...] | 
controller.quorum.fetch.snapshot.max.bytes | INT/ro | 1048576 | LOW | [1,...] | 
controller.quorum.fetch.timeout.ms | INT/ro | 2000 | HIGH | [0,...] | 
controller.quorum.request.timeout.ms | INT/ro | 2000 | MEDIUM | [0,...] | 
controller.quorum.retry.backoff.ms | INT/ro | 20 | LOW | [0,...] | 
controller.quorum.voters | LIST/ro |  | HIGH |  | 
controller.quota.window.num | INT/ro | 11 | LOW | [1,...] | 
controller.quota.window.size.seconds | INT/ro | 1 | LOW | [1,...] | 
controller.socket.timeout.ms | INT/ro | 30000 | MEDIUM |  | 
cordoned.log.dirs | LIST/pb |  | MEDIUM | distinct? | 
create.topic.policy.class.name | CLASS/ro | null | LOW |  | 
default.replication.factor | INT/ro | 1 | MEDIUM |  | 
delete.records.purgatory.purge.interval.requests | INT/ro | 1 | MEDIUM |  | 
delete.topic.enable | BOOLEAN/ro | true | HIGH |  | 
early.start.listeners | LIST/ro | null | HIGH | distinct? | 
fetch.max.bytes | INT/ro | 57671680 | MEDIUM | [1024,...] | 
fetch.purgatory.purge.interval.requests | INT/ro | 1000 | MEDIUM |  | 
follower.fetch.last.tiered.offset.enable | BOOLEAN/cw | false | MEDIUM |  | 
initial.broker.registration.timeout.ms | INT/ro | 60000 | MEDIUM |  | 
inter.broker.listener.name | STRING/ro | null | MEDIUM |  | 
internal.metadata.delete.delay.millis! | LONG/ro | 60000 | LOW |  | 
internal.metadata.log.segment.bytes! | INT/ro | null | LOW |  | 
internal.metadata.max.batch.size.in.bytes! | INT/ro | 8388608 | LOW |  | 
kafka.metrics.polling.interval.secs | INT/ro | 10 | LOW | [1,...] | 
kafka.metrics.reporters | LIST/ro |  | LOW | distinct | 
leader.imbalance.check.interval.seconds | LONG/ro | 300 | HIGH | [1,...] | 
listener.security.protocol.map | STRING/pb | SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT | LOW |  | 
listeners | LIST/pb | PLAINTEXT://:9092 | HIGH | distinct+ | 
log.cleaner.backoff.ms | LONG/cw | 15000 | MEDIUM | [0,...] | 
log.cleaner.dedupe.buffer.size | LONG/cw | 134217728 | MEDIUM |  | 
log.cleaner.delete.retention.ms | LONG/cw | 86400000 | MEDIUM | [0,...] | 
log.cleaner.enable | BOOLEAN/ro | true | MEDIUM |  | 
log.cleaner.io.buffer.load.factor | DOUBLE/cw | 0.9 | MEDIUM |  | 
log.cleaner.io.buffer.size | INT/cw | 524288 | MEDIUM | [0,...] | 
log.cleaner.io.max.bytes.per.second | DOUBLE/cw | 1.7976931348623157E308 | MEDIUM |  | 
log.cleaner.max.compaction.lag.ms | LONG/cw | 9223372036854775807 | MEDIUM | [1,...] | 
log.cleaner.min.cleanable.ratio | DOUBLE/cw | 0.5 | MEDIUM | [0,...,1] | 
log.cleaner.min.compaction.lag.ms | LONG/cw | 0 | MEDIUM | [0,...] | 
log.cleaner.threads | INT/cw | 1 | MEDIUM | [0,...] | 
log.cleanup.policy | LIST/cw | delete | MEDIUM | [compact, delete] | 
log.dir | LIST/ro | /tmp/kafka-logs | HIGH | distinct+ | 
log.dir.failure.timeout.ms | LONG/ro | 30000 | LOW | [1,...] | 
log.dirs | LIST/ro | null | HIGH | distinct+? | 
log.flush.interval.messages | LONG/cw | 9223372036854775807 | HIGH | [1,...] | 
log.flush.interval.ms | LONG/cw | null | HIGH |  | 
log.flush.offset.checkpoint.interval.ms | INT/ro | 60000 | HIGH | [0,...] | 
log.flush.scheduler.interval.ms | LONG/ro | 9223372036854775807 | HIGH |  | 
log.flush.start.offset.checkpoint.interval.ms | INT/ro | 60000 | HIGH | [0,...] | 
log.index.interval.bytes | INT/cw | 4096 | MEDIUM | [0,...] | 
log.index.size.max.bytes | INT/cw | 10485760 | MEDIUM | [4,...] | 
log.initial.task.delay.ms! | LONG/ro | 30000 | LOW | [0,...] | 
log.local.retention.bytes | LONG/cw | -2 | MEDIUM | [-2,...] | 
log.local.retention.ms | LONG/cw | -2 | MEDIUM | [-2,...] | 
log.message.timestamp.after.max.ms | LONG/cw | 3600000 | MEDIUM | [0,...] | 
log.message.timestamp.before.max.ms | LONG/cw | 9223372036854775807 | MEDIUM | [0,...] | 
log.message.timestamp.type | STRING/cw | CreateTime | MEDIUM | [CreateTime, LogAppendTime] | 
log.preallocate | BOOLEAN/cw | false | MEDIUM |  | 
log.retention.bytes | LONG/cw | -1 | HIGH |  | 
log.retention.check.interval.ms | LONG/ro | 300000 | MEDIUM | [1,...] | 
log.retention.hours | INT/ro | 168 | HIGH |  | 
log.retention.minutes | INT/ro | null | HIGH |  | 
log.retention.ms | LONG/cw | null | HIGH |  | 
log.roll.hours | INT/ro | 168 | HIGH | [1,...] | 
log.roll.jitter.hours | INT/ro | 0 | HIGH | [0,...] | 
log.roll.jitter.ms | LONG/cw | null | HIGH |  | 
log.roll.ms | LONG/cw | null | HIGH |  | 
log.segment.bytes | INT/cw | 1073741824 | HIGH | [1048576,...] | 
log.segment.delete.delay.ms | LONG/cw | 60000 | HIGH | [0,...] | 
max.connection.creation.rate | INT/cw | 2147483647 | MEDIUM | [0,...] | 
max.connections | INT/cw | 2147483647 | MEDIUM | [0,...] | 
max.connections.per.ip | INT/cw | 2147483647 | MEDIUM | [0,...] | 
max.connections.per.ip.overrides | STRING/cw |  | MEDIUM |  | 
max.incremental.fetch.session.cache.slots | INT/ro | 1000 | MEDIUM | [0,...] | 
max.request.partition.size.limit | INT/ro | 2000 | MEDIUM | [1,...] | 
message.max.bytes | INT/cw | 1048588 | HIGH | [0,...] | 
metadata.log.dir | STRING/ro | null | HIGH |  | 
metadata.log.max.record.bytes.between.snapshots | LONG/ro | 20971520 | HIGH | [1,...] | 
metadata.log.max.snapshot.interval.ms | LONG/ro | 3600000 | HIGH | [0,...] | 
metadata.log.segment.bytes | INT/ro | 1073741824 | HIGH | [8388608,...] | 
metadata.log.segment.ms | LONG/ro | 604800000 | HIGH |  | 
metadata.max.idle.interval.ms | INT/ro | 500 | LOW | [0,...] | 
metadata.max.retention.bytes | LONG/ro | 104857600 | HIGH |  | 
metadata.max.retention.ms | LONG/ro | 604800000 | HIGH |  | 
metric.reporters | LIST/cw | org.apache.kafka.common.metrics.JmxReporter | LOW | distinct | 
metrics.num.samples | INT/ro | 2 | LOW | [1,...] | 
metrics.recording.level | STRING/ro | INFO | LOW |  | 
metrics.sample.window.ms | LONG/ro | 30000 | LOW | [1,...] | 
min.insync.replicas | INT/cw | 1 | HIGH | [1,...] | 
node.id | INT/ro | - | HIGH | [0,...] | 
num.io.threads | INT/cw | 8 | HIGH | [1,...] | 
num.network.threads | INT/cw | 3 | HIGH | [1,...] | 
num.partitions | INT/ro | 1 | MEDIUM | [1,...] | 
num.recovery.threads.per.data.dir | INT/cw | 2 | HIGH | [1,...] | 
num.replica.alter.log.dirs.threads | INT/ro | null | HIGH |  | 
num.replica.fetchers | INT/cw | 1 | HIGH | [1,...] | 
process.roles | LIST/ro | - | HIGH | [broker, controller]+ | 
producer.purgatory.purge.interval.requests | INT/ro | 1000 | MEDIUM |  | 
queued.max.request.bytes | LONG/ro | -1 | MEDIUM |  | 
queued.max.requests | INT/ro | 500 | HIGH | [1,...] | 
quota.window.num | INT/ro | 11 | LOW | [1,...] | 
quota.window.size.seconds | INT/ro | 1 | LOW | [1,...] | 
remote.fetch.max.wait.ms | INT/cw | 500 | MEDIUM | [1,...] | 
remote.list.offsets.request.timeout.ms | LONG/cw | 30000 | MEDIUM | [1,...] | 
remote.log.index.file.cache.total.size.bytes | LONG/cw | 1073741824 | LOW | [1,...] | 
remote.log.index.file.cache.ttl.ms! | LONG/ro | 900000 | LOW | [-1,...] | 
remote.log.manager.copier.thread.pool.size | INT/cw | 10 | MEDIUM | [1,...] | 
remote.log.manager.copy.max.bytes.per.second | LONG/cw | 9223372036854775807 | MEDIUM | [1,...] | 
remote.log.manager.copy.quota.window.num | INT/ro | 11 | MEDIUM | [1,...] | 
remote.log.manager.copy.quota.window.size.seconds | INT/ro | 1 | MEDIUM | [1,...] | 
remote.log.manager.expiration.thread.pool.size | INT/cw | 10 | MEDIUM | [1,...] | 
remote.log.manager.fetch.max.bytes.per.second | LONG/cw | 9223372036854775807 | MEDIUM | [1,...] | 
remote.log.manager.fetch.quota.window.num | INT/ro | 11 | MEDIUM | [1,...] | 
remote.log.manager.fetch.quota.window.size.seconds | INT/ro | 1 | MEDIUM | [1,...] | 
remote.log.manager.follower.thread.pool.size | INT/cw | 2 | MEDIUM | [1,...] | 
remote.log.manager.task.interval.ms | LONG/ro | 30000 | LOW | [1,...] | 
remote.log.manager.task.retry.backoff.max.ms! | LONG/ro | 30000 | LOW | [1,...] | 
remote.log.manager.task.retry.backoff.ms! | LONG/ro | 500 | LOW | [1,...] | 
remote.log.manager.task.retry.jitter! | DOUBLE/ro | 0.2 | LOW | [0,...,0.5] | 
remote.log.manager.thread.pool.size | INT/ro | 2 | MEDIUM | [1,...] | 
remote.log.metadata.custom.metadata.max.bytes | INT/ro | 128 | LOW | [0,...] | 
remote.log.metadata.manager.class.name | STRING/ro | org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager | MEDIUM | non-empty string | 
remote.log.metadata.manager.class.path | STRING/ro | null | MEDIUM |  | 
remote.log.metadata.manager.impl.prefix | STRING/ro | rlmm.config. | MEDIUM | non-empty string | 
remote.log.metadata.manager.listener.name | STRING/ro | null | MEDIUM | non-empty string | 
remote.log.reader.max.pending.tasks | INT/ro | 100 | MEDIUM | [1,...] | 
remote.log.reader.threads | INT/cw | 10 | MEDIUM | [1,...] | 
remote.log.storage.manager.class.name | STRING/ro | null | MEDIUM | non-empty string | 
remote.log.storage.manager.class.path | STRING/ro | null | MEDIUM |  | 
remote.log.storage.manager.impl.prefix | STRING/ro | rsm.config. | MEDIUM | non-empty string | 
remote.log.storage.system.enable | BOOLEAN/ro | false | MEDIUM |  | 
replica.fetch.backoff.ms | INT/ro | 1000 | MEDIUM | [0,...] | 
replica.fetch.max.bytes | INT/ro | 1048576 | MEDIUM | [0,...] | 
replica.fetch.min.bytes | INT/ro | 1 | HIGH |  | 
replica.fetch.response.max.bytes | INT/ro | 10485760 | MEDIUM | [0,...] | 
replica.fetch.wait.max.ms | INT/ro | 500 | HIGH |  | 
replica.high.watermark.checkpoint.interval.ms | LONG/ro | 5000 | HIGH |  | 
replica.lag.time.max.ms | LONG/ro | 30000 | HIGH |  | 
replica.selector.class | STRING/ro | null | MEDIUM |  | 
replica.socket.receive.buffer.bytes | INT/ro | 65536 | HIGH |  | 
replica.socket.timeout.ms | INT/ro | 30000 | HIGH |  | 
replication.quota.window.num | INT/ro | 11 | LOW | [1,...] | 
replication.quota.window.size.seconds | INT/ro | 1 | LOW | [1,...] | 
request.timeout.ms | INT/ro | 30000 | HIGH |  | 
server.max.startup.time.ms! | LONG/ro | 9223372036854775807 | MEDIUM | [0,...] | 
socket.connection.setup.timeout.max.ms | LONG/ro | 30000 | MEDIUM |  | 
socket.connection.setup.timeout.ms | LONG/ro | 10000 | MEDIUM |  | 
socket.listen.backlog.size | INT/ro | 50 | MEDIUM | [1,...] | 
socket.receive.buffer.bytes | INT/ro | 102400 | HIGH |  | 
socket.request.max.bytes | INT/ro | 104857600 | HIGH | [1,...] | 
socket.send.buffer.bytes | INT/ro | 102400 | HIGH |  | 
telemetry.max.bytes | INT/ro | 1048576 | LOW | [1,...] | 
unclean.leader.election.enable | BOOLEAN/cw | false | HIGH |  | 
unclean.leader.election.interval.ms! | LONG/ro | 300000 | MEDIUM | [1,...] | 
unstable.api.versions.enable! | BOOLEAN/ro | false | HIGH |  | 
unstable.feature.versions.enable! | BOOLEAN/ro | false | HIGH |  | 
"""
