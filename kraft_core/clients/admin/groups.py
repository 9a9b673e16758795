"""Admin's operations on groups: listing, describing, deleting, removing members. Offsets are in group_offsets.

Source: KafkaAdminClient, DescribeConsumerGroupsHandler, DescribeClassicGroupsHandler, DeleteGroupsHandler,
RemoveMembersFromConsumerGroupHandler of Kafka 4.3.1; KIP-518, KIP-848.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from kraft_core.clients.admin.admin_call import (
    AdminCall,
    Broker,
    Coordinator,
    RequestContext,
    Results,
    error_of,
)
from kraft_core.clients.admin.cluster import ClusterCalls
from kraft_core.clients.admin.streams_topology import MemberTasks, Topology
from kraft_core.clients.client_metadata import Node, TopicPartition
from kraft_core.clients.coordinator_lookup import CoordinatorType
from kraft_core.protocol.consumer_protocol import PROTOCOL_TYPE, decode_consumer_protocol
from kraft_core.protocol.errors import DecodeError, ErrorCode, KafkaError, UnsupportedVersion
from kraft_core.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerProtocolAssignment,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseDescribedGroup,
    LeaveGroupRequest,
    LeaveGroupRequestMemberIdentity,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

GROUP: Final = partial(Coordinator, CoordinatorType.GROUP)
"""The target of a group's requests, by group id."""

