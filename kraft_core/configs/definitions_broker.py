"""Configs of a broker or controller as a table (see config_def.parse_table): network, logs, replication, quorum.

Names, types, defaults and allowed values are those of AbstractKafkaConfig.CONFIG_DEF, Kafka 4.3.1; the descriptions are
not Kafka's. A type ends in its update mode: ro with a restart, pb on one broker at run time, cw on the whole cluster at
run time.
"""

from typing import Final

BROKER_TABLE: Final = """
add.partitions.to.txn.retry.backoff.max.ms | INT/ro | 100 | HIGH | [0,...] | The longest that the broker keeps trying to add a partition to a transaction for a producer, in ms.
add.partitions.to.txn.retry.backoff.ms | INT/ro | 20 | HIGH | [1,...] | How long the broker waits before it tries again to add a partition to a transaction, in ms.
advertised.listeners | LIST/ro | null | HIGH | distinct+? | The addresses that clients and other brokers should connect to, as NAME://host:port; null means those of listeners.
alter.config.policy.class.name | CLASS/ro | null | LOW |  | A Java class that approves or refuses config changes.
alter.log.dirs.replication.quota.window.num | INT/ro | 11 | LOW | [1,...] | How many samples the quota for moving replicas between directories looks back on.
alter.log.dirs.replication.quota.window.size.seconds | INT/ro | 1 | LOW | [1,...] | How long one sample of the quota for moving replicas between directories is, in seconds.
auto.create.topics.enable | BOOLEAN/ro | true | HIGH |  | Whether a missing topic is created when a client requests it.
auto.leader.rebalance.enable | BOOLEAN/ro | true | HIGH |  | Whether leadership is regularly returned to the preferred replicas.
background.threads | INT/cw | 10 | HIGH | [1,...] | How many threads do work in the background.
broker.heartbeat.interval.ms | INT/ro | 2000 | MEDIUM |  | How often a broker sends a heartbeat to the controller, in ms.
broker.id | INT/ro | -1 | HIGH |  | The former name of node.id.
broker.rack | STRING/ro | null | MEDIUM |  | The rack, or availability zone, of the broker; replicas of a partition are spread over racks.
broker.session.timeout.ms | INT/ro | 9000 | MEDIUM |  | How long a broker may be silent before the controller fences it, in ms.
client.quota.callback.class | CLASS/ro | null | LOW |  | A Java class that decides the quotas of clients.
compression.gzip.level | INT/cw | -1 | MEDIUM | [1,...,9] or -1 | How hard gzip compresses for topics that do not override it, from 1 (fast) to 9 (small); -1 is gzip's default.
compression.lz4.level | INT/cw | 9 | MEDIUM | [1,...,17] | How hard lz4 compresses for topics that do not override it, from 1 (fast) to 17 (small).
compression.type | STRING/cw | producer | HIGH | [uncompressed, zstd, lz4, snappy, gzip, producer] | How batches are stored in topics that do not override it: as the producer sent them, uncompressed, or with one codec.
compression.zstd.level | INT/cw | 3 | MEDIUM | [-131072,...,22] | How hard zstd compresses for topics that do not override it, from -131072 (fast) to 22 (small).
config.providers | LIST/cw |  | LOW | distinct | Names of providers that settings may take their values from.
connections.max.idle.ms | LONG/ro | 600000 | MEDIUM |  | How long a connection may be idle before it is closed, in ms.
controlled.shutdown.enable | BOOLEAN/ro | true | MEDIUM |  | Whether a broker that stops first hands its leaderships over.
controller.listener.names | LIST/ro | - | HIGH | distinct+ | Names of the listeners that controllers use, the first one being where brokers send to.
controller.performance.always.log.threshold.ms! | LONG/ro | 2000 | MEDIUM | [0,...] | Controller events that take longer than this are logged, in ms.
controller.performance.sample.period.ms! | LONG/ro | 60000 | MEDIUM | [100,...] | How often the controller logs how long its events take, in ms.
controller.quorum.append.linger.ms | INT/ro | 25 | MEDIUM | [0,...] | How long the leader of the quorum collects writes before it flushes them, in ms.
controller.quorum.auto.join.enable | BOOLEAN/ro | false | LOW |  | Whether a new controller becomes a voter automatically.
controller.quorum.bootstrap.servers | LIST/ro |  | HIGH |  | Addresses, as host:port, where a node finds the controller quorum.
controller.quorum.election.backoff.max.ms | INT/ro | 1000 | HIGH | [0,...] | Maximum time that a candidate waits after a lost election before the next one, in ms.
controller.quorum.election.timeout.ms | INT/ro | 1000 | HIGH | [0,...] | How long a candidate waits for votes, and a voter for a leader, before a new election, in ms.
controller.quorum.fetch.max.bytes | INT/ro | 1048576 | LOW | [1,...] | The most a node of the quorum fetches at once, in bytes; one batch is always sent.
controller.quorum.fetch.snapshot.max.bytes | INT/ro | 1048576 | LOW | [1,...] | The most a node of the quorum fetches of a snapshot at once, in bytes.
controller.quorum.fetch.timeout.ms | INT/ro | 2000 | HIGH | [0,...] | Time without contact after which a voter starts an election (no leader) or a leader resigns (no majority), in ms.
controller.quorum.request.timeout.ms | INT/ro | 2000 | MEDIUM | [0,...] | How long a node of the quorum waits for the answer to a request, in ms.
controller.quorum.retry.backoff.ms | INT/ro | 20 | LOW | [0,...] | How long a node of the quorum waits before it repeats a request that failed, in ms.
controller.quorum.voters | LIST/ro |  | HIGH |  | The voters of a quorum that never changes, as id@host:port; empty when the voters are in the log.
controller.quota.window.num | INT/ro | 11 | LOW | [1,...] | How many samples the quota for changes of topics looks back on.
controller.quota.window.size.seconds | INT/ro | 1 | LOW | [1,...] | How long one sample of the quota for changes of topics is, in seconds.
controller.socket.timeout.ms | INT/ro | 30000 | MEDIUM |  | How long the controller waits on a connection to a broker, in ms.
cordoned.log.dirs | LIST/pb |  | MEDIUM | distinct? | Log directories that get no new replicas; each must be one of log.dirs.
create.topic.policy.class.name | CLASS/ro | null | LOW |  | A Java class that approves or refuses new topics.
default.replication.factor | INT/ro | 1 | MEDIUM |  | How many replicas a topic gets when its creation does not say.
delete.records.purgatory.purge.interval.requests | INT/ro | 1 | MEDIUM |  | After how many requests finished waits of DeleteRecords are cleared away.
delete.topic.enable | BOOLEAN/ro | true | HIGH |  | Whether topics can be deleted.
early.start.listeners | LIST/ro | null | HIGH | distinct? | Listeners that open before the authorizer is ready.
fetch.max.bytes | INT/ro | 57671680 | MEDIUM | [1024,...] | The most that one fetch is answered with, in bytes.
fetch.purgatory.purge.interval.requests | INT/ro | 1000 | MEDIUM |  | After how many requests finished waits of fetches are cleared away.
follower.fetch.last.tiered.offset.enable | BOOLEAN/cw | false | MEDIUM |  | Whether an empty follower begins behind what tiered storage already holds.
initial.broker.registration.timeout.ms | INT/ro | 60000 | MEDIUM |  | How long a starting broker tries to register before it gives up, in ms.
inter.broker.listener.name | STRING/ro | null | MEDIUM |  | The listener that brokers use among themselves.
internal.metadata.delete.delay.millis! | LONG/ro | 60000 | LOW |  | How long a deleted segment of the metadata log stays on the disk, in ms.
internal.metadata.log.segment.bytes! | INT/ro | null | LOW |  | Size of a segment of the metadata log, in bytes; for tests.
internal.metadata.max.batch.size.in.bytes! | INT/ro | 8388608 | LOW |  | The largest batch in the metadata log, in bytes.
kafka.metrics.polling.interval.secs | INT/ro | 10 | LOW | [1,...] | How often the reporters of kafka.metrics.reporters are polled, in seconds.
kafka.metrics.reporters | LIST/ro |  | LOW | distinct | Java classes that report metrics of the older kind.
leader.imbalance.check.interval.seconds | LONG/ro | 300 | HIGH | [1,...] | How often the controller looks for partitions that their preferred replica does not lead, in seconds.
listener.security.protocol.map | STRING/pb | SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT | LOW |  | The security protocol of each listener, as NAME:PROTOCOL.
listeners | LIST/pb | PLAINTEXT://:9092 | HIGH | distinct+ | The addresses that the node listens on, as NAME://host:port.
log.cleaner.backoff.ms | LONG/cw | 15000 | MEDIUM | [0,...] | How long the log cleaner sleeps when there is nothing to compact, in ms.
log.cleaner.dedupe.buffer.size | LONG/cw | 134217728 | MEDIUM |  | Memory of all cleaner threads together for finding duplicates, in bytes.
log.cleaner.delete.retention.ms | LONG/cw | 86400000 | MEDIUM | [0,...] | How long compaction keeps a tombstone, for topics that do not override it, in ms.
log.cleaner.enable | BOOLEAN/ro | true | MEDIUM |  | Whether the log cleaner runs; without it compacted topics only grow.
log.cleaner.io.buffer.load.factor | DOUBLE/cw | 0.9 | MEDIUM |  | How full the buffer for finding duplicates may be, as a share; fuller means more collisions.
log.cleaner.io.buffer.size | INT/cw | 524288 | MEDIUM | [0,...] | Memory of all cleaner threads together for reading and writing, in bytes.
log.cleaner.io.max.bytes.per.second | DOUBLE/cw | 1.7976931348623157E308 | MEDIUM |  | How much the log cleaner may read and write together, in bytes per second.
log.cleaner.max.compaction.lag.ms | LONG/cw | 9223372036854775807 | MEDIUM | [1,...] | The longest time a record may stay outside compaction, for topics that do not override it, in ms.
log.cleaner.min.cleanable.ratio | DOUBLE/cw | 0.5 | MEDIUM | [0,...,1] | The share of a log that may be uncompacted before compaction runs, for topics that do not override it.
log.cleaner.min.compaction.lag.ms | LONG/cw | 0 | MEDIUM | [0,...] | The shortest time a record stays untouched by compaction, for topics that do not override it, in ms.
log.cleaner.threads | INT/cw | 1 | MEDIUM | [0,...] | How many threads compact logs.
log.cleanup.policy | LIST/cw | delete | MEDIUM | [compact, delete] | What happens to old segments of topics that do not override it: delete, compact, both or nothing.
log.dir | LIST/ro | /tmp/kafka-logs | HIGH | distinct+ | The directory of the logs when log.dirs is not set.
log.dir.failure.timeout.ms | LONG/ro | 30000 | LOW | [1,...] | How long a broker that lost a directory tries to tell the controller before it stops, in ms.
log.dirs | LIST/ro | null | HIGH | distinct+? | The directories of the logs; null means log.dir.
log.flush.interval.messages | LONG/cw | 9223372036854775807 | HIGH | [1,...] | Number of records after which a log is flushed to disk, for topics that do not override it.
log.flush.interval.ms | LONG/cw | null | HIGH |  | Time after which a log is flushed to disk, in ms, for topics that do not override it; null means log.flush.scheduler.interval.ms.
log.flush.offset.checkpoint.interval.ms | INT/ro | 60000 | HIGH | [0,...] | How often the point up to which logs are flushed is written down, in ms.
log.flush.scheduler.interval.ms | LONG/ro | 9223372036854775807 | HIGH |  | How often logs are checked for flushing, in ms.
log.flush.start.offset.checkpoint.interval.ms | INT/ro | 60000 | HIGH | [0,...] | How often the start offsets of logs are written down, in ms.
log.index.interval.bytes | INT/cw | 4096 | MEDIUM | [0,...] | Bytes of log between two entries of the offset index, for topics that do not override it.
log.index.size.max.bytes | INT/cw | 10485760 | MEDIUM | [4,...] | Size reserved for an offset index, for topics that do not override it, in bytes.
log.initial.task.delay.ms! | LONG/ro | 30000 | LOW | [0,...] | How long after the start the regular work on logs begins, in ms.
log.local.retention.bytes | LONG/cw | -2 | MEDIUM | [-2,...] | With tiered storage: bytes of a partition kept on the local disk, for topics that do not override it; -2 means log.retention.bytes.
log.local.retention.ms | LONG/cw | -2 | MEDIUM | [-2,...] | With tiered storage: how long segments stay on the local disk, for topics that do not override it, in ms; -2 means log.retention.ms.
log.message.timestamp.after.max.ms | LONG/cw | 3600000 | MEDIUM | [0,...] | How far timestamps may be ahead of the broker's clock, for topics that do not override it, in ms.
log.message.timestamp.before.max.ms | LONG/cw | 9223372036854775807 | MEDIUM | [0,...] | How far timestamps may be behind the broker's clock, for topics that do not override it, in ms.
log.message.timestamp.type | STRING/cw | CreateTime | MEDIUM | [CreateTime, LogAppendTime] | Whose clock stamps records, for topics that do not override it: the producer's or the broker's.
log.preallocate | BOOLEAN/cw | false | MEDIUM |  | Whether segment files are created at full size, for topics that do not override it.
log.retention.bytes | LONG/cw | -1 | HIGH |  | The size a partition may reach before its oldest segments are deleted, for topics that do not override it, in bytes; -1 means no limit.
log.retention.check.interval.ms | LONG/ro | 300000 | MEDIUM | [1,...] | How often logs are checked for segments to delete, in ms.
log.retention.hours | INT/ro | 168 | HIGH |  | How long records are kept, in hours, for topics that do not override it; log.retention.minutes and log.retention.ms come first.
log.retention.minutes | INT/ro | null | HIGH |  | How long records are kept, in minutes, for topics that do not override it; log.retention.ms comes first.
log.retention.ms | LONG/cw | null | HIGH |  | How long records are kept, in ms, for topics that do not override it; -1 means no limit.
log.roll.hours | INT/ro | 168 | HIGH | [1,...] | Age at which a new segment begins, in hours, for topics that do not override it; log.roll.ms comes first.
log.roll.jitter.hours | INT/ro | 0 | HIGH | [0,...] | The most that the age of a segment is randomly shortened by, in hours; log.roll.jitter.ms comes first.
log.roll.jitter.ms | LONG/cw | null | HIGH |  | The most that the age of a segment is randomly shortened by, in ms, for topics that do not override it.
log.roll.ms | LONG/cw | null | HIGH |  | Age at which a new segment begins, in ms, for topics that do not override it.
log.segment.bytes | INT/cw | 1073741824 | HIGH | [1048576,...] | Size at which a new segment begins, in bytes, for topics that do not override it.
log.segment.delete.delay.ms | LONG/cw | 60000 | HIGH | [0,...] | How long a deleted segment stays on the disk, in ms, for topics that do not override it.
max.connection.creation.rate | INT/cw | 2147483647 | MEDIUM | [0,...] | The most new connections per second on a listener.
max.connections | INT/cw | 2147483647 | MEDIUM | [0,...] | The most connections at a time, over all listeners.
max.connections.per.ip | INT/cw | 2147483647 | MEDIUM | [0,...] | The most connections at a time from one address.
max.connections.per.ip.overrides | STRING/cw |  | MEDIUM |  | Other limits for single addresses or host names, as name:limit.
max.incremental.fetch.session.cache.slots | INT/ro | 1000 | MEDIUM | [0,...] | How many fetch sessions of clients the broker remembers.
max.request.partition.size.limit | INT/ro | 2000 | MEDIUM | [1,...] | The most partitions that one request may ask to describe.
message.max.bytes | INT/cw | 1048588 | HIGH | [0,...] | The largest record batch accepted by topics that do not override it, in bytes after compression.
metadata.log.dir | STRING/ro | null | HIGH |  | The directory of the metadata log; null means the first of log.dirs.
metadata.log.max.record.bytes.between.snapshots | LONG/ro | 20971520 | HIGH | [1,...] | After how many bytes of records a new snapshot of the metadata is made.
metadata.log.max.snapshot.interval.ms | LONG/ro | 3600000 | HIGH | [0,...] | After how long a new snapshot of the metadata is made if there are new records, in ms; 0 never.
metadata.log.segment.bytes | INT/ro | 1073741824 | HIGH | [8388608,...] | Size at which a new segment of the metadata log begins, in bytes.
metadata.log.segment.ms | LONG/ro | 604800000 | HIGH |  | Age at which a new segment of the metadata log begins, in ms.
metadata.max.idle.interval.ms | INT/ro | 500 | LOW | [0,...] | How often the active controller writes an empty record when nothing happens, in ms; 0 never.
metadata.max.retention.bytes | LONG/ro | 104857600 | HIGH |  | The most that metadata log and snapshots may take together before old ones are deleted, in bytes.
metadata.max.retention.ms | LONG/ro | 604800000 | HIGH |  | How long parts of the metadata log and snapshots are kept once a newer snapshot exists, in ms.
metric.reporters | LIST/cw | org.apache.kafka.common.metrics.JmxReporter | LOW | distinct | Java classes that report metrics.
metrics.num.samples | INT/ro | 2 | LOW | [1,...] | How many samples a metric looks back on.
metrics.recording.level | STRING/ro | INFO | LOW |  | The finest level of metrics that is recorded.
metrics.sample.window.ms | LONG/ro | 30000 | LOW | [1,...] | How long one sample of a metric is, in ms.
min.insync.replicas | INT/cw | 1 | HIGH | [1,...] | How many replicas must have a record before a write with acks=all succeeds, for topics that do not override it.
node.id | INT/ro | - | HIGH | [0,...] | The number of this node, unique in the cluster.
num.io.threads | INT/cw | 8 | HIGH | [1,...] | How many threads work on requests, disk included.
num.network.threads | INT/cw | 3 | HIGH | [1,...] | How many threads read requests from the network and send responses, for each listener.
num.partitions | INT/ro | 1 | MEDIUM | [1,...] | How many partitions a topic gets when its creation does not say.
num.recovery.threads.per.data.dir | INT/cw | 2 | HIGH | [1,...] | How many threads open the logs of a directory at the start and close them at the end.
num.replica.alter.log.dirs.threads | INT/ro | null | HIGH |  | How many threads move replicas between directories.
num.replica.fetchers | INT/cw | 1 | HIGH | [1,...] | How many connections a broker copies with from each other broker.
process.roles | LIST/ro | - | HIGH | [broker, controller]+ | What this node is: broker, controller, or both.
producer.purgatory.purge.interval.requests | INT/ro | 1000 | MEDIUM |  | After how many requests finished waits of produce requests are cleared away.
queued.max.request.bytes | LONG/ro | -1 | MEDIUM |  | How many bytes of requests may wait before nothing more is read; -1 means no limit.
queued.max.requests | INT/ro | 500 | HIGH | [1,...] | How many requests may wait before nothing more is read.
quota.window.num | INT/ro | 11 | LOW | [1,...] | How many samples the quotas of clients look back on.
quota.window.size.seconds | INT/ro | 1 | LOW | [1,...] | How long one sample of the quotas of clients is, in seconds.
remote.fetch.max.wait.ms | INT/cw | 500 | MEDIUM | [1,...] | How long a fetch from tiered storage is waited for, in ms.
remote.list.offsets.request.timeout.ms | LONG/cw | 30000 | MEDIUM | [1,...] | How long an offset is looked for in tiered storage, in ms.
remote.log.index.file.cache.total.size.bytes | LONG/cw | 1073741824 | LOW | [1,...] | Disk space for indexes fetched from tiered storage, in bytes.
remote.log.index.file.cache.ttl.ms! | LONG/ro | 900000 | LOW | [-1,...] | How long an unused index from tiered storage is kept, in ms.
remote.log.manager.copier.thread.pool.size | INT/cw | 10 | MEDIUM | [1,...] | How many threads copy segments to tiered storage.
remote.log.manager.copy.max.bytes.per.second | LONG/cw | 9223372036854775807 | MEDIUM | [1,...] | How much is copied to tiered storage at most, in bytes per second.
remote.log.manager.copy.quota.window.num | INT/ro | 11 | MEDIUM | [1,...] | How many samples the limit on copying to tiered storage looks back on.
remote.log.manager.copy.quota.window.size.seconds | INT/ro | 1 | MEDIUM | [1,...] | How long one sample of the limit on copying to tiered storage is, in seconds.
remote.log.manager.expiration.thread.pool.size | INT/cw | 10 | MEDIUM | [1,...] | How many threads delete expired segments from tiered storage.
remote.log.manager.fetch.max.bytes.per.second | LONG/cw | 9223372036854775807 | MEDIUM | [1,...] | How much is fetched from tiered storage at most, in bytes per second.
remote.log.manager.fetch.quota.window.num | INT/ro | 11 | MEDIUM | [1,...] | How many samples the limit on fetching from tiered storage looks back on.
remote.log.manager.fetch.quota.window.size.seconds | INT/ro | 1 | MEDIUM | [1,...] | How long one sample of the limit on fetching from tiered storage is, in seconds.
remote.log.manager.follower.thread.pool.size | INT/cw | 2 | MEDIUM | [1,...] | How many threads follow the state of tiered storage for partitions led elsewhere.
remote.log.manager.task.interval.ms | LONG/ro | 30000 | LOW | [1,...] | How often segments are checked for copying to tiered storage and deletion there, in ms.
remote.log.manager.task.retry.backoff.max.ms! | LONG/ro | 30000 | LOW | [1,...] | The longest wait before work on tiered storage is tried again, in ms.
remote.log.manager.task.retry.backoff.ms! | LONG/ro | 500 | LOW | [1,...] | The first wait before work on tiered storage is tried again, in ms.
remote.log.manager.task.retry.jitter! | DOUBLE/ro | 0.2 | LOW | [0,...,0.5] | The share by which waits for tiered storage vary at random.
remote.log.manager.thread.pool.size | INT/ro | 2 | MEDIUM | [1,...] | How many threads schedule the work on tiered storage.
remote.log.metadata.custom.metadata.max.bytes | INT/ro | 128 | LOW | [0,...] | The most custom metadata that a tiered storage plug-in may keep for a segment, in bytes.
remote.log.metadata.manager.class.name | STRING/ro | org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager | MEDIUM | non-empty string | The Java class that keeps the metadata of tiered storage.
remote.log.metadata.manager.class.path | STRING/ro | null | MEDIUM |  | Where the class of remote.log.metadata.manager.class.name is found.
remote.log.metadata.manager.impl.prefix | STRING/ro | rlmm.config. | MEDIUM | non-empty string | Prefix of settings that are passed to the class that keeps the metadata of tiered storage.
remote.log.metadata.manager.listener.name | STRING/ro | null | MEDIUM | non-empty string | The listener by which the metadata of tiered storage is read and written.
remote.log.reader.max.pending.tasks | INT/ro | 100 | MEDIUM | [1,...] | How many reads from tiered storage may wait; further ones fail.
remote.log.reader.threads | INT/cw | 10 | MEDIUM | [1,...] | How many threads read from tiered storage.
remote.log.storage.manager.class.name | STRING/ro | null | MEDIUM | non-empty string | The Java class that stores segments remotely.
remote.log.storage.manager.class.path | STRING/ro | null | MEDIUM |  | Where the class of remote.log.storage.manager.class.name is found.
remote.log.storage.manager.impl.prefix | STRING/ro | rsm.config. | MEDIUM | non-empty string | Prefix of settings that are passed to the class that stores segments remotely.
remote.log.storage.system.enable | BOOLEAN/ro | false | MEDIUM |  | Whether this cluster has tiered storage at all.
replica.fetch.backoff.ms | INT/ro | 1000 | MEDIUM | [0,...] | How long a follower waits after a failed fetch, in ms.
replica.fetch.max.bytes | INT/ro | 1048576 | MEDIUM | [0,...] | How much a follower fetches of one partition at a time, in bytes; one batch is always sent.
replica.fetch.min.bytes | INT/ro | 1 | HIGH |  | How much must be there before a follower's fetch is answered early, in bytes.
replica.fetch.response.max.bytes | INT/ro | 10485760 | MEDIUM | [0,...] | How much a follower fetches at a time over all partitions, in bytes.
replica.fetch.wait.max.ms | INT/ro | 500 | HIGH |  | How long a follower's fetch waits for data, in ms.
replica.high.watermark.checkpoint.interval.ms | LONG/ro | 5000 | HIGH |  | How often high watermarks are written to disk, in ms.
replica.lag.time.max.ms | LONG/ro | 30000 | HIGH |  | How long a follower may lag behind before it leaves the in-sync replicas, in ms.
replica.selector.class | STRING/ro | null | MEDIUM |  | A Java class that chooses the replica a consumer reads from.
replica.socket.receive.buffer.bytes | INT/ro | 65536 | HIGH |  | The receive buffer of the connections that replicas are copied over, in bytes.
replica.socket.timeout.ms | INT/ro | 30000 | HIGH |  | How long a follower waits on a connection, in ms.
replication.quota.window.num | INT/ro | 11 | LOW | [1,...] | How many samples the limits on replication look back on.
replication.quota.window.size.seconds | INT/ro | 1 | LOW | [1,...] | How long one sample of the limits on replication is, in seconds.
request.timeout.ms | INT/ro | 30000 | HIGH |  | How long the node waits for the answer to a request it sent, in ms.
server.max.startup.time.ms! | LONG/ro | 9223372036854775807 | MEDIUM | [0,...] | How long the start of the node may take, in ms.
socket.connection.setup.timeout.max.ms | LONG/ro | 30000 | MEDIUM |  | The longest wait for a connection to be set up, in ms, after the wait has grown.
socket.connection.setup.timeout.ms | LONG/ro | 10000 | MEDIUM |  | The first wait for a connection to be set up, in ms.
socket.listen.backlog.size | INT/ro | 50 | MEDIUM | [1,...] | How many connections may wait to be accepted.
socket.receive.buffer.bytes | INT/ro | 102400 | HIGH |  | The receive buffer of connections, in bytes; -1 leaves it to the operating system.
socket.request.max.bytes | INT/ro | 104857600 | HIGH | [1,...] | The largest request that is read, in bytes.
socket.send.buffer.bytes | INT/ro | 102400 | HIGH |  | The send buffer of connections, in bytes; -1 leaves it to the operating system.
telemetry.max.bytes | INT/ro | 1048576 | LOW | [1,...] | The most metrics that a client may push at once, in bytes after compression.
unclean.leader.election.enable | BOOLEAN/cw | false | HIGH |  | Whether replicas outside the in-sync set may become leader, for topics that do not override it.
unclean.leader.election.interval.ms! | LONG/ro | 300000 | MEDIUM | [1,...] | How often the controller looks for partitions that need an unclean election, in ms.
unstable.api.versions.enable! | BOOLEAN/ro | false | HIGH |  | Whether request versions still in development are served.
unstable.feature.versions.enable! | BOOLEAN/ro | false | HIGH |  | Whether feature levels still in development may be used.
"""
