"""A member of a classic group: join, sync, heartbeat and leave, as a state machine without I/O.

    UNJOINED ──JoinGroup sent──> PREPARING_REBALANCE ──answered──> COMPLETING_REBALANCE ──SyncGroup answered──> STABLE
        ^                                                                                                         │
        └───────────────────────── left, fenced, or forgotten by the coordinator ─────────────────────────────────┘

A member that is STABLE and has to rejoin goes to PREPARING_REBALANCE again, and keeps its generation until then.

Source: AbstractCoordinator, Kafka 4.3.1; KIP-62, KIP-345 (static members), KIP-394 (member id first), KIP-800
(reasons), KIP-814 (a returning static leader does not assign).
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Final, NamedTuple

from kraft_core.clients.client_metadata import Node
from kraft_core.clients.consumer.group_errors import FencedInstanceId, GroupAuthorizationFailed
from kraft_core.clients.consumer.heartbeat import GroupRebalanceConfig, Heartbeat
from kraft_core.clients.consumer.rebalance_task import RebalanceTask, RebalanceTaskRunner
from kraft_core.clients.coordinator_lookup import CoordinatorLookup, CoordinatorType
from kraft_core.clients.exponential_backoff import ExponentialBackoff
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import Disconnected, NodeRequest
from kraft_core.clients.pending import Pending
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestJoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseJoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupRequestMemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestSyncGroupRequestAssignment,
    SyncGroupResponse,
)

log = logging.getLogger(__name__)

JOIN_GROUP_TIMEOUT_LAPSE_MS: Final = 5_000
_REASON_LENGTH_MAX: Final = 255
_FIRST_LEAVE_VERSION_WITH_MEMBERS: Final = 3
_LOST_COORDINATOR: Final = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
_REJOIN_AT_ONCE: Final = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MEMBER_ID_REQUIRED,
}


class MemberState(Enum):
    """Where a member is in the rebalance protocol."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing rebalance"
    COMPLETING_REBALANCE = "completing rebalance"
    STABLE = "stable"

    @property
    def has_joined(self) -> bool:
        """Whether the coordinator expects heartbeats."""
        return self in {MemberState.COMPLETING_REBALANCE, MemberState.STABLE}


class Generation(NamedTuple):
    """A member's place in one generation of its group."""

    generation_id: int = -1
    member_id: str = ""
    protocol_name: str | None = None


NO_GENERATION: Final = Generation()


