"""The admin client of commands over REST: the operations of `Admin` that they use, made by a web process.

It answers with the values of `Admin`, so commands print the same either way.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final
from uuid import UUID

from app.cli.rest_configs import alter_configs, described_configs
from app.cli.rest_errors import each_of, refusal
from app.cli.rest_groups import RestGroups
from conclave.client.async_client import AsyncClient
from conclave.client.models import ConfigToCreate, PartitionData, TopicData, TopicToDelete
from kraft_core.clients.admin.admin_call import Results
from kraft_core.clients.admin.cluster import ClusterDescription
from kraft_core.clients.admin.configs import ConfigChange, ConfigEntry, ConfigResource
from kraft_core.clients.admin.log_dirs import LogDirDescription, ReplicaInfo
from kraft_core.clients.admin.topics import (
    CreatedTopic,
    NewPartitions,
    NewTopic,
    TopicDescription,
    TopicListing,
    TopicPartitionInfo,
)
from kraft_core.clients.client_metadata import Node, TopicPartition
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.uuids import uuid_from_text

SINGLY_MAX: Final = 20
"""More topics than this are described by the list of all partitions."""


class RestAdmin(RestGroups):
    """Admin operations over REST, for one command."""

    def __init__(self, client: AsyncClient) -> None:
        super().__init__(client)
        self._listed: dict[str, TopicData] = {}

    # -- topics

    async def list_topics(self, *, list_internal: bool = False) -> dict[str, TopicListing]:
        """Return the topics by name. They are kept for the description of many topics, which is about these."""
        self._listed = {each.topic_name: each async for each in self.client.list_topics()}
        return {
            each.topic_name: TopicListing(each.topic_name, uuid_from_text(each.topic_id), each.is_internal)
            for each in self._listed.values()
            if list_internal or not each.is_internal
        }

    async def describe_topics(self, topics: Collection[str]) -> Results[str, TopicDescription]:
        """Describe topics by name."""
        names = sorted(set(topics))
        if len(names) <= SINGLY_MAX:
            return await each_of(names, self._described)
        if not self._listed.keys() >= set(names):
            await self.list_topics()
        listed = self._listed
        partitions: dict[str, list[PartitionData]] = {}
        async for each in self.client.list_all_partitions():
            partitions.setdefault(each.topic_name, []).append(each)
        return Results(
            {
                name: _topic(listed[name], partitions.get(name, ()))
                if name in listed
                else KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                for name in names
            }
        )

    async def _described(self, name: str) -> TopicDescription:
        topic = await self.client.get_topic(name)
        return _topic(topic, [each async for each in self.client.list_partitions(name)])

    async def create_topics(
        self, topics: Collection[NewTopic], *, validate_only: bool = False
    ) -> Results[str, CreatedTopic]:
        """Create topics, or check whether they could be created."""
        wanted = {topic.name: topic for topic in topics}

        async def create(name: str) -> CreatedTopic:
            topic = wanted[name]
            made = await self.client.create_topic(
                topic_name=name,
                partitions_count=None if topic.num_partitions < 0 else topic.num_partitions,
                replication_factor=None if topic.replication_factor < 0 else topic.replication_factor,
                configs=[ConfigToCreate(name=key, value=value) for key, value in topic.configs.items()],
                validate_only=validate_only,
            )
            return CreatedTopic(name, uuid_from_text(made.topic_id), made.partitions_count, made.replication_factor)

        return await each_of(wanted, create)

    async def create_partitions(
        self, new_partitions: Mapping[str, NewPartitions], *, validate_only: bool = False
    ) -> Results[str, None]:
        """Raise the partition count of topics, or check whether that can be done."""

        async def grow(name: str) -> None:
            await self.client.grow_topic(
                name, partitions_count=new_partitions[name].total_count, validate_only=validate_only
            )

        return await each_of(new_partitions, grow)

    async def delete_topics(self, topics: Collection[str]) -> Results[str | UUID, None]:
        """Delete topics by name."""
        answer = await self.client.delete_topics(data=[TopicToDelete(topic_name=name) for name in topics])
        return Results(
            {each.topic_name: refusal(each.kafka_error, each.message) for each in answer.data if each.topic_name}
        )

    # -- configs

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Collection[str] | None = None,
        include_synonyms: bool = False,
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        """Return the configs of resources, by resource and name; `names` limits which."""

        async def described(resource: ConfigResource) -> dict[str, ConfigEntry]:
            found = await described_configs(self.client, resource, include_synonyms=include_synonyms)
            return {name: entry for name, entry in found.items() if names is None or name in names}

        return await each_of(resources, described)

    async def incremental_alter_configs(
        self, configs: Mapping[ConfigResource, Collection[ConfigChange]], *, validate_only: bool = False
    ) -> Results[ConfigResource, None]:
        """Change configs, by resource: all changes of a resource are made or none."""

        async def alter(resource: ConfigResource) -> None:
            await alter_configs(self.client, resource, configs[resource], validate_only=validate_only)

        return await each_of(configs, alter)

    # -- brokers

    async def describe_cluster(self, *, include_fenced_brokers: bool = False) -> ClusterDescription:
        """Return the brokers."""
        found = [each async for each in self.client.list_brokers() if include_fenced_brokers or not each.is_fenced]
        nodes = tuple(Node(each.broker_id, each.host or "", each.port or 0, each.rack) for each in found)
        fenced = frozenset(each.broker_id for each in found if each.is_fenced)
        return ClusterDescription(await self.client.choose_cluster(), -1, nodes, fenced)

    async def describe_log_dirs(self, brokers: Collection[int]) -> Results[int, dict[str, LogDirDescription]]:
        """Return the log directories of brokers by path. The sizes of their replicas are known as a sum only."""

        async def described(broker_id: int) -> dict[str, LogDirDescription]:
            found: dict[str, LogDirDescription] = {}
            async for each in self.client.list_log_directories(broker_id):
                if each.log_dir is None:
                    raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker {broker_id} has not answered.")
                sizes = [each.size_bytes or 0, *([0] * each.replicas_count)][: each.replicas_count]
                found[each.log_dir] = LogDirDescription(
                    None if each.error is None else KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, each.error),
                    {TopicPartition("", index): ReplicaInfo(size, 0, False) for index, size in enumerate(sizes)},
                    each.total_bytes,
                    each.usable_bytes,
                    bool(each.is_cordoned),
                )
            return found

        return await each_of(brokers, described)


def _topic(topic: TopicData, partitions: Iterable[PartitionData]) -> TopicDescription:
    return TopicDescription(
        topic.topic_name,
        uuid_from_text(topic.topic_id),
        topic.is_internal,
        tuple(
            TopicPartitionInfo(
                each.partition_id,
                -1 if each.leader_id is None else each.leader_id,
                each.leader_epoch,
                tuple(each.replica_ids),
                tuple(each.in_sync_replica_ids),
                tuple(each.offline_replica_ids),
                tuple(each.eligible_leader_replica_ids),
            )
            for each in partitions
        ),
    )
