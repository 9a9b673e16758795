"""Two Apache brokers start, stop and die under one of our controllers; the state is read from its log."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest

from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.metadata_loader import MetadataLoader
from kraft_core.protocol.record_batch import read_batches
from tests.interop import conclave, kafka

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]  # several waits, which are usually short

PARTITIONS = 6
SESSION_MS = 18_000
"""Twice Kafka's default, so that a busy machine does not end the session of a living broker."""


def image_in(folder: Path) -> MetadataImage:
    """Return the image of the log that the controller has written so far."""
    loader = MetadataLoader()
    (segment,) = sorted((folder / "data" / "__cluster_metadata-0").glob("*.log"))
    for batch in read_batches(segment.read_bytes()):
        loader.apply_batch(batch)
    return loader.image


def leaders(image: MetadataImage) -> set[int]:
    topic = image.topics.topic("t")
    return set() if topic is None else {partition.leader for partition in topic.partitions.values()}


def isrs(image: MetadataImage) -> set[frozenset[int]]:
    topic = image.topics.topic("t")
    return set() if topic is None else {frozenset(partition.isr) for partition in topic.partitions.values()}


async def create_topic(bootstrap: str) -> None:
    client = conclave.controller_client(bootstrap)
    try:
        answer = await client.request(conclave.create_topics(["t"], PARTITIONS, 2))
        assert [topic.error_code for topic in answer.topics] == [0]
    finally:
        client.close()


def test_brokers_shut_down_restart_and_are_fenced_when_killed(tmp_path: Path) -> None:
    """A controlled shutdown moves leaders; a restart refills the ISRs; after kill -9 the session ends."""
    kafka.require()
    with ExitStack() as stack:
        quorum = stack.enter_context(conclave.running_quorum(tmp_path, 1, broker_session_timeout_ms=SESSION_MS))
        controller = quorum.folder_of(1)
        processes = {}
        for broker_id in (101, 102):
            processes[broker_id], _ = stack.enter_context(
                kafka.broker(tmp_path / f"broker-{broker_id}", broker_id, quorum.bootstrap, quorum.cluster_id)
            )
        for process in processes.values():
            process.wait_for_output("Kafka Server started")
        asyncio.run(create_topic(quorum.bootstrap))
        assert leaders(image_in(controller)) == {101, 102}

        assert processes[101].stop() in {0, 143}
        image = image_in(controller)
        assert image.cluster.brokers[101].fenced
        assert image.cluster.brokers[101].in_controlled_shutdown
        assert leaders(image) == {102}
        assert isrs(image) == {frozenset({102})}

        stack.enter_context(kafka.start("broker-101-again", tmp_path / "broker-101" / "server.properties"))
        both = {frozenset({101, 102})}
        kafka.wait_until(lambda: isrs(image_in(controller)) == both, 2 * kafka.PATIENCE_S, "the ISRs to grow again")
        assert image_in(controller).cluster.brokers[101].epoch > image.cluster.brokers[101].epoch

        def without_102() -> MetadataImage | None:
            found = image_in(controller)
            return found if found.cluster.brokers[102].fenced else None

        processes[102].kill()
        image = kafka.wait_until(without_102, kafka.PATIENCE_S, "the dead broker to be fenced")
        assert leaders(image) == {101}
        assert isrs(image) == {frozenset({101})}
