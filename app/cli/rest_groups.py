"""Groups over REST, as the admin client of commands has them."""

from collections.abc import Collection, Mapping
from typing import Any

from app.cli.rest_errors import each_of, kafka_error, refusal
from conclave.client.async_client import AsyncClient
from conclave.client.errors import ApiError, NotFoundError
from conclave.client.models import ConsumerData, ConsumerGroupData, ConsumerLagData, GroupToDelete, PartitionsOfTopic
from kraft_core.clients.admin.admin_call import Results
from kraft_core.clients.admin.group_lag import PartitionLag, partition_lags
from kraft_core.clients.admin.groups import STATES, TYPES, GroupDescription, GroupListing, MemberDescription, known_name
from kraft_core.clients.admin.offset_reset import OffsetReset
from kraft_core.clients.admin.offsets import ListOffsetsResultInfo
from kraft_core.clients.client_metadata import Node, TopicPartition
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.protocol.errors import ErrorCode, KafkaError


class RestGroups:
    """Admin operations about groups over REST."""

    def __init__(self, client: AsyncClient) -> None:
        self.client = client

    async def list_groups(
        self, *, states: Collection[str] = (), types: Collection[str] = ()
    ) -> Results[int, tuple[GroupListing, ...]]:
        """Return the groups by the id of their coordinator. Raises ValueError for an unknown state or type."""
        wanted_states = {known_name(STATES, "state", each) for each in states}
        wanted_types = {known_name(TYPES, "type", each) for each in types}
        found: dict[int, list[GroupListing]] = {}
        async for each in self.client.list_groups():
            group = GroupListing(each.consumer_group_id, _type(each.type), each.protocol, _state(each.state))
            if group.state in (wanted_states or {group.state}) and group.type in (wanted_types or {group.type}):
                found.setdefault(_coordinator(each), []).append(group)
        return Results({broker: tuple(groups) for broker, groups in sorted(found.items())})

    async def describe_consumer_groups(self, group_ids: Collection[str]) -> Results[str, GroupDescription]:
        """Describe groups of any type, with their members."""
        brokers = {each.broker_id: each async for each in self.client.list_brokers()}

        async def described(group_id: str) -> GroupDescription:
            try:
                group = await self.client.get_group(group_id)
            except NotFoundError as error:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, error.detail) from None
            broker = brokers.get(_coordinator(group))
            host, port = (None, None) if broker is None else (broker.host, broker.port)
            return GroupDescription(
                group_id,
                _type(group.type),
                group.protocol,
                _state(group.state),
                group.partition_assignor,
                Node(_coordinator(group), host or "", port or 0),
                tuple([_member(each) async for each in self.client.list_consumers(group_id)]),
                group.epoch,
                group.assignment_epoch,
            )

        return await each_of(group_ids, described)

    async def group_lags(
        self, groups: Collection[GroupDescription]
    ) -> dict[str, tuple[PartitionLag, ...] | KafkaError]:
        """Return the partitions of groups with their lags, ordered by topic and index, by group id."""
        by_id = {group.group_id: group for group in groups}

        async def lags(group_id: str) -> tuple[PartitionLag, ...]:
            members = by_id[group_id].members
            found = {TopicPartition(each.topic_name, each.partition_id): each for each in await self._lags(group_id)}
            ends = {partition: each.log_end_offset for partition, each in found.items()}
            for partition in {each for member in members for each in member.assignment} - ends.keys():
                answer = await self.client.get_offsets(partition.topic, partition.partition)
                ends[partition] = answer.latest_offset
            return partition_lags(
                members,
                {partition: OffsetAndMetadata(each.current_offset) for partition, each in found.items()},
                {partition: ListOffsetsResultInfo(end, -1, -1) for partition, end in ends.items()},
            )

        return await each_of(by_id, lags)

    async def _lags(self, group_id: str) -> list[ConsumerLagData]:
        """Return the lags. A group without a committed offset has none."""
        try:
            return [each async for each in self.client.list_lags(group_id)]
        except NotFoundError:
            return []

    async def reset_offsets(
        self,
        group_id: str,
        scenario: Mapping[str, Any],
        partitions: Mapping[str, set[int] | None] | None,
        *,
        validate_only: bool,
    ) -> tuple[list[OffsetReset], dict[TopicPartition, KafkaError]]:
        """Move the committed offsets of a group, or show where they would be. Also return what was refused.

        `scenario` has one member of the body. Raises KafkaError.
        """
        topics = None
        if partitions is not None:
            topics = [
                PartitionsOfTopic(topic_name=topic, partition_ids=None if indexes is None else sorted(indexes))
                for topic, indexes in partitions.items()
            ]
        try:
            answer = await self.client.reset_offsets(group_id, topics=topics, validate_only=validate_only, **scenario)
        except ApiError as error:
            raise kafka_error(error) from None
        plan: list[OffsetReset] = []
        failed: dict[TopicPartition, KafkaError] = {}
        for each in answer.data:
            partition = TopicPartition(each.topic_name, each.partition_id)
            plan.append(OffsetReset(partition, each.current_offset, each.new_offset, each.note))
            refused = refusal(each.kafka_error, each.message)
            if refused is not None:
                failed[partition] = refused
        return plan, failed

    async def delete_consumer_groups(self, group_ids: Collection[str]) -> Results[str, None]:
        """Delete groups without members."""
        data = [GroupToDelete(consumer_group_id=each) for each in group_ids]
        answer = await self.client.delete_groups(data=data)
        return Results({each.consumer_group_id: refusal(each.kafka_error, each.message) for each in answer.data})


def _coordinator(group: ConsumerGroupData) -> int:
    return int(group.coordinator.related.rpartition("/")[2])


def _type(name: str) -> str:
    return TYPES.get(name.lower(), "")


def _state(name: str) -> str:
    return STATES.get(name.lower().replace("_", ""), "")


def _member(member: ConsumerData) -> MemberDescription:
    target = member.target_partitions
    return MemberDescription(
        member.consumer_id,
        member.instance_id,
        member.client_id,
        member.host,
        tuple(TopicPartition(each.topic_name, each.partition_id) for each in member.assigned_partitions),
        None if target is None else tuple(TopicPartition(each.topic_name, each.partition_id) for each in target),
        member.member_epoch,
    )
