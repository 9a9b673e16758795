"""The rules of the classic group protocol: joining, syncing, heartbeats, leaving and timeouts.

The functions change one `ClassicGroup`. Responses go to the callbacks of the requests, at once or when the phase ends.
`store` writes the group to __consumer_offsets before any member gets its assignment.

Source: GroupMetadataManager.classicGroupJoin and related methods, Kafka 4.3.1; KIP-345 (static members), KIP-394
(member id required).
"""

from collections.abc import Callable
from dataclasses import dataclass

from kraft_core.broker.coordinator import group_memory
from kraft_core.broker.coordinator.classic_group import (
    ClassicGroup,
    GroupState,
    JoinAnswer,
    Member,
    PendingMember,
    SyncAnswer,
)
from kraft_core.broker.coordinator.group_coordinator_config import GroupCoordinatorConfig
from kraft_core.broker.coordinator.group_memory import GroupMemory
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseJoinGroupResponseMember,
    SyncGroupRequest,
    SyncGroupResponse,
)

Store = Callable[[ClassicGroup], ErrorCode]


@dataclass(frozen=True, slots=True)
class Joiner:
    """The sender of a JoinGroup.

    `new_member_id` is its member id if it has none yet; with `requires_known_id` it must join again with that id.
    """

    client_id: str
    client_host: str
    new_member_id: str
    requires_known_id: bool
    can_skip_assignment: bool


