"""Apache's controllers and ours in one quorum, and each on the other's data folder."""

import asyncio
import time
from pathlib import Path

import pytest

from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.server.kafka_client import ControllerClient
from tests.interop import kafka
from tests.interop.conclave import Quorum, RawBroker, controller_client, create_topics, quorum
from tests.interop.log_files import committed_prefix, raw_batches

pytestmark = pytest.mark.interop

APACHE = 1


async def created(client: ControllerClient, name: str) -> None:
    """Create a topic, through whatever elections happen meanwhile."""
    deadline = time.monotonic() + 20
    while True:
        try:
            answer = await client.request(create_topics([name]), timeout_ms=10_000)
        except (ConnectionError, KafkaError):
            code = -1
        else:
            code = answer.topics[0].error_code
        if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            return
        assert time.monotonic() < deadline, f"{name} could not be created: {code}"
        await asyncio.sleep(0.1)


async def use(found: Quorum, names: list[str]) -> None:
    """Register a broker and create topics; those that exist already must be found."""
    client = controller_client(found.bootstrap)
    await RawBroker(101, found.cluster_id, client).register()
    for name in names:
        await created(client, name)
    client.close()


async def exists(found: Quorum, name: str) -> bool:
    client = controller_client(found.bootstrap)
    try:
        answer = await client.request(create_topics([name]), timeout_ms=10_000)
        return answer.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    finally:
        client.close()


def wait_until_caught_up(found: Quorum) -> None:
    """Every log on disk ends where the leader's did a moment ago."""

    def level() -> bool:
        ends = [max(raw_batches(found.folder_of(node_id)), default=-1) for node_id in found.node_ids]
        return max(ends) - min(ends) < 10

    kafka.wait_until(level, 20, "all logs level")


def test_a_mixed_quorum_elects_replicates_and_fails_over_in_both_directions(tmp_path: Path) -> None:
    kafka.require()
    with quorum(tmp_path, 3) as found:
        for node_id in found.node_ids:
            found.format(node_id)
        found.start_apache(APACHE)
        for node_id in found.node_ids[1:]:
            found.start(node_id)
        found.wait_for_leader(30)
        asyncio.run(use(found, ["before"]))
        led: list[int] = []
        for attempt in range(12):
            leader_id = found.wait_for_leader(30)
            led.append(leader_id)
            asyncio.run(use_topic(found, f"attempt-{attempt}"))
            if APACHE in led and any(node_id != APACHE for node_id in led) and len(led) > 2:
                break
            wait_until_caught_up(found)
            assert found.processes[leader_id].stop() in (0, 143)
            found.wait_for_leader(30, other_than=leader_id)
            (found.start_apache if leader_id == APACHE else found.start)(leader_id)
        else:
            raise AssertionError(f"only {set(led)} ever led: {led}")
        print("leaders in turn:", led)
        assert asyncio.run(exists(found, "before"))
        wait_until_caught_up(found)
        for process in found.processes.values():
            assert process.stop() in (0, 143)
        logs = [raw_batches(found.folder_of(node_id)) for node_id in found.node_ids]
        assert committed_prefix(logs) > 10


async def use_topic(found: Quorum, name: str) -> None:
    client = controller_client(found.bootstrap)
    broker = RawBroker(101, found.cluster_id, client)
    deadline = time.monotonic() + 25
    while True:
        try:
            await broker.register()
            break
        except (AssertionError, ConnectionError, KafkaError):  # the session of the last run has not ended yet
            assert time.monotonic() < deadline
            await asyncio.sleep(0.5)
    await created(client, name)
    client.close()


def test_apache_takes_over_our_folder_and_we_take_it_back(tmp_path: Path) -> None:
    kafka.require()
    with quorum(tmp_path, 1) as found:
        found.format(1)
        found.start(1)
        found.wait_for_leader()
        asyncio.run(use(found, ["ours-1", "ours-2"]))
        assert found.processes[1].stop() == 0

        found.start_apache(1)
        found.wait_for_leader(40)
        for name in ("ours-1", "ours-2"):
            assert asyncio.run(exists(found, name)), name
        asyncio.run(use_topic(found, "apaches"))
        found.processes[1].stop()

        found.start(1)
        found.wait_for_leader()
        for name in ("ours-1", "ours-2", "apaches"):
            assert asyncio.run(exists(found, name)), name
        assert found.processes[1].stop() == 0


def test_we_take_over_a_folder_that_apache_formatted_and_wrote(tmp_path: Path) -> None:
    kafka.require()
    with quorum(tmp_path, 1) as found:
        found.format_apache(1)
        found.start_apache(1)
        found.wait_for_leader(40)
        asyncio.run(use(found, ["apaches"]))
        found.processes[1].kill()

        found.start(1)
        found.wait_for_leader()
        assert asyncio.run(exists(found, "apaches"))
        assert found.processes[1].stop() == 0
