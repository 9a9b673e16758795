"""Planted bugs of the consumer and of its group; the simulator must catch each by the invariant that it breaks."""

from typing import Any

import pytest

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer import fetch_session_handler
from kraft_core.clients.consumer.completed_fetch import CompletedFetch
from kraft_core.clients.consumer.consumer_core import ConsumerCore
from kraft_core.clients.consumer.consumer_membership_manager import ConsumerMembershipManager, LocalAssignment
from kraft_core.clients.consumer.fetcher import Fetcher
from kraft_core.clients.consumer.group_errors import CommitFailed, RetriableCommitFailed
from kraft_core.clients.consumer.group_offsets import GroupOffsets
from kraft_core.clients.consumer.subscription_state import SubscriptionState
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.protocol.errors import KafkaError
from tests.clients.simulator.planted import caught

pytestmark = pytest.mark.simulator

FAULTS = ("election", "reset", "lose_answer", "refuse_before", "lag", "lose_session", "move_coordinator")


def test_no_alarm_without_a_bug() -> None:
    assert caught("group", 5, *FAULTS) == ""
    assert caught("consumer", 5, *FAULTS) == ""
    assert caught("members", 5, *FAULTS) == ""


def test_a_commit_before_delivery_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is committed is behind the fetched records, not behind those given out."""
    original = SubscriptionState.all_consumed

    def all_consumed(self: SubscriptionState) -> dict[TopicPartition, OffsetAndMetadata]:
        found = original(self)
        return {
            partition: OffsetAndMetadata(self.state(partition).high_watermark or offset.offset)
            for partition, offset in found.items()
        }

    monkeypatch.setattr(SubscriptionState, "all_consumed", all_consumed)
    assert "committed before its records were given" in caught("group", 20, *FAULTS)


def test_a_rebalance_that_keeps_revoked_partitions_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = SubscriptionState.assign_from_subscribed_awaiting_callback

    def assign(self: SubscriptionState, partitions: Any, *rest: Any) -> Any:
        return original(self, {*partitions, *self.assigned_partitions()}, *rest)

    monkeypatch.setattr(SubscriptionState, "assign_from_subscribed_awaiting_callback", assign)
    monkeypatch.setattr(SubscriptionState, "assign_from_subscribed", lambda _self, _partitions: None)
    assert caught("group", 20, *FAULTS)


def test_a_member_that_keeps_revoked_partitions_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = SubscriptionState.assign_from_subscribed_awaiting_callback

    def assign(self: SubscriptionState, partitions: Any, *rest: Any) -> Any:
        return original(self, {*partitions, *self.assigned_partitions()}, *rest)

    monkeypatch.setattr(SubscriptionState, "assign_from_subscribed_awaiting_callback", assign)
    assert "two members own a partition" in caught("members", 20, *FAULTS)


def test_a_member_that_acknowledges_before_its_listener_has_ended_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ConsumerMembershipManager._reconcile

    def reconcile(self: ConsumerMembershipManager, resolved: LocalAssignment, *rest: Any) -> Any:
        self.current_assignment = resolved
        return original(self, resolved, *rest)

    monkeypatch.setattr(ConsumerMembershipManager, "_reconcile", reconcile)
    assert "two members own a partition" in caught("members", 40, *FAULTS)


def test_a_refused_commit_that_counts_as_done_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its member epoch was stale, or its member was removed."""
    original = GroupOffsets._commit_error

    def commit_error(self: GroupOffsets, *rest: Any) -> KafkaError | None:
        error = original(self, *rest)
        return None if isinstance(error, CommitFailed | RetriableCommitFailed) else error

    monkeypatch.setattr(GroupOffsets, "_commit_error", commit_error)
    assert "did not accept" in caught("members", 40, *FAULTS)


def test_a_position_that_skips_a_record_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Fetcher._fetch_records

    def fetch_records(self: Fetcher, fetch: Any, count: int) -> Any:
        records = original(self, fetch, count)
        return records[1:] if len(records) > 3 else records

    monkeypatch.setattr(Fetcher, "_fetch_records", fetch_records)
    assert "records are left out" in caught("consumer", 20, *FAULTS)


def test_records_that_are_given_twice_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Fetcher._fetch_records

    def fetch_records(self: Fetcher, fetch: Any, count: int) -> Any:
        records = original(self, fetch, count)
        return [*records, *records[-1:]]

    monkeypatch.setattr(Fetcher, "_fetch_records", fetch_records)
    assert "given again" in caught("consumer", 20, *FAULTS)


def test_records_of_aborted_transactions_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompletedFetch, "_is_left_out", lambda _self, batch: batch.is_control)
    assert "aborted transaction" in caught("consumer", 40, *FAULTS)


def test_a_closed_consumer_that_is_due_without_end_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """It once was: a fetch that was due is not sent any more."""
    monkeypatch.setattr(ConsumerCore, "next_deadline_ms", lambda _self, now_ms: now_ms)
    assert "spins" in caught("consumer", 5)


def test_a_fetch_that_names_partitions_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = fetch_session_handler._topics
    monkeypatch.setattr(fetch_session_handler, "_topics", lambda named: original(named) * 2)
    assert "a partition twice in a fetch" in caught("consumer", 5)
