"""What a consumer reads: topics, a pattern or assigned partitions, and the state of each assigned partition.

The front changes subscription and positions; the coordinator assigns partitions of a group; the fetcher takes positions
and moves them. Nothing here sends requests. Times are ms of a monotonic clock.

Source: SubscriptionState of Kafka 4.3.1.
"""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.auto_offset_reset_strategy import NONE, AutoOffsetResetStrategy
from kraft_core.clients.consumer.consumer_errors import (
    InvalidSubscription,
    LogTruncation,
    NoOffsetForPartition,
    PartitionNotAssigned,
)
from kraft_core.clients.consumer.partition_state import FetchPosition, FetchState, LeaderAndEpoch, TopicPartitionState
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata

READ_COMMITTED: Final = 1
READ_UNCOMMITTED: Final = 0


class SubscriptionType(Enum):
    """How partitions are chosen."""

    NONE = "none"
    AUTO_TOPICS = "topics"
    AUTO_PATTERN = "pattern"
    AUTO_PATTERN_RE2J = "pattern of the broker"
    USER_ASSIGNED = "assigned"


class ConsumerRebalanceListener(Protocol):
    """Called in `poll` when the partitions of a group member change. A method may return an awaitable."""

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> object:
        """Partitions are about to be given up; offsets can still be committed."""

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> object:
        """Partitions were added; positions can be changed before records are handed out."""

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> object:
        """Partitions were taken away, and may have another owner already; offsets cannot be committed."""


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regular expression in RE2's syntax, which the broker matches (KIP-848)."""

    pattern: str


