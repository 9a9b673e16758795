"""aiokafka."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from benchmarks.client_worker import PACE_S, WARM_UP, Job, age_ms, resident_mb, stamp


def _producer(job: Job, linger_ms: int = 5) -> AIOKafkaProducer:
    return AIOKafkaProducer(
        bootstrap_servers=job.address, acks="all", enable_idempotence=True, linger_ms=linger_ms, max_batch_size=16_384
    )


async def _consumer(job: Job) -> AIOKafkaConsumer:
    consumer = AIOKafkaConsumer(bootstrap_servers=job.address, enable_auto_commit=False, auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign([TopicPartition(job.topic, partition) for partition in range(job.partitions)])
    return consumer


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
    consumer = await _consumer(job)
    try:
        read = 0
        while read < WARM_UP:
            read += sum(map(len, (await consumer.getmany(timeout_ms=1_000, max_records=500)).values()))
        job.start()
        read = 0
        while read < job.count:
            for records in (await consumer.getmany(timeout_ms=1_000, max_records=500)).values():
                for record in records:
                    assert len(record.value) == job.size
                read += len(records)
        job.stop(read)
    finally:
        await consumer.stop()


async def _latency(job: Job) -> None:
    consumer = await _consumer(job)
    found: list[float] = []

    async def read() -> None:
        while len(found) <= job.count:
            for records in (await consumer.getmany(timeout_ms=1_000)).values():
                found.extend(age_ms(record.value) for record in records)

    reading = asyncio.create_task(read())
    async with _producer(job, 0) as producer:
        await producer.send(job.topic, stamp())
        while not found:  # the consumer takes its time to find the end of the log
            await asyncio.sleep(PACE_S)
        for _ in range(job.count):
            await asyncio.sleep(PACE_S)
            await producer.send(job.topic, stamp())
        await reading
    await consumer.stop()
    job.result = {"latencies_ms": found[1:]}


async def _partitions(job: Job) -> None:
    before = resident_mb()
    async with _producer(job) as producer:
        for partition in range(job.count):
            await producer.send(job.topic, job.value, partition=partition)
        await producer.flush()
        consumer = await _consumer(job)
        read = 0
        while read < job.count:
            read += sum(map(len, (await consumer.getmany(timeout_ms=1_000, max_records=500)).values()))
        job.result = {"megabytes": resident_mb() - before}
        await consumer.stop()


class WithAiokafka:
    """The jobs by aiokafka."""

    def produce(self, job: Job) -> None:
        asyncio.run(_produce(job))

    def consume(self, job: Job) -> None:
        asyncio.run(_consume(job))

    def latency(self, job: Job) -> None:
        asyncio.run(_latency(job))

    def partitions(self, job: Job) -> None:
        asyncio.run(_partitions(job))
