"""SubscriptionState: what is read, positions, resets, validation."""

import re
from itertools import product

import pytest

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.auto_offset_reset_strategy import (
    EARLIEST,
    LATEST,
    NONE,
    AutoOffsetResetStrategy,
)
from kraft_core.clients.consumer.consumer_errors import (
    InvalidSubscription,
    LogTruncation,
    NoOffsetForPartition,
    PartitionNotAssigned,
)
from kraft_core.clients.consumer.partition_state import (
    NEXT,
    FetchPosition,
    FetchState,
    LeaderAndEpoch,
    TopicPartitionState,
)
from kraft_core.clients.consumer.subscription_state import SubscriptionState
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.configs.config_def import ConfigException

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LEADER = LeaderAndEpoch(1, 5)


def assigned(strategy: AutoOffsetResetStrategy = LATEST) -> SubscriptionState:
    state = SubscriptionState(strategy)
    state.assign_from_user([T0, T1])
    return state


def test_topics_a_pattern_and_assigned_partitions_exclude_each_other() -> None:
    state = assigned()
    with pytest.raises(InvalidSubscription):
        state.subscribe(["t"])
    with pytest.raises(InvalidSubscription):
        state.subscribe_pattern(re.compile("t"))
    state.unsubscribe()
    state.subscribe(["t"])
    with pytest.raises(InvalidSubscription):
        state.assign_from_user([T0])


def test_partitions_that_stay_assigned_keep_their_positions() -> None:
    state = assigned()
    state.seek(T0, 7)
    state.assign_from_user([T0, TopicPartition("u", 0)])
    assert state.position(T0) == FetchPosition(7)
    assert state.position(TopicPartition("u", 0)) is None
    with pytest.raises(PartitionNotAssigned, match="t-1"):
        state.position(T1)


def test_a_pattern_matches_whole_names() -> None:
    state = SubscriptionState(LATEST)
    state.subscribe_pattern(re.compile("a.*"))
    assert state.matches_subscribed_pattern("abc")
    assert not state.matches_subscribed_pattern("ba")
    assert state.subscribe_from_pattern(["abc"])
    assert state.subscription == {"abc"}


def test_paused_revoked_and_not_yet_reported_partitions_are_not_fetchable() -> None:
    state = SubscriptionState(LATEST)
    state.subscribe(["t"])
    state.assign_from_subscribed_awaiting_callback([T0, T1], [T1])
    for partition in (T0, T1):
        state.seek(partition, 0)
    assert state.fetchable_partitions(lambda _: True) == [T0]
    state.enable_partitions_awaiting_callback([T1])
    state.pause(T0)
    assert state.fetchable_partitions(lambda _: True) == [T1]
    state.resume(T0)
    state.mark_pending_revocation([T1])
    assert state.fetchable_partitions(lambda _: True) == [T0]


def test_a_partition_of_a_topic_no_longer_subscribed_is_not_fetchable() -> None:
    state = SubscriptionState(LATEST)
    state.subscribe(["t"])
    state.assign_from_subscribed([T0])
    state.seek(T0, 0)
    state.subscribe(["u"])
    assert not state.is_fetchable(T0)


def test_without_a_position_the_reset_strategy_decides() -> None:
    state = assigned(EARLIEST)
    state.seek(T1, 3)
    state.reset_initializing_positions([T0, T1])
    assert state.partitions_needing_reset(0) == {T0: EARLIEST}
    with pytest.raises(NoOffsetForPartition, match="t-0, t-1"):
        assigned(NONE).reset_initializing_positions([T0, T1])


def test_a_seek_during_a_reset_wins() -> None:
    state = assigned(EARLIEST)
    state.request_offset_reset(T0)
    state.seek(T0, 42)
    state.maybe_seek_unvalidated(T0, FetchPosition(0), EARLIEST)
    assert state.position(T0) == FetchPosition(42)
    state.request_offset_reset(T0, LATEST)
    state.maybe_seek_unvalidated(T0, FetchPosition(0), EARLIEST)
    assert state.partitions_needing_reset(0) == {T0: LATEST}


def test_a_new_leader_epoch_makes_a_position_with_an_epoch_await_validation() -> None:
    state = assigned()
    state.seek_validated(T0, FetchPosition(10, 4, LeaderAndEpoch(1, 4)))
    assert state.maybe_validate_position_for_current_leader(T0, LEADER)
    assert not state.is_fetchable(T0)
    assert state.partitions_needing_validation(0) == {T0: FetchPosition(10, 4, LEADER)}
    state.maybe_complete_validation(T0, FetchPosition(10, 4, LEADER), 4, 10)
    assert state.is_fetchable(T0)


