"""Requests of consumer groups.

Source: KafkaApis and GroupCoordinatorService, Kafka 4.3.1; KIP-1043 (an unknown group in DescribeGroups v6).
"""

from typing import Final

from kraft_core.broker.apis.context import BrokerContext
from kraft_core.broker.coordinator.classic_group import ClassicGroup, GroupState
from kraft_core.broker.coordinator.group_coordinator import commit_refused
from kraft_core.broker.slices import Work
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResponseDeletableGroupResult,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseDescribedGroup,
    DescribeGroupsResponseDescribedGroupMember,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    ListGroupsResponseListedGroup,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kraft_core.server.network.request import Request

_GROUP: Final = 0
_TRANSACTION: Final = 1
_BATCHED_SINCE: Final = 4
_NO_NODE: Final = -1
_NOT_FOUND_SINCE: Final = 6
_ANY_PROTOCOL_NAME_SINCE: Final = 7


class GroupsHandler:
    """Answers group requests, after checking that this broker coordinates the group and has loaded it."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def find_coordinator(self, body: FindCoordinatorRequest, request: Request) -> FindCoordinatorResponse:
        """Return the coordinator of each group: the leader of its partition of __consumer_offsets.

        The topic is created if it is missing. Errors: INVALID_GROUP_ID; COORDINATOR_NOT_AVAILABLE until there is a
        leader; UNSUPPORTED_VERSION for transactions and share groups, which this broker does not serve.
        """
        version = request.header.api_version
        keys = body.coordinator_keys if version >= _BATCHED_SINCE else (body.key,)
        found = [self._find(key, body.key_type, request) for key in keys]
        if version >= _BATCHED_SINCE:
            return FindCoordinatorResponse(coordinators=tuple(found))
        only = found[0]
        return FindCoordinatorResponse(
            error_code=only.error_code,
            error_message=only.error_message,
            node_id=only.node_id,
            host=only.host,
            port=only.port,
        )

    def _find(self, key: str, key_type: int, request: Request) -> FindCoordinatorResponseCoordinator:
        def refuse(code: ErrorCode, message: str | None) -> FindCoordinatorResponseCoordinator:
            return FindCoordinatorResponseCoordinator(
                key=key, node_id=_NO_NODE, host="", port=_NO_NODE, error_code=code, error_message=message
            )

        if key_type != _GROUP:
            what = "transactions" if key_type == _TRANSACTION else f"coordinators of type {key_type}"
            return refuse(ErrorCode.UNSUPPORTED_VERSION, f"This broker does not serve {what}.")
        leader = self._context.coordinator.leader_of(key)
        endpoint = self._context.metadata.endpoint(leader, request.listener_name)
        if endpoint is None:
            return refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
        return FindCoordinatorResponseCoordinator(
            key=key, node_id=leader, host=endpoint.host, port=endpoint.port, error_message=None
        )

    # -- members

    def join(self, body: JoinGroupRequest, request: Request) -> None:
        """Answer at once with an error, else when the joining phase ends."""
        version = request.header.api_version

        def answer(response: JoinGroupResponse) -> None:
            if response.protocol_name is None and version < _ANY_PROTOCOL_NAME_SINCE:
                response = JoinGroupResponse(
                    error_code=response.error_code,
                    generation_id=response.generation_id,
                    protocol_name="",
                    leader=response.leader,
                    member_id=response.member_id,
                    members=response.members,
                )
            request.respond(response)

        error = self._context.coordinator.check(body.group_id)
        if error is not ErrorCode.NONE:
            answer(JoinGroupResponse(error_code=error, member_id=body.member_id))
            return
        client_id = request.header.client_id or ""
        now_ms = self._context.clock_ms()
        groups = self._context.coordinator.groups
        groups.join(body, version, client_id, request.client_host, answer, now_ms)
        self._context.coordinator.reschedule()

    def sync(self, body: SyncGroupRequest, request: Request) -> None:
        """Answer at once, or when the group's leader has sent the assignments."""
        error = self._context.coordinator.check(body.group_id)
        if error is not ErrorCode.NONE:
            code = ErrorCode.REBALANCE_IN_PROGRESS if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error
            request.respond(SyncGroupResponse(error_code=code))
            return
        self._context.coordinator.groups.sync(body, request.respond, self._context.clock_ms())
        self._context.coordinator.reschedule()

    def heartbeat(self, body: HeartbeatRequest) -> HeartbeatResponse:
        """Answer a heartbeat. While groups load it is accepted unchecked, as in Kafka."""
        error = self._context.coordinator.check(body.group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return HeartbeatResponse()
        if error is not ErrorCode.NONE:
            return HeartbeatResponse(error_code=error)
        return self._context.coordinator.groups.heartbeat(body, self._context.clock_ms())

    def leave(self, body: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
        """Remove members from a group."""
        error = self._context.coordinator.check(body.group_id)
        if error is not ErrorCode.NONE:
            return LeaveGroupResponse(error_code=error)
        response = self._context.coordinator.groups.leave(body, version, self._context.clock_ms())
        self._context.coordinator.reschedule()
        return response

    # -- offsets

    def commit(self, body: OffsetCommitRequest, request: Request) -> OffsetCommitResponse:
        """Commit offsets."""
        error = self._context.coordinator.check(body.group_id)
        if error is not ErrorCode.NONE:
            return commit_refused(body, error)
        response = self._context.coordinator.groups.commit(body, request.client_host, self._context.clock_ms())
        self._context.coordinator.reschedule()
        return response

    def delete_offsets(self, body: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """Delete offsets of topics that the group is not subscribed to."""
        error = self._context.coordinator.check(body.group_id)
        if error is not ErrorCode.NONE:
            return OffsetDeleteResponse(error_code=error)
        subscribed = self._context.coordinator.subscribed_topics(body.group_id)
        return self._context.coordinator.groups.delete_offsets(body, subscribed)

    # -- administration

    def describe(self, body: DescribeGroupsRequest, request: Request) -> Work[None]:
        """Return members and assignments, one group per step.

        An unknown group is Dead, and GROUP_ID_NOT_FOUND since version 6.
        """
        found = []
        for group_id in dict.fromkeys(body.groups):
            found.append(self._described(group_id, request.header.api_version))
            yield 0
        request.respond(DescribeGroupsResponse(groups=tuple(found)))

    def _described(self, group_id: str, version: int) -> DescribeGroupsResponseDescribedGroup:
        error = self._context.coordinator.check(group_id)
        if error is not ErrorCode.NONE:
            return DescribeGroupsResponseDescribedGroup(group_id=group_id, error_code=error)
        group = self._context.coordinator.groups.groups.get(group_id)
        if group is None:
            found = version < _NOT_FOUND_SINCE
            return DescribeGroupsResponseDescribedGroup(
                group_id=group_id,
                group_state=GroupState.DEAD.value,
                error_code=ErrorCode.NONE if found else ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=None if found else f"Group {group_id} not found.",
            )
        settled = group.state is GroupState.STABLE
        return DescribeGroupsResponseDescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=(group.protocol or "") if settled else "",
            members=tuple(
                DescribeGroupsResponseDescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(group.protocol) if settled else b"",
                    member_assignment=member.assignment if settled else b"",
                )
                for member in group.members.values()
            ),
        )

    def list(self, body: ListGroupsRequest, request: Request) -> Work[None]:
        """Return the groups that this broker coordinates, one per step.

        They are filtered by state and type, both case-insensitive. Error: COORDINATOR_LOAD_IN_PROGRESS.
        """
        states = {state.lower() for state in body.states_filter}
        types = {kind.lower() for kind in body.types_filter}
        coordinator = self._context.coordinator
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if coordinator.is_loading else ErrorCode.NONE
        if error is not ErrorCode.NONE:
            request.respond(ListGroupsResponse(error_code=error))
            return

        def wanted(group: ClassicGroup) -> bool:
            return (not states or group.state.value.lower() in states) and (not types or "classic" in types)

        found = []
        for group in tuple(coordinator.groups.groups.values()):
            yield 0
            if wanted(group):
                found.append(
                    ListGroupsResponseListedGroup(
                        group_id=group.group_id,
                        protocol_type=group.protocol_type or "",
                        group_state=group.state.value,
                        group_type="classic",
                    )
                )
        request.respond(ListGroupsResponse(groups=tuple(found)))

    def delete(self, body: DeleteGroupsRequest) -> DeleteGroupsResponse:
        """Delete empty groups."""
        results = []
        for group_id in body.groups_names:
            error = self._context.coordinator.check(group_id)
            if error is ErrorCode.NONE:
                error = self._context.coordinator.groups.delete_group(group_id, self._context.clock_ms())
            results.append(DeleteGroupsResponseDeletableGroupResult(group_id=group_id, error_code=error))
        return DeleteGroupsResponse(results=tuple(results))
