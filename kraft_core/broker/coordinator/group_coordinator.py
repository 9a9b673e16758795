"""The group coordinator: the classic groups whose partition of __consumer_offsets this broker leads.

Sans-IO: requests come with the time and a callback for the response, records leave through `GroupLog`, and `poll` runs
what is due.

Source: GroupCoordinatorShard, Kafka 4.3.1.
"""

import heapq
import logging
import uuid
from collections.abc import Callable, Iterable
from typing import Final

from kraft_core.broker.coordinator.classic_group import ClassicGroup, GroupState
from kraft_core.broker.coordinator.group_coordinator_config import GroupCoordinatorConfig, GroupLog, TopicNames
from kraft_core.broker.coordinator.group_memory import GroupMemory
from kraft_core.broker.coordinator.group_metadata_manager import GroupMetadataManager, Joiner
from kraft_core.broker.coordinator.group_records import (
    GroupRecord,
    OffsetRecord,
    group_record,
    group_tombstone,
    offset_record,
    read_record,
    restore_group,
)
from kraft_core.broker.coordinator.offset_metadata_manager import OffsetMetadataManager, OffsetsByPartition
from kraft_core.broker.slices import Work
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupRequestMemberIdentity,
    LeaveGroupResponse,
    LeaveGroupResponseMemberResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponseOffsetCommitResponsePartition,
    OffsetCommitResponseOffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

log = logging.getLogger(__name__)

REQUIRES_KNOWN_MEMBER_SINCE: Final = 4
SKIP_ASSIGNMENT_SINCE: Final = 9
_GROUPS_A_STEP: Final = 64


