"""A node as a process: refused starts, orderly stops, and the behaviour on a full disk."""

import asyncio
import itertools
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kraft_core.protocol.errors import ErrorCode, KafkaError
from tests.interop import kafka
from tests.interop.conclave import Quorum, RawBroker, controller_client, create_topics, quorum, running_quorum

QUIET = {"broker_session_timeout_ms": 600_000}  # the broker of the topics sends no heartbeats
FAILURES = (ConnectionError, KafkaError, OSError)


def refusal(found: Quorum, node_id: int = 1) -> str:
    """Start a node that must refuse to start; return the one line with the reason."""
    process = found.start(node_id)
    assert process.popen.wait(kafka.PATIENCE_S) == 1
    assert "Traceback" not in process.output
    lines = [line for line in process.output.splitlines() if "node_not_started" in line]
    assert len(lines) == 1, process.output
    return lines[0]


def test_an_unformatted_folder_is_refused(tmp_path: Path) -> None:
    with quorum(tmp_path, 1) as found:
        line = refusal(found)
        assert "No readable meta.properties files found." in line
        assert "conclave format" in line
        assert not (found.folder_of(1) / "data").exists()


def test_a_second_process_on_one_folder_is_refused(tmp_path: Path) -> None:
    with running_quorum(tmp_path, 1) as found:
        first = found.processes[1]
        assert "Failed to acquire lock on file .lock" in refusal(found)
        assert first.alive
        found.processes[1] = first
        assert found.wait_for_leader() == 1


def test_a_port_in_use_is_refused_and_the_folder_is_unlocked(tmp_path: Path) -> None:
    with quorum(tmp_path, 1) as found:
        found.format(1)
        busy = subprocess.Popen(
            [
                sys.executable,
                "-c",
                (
                    f"import socket, time; s = socket.create_server(('127.0.0.1', {found.ports[0]})); "
                    "print(flush=True); time.sleep(600)"
                ),
            ],
            stdout=subprocess.PIPE,
        )
        assert busy.stdout is not None
        try:
            busy.stdout.readline()
            line = refusal(found)
            assert "Cannot listen" in line
            assert str(found.ports[0]) in line
        finally:
            busy.kill()
            busy.wait()
            busy.stdout.close()
        found.start(1)
        assert found.wait_for_leader() == 1


def test_a_folder_of_another_node_is_refused(tmp_path: Path) -> None:
    with quorum(tmp_path, 1) as found:
        found.format(1)
        config = found.config_of(1)
        config.write_text(config.read_text().replace("node.id=1", "node.id=7"))
        assert "Stored node id 1 doesn't match previous node id 7" in refusal(found)


def test_a_missing_quorum_state_is_refused(tmp_path: Path) -> None:
    with running_quorum(tmp_path, 1) as found:
        assert found.processes[1].stop() == 0
        (found.folder_of(1) / "data" / "__cluster_metadata-0" / "quorum-state").unlink()
        assert "quorum-state is missing" in refusal(found)


def test_an_invalid_setting_is_one_line_and_changes_nothing(tmp_path: Path) -> None:
    with quorum(tmp_path, 1) as found:
        config = found.config_of(1)
        config.write_text(config.read_text() + "controller.quorum.fetch.timeout.ms=soon\n")
        process = found.start(1)
        assert process.popen.wait(kafka.PATIENCE_S) == 1
        assert "controller.quorum.fetch.timeout.ms" in process.output
        assert "soon" in process.output
        assert len(process.output.splitlines()) == 1
        assert not (found.folder_of(1) / "data").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_node_orderly_and_it_restarts_with_its_data(tmp_path: Path, number: signal.Signals) -> None:
    async def use(names: list[str]) -> list[int]:
        client = controller_client(found.bootstrap)
        if names == ["kept"]:
            await RawBroker(101, found.cluster_id, client).register()
        answer = await client.request(create_topics(names))
        client.close()
        return [topic.error_code for topic in answer.topics]

    with running_quorum(tmp_path, 1, **QUIET) as found:
        assert asyncio.run(use(["kept"])) == [0]
        found.processes[1].send(number)
        assert found.processes[1].popen.wait(kafka.PATIENCE_S) == 0
        found.start(1)
        found.wait_for_leader()
        assert asyncio.run(use(["kept", "new"])) == [ErrorCode.TOPIC_ALREADY_EXISTS, 0]


