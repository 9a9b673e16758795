"""Apache's clients, tools and broker on the listener and the data of an embedded node."""

import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.interop import kafka
from tests.interop.embedded.embedded_node import EmbeddedNode, running_node

pytestmark = pytest.mark.interop

PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
DUMP = "org.apache.kafka.tools.DumpLogSegments"


def write(node: EmbeddedNode, topic: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": node.address, "enable.idempotence": True})
    for number in range(first, first + count):
        producer.produce(topic, b"value-%d" % number, partition=0)
    assert producer.flush(kafka.PATIENCE_S) == 0


def read(node: EmbeddedNode, topic: str, count: int, *more: str) -> list[str]:
    printed = kafka.tool(
        CONSUMER,
        "--bootstrap-server",
        node.address,
        "--topic",
        topic,
        "--max-messages",
        str(count),
        "--timeout-ms",
        "90000",
        *more,
    )
    return [line for line in printed.splitlines() if line.startswith("value-")]


def committed(node: EmbeddedNode, group: str) -> int:
    """Return CURRENT-OFFSET of partition 0."""
    printed = kafka.tool(GROUPS, "--bootstrap-server", node.address, "--describe", "--group", group)
    row = next(line.split() for line in printed.splitlines() if line.startswith(group))
    return int(row[3])


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_apaches_console_clients_round_trip(tmp_path: Path, codec: str) -> None:
    kafka.require()
    topic = f"apache-{uuid.uuid4().hex[:6]}"
    lines = [f"value-{number}" for number in range(500)]
    with running_node(tmp_path / "node") as node:
        address = ("--bootstrap-server", node.address)
        kafka.tool(PRODUCER, *address, "--topic", topic, "--compression-codec", codec, stdin="\n".join(lines) + "\n")

        assert read(node, topic, 500, "--from-beginning", "--group", "apaches") == lines
        assert committed(node, "apaches") == 500


def test_apaches_dump_tool_reads_our_segments_and_offsets(tmp_path: Path) -> None:
    kafka.require()
    with running_node(tmp_path / "node") as node:
        write(node, "dumped", 0, 50)
        read(node, "dumped", 50, "--from-beginning", "--group", "dumpers")
        node.terminate()
        logs = ",".join(str(path) for path in sorted(node.data.glob("__consumer_offsets-*/*.log")))

        records = kafka.tool(DUMP, "--print-data-log", "--files", str(node.data / "dumped-0" / f"{0:020d}.log"))
        offsets = kafka.tool(DUMP, "--offsets-decoder", "--files", logs)

    assert "payload: value-49" in records
    assert "isvalid: true" in records
    assert '"group":"dumpers","topic":"dumped","partition":0' in offsets
    assert '"offset":50' in offsets


@pytest.mark.parametrize("ending", ["terminate", "kill"])
def test_apaches_node_takes_over_our_folder_and_we_take_it_back(tmp_path: Path, ending: str) -> None:
    kafka.require()
    with running_node(tmp_path / "node") as node:
        write(node, "moved", 0, 300)
        read(node, "moved", 300, "--from-beginning", "--group", "movers")
        getattr(node, ending)()

        with kafka.start("apache", node.config) as apache:
            apache.wait_for_output("Kafka Server started")
            assert read(node, "moved", 300, "--from-beginning") == [f"value-{number}" for number in range(300)]
            assert committed(node, "movers") == 300
            write(node, "moved", 300, 100)
            getattr(apache, "stop" if ending == "terminate" else "kill")()

        node.start()
        assert read(node, "moved", 400, "--from-beginning") == [f"value-{number}" for number in range(400)]
        assert committed(node, "movers") == 300
        write(node, "moved", 400, 1)
