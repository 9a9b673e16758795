"""A combined node with several log directories."""

import asyncio
import time
import uuid
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kraft_core.clients.metadata_observer import MetadataObserver
from kraft_core.storage.meta_properties import read_meta_properties
from tests.interop.embedded.embedded_node import EmbeddedNode, running_node
from tests.interop.kafka import PATIENCE_S


async def recorded_directories(node: EmbeddedNode, topic: str, partitions: int) -> set[uuid.UUID]:
    """Return the directories in the metadata log, once none is unassigned."""
    observer = MetadataObserver([("127.0.0.1", node.controller_port)])
    observer.start()
    try:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = observer.image.topics.topic(topic)
            if found is not None and len(found.partitions) == partitions:
                directories = {partition.directories[0] for _, partition in found.sorted_partitions()}
                if all(directory.int > 100 for directory in directories):
                    return directories
            await asyncio.sleep(0.05)
    finally:
        await observer.stop()
    raise AssertionError("some directory was never assigned")


def test_new_replicas_spread_over_the_directories_and_are_reported_to_the_controller(tmp_path: Path) -> None:
    second = tmp_path / "second"
    second.mkdir()
    node_folder = tmp_path / "node"
    with running_node(node_folder, log_dirs=f"{node_folder / 'data'},{second}") as node:
        admin = AdminClient({"bootstrap.servers": node.address})
        admin.create_topics([NewTopic("spread", 4, 1)])["spread"].result(PATIENCE_S)
        producer = Producer({"bootstrap.servers": node.address})
        for partition in range(4):
            producer.produce("spread", b"v", partition=partition)
        assert producer.flush(PATIENCE_S) == 0

        directories = asyncio.run(recorded_directories(node, "spread", 4))

        ids = {properties.directory_id for each in (node.data, second) if (properties := read_meta_properties(each))}
        assert directories == ids
        assert len(list(node.data.glob("spread-*"))) == len(list(second.glob("spread-*"))) == 2
        node.terminate()
        assert (second / ".kafka_cleanshutdown").exists()
        node.start()
        assert asyncio.run(recorded_directories(node, "spread", 4)) == ids
