"""Apache's kafka-metadata-shell opens a snapshot of ours and shows the metadata."""

import asyncio
import shutil
from pathlib import Path

import pytest

from kraft_core.protocol.messages import DescribeClusterRequest
from kraft_core.protocol.uuids import uuid_to_text
from tests.interop import conclave, kafka

pytestmark = pytest.mark.interop

CONTROLLERS = 2
"""EndpointType of DescribeCluster."""


def shell(snapshot: Path, *command: str) -> str:
    """Run one command of the shell on a snapshot, again while the shell has not read all of it."""

    def ran() -> str:
        printed = kafka.tool("org.apache.kafka.shell.MetadataShell", "--snapshot", str(snapshot), *command)
        found = "\n".join(line for line in printed.splitlines() if "Ignoring control record" not in line)
        return "" if "No such file or directory" in found else found

    return kafka.wait_until(ran, 2 * kafka.PATIENCE_S, f"the shell finds {command}")


async def make_topics(quorum: conclave.Quorum) -> str:
    """Wait for the controller's registration, register a broker and create topics. Return the id of one topic."""
    client = conclave.controller_client(quorum.bootstrap)
    try:
        controllers = DescribeClusterRequest(endpoint_type=CONTROLLERS)
        while not (await client.request(controllers)).brokers:  # the time limit of the test ends it
            await asyncio.sleep(0.05)
        await conclave.RawBroker(101, quorum.cluster_id, client).register()
        answer = await client.request(conclave.create_topics([f"topic-{number}" for number in range(30)], 2))
        assert {topic.error_code for topic in answer.topics} == {0}
        return uuid_to_text(next(topic.topic_id for topic in answer.topics if topic.name == "topic-7"))
    finally:
        client.close()


def test_the_shell_shows_topics_brokers_and_controllers_of_our_snapshot(tmp_path: Path) -> None:
    kafka.require()
    settings = {"metadata_log_max_record_bytes_between_snapshots": 2_000, "broker_session_timeout_ms": 3_600_000}
    with conclave.running_quorum(tmp_path, 1, **settings) as quorum:
        topic_id = asyncio.run(make_topics(quorum))
        folder = quorum.folder_of(1) / "data" / "__cluster_metadata-0"
        snapshot = kafka.wait_until(
            lambda: next((path for path in sorted(folder.glob("*.checkpoint")) if path.stat().st_size > 3_000), None),
            kafka.PATIENCE_S,
            "a snapshot with the topics",
        )
        snapshot = Path(shutil.copy(snapshot, tmp_path))  # its folder is locked
        assert shell(snapshot, "ls", "/image/topics/byName").split() == sorted(f"topic-{each}" for each in range(30))
        assert shell(snapshot, "cat", "/image/topics/byName/topic-7/id").strip() == topic_id
        assert "leader=101, " in shell(snapshot, "cat", "/image/topics/byName/topic-7/1")
        broker = shell(snapshot, "cat", "/image/cluster/brokers/101")
        assert broker.startswith("BrokerRegistration(id=101, ")
        assert "host='127.0.0.1', port=9101" in broker
        assert f"port={quorum.port_of(1)}" in shell(snapshot, "cat", "/image/cluster/controllers/1")
