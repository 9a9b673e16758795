"""The heartbeats of a member of a consumer group (KIP-848): when they are sent, what they carry, what answers mean.

A field is sent when the member joins and when it has changed; after a failure all fields are sent again. The broker
sets the interval. Source: AbstractHeartbeatRequestManager, ConsumerHeartbeatRequestManager of Kafka 4.3.1.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kraft_core.clients.client_metadata import Node
from kraft_core.clients.consumer.consumer_membership_manager import ConsumerMembershipManager, LocalAssignment
from kraft_core.clients.consumer.group_errors import FencedInstanceId, GroupAuthorizationFailed
from kraft_core.clients.consumer.member_state import MemberState
from kraft_core.clients.consumer.subscription_state import SubscriptionPattern, SubscriptionState
from kraft_core.clients.coordinator_lookup import CoordinatorLookup
from kraft_core.clients.exponential_backoff import ExponentialBackoff
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import Disconnected, NodeRequest
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode, KafkaError, UnsupportedVersion
from kraft_core.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

log = logging.getLogger(__name__)

_FIRST_VERSION_WITH_REGEX: Final = 1
_PROTOCOL_NOT_SUPPORTED: Final = (
    "the cluster does not support group.protocol=consumer (KIP-848): use group.protocol=classic until it is upgraded"
)
_REGEX_NOT_SUPPORTED: Final = (
    "the cluster does not match subscription patterns (ConsumerGroupHeartbeat version 1): subscribe to names, "
    "or to a pattern that the client matches"
)
_LOST_COORDINATOR: Final = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
_FENCED: Final = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}


@dataclass(slots=True)
class _SentFields:
    """What the coordinator has been sent. None: nothing."""

    rebalance_timeout_ms: int | None = None
    topics: frozenset[str] | None = None
    pattern: SubscriptionPattern | None = None
    server_assignor: str | None = None
    assignment: LocalAssignment | None = None


class ConsumerHeartbeatRequestManager:
    """Sends the heartbeats of one member. `on_error` is called with errors that leave the member in its state."""

    def __init__(
        self,
        network: NetworkClient,
        lookup: CoordinatorLookup,
        membership: ConsumerMembershipManager,
        subscriptions: SubscriptionState,
        server_assignor: str | None,
        backoff: ExponentialBackoff,
        on_error: Callable[[KafkaError], None],
    ) -> None:
        self._network = network
        self._lookup = lookup
        self._membership = membership
        self._subscriptions = subscriptions
        self._server_assignor = server_assignor
        self._backoff = backoff
        self._on_error = on_error
        self._sent = _SentFields()
        self._request: NodeRequest | None = None
        self._failures = 0
        self._not_before_ms: float = 0
        self._interval_ms = 0
        self._due_ms: float = 0
        self._poll_deadline_ms: float | None = None
        self._joined_incarnation = 0  # the last one that an answer acknowledged
        self._is_known = False  # a heartbeat was sent, so the coordinator may count on the member

    def reset_poll_timer(self, now_ms: float) -> None:
        """Start max.poll.interval.ms: the application polls."""
        self._poll_deadline_ms = now_ms + self._membership.config.rebalance_timeout_ms

    def step(self, node: Node | None, now_ms: float) -> None:
        """Send a heartbeat to the coordinator `node` if one is due; None if it is not ready."""
        membership = self._membership
        if membership.should_skip_heartbeat:
            return
        is_late = self._poll_deadline_ms is not None and now_ms >= self._poll_deadline_ms
        if is_late and not membership.is_leaving_group:
            interval_ms = membership.config.rebalance_timeout_ms
            log.warning("poll_timeout_expired", extra={"group": membership.config.group_id, "ms": interval_ms})
            membership.transition_to_sending_leave_group()
            if node is None:
                membership.on_leave_completed()
        if membership.state is MemberState.LEAVING:
            self._send_leave(node, now_ms)
        elif node is not None and self._is_due(now_ms):
            self._send(node, now_ms)

    def next_deadline_ms(self, now_ms: float) -> float | None:
        """Return when `step` has something to do without an event; None for never."""
        if self._membership.should_skip_heartbeat:
            return None
        due = self._not_before_ms if self._should_heartbeat_now else max(self._due_ms, self._not_before_ms)
        times = [] if self._request is not None else [due]
        if self._poll_deadline_ms is not None and not self._membership.is_leaving_group:
            times.append(self._poll_deadline_ms)
        return min((time for time in times if time > now_ms), default=None)

    @property
    def is_reporting(self) -> bool:
        """Whether a heartbeat is in flight that names the partitions of the member."""
        message = None if self._request is None else self._request.message
        return isinstance(message, ConsumerGroupHeartbeatRequest) and message.topic_partitions is not None

    @property
    def _should_heartbeat_now(self) -> bool:
        is_answered = self._joined_incarnation == self._membership.incarnation
        is_joining = self._membership.state is MemberState.JOINING
        return self._membership.should_heartbeat_now and not (is_joining and is_answered)

    def _is_due(self, now_ms: float) -> bool:
        if self._request is not None or now_ms < self._not_before_ms:
            return False
        return self._should_heartbeat_now or now_ms >= self._due_ms

    # Requests

    def _send(self, node: Node, now_ms: float) -> None:
        message = self._build()
        min_version = _FIRST_VERSION_WITH_REGEX if message.subscribed_topic_regex else 0
        self._request = NodeRequest(node.id, message, self._on_response, min_version=min_version)
        self._due_ms = now_ms + self._interval_ms
        self._is_known = True
        self._membership.on_heartbeat_request_generated()
        self._network.send(self._request, now_ms)

    def _send_leave(self, node: Node | None, now_ms: float) -> None:
        if not self._is_known:
            self._membership.on_leave_completed()
        elif node is not None:
            message = self._build()
            self._request = None
            self._membership.on_heartbeat_request_generated()
            self._network.send(NodeRequest(node.id, message, self._on_left), now_ms)
            self._sent = _SentFields()
            self._is_known = False

    def _build(self) -> ConsumerGroupHeartbeatRequest:
        """Return the next request, and remember what it carries."""
        membership, sent = self._membership, self._sent
        config = membership.config
        is_joining = membership.state is MemberState.JOINING
        timeout_ms, topics = config.rebalance_timeout_ms, self._subscriptions.subscription
        pattern, assignment = self._subscriptions.subscription_pattern, membership.current_assignment
        owned = membership.owned_partitions if sent.assignment is None else assignment.partitions
        sends_pattern = pattern != sent.pattern or (is_joining and pattern is not None)
        message = ConsumerGroupHeartbeatRequest(
            group_id=config.group_id,
            member_id=membership.member_id,
            member_epoch=membership.member_epoch,
            instance_id=config.group_instance_id,
            rack_id=config.client_rack if is_joining else None,
            rebalance_timeout_ms=timeout_ms if is_joining or timeout_ms != sent.rebalance_timeout_ms else -1,
            subscribed_topic_names=tuple(sorted(topics)) if is_joining or topics != sent.topics else None,
            subscribed_topic_regex=("" if pattern is None else pattern.pattern) if sends_pattern else None,
            server_assignor=self._server_assignor
            if is_joining or self._server_assignor != sent.server_assignor
            else None,
            topic_partitions=_topic_partitions(owned) if is_joining or assignment != sent.assignment else None,
        )
        self._sent = _SentFields(timeout_ms, topics, pattern, self._server_assignor, assignment)
        return message

    # Answers

    def _on_left(self, request: NodeRequest, now_ms: float) -> None:
        answer = request.answer
        code = answer.error_code if isinstance(answer, ConsumerGroupHeartbeatResponse) else None
        if code != ErrorCode.NONE:
            log.warning("leave_failed", extra={"group": self._membership.config.group_id, "error": code})
        self._membership.on_leave_completed()

    def _on_response(self, request: NodeRequest, now_ms: float) -> None:
        if request is not self._request:
            return
        self._request = None
        membership = self._membership
        if membership.should_skip_heartbeat:
            return
        answer = request.answer
        if isinstance(answer, ConsumerGroupHeartbeatResponse) and answer.error_code == ErrorCode.NONE:
            self._failures = 0
            self._joined_incarnation = membership.incarnation
            self._interval_ms = answer.heartbeat_interval_ms
            self._due_ms = now_ms + self._interval_ms
            membership.on_heartbeat_success(answer)
            return
        self._sent = _SentFields()
        self._due_ms = now_ms
        self._not_before_ms = now_ms + self._backoff.after(self._failures)
        self._failures += 1
        if isinstance(answer, ConsumerGroupHeartbeatResponse):
            self._on_error_code(ErrorCode(answer.error_code), answer.error_message, now_ms)
        else:
            self._on_failure(request, now_ms)

    def _on_failure(self, request: NodeRequest, now_ms: float) -> None:
        error = request.error
        assert error is not None, "a completed request has an answer or an error"
        if isinstance(error, Disconnected):
            self._lookup.mark_unknown(now_ms, is_disconnected=True)
        elif isinstance(error, UnsupportedVersion):
            versions = self._network.versions_of(request.node_id) or {}
            is_known = ApiKey.CONSUMER_GROUP_HEARTBEAT in versions
            self._fatal(UnsupportedVersion(_REGEX_NOT_SUPPORTED if is_known else _PROTOCOL_NOT_SUPPORTED))
        elif not error.retriable:
            self._fatal(error)

    def _on_error_code(self, code: ErrorCode, text: str | None, now_ms: float) -> None:
        config = self._membership.config
        message = f"the group '{config.group_id}' refused the member: {text or code.default_message}"
        if code in _LOST_COORDINATOR:
            self._lookup.mark_unknown(now_ms)
            self._not_before_ms = now_ms
        elif code in _FENCED:
            self._not_before_ms = now_ms
            self._membership.transition_to_fenced()
        elif code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self._on_error(KafkaError(code, message))
        elif code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            self._fatal(GroupAuthorizationFailed(config.group_id))
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            self._fatal(FencedInstanceId(config.group_instance_id))
        elif code == ErrorCode.UNSUPPORTED_VERSION:
            self._fatal(UnsupportedVersion(_PROTOCOL_NOT_SUPPORTED))
        elif not code.retriable:
            self._fatal(KafkaError(code, message))

    def _fatal(self, error: KafkaError) -> None:
        if self._membership.state is not MemberState.LEAVING:
            self._membership.transition_to_fatal(error)


def _topic_partitions(
    partitions: Mapping[UUID, frozenset[int]],
) -> tuple[ConsumerGroupHeartbeatRequestTopicPartitions, ...]:
    return tuple(
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=tuple(sorted(indices)))
        for topic_id, indices in sorted(partitions.items())
    )
