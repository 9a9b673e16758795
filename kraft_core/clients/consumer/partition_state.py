"""One assigned partition of a consumer: its position and whether it can be fetched.

    INITIALIZING ──────> FETCHING <────> AWAIT_VALIDATION
          │               ^    │                │
          └─> AWAIT_RESET ┘<───┴────────────────┘

A change that `NEXT` does not list has no effect. Source: SubscriptionState.TopicPartitionState, FetchStates of Kafka
4.3.1; KIP-320 (AWAIT_VALIDATION), KIP-392 (preferred read replica).
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from kraft_core.clients.client_metadata import NO_EPOCH, NO_LEADER
from kraft_core.clients.consumer.auto_offset_reset_strategy import AutoOffsetResetStrategy


class FetchState(Enum):
    """Whether a partition has a position, and a valid one."""

    INITIALIZING = "initializing"
    FETCHING = "fetching"
    AWAIT_RESET = "await reset"
    AWAIT_VALIDATION = "await validation"


_INITIALIZING, _FETCHING = FetchState.INITIALIZING, FetchState.FETCHING
_RESET, _VALIDATION = FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION

NEXT: Final = {
    _INITIALIZING: frozenset({_FETCHING, _RESET, _VALIDATION}),
    _FETCHING: frozenset({_FETCHING, _RESET, _VALIDATION}),
    _RESET: frozenset({_FETCHING, _RESET}),
    _VALIDATION: frozenset({_FETCHING, _RESET, _VALIDATION}),
}


@dataclass(frozen=True, slots=True)
class LeaderAndEpoch:
    """A partition's leader by broker id and its epoch; -1 for unknown."""

    leader: int = NO_LEADER
    epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """The next offset to read; the epoch of the last record read, None if unknown; and the leader to read from."""

    offset: int
    offset_epoch: int | None = None
    current_leader: LeaderAndEpoch = LeaderAndEpoch()


class TopicPartitionState:
    """What a consumer knows of one assigned partition. Offsets are None until a broker has named them.

    It is in the set `unsettled` while its position is not valid, which saves searches among many partitions.
    """

    __slots__ = (
        "_unsettled",
        "fetch_state",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "next_retry_ms",
        "paused",
        "pending_on_assigned_callback",
        "pending_revocation",
        "position",
        "preferred_read_replica",
        "preferred_until_ms",
        "reset_strategy",
    )

    def __init__(self, unsettled: "set[TopicPartitionState] | None" = None) -> None:
        self._unsettled = set() if unsettled is None else unsettled
        self._unsettled.add(self)
        self.fetch_state = FetchState.INITIALIZING
        self.position: FetchPosition | None = None
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        self.paused = False
        self.pending_revocation = False
        self.pending_on_assigned_callback = False
        self.reset_strategy: AutoOffsetResetStrategy | None = None
        self.next_retry_ms: float = 0
        self.preferred_read_replica: int | None = None
        self.preferred_until_ms: float = 0

    @property
    def has_valid_position(self) -> bool:
        """Whether records may be fetched from the position."""
        return self.fetch_state is FetchState.FETCHING

    @property
    def is_fetchable(self) -> bool:
        """Whether to fetch the partition and to hand out its records."""
        return (
            self.fetch_state is FetchState.FETCHING
            and not self.paused
            and not self.pending_revocation
            and not self.pending_on_assigned_callback
        )

    @property
    def should_initialize(self) -> bool:
        """Whether a first position is to be found."""
        return self.fetch_state is FetchState.INITIALIZING and not self.pending_revocation

    def reset(self, strategy: AutoOffsetResetStrategy) -> None:
        """Drop the position; a new one is looked up by `strategy`."""
        if self._become(FetchState.AWAIT_RESET):
            self.position = None
            self.reset_strategy = strategy
            self.next_retry_ms = 0

    def seek_validated(self, position: FetchPosition) -> None:
        """Take a position that needs no validation."""
        if self._become(FetchState.FETCHING):
            self.position = position
            self.reset_strategy = None
            self.next_retry_ms = 0

    def seek_unvalidated(self, position: FetchPosition) -> None:
        """Take a position and validate it if epochs are known."""
        self.seek_validated(position)
        self.validate(position)

    def validate(self, position: FetchPosition) -> None:
        """Take a position; it awaits validation if both of its epochs are known."""
        has_epochs = position.offset_epoch is not None and position.current_leader.epoch != NO_EPOCH
        if self._become(FetchState.AWAIT_VALIDATION if has_epochs else FetchState.FETCHING):
            self.position = position
            self.next_retry_ms = 0

    def maybe_validate(self, leader: LeaderAndEpoch, *, can_validate: bool) -> bool:
        """Take a new leader of the partition; return whether the position awaits validation."""
        if self.fetch_state is FetchState.AWAIT_RESET or leader.leader == NO_LEADER:
            return False
        position = self.position
        if position is not None and position.current_leader != leader:
            moved = replace(position, current_leader=leader)
            self.preferred_read_replica = None
            if can_validate:
                self.validate(moved)
            elif self._become(FetchState.FETCHING):
                self.position = moved
                self.next_retry_ms = 0
        elif not can_validate and self.fetch_state is FetchState.AWAIT_VALIDATION:
            self.complete_validation()
        return self.fetch_state is FetchState.AWAIT_VALIDATION

    def complete_validation(self) -> None:
        """Fetch from the position: the leader has the same records before it."""
        if self.position is not None and self._become(FetchState.FETCHING):
            self.next_retry_ms = 0

    def read_replica(self, now_ms: float) -> int | None:
        """Return the follower to read from, None for the leader."""
        if self.preferred_read_replica is not None and now_ms > self.preferred_until_ms:
            self.preferred_read_replica = None
        return self.preferred_read_replica

    def _become(self, state: FetchState) -> bool:
        if state not in NEXT[self.fetch_state]:
            return False
        self.fetch_state = state
        if state is FetchState.FETCHING:
            self._unsettled.discard(self)
        else:
            self._unsettled.add(self)
        return True
