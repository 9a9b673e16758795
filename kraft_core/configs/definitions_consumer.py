"""Configs of the consumer as a table (see config_def.parse_table), beside those of definitions_client.

Names, types, defaults and allowed values are those of ConsumerConfig, Kafka 4.3.1; the descriptions are not Kafka's.
Keys of Apache's consumer that have no effect here are unknown: metrics, socket buffers, share groups, class loading.
"""

from typing import Final

CONSUMER_TABLE: Final = """
allow.auto.create.topics | BOOLEAN | true | MEDIUM |  | Whether a topic that is subscribed to may be created by the broker.
auto.commit.interval.ms | INT | 5000 | LOW | [0,...] | How often offsets are committed with enable.auto.commit, in ms.
auto.offset.reset | STRING | latest | MEDIUM |  | Where reading begins without a valid offset: earliest, latest, none (an error) or by_duration:<PnDTnHnMn.nS>.
check.crcs | BOOLEAN | true | LOW |  | Whether the CRC of each batch is checked.
enable.auto.commit | BOOLEAN | true | MEDIUM |  | Whether offsets of records handed out before are committed in the background.
exclude.internal.topics | BOOLEAN | true | MEDIUM |  | Whether a pattern leaves internal topics out.
fetch.max.bytes | INT | 52428800 | MEDIUM | [0,...] | The most bytes of one answer; a single batch may be larger.
fetch.max.wait.ms | INT | 500 | LOW | [0,...] | How long a broker waits for fetch.min.bytes, in ms.
fetch.min.bytes | INT | 1 | HIGH | [0,...] | The fewest bytes of an answer, unless fetch.max.wait.ms passes.
group.id | STRING | null | HIGH |  | The group of this consumer; needed for subscriptions and commits.
group.instance.id | STRING | null | MEDIUM | non-empty string | The id of a static member, which keeps its partitions while it restarts.
group.protocol | STRING | classic | HIGH | (case insensitive) [CLASSIC, CONSUMER] | The protocol of the group: classic, or consumer (KIP-848).
group.remote.assignor | STRING | null | MEDIUM |  | The broker's assignor for group.protocol consumer; null lets the broker choose.
interceptor.classes | LIST |  | LOW | distinct | ConsumerInterceptor objects, called in this order.
heartbeat.interval.ms | INT | 3000 | HIGH |  | How often a member of a classic group sends a heartbeat, in ms.
isolation.level | STRING | read_uncommitted | MEDIUM | [read_committed, read_uncommitted] | Whether records of open and aborted transactions are left out.
key.deserializer | CLASS | null | HIGH |  | A callable (topic, headers, bytes) for keys; without it keys are bytes.
max.partition.fetch.bytes | INT | 1048576 | HIGH | [0,...] | The most bytes of one partition in an answer; a single batch may be larger.
max.poll.interval.ms | INT | 300000 | MEDIUM | [1,...] | The longest time between two polls before the member leaves its group, in ms.
max.poll.records | INT | 500 | MEDIUM | [1,...] | The most records of one poll.
partition.assignment.strategy | LIST | range,cooperative-sticky | MEDIUM | distinct | The assignors of a classic group in order of preference.
session.timeout.ms | INT | 45000 | HIGH |  | How long a member of a classic group may be silent, in ms.
value.deserializer | CLASS | null | HIGH |  | A callable (topic, headers, bytes) for values; without it values are bytes.
"""
