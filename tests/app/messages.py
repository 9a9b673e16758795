"""Topics with records for tests of the message browser."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from kraft_core.clients.producer.future_record_metadata import RecordMetadata
from kraft_core.clients.producer.kafka_producer import KafkaProducer
from tests.app.live import LiveWeb
from tests.interop import kafka

Message = dict[str, Any]
"""What KafkaProducer.send takes by name: value, key, partition, timestamp_ms, headers."""


def create(web: LiveWeb, topic: str, partitions: int = 1, **configs: str) -> str:
    """Create a topic, and return its name."""
    body = {
        "topic_name": topic,
        "partitions_count": partitions,
        "configs": [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()],
    }
    answer = web.client.post(f"{web.cluster}/topics", json=body)
    assert answer.status_code == 201, answer.text
    return topic


def write(broker: str, topic: str, messages: Iterable[Message], **configs: object) -> Sequence[RecordMetadata]:
    """Write records with our producer, and return where they are."""

    async def run() -> list[RecordMetadata]:
        settings = {"bootstrap.servers": broker, **{name.replace("_", "."): value for name, value in configs.items()}}
        async with KafkaProducer(settings) as producer:
            futures = [await producer.send(topic, **message) for message in messages]
            await producer.flush()
            return [await each for each in futures]

    return asyncio.run(run())


def get(web: LiveWeb, address: str, status: int = 200) -> str:
    """Return a page."""
    answer = web.client.get(address)
    assert answer.status_code == status, f"{address}: {answer.status_code} {answer.text[:2000]}"
    return answer.text


def wait_for_leaders(web: LiveWeb, topic: str) -> None:
    """Wait until every partition of a topic has a leader that this process knows."""

    def is_led() -> bool:
        found = web.services.cluster.image.topics.topic(topic)
        return found is not None and all(each.has_leader for _, each in found.sorted_partitions())

    kafka.wait_until(is_led, 60, f"{topic} has leaders", 0.02)
