"""Admin's operations on log directories. Source: KafkaAdminClient, LogDirDescription, Kafka 4.3.1; KIP-113."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kraft_core.clients.admin.admin_call import (
    AdminCall,
    AdminCalls,
    Broker,
    RequestContext,
    Results,
    by_topic,
    error_of,
)
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.messages import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsRequestAlterReplicaLogDir,
    AlterReplicaLogDirsRequestAlterReplicaLogDirTopic,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponseDescribeLogDirsResult,
)


class ReplicaInfo(NamedTuple):
    """A replica's size in bytes and how many records it is behind. `is_future`: it is being moved here."""

    size: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A log directory. `error` says why it cannot be used. Sizes are in bytes, None if the broker does not say."""

    error: KafkaError | None
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool = False


class TopicPartitionReplica(NamedTuple):
    """A partition's replica on a broker."""

    topic: str
    partition: int
    broker_id: int


class LogDirCalls(AdminCalls):
    """Log directories."""

    async def describe_log_dirs(self, brokers: Collection[int]) -> Results[int, dict[str, LogDirDescription]]:
        """Return the log directories of brokers, by broker id and path."""

        def build(_context: RequestContext[int]) -> DescribeLogDirsRequest:
            return DescribeLogDirsRequest(topics=None)

        def read(
            answer: DescribeLogDirsResponse, context: RequestContext[int]
        ) -> dict[int, dict[str, LogDirDescription] | KafkaError]:
            found = error_of(answer.error_code) or {each.log_dir: _description(each) for each in answer.results}
            return dict.fromkeys(context.keys, found)

        return await self.run(
            AdminCall(request=DescribeLogDirsRequest, keys=brokers, target=Broker, build=build, read=read)
        )

    async def alter_replica_log_dirs(
        self, replica_assignment: Mapping[TopicPartitionReplica, str]
    ) -> Results[TopicPartitionReplica, None]:
        """Move replicas to other log directories of their brokers, by replica."""

        def build(context: RequestContext[TopicPartitionReplica]) -> AlterReplicaLogDirsRequest:
            return alter_replica_log_dirs_request(
                {TopicPartition(*replica[:2]): replica_assignment[replica] for replica in context.keys}
            )

        def read(
            answer: AlterReplicaLogDirsResponse, context: RequestContext[TopicPartitionReplica]
        ) -> dict[TopicPartitionReplica, KafkaError | None]:
            return {
                TopicPartitionReplica(*partition, context.node.id): error
                for partition, error in alter_replica_log_dirs_results(answer).items()
            }

        return await self.run(
            AdminCall(
                request=AlterReplicaLogDirsRequest,
                keys=replica_assignment,
                target=lambda replica: Broker(replica.broker_id),
                build=build,
                read=read,
            )
        )


def alter_replica_log_dirs_request(wanted: Mapping[TopicPartition, str]) -> AlterReplicaLogDirsRequest:
    """Return the request that moves replicas of one broker to the directories with these paths."""
    by_dir: dict[str, list[TopicPartition]] = {}
    for partition, path in wanted.items():
        by_dir.setdefault(path, []).append(partition)
    return AlterReplicaLogDirsRequest(
        dirs=tuple(
            AlterReplicaLogDirsRequestAlterReplicaLogDir(
                path=path,
                topics=tuple(
                    AlterReplicaLogDirsRequestAlterReplicaLogDirTopic(name=topic, partitions=tuple(indexes))
                    for topic, indexes in by_topic(partitions).items()
                ),
            )
            for path, partitions in by_dir.items()
        )
    )


def alter_replica_log_dirs_results(answer: AlterReplicaLogDirsResponse) -> dict[TopicPartition, KafkaError | None]:
    """Return the error of each partition, None where the broker has accepted the directory."""
    return {
        TopicPartition(topic.topic_name, each.partition_index): error_of(each.error_code)
        for topic in answer.results
        for each in topic.partitions
    }


def _description(found: DescribeLogDirsResponseDescribeLogDirsResult) -> LogDirDescription:
    return LogDirDescription(
        error_of(found.error_code),
        {
            TopicPartition(topic.name, each.partition_index): ReplicaInfo(
                each.partition_size, each.offset_lag, each.is_future_key
            )
            for topic in found.topics
            for each in topic.partitions
        },
        found.total_bytes if found.total_bytes >= 0 else None,
        found.usable_bytes if found.usable_bytes >= 0 else None,
        found.is_cordoned,
    )
