"""Configs of a broker for groups, transactions and offsets, as a table (see config_def.parse_table).

Names, types, defaults and allowed values are those of AbstractKafkaConfig.CONFIG_DEF, Kafka 4.3.1; the descriptions are
not Kafka's. A type ends in its update mode: ro with a restart, pb on one broker at run time, cw on the whole cluster at
run time.
"""

from typing import Final

COORDINATOR_TABLE: Final = """
group.consumer.assignment.interval.ms | INT/cw | 1000 | MEDIUM | [0,...] | The least time between two assignments of a consumer group, in ms.
group.consumer.assignors | LIST/ro | uniform,range | MEDIUM | distinct+ | The assignors for consumer groups, by name or class; the first is the default.
group.consumer.heartbeat.interval.ms | INT/ro | 5000 | MEDIUM | [1,...] | How often the members of a consumer group send a heartbeat, in ms.
group.consumer.max.assignment.interval.ms | INT/ro | 15000 | MEDIUM | [0,...] | The largest assignment interval that a consumer group may have, in ms.
group.consumer.max.heartbeat.interval.ms | INT/ro | 15000 | MEDIUM | [1,...] | The largest heartbeat interval that a consumer group may have, in ms.
group.consumer.max.session.timeout.ms | INT/ro | 60000 | MEDIUM | [1,...] | The largest session timeout that a consumer group may have, in ms.
group.consumer.max.size | INT/ro | 2147483647 | MEDIUM | [1,...] | The most members of a consumer group.
group.consumer.migration.policy | STRING/ro | bidirectional | MEDIUM | (case insensitive) [DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL] | Which groups may be converted while members are in them, from the classic protocol, to it, both or none.
group.consumer.min.assignment.interval.ms | INT/ro | 0 | MEDIUM | [0,...] | The smallest assignment interval that a consumer group may have, in ms.
group.consumer.min.heartbeat.interval.ms | INT/ro | 5000 | MEDIUM | [1,...] | The smallest heartbeat interval that a consumer group may have, in ms.
group.consumer.min.session.timeout.ms | INT/ro | 45000 | MEDIUM | [1,...] | The smallest session timeout that a consumer group may have, in ms.
group.consumer.regex.refresh.interval.ms! | INT/ro | 600000 | MEDIUM | [10000,...] | How often the topics behind a group's regular expressions are looked up again, in ms.
group.consumer.session.timeout.ms | INT/ro | 45000 | MEDIUM | [1,...] | How long a member of a consumer group may stay silent, in ms.
group.coordinator.append.linger.ms | INT/ro | -1 | MEDIUM | [-1,...] | How long the group coordinator collects writes, in ms; -1 adapts to the load.
group.coordinator.background.threads | INT/ro | 2 | HIGH | [1,...] | How many threads of the group coordinator work in the background.
group.coordinator.cached.buffer.max.bytes | INT/cw | 1048588 | MEDIUM | [524288,...] | The largest buffer that the group coordinator keeps for later use, in bytes.
group.coordinator.rebalance.protocols | LIST/ro | classic,consumer,streams | MEDIUM | [consumer, classic, share, streams]+ | The group protocols that are served; deprecated in favour of feature levels.
group.coordinator.threads | INT/ro | 4 | HIGH | [1,...] | How many threads of the group coordinator work on requests.
group.initial.rebalance.delay.ms | INT/ro | 3000 | MEDIUM |  | How long an empty classic group waits for more members before its first rebalance, in ms.
group.max.session.timeout.ms | INT/ro | 1800000 | MEDIUM |  | The largest session timeout that a member of a classic group may ask for, in ms.
group.max.size | INT/ro | 2147483647 | MEDIUM | [1,...] | The most members of a classic group.
group.min.session.timeout.ms | INT/ro | 6000 | MEDIUM |  | The smallest session timeout that a member of a classic group may ask for, in ms.
group.share.assignment.interval.ms | INT/cw | 1000 | MEDIUM | [0,...] | The least time between two assignments of a share group, in ms.
group.share.assignors | LIST/ro | simple | MEDIUM | distinct+ | The assignor for share groups, by name or class.
group.share.delivery.count.limit | INT/ro | 5 | MEDIUM | [2,...,10] | Maximum number of delivery attempts of a record to a share group.
group.share.heartbeat.interval.ms | INT/ro | 5000 | MEDIUM | [1,...] | How often the members of a share group send a heartbeat, in ms.
group.share.initialize.retry.interval.ms! | INT/ro | 30000 | LOW | [1,...] | How long to wait before the state of a share group is initialized again after a failure, in ms.
group.share.max.assignment.interval.ms | INT/ro | 15000 | MEDIUM | [0,...] | The largest assignment interval that a share group may have, in ms.
group.share.max.delivery.count.limit | INT/ro | 10 | MEDIUM | [5,...,25] | The largest number of deliveries that a share group may have.
group.share.max.heartbeat.interval.ms | INT/ro | 15000 | MEDIUM | [1,...] | The largest heartbeat interval that a share group may have, in ms.
group.share.max.partition.max.record.locks | INT/ro | 4000 | MEDIUM | [2000,...,10000] | The largest number of locked records per partition that a share group may have.
group.share.max.record.lock.duration.ms | INT/ro | 60000 | MEDIUM | [30000,...,3600000] | The longest lock on a record that a share group may have, in ms.
group.share.max.session.timeout.ms | INT/ro | 60000 | MEDIUM | [1,...] | The largest session timeout that a share group may have, in ms.
group.share.max.share.sessions | INT/ro | 2000 | MEDIUM | [1,...] | How many share sessions a broker keeps.
group.share.max.size | INT/ro | 200 | MEDIUM | [1,...,1000] | The most members of a share group.
group.share.min.assignment.interval.ms | INT/ro | 0 | MEDIUM | [0,...] | The smallest assignment interval that a share group may have, in ms.
group.share.min.delivery.count.limit | INT/ro | 2 | MEDIUM | [2,...,5] | The smallest number of deliveries that a share group may have.
group.share.min.heartbeat.interval.ms | INT/ro | 5000 | MEDIUM | [1,...] | The smallest heartbeat interval that a share group may have, in ms.
group.share.min.partition.max.record.locks | INT/ro | 100 | MEDIUM | [100,...,2000] | The smallest number of locked records per partition that a share group may have.
group.share.min.record.lock.duration.ms | INT/ro | 15000 | MEDIUM | [1000,...,30000] | The shortest lock on a record that a share group may have, in ms.
group.share.min.session.timeout.ms | INT/ro | 45000 | MEDIUM | [1,...] | The smallest session timeout that a share group may have, in ms.
group.share.partition.max.record.locks | INT/ro | 2000 | MEDIUM | [100,...,10000] | How many records of one partition a share group may lock at a time.
group.share.persister.class.name! | STRING/ro | org.apache.kafka.server.share.persister.DefaultStatePersister | MEDIUM |  | The class that stores the state of share groups.
group.share.record.lock.duration.ms | INT/ro | 30000 | MEDIUM | [1000,...,3600000] | How long a record stays locked for a member of a share group, in ms.
group.share.session.timeout.ms | INT/ro | 45000 | MEDIUM | [1,...] | How long a member of a share group may stay silent, in ms.
group.streams.assignment.interval.ms | INT/cw | 1000 | MEDIUM | [0,...] | The least time between two assignments of a streams group, in ms.
group.streams.heartbeat.interval.ms | INT/ro | 5000 | MEDIUM | [1,...] | How often the members of a streams group send a heartbeat, in ms.
group.streams.initial.rebalance.delay.ms | INT/ro | 3000 | MEDIUM | [0,...] | How long a new streams group waits for more members before its first rebalance, in ms.
group.streams.max.assignment.interval.ms | INT/ro | 15000 | MEDIUM | [0,...] | The largest assignment interval that a streams group may have, in ms.
group.streams.max.heartbeat.interval.ms | INT/ro | 15000 | MEDIUM | [1,...] | The largest heartbeat interval that a streams group may have, in ms.
group.streams.max.session.timeout.ms | INT/ro | 60000 | MEDIUM | [1,...] | The largest session timeout that a streams group may have, in ms.
group.streams.max.size | INT/ro | 2147483647 | MEDIUM | [1,...] | The most members of a streams group.
group.streams.max.standby.replicas | INT/ro | 2 | MEDIUM | [0,...] | The most standby copies that a streams group may ask for.
group.streams.min.assignment.interval.ms | INT/ro | 0 | MEDIUM | [0,...] | The smallest assignment interval that a streams group may have, in ms.
group.streams.min.heartbeat.interval.ms | INT/ro | 5000 | MEDIUM | [1,...] | The smallest heartbeat interval that a streams group may have, in ms.
group.streams.min.session.timeout.ms | INT/ro | 45000 | MEDIUM | [1,...] | The smallest session timeout that a streams group may have, in ms.
group.streams.num.standby.replicas | INT/ro | 0 | MEDIUM | [0,...] | How many standby copies each task of a streams group has.
group.streams.session.timeout.ms | INT/ro | 45000 | MEDIUM | [1,...] | How long a member of a streams group may stay silent, in ms.
offset.metadata.max.bytes | INT/ro | 4096 | HIGH |  | The longest note that may go with a committed offset, in bytes.
offsets.commit.timeout.ms | INT/ro | 5000 | HIGH | [1,...] | How long a commit of offsets waits for its replicas, in ms.
offsets.load.buffer.size | INT/ro | 5242880 | HIGH | [1,...] | How much is read at a time when committed offsets are loaded, in bytes.
offsets.retention.check.interval.ms | LONG/ro | 600000 | HIGH | [1,...] | How often committed offsets are checked for expiry, in ms.
offsets.retention.minutes | INT/ro | 10080 | HIGH | [1,...] | How long committed offsets are kept after a group has become empty, in minutes.
offsets.topic.compression.codec | INT/ro | 0 | HIGH |  | The codec of the topic of committed offsets, by its number.
offsets.topic.num.partitions | INT/ro | 50 | HIGH | [1,...] | How many partitions the topic of committed offsets has; not to be changed later.
offsets.topic.replication.factor | SHORT/ro | 3 | HIGH | [1,...] | How many replicas the topic of committed offsets has.
offsets.topic.segment.bytes | INT/ro | 104857600 | HIGH | [1,...] | Size of a segment of the topic of committed offsets, in bytes.
producer.id.expiration.check.interval.ms! | INT/ro | 600000 | LOW | [1,...] | How often producer ids are checked for expiry, in ms.
producer.id.expiration.ms | INT/cw | 86400000 | LOW | [1,...] | How long a partition remembers a producer that is silent, in ms.
share.coordinator.append.linger.ms | INT/ro | -1 | MEDIUM | [-1,...] | How long the share coordinator collects writes, in ms; -1 adapts to the load.
share.coordinator.cached.buffer.max.bytes | INT/cw | 1048588 | MEDIUM | [524288,...] | The largest buffer that the share coordinator keeps for later use, in bytes.
share.coordinator.cold.partition.snapshot.interval.ms! | INT/ro | 300000 | LOW | [1,...] | How often a snapshot of the state of idle share partitions is written, in ms.
share.coordinator.load.buffer.size | INT/ro | 5242880 | HIGH | [1,...] | How much is read at a time when share state is loaded, in bytes.
share.coordinator.snapshot.update.records.per.snapshot | INT/ro | 500 | MEDIUM | [0,...,500] | How many updates are written between two snapshots of share state.
share.coordinator.state.topic.compression.codec | INT/ro | 0 | HIGH |  | The codec of the topic of share state, by its number.
share.coordinator.state.topic.min.isr | SHORT/ro | 2 | HIGH | [1,...] | The min.insync.replicas of the topic of share state.
share.coordinator.state.topic.num.partitions | INT/ro | 50 | HIGH | [1,...] | How many partitions the topic of share state has; not to be changed later.
share.coordinator.state.topic.prune.interval.ms! | INT/ro | 300000 | LOW | [1,...] | How often superseded share state is deleted, in ms.
share.coordinator.state.topic.replication.factor | SHORT/ro | 3 | HIGH | [1,...] | How many replicas the topic of share state has.
share.coordinator.state.topic.segment.bytes | INT/ro | 104857600 | HIGH | [1,...] | Size of a segment of the topic of share state, in bytes.
share.coordinator.threads | INT/ro | 1 | MEDIUM | [1,...] | How many threads the share coordinator has.
share.coordinator.write.timeout.ms | INT/ro | 5000 | HIGH | [1,...] | How long a write of share state waits for its replicas, in ms.
share.fetch.purgatory.purge.interval.requests | INT/ro | 1000 | MEDIUM |  | After how many requests finished waits of share fetches are cleared away.
transaction.abort.timed.out.transaction.cleanup.interval.ms | INT/ro | 10000 | LOW | [1,...] | How often transactions are checked for their timeout, in ms.
transaction.max.timeout.ms | INT/ro | 900000 | HIGH | [1,...] | The longest timeout that a transaction may ask for, in ms.
transaction.partition.verification.enable | BOOLEAN/cw | true | LOW |  | Whether a write in a transaction is checked against the partitions that the transaction has named.
transaction.remove.expired.transaction.cleanup.interval.ms | INT/ro | 3600000 | LOW | [1,...] | How often expired transactional ids are removed, in ms.
transaction.state.log.load.buffer.size | INT/ro | 5242880 | HIGH | [1,...] | How much is read at a time when transaction state is loaded, in bytes.
transaction.state.log.min.isr | INT/ro | 2 | HIGH | [1,...] | The min.insync.replicas of the topic of transaction state.
transaction.state.log.num.partitions | INT/ro | 50 | HIGH | [1,...] | How many partitions the topic of transaction state has; not to be changed later.
transaction.state.log.replication.factor | SHORT/ro | 3 | HIGH | [1,...] | How many replicas the topic of transaction state has.
transaction.state.log.segment.bytes | INT/ro | 104857600 | HIGH | [1,...] | Size of a segment of the topic of transaction state, in bytes.
transaction.two.phase.commit.enable | BOOLEAN/ro | false | LOW |  | Whether transactions may be part of a two-phase commit that an outside coordinator leads.
transactional.id.expiration.ms | INT/ro | 604800000 | HIGH | [1,...] | How long a transactional id is remembered without use, in ms.
"""
