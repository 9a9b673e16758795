"""A member of a consumer group (KIP-848): its id, epoch and state, and how it takes the assignment of the broker.

The coordinator sends a target assignment of topic ids. The member resolves their names, commits, gives up what it must
(with the listener), takes what is new (with the listener), and acknowledges with its next heartbeat. Ids without a
name are kept and asked for; the rest is taken meanwhile. Nothing here sends requests, or reads a clock: the heartbeat
manager calls the `on_…` and `transition_to_…` methods, and the owner `poll`s. Times are ms of a monotonic clock.

Where this differs from Java: a heartbeat of all fields names also partitions whose listener call has not ended, so that
a new coordinator does not give them to others; a member that left because of max.poll.interval.ms and has no
coordinator still gives its partitions up; a failure of the last heartbeat never makes a member fatal; an epoch is
still taken while leaving.

Source: AbstractMembershipManager, ConsumerMembershipManager of Kafka 4.3.1.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final
from uuid import UUID

from kraft_core.clients.client_metadata import ClientMetadata, TopicPartition
from kraft_core.clients.consumer.auto_commit import AutoCommit
from kraft_core.clients.consumer.coordinator import CallbackKind, RebalanceCallback
from kraft_core.clients.consumer.heartbeat import GroupRebalanceConfig
from kraft_core.clients.consumer.member_state import (
    CAN_TAKE_ASSIGNMENT,
    IN_GROUP,
    NEXT,
    SENDS_HEARTBEATS,
    MemberState,
)
from kraft_core.clients.consumer.rebalance_task import RebalanceTask, RebalanceTaskRunner, raise_listener_error
from kraft_core.clients.consumer.subscription_state import SubscriptionState
from kraft_core.clients.pending import Pending
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.messages import ConsumerGroupHeartbeatResponse
from kraft_core.protocol.uuids import random_uuid, uuid_to_text

log = logging.getLogger(__name__)

JOIN_GROUP_MEMBER_EPOCH: Final = 0
LEAVE_GROUP_MEMBER_EPOCH: Final = -1
LEAVE_GROUP_STATIC_MEMBER_EPOCH: Final = -2


@dataclass(frozen=True, slots=True)
class LocalAssignment:
    """Partitions by topic id. `local_epoch` counts the assignments of this member; -1 is no assignment."""

    local_epoch: int = -1
    partitions: Mapping[UUID, frozenset[int]] = field(default_factory=dict)


NO_ASSIGNMENT: Final = LocalAssignment()


class ConsumerMembershipManager:
    """One member. `failure` is the error that made it fatal; errors of the listener are in `tasks.failure`."""

    def __init__(
        self,
        config: GroupRebalanceConfig,
        subscriptions: SubscriptionState,
        metadata: ClientMetadata,
        auto_commit: AutoCommit,
        random: Random,
    ) -> None:
        self.config = config
        self.member_id = uuid_to_text(random_uuid(random))
        self.member_epoch = JOIN_GROUP_MEMBER_EPOCH
        self.state = MemberState.UNSUBSCRIBED
        self.current_assignment = NO_ASSIGNMENT
        self.failure: KafkaError | None = None
        self.incarnation = 0  # counts joins
        self.tasks = RebalanceTaskRunner()
        self._subscriptions = subscriptions
        self._metadata = metadata
        self._auto_commit = auto_commit
        self._target = NO_ASSIGNMENT
        self._owned: Mapping[UUID, frozenset[int]] = {}  # the subscription state's assignment, by topic id
        self._names: dict[UUID, str] = {}  # of assigned topics, should the metadata forget them
        self._left: Pending[None] | None = None
        self._leave_error: KafkaError | None = None
        self._is_poll_timer_expired = False

    @property
    def is_in_group(self) -> bool:
        """Whether the member has an epoch of the coordinator."""
        return self.member_epoch > 0

    def transition_to(self, state: MemberState) -> None:
        """Change the state."""
        assert state in NEXT[self.state], f"{state} cannot follow {self.state}"
        log.info(
            "member_state_changed",
            extra={"group": self.config.group_id, "member": self.member_id, "state": state.name},
        )
        self.state = state

    # Polls of the application

    def poll(self, now_ms: float, *, can_reconcile: bool) -> None:
        """Join, join again or change the assignment, as far as that is due. Raises what made the member fatal.

        While a report of the member's partitions is in flight, it takes no others: the coordinator would count those
        as given up that it had assigned before the report arrived. Kafka does not wait.
        """
        is_subscribed = self._subscriptions.has_auto_assigned_partitions
        if self.failure is not None and is_subscribed:
            raise self.failure
        self._is_poll_timer_expired = False
        is_idle = not self.tasks.is_running and (self._left is None or self._left.is_done)
        if is_idle and is_subscribed and self.state in {MemberState.UNSUBSCRIBED, MemberState.STALE}:
            self.transition_to_joining()
        if can_reconcile:
            self._maybe_reconcile(now_ms)

    def transition_to_joining(self) -> None:
        """Join with the next heartbeat."""
        self.member_epoch = JOIN_GROUP_MEMBER_EPOCH
        self.incarnation += 1
        self.transition_to(MemberState.JOINING)
        self._forget_target()

    # Heartbeats

    @property
    def owned_partitions(self) -> Mapping[UUID, frozenset[int]]:
        """What the member holds, by topic id: during a reconciliation also what it has not acknowledged yet."""
        return self._owned

    @property
    def should_skip_heartbeat(self) -> bool:
        """Whether the member sends none: the coordinator does not count on it."""
        return self.state not in SENDS_HEARTBEATS

    @property
    def should_heartbeat_now(self) -> bool:
        """Whether a heartbeat is sent without waiting for the interval."""
        return self.state in (MemberState.JOINING, MemberState.ACKNOWLEDGING, MemberState.LEAVING)

    @property
    def is_leaving_group(self) -> bool:
        """Whether the member gives up its partitions to leave, or sends its last heartbeat."""
        return self.state in (MemberState.PREPARE_LEAVING, MemberState.LEAVING)

    def on_heartbeat_request_generated(self) -> None:
        """End the states that a heartbeat ends when it is sent."""
        if self.state is MemberState.ACKNOWLEDGING:
            is_done = self.current_assignment == self._target
            self.transition_to(MemberState.STABLE if is_done else MemberState.RECONCILING)
        elif self.state is MemberState.LEAVING:
            self._end_leaving()

    def on_leave_completed(self) -> None:
        """Note the end of the last heartbeat, answered or not; also that it could not be sent."""
        if self.state is MemberState.LEAVING:
            self._end_leaving()
        self._complete_leave()

    def on_heartbeat_success(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        """Take the epoch and a new target assignment."""
        if answer.member_epoch < 0 or self.state not in IN_GROUP | {MemberState.PREPARE_LEAVING}:
            return
        self.member_epoch = answer.member_epoch
        if answer.assignment is None or self.state not in CAN_TAKE_ASSIGNMENT:
            return
        target: dict[UUID, frozenset[int]] = {}
        for topic in answer.assignment.topic_partitions:
            target[topic.topic_id] = target.get(topic.topic_id, frozenset()) | frozenset(topic.partitions)
        if self._target.local_epoch < 0 or target != self._target.partitions:
            self._target = LocalAssignment(self._target.local_epoch + 1, target)
            self._metadata.want_ids(target)
        if self.current_assignment != self._target:
            self.transition_to(MemberState.RECONCILING)
        elif self.state in {MemberState.RECONCILING, MemberState.JOINING} and not self.tasks.is_running:
            self.transition_to(MemberState.STABLE)

    def transition_to_fenced(self) -> None:
        """Give up everything as lost, and join again: the coordinator does not accept the member or its epoch."""
        if self.state is MemberState.PREPARE_LEAVING:  # the member leaves without a heartbeat
            self.member_epoch = LEAVE_GROUP_MEMBER_EPOCH
            self.transition_to(MemberState.UNSUBSCRIBED)
        elif self.state in IN_GROUP:
            self.transition_to(MemberState.FENCED)
            self.member_epoch = JOIN_GROUP_MEMBER_EPOCH
            self.tasks.run(self._lose_assignment())

    def transition_to_fatal(self, error: KafkaError) -> None:
        """Give up everything as lost; polls raise `error` from here on."""
        was_leaving = self.state is MemberState.PREPARE_LEAVING
        self.transition_to(MemberState.FATAL)
        self.failure = error
        self.member_epoch = LEAVE_GROUP_MEMBER_EPOCH
        if not was_leaving:
            self.tasks.run(self._lose_assignment())

    def _lose_assignment(self) -> RebalanceTask:
        lost = tuple(sorted(self._subscriptions.assigned_partitions()))
        self._subscriptions.mark_pending_revocation(lost)
        error = (yield RebalanceCallback(CallbackKind.LOST, lost)) if lost else None
        self._clear_assignment()
        if self.state is MemberState.FENCED:
            self.transition_to_joining()
        raise_listener_error(error)

    def _clear_assignment(self) -> None:
        if self._subscriptions.has_auto_assigned_partitions:
            self._subscriptions.assign_from_subscribed([])
        self._owned = {}
        self.current_assignment = NO_ASSIGNMENT
        self._forget_target()

    def _forget_target(self) -> None:
        self._target = NO_ASSIGNMENT
        self._names.clear()
        self._metadata.want_ids(())

    # Leaving

    def leave_group(self, committed: Pending[None] | None = None) -> Pending[None]:
        """Give up all partitions through the listener, then send the last heartbeat; done when that is answered.

        The end of `committed` is awaited first. Fails with the listener's error, after it has left.
        """
        if self._left is None or self._left.is_done:
            self._left = Pending()
            self._leave_error = None
            if self.state in {MemberState.FENCED, MemberState.STALE}:
                self.transition_to(MemberState.UNSUBSCRIBED)
            elif self.state in IN_GROUP:
                self.transition_to(MemberState.PREPARE_LEAVING)
            left = self._left
            self.tasks.run(self._leave(committed))
            return left
        return self._left

    def _leave(self, committed: Pending[None] | None) -> RebalanceTask:
        subscriptions = self._subscriptions
        if committed is not None:
            yield committed
        owned = tuple(sorted(subscriptions.assigned_partitions())) if subscriptions.has_auto_assigned_partitions else ()
        if owned:
            subscriptions.mark_pending_revocation(owned)
            is_member = self.state is MemberState.PREPARE_LEAVING and self.is_in_group
            error = yield RebalanceCallback(CallbackKind.REVOKED if is_member else CallbackKind.LOST, owned)
            try:
                raise_listener_error(error)
            except KafkaError as failed:
                self._leave_error = failed
        self._clear_assignment()
        if self.state is MemberState.PREPARE_LEAVING:
            self._transition_to_leaving()
        else:
            self._complete_leave()

    def transition_to_sending_leave_group(self) -> None:
        """Leave because max.poll.interval.ms has passed without a poll; the member is stale until the next one."""
        self._is_poll_timer_expired = True
        self.transition_to(MemberState.PREPARE_LEAVING)
        self._transition_to_leaving()

    def _transition_to_leaving(self) -> None:
        is_static = self.config.group_instance_id is not None
        self.member_epoch = LEAVE_GROUP_STATIC_MEMBER_EPOCH if is_static else LEAVE_GROUP_MEMBER_EPOCH
        self.current_assignment = NO_ASSIGNMENT
        self.transition_to(MemberState.LEAVING)

    def _end_leaving(self) -> None:
        if self._is_poll_timer_expired:
            self.transition_to(MemberState.STALE)
            self.tasks.run(self._lose_assignment())
        else:
            self.transition_to(MemberState.UNSUBSCRIBED)

    def _complete_leave(self) -> None:
        left, error = self._left, self._leave_error
        if left is None:
            return
        if error is None:
            left.complete(None)
        else:
            left.fail(error)

    # Reconciliation

    def _maybe_reconcile(self, now_ms: float) -> None:
        """Take the part of the target assignment whose names are known."""
        if self.state is not MemberState.RECONCILING or self.tasks.is_running:
            return
        names = {topic_id: name for topic_id in self._target.partitions if (name := self._name_of(topic_id))}
        resolved = LocalAssignment(
            self._target.local_epoch, {topic_id: self._target.partitions[topic_id] for topic_id in names}
        )
        if len(names) < len(self._target.partitions):
            self._metadata.request_update()
        if self.current_assignment.local_epoch >= 0 and resolved.partitions == self.current_assignment.partitions:
            if resolved != self.current_assignment:
                self.current_assignment = resolved
                self.transition_to(MemberState.ACKNOWLEDGING)
            return
        if not names and self._target.partitions and self.current_assignment.local_epoch < 0:
            return
        assigned = {
            TopicPartition(names[topic_id], index)
            for topic_id, indices in resolved.partitions.items()
            for index in indices
        }
        renewed = {name for topic_id, name in names.items() if topic_id not in self._owned}
        self.tasks.run(self._reconcile(resolved, assigned, renewed, now_ms))

    def _name_of(self, topic_id: UUID) -> str | None:
        name = self._metadata.names_by_id.get(topic_id)
        if name is None:
            return self._names.get(topic_id)
        self._names[topic_id] = name
        return name

    def _reconcile(
        self, resolved: LocalAssignment, assigned: set[TopicPartition], renewed: Collection[str], now_ms: float
    ) -> RebalanceTask:
        """Commit, revoke, assign, acknowledge. A failure of the listener ends it; the next poll begins again.

        `renewed` topics were not assigned so far: owned partitions of that name are of a topic that was deleted.
        """
        subscriptions = self._subscriptions
        owned = frozenset(subscriptions.assigned_partitions())
        deleted = tuple(sorted(each for each in owned & assigned if each.topic in renewed))
        if deleted:
            owned -= frozenset(deleted)
            subscriptions.assign_from_subscribed(sorted(owned))
            raise_listener_error((yield RebalanceCallback(CallbackKind.LOST, deleted)))
            if self.state is not MemberState.RECONCILING:
                return
        revoked, added = tuple(sorted(owned - assigned)), tuple(sorted(assigned - owned))
        subscriptions.mark_pending_revocation(revoked)
        yield self._auto_commit.commit_all(now_ms + self.config.rebalance_timeout_ms, now_ms)
        if self.state is not MemberState.RECONCILING:
            return
        if revoked:
            raise_listener_error((yield RebalanceCallback(CallbackKind.REVOKED, revoked)))
            if self.state is not MemberState.RECONCILING:
                return
        subscriptions.assign_from_subscribed_awaiting_callback(sorted(assigned), added)
        self._owned = resolved.partitions
        raise_listener_error((yield RebalanceCallback(CallbackKind.ASSIGNED, added)))
        if self.state is not MemberState.RECONCILING:
            return
        subscriptions.enable_partitions_awaiting_callback(assigned)
        self._names = {topic_id: name for topic_id, name in self._names.items() if topic_id in resolved.partitions}
        self.current_assignment = resolved
        self._auto_commit.reset_timer(now_ms)
        self.transition_to(MemberState.ACKNOWLEDGING)
