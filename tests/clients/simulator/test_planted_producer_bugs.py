"""Planted bugs of the producer; the simulator must catch each by the invariant that it breaks."""

import pytest

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.producer.buffer_pool import BufferPool
from kraft_core.clients.producer.producer_batch import ProducerBatch
from kraft_core.clients.producer.producer_sequences import ProducerSequences
from kraft_core.clients.producer.record_accumulator import RecordAccumulator
from kraft_core.clients.producer.sender import PartitionResponse, Sender
from tests.clients.simulator.planted import caught

pytestmark = pytest.mark.simulator

ORDERED = {"idempotent": False, "acks": -1, "max_in_flight": 1, "is_ordered": True}
IDEMPOTENT = {"idempotent": True, "acks": -1, "max_in_flight": 5}
FAULTS = ("election", "kill_broker", "reset", "lose_answer", "cut_request", "refuse_before", "lag", "stale")


def test_no_alarm_without_a_bug() -> None:
    assert caught("producer", 20, *FAULTS) == ""


def test_a_buffer_that_is_not_returned_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of a batch that was sent again is lost."""
    original = RecordAccumulator.deallocate

    def deallocate(self: RecordAccumulator, batch: ProducerBatch) -> None:
        if not batch.attempts:
            original(self, batch)

    monkeypatch.setattr(RecordAccumulator, "deallocate", deallocate)
    assert "memory was not returned" in caught("producer", 20, *FAULTS)


def test_a_pool_without_a_limit_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def allocate(self: BufferPool, size: int) -> bool:
        self.available_bytes -= size
        return True

    monkeypatch.setattr(BufferPool, "allocate", allocate)
    assert "the pool is overdrawn" in caught("producer", 20, *FAULTS)


def test_a_batch_in_flight_that_is_lost_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that fails completes none of its batches."""
    original = Sender._complete_batch

    def complete(self: Sender, batch: ProducerBatch, response: PartitionResponse, now_ms: float) -> None:
        if response.error_code != 13:  # NETWORK_EXCEPTION
            original(self, batch, response, now_ms)

    monkeypatch.setattr(Sender, "_complete_batch", complete)
    monkeypatch.setattr(Sender, "_expired_in_flight_batches", lambda _self, _now_ms: [])
    assert caught("producer", 20, *FAULTS)


def test_an_acknowledgement_before_the_answer_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch whose connection ended counts as written."""
    original = Sender._complete_batch

    def complete(self: Sender, batch: ProducerBatch, response: PartitionResponse, now_ms: float) -> None:
        is_lost = response.error_code == 13
        original(self, batch, PartitionResponse(base_offset=-1) if is_lost else response, now_ms)

    monkeypatch.setattr(Sender, "_complete_batch", complete)
    assert "acknowledged records are missing" in caught("producer", 40, *FAULTS)


def test_a_retry_that_overtakes_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that failed is queued last, also where order is promised."""

    def put_back(self: RecordAccumulator, batch: ProducerBatch) -> None:
        self._queue(batch.topic_partition).append(batch)

    monkeypatch.setattr(RecordAccumulator, "_put_back", put_back)
    assert "out of order" in caught("producer", 40, *FAULTS, **ORDERED)


def test_a_batch_that_never_expires_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerBatch, "has_reached_delivery_timeout", lambda _self, _timeout_ms, _now_ms: False)
    monkeypatch.setattr(RecordAccumulator, "maybe_update_next_batch_expiry_time", lambda _self, _batch: None)
    assert "delivery timeout" in caught("producer", 40, *FAULTS, "shrink")


def test_an_offset_of_another_record_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ProducerBatch.complete

    def complete(self: ProducerBatch, base_offset: int, log_append_time: int) -> bool:
        return original(self, base_offset + 1, log_append_time)

    monkeypatch.setattr(ProducerBatch, "complete", complete)
    assert "not at their offsets" in caught("producer", 20, *FAULTS)


# Idempotence


def test_a_sequence_that_is_used_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counter forgets a batch now and then. The next one has the same numbers."""
    original = ProducerSequences.increment_sequence_number

    def increment(self: ProducerSequences, partition: TopicPartition, increment: int) -> None:
        if self.sequence_number(partition) % 5 != 4:
            original(self, partition, increment)

    monkeypatch.setattr(ProducerSequences, "increment_sequence_number", increment)
    assert caught("producer", 40, *FAULTS, **IDEMPOTENT, batch_size=0)


def test_a_retry_with_another_sequence_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is sent again gets the next number, as if it were new."""
    original = RecordAccumulator.reenqueue

    def reenqueue(self: RecordAccumulator, batch: ProducerBatch, now_ms: float) -> None:
        manager, partition = self.transaction_manager, batch.topic_partition
        if manager is not None:
            manager.remove_in_flight_batch(batch)
            batch.reset_producer_state(manager.producer_id_and_epoch, manager.sequence_number(partition))
            manager.increment_sequence_number(partition, batch.record_count)
            manager.add_in_flight_batch(batch)
        original(self, batch, now_ms)

    monkeypatch.setattr(RecordAccumulator, "reenqueue", reenqueue)
    assert caught("producer", 40, *FAULTS, **IDEMPOTENT)


def test_a_retry_that_is_sent_before_an_earlier_one_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches with sequences are not put back in their order, and not held back for the first one."""

    def put_back(self: RecordAccumulator, batch: ProducerBatch) -> None:
        self._queue(batch.topic_partition).appendleft(batch)

    monkeypatch.setattr(RecordAccumulator, "_put_back", put_back)
    monkeypatch.setattr(ProducerSequences, "first_in_flight_sequence", lambda _self, _partition: -1)
    monkeypatch.setattr(ProducerSequences, "is_first_batch_in_flight", lambda _self, _partition: False)
    assert caught("producer", 100, *FAULTS, **IDEMPOTENT)


def test_a_second_batch_before_the_first_is_acknowledged_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that does not know the producer refuses the first batch, but takes the second one."""
    monkeypatch.setattr(ProducerSequences, "is_first_batch_in_flight", lambda _self, _partition: False)
    refusals = ("shrink", "refuse_before", "slow", "stale")
    times = {"delivery_timeout_ms": 20_000, "request_timeout_ms": 2_000, "retries": 2**31 - 1}
    assert "out of order" in caught("producer", 40, *refusals, **IDEMPOTENT, **times, batch_size=0, linger_ms=0)


def test_more_batches_in_flight_than_brokers_remember_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new leader writes five batches more, and no longer knows those that the old one wrote without an answer."""
    monkeypatch.setattr(ProducerSequences, "must_await_earlier_batches", lambda _self, _partition: False)
    times = {"delivery_timeout_ms": 20_000, "request_timeout_ms": 5_000, "retries": 2**31 - 1}
    found = caught("producer", 200, "election", "stall", **IDEMPOTENT, **times, batch_size=0, linger_ms=0)
    assert "two copies" in found
