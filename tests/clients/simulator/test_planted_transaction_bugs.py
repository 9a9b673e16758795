"""Planted bugs of transactions; the simulator must catch each by the invariant that it breaks."""

import pytest

from kraft_core.clients.producer.producer_id_and_epoch import NONE, ProducerIdAndEpoch
from kraft_core.clients.producer.record_accumulator import RecordAccumulator
from kraft_core.clients.producer.transaction_manager import TransactionManager
from kraft_core.clients.producer.transaction_result import TransactionalRequestResult
from kraft_core.clients.producer.txn_request_handlers import TxnRequestHandler
from kraft_core.protocol.errors import KafkaError
from tests.clients.simulator.planted import caught

pytestmark = pytest.mark.simulator

FAULTS = ("election", "kill_broker", "reset", "lose_answer", "refuse_before", "lag", "move_coordinator", "shrink")


def test_no_alarm_without_a_bug() -> None:
    assert caught("transactions", 10, *FAULTS) == ""
    assert caught("transactions", 10) == ""


def test_a_commit_that_is_never_sent_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each transaction counts as one in which nothing was written."""
    original = TransactionManager.next_request

    def next_request(
        self: TransactionManager, now_ms: float, *, has_incomplete_batches: bool
    ) -> TxnRequestHandler | None:
        self._is_transaction_started = False
        return original(self, now_ms, has_incomplete_batches=has_incomplete_batches)

    monkeypatch.setattr(TransactionManager, "next_request", next_request)
    assert "a committed record is missing" in caught("transactions", 20, *FAULTS)


def test_a_commit_before_all_batches_are_acknowledged_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = TransactionManager.next_request

    def next_request(
        self: TransactionManager, now_ms: float, *, has_incomplete_batches: bool
    ) -> TxnRequestHandler | None:
        assert isinstance(has_incomplete_batches, bool)
        return original(self, now_ms, has_incomplete_batches=False)

    monkeypatch.setattr(TransactionManager, "next_request", next_request)
    assert "a committed record is missing" in caught("transactions", 20)


def test_a_commit_after_a_batch_failed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def ignore(_self: TransactionManager, _error: KafkaError) -> None:
        return

    monkeypatch.setattr(TransactionManager, "maybe_transition_to_error_state", ignore)
    monkeypatch.setattr(TransactionManager, "abortable_error_if_possible", ignore)
    assert "a committed record is missing" in caught("transactions", 60, *FAULTS, "stale")


def test_offsets_that_are_not_sent_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def send_offsets(_self: TransactionManager, _offsets: object, _group: object) -> TransactionalRequestResult:
        result = TransactionalRequestResult()
        result.done()
        return result

    monkeypatch.setattr(TransactionManager, "send_offsets_to_transaction", send_offsets)
    assert "committed offsets are missing" in caught("transactions", 20, *FAULTS)


def test_an_abort_that_keeps_its_records_for_the_next_transaction_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """It neither drops the batches that were not sent, nor waits for them."""
    original = TransactionManager.next_request

    def next_request(
        self: TransactionManager, now_ms: float, *, has_incomplete_batches: bool
    ) -> TxnRequestHandler | None:
        has_to_wait = has_incomplete_batches and not self.is_aborting
        return original(self, now_ms, has_incomplete_batches=has_to_wait)

    monkeypatch.setattr(TransactionManager, "next_request", next_request)
    monkeypatch.setattr(RecordAccumulator, "abort_undrained_batches", lambda _self, _error: None)
    assert caught("transactions", 20)


def test_an_end_that_is_not_sent_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = TxnRequestHandler._retry

    def retry(self: TxnRequestHandler, backoff_ms: float | None = None) -> None:
        if not self.is_end_txn:
            original(self, backoff_ms)

    monkeypatch.setattr(TxnRequestHandler, "_retry", retry)
    assert "do not end what they began" in caught("transactions", 20, *FAULTS)


def test_an_epoch_that_is_not_taken_from_the_end_of_a_transaction_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """With TV2 the coordinator raises it at each end (KIP-890)."""
    original = TransactionManager.transaction_ended

    def ended(self: TransactionManager, _next: ProducerIdAndEpoch, result: TransactionalRequestResult) -> None:
        original(self, NONE, result)

    monkeypatch.setattr(TransactionManager, "transaction_ended", ended)
    assert "a producer fails without a cause" in caught("transactions", 20)