def test_a_position_without_an_epoch_moves_to_the_new_leader_unchecked() -> None:
    state = assigned()
    state.seek(T0, 10)
    assert not state.maybe_validate_position_for_current_leader(T0, LEADER)
    assert state.valid_position(T0) == FetchPosition(10, None, LEADER)


def test_a_truncated_log_moves_the_position_back_to_where_it_diverges() -> None:
    state = assigned()
    state.seek_unvalidated(T0, position := FetchPosition(10, 4, LEADER))
    assert state.maybe_complete_validation(T0, position, 3, 8) is None
    assert state.valid_position(T0) == FetchPosition(8, 3, LEADER)


def test_a_truncated_log_without_a_reset_strategy_is_an_error_with_the_divergent_offset() -> None:
    state = assigned(NONE)
    state.seek_unvalidated(T0, position := FetchPosition(10, 4, LEADER))
    truncation = state.maybe_complete_validation(T0, position, 3, 8)
    assert isinstance(truncation, LogTruncation)
    assert truncation.offsets == {T0: 10}
    assert truncation.divergent_offsets == {T0: OffsetAndMetadata(8, leader_epoch=3)}
    unknown = state.maybe_complete_validation(T0, position, -1, -1)
    assert unknown is not None
    assert unknown.divergent_offsets == {}


def test_the_validation_of_an_older_position_has_no_effect() -> None:
    state = assigned()
    state.seek_unvalidated(T0, asked := FetchPosition(10, 4, LEADER))
    state.seek_unvalidated(T0, FetchPosition(20, 4, LEADER))
    state.maybe_complete_validation(T0, asked, 3, 8)
    assert T0 in state.partitions_needing_validation(0)


def test_only_valid_positions_are_committed() -> None:
    state = assigned()
    state.seek_validated(T0, FetchPosition(10, 4, LEADER))
    state.request_offset_reset(T1)
    assert state.all_consumed() == {T0: OffsetAndMetadata(10, "", 4)}


@pytest.mark.parametrize(("before", "after"), list(product(FetchState, FetchState)))
def test_a_partition_changes_its_state_by_the_table(before: FetchState, after: FetchState) -> None:
    state = TopicPartitionState()
    state.position = FetchPosition(1, 1, LEADER)
    state.fetch_state = before
    match after:
        case FetchState.FETCHING:
            state.seek_validated(FetchPosition(1))
        case FetchState.AWAIT_RESET:
            state.reset(EARLIEST)
        case FetchState.AWAIT_VALIDATION:
            state.validate(FetchPosition(2, 1, LEADER))
        case FetchState.INITIALIZING:
            pass
    assert state.fetch_state is (after if after in NEXT[before] else before)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        ("none", NONE),
        ("by_duration:PT1H30M", AutoOffsetResetStrategy("by_duration", 5_400_000)),
        ("by_duration:P2DT0.5S", AutoOffsetResetStrategy("by_duration", 172_800_500)),
    ],
)
def test_auto_offset_reset_is_read(text: str, expected: AutoOffsetResetStrategy) -> None:
    assert AutoOffsetResetStrategy.from_text(text) == expected


@pytest.mark.parametrize("text", ["first", "by_duration:", "by_duration:1h", "by_duration:-PT1H", "by_duration:P"])
def test_an_unknown_auto_offset_reset_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ConfigException, match="'earliest', 'latest', 'none'"):
        AutoOffsetResetStrategy.from_text(text)


def test_a_reset_by_duration_asks_for_a_time_before_now() -> None:
    assert AutoOffsetResetStrategy("by_duration", 1000).timestamp_ms(5000) == 4000
    assert (EARLIEST.timestamp_ms(5000), LATEST.timestamp_ms(5000)) == (-2, -1)


def test_partitions_without_a_valid_position_are_known_through_all_changes() -> None:
    state = assigned(EARLIEST)
    assert state.initializing_partitions() == {T0, T1}
    state.seek(T0, 1)
    state.request_offset_reset(T1)
    assert state.partitions_needing_reset(0) == {T1: EARLIEST}
    state.assign_from_user([T0])
    assert state.partitions_needing_reset(0) == {}
    assert state.next_retry_ms() is None
    state.assign_from_user([T0, T1])
    assert state.initializing_partitions() == {T1}
    state.unsubscribe()
    assert state.initializing_partitions() == set()