class GroupCoordinator:
    """Groups by id. `new_uuid` generates member ids; tests pass a predictable one."""

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        group_log: GroupLog,
        topics: TopicNames,
        new_uuid: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        self.groups: dict[str, ClassicGroup] = {}
        self._config = config
        self._log = group_log
        self._new_uuid = new_uuid
        self.memory = GroupMemory()
        self._membership = GroupMetadataManager(config, self._store, self.memory)
        self.offsets = OffsetMetadataManager(config, self._membership, group_log, topics)
        self._timers: list[tuple[int, str]] = []
        self._next_timer_ms: dict[str, int] = {}

    def _store(self, group: ClassicGroup) -> ErrorCode:
        error = self._log.append(group.group_id, [group_record(group)])
        return ErrorCode.UNKNOWN_SERVER_ERROR if error is ErrorCode.MESSAGE_TOO_LARGE else error

    def _new_group(self, group_id: str, client_host: str, now_ms: int) -> ClassicGroup:
        self.memory.check_new_group(group_id, client_host)
        group = ClassicGroup(group_id=group_id, client_host=client_host, state_since_ms=now_ms)
        self.groups[group_id] = group
        return group

    def _remove(self, group_id: str) -> ClassicGroup | None:
        self.memory.forget(group_id)
        return self.groups.pop(group_id, None)

    def gauges(self) -> Iterable[tuple[str, str, float]]:
        """Return the gauges of groups, members and offsets, under Kafka's names where it has them."""
        members = sum(len(group.members) for group in self.groups.values())
        pending = sum(len(group.pending_members) for group in self.groups.values())
        offsets = sum(map(len, self.offsets.by_group.values()))
        yield (
            "kafka_coordinator_group_groupmetadatamanager_numgroups",
            "Groups that this broker coordinates.",
            len(self.groups),
        )
        yield "kafka_coordinator_group_groupmetadatamanager_numoffsets", "Committed offsets.", offsets
        yield "conclave_group_coordinator_members", "Members of all groups.", members
        yield "conclave_group_coordinator_pending_members", "Member ids returned to clients and not used yet.", pending
        yield "conclave_group_coordinator_held_bytes", "Bytes that groups and members hold.", self.memory.held_bytes

    # -- loading and unloading a partition of __consumer_offsets

    def replay(self, records: Iterable[tuple[bytes, bytes | None]], groups: dict[str, GroupRecord]) -> list[str]:
        """Apply records of the log in order. Group records are collected in `groups`, where the newest one counts.

        Return the reasons for records that were skipped as unreadable.
        """
        skipped: list[str] = []
        for key, value in records:
            try:
                record = read_record(key, value)
            except KafkaError as error:
                skipped.append(str(error))
                continue
            match record:
                case OffsetRecord(group_id, topic, partition, offset):
                    self.offsets.replay(group_id, topic, partition, offset)
                case GroupRecord(group_id):
                    groups[group_id] = record
                case None:
                    continue
        return skipped

    def loaded(self, groups: dict[str, GroupRecord], now_ms: int) -> Work[None]:
        """Restore the loaded groups, with pauses. Each member's session starts now."""
        for number, (group_id, record) in enumerate(groups.items()):
            if number % _GROUPS_A_STEP == 0:
                yield 0
            if record.value is None:
                self._remove(group_id)
                continue
            self.groups[group_id] = restore_group(record, now_ms)
            self._schedule(self.groups[group_id])
        for number, group_id in enumerate(list(self.offsets.by_group)):
            if number % _GROUPS_A_STEP == 0:
                yield 0
            if group_id not in self.groups:
                group = self.groups[group_id] = ClassicGroup(group_id=group_id, state_since_ms=now_ms)
                self.memory.account(group)

    def unload(self, belongs: Callable[[str], bool]) -> None:
        """Remove the groups of a partition that another broker leads now. Pending requests get NOT_COORDINATOR."""
        for group_id in [group_id for group_id in self.groups if belongs(group_id)]:
            group = self._remove(group_id)
            assert group is not None, "from the list of groups"
            for member in group.members.values():
                if member.answer_join is not None:
                    member.answer_join(JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
                if member.answer_sync is not None:
                    member.answer_sync(SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
        for group_id in [group_id for group_id in self.offsets.by_group if belongs(group_id)]:
            del self.offsets.by_group[group_id]

    # -- time

    def _schedule(self, group: ClassicGroup) -> None:
        """Measure a changed group and schedule its next deadline. A group without any content is removed."""
        has_log = group.generation > 0 or group.group_id in self.offsets.by_group
        if not has_log and not group.members and not group.pending_members:
            self._remove(group.group_id)
            return
        self.memory.account(group)
        deadline = group.next_deadline_ms()
        set_ms = self._next_timer_ms.get(group.group_id)
        if deadline is not None and (set_ms is None or deadline < set_ms):
            self._next_timer_ms[group.group_id] = deadline
            heapq.heappush(self._timers, (deadline, group.group_id))

    def next_deadline_ms(self) -> int | None:
        """Return when `poll` is due next, None if never."""
        return self._timers[0][0] if self._timers else None

    def poll(self, now_ms: int) -> None:
        """Run what is due in every group."""
        due: set[str] = set()
        while self._timers and self._timers[0][0] <= now_ms:
            deadline_ms, group_id = heapq.heappop(self._timers)
            if self._next_timer_ms.get(group_id) == deadline_ms:
                del self._next_timer_ms[group_id]
            due.add(group_id)
        for group_id in due:
            group = self.groups.get(group_id)
            if group is not None:
                self._membership.on_time(group, now_ms)
                self._schedule(group)

    def expire_offsets(self, now_ms: int) -> None:
        """Delete expired offsets, and empty groups without offsets."""
        for group in list(self.groups.values()):
            expired = self.offsets.expired(group, now_ms)
            if self.offsets.remove(group.group_id, expired) is not ErrorCode.NONE:
                continue
            bare = group.state is GroupState.EMPTY and group.group_id not in self.offsets.by_group
            if (
                bare
                and not group.pending_members
                and self._log.append(group.group_id, [group_tombstone(group.group_id)]) is ErrorCode.NONE
            ):
                group.move(GroupState.DEAD, now_ms)
                self._remove(group.group_id)

    # -- membership

    def join(
        self,
        request: JoinGroupRequest,
        version: int,
        client_id: str,
        client_host: str,
        answer: Callable[[JoinGroupResponse], None],
        now_ms: int,
    ) -> None:
        """Answer a JoinGroup, at once or at the end of the joining phase.

        Errors: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT and those of `GroupMetadataManager.join`.
        """
        prefix = request.group_instance_id if request.group_instance_id is not None else client_id
        joiner = Joiner(
            client_id=client_id,
            client_host=f"/{client_host}",
            new_member_id=f"{prefix}-{self._new_uuid()}",
            requires_known_id=version >= REQUIRES_KNOWN_MEMBER_SINCE,
            can_skip_assignment=version >= SKIP_ASSIGNMENT_SINCE,
        )
        try:
            group = self._group_to_join(request, joiner.client_host, now_ms)
            self._membership.join(group, request, joiner, answer, now_ms)
            self._schedule(group)
        except KafkaError as error:
            given = joiner.new_member_id if error.code == ErrorCode.MEMBER_ID_REQUIRED else request.member_id
            answer(JoinGroupResponse(error_code=error.code, member_id=given))
            known = self.groups.get(request.group_id)
            if known is not None:
                self._schedule(known)

    def _group_to_join(self, request: JoinGroupRequest, client_host: str, now_ms: int) -> ClassicGroup:
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")
        if not self._config.min_session_timeout_ms <= request.session_timeout_ms <= self._config.max_session_timeout_ms:
            raise KafkaError(
                ErrorCode.INVALID_SESSION_TIMEOUT,
                f"The session timeout is {request.session_timeout_ms} ms; allowed are "
                f"{self._config.min_session_timeout_ms} to {self._config.max_session_timeout_ms} ms.",
            )
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group '{request.group_id}' has no members.")
            group = self._new_group(request.group_id, client_host, now_ms)
        return group

    def sync(self, request: SyncGroupRequest, answer: Callable[[SyncGroupResponse], None], now_ms: int) -> None:
        """Answer a SyncGroup, at once or when the leader has sent the assignments.

        Errors are those of `GroupMetadataManager.sync`.
        """
        try:
            group = self._known(request.group_id)
            self._membership.sync(group, request, answer, now_ms)
            self._schedule(group)
        except KafkaError as error:
            answer(SyncGroupResponse(error_code=error.code))

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> HeartbeatResponse:
        """Answer a heartbeat and extend the member's session."""
        try:
            group = self._known(request.group_id)
            error = self._membership.heartbeat(
                group, request.member_id, request.group_instance_id, request.generation_id, now_ms
            )
        except KafkaError as failure:
            return HeartbeatResponse(error_code=failure.code)
        return HeartbeatResponse(error_code=error)

    def leave(self, request: LeaveGroupRequest, version: int, now_ms: int) -> LeaveGroupResponse:
        """Remove members. Before version 3 there is one member, and its error is that of the response."""
        identities = request.members
        if version < 3:
            identities = (LeaveGroupRequestMemberIdentity(member_id=request.member_id),)
        results = []
        try:
            group = self._known(request.group_id)
        except KafkaError as error:
            if version < 3 or not request.group_id:
                return LeaveGroupResponse(error_code=error.code)
            return LeaveGroupResponse(members=tuple(_left(identity, error.code) for identity in identities))
        for identity in identities:
            try:
                self._membership.leave(group, identity.member_id, identity.group_instance_id, now_ms)
                results.append(_left(identity, ErrorCode.NONE))
            except KafkaError as error:
                results.append(_left(identity, error.code))
        self._schedule(group)
        if version < 3:
            return LeaveGroupResponse(error_code=results[0].error_code)
        return LeaveGroupResponse(members=tuple(results))

    def _known(self, group_id: str) -> ClassicGroup:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group '{group_id}' has no members.")
        return group

    # -- offsets

    def commit(self, request: OffsetCommitRequest, client_host: str, now_ms: int) -> OffsetCommitResponse:
        """Commit offsets for a client at `client_host`. A commit without a generation creates an unknown group."""
        try:
            group = self.groups.get(request.group_id)
            if group is None:
                if not request.group_id:
                    raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")
                if request.generation_id_or_member_epoch >= 0:
                    raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"Group '{request.group_id}' does not exist.")
                group = self._new_group(request.group_id, f"/{client_host}", now_ms)
            self.offsets.check_commit(group, request, now_ms)
        except KafkaError as error:
            return commit_refused(request, error.code)
        response = self.offsets.commit(request, now_ms)
        if not group.members:
            self._schedule(group)
        return response

    def committed(self, group_id: str) -> OffsetsByPartition:
        """Return the committed offsets of a group; none for an unknown one, as in Kafka."""
        return self.offsets.by_group.get(group_id, {})

    def delete_offsets(self, request: OffsetDeleteRequest, subscribed: frozenset[str]) -> OffsetDeleteResponse:
        """Delete offsets.

        Errors: GROUP_ID_NOT_FOUND; NON_EMPTY_GROUP for members of another protocol type than "consumer".
        """
        group = self.groups.get(request.group_id)
        try:
            if group is None or group.state is GroupState.DEAD:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group '{request.group_id}' does not exist.")
            if group.state is not GroupState.EMPTY and group.protocol_type != "consumer":
                raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"Group '{request.group_id}' has members.")
            return self.offsets.delete(group, request, subscribed)
        except KafkaError as error:
            return OffsetDeleteResponse(error_code=error.code)

    def delete_group(self, group_id: str, now_ms: int) -> ErrorCode:
        """Delete an empty group and its offsets.

        Return INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, the error of the log, or NONE.
        """
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        records = [offset_record(group_id, *key, None) for key in self.offsets.by_group.get(group_id, {})]
        error = self._log.append(group_id, [*records, group_tombstone(group_id)])
        if error is ErrorCode.NONE:
            group.move(GroupState.DEAD, now_ms)
            self._remove(group_id)
            self.offsets.by_group.pop(group_id, None)
        return error


def _left(identity: LeaveGroupRequestMemberIdentity, error: ErrorCode) -> LeaveGroupResponseMemberResponse:
    return LeaveGroupResponseMemberResponse(
        member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
    )


def commit_refused(request: OffsetCommitRequest, error: int) -> OffsetCommitResponse:
    """Return the same error for every partition of a commit."""
    topics = []
    for topic in request.topics:
        partitions = tuple(
            OffsetCommitResponseOffsetCommitResponsePartition(
                partition_index=partition.partition_index, error_code=error
            )
            for partition in topic.partitions
        )
        topics.append(
            OffsetCommitResponseOffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
    return OffsetCommitResponse(topics=tuple(topics))
