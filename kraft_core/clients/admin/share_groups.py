"""Admin's operations on share groups: their members, and the offsets from which their members read.

Source: DescribeShareGroupsHandler, ListShareGroupOffsetsHandler, AlterShareGroupOffsetsHandler,
DeleteShareGroupOffsetsHandler of Kafka 4.3.1; KIP-932, KIP-1226.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from kraft_core.clients.admin.admin_call import AdminCall, RequestContext, Results, by_topic, error_of
from kraft_core.clients.admin.groups import GROUP, GroupCalls, GroupDescription, MemberDescription
from kraft_core.clients.client_metadata import Node, TopicPartition
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestAlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestAlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestDeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestDescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseDescribeShareGroupOffsetsResponseGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupDescribeResponseDescribedGroup,
)

SHARE: Final = "Share"


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """Where a share group reads a partition. `lag` are records not yet acknowledged, None if the broker is too old."""

    start_offset: int
    leader_epoch: int
    lag: int | None


ShareOffsets = dict[TopicPartition, ShareOffset | KafkaError | None]


class ShareGroupCalls(GroupCalls):
    """Share groups and their offsets. Groups without members are deleted as consumer groups are."""

    async def describe_share_groups(self, group_ids: Collection[str]) -> Results[str, GroupDescription]:
        """Describe share groups, by id. Several members may have the same partition."""

        def build(context: RequestContext[str]) -> ShareGroupDescribeRequest:
            return ShareGroupDescribeRequest(group_ids=tuple(context.keys))

        def read(
            answer: ShareGroupDescribeResponse, context: RequestContext[str]
        ) -> dict[str, GroupDescription | KafkaError]:
            return {
                each.group_id: error_of(each.error_code, each.error_message) or _described(each, context.node)
                for each in answer.groups
            }

        return await self.run(
            AdminCall(request=ShareGroupDescribeRequest, keys=group_ids, target=GROUP, build=build, read=read)
        )

    async def list_share_group_offsets(self, group_ids: Collection[str]) -> Results[str, ShareOffsets]:
        """Return the start offsets by group and partition, None for one that no member has read yet."""

        def build(context: RequestContext[str]) -> DescribeShareGroupOffsetsRequest:
            return DescribeShareGroupOffsetsRequest(
                groups=tuple(
                    DescribeShareGroupOffsetsRequestDescribeShareGroupOffsetsRequestGroup(group_id=each, topics=None)
                    for each in context.keys
                )
            )

        def read(answer: DescribeShareGroupOffsetsResponse, _context: object) -> dict[str, ShareOffsets | KafkaError]:
            return {
                each.group_id: error_of(each.error_code, each.error_message) or _offsets(each) for each in answer.groups
            }

        return await self.run(
            AdminCall(request=DescribeShareGroupOffsetsRequest, keys=group_ids, target=GROUP, build=build, read=read)
        )

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> Results[TopicPartition, None]:
        """Set start offsets of a group without members, by partition. Members make it a NON_EMPTY_GROUP."""

        def build(context: RequestContext[TopicPartition]) -> AlterShareGroupOffsetsRequest:
            return AlterShareGroupOffsetsRequest(
                group_id=group_id,
                topics=tuple(
                    AlterShareGroupOffsetsRequestAlterShareGroupOffsetsRequestTopic(
                        topic_name=topic,
                        partitions=tuple(
                            AlterShareGroupOffsetsRequestAlterShareGroupOffsetsRequestPartition(
                                partition_index=index, start_offset=offsets[TopicPartition(topic, index)]
                            )
                            for index in indexes
                        ),
                    )
                    for topic, indexes in by_topic(context.keys).items()
                ),
            )

        def read(
            answer: AlterShareGroupOffsetsResponse, context: RequestContext[TopicPartition]
        ) -> dict[TopicPartition, KafkaError | None]:
            error = error_of(answer.error_code, answer.error_message)
            if error is not None:
                return dict.fromkeys(context.keys, error)
            return {
                TopicPartition(topic.topic_name, each.partition_index): error_of(each.error_code, each.error_message)
                for topic in answer.responses
                for each in topic.partitions
            }

        return await self.run(
            AdminCall(
                request=AlterShareGroupOffsetsRequest,
                keys=offsets,
                target=lambda _: GROUP(group_id),
                build=build,
                read=read,
            )
        )

    async def delete_share_group_offsets(self, group_id: str, topics: Collection[str]) -> Results[str, None]:
        """Delete the start offsets of topics of a group without members, by topic."""

        def build(context: RequestContext[str]) -> DeleteShareGroupOffsetsRequest:
            return DeleteShareGroupOffsetsRequest(
                group_id=group_id,
                topics=tuple(
                    DeleteShareGroupOffsetsRequestDeleteShareGroupOffsetsRequestTopic(topic_name=topic)
                    for topic in context.keys
                ),
            )

        def read(answer: DeleteShareGroupOffsetsResponse, context: RequestContext[str]) -> dict[str, KafkaError | None]:
            error = error_of(answer.error_code, answer.error_message)
            if error is not None:
                return dict.fromkeys(context.keys, error)
            return {each.topic_name: error_of(each.error_code, each.error_message) for each in answer.responses}

        return await self.run(
            AdminCall(
                request=DeleteShareGroupOffsetsRequest,
                keys=topics,
                target=lambda _: GROUP(group_id),
                build=build,
                read=read,
            )
        )


def _described(found: ShareGroupDescribeResponseDescribedGroup, node: Node) -> GroupDescription:
    return GroupDescription(
        found.group_id,
        SHARE,
        "share",
        found.group_state,
        found.assignor_name,
        node,
        tuple(
            MemberDescription(
                each.member_id,
                None,
                each.client_id,
                each.client_host,
                tuple(
                    TopicPartition(topic.topic_name, index)
                    for topic in each.assignment.topic_partitions
                    for index in topic.partitions
                ),
                member_epoch=each.member_epoch,
            )
            for each in found.members
        ),
        found.group_epoch,
        found.assignment_epoch,
    )


def _offsets(group: DescribeShareGroupOffsetsResponseDescribeShareGroupOffsetsResponseGroup) -> ShareOffsets:
    return {
        TopicPartition(topic.topic_name, each.partition_index): error_of(each.error_code, each.error_message)
        or (
            None
            if each.start_offset < 0
            else ShareOffset(each.start_offset, each.leader_epoch, None if each.lag < 0 else each.lag)
        )
        for topic in group.topics
        for each in topic.partitions
    }