_FIRST_STATES_VERSION: Final = 4  # of ListGroups
_FIRST_TYPES_VERSION: Final = 5
_LEAVES_BY_MEMBERS_VERSION: Final = 3
_CLASSIC_MEMBER: Final = 0
STATES: Final = {
    "preparingrebalance": "PreparingRebalance",
    "completingrebalance": "CompletingRebalance",
    "stable": "Stable",
    "dead": "Dead",
    "empty": "Empty",
    "assigning": "Assigning",
    "reconciling": "Reconciling",
    "notready": "NotReady",
}
"""The states of groups by their names in lower case. Source: GroupState."""
TYPES: Final = {"classic": "Classic", "consumer": "Consumer", "share": "Share", "streams": "Streams"}
"""The types of groups by their names in lower case. Source: GroupType."""


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list. `type` and `state` are "" where the broker is too old to say."""

    group_id: str
    type: str
    protocol: str
    state: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member. The fields with defaults are of members of newer groups (KIP-848); `tasks` are those of streams."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...] | None = None
    member_epoch: int | None = None
    is_classic: bool | None = None
    tasks: MemberTasks | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group. `epoch` and `assignment_epoch` are None for classic groups; `topology` is that of a streams group."""

    group_id: str
    type: str
    protocol: str
    state: str
    partition_assignor: str
    coordinator: Node
    members: tuple[MemberDescription, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None
    topology: Topology | None = None


class GroupCalls(ClusterCalls):
    """Groups and their members."""

    async def list_groups(
        self, *, states: Collection[str] = (), types: Collection[str] = (), broker_ids: Collection[int] | None = None
    ) -> Results[int, tuple[GroupListing, ...]]:
        """Return the groups that each broker coordinates, by broker id, filtered by states and types.

        `broker_ids` None asks all brokers. A broker that is too old for a filter is an UnsupportedVersion. Raises
        ValueError for an unknown state or type, and KafkaError if the brokers cannot be listed.
        """
        wanted_states = tuple(known_name(STATES, "state", each) for each in states)
        wanted_types = tuple(known_name(TYPES, "type", each) for each in types)

        def build(context: RequestContext[int]) -> ListGroupsRequest:
            if wanted_types and context.version < _FIRST_TYPES_VERSION:
                raise UnsupportedVersion(f"Broker {context.node.id} cannot list groups by type.")
            if wanted_states and context.version < _FIRST_STATES_VERSION:
                raise UnsupportedVersion(f"Broker {context.node.id} cannot list groups by state.")
            return ListGroupsRequest(states_filter=wanted_states, types_filter=wanted_types)

        def read(
            answer: ListGroupsResponse, context: RequestContext[int]
        ) -> dict[int, tuple[GroupListing, ...] | KafkaError]:
            found = error_of(answer.error_code) or tuple(
                GroupListing(
                    each.group_id,
                    TYPES.get(each.group_type.lower(), each.group_type),
                    each.protocol_type,
                    each.group_state,
                )
                for each in answer.groups
            )
            return dict.fromkeys(context.keys, found)

        keys = await self.broker_ids() if broker_ids is None else broker_ids
        return await self.run(AdminCall(request=ListGroupsRequest, keys=keys, target=Broker, build=build, read=read))

    async def describe_consumer_groups(self, group_ids: Collection[str]) -> Results[str, GroupDescription]:
        """Describe groups of consumers, by id: those of KIP-848, and classic ones."""
        described = await self._describe_new(group_ids)
        old = [
            group_id
            for group_id, error in described.failed.items()
            if isinstance(error, UnsupportedVersion)
            or error.code in {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}
        ]
        if old:
            classic = await self.describe_classic_groups(old)
            described.update(classic)
        return described

    async def _describe_new(self, group_ids: Collection[str]) -> Results[str, GroupDescription]:
        def build(context: RequestContext[str]) -> ConsumerGroupDescribeRequest:
            return ConsumerGroupDescribeRequest(group_ids=tuple(context.keys))

        def read(
            answer: ConsumerGroupDescribeResponse, context: RequestContext[str]
        ) -> dict[str, GroupDescription | KafkaError]:
            return {
                each.group_id: error_of(each.error_code, each.error_message) or _new_group(each, context.node)
                for each in answer.groups
            }

        return await self.run(
            AdminCall(request=ConsumerGroupDescribeRequest, keys=group_ids, target=GROUP, build=build, read=read)
        )

    async def describe_classic_groups(self, group_ids: Collection[str]) -> Results[str, GroupDescription]:
        """Describe groups of the classic protocol, by id, whatever their protocol type."""

        def build(context: RequestContext[str]) -> DescribeGroupsRequest:
            return DescribeGroupsRequest(groups=tuple(context.keys))

        def read(
            answer: DescribeGroupsResponse, context: RequestContext[str]
        ) -> dict[str, GroupDescription | KafkaError]:
            return {each.group_id: _classic_group(each, context.node) for each in answer.groups}

        return await self.run(
            AdminCall(request=DescribeGroupsRequest, keys=group_ids, target=GROUP, build=build, read=read)
        )

    async def delete_consumer_groups(self, group_ids: Collection[str]) -> Results[str, None]:
        """Delete groups without members and all their offsets, by id. Members make it a NON_EMPTY_GROUP."""

        def build(context: RequestContext[str]) -> DeleteGroupsRequest:
            return DeleteGroupsRequest(groups_names=tuple(context.keys))

        def read(answer: DeleteGroupsResponse, _context: object) -> dict[str, KafkaError | None]:
            return {each.group_id: error_of(each.error_code) for each in answer.results}

        return await self.run(
            AdminCall(request=DeleteGroupsRequest, keys=group_ids, target=GROUP, build=build, read=read)
        )

    async def remove_members_from_consumer_group(
        self, group_id: str, group_instance_ids: Iterable[str] | None = None, *, reason: str = ""
    ) -> Results[str, None]:
        """Remove static members by instance id, or all members of a classic group if None (KIP-345).

        The results are by instance id, and by member id for dynamic members. Raises KafkaError if the group cannot be
        described.
        """
        if group_instance_ids is None:
            group = (await self.describe_consumer_groups([group_id])).get_or_raise(group_id)
            members = {each.group_instance_id or each.member_id: each for each in group.members}
            identities = {
                name: LeaveGroupRequestMemberIdentity(
                    member_id="" if each.group_instance_id else each.member_id,
                    group_instance_id=each.group_instance_id,
                    reason=f"member was removed by an admin{': ' if reason else ''}{reason}",
                )
                for name, each in members.items()
            }
        else:
            identities = {
                name: LeaveGroupRequestMemberIdentity(
                    group_instance_id=name, reason=f"member was removed by an admin{': ' if reason else ''}{reason}"
                )
                for name in group_instance_ids
            }

        def build(context: RequestContext[str]) -> LeaveGroupRequest:
            if context.version < _LEAVES_BY_MEMBERS_VERSION:
                raise UnsupportedVersion(f"Broker {context.node.id} cannot remove members of a group.")
            return LeaveGroupRequest(group_id=group_id, members=tuple(identities[name] for name in context.keys))

        def read(answer: LeaveGroupResponse, context: RequestContext[str]) -> dict[str, KafkaError | None]:
            error = error_of(answer.error_code)
            if error is not None:
                return dict.fromkeys(context.keys, error)
            return {each.group_instance_id or each.member_id: error_of(each.error_code) for each in answer.members}

        return await self.run(
            AdminCall(
                request=LeaveGroupRequest, keys=identities, target=lambda _: GROUP(group_id), build=build, read=read
            )
        )


def known_name(names: dict[str, str], what: str, text: str) -> str:
    """Return a state or type in Kafka's spelling. Raises ValueError that names what is allowed."""
    found = names.get(text.lower().replace("_", ""))
    if found is None:
        raise ValueError(f"Unknown group {what} '{text}': must be one of {', '.join(names.values())}.")
    return found


def _new_group(found: ConsumerGroupDescribeResponseDescribedGroup, node: Node) -> GroupDescription:
    return GroupDescription(
        found.group_id,
        "Consumer",
        PROTOCOL_TYPE,
        found.group_state,
        found.assignor_name,
        node,
        tuple(
            MemberDescription(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                _partitions(each.assignment),
                _partitions(each.target_assignment),
                each.member_epoch,
                each.member_type == _CLASSIC_MEMBER if each.member_type >= 0 else None,
            )
            for each in found.members
        ),
        found.group_epoch,
        found.assignment_epoch,
    )


def _partitions(assignment: ConsumerGroupDescribeResponseAssignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions
    )


def _classic_group(found: DescribeGroupsResponseDescribedGroup, node: Node) -> GroupDescription | KafkaError:
    error = error_of(found.error_code, found.error_message)
    if error is None and found.group_state == "Dead":
        error = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {found.group_id} not found.")
    return error or GroupDescription(
        found.group_id,
        "Classic",
        found.protocol_type,
        found.group_state,
        found.protocol_data,
        node,
        tuple(
            MemberDescription(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                _assigned(each.member_assignment) if found.protocol_type == PROTOCOL_TYPE else (),
            )
            for each in found.members
        ),
    )


def _assigned(data: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of a classic member; none while the group rebalances or if the bytes are another's."""
    if not data:
        return ()
    try:
        assignment = decode_consumer_protocol(ConsumerProtocolAssignment, data)
    except DecodeError:
        return ()
    return tuple(
        TopicPartition(each.topic, index) for each in assignment.assigned_partitions for index in each.partitions
    )
