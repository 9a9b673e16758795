"""Creating the logs of a topic with many partitions must not block the node."""

from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop import kafka
from tests.interop.embedded.embedded_node import running_node


def test_each_of_a_thousand_partitions_accepts_records_and_is_deleted_with_its_topic(tmp_path: Path) -> None:
    with running_node(tmp_path / "node", log_segment_delete_delay_ms=0) as node:
        admin = AdminClient({"bootstrap.servers": node.address})
        admin.create_topics([NewTopic("wide", 1_000, 1)])["wide"].result(kafka.PATIENCE_S)
        errors: list[object] = []
        producer = Producer({"bootstrap.servers": node.address})
        for partition in range(1_000):
            producer.produce("wide", b"v", partition=partition, on_delivery=lambda error, message: errors.append(error))
        assert producer.flush(kafka.PATIENCE_S) == 0
        assert errors == [None] * 1_000

        admin.delete_topics(["wide"])["wide"].result(kafka.PATIENCE_S)

        kafka.wait_until(lambda: not list(node.data.glob("wide-*")), kafka.PATIENCE_S, "the folders are gone")