class AbstractCoordinator(ABC):
    """Membership in one group. The owner calls `step` in every turn; a subclass calls `ensure_active_group` in polls.

    Errors that the application must see wait in `failure` for the next poll.
    """

    def __init__(self, network: NetworkClient, config: GroupRebalanceConfig, backoff: ExponentialBackoff) -> None:
        self.network = network
        self.config = config
        self.lookup = CoordinatorLookup(
            network, CoordinatorType.GROUP, config.group_id, backoff, has_own_connection=True
        )
        self.heartbeat = Heartbeat(config, backoff)
        self.state = MemberState.UNJOINED
        self.generation = NO_GENERATION
        self.rejoin_needed = True
        self.failure: KafkaError | None = None
        self.tasks = RebalanceTaskRunner()
        self._backoff = backoff
        self._rejoin_reason = ""
        self._needs_join_prepare = True
        self._request: NodeRequest | None = None  # JoinGroup or SyncGroup
        self._joined: JoinGroupResponse | None = None  # SyncGroup is to be sent
        self._assignment: bytes | None = None  # to be taken at the next poll
        self._rejoin_failures = 0
        self._rejoin_not_before_ms: float = 0
        self._coordinator: Node | None = None
        self._now_ms: float = 0

    # What a group of consumers decides

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """The kind of group."""

    @abstractmethod
    def join_metadata(self) -> Sequence[JoinGroupRequestJoinGroupRequestProtocol]:
        """Return the protocols of this member with their metadata, the preferred one first."""

    @abstractmethod
    def on_join_prepare(self) -> RebalanceTask:
        """Give up what the next generation may give to others."""

    @abstractmethod
    def on_leader_elected(
        self, protocol_name: str, members: Sequence[JoinGroupResponseJoinGroupResponseMember], *, skip_assignment: bool
    ) -> Mapping[str, bytes] | None:
        """Return the assignment of each member id, or None to be asked again at the next step."""

    @abstractmethod
    def on_join_complete(self, assignment: bytes) -> RebalanceTask:
        """Take this member's assignment."""

    @abstractmethod
    def on_leave_prepare(self) -> RebalanceTask:
        """Give up everything, before the member leaves."""

    @abstractmethod
    def on_fatal_lookup(self, error: KafkaError) -> None:
        """Take an error of the coordinator's lookup that no retry heals."""

    # Steps

    def step_membership(self, now_ms: float) -> None:
        """Find the coordinator, sync, and send a heartbeat, as far as they are due."""
        self._now_ms = now_ms
        coordinator = self.lookup.coordinator(now_ms)
        if coordinator is not None and coordinator is not self._coordinator:
            self.heartbeat.reset_session_timeout(now_ms)
        self._coordinator = coordinator
        self._maybe_sync(now_ms)
        if self.state.has_joined:
            self._check_heartbeat(now_ms)
        self.tasks.advance()

    def ready_coordinator(self, now_ms: float) -> Node | None:
        """Return the coordinator if it takes a request now, else None; the lookup advances."""
        try:
            return self.lookup.ready_node(now_ms)
        except KafkaError as error:
            fatal = error
            if error.code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
                fatal = GroupAuthorizationFailed(self.config.group_id)
            self.on_fatal_lookup(fatal)
            return None

    def membership_deadline_ms(self, now_ms: float) -> float | None:
        """Return when `step_membership` or a poll has something to do without an event; None for never."""
        times = [self._rejoin_not_before_ms] if self._rejoin_not_before_ms > now_ms else []
        if self.state.has_joined:
            due = self.heartbeat.next_deadline_ms(now_ms)
            times += [] if due is None else [due]
        return min(times, default=None)

    def ensure_active_group(self, now_ms: float) -> None:
        """Advance a rebalance that is needed; the application polls."""
        self._now_ms = now_ms
        while not self.tasks.is_running and self.rejoin_needed_or_pending():
            if self.failure is not None or self.tasks.failure is not None:
                return
            if self._assignment is not None:
                self._complete_join(self._assignment)
                continue
            coordinator = self.ready_coordinator(now_ms)
            if coordinator is None:
                return
            if self._needs_join_prepare:
                self._needs_join_prepare = False
                self.tasks.run(self.on_join_prepare())
                continue
            if self._request is None and self._joined is None and now_ms >= self._rejoin_not_before_ms:
                self._send_join(coordinator, now_ms)
            return

    def rejoin_needed_or_pending(self) -> bool:
        """Whether the member has to join, or a join is not complete."""
        return self.rejoin_needed or self._is_join_pending

    @property
    def _is_join_pending(self) -> bool:
        return self._request is not None or self._joined is not None or self._assignment is not None

    def request_rejoin(self, reason: str) -> None:
        """Join again at the next poll. `reason` is sent to the coordinator."""
        log.info("rejoin_requested", extra={"group": self.config.group_id, "reason": reason})
        self._rejoin_reason = reason[:_REASON_LENGTH_MAX]
        self.rejoin_needed = True

    def is_unchanged(self, sent: Generation) -> bool:
        """Whether the member's generation is still that of a request."""
        return sent == self.generation

    @property
    def is_rebalancing(self) -> bool:
        """Whether a join is in progress."""
        return self.state in {MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE}

    def reset_state_and_rejoin(self, reason: str, *, resets_member_id: bool) -> None:
        """Drop the generation, and with `resets_member_id` the member id too: the coordinator refused them."""
        log.info("generation_reset", extra={"group": self.config.group_id, "reason": reason})
        self.state = MemberState.UNJOINED
        self.generation = NO_GENERATION if resets_member_id else Generation(member_id=self.generation.member_id)
        self.request_rejoin(reason)
        self._needs_join_prepare = True

    # Joining

    def _send_join(self, coordinator: Node, now_ms: float) -> None:
        self.state = MemberState.PREPARING_REBALANCE
        message = JoinGroupRequest(
            group_id=self.config.group_id,
            session_timeout_ms=self.config.session_timeout_ms,
            rebalance_timeout_ms=self.config.rebalance_timeout_ms,
            member_id=self.generation.member_id,
            group_instance_id=self.config.group_instance_id,
            protocol_type=self.protocol_type,
            protocols=tuple(self.join_metadata()),
            reason=self._rejoin_reason,
        )
        wait_ms = self.config.rebalance_timeout_ms + JOIN_GROUP_TIMEOUT_LAPSE_MS  # the answer may take that long
        timeout_ms = max(wait_ms, self.network.config.request_timeout_ms)
        context = partial(self._on_join, self.generation)
        self._request = NodeRequest(coordinator.id, message, context, timeout_ms=timeout_ms)
        self.network.send(self._request, now_ms)

    def _on_join(self, sent: Generation, request: NodeRequest, now_ms: float) -> None:
        self._now_ms = now_ms
        self._request = None
        answer = request.answer
        if not isinstance(answer, JoinGroupResponse):
            self._join_failed(self._request_error(request, now_ms))
            return
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.NONE:
            self._take_join(answer, now_ms)
            return
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.generation = Generation(member_id=answer.member_id)
            self.request_rejoin(f"need to re-join with the given member-id: {answer.member_id}")
        elif code == ErrorCode.UNKNOWN_MEMBER_ID and self.is_unchanged(sent):
            self.reset_state_and_rejoin("the coordinator does not know the member", resets_member_id=True)
        elif code in _LOST_COORDINATOR:
            self.lookup.mark_unknown(now_ms)
        self._join_failed(self._group_error(code, "join"))

    def _take_join(self, answer: JoinGroupResponse, now_ms: float) -> None:
        if answer.protocol_type not in {None, self.protocol_type}:
            self._join_failed(self._group_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "join"))
        elif self.state is not MemberState.PREPARING_REBALANCE:  # left meanwhile
            self._join_failed(KafkaError(ErrorCode.REBALANCE_IN_PROGRESS))
        else:
            self.state = MemberState.COMPLETING_REBALANCE
            self.heartbeat.reset_timeouts(now_ms)
            self.generation = Generation(answer.generation_id, answer.member_id, answer.protocol_name)
            log.info("group_joined", extra={"group": self.config.group_id, "generation": answer.generation_id})
            self._joined = answer
            self._maybe_sync(now_ms)

    def _maybe_sync(self, now_ms: float) -> None:
        """Send SyncGroup after a JoinGroup was answered; a leader sends the assignment of all members."""
        joined = self._joined
        if joined is None:
            return
        if self.state is not MemberState.COMPLETING_REBALANCE or self.lookup.coordinator(now_ms) is None:
            self._joined = None
            self._join_failed(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        coordinator = self.ready_coordinator(now_ms)
        if coordinator is None:
            return
        assignment: Mapping[str, bytes] = {}
        if joined.leader == joined.member_id:
            try:
                assigned = self.on_leader_elected(
                    joined.protocol_name or "", joined.members, skip_assignment=joined.skip_assignment
                )
            except KafkaError as error:
                self._joined = None
                self._join_failed(error)
                return
            if assigned is None:
                return
            assignment = assigned
        self._joined = None
        self._send_sync(coordinator, assignment, now_ms)

    def _send_sync(self, coordinator: Node, assignment: Mapping[str, bytes], now_ms: float) -> None:
        message = SyncGroupRequest(
            group_id=self.config.group_id,
            generation_id=self.generation.generation_id,
            member_id=self.generation.member_id,
            group_instance_id=self.config.group_instance_id,
            protocol_type=self.protocol_type,
            protocol_name=self.generation.protocol_name,
            assignments=tuple(
                SyncGroupRequestSyncGroupRequestAssignment(member_id=member_id, assignment=data)
                for member_id, data in assignment.items()
            ),
        )
        self._request = NodeRequest(coordinator.id, message, partial(self._on_sync, self.generation))
        self.network.send(self._request, now_ms)

    def _on_sync(self, sent: Generation, request: NodeRequest, now_ms: float) -> None:
        self._now_ms = now_ms
        self._request = None
        answer = request.answer
        if not isinstance(answer, SyncGroupResponse):
            self._join_failed(self._request_error(request, now_ms))
            return
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.NONE:
            self._take_sync(answer)
            return
        if code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}:
            if self.is_unchanged(sent):
                is_unknown = code == ErrorCode.UNKNOWN_MEMBER_ID
                self.reset_state_and_rejoin(f"SyncGroup was refused with {code.name}", resets_member_id=is_unknown)
        elif code in _LOST_COORDINATOR:
            self.lookup.mark_unknown(now_ms)
        self._join_failed(self._group_error(code, "sync with"))

    def _take_sync(self, answer: SyncGroupResponse) -> None:
        if self.state is not MemberState.COMPLETING_REBALANCE:
            self._join_failed(KafkaError(ErrorCode.ILLEGAL_GENERATION))
        elif answer.protocol_type not in {None, self.protocol_type} or answer.protocol_name not in {
            None,
            self.generation.protocol_name,
        }:
            self._join_failed(self._group_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "sync with"))
        else:
            self.state = MemberState.STABLE
            self._rejoin_reason = ""
            self.rejoin_needed = False
            self._rejoin_failures = 0
            self._assignment = answer.assignment

    def _complete_join(self, assignment: bytes) -> None:
        self._assignment = None
        if self.state is MemberState.STABLE and self.generation.generation_id >= 0:
            self._needs_join_prepare = True
            self.tasks.run(self.on_join_complete(assignment))
        else:
            self.reset_state_and_rejoin("the generation ended before its assignment was taken", resets_member_id=True)

    def _join_failed(self, error: KafkaError) -> None:
        if error.code != ErrorCode.MEMBER_ID_REQUIRED:
            self.request_rejoin(f"rebalance failed due to {error.code.name}")
        wait_ms = 0.0
        if error.code not in _REJOIN_AT_ONCE or self._rejoin_failures:
            wait_ms = self._backoff.after(self._rejoin_failures)
        self._rejoin_not_before_ms = self._now_ms + wait_ms
        if error.code != ErrorCode.MEMBER_ID_REQUIRED:
            self._rejoin_failures += 1
        if error.code not in _REJOIN_AT_ONCE and not error.retriable:
            self.failure = error

    # Heartbeats

    def _check_heartbeat(self, now_ms: float) -> None:
        heartbeat = self.heartbeat
        if now_ms >= heartbeat.poll_deadline_ms:
            log.warning("poll_timeout_expired", extra={"group": self.config.group_id})
            self.leave_group("consumer poll timeout has expired.")
        elif self.lookup.coordinator(now_ms) is not None and now_ms >= heartbeat.session_deadline_ms:
            self.lookup.mark_unknown(now_ms)
        elif heartbeat.should_heartbeat(now_ms):
            coordinator = self.ready_coordinator(now_ms)
            if coordinator is not None:
                self._send_heartbeat(coordinator, now_ms)

    def _send_heartbeat(self, coordinator: Node, now_ms: float) -> None:
        message = HeartbeatRequest(
            group_id=self.config.group_id,
            generation_id=self.generation.generation_id,
            member_id=self.generation.member_id,
            group_instance_id=self.config.group_instance_id,
        )
        self.heartbeat.sent(now_ms)
        self.network.send(NodeRequest(coordinator.id, message, partial(self._on_heartbeat, self.generation)), now_ms)

    def _on_heartbeat(self, sent: Generation, request: NodeRequest, now_ms: float) -> None:
        self._now_ms = now_ms
        answer = request.answer
        if not isinstance(answer, HeartbeatResponse):
            self._request_error(request, now_ms)
            self.heartbeat.failed(now_ms)
            return
        code = ErrorCode(answer.error_code)
        if code in {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}:
            self.heartbeat.received(now_ms)
            if code == ErrorCode.REBALANCE_IN_PROGRESS and self.state is MemberState.STABLE:
                self.request_rejoin("group is already rebalancing")
            return
        self.heartbeat.failed(now_ms)
        if code in _LOST_COORDINATOR:
            self.lookup.mark_unknown(now_ms)
        elif code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            self.failure = GroupAuthorizationFailed(self.config.group_id)
        elif self.is_unchanged(sent) and code in {
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_INSTANCE_ID,
        }:
            keeps_id = code == ErrorCode.ILLEGAL_GENERATION
            self.reset_state_and_rejoin(f"a heartbeat was refused with {code.name}", resets_member_id=not keeps_id)
            if code == ErrorCode.FENCED_INSTANCE_ID:
                self.failure = FencedInstanceId(self.config.group_instance_id)

    # Leaving

    def leave_group(self, reason: str) -> Pending[None]:
        """Leave the group, and end when the coordinator has answered.

        A static member sends nothing, so that it can return without a rebalance.
        """
        left: Pending[None] = Pending()
        now_ms, generation = self._now_ms, self.generation
        is_dynamic = self.config.group_instance_id is None
        coordinator = None
        if is_dynamic and self.state is not MemberState.UNJOINED and generation.member_id:
            coordinator = self.lookup.coordinator(now_ms) and self.ready_coordinator(now_ms)
        if coordinator is None:
            left.complete(None)
        else:
            request = self._leave_request(coordinator, reason)
            request.context = lambda _request, _now_ms: left.complete(None)
            self.network.send(request, now_ms)
        self.reset_state_and_rejoin("consumer pro-actively leaving the group", resets_member_id=True)
        self._assignment = self._joined = None
        return left

    def _leave_request(self, coordinator: Node, reason: str) -> NodeRequest:
        newest = (self.network.versions_of(coordinator.id) or {}).get(ApiKey.LEAVE_GROUP, (0, 0))[1]
        group_id, member_id = self.config.group_id, self.generation.member_id
        if newest < _FIRST_LEAVE_VERSION_WITH_MEMBERS:
            old = LeaveGroupRequest(group_id=group_id, member_id=member_id)
            return NodeRequest(coordinator.id, old, max_version=_FIRST_LEAVE_VERSION_WITH_MEMBERS - 1)
        member = LeaveGroupRequestMemberIdentity(member_id=member_id, reason=reason[:_REASON_LENGTH_MAX])
        message = LeaveGroupRequest(group_id=group_id, members=(member,))
        return NodeRequest(coordinator.id, message, min_version=_FIRST_LEAVE_VERSION_WITH_MEMBERS)

    # Errors

    def _request_error(self, request: NodeRequest, now_ms: float) -> KafkaError:
        error = request.error
        assert error is not None, "a completed request has an answer or an error"
        if isinstance(error, Disconnected):
            self.lookup.mark_unknown(now_ms, is_disconnected=True)
        return error

    def _group_error(self, code: ErrorCode, what: str) -> KafkaError:
        if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return GroupAuthorizationFailed(self.config.group_id)
        if code == ErrorCode.FENCED_INSTANCE_ID:
            return FencedInstanceId(self.config.group_instance_id)
        return KafkaError(code, f"cannot {what} the group '{self.config.group_id}': {code.default_message}")