def test_a_stop_under_load_answers_or_closes_and_keeps_acknowledged_records(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    failed: list[object] = []

    async def write() -> None:
        """Create topics concurrently, stop the node meanwhile, and continue until it no longer answers."""
        client = controller_client(found.bootstrap)
        await RawBroker(101, found.cluster_id, client).register()
        names = (f"topic-{number}" for number in itertools.count())

        async def one(timeout_ms: int) -> None:
            name = next(names)
            try:
                answer = await client.request(create_topics([name]), timeout_ms=timeout_ms)
                code = answer.topics[0].error_code
                acknowledged.append(name) if code == ErrorCode.NONE else failed.append(code)
            except FAILURES as error:
                failed.append(error)

        async with asyncio.TaskGroup() as group:
            for _ in range(200):
                group.create_task(one(10_000))
            while not acknowledged:
                await asyncio.sleep(0.001)
            found.processes[1].send(signal.SIGTERM)
            while not failed:
                await one(500)
        client.close()

    async def codes(names: list[str]) -> set[int]:
        client = controller_client(found.bootstrap)
        answer = await client.request(create_topics(names))
        client.close()
        return {topic.error_code for topic in answer.topics}

    with running_quorum(tmp_path, 1) as found:
        asyncio.run(asyncio.wait_for(write(), 2 * kafka.PATIENCE_S))
        assert found.processes[1].popen.wait(kafka.PATIENCE_S) == 0
        found.start(1)
        found.wait_for_leader()
        assert asyncio.run(codes(acknowledged)) == {ErrorCode.TOPIC_ALREADY_EXISTS}


def test_a_full_node_closes_an_idle_connection_for_each_new_one_to_the_controller_listener(tmp_path: Path) -> None:
    async def open_ones(port: int) -> int:
        connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
        ends = [asyncio.create_task(reader.read(1)) for reader, _ in connections]
        async with asyncio.timeout(kafka.PATIENCE_S):
            while sum(each.done() for each in ends) < 3:
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)
        still_open = sum(not each.done() for each in ends)
        for each, (_, writer) in zip(ends, connections, strict=True):
            each.cancel()
            writer.close()
        return still_open

    with running_quorum(tmp_path, 1, max_connections=5) as found:
        assert asyncio.run(open_ones(found.ports[0])) == 5
        assert found.wait_for_leader() == 1


def test_a_full_disk_stops_the_node_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """The file-size limit simulates a full disk: a write of the log fails while the node serves requests."""

    async def fill() -> list[str]:
        client = controller_client(found.bootstrap)
        acknowledged: list[str] = []
        try:
            await RawBroker(101, found.cluster_id, client).register()
            for number in range(2000):
                name = f"topic-{number}"
                answer = await client.request(create_topics([name], partitions=5), timeout_ms=60_000)
                if answer.topics[0].error_code == ErrorCode.NONE:
                    acknowledged.append(name)
        except FAILURES:
            pass
        finally:
            client.close()
        return acknowledged

    async def present(names: list[str]) -> bool:
        client = controller_client(found.bootstrap)
        answer = await client.request(create_topics(names))
        client.close()
        return all(topic.error_code == ErrorCode.TOPIC_ALREADY_EXISTS for topic in answer.topics)

    with quorum(tmp_path, 1, **QUIET) as found:
        found.format(1)
        command = f"ulimit -f 96; exec {sys.executable} -m kraft_core {found.config_of(1)}"
        process = kafka.Process("limited", ["bash", "-c", command], found.folder_of(1))
        found.processes[1] = process
        found.wait_for_leader()
        names = asyncio.run(fill())
        assert 10 < len(names) < 2000
        assert process.popen.wait(kafka.PATIENCE_S) == 1
        assert "The metadata log cannot be flushed" in process.output
        found.start(1)
        found.wait_for_leader()
        assert asyncio.run(present(names))


def test_a_node_with_a_changed_directory_id_logs_that_it_is_not_a_voter(tmp_path: Path) -> None:
    with quorum(tmp_path, 1) as found:
        found.format(1)
        properties = found.folder_of(1) / "data" / "meta.properties"
        properties.write_text(properties.read_text().replace(found.directory_ids[0], "AbCdEfGhIjKlMnOpQrStUw"))
        process = found.start(1)
        process.wait_for_output("not_a_voter_with_this_directory")
        assert f"voter_directory_id={found.directory_ids[0]}" in process.output
        assert "ERROR" in process.output
        assert process.alive


def test_a_node_with_a_lost_metadata_directory_logs_that_it_has_no_voter_set(tmp_path: Path) -> None:
    with quorum(tmp_path, 1) as found:
        found.format(1)
        shutil.rmtree(found.folder_of(1) / "data" / "__cluster_metadata-0")
        process = found.start(1)
        process.wait_for_output("ERROR no_voter_set")
        assert process.alive
        with pytest.raises(AssertionError, match="no leader within"):
            found.wait_for_leader(3)