class GroupMetadataManager:
    """The rules, with their configs and storage. All state is in the groups."""

    def __init__(self, config: GroupCoordinatorConfig, store: Store, memory: GroupMemory) -> None:
        self._config = config
        self._store = store
        self._memory = memory

    # -- joining

    def join(
        self, group: ClassicGroup, request: JoinGroupRequest, joiner: Joiner, answer: JoinAnswer, now_ms: int
    ) -> None:
        """Handle a JoinGroup. It is answered at once or when the joining phase ends.

        Raises KafkaError COORDINATOR_NOT_AVAILABLE, INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED,
        UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, MEMBER_ID_REQUIRED (the client joins again with `joiner.new_member_id`),
        and as `GroupMemory.check_join`.
        """
        if group.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The group is being removed.")
        protocols = tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
        if not group.supports(request.protocol_type, protocols):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The group's members share no protocol with this one."
            )
        name = request.group_instance_id or joiner.client_id
        self._memory.check_join(group, request.member_id, joiner.client_host, name, protocols)
        if request.member_id in group.members:
            self._check_member(group, request.member_id, request.group_instance_id)
            self._rejoin(group, group.members[request.member_id], request, answer, now_ms)
            return
        if request.member_id and request.member_id not in group.pending_members:
            self._check_member(group, request.member_id, request.group_instance_id)
        if request.group_instance_id is not None and request.group_instance_id in group.static_members:
            self._replace_static(group, request, joiner, answer, now_ms)
            return
        most = min(self._config.max_group_size, group_memory.GROUP_MEMBERS_MAX)
        if len(group.members) + len(group.pending_members) >= most and not request.member_id:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group has {len(group.members)} members.")
        if not request.member_id and request.group_instance_id is None and joiner.requires_known_id:
            deadline_ms = now_ms + request.session_timeout_ms
            group.pending_members[joiner.new_member_id] = PendingMember(deadline_ms, joiner.client_host)
            raise KafkaError(ErrorCode.MEMBER_ID_REQUIRED, "Join again with the member id of this answer.")
        self._add(group, request, joiner, answer, now_ms)

    @staticmethod
    def _check_member(group: ClassicGroup, member_id: str, instance_id: str | None) -> None:
        """Check that the member exists and, with `instance_id`, that the instance has this member id.

        Raises KafkaError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        """
        if instance_id is not None:
            if instance_id not in group.static_members:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"No member has the instance id '{instance_id}'.")
            if group.static_members[instance_id] != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, f"Another member has taken over '{instance_id}'.")
        if member_id not in group.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"'{member_id}' is not a member of the group.")

    def _add(
        self, group: ClassicGroup, request: JoinGroupRequest, joiner: Joiner, answer: JoinAnswer, now_ms: int
    ) -> None:
        member = Member(
            member_id=request.member_id or joiner.new_member_id,
            group_instance_id=request.group_instance_id,
            client_id=joiner.client_id,
            client_host=joiner.client_host,
            rebalance_timeout_ms=_rebalance_timeout_ms(request),
            session_timeout_ms=request.session_timeout_ms,
            protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
            is_new=True,
            answer_join=answer,
        )
        member.session_deadline_ms = now_ms + self._config.new_member_join_timeout_ms
        if not group.members:
            group.protocol_type = request.protocol_type
        group.add(member)
        group.member_added = True
        self._prepare_rebalance(group, now_ms)

    def _rejoin(
        self, group: ClassicGroup, member: Member, request: JoinGroupRequest, answer: JoinAnswer, now_ms: int
    ) -> None:
        protocols = tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
        unchanged = protocols == member.protocols
        if group.state is GroupState.EMPTY:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"'{member.member_id}' is not a member of the group.")
        resend = group.state is GroupState.COMPLETING_REBALANCE and unchanged
        settled = group.state is GroupState.STABLE and unchanged and member.member_id != group.leader
        if resend or settled:
            self.touch(member, now_ms)
            answer(self._join_response(group, member))
            return
        if member.answer_join is not None and member.answer_join is not answer:
            member.answer_join(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=member.member_id))
        member.protocols = protocols
        member.rebalance_timeout_ms = _rebalance_timeout_ms(request)
        member.session_timeout_ms = request.session_timeout_ms
        member.answer_join = answer
        self._prepare_rebalance(group, now_ms)

    def _replace_static(
        self, group: ClassicGroup, request: JoinGroupRequest, joiner: Joiner, answer: JoinAnswer, now_ms: int
    ) -> None:
        """Replace a static member that returned without its member id: the old id is fenced (KIP-345)."""
        instance_id = request.group_instance_id
        assert instance_id is not None
        if request.member_id:
            self._check_member(group, request.member_id, instance_id)
        old_id = group.static_members[instance_id]
        was_leader = group.leader == old_id
        member = group.rename(instance_id, joiner.new_member_id)
        fenced = ErrorCode.FENCED_INSTANCE_ID
        if member.answer_join is not None:
            member.answer_join(JoinGroupResponse(error_code=fenced, member_id=old_id))
        if member.answer_sync is not None:
            member.answer_sync(SyncGroupResponse(error_code=fenced))
        member.answer_join = member.answer_sync = None
        member.protocols = tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
        member.rebalance_timeout_ms = _rebalance_timeout_ms(request)
        member.session_timeout_ms = request.session_timeout_ms
        member.client_id, member.client_host = joiner.client_id, joiner.client_host
        self.touch(member, now_ms)
        if group.state is GroupState.STABLE and group.select_protocol() == group.protocol:
            error = self._store(group)
            if error is not ErrorCode.NONE:
                raise KafkaError(error, "The group could not be stored.")
            response = self._join_response(group, member, skip_assignment=was_leader and joiner.can_skip_assignment)
            if was_leader and not joiner.can_skip_assignment:
                response = _with_leader(response, old_id)
            answer(response)
            return
        member.answer_join = answer
        self._prepare_rebalance(group, now_ms)

    # -- the joining phase

    def _prepare_rebalance(self, group: ClassicGroup, now_ms: int) -> None:
        if group.state is GroupState.PREPARING_REBALANCE:
            self._maybe_complete_join(group, now_ms)
            return
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
        began_empty = group.state is GroupState.EMPTY
        group.move(GroupState.PREPARING_REBALANCE, now_ms)
        group.sync_deadline_ms = None
        timeout_ms = group.rebalance_timeout_ms
        if began_empty and self._config.initial_rebalance_delay_ms > 0:
            delay_ms = min(self._config.initial_rebalance_delay_ms, timeout_ms)
            group.initial_delay_left_ms = max(0, timeout_ms - delay_ms)
            group.join_deadline_ms = now_ms + delay_ms
            group.in_initial_delay = True
            group.member_added = False
            return
        group.join_deadline_ms = now_ms + timeout_ms
        self._maybe_complete_join(group, now_ms)

    def _maybe_complete_join(self, group: ClassicGroup, now_ms: int) -> None:
        if group.state is not GroupState.PREPARING_REBALANCE or group.in_initial_delay:
            return
        everyone = all(member.answer_join is not None for member in group.members.values())
        if everyone and not group.pending_members:
            self._complete_join(group, now_ms)

    def _complete_join(self, group: ClassicGroup, now_ms: int) -> None:
        """End the joining phase: remove absent members unless static, choose the protocol and answer all others."""
        absent = [member for member in group.members.values() if member.answer_join is None]
        for member in absent:
            if member.group_instance_id is None:
                group.remove(member.member_id)
        present = [member for member in group.members.values() if member.answer_join is not None]
        if group.members and not present:
            group.join_deadline_ms = now_ms + group.rebalance_timeout_ms
            return
        if present and (group.leader is None or group.members[group.leader].answer_join is None):
            group.leader = present[0].member_id
        group.join_deadline_ms = None
        group.generation += 1
        if not group.members:
            group.protocol = None
            group.leader = None
            group.move(GroupState.EMPTY, now_ms)
            self._store(group)
            return
        group.protocol = group.select_protocol()
        group.move(GroupState.COMPLETING_REBALANCE, now_ms)
        group.sync_deadline_ms = now_ms + group.rebalance_timeout_ms
        for member in list(group.members.values()):
            member.assignment = b""
            self.touch(member, now_ms)
            if member.answer_join is not None:
                answer, member.answer_join = member.answer_join, None
                answer(self._join_response(group, member))

    def _join_response(
        self, group: ClassicGroup, member: Member, *, skip_assignment: bool = False
    ) -> JoinGroupResponse:
        members: tuple[JoinGroupResponseJoinGroupResponseMember, ...] = ()
        if member.member_id == group.leader:
            members = tuple(
                JoinGroupResponseJoinGroupResponseMember(
                    member_id=other.member_id,
                    group_instance_id=other.group_instance_id,
                    metadata=other.metadata(group.protocol),
                )
                for other in group.members.values()
            )
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=group.leader or "",
            skip_assignment=skip_assignment,
            member_id=member.member_id,
            members=members,
        )

    # -- syncing

    def sync(self, group: ClassicGroup, request: SyncGroupRequest, answer: SyncAnswer, now_ms: int) -> None:
        """Handle a SyncGroup. The one of the leader brings the assignments and answers all pending ones.

        Raises KafkaError COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
        INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS.
        """
        member = self.checked_member(group, request.member_id, request.group_instance_id, request.generation_id)
        type_differs = request.protocol_type is not None and request.protocol_type != group.protocol_type
        name_differs = request.protocol_name is not None and request.protocol_name != group.protocol
        if type_differs or name_differs:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The group has chosen another protocol.")
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "The group is rebalancing.")
            case GroupState.STABLE:
                self.touch(member, now_ms)
                answer(_sync_response(group, member))
            case GroupState.COMPLETING_REBALANCE:
                member.answer_sync = answer
                if member.member_id == group.leader:
                    given = {entry.member_id: entry.assignment for entry in request.assignments}
                    self._assign(group, given, now_ms)
            case _:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"'{request.member_id}' is not a member of the group.")

    def _assign(self, group: ClassicGroup, given: dict[str, bytes], now_ms: int) -> None:
        for member in group.members.values():
            member.assignment = given.get(member.member_id, b"")
        error = self._store(group)
        if error is not ErrorCode.NONE:
            self._fail_syncs(group, error, now_ms)
            self._prepare_rebalance(group, now_ms)
            return
        group.move(GroupState.STABLE, now_ms)
        for member in group.members.values():
            if member.answer_sync is not None:
                answer, member.answer_sync = member.answer_sync, None
                self.touch(member, now_ms)
                answer(_sync_response(group, member))

    def _fail_syncs(self, group: ClassicGroup, error: ErrorCode, now_ms: int) -> None:
        for member in group.members.values():
            member.assignment = b""
            if member.answer_sync is not None:
                answer, member.answer_sync = member.answer_sync, None
                self.touch(member, now_ms)
                answer(SyncGroupResponse(error_code=error))

    # -- heartbeats and leaving

    def checked_member(self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> Member:
        """Return the member.

        Raises KafkaError COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
        """
        if group.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The group is being removed.")
        self._check_member(group, member_id, instance_id)
        if generation != group.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"The group is in generation {group.generation}.")
        return group.members[member_id]

    def touch(self, member: Member, now_ms: int) -> None:
        """Restart the member's session."""
        member.is_new = False
        member.session_deadline_ms = now_ms + member.session_timeout_ms

    def heartbeat(
        self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int, now_ms: int
    ) -> ErrorCode:
        """Extend a member's session.

        Return REBALANCE_IN_PROGRESS when it has to join again. Raises as `checked_member`.
        """
        member = self.checked_member(group, member_id, instance_id, generation)
        self.touch(member, now_ms)
        rebalancing = group.state is GroupState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if rebalancing else ErrorCode.NONE

    def leave(self, group: ClassicGroup, member_id: str, instance_id: str | None, now_ms: int) -> str:
        """Remove a member and return its id. A static member may be identified by its instance id alone.

        Raises KafkaError COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        """
        if group.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The group is being removed.")
        if member_id in group.pending_members:
            del group.pending_members[member_id]
            self._maybe_complete_join(group, now_ms)
            return member_id
        if instance_id is not None and not member_id:
            member_id = group.static_members.get(instance_id, "")
        self._check_member(group, member_id, instance_id)
        self._drop(group, member_id, now_ms)
        return member_id

    def _drop(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        member = group.remove(member_id)
        assert member is not None
        if member.answer_join is not None:
            member.answer_join(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=member_id))
        if member.answer_sync is not None:
            member.answer_sync(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self._prepare_rebalance(group, now_ms)
        else:
            self._maybe_complete_join(group, now_ms)

    # -- time

    def on_time(self, group: ClassicGroup, now_ms: int) -> None:
        """Run what is due: end phases, remove members whose session or pending id has expired."""
        expired = [id_ for id_, pending in group.pending_members.items() if pending.deadline_ms <= now_ms]
        for member_id in expired:
            del group.pending_members[member_id]
        for member in list(group.members.values()):
            if (
                not member.has_satisfied_heartbeat
                and member.session_deadline_ms <= now_ms
                and member.member_id in group.members
            ):
                self._drop(group, member.member_id, now_ms)
        if expired:
            self._maybe_complete_join(group, now_ms)
        if group.join_deadline_ms is not None and group.join_deadline_ms <= now_ms:
            self._on_join_deadline(group, now_ms)
        if group.sync_deadline_ms is not None and group.sync_deadline_ms <= now_ms:
            self._on_sync_deadline(group, now_ms)

    def _on_join_deadline(self, group: ClassicGroup, now_ms: int) -> None:
        if group.state is not GroupState.PREPARING_REBALANCE:
            group.join_deadline_ms = None
            return
        if group.in_initial_delay and group.member_added and group.initial_delay_left_ms > 0:
            delay_ms = min(self._config.initial_rebalance_delay_ms, group.initial_delay_left_ms)
            group.initial_delay_left_ms -= delay_ms
            group.join_deadline_ms = now_ms + delay_ms
            group.member_added = False
            return
        group.in_initial_delay = False
        self._complete_join(group, now_ms)

    def _on_sync_deadline(self, group: ClassicGroup, now_ms: int) -> None:
        group.sync_deadline_ms = None
        if group.state is not GroupState.COMPLETING_REBALANCE:
            return
        silent = [member.member_id for member in group.members.values() if member.answer_sync is None]
        for member_id in silent:
            group.remove(member_id)
        if silent:
            self._prepare_rebalance(group, now_ms)


def _rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """Return the rebalance timeout, or the session timeout in version 0, which has none (-1)."""
    return request.rebalance_timeout_ms if request.rebalance_timeout_ms >= 0 else request.session_timeout_ms


def _sync_response(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )


def _with_leader(response: JoinGroupResponse, leader: str) -> JoinGroupResponse:
    """Name the old id as leader, so that a returned leader without skip_assignment does not assign again (KIP-345)."""
    return JoinGroupResponse(
        generation_id=response.generation_id,
        protocol_type=response.protocol_type,
        protocol_name=response.protocol_name,
        leader=leader,
        member_id=response.member_id,
    )
