"""An unmodified Apache broker under one of our controllers, used by a client library."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.interop import conclave, kafka
from tests.interop.kafka import PATIENCE_S

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    kafka.require()
    folder: Path = tmp_path_factory.mktemp("apache-broker")
    with (
        conclave.running_quorum(folder, 1, broker_session_timeout_ms=3_600_000) as quorum,
        kafka.broker(folder / "broker", 101, quorum.bootstrap, quorum.cluster_id) as (process, address),
    ):
        process.wait_for_output("Kafka Server started")
        yield address


def settle(futures: dict[object, object]) -> None:
    for future in futures.values():
        future.result(PATIENCE_S)


def shows(condition: Callable[[], bool], what: str) -> None:
    """Wait until the broker has applied the change too: the controller answers first."""
    kafka.wait_until(condition, PATIENCE_S, what, not_yet=(KafkaException,))


def create(bootstrap: str, name: str, partitions: int) -> AdminClient:
    """Create a topic and wait until the broker has it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settle(admin.create_topics([NewTopic(name, partitions, 1)]))
    shows(lambda: name in admin.list_topics(timeout=10).topics, f"the broker knows {name}")
    return admin


def produce(producer: Producer, topic: str, values: list[str]) -> None:
    failures: list[object] = []
    for value in values:
        producer.produce(topic, key=value, value=value, callback=lambda error, _: error and failures.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []


def consume(bootstrap: str, topic: str, count: int, **settings: object) -> list[Message]:
    """Read `count` records in a group of the topic's name, and check for a moment that there are no others."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,  # otherwise there may be nothing left to commit, which is an error
            **settings,
        }
    )
    consumer.subscribe([topic])
    found: list[Message] = []

    def has_all(wait_s: float) -> bool:
        message = consumer.poll(wait_s)
        if message is not None:
            if message.error():
                raise KafkaException(message.error())  # the client continues after it
            found.append(message)
        return len(found) >= count

    try:
        kafka.wait_until(lambda: has_all(0.5), PATIENCE_S, f"{count} records", 0, (KafkaException,))
        shows(lambda: has_all(1), "the broker is asked for more")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


def test_a_group_consumes_what_an_idempotent_producer_wrote(bootstrap: str) -> None:
    admin = create(bootstrap, "orders", 3)
    values = [f"order-{number}" for number in range(200)]
    produce(Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True}), "orders", values)
    found = consume(bootstrap, "orders", 200)
    assert sorted(message.value().decode() for message in found) == sorted(values)
    assert {message.partition() for message in found} == {0, 1, 2}
    group = admin.list_consumer_groups().result(PATIENCE_S)
    assert "orders" in {listing.group_id for listing in group.valid}


def test_a_transaction_is_visible_as_a_whole_or_not_at_all(bootstrap: str) -> None:
    create(bootstrap, "payments", 2)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "payments-1"})
    producer.init_transactions(PATIENCE_S)
    for prefix, finish in (("kept", producer.commit_transaction), ("dropped", producer.abort_transaction)):
        producer.begin_transaction()
        produce(producer, "payments", [f"{prefix}-{number}" for number in range(10)])
        finish(PATIENCE_S)
    found = consume(bootstrap, "payments", 10, **{"isolation.level": "read_committed"})
    assert sorted(message.value().decode() for message in found) == sorted(f"kept-{number}" for number in range(10))


def test_a_config_change_reaches_the_broker(bootstrap: str) -> None:
    admin = create(bootstrap, "configured", 1)
    entry = ConfigEntry("retention.ms", "123456", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "configured", incremental_configs=[entry])
    settle(admin.incremental_alter_configs([resource]))

    def value() -> bool:
        described = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "configured")])
        return next(iter(described.values())).result(30)["retention.ms"].value == "123456"

    shows(value, "the broker shows the new retention.ms")


def test_an_invalid_config_is_rejected_with_its_reason(bootstrap: str) -> None:
    admin = create(bootstrap, "refused", 1)
    entry = ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "refused", incremental_configs=[entry])
    with pytest.raises(KafkaException, match=r"(?s)INVALID_CONFIG.*retention\.ms"):
        settle(admin.incremental_alter_configs([resource]))


def test_a_topic_gets_partitions_and_is_deleted(bootstrap: str) -> None:
    admin = create(bootstrap, "passing", 2)
    settle(admin.create_partitions([NewPartitions("passing", 5)]))

    def partitions() -> int:
        topic = admin.list_topics(timeout=10).topics.get("passing")
        return 0 if topic is None else len(topic.partitions)

    shows(lambda: partitions() == 5, "the topic has 5 partitions")
    with pytest.raises(KafkaException, match="INVALID_PARTITIONS"):
        settle(admin.create_partitions([NewPartitions("passing", 4)]))
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        settle(admin.create_topics([NewTopic("passing", 1, 1)]))
    settle(admin.delete_topics(["passing"]))
    shows(lambda: partitions() == 0, "the topic is gone")


def test_records_are_deleted_up_to_an_offset(bootstrap: str) -> None:
    admin = create(bootstrap, "trimmed", 1)
    produce(Producer({"bootstrap.servers": bootstrap}), "trimmed", [f"record-{number}" for number in range(10)])
    settle(admin.delete_records([TopicPartition("trimmed", 0, 4)]))
    found = consume(bootstrap, "trimmed", 6)
    assert [message.offset() for message in found] == [4, 5, 6, 7, 8, 9]
