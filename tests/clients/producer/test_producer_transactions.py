"""The transactional calls of KafkaProducer while no broker answers."""

import asyncio

import pytest

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.consumer_group_metadata import ConsumerGroupMetadata
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.clients.producer.kafka_producer import KafkaProducer
from kraft_core.clients.producer.transaction_errors import IllegalState, ProducerFailed
from kraft_core.protocol.errors import KafkaError, RequestTimedOut
from tests.interop import kafka


def producer(**more: object) -> KafkaProducer:
    (port,) = kafka.free_ports(1)
    configs = {"bootstrap.servers": f"127.0.0.1:{port}", "transactional.id": "copy", "max.block.ms": 50}
    return KafkaProducer(configs | {name.replace("_", "."): value for name, value in more.items()})


def test_a_call_that_timed_out_can_only_be_repeated() -> None:
    async def story() -> None:
        sender = producer()
        for _ in range(2):
            with pytest.raises(RequestTimedOut, match=r"init_transactions\(\).*50 ms \(max\.block\.ms\).*repeat"):
                await sender.init_transactions()
        with pytest.raises(IllegalState, match=r"Repeat init_transactions\(\)"):
            await sender.begin_transaction()
        await sender.close(0)

    asyncio.run(story())


def test_a_call_that_was_cancelled_can_be_repeated() -> None:
    async def story() -> None:
        sender = producer(max_block_ms=60_000)
        call = asyncio.create_task(sender.init_transactions())
        await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        again = asyncio.create_task(sender.init_transactions())
        await asyncio.sleep(0.01)
        await sender.close(0)
        with pytest.raises(ProducerFailed, match="closed"):
            await again

    asyncio.run(story())


def test_a_closed_producer_takes_no_calls() -> None:
    async def story() -> None:
        sender = producer()
        await sender.close(0)
        for call in (sender.init_transactions, sender.begin_transaction, sender.commit_transaction):
            with pytest.raises(KafkaError, match="closed"):
                await call()

    asyncio.run(story())


def test_group_metadata_of_a_generation_names_its_member() -> None:
    async def story() -> None:
        sender = producer()
        offsets = {TopicPartition("in", 0): OffsetAndMetadata(1)}
        with pytest.raises(ValueError, match="generation_id 3 needs a member_id"):
            await sender.send_offsets_to_transaction(offsets, ConsumerGroupMetadata("readers", 3))
        with pytest.raises(IllegalState, match="needs a transaction"):
            await sender.send_offsets_to_transaction(offsets, ConsumerGroupMetadata("readers"))
        await sender.close(0)

    asyncio.run(story())


def test_a_record_outside_of_a_transaction_is_refused_before_anything_is_sent() -> None:
    async def story() -> None:
        sender = producer()
        with pytest.raises(IllegalState, match="not initialized"):
            await sender.send("t", b"v")
        await sender.close(0)

    asyncio.run(story())
