"""Batches expire at their delivery timeout, wherever they are."""

from uuid import UUID

import pytest

from kraft_core.clients.producer.record_accumulator import AccumulatorConfig
from kraft_core.protocol.errors import ErrorCode
from tests.clients.producer.producer_world import PartitionAnswer, World


def test_batches_that_are_queued_again_in_another_order_expire_in_time() -> None:
    """Several requests in flight fail one after the other; Kafka puts each batch first, so the oldest is behind."""
    config = AccumulatorConfig(batch_size=0, linger_ms=0, delivery_timeout_ms=1_000, retry_backoff_ms=400)
    world = World({"t": (UUID(int=7), {0: 1})}, accumulator_config=config)
    refused = PartitionAnswer(index=0, error_code=ErrorCode.NOT_ENOUGH_REPLICAS)
    world.verdict = lambda _partition, _batch: refused
    sent = []
    for _ in range(3):
        sent.append((world.now_ms, world.send()))
        world.run(100)
    for since_ms, each in sent:
        world.run(since_ms + 1_000 - world.now_ms)
        assert each.error is not None
        assert each.error.code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("now_ms", [528.042, 2031.169, 1328.042])
def test_a_batch_expires_at_the_deadline_that_the_sender_names_whatever_the_rounding(now_ms: float) -> None:
    config = AccumulatorConfig(linger_ms=10_000, delivery_timeout_ms=300)
    world = World({"t": (UUID(int=7), {0: 1})}, accumulator_config=config)
    world.run()
    world.now_ms = now_ms
    sent = world.send()
    world.sender.step(world.now_ms)
    due = world.sender.next_deadline_ms(world.now_ms)
    assert due is not None
    world.sender.step(due)
    assert sent.error is not None