class SubscriptionState:
    """Subscription, assignment and positions. `default_reset_strategy` is that of auto.offset.reset."""

    def __init__(self, default_reset_strategy: AutoOffsetResetStrategy) -> None:
        self.default_reset_strategy = default_reset_strategy
        self.type = SubscriptionType.NONE
        self.assignment_id = 0
        self.rebalance_listener: ConsumerRebalanceListener | None = None
        self.subscribed_pattern: re.Pattern[str] | None = None
        self.subscription_pattern: SubscriptionPattern | None = None
        self._subscription: frozenset[str] = frozenset()
        self._group_subscription: frozenset[str] = frozenset()
        self.metadata_topics: frozenset[str] = frozenset()  # read here or, on a group's leader, by any member
        self._assignment: dict[TopicPartition, TopicPartitionState] = {}  # in the order of fetches
        self._unsettled: set[TopicPartitionState] = set()  # those assigned without a valid position

    # Subscription

    def subscribe(self, topics: Iterable[str], listener: ConsumerRebalanceListener | None = None) -> bool:
        """Subscribe to topics; return whether the subscription changed. Raises InvalidSubscription."""
        self._set_type(SubscriptionType.AUTO_TOPICS)
        self.rebalance_listener = listener
        return self._change_subscription(topics)

    def subscribe_pattern(
        self, pattern: re.Pattern[str] | SubscriptionPattern, listener: ConsumerRebalanceListener | None = None
    ) -> None:
        """Subscribe to the topics whose whole name matches; a SubscriptionPattern is matched by the broker."""
        if isinstance(pattern, SubscriptionPattern):
            self._set_type(SubscriptionType.AUTO_PATTERN_RE2J)
            self.subscription_pattern = pattern
        else:
            self._set_type(SubscriptionType.AUTO_PATTERN)
            self.subscribed_pattern = pattern
        self.rebalance_listener = listener

    def subscribe_from_pattern(self, topics: Iterable[str]) -> bool:
        """Take the topics that match the pattern; return whether they changed."""
        assert self.has_pattern_subscription, "topics from a pattern need a pattern"
        return self._change_subscription(topics)

    def group_subscribe(self, topics: Iterable[str]) -> bool:
        """Take the topics of all members, which a leader needs; return whether metadata of more topics is needed."""
        self._group_subscription = frozenset(topics)
        self.metadata_topics = self._subscription | self._group_subscription
        return not self._group_subscription <= self._subscription

    def reset_group_subscription(self) -> None:
        """Forget the topics of other members."""
        self._group_subscription = frozenset()
        self.metadata_topics = self._subscription

    def assign_from_user(self, partitions: Iterable[TopicPartition]) -> bool:
        """Read just these partitions, without a group; return whether the topics changed. Raises InvalidSubscription.

        Partitions that were assigned already keep their positions.
        """
        self._set_type(SubscriptionType.USER_ASSIGNED)
        wanted = dict.fromkeys(partitions)
        if wanted.keys() == self._assignment.keys():
            return False
        self._assign(wanted)
        return self._change_subscription(partition.topic for partition in wanted)

    def assign_from_subscribed(self, partitions: Iterable[TopicPartition]) -> None:
        """Take the whole assignment by the group; partitions that stay keep their positions."""
        assert self.has_auto_assigned_partitions, "a group assigns partitions of subscribed topics"
        self._assign(partitions)

    def assign_from_subscribed_awaiting_callback(
        self, partitions: Iterable[TopicPartition], added: Iterable[TopicPartition]
    ) -> None:
        """Take the whole assignment; added ones are not fetched before `enable_partitions_awaiting_callback`."""
        self.assign_from_subscribed(partitions)
        for partition in added:
            self._state(partition).pending_on_assigned_callback = True

    def enable_partitions_awaiting_callback(self, partitions: Iterable[TopicPartition]) -> None:
        """Allow fetches of added partitions: the listener has returned."""
        for partition in partitions:
            state = self._assignment.get(partition)
            if state is not None:
                state.pending_on_assigned_callback = False

    def mark_pending_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """Neither fetch nor hand out records of these partitions any more: they are about to be given up."""
        for partition in partitions:
            self._state(partition).pending_revocation = True

    def check_assignment_matched_subscription(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether all partitions are of subscribed topics; an older subscription may have been answered."""
        if self.subscribed_pattern is not None:
            return all(self.matches_subscribed_pattern(partition.topic) for partition in partitions)
        return all(partition.topic in self._subscription for partition in partitions)

    def unsubscribe(self) -> None:
        """Forget subscription, assignment and positions."""
        self._subscription = self._group_subscription = self.metadata_topics = frozenset()
        self._unsettled.clear()
        self._assignment = {}
        self.subscribed_pattern = self.subscription_pattern = None
        self.rebalance_listener = None
        self.type = SubscriptionType.NONE
        self.assignment_id += 1

    @property
    def has_no_subscription_or_user_assignment(self) -> bool:
        """Whether nothing is to be read."""
        return self.type is SubscriptionType.NONE

    @property
    def has_auto_assigned_partitions(self) -> bool:
        """Whether a group assigns the partitions."""
        return self.type not in {SubscriptionType.NONE, SubscriptionType.USER_ASSIGNED}

    @property
    def has_pattern_subscription(self) -> bool:
        """Whether topics are matched by this client."""
        return self.type is SubscriptionType.AUTO_PATTERN

    def matches_subscribed_pattern(self, topic: str) -> bool:
        """Whether a topic's whole name matches the pattern."""
        return self.subscribed_pattern is not None and self.subscribed_pattern.fullmatch(topic) is not None

    @property
    def subscription(self) -> frozenset[str]:
        """The topics subscribed to; empty for assigned partitions."""
        return self._subscription if self.has_auto_assigned_partitions else frozenset()

    # Assignment

    def assigned_partitions(self) -> list[TopicPartition]:
        """Return the assigned partitions, in the order of fetches."""
        return list(self._assignment)

    def is_assigned(self, partition: TopicPartition) -> bool:
        """Whether the partition is assigned."""
        return partition in self._assignment

    def paused_partitions(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return self._where(lambda state: state.paused)

    def is_paused(self, partition: TopicPartition) -> bool:
        """Whether the partition is assigned and paused."""
        state = self._assignment.get(partition)
        return state is not None and state.paused

    def pause(self, partition: TopicPartition) -> None:
        """Hand out no records of the partition. Raises PartitionNotAssigned."""
        self._state(partition).paused = True

    def resume(self, partition: TopicPartition) -> None:
        """End a pause. Raises PartitionNotAssigned."""
        self._state(partition).paused = False

    def fetchable_partitions(self, is_available: Callable[[TopicPartition], bool]) -> list[TopicPartition]:
        """Return the partitions to fetch that are `is_available` too, in order."""
        return [
            partition
            for partition, state in self._assignment.items()
            if state.is_fetchable and self._is_subscribed(partition) and is_available(partition)
        ]

    def is_fetchable(self, partition: TopicPartition) -> bool:
        """Whether records of the partition may be fetched and handed out."""
        state = self._assignment.get(partition)
        return state is not None and state.is_fetchable and self._is_subscribed(partition)

    def move_partition_to_end(self, partition: TopicPartition) -> None:
        """Fetch the partition after all others, so that each gets its turn."""
        state = self._assignment.pop(partition, None)
        if state is not None:
            self._assignment[partition] = state

    # Positions

    def state(self, partition: TopicPartition) -> TopicPartitionState | None:
        """Return what is known of a partition; None if it is not assigned."""
        return self._assignment.get(partition)

    def position(self, partition: TopicPartition) -> FetchPosition | None:
        """Return the position, None before the first one. Raises PartitionNotAssigned."""
        return self._state(partition).position

    def valid_position(self, partition: TopicPartition) -> FetchPosition | None:
        """Return the position if records may be fetched from it. Raises PartitionNotAssigned."""
        state = self._state(partition)
        return state.position if state.has_valid_position else None

    def has_valid_position(self, partition: TopicPartition) -> bool:
        """Whether the partition is assigned and its position is valid."""
        state = self._assignment.get(partition)
        return state is not None and state.has_valid_position

    def set_position(self, partition: TopicPartition, position: FetchPosition) -> None:
        """Move a valid position on, after records were handed out."""
        state = self._state(partition)
        assert state.has_valid_position, "only a valid position moves with the records"
        state.position = position

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at an offset, without validation. Raises PartitionNotAssigned."""
        self._state(partition).seek_validated(FetchPosition(offset))

    def seek_validated(self, partition: TopicPartition, position: FetchPosition) -> None:
        """Continue at a position that needs no validation. Raises PartitionNotAssigned."""
        self._state(partition).seek_validated(position)

    def seek_unvalidated(self, partition: TopicPartition, position: FetchPosition) -> None:
        """Continue at a position after its validation, if its epochs are known. Raises PartitionNotAssigned."""
        self._state(partition).seek_unvalidated(position)

    def maybe_seek_unvalidated(
        self, partition: TopicPartition, position: FetchPosition, strategy: AutoOffsetResetStrategy
    ) -> None:
        """Take the outcome of a reset, if the partition still awaits one by this strategy."""
        state = self._assignment.get(partition)
        if state is not None and state.fetch_state is FetchState.AWAIT_RESET and state.reset_strategy == strategy:
            state.seek_unvalidated(position)

    def all_consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the valid positions as offsets to commit."""
        return {
            partition: OffsetAndMetadata(state.position.offset, "", state.position.offset_epoch)
            for partition, state in self._assignment.items()
            if state.has_valid_position and state.position is not None
        }

    def partition_lag(self, partition: TopicPartition, isolation_level: int) -> int | None:
        """Return the records between position and end, None if unknown. Raises PartitionNotAssigned."""
        state = self._state(partition)
        end = state.last_stable_offset if isolation_level == READ_COMMITTED else state.high_watermark
        return None if end is None or state.position is None else max(0, end - state.position.offset)

    # First positions and resets

    def initializing_partitions(self) -> set[TopicPartition]:
        """Return the partitions that have never had a position."""
        return set() if not self._unsettled else self._where(lambda state: state.should_initialize)

    def reset_initializing_positions(self, partitions: Collection[TopicPartition]) -> None:
        """Reset those of `partitions` that have no position, by auto.offset.reset. Raises NoOffsetForPartition."""
        initializing = self.initializing_partitions() & set(partitions)
        if initializing and self.default_reset_strategy == NONE:
            raise NoOffsetForPartition(initializing)
        for partition in initializing:
            self.request_offset_reset(partition)

    def request_offset_reset(self, partition: TopicPartition, strategy: AutoOffsetResetStrategy | None = None) -> None:
        """Look the position up again, by `strategy` or else by auto.offset.reset. Raises PartitionNotAssigned."""
        self._state(partition).reset(strategy or self.default_reset_strategy)

    @property
    def has_default_offset_reset_policy(self) -> bool:
        """Whether auto.offset.reset is not none."""
        return self.default_reset_strategy != NONE

    def partitions_needing_reset(self, now_ms: float) -> dict[TopicPartition, AutoOffsetResetStrategy]:
        """Return the partitions to look up now, with their strategies."""
        if not self._unsettled:
            return {}
        return {
            partition: state.reset_strategy
            for partition, state in self._assignment.items()
            if state.fetch_state is FetchState.AWAIT_RESET
            and state.reset_strategy is not None
            and now_ms >= state.next_retry_ms
        }

    # Validation (KIP-320)

    def maybe_validate_position_for_current_leader(
        self, partition: TopicPartition, leader: LeaderAndEpoch, *, can_validate: bool = True
    ) -> bool:
        """Take a partition's current leader; return whether its position awaits validation.

        Without `can_validate` (a broker without OffsetsForLeaderEpoch) the position moves to the leader unchecked.
        """
        state = self._assignment.get(partition)
        return state is not None and state.maybe_validate(leader, can_validate=can_validate)

    def partitions_needing_validation(self, now_ms: float) -> dict[TopicPartition, FetchPosition]:
        """Return the positions to validate now."""
        if not self._unsettled:
            return {}
        return {
            partition: state.position
            for partition, state in self._assignment.items()
            if state.fetch_state is FetchState.AWAIT_VALIDATION
            and state.position is not None
            and now_ms >= state.next_retry_ms
        }

    def maybe_complete_validation(
        self, partition: TopicPartition, requested: FetchPosition, epoch: int, end_offset: int
    ) -> LogTruncation | None:
        """Take a leader's end offset of the position's epoch; -1 for an unknown epoch or offset.

        A position beyond the end offset moves back to it, or is reset if the offset is unknown. Return LogTruncation
        instead if auto.offset.reset is none. An answer for another position than the present one has no effect.
        """
        state = self._assignment.get(partition)
        if state is None or state.fetch_state is not FetchState.AWAIT_VALIDATION or state.position != requested:
            return None
        if epoch < 0 or end_offset < 0:
            if self.has_default_offset_reset_policy:
                state.reset(self.default_reset_strategy)
                return None
            return LogTruncation({partition: requested.offset}, {})
        if end_offset >= requested.offset:
            state.complete_validation()
            return None
        if self.has_default_offset_reset_policy:
            state.seek_validated(FetchPosition(end_offset, epoch, requested.current_leader))
            return None
        return LogTruncation(
            {partition: requested.offset}, {partition: OffsetAndMetadata(end_offset, leader_epoch=epoch)}
        )

    def set_next_allowed_retry(self, partitions: Iterable[TopicPartition], next_retry_ms: float) -> None:
        """Neither reset nor validate before this time; partitions no longer assigned are left out."""
        for partition in partitions:
            state = self._assignment.get(partition)
            if state is not None:
                state.next_retry_ms = next_retry_ms

    def next_retry_ms(self) -> float | None:
        """Return the earliest time of a reset or validation that waits, None without any."""
        waiting = {FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION}
        return min((each.next_retry_ms for each in self._unsettled if each.fetch_state in waiting), default=None)

    # Internals

    def _set_type(self, kind: SubscriptionType) -> None:
        if self.type not in {SubscriptionType.NONE, kind}:
            raise InvalidSubscription
        self.type = kind

    def _change_subscription(self, topics: Iterable[str]) -> bool:
        wanted = frozenset(topics)
        if wanted == self._subscription:
            return False
        self._subscription = wanted
        self.metadata_topics = wanted | self._group_subscription
        return True

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        self.assignment_id += 1
        known = self._assignment
        new = self._unsettled
        self._assignment = {each: known[each] if each in known else TopicPartitionState(new) for each in partitions}
        new.difference_update(state for partition, state in known.items() if partition not in self._assignment)

    def _state(self, partition: TopicPartition) -> TopicPartitionState:
        state = self._assignment.get(partition)
        if state is None:
            raise PartitionNotAssigned(partition)
        return state

    def _is_subscribed(self, partition: TopicPartition) -> bool:
        return self.type is not SubscriptionType.AUTO_TOPICS or partition.topic in self._subscription

    def _where(self, condition: Callable[[TopicPartitionState], bool]) -> set[TopicPartition]:
        return {partition for partition, state in self._assignment.items() if condition(state)}
