"""A consumer's membership in a classic group: which partitions it owns, and when it commits their offsets.

Eager assignors: every partition is given up before each join. Cooperative ones (KIP-429): a member keeps its partitions
while it joins, gives up those that its new assignment lacks, and joins once more so that others can have them.

Source: ConsumerCoordinator, Kafka 4.3.1.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from random import Random

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.abstract_coordinator import AbstractCoordinator
from kraft_core.clients.consumer.assignors.consumer_partition_assignor import (
    ConsumerPartitionAssignor,
    RebalanceProtocol,
    Subscription,
)
from kraft_core.clients.consumer.auto_commit import AutoCommit
from kraft_core.clients.consumer.consumer_group_metadata import ConsumerGroupMetadata
from kraft_core.clients.consumer.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kraft_core.clients.consumer.coordinator import CallbackKind, RebalanceCallback
from kraft_core.clients.consumer.group_assignment import assign_group, common_protocol
from kraft_core.clients.consumer.group_errors import (
    CommitFailed,
    FencedInstanceId,
    RebalanceInProgress,
)
from kraft_core.clients.consumer.group_offsets import Committed, GroupOffsets, Offsets
from kraft_core.clients.consumer.heartbeat import GroupRebalanceConfig
from kraft_core.clients.consumer.metadata_snapshot import MetadataSnapshot
from kraft_core.clients.consumer.offset_requests import MemberIdentity
from kraft_core.clients.consumer.rebalance_task import RebalanceTask, raise_listener_error
from kraft_core.clients.consumer.subscription_state import SubscriptionState
from kraft_core.clients.exponential_backoff import ExponentialBackoff
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.pending import Pending
from kraft_core.protocol.consumer_protocol import PROTOCOL_TYPE
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import JoinGroupRequestJoinGroupRequestProtocol as JoinProtocol
from kraft_core.protocol.messages import JoinGroupResponseJoinGroupResponseMember as JoinedMember


class ConsumerCoordinator(AbstractCoordinator):
    """The classic `Coordinator` of a consumer. Also keeps the committed offsets of a group of assigned partitions.

    Raises ConfigException if the assignors have no rebalance protocol in common.
    """

    def __init__(
        self,
        network: NetworkClient,
        subscriptions: SubscriptionState,
        assignors: Sequence[ConsumerPartitionAssignor],
        config: GroupRebalanceConfig,
        random: Random,
        on_commit: Callable[[Offsets], None] = lambda _offsets: None,
    ) -> None:
        times = network.metadata.config
        backoff = ExponentialBackoff(times.retry_backoff_ms, times.retry_backoff_max_ms, random)
        super().__init__(network, config, backoff)
        self.subscriptions = subscriptions
        self.offsets = GroupOffsets(network, self.lookup, config.group_id, self, backoff, on_commit)
        self._assignors = {each.name: each for each in assignors}
        self._protocol = common_protocol(assignors)
        self._is_leader = False
        self._joined_subscription: frozenset[str] | None = None
        self._metadata_snapshot = self._snapshot()
        self._assignment_snapshot: MetadataSnapshot | None = None
        self._fresh_metadata_after: int | None = None
        self._group_metadata = ConsumerGroupMetadata(config.group_id, group_instance_id=config.group_instance_id)
        self._auto_commit = AutoCommit(self.offsets, subscriptions, config, times.retry_backoff_ms)
        self._closing: tuple[Pending[None], float] | None = None
        self._last_commit: Pending[None] | None = None  # before the member leaves

    # Coordinator: turns

    @property
    def pending_callback(self) -> RebalanceCallback | None:
        """The call of the listener that is waited for."""
        return self.tasks.pending_callback

    def callback_completed(self, callback: RebalanceCallback, error: Exception | None, now_ms: float) -> None:
        """Continue a rebalance after the listener returned or raised `error`."""
        self._now_ms = now_ms
        self.tasks.callback_completed(callback, error)
        self._send_offsets(now_ms)

    def step(self, now_ms: float) -> None:
        """Do what is due: find the coordinator, send heartbeats and commits, retry."""
        self.step_membership(now_ms)
        if self._wants_membership:
            self.ready_coordinator(now_ms)
        self._send_offsets(now_ms)
        self.tasks.advance()
        if self._closing is not None and self._last_commit is not None and now_ms >= self._closing[1]:
            self._last_commit.complete(None)  # the commit is sent if it could be: LeaveGroup follows it
            self.tasks.advance()
            self._closing[0].complete(None)

    def poll(self, now_ms: float) -> None:
        """Advance the membership: the application waits for records. Raises errors that the application must see."""
        self._update_subscription_metadata()
        self._raise_failure()
        if self.subscriptions.has_auto_assigned_partitions and self._closing is None:
            if self.pending_callback is None:
                self.heartbeat.poll(now_ms)
            if not self.rejoin_needed_or_pending() or self._has_fresh_metadata(now_ms):
                self.ensure_active_group(now_ms)
        if self.pending_callback is None and self._closing is None:
            self._auto_commit.maybe_commit(now_ms)
        self._send_offsets(now_ms)
        self._raise_failure()

    def next_deadline_ms(self, now_ms: float) -> float | None:
        """Return when `step` has something to do without an event; None for never."""
        times = [
            self.membership_deadline_ms(now_ms),
            self.offsets.next_deadline_ms(now_ms),
            self._auto_commit.next_deadline_ms(now_ms),
        ]
        if self.offsets.needs_coordinator or self._wants_membership:
            times.append(self.lookup.next_deadline_ms(now_ms))
        if self._closing is not None and not self._closing[0].is_done:
            times.append(self._closing[1])
        return min((time for time in times if time is not None), default=None)

    def metadata_changed(self, now_ms: float) -> None:
        """Take new metadata: topics of the subscription may have come, gone or grown."""
        self._update_subscription_metadata()

    def subscription_changed(self, now_ms: float) -> None:
        """Take a changed subscription; a member joins again at the next poll. Without one, the member leaves."""
        self._now_ms = now_ms
        self._metadata_snapshot = self._snapshot()
        if not self.subscriptions.has_auto_assigned_partitions:
            self.leave_group("the consumer unsubscribed from all topics")
            self._forget_subscription()

    def enforce_rebalance(self, reason: str, now_ms: float) -> None:
        """Join again at the next poll (KIP-568)."""
        self.request_rejoin(reason or "rebalance enforced by user")

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group and the member's present generation."""
        return self._group_metadata

    def unsubscribe(self, now_ms: float) -> Pending[None]:
        """Give up all partitions, through the listener, and leave the group. The owner ends the subscription then."""
        self._now_ms = now_ms
        done: Pending[None] = Pending()
        self.tasks.run(self._leave("the consumer unsubscribed from all topics", done))
        return done

    def close(self, deadline_ms: float, now_ms: float) -> Pending[None]:
        """Commit if enable.auto.commit is set, and leave the group; done at the deadline at the latest."""
        self._now_ms = now_ms
        if self._closing is None:
            self._closing = Pending(), deadline_ms
            self._last_commit = self._auto_commit.last_commit(deadline_ms, now_ms)
            self.tasks.run(self._close(self._closing[0], self._last_commit))
        return self._closing[0]

    @property
    def _wants_membership(self) -> bool:
        is_member = self.subscriptions.has_auto_assigned_partitions and self._closing is None
        return is_member and self.failure is None

    def _raise_failure(self) -> None:
        for source in (self.tasks, self):
            failure, source.failure = source.failure, None
            if failure is not None:
                raise failure

    def on_fatal_lookup(self, error: KafkaError) -> None:
        """Fail commits and lookups, and the next poll of a member."""
        self.offsets.fail(error)
        if self.subscriptions.has_auto_assigned_partitions:
            self.failure = error

    # Committed offsets

    def commit_offsets(self, offsets: Offsets, deadline_ms: float | None, now_ms: float) -> Pending[None]:
        """Commit offsets; retriable errors are retried until the deadline. None stands for one attempt."""
        commit = self.offsets.commit(offsets, deadline_ms, now_ms)
        self._send_offsets(now_ms)
        return commit

    def fetch_committed_offsets(
        self, partitions: Collection[TopicPartition], deadline_ms: float, now_ms: float
    ) -> Pending[Committed]:
        """Look up committed offsets, None where there is none; retriable errors are retried until the deadline."""
        lookup = self.offsets.fetch(partitions, deadline_ms, now_ms)
        self._send_offsets(now_ms)
        return lookup

    def _send_offsets(self, now_ms: float) -> None:
        self._now_ms = now_ms
        node = self.ready_coordinator(now_ms) if self.offsets.needs_coordinator else None
        self.offsets.step(node, now_ms)

    def commit_identity(self) -> MemberIdentity:
        """Return in whose name offsets are committed. Raises RebalanceInProgress or CommitFailed for no member."""
        if not self.subscriptions.has_auto_assigned_partitions:
            return MemberIdentity()
        if self.generation.generation_id < 0 or self.is_rebalancing:
            raise RebalanceInProgress if self.is_rebalancing else CommitFailed
        return MemberIdentity(self.generation.generation_id, self.generation.member_id, self.config.group_instance_id)

    def commit_refused(self, code: ErrorCode, sent: MemberIdentity, now_ms: float) -> KafkaError:
        """Act on a coordinator's refusal of this member, and return the error of the commit."""
        self._now_ms = now_ms
        now = self.generation
        is_unchanged = (sent.generation_id, sent.member_id) == (now.generation_id, now.member_id)
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.request_rejoin("offset commit failed since group is already rebalancing")
            return RebalanceInProgress()
        if code == ErrorCode.FENCED_INSTANCE_ID and is_unchanged:
            self.failure = FencedInstanceId(self.config.group_instance_id)
            return self.failure
        if not is_unchanged and self.is_rebalancing:
            return RebalanceInProgress()
        if is_unchanged and self.subscriptions.has_auto_assigned_partitions:
            keeps_id = code == ErrorCode.ILLEGAL_GENERATION
            self.reset_state_and_rejoin(f"a commit was refused with {code.name}", resets_member_id=not keeps_id)
        return CommitFailed()

    def fetch_identity(self) -> MemberIdentity | None:
        """Return None: a classic member looks offsets up without its generation."""
        return None

    # Joining

    @property
    def protocol_type(self) -> str:
        """The kind of group: consumer."""
        return PROTOCOL_TYPE

    def rejoin_needed_or_pending(self) -> bool:
        """Whether the member has to join: also for changed metadata on a leader, and for a changed subscription."""
        if not self.subscriptions.has_auto_assigned_partitions:
            return False
        if self._joined_subscription not in {None, self.subscriptions.subscription}:
            self._request_rejoin_if_necessary("subscription has changed")
        assigned = self._assignment_snapshot
        if assigned is not None and assigned.partitions != self._metadata_snapshot.partitions:
            self._request_rejoin_if_necessary("cached metadata has changed")
        return super().rejoin_needed_or_pending()

    def _request_rejoin_if_necessary(self, reason: str) -> None:
        if not self.rejoin_needed:
            self.request_rejoin(reason)

    def join_metadata(self) -> list[JoinProtocol]:
        """Return this member's subscription for each assignor, the preferred one first."""
        subscription = self._joined_subscription = self.subscriptions.subscription
        topics = tuple(sorted(subscription))
        owned = tuple(self.subscriptions.assigned_partitions())
        return [
            JoinProtocol(
                name=name,
                metadata=encode_subscription(
                    Subscription(
                        topics,
                        assignor.subscription_user_data(subscription),
                        owned,
                        self.generation.generation_id,
                        self.config.client_rack,
                    )
                ),
            )
            for name, assignor in self._assignors.items()
        ]

    def on_join_prepare(self) -> RebalanceTask:
        """Commit if enable.auto.commit is set, and give up partitions: all of them if eager."""
        subscriptions = self.subscriptions
        is_eager = self._protocol is RebalanceProtocol.EAGER
        if is_eager:
            subscriptions.mark_pending_revocation(subscriptions.assigned_partitions())
        yield self._auto_commit.commit_all(self._now_ms + self.config.rebalance_timeout_ms, self._now_ms)
        owned = subscriptions.assigned_partitions()
        failed: Exception | None = None
        if self.generation.generation_id < 0 or not self.generation.member_id:
            if owned:
                subscriptions.mark_pending_revocation(owned)
                failed = yield RebalanceCallback(CallbackKind.LOST, tuple(sorted(owned)))
                subscriptions.assign_from_subscribed([])
        elif is_eager:
            failed = yield RebalanceCallback(CallbackKind.REVOKED, tuple(sorted(owned)))
            subscriptions.assign_from_subscribed([])
        else:
            dropped = [each for each in owned if each.topic not in subscriptions.subscription]
            if dropped:
                subscriptions.mark_pending_revocation(dropped)
                failed = yield RebalanceCallback(CallbackKind.REVOKED, tuple(sorted(dropped)))
                subscriptions.assign_from_subscribed([each for each in owned if each not in set(dropped)])
        self._is_leader = False
        subscriptions.reset_group_subscription()
        raise_listener_error(failed)

    def on_leader_elected(
        self, protocol_name: str, members: Sequence[JoinedMember], *, skip_assignment: bool
    ) -> Mapping[str, bytes] | None:
        """Return the assignment of each member id; None until the metadata of all subscribed topics is known.

        Raises KafkaError if a member's subscription cannot be read or an assignor fails.
        """
        assignor = self._assignor(protocol_name)
        subscriptions = {each.member_id: decode_subscription(each.metadata, each.group_instance_id) for each in members}
        topics = {topic for each in subscriptions.values() for topic in each.topics}
        metadata = self.network.metadata
        if self.subscriptions.group_subscribe(topics):
            metadata.want(topics)
        if metadata.wanted is not None and not topics <= metadata.topics.keys():
            return None
        self._is_leader = True
        self._metadata_snapshot = self._assignment_snapshot = self._snapshot()
        if skip_assignment:
            return {}
        assignments = assign_group(assignor, self._protocol, metadata, subscriptions)
        return {member_id: encode_assignment(each) for member_id, each in assignments.items()}

    def on_join_complete(self, assignment: bytes) -> RebalanceTask:
        """Take this member's assignment, and give up what a cooperative one lacks."""
        if not self._is_leader:
            self._assignment_snapshot = None
        generation, subscriptions = self.generation, self.subscriptions
        assignor = self._assignor(generation.protocol_name or "")
        self._group_metadata = ConsumerGroupMetadata(
            self.config.group_id, generation.generation_id, generation.member_id, self.config.group_instance_id
        )
        decoded = decode_assignment(assignment)
        assigned = frozenset(decoded.partitions)
        owned = frozenset(subscriptions.assigned_partitions())
        if not subscriptions.check_assignment_matched_subscription(assigned):
            self.request_rejoin("received assignment does not match the current subscription")
            return
        failed: Exception | None = None
        revoked = owned - assigned
        if self._protocol is RebalanceProtocol.COOPERATIVE and revoked:
            subscriptions.mark_pending_revocation(revoked)
            failed = yield RebalanceCallback(CallbackKind.REVOKED, tuple(sorted(revoked)))
            self.request_rejoin("need to revoke partitions and re-join")
        self._join_topics_of_pattern(assigned)
        try:
            assignor.on_assignment(decoded, generation.generation_id)
        except Exception as error:  # noqa: BLE001 - whatever an application's assignor raises
            failed = failed or error
        self._auto_commit.reset_timer(self._now_ms)
        added = tuple(sorted(assigned - owned))
        subscriptions.assign_from_subscribed_awaiting_callback(sorted(assigned), added)
        failed_too = yield RebalanceCallback(CallbackKind.ASSIGNED, added)
        subscriptions.enable_partitions_awaiting_callback(added)
        raise_listener_error(failed or failed_too)

    def on_leave_prepare(self) -> RebalanceTask:
        """Give up all partitions: as lost if the member is in no stable generation."""
        subscriptions = self.subscriptions
        owned = subscriptions.assigned_partitions()
        if not subscriptions.has_auto_assigned_partitions or not owned:
            return
        subscriptions.mark_pending_revocation(owned)
        is_lost = self.generation.generation_id < 0 or not self.generation.member_id or self.is_rebalancing
        kind = CallbackKind.LOST if is_lost else CallbackKind.REVOKED
        failed = yield RebalanceCallback(kind, tuple(sorted(owned)))
        if subscriptions.has_auto_assigned_partitions:
            subscriptions.assign_from_subscribed([])
        raise_listener_error(failed)

    def _leave(self, reason: str, done: Pending[None]) -> RebalanceTask:
        failure: KafkaError | None = None
        try:
            yield from self.on_leave_prepare()
        except KafkaError as failed:
            failure = failed
        yield self.leave_group(reason)
        self._forget_subscription()
        if failure is None:
            done.complete(None)
        else:
            done.fail(failure)

    def _close(self, done: Pending[None], committed: Pending[None]) -> RebalanceTask:
        yield committed
        yield from self._leave("the consumer is being closed", done)

    def _forget_subscription(self) -> None:
        self._joined_subscription = self._assignment_snapshot = None
        self._group_metadata = ConsumerGroupMetadata(
            self.config.group_id, group_instance_id=self.config.group_instance_id
        )

    def _assignor(self, name: str) -> ConsumerPartitionAssignor:
        assignor = self._assignors.get(name)
        if assignor is None:
            known = ", ".join(self._assignors)
            text = (
                f"the coordinator chose the assignor '{name}', which is not in partition.assignment.strategy: {known}"
            )
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)
        return assignor

    # Metadata

    def _snapshot(self) -> MetadataSnapshot:
        topics = self.subscriptions.metadata_topics
        return MetadataSnapshot.of(self.network.metadata, topics, self.config.client_rack)

    def _update_subscription_metadata(self) -> None:
        if self.network.metadata.changes > self._metadata_snapshot.version:
            self._metadata_snapshot = self._snapshot()

    def _has_fresh_metadata(self, now_ms: float) -> bool:
        """Whether the owner has matched a pattern with metadata that is newer than the cause of this rebalance."""
        metadata = self.network.metadata
        if not self.subscriptions.has_pattern_subscription or self._is_join_pending:
            self._fresh_metadata_after = None
            return True
        if self._fresh_metadata_after is None:
            self._fresh_metadata_after = metadata.changes
            metadata.request_update()
        if metadata.changes <= self._fresh_metadata_after:
            return False
        self._update_subscription_metadata()
        return True

    def _join_topics_of_pattern(self, assigned: Iterable[TopicPartition]) -> None:
        """Take topics that the leader assigned by the pattern before this member saw them."""
        if self.subscriptions.has_pattern_subscription and self._joined_subscription is not None:
            added = {each.topic for each in assigned} - self._joined_subscription
            if added:
                self._joined_subscription |= added
                self.subscriptions.subscribe_from_pattern(self.subscriptions.subscription | added)
