"""Disk formats: our tools and Apache's read each other's files and print the same."""

import asyncio
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft_core.protocol.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.server.config.server_properties import definitions
from kraft_core.storage.kafka_raft_log import KafkaRaftLog
from kraft_core.storage.meta_properties import read_meta_properties
from kraft_core.storage.quorum_state_store import QuorumStateStore
from tests.interop import kafka
from tests.interop.admin.tools import Tools
from tests.interop.conclave import Quorum, call, quorum, retry
from tests.interop.dumps import conclave, dumped_by_apache, dumped_by_us, files_of

pytestmark = pytest.mark.interop

BROKER = 4  # ConfigResource.Type


@pytest.fixture(scope="module")
def written_by_apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    """A folder that Apache's controller formatted, wrote config records to and closed."""
    with quorum(tmp_path_factory.mktemp("apache"), 1) as found:
        found.format_apache(1)
        process = found.start_apache(1)
        found.wait_for_leader()
        write_configs(found.port_of(1))
        process.stop()
        yield found


@pytest.fixture(scope="module")
def written_by_us(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    """The same by our controller."""
    with quorum(tmp_path_factory.mktemp("conclave"), 1) as found:
        format_by_command(found, 1)
        process = found.start(1)
        found.wait_for_leader()
        write_configs(found.port_of(1))
        assert process.stop() == 0
        yield found


def format_by_command(found: Quorum, node_id: int) -> None:
    """Format a node's folder with `conclave format`."""
    voters = found.initial_controllers
    conclave("format", "-c", str(found.config_of(node_id)), "-t", found.cluster_id, "--initial-controllers", voters)


def write_configs(port: int) -> None:
    """Write twenty values of a config. One without a response is written again."""

    async def write(number: int) -> None:
        config = IncrementalAlterConfigsRequestAlterableConfig(
            name="log.retention.ms", config_operation=0, value=str(1_000_000 + number)
        )
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=BROKER, resource_name="", configs=(config,)
        )
        answer = await call(port, IncrementalAlterConfigsRequest(resources=(resource,)), 1)
        assert [each.error_code for each in answer.responses] == [0]

    async def write_all() -> None:
        for number in range(20):
            await retry(lambda number=number: write(number), kafka.PATIENCE_S, (AssertionError, OSError, EOFError))

    asyncio.run(write_all())


def config_values(lines: list[str]) -> set[str]:
    """Return the values of that config in a dump."""
    return {value for line in lines for value in re.findall(r'"name":"log.retention.ms","value":"(\d+)"', line)}


@pytest.mark.parametrize("written", ["written_by_apache", "written_by_us"])
def test_both_dump_tools_print_the_same_for_every_file(
    written: str, request: pytest.FixtureRequest, tools: Tools
) -> None:
    found: Quorum = request.getfixturevalue(written)
    paths = files_of(found.folder_of(1))
    assert {path.suffix for path in paths} == {".log", ".checkpoint"}
    ours = dumped_by_us(paths)
    assert ours == dumped_by_apache(tools, paths)
    assert len(config_values(ours)) == 20


def test_our_log_opens_a_folder_that_apache_wrote(written_by_apache: Quorum) -> None:
    data = written_by_apache.folder_of(1) / "data"
    (segment,) = (data / "__cluster_metadata-0").glob("*.log")
    before = segment.read_bytes()
    log = KafkaRaftLog.open(data)
    try:
        assert log.read(0, len(before)) == before
        assert log.snapshot_ids() == (OffsetAndEpoch(0, 0),)
        assert [batch[16] for batch in log.control_batches(0)] == [2]
        election = QuorumStateStore(data).read()
        assert election is not None
        assert (election.leader_id, election.leader_epoch) == (1, log.last_epoch)
        checkpoint = (data / "__cluster_metadata-0" / "leader-epoch-checkpoint").read_text()
        assert checkpoint == f"0\n1\n{log.last_epoch} 0\n"
    finally:
        log.close()
    assert segment.read_bytes() == before


def test_both_format_commands_write_the_same_records_and_identity(tmp_path: Path) -> None:
    found = Quorum(tmp_path, 2)
    format_by_command(found, 1)
    found.format_apache(2)

    def records(node_id: int) -> list[str]:
        lines = dumped_by_us(files_of(found.folder_of(node_id)))
        return [re.sub(r"(CreateTime|crc|lastContainedLogTimestamp\"?): ?\d+", r"\1", line) for line in lines]

    assert records(1) == records(2)
    ours, apaches = (read_meta_properties(found.folder_of(node_id) / "data") for node_id in (1, 2))
    assert ours is not None
    assert apaches is not None
    assert (ours.cluster_id, ours.node_id) == (apaches.cluster_id, 1)
    assert apaches.node_id == 2
    modes = {
        path.stat().st_mode & 0o777
        for node_id in (1, 2)
        for path in (found.folder_of(node_id) / "data" / "__cluster_metadata-0").iterdir()
    }
    assert modes == {0o400}


def test_apaches_controller_starts_on_a_folder_that_we_formatted(tmp_path: Path) -> None:
    with quorum(tmp_path, 1) as found:
        format_by_command(found, 1)
        process = found.start_apache(1)
        assert found.wait_for_leader() == 1
        write_configs(found.port_of(1))
        process.stop()
        assert len(config_values(dumped_by_us(files_of(found.folder_of(1))))) == 20


def test_our_configs_equal_kafkas_definition(tmp_path: Path) -> None:
    source = tmp_path / "Definitions.java"
    source.write_text(
        """
import org.apache.kafka.server.config.AbstractKafkaConfig;
public class Definitions {
    public static void main(String[] arguments) {
        for (var key : AbstractKafkaConfig.CONFIG_DEF.configKeys().values()) {
            Object value = key.defaultValue;
            String text = !key.hasDefault() ? "!" : value == null ? "-"
                : value instanceof Class<?> type ? type.getName()
                : value instanceof java.util.List<?> list
                    ? String.join(",", list.stream().map(Object::toString).toList())
                : value.toString();
            System.out.println(key.name + "\\t" + key.type.name().toLowerCase() + "\\t" + text);
        }
    }
}
"""
    )
    home = kafka.require()
    outcome = subprocess.run(
        ["java", "-cp", f"{home / 'libs'}/*", str(source)], capture_output=True, text=True, timeout=120
    )
    assert outcome.returncode == 0, outcome.stderr
    theirs = {tuple(line.split("\t")) for line in outcome.stdout.splitlines()}
    ours = {
        (each.name, each.type.name.lower(), "!" if each.is_required else "-" if each.default is None else each.default)
        for each in definitions().values()
        if not each.name.startswith("conclave.")
    }
    assert len(ours) > 300
    assert ours == theirs
