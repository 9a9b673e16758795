"""The clients of this project."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.client_worker import PACE_S, WARM_UP, Job, age_ms, resident_mb, stamp
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.kafka_consumer import KafkaConsumer
from kraft_core.clients.producer.kafka_producer import KafkaProducer


def _producer(job: Job, linger_ms: int = 5) -> KafkaProducer:
    return KafkaProducer({"bootstrap.servers": job.address, "linger.ms": linger_ms, "batch.size": 16_384})


@asynccontextmanager
async def _consumer(job: Job) -> AsyncIterator[KafkaConsumer]:
    configs = {"bootstrap.servers": job.address, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    async with KafkaConsumer(configs) as consumer:
        consumer.assign([TopicPartition(job.topic, partition) for partition in range(job.partitions)])
        yield consumer


async def _produce(job: Job) -> None:
    async with _producer(job) as producer:
        for _ in range(WARM_UP):
            await producer.send(job.topic, job.value)
        await producer.flush()
        job.start()
        value = job.value
        for _ in range(job.count):
            await producer.send(job.topic, value)
        await producer.flush()
        job.stop(job.count)


async def _consume(job: Job) -> None:
    async with _consumer(job) as consumer:
        read = 0
        while read < WARM_UP:
            read += sum(map(len, (await consumer.poll(1_000)).values()))
        job.start()
        read = 0
        while read < job.count:
            for records in (await consumer.poll(1_000)).values():
                for record in records:
                    assert len(record.value or b"") == job.size
                read += len(records)
        job.stop(read)


async def _latency(job: Job) -> None:
    found: list[float] = []
    async with _consumer(job) as consumer, _producer(job, 0) as producer:

        async def read() -> None:
            while len(found) <= job.count:
                for records in (await consumer.poll(1_000)).values():
                    found.extend([age_ms(record.value) for record in records])

        reading = asyncio.create_task(read())
        await producer.send(job.topic, stamp())
        while not found:  # the consumer takes its time to find the end of the log
            await asyncio.sleep(PACE_S)
        for _ in range(job.count):
            await asyncio.sleep(PACE_S)
            await producer.send(job.topic, stamp())
        await reading
    job.result = {"latencies_ms": found[1:]}


async def _partitions(job: Job) -> None:
    before = resident_mb()
    async with _producer(job) as producer:
        for partition in range(job.count):
            await producer.send(job.topic, job.value, partition=partition)
        await producer.flush()
        async with _consumer(job) as consumer:
            read = 0
            while read < job.count:
                read += sum(map(len, (await consumer.poll(1_000)).values()))
            job.result = {"megabytes": resident_mb() - before}


class Ours:
    """The jobs by the clients of this project."""

    def produce(self, job: Job) -> None:
        asyncio.run(_produce(job))

    def consume(self, job: Job) -> None:
        asyncio.run(_consume(job))

    def latency(self, job: Job) -> None:
        asyncio.run(_latency(job))

    def partitions(self, job: Job) -> None:
        asyncio.run(_partitions(job))
