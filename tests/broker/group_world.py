"""A group coordinator whose log is a list and whose clock the test sets."""

import itertools
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from kraft_core.broker.coordinator.classic_group import GroupState
from kraft_core.broker.coordinator.group_coordinator import GroupCoordinator
from kraft_core.broker.coordinator.group_coordinator_config import GroupCoordinatorConfig, KeyAndValue
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestJoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupRequestMemberIdentity,
    OffsetCommitRequest,
    OffsetCommitRequestOffsetCommitRequestPartition,
    OffsetCommitRequestOffsetCommitRequestTopic,
    SyncGroupRequest,
    SyncGroupRequestSyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kraft_core.protocol.uuids import ZERO_UUID

SESSION_MS = 10_000
REBALANCE_MS = 60_000
NO_DELAY = GroupCoordinatorConfig(initial_rebalance_delay_ms=0)


class Topics:
    def has_partition(self, topic: str, partition: int) -> bool:
        return topic == "t" and partition < 4

    def topic_id(self, topic: str) -> uuid.UUID:
        return ZERO_UUID

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        return None


@dataclass
class Log:
    """A list in place of __consumer_offsets. It can be set to fail."""

    records: list[KeyAndValue] = field(default_factory=list)
    error: ErrorCode = ErrorCode.NONE

    def append(self, group_id: str, records: Sequence[KeyAndValue]) -> ErrorCode:
        if self.error is ErrorCode.NONE:
            self.records.extend(records)
        return self.error


class World:
    """A coordinator, its log and the time."""

    def __init__(self, config: GroupCoordinatorConfig = NO_DELAY, log: Log | None = None) -> None:
        self.log = log or Log()
        self.now_ms = 1_000
        numbers = itertools.count(1)
        self.coordinator = GroupCoordinator(config, self.log, Topics(), lambda: uuid.UUID(int=next(numbers)))

    def pass_ms(self, delta_ms: int) -> None:
        """Advance the time, stopping at each deadline as the timer would."""
        end = self.now_ms + delta_ms
        while (due := self.coordinator.next_deadline_ms()) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            self.coordinator.poll(self.now_ms)
        self.now_ms = end

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        version: int = 3,
        protocols: Sequence[str] = ("range",),
        protocol_type: str = "consumer",
        metadata: bytes = b"m",
        session_ms: int = SESSION_MS,
        host: str = "10.0.0.1",
    ) -> list[JoinGroupResponse]:
        """Join; the returned list receives the response."""
        answers: list[JoinGroupResponse] = []
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=tuple(
                JoinGroupRequestJoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols
            ),
        )
        self.coordinator.join(request, version, "client", host, answers.append, self.now_ms)
        return answers

    def sync(
        self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, instance: str | None = None
    ) -> list[SyncGroupResponse]:
        answers: list[SyncGroupResponse] = []
        request = SyncGroupRequest(
            group_id="g",
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            assignments=tuple(
                SyncGroupRequestSyncGroupRequestAssignment(member_id=name, assignment=value)
                for name, value in (assignments or {}).items()
            ),
        )
        self.coordinator.sync(request, answers.append, self.now_ms)
        return answers

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> int:
        request = HeartbeatRequest(
            group_id="g", generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return self.coordinator.heartbeat(request, self.now_ms).error_code

    def leave(self, *member_ids: str) -> list[int]:
        members = tuple(LeaveGroupRequestMemberIdentity(member_id=member_id) for member_id in member_ids)
        response = self.coordinator.leave(LeaveGroupRequest(group_id="g", members=members), 4, self.now_ms)
        return [member.error_code for member in response.members]

    def commit(
        self,
        offset: int,
        member_id: str = "",
        generation: int = -1,
        topic: str = "t",
        note: str = "",
        group: str = "g",
    ) -> int:
        partition = OffsetCommitRequestOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=note
        )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=(OffsetCommitRequestOffsetCommitRequestTopic(name=topic, partitions=(partition,)),),
        )
        return self.coordinator.commit(request, "10.0.0.1", self.now_ms).topics[0].partitions[0].error_code

    @property
    def state(self) -> GroupState:
        return self.coordinator.groups["g"].state

    def stable(self, count: int = 1) -> tuple[list[str], int]:
        """Return the member ids, leader first, and the generation of a stable group of `count` members."""
        first = self.join()[0].member_id
        for _ in range(count - 1):
            self.join()
        if count > 1:
            self.join(first)
        group = self.coordinator.groups["g"]
        assert group.leader is not None
        members = [group.leader, *(name for name in group.members if name != group.leader)]
        for name in members[1:]:
            self.sync(name, group.generation)
        self.sync(members[0], group.generation, {name: name.encode() for name in members})
        assert self.state is GroupState.STABLE
        return members, group.generation
