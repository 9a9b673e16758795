"""The KIP-848 `Coordinator` of a consumer (group.protocol=consumer): membership, heartbeats and committed offsets.

Source: AsyncKafkaConsumer, RequestManagers, CommitRequestManager of Kafka 4.3.1.
"""

from collections.abc import Callable, Collection
from random import Random

from kraft_core.clients.client_metadata import Node, TopicPartition
from kraft_core.clients.consumer.auto_commit import AutoCommit
from kraft_core.clients.consumer.consumer_group_metadata import ConsumerGroupMetadata
from kraft_core.clients.consumer.consumer_heartbeat_request_manager import ConsumerHeartbeatRequestManager
from kraft_core.clients.consumer.consumer_membership_manager import ConsumerMembershipManager
from kraft_core.clients.consumer.coordinator import RebalanceCallback
from kraft_core.clients.consumer.group_errors import (
    CommitFailed,
    FencedInstanceId,
    GroupAuthorizationFailed,
    RebalanceInProgress,
    RetriableCommitFailed,
)
from kraft_core.clients.consumer.group_offsets import Committed, GroupOffsets, Offsets
from kraft_core.clients.consumer.heartbeat import GroupRebalanceConfig
from kraft_core.clients.consumer.member_state import MemberState
from kraft_core.clients.consumer.offset_requests import MemberIdentity
from kraft_core.clients.consumer.subscription_state import SubscriptionState
from kraft_core.clients.coordinator_lookup import CoordinatorLookup, CoordinatorType
from kraft_core.clients.exponential_backoff import ExponentialBackoff
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.pending import Pending
from kraft_core.protocol.errors import ErrorCode, KafkaError


