"""librdkafka, through confluent-kafka."""

import time
from threading import Thread

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.client_worker import PACE_S, WARM_UP, Job, age_ms, resident_mb, stamp


def _producer(job: Job, linger_ms: int = 5) -> Producer:
    return Producer(
        {
            "bootstrap.servers": job.address,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": linger_ms,
            "batch.size": 16_384,
        }
    )


def _consumer(job: Job) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": job.address,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(job.topic, partition, 0) for partition in range(job.partitions)])
    return consumer


def _send(producer: Producer, topic: str, value: bytes, partition: int = -1) -> None:
    while True:
        try:
            producer.produce(topic, value, partition=partition)
        except BufferError:
            producer.poll(0.01)
        else:
            return


class WithLibrdkafka:
    """The jobs by librdkafka."""

    def produce(self, job: Job) -> None:
        producer = _producer(job)
        for _ in range(WARM_UP):
            _send(producer, job.topic, job.value)
        producer.flush()
        job.start()
        value = job.value
        for _ in range(job.count):
            _send(producer, job.topic, value)
        producer.flush()
        job.stop(job.count)

    def consume(self, job: Job) -> None:
        consumer = _consumer(job)
        read = 0
        while read < WARM_UP:
            read += len(consumer.consume(500, 1))
        job.start()
        read = 0
        while read < job.count:
            messages = consumer.consume(500, 1)
            for message in messages:
                assert len(message) == job.size
            read += len(messages)
        job.stop(read)
        consumer.close()

    def latency(self, job: Job) -> None:
        consumer = _consumer(job)
        found: list[float] = []

        def read() -> None:
            while len(found) <= job.count:
                message = consumer.poll(1)
                if message is not None:
                    found.append(age_ms(message.value()))

        reading = Thread(target=read)
        reading.start()
        producer = _producer(job, 0)
        _send(producer, job.topic, stamp())
        while not found:  # the consumer takes its time to find the end of the log
            time.sleep(PACE_S)
        for _ in range(job.count):
            time.sleep(PACE_S)
            _send(producer, job.topic, stamp())
            producer.poll(0)
        reading.join()
        consumer.close()
        job.result = {"latencies_ms": found[1:]}

    def partitions(self, job: Job) -> None:
        before = resident_mb()
        producer = _producer(job)
        for partition in range(job.count):
            _send(producer, job.topic, job.value, partition)
        producer.flush()
        consumer = _consumer(job)
        read = 0
        while read < job.count:
            read += len(consumer.consume(500, 1))
        job.result = {"megabytes": resident_mb() - before}
        consumer.close()
