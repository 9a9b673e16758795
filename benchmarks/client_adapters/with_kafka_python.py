"""kafka-python."""

import time
from threading import Thread

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from benchmarks.client_worker import PACE_S, WARM_UP, Job, age_ms, resident_mb, stamp


def _producer(job: Job, linger_ms: int = 5) -> KafkaProducer:
    return KafkaProducer(
        bootstrap_servers=job.address, acks="all", enable_idempotence=True, linger_ms=linger_ms, batch_size=16_384
    )


def _consumer(job: Job) -> KafkaConsumer:
    consumer = KafkaConsumer(bootstrap_servers=job.address, enable_auto_commit=False, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(job.topic, partition) for partition in range(job.partitions)])
    return consumer


class WithKafkaPython:
    """The jobs by kafka-python."""

    def produce(self, job: Job) -> None:
        producer = _producer(job)
        for _ in range(WARM_UP):
            producer.send(job.topic, job.value)
        producer.flush()
        job.start()
        value = job.value
        for _ in range(job.count):
            producer.send(job.topic, value)
        producer.flush()
        job.stop(job.count)
        producer.close()

    def consume(self, job: Job) -> None:
        consumer = _consumer(job)
        read = 0
        while read < WARM_UP:
            read += sum(map(len, consumer.poll(timeout_ms=1_000).values()))
        job.start()
        read = 0
        while read < job.count:
            for records in consumer.poll(timeout_ms=1_000).values():
                for record in records:
                    assert len(record.value) == job.size
                read += len(records)
        job.stop(read)
        consumer.close()

    def latency(self, job: Job) -> None:
        consumer = _consumer(job)
        found: list[float] = []

        def read() -> None:
            while len(found) <= job.count:
                for records in consumer.poll(timeout_ms=1_000).values():
                    found.extend(age_ms(record.value) for record in records)

        reading = Thread(target=read)
        reading.start()
        producer = _producer(job, 0)
        producer.send(job.topic, stamp())
        while not found:  # the consumer takes its time to find the end of the log
            time.sleep(PACE_S)
        for _ in range(job.count):
            time.sleep(PACE_S)
            producer.send(job.topic, stamp())
        reading.join()
        producer.close()
        consumer.close()
        job.result = {"latencies_ms": found[1:]}

    def partitions(self, job: Job) -> None:
        before = resident_mb()
        producer = _producer(job)
        for partition in range(job.count):
            producer.send(job.topic, job.value, partition=partition)
        producer.flush()
        consumer = _consumer(job)
        read = 0
        while read < job.count:
            read += sum(map(len, consumer.poll(timeout_ms=1_000).values()))
        job.result = {"megabytes": resident_mb() - before}
        producer.close()
        consumer.close()