class ConsumerMembership:
    """One consumer's membership. `server_assignor` is group.remote.assignor; None leaves the choice to the broker."""

    def __init__(
        self,
        network: NetworkClient,
        subscriptions: SubscriptionState,
        config: GroupRebalanceConfig,
        server_assignor: str | None,
        random: Random,
        on_commit: Callable[[Offsets], None] = lambda _offsets: None,
    ) -> None:
        times = network.metadata.config
        backoff = ExponentialBackoff(times.retry_backoff_ms, times.retry_backoff_max_ms, random)
        self._network = network
        self._subscriptions = subscriptions
        self._config = config
        self._lookup = CoordinatorLookup(
            network, CoordinatorType.GROUP, config.group_id, backoff, has_own_connection=True
        )
        self._offsets = GroupOffsets(network, self._lookup, config.group_id, self, backoff, on_commit)
        self._auto_commit = AutoCommit(self._offsets, subscriptions, config, times.retry_backoff_ms)
        self._members = ConsumerMembershipManager(config, subscriptions, network.metadata, self._auto_commit, random)
        self._heartbeats = ConsumerHeartbeatRequestManager(
            network, self._lookup, self._members, subscriptions, server_assignor, backoff, self._set_failure
        )
        self._failure: KafkaError | None = None
        self._leave: tuple[Pending[None], float] | None = None
        self._last_commit: Pending[None] | None = None  # before the member leaves
        self._is_closing = False

    def _set_failure(self, error: KafkaError) -> None:
        self._failure = error

    @property
    def pending_callback(self) -> RebalanceCallback | None:
        """The call of the listener that is waited for."""
        return self._members.tasks.pending_callback

    def callback_completed(self, callback: RebalanceCallback, error: Exception | None, now_ms: float) -> None:
        """Continue a rebalance after the listener returned or raised `error`."""
        self._members.tasks.callback_completed(callback, error)
        self.step(now_ms)

    def step(self, now_ms: float) -> None:
        """Do what is due: find the coordinator, send heartbeats and commits, retry."""
        self._members.tasks.advance()
        node = self._ready_coordinator(now_ms) if self._needs_coordinator else None
        self._heartbeats.step(node, now_ms)
        self._offsets.step(node, now_ms)
        if self._leave is not None and now_ms >= self._leave[1]:
            if self._last_commit is not None:  # it is sent if it could be: the last heartbeat follows it
                self._last_commit.complete(None)
                self._members.tasks.advance()
                self._heartbeats.step(node, now_ms)
            self._leave = None
            self._members.on_leave_completed()

    def poll(self, now_ms: float) -> None:
        """Advance the membership: the application waits for records. Raises errors that the application must see."""
        if self.pending_callback is None and not self._is_closing:
            self._heartbeats.reset_poll_timer(now_ms)
            self._members.poll(now_ms, can_reconcile=not self._heartbeats.is_reporting)
            self._auto_commit.maybe_commit(now_ms)
        self.step(now_ms)
        self._raise_failure()

    def next_deadline_ms(self, now_ms: float) -> float | None:
        """Return when `step` has something to do without an event; None for never."""
        times = [
            self._heartbeats.next_deadline_ms(now_ms),
            self._offsets.next_deadline_ms(now_ms),
            self._auto_commit.next_deadline_ms(now_ms),
            self._lookup.next_deadline_ms(now_ms) if self._needs_coordinator else None,
            None if self._leave is None or self._leave[0].is_done else self._leave[1],
        ]
        return min((time for time in times if time is not None), default=None)

    def metadata_changed(self, now_ms: float) -> None:
        """Do nothing: the next poll looks up the topics of the assignment."""

    def subscription_changed(self, now_ms: float) -> None:
        """Take a changed subscription: the next heartbeat carries it. Without one, the member leaves."""
        if not self._subscriptions.has_auto_assigned_partitions:
            self.unsubscribe(now_ms)

    def unsubscribe(self, now_ms: float) -> Pending[None]:
        """Give up all partitions, through the listener, and leave the group. The owner ends the subscription then."""
        return self._leave_group(now_ms, now_ms + self._network.config.request_timeout_ms)

    def enforce_rebalance(self, reason: str, now_ms: float) -> None:
        """Do nothing: the broker decides when a group rebalances, as in AsyncKafkaConsumer."""

    def close(self, deadline_ms: float, now_ms: float) -> Pending[None]:
        """Commit if enable.auto.commit is set, and leave the group; done at the deadline at the latest."""
        self._is_closing = True
        if self._last_commit is None:
            self._last_commit = self._auto_commit.last_commit(deadline_ms, now_ms)
        return self._leave_group(now_ms, deadline_ms)

    def _leave_group(self, now_ms: float, deadline_ms: float) -> Pending[None]:
        left = self._members.leave_group(self._last_commit)
        self._leave = left, deadline_ms
        self.step(now_ms)
        return left

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group and the member's present epoch."""
        instance_id = self._config.group_instance_id
        if not self._members.is_in_group:
            return ConsumerGroupMetadata(self._config.group_id, group_instance_id=instance_id)
        members = self._members
        return ConsumerGroupMetadata(self._config.group_id, members.member_epoch, members.member_id, instance_id)

    @property
    def _needs_coordinator(self) -> bool:
        return self._offsets.needs_coordinator or not self._members.should_skip_heartbeat

    def _ready_coordinator(self, now_ms: float) -> Node | None:
        try:
            return self._lookup.ready_node(now_ms)
        except KafkaError as error:
            is_refused = error.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
            self._failure = GroupAuthorizationFailed(self._config.group_id) if is_refused else error
            self._offsets.fail(self._failure)
            return None

    def _raise_failure(self) -> None:
        failure = self._failure or self._members.tasks.failure
        self._failure = self._members.tasks.failure = None
        if failure is not None:
            raise failure

    # Committed offsets

    def commit_offsets(self, offsets: Offsets, deadline_ms: float | None, now_ms: float) -> Pending[None]:
        """Commit offsets; retriable errors are retried until the deadline. None stands for one attempt."""
        commit = self._offsets.commit(offsets, deadline_ms, now_ms)
        self._send_offsets(now_ms)
        return commit

    def fetch_committed_offsets(
        self, partitions: Collection[TopicPartition], deadline_ms: float, now_ms: float
    ) -> Pending[Committed]:
        """Look up committed offsets, None where there is none; retriable errors are retried until the deadline."""
        lookup = self._offsets.fetch(partitions, deadline_ms, now_ms)
        self._send_offsets(now_ms)
        return lookup

    def _send_offsets(self, now_ms: float) -> None:
        self._offsets.step(self._ready_coordinator(now_ms) if self._offsets.needs_coordinator else None, now_ms)

    def commit_identity(self) -> MemberIdentity:
        """Return in whose name offsets are committed. Raises RebalanceInProgress or CommitFailed for no member."""
        members = self._members
        if members.is_in_group:
            return MemberIdentity(members.member_epoch, members.member_id, self._config.group_instance_id)
        if self._subscriptions.has_auto_assigned_partitions:
            raise RebalanceInProgress if members.state is MemberState.JOINING else CommitFailed
        return MemberIdentity()

    def commit_refused(self, code: ErrorCode, sent: MemberIdentity, now_ms: float) -> KafkaError:
        """Return the error of a commit; with an old epoch it can be sent again with the present one."""
        if code == ErrorCode.FENCED_INSTANCE_ID:
            return FencedInstanceId(self._config.group_instance_id)
        is_changed = self._members.is_in_group and self._members.member_epoch != sent.generation_id
        if code in {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.FENCED_MEMBER_EPOCH} and is_changed:
            return RetriableCommitFailed(KafkaError(code))
        return CommitFailed()

    def fetch_identity(self) -> MemberIdentity | None:
        """Return the member whose epoch a lookup names; None outside the group."""
        members = self._members
        return MemberIdentity(members.member_epoch, members.member_id) if members.is_in_group else None
