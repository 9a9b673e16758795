"""One consumer group of the classic protocol: members, generation and state.

The group is data: pending responses are callbacks of the members, and time is an argument. The rules of the protocol
are in `group_metadata_manager`.

Source: ClassicGroup, ClassicGroupMember and ClassicGroupState, Kafka 4.3.1.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from kraft_core.protocol.messages import JoinGroupResponse, SyncGroupResponse


class GroupState(StrEnum):
    """The states, named as in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


NEXT: Final[dict[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD, GroupState.PREPARING_REBALANCE}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}
"""For each state the states that may follow."""

JoinAnswer = Callable[[JoinGroupResponse], None]
SyncAnswer = Callable[[SyncGroupResponse], None]


@dataclass(slots=True, kw_only=True)
class Member:
    """One member. Timeouts and deadlines are in ms; `protocols` are in the member's order of preference.

    `answer_join` and `answer_sync` are set while a JoinGroup or SyncGroup of the member is pending.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    session_deadline_ms: int = 0
    is_new: bool = False
    answer_join: JoinAnswer | None = None
    answer_sync: SyncAnswer | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether a JoinGroup or SyncGroup of the member is pending."""
        return self.answer_join is not None or self.answer_sync is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether the member needs no heartbeat: a request of it is pending, and it has been in a generation before."""
        return self.is_waiting and not self.is_new

    def metadata(self, protocol: str | None) -> bytes:
        """Return what the member sent for a protocol; empty when it does not support it."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


class PendingMember(NamedTuple):
    """A member id that was returned to a client at this address and is dropped at `deadline_ms` unless it joins."""

    deadline_ms: int
    client_host: str


@dataclass(slots=True, kw_only=True)
class ClassicGroup:
    """A group.

    `client_host` is the address of the client that created it, as "/10.0.0.1"; empty for a group of the log.
    `generation` counts rebalances. `protocol_type` is None until the first member has joined, and usually "consumer"
    then. Deadlines are in ms, None when not set: `join_deadline_ms` ends the joining phase, `sync_deadline_ms` the time
    to send SyncGroup. While `in_initial_delay`, a group that was empty waits for more members; each wait in which one
    joined (`member_added`) is followed by another one, for at most `initial_delay_left_ms` in total.
    """

    group_id: str
    client_host: str = ""
    state: GroupState = GroupState.EMPTY
    state_since_ms: int = 0
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_members: dict[str, PendingMember] = field(default_factory=dict)
    join_deadline_ms: int | None = None
    sync_deadline_ms: int | None = None
    in_initial_delay: bool = False
    initial_delay_left_ms: int = 0
    member_added: bool = False

    def move(self, state: GroupState, now_ms: int) -> None:
        """Change the state. Asserts that `NEXT` allows the change."""
        assert state in NEXT[self.state], f"group {self.group_id}: {self.state} to {state}"
        self.state = state
        self.state_since_ms = now_ms

    def add(self, member: Member) -> None:
        """Add a member; the first one becomes the leader."""
        assert member.member_id not in self.members
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.pending_members.pop(member.member_id, None)

    def remove(self, member_id: str) -> Member | None:
        """Remove a member and return it, None if there is none.

        If it was the leader, another member becomes the leader.
        """
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        if member.group_instance_id is not None and self.static_members.get(member.group_instance_id) == member_id:
            del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def rename(self, instance_id: str, new_member_id: str) -> Member:
        """Give a returning static member its new member id. It keeps its position, assignment and leadership."""
        old_id = self.static_members[instance_id]
        member = self.members.pop(old_id)
        member.member_id = new_member_id
        self.members[new_member_id] = member
        self.static_members[instance_id] = new_member_id
        if self.leader == old_id:
            self.leader = new_member_id
        return member

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]) -> bool:
        """Return whether a member with these protocols can join: same type, and a protocol that all members support."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        common = self.common_protocols()
        return protocol_type == self.protocol_type and any(name in common for name, _ in protocols)

    def common_protocols(self) -> set[str]:
        """Return the protocols that every member supports."""
        names = [{name for name, _ in member.protocols} for member in self.members.values()]
        return set.intersection(*names) if names else set()

    def select_protocol(self) -> str:
        """Return the common protocol that most members prefer; the first one named among equals."""
        assert self.members, "an empty group has no protocol"
        common = self.common_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(name for name, _ in member.protocols if name in common)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def next_deadline_ms(self) -> int | None:
        """Return the next time at which a timeout changes the group, None if there is none."""
        deadlines = [pending.deadline_ms for pending in self.pending_members.values()]
        deadlines.extend(
            member.session_deadline_ms for member in self.members.values() if not member.has_satisfied_heartbeat
        )
        deadlines.extend(when for when in (self.join_deadline_ms, self.sync_deadline_ms) if when is not None)
        return min(deadlines, default=None)
