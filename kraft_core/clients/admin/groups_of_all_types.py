"""Admin's operations on groups of Kafka Streams applications (KIP-1071), and on groups whatever their type is.

Source: DescribeStreamsGroupsHandler of Kafka 4.3.1.
"""

from collections.abc import Collection
from typing import Final

from kraft_core.clients.admin.admin_call import AdminCall, RequestContext, Results, error_of
from kraft_core.clients.admin.groups import GROUP, GroupDescription, MemberDescription
from kraft_core.clients.admin.share_groups import ShareGroupCalls
from kraft_core.clients.admin.streams_topology import MemberTasks, Subtopology, Task, Topology
from kraft_core.clients.client_metadata import Node
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupDescribeResponseDescribedGroup,
    StreamsGroupDescribeResponseMember,
    StreamsGroupDescribeResponseTaskIds,
    StreamsGroupDescribeResponseTopology,
)

STREAMS: Final = "Streams"


class AllGroupCalls(ShareGroupCalls):
    """Groups of all types. Streams groups commit offsets as consumer groups do."""

    async def describe_streams_groups(self, group_ids: Collection[str]) -> Results[str, GroupDescription]:
        """Describe groups of Kafka Streams applications, by id."""

        def build(context: RequestContext[str]) -> StreamsGroupDescribeRequest:
            return StreamsGroupDescribeRequest(group_ids=tuple(context.keys))

        def read(
            answer: StreamsGroupDescribeResponse, context: RequestContext[str]
        ) -> dict[str, GroupDescription | KafkaError]:
            return {
                each.group_id: error_of(each.error_code, each.error_message) or _described(each, context.node)
                for each in answer.groups
            }

        return await self.run(
            AdminCall(request=StreamsGroupDescribeRequest, keys=group_ids, target=GROUP, build=build, read=read)
        )

    async def describe_groups(self, group_ids: Collection[str]) -> Results[str, GroupDescription]:
        """Describe groups of any type, by id. Only those that are of no known type are GROUP_ID_NOT_FOUND."""
        described = await self.describe_consumer_groups(group_ids)
        for describe in (self.describe_share_groups, self.describe_streams_groups):
            missing = [each for each, error in described.failed.items() if error.code == ErrorCode.GROUP_ID_NOT_FOUND]
            if missing:
                described.update((await describe(missing)).succeeded)
        return described


def _described(found: StreamsGroupDescribeResponseDescribedGroup, node: Node) -> GroupDescription:
    topology = None if found.topology is None else _topology(found.topology)
    return GroupDescription(
        found.group_id,
        STREAMS,
        "streams",
        found.group_state,
        "",
        node,
        tuple(_member(each, topology) for each in found.members),
        found.group_epoch,
        found.assignment_epoch,
        topology,
    )


def _topology(found: StreamsGroupDescribeResponseTopology) -> Topology:
    return Topology(
        found.epoch,
        tuple(
            Subtopology(
                each.subtopology_id,
                each.source_topics,
                tuple(topic.name for topic in each.repartition_source_topics),
                each.repartition_sink_topics,
                tuple(topic.name for topic in each.state_changelog_topics),
            )
            for each in found.subtopologies or ()
        ),
    )


def _member(found: StreamsGroupDescribeResponseMember, topology: Topology | None) -> MemberDescription:
    held, wanted = found.assignment, found.target_assignment
    tasks = MemberTasks(_tasks(held.active_tasks), _tasks(held.standby_tasks), _tasks(held.warmup_tasks))
    return MemberDescription(
        found.member_id,
        found.instance_id,
        found.client_id,
        found.client_host,
        () if topology is None else tuple(topology.partitions_of(tasks.active)),
        None if topology is None else tuple(topology.partitions_of(_tasks(wanted.active_tasks))),
        found.member_epoch,
        found.is_classic,
        tasks,
    )


def _tasks(found: tuple[StreamsGroupDescribeResponseTaskIds, ...]) -> tuple[Task, ...]:
    return tuple((each.subtopology_id, index) for each in found for index in each.partitions)
