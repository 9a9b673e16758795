"""A lagging node installs the leader's snapshot and dies at each of its file operations in turn."""

import pytest

from kraft_core.storage.kafka_raft_log import LogConfig
from tests.simulator.scenario import Scenario, Settings
from tests.simulator.sim_node import SimNode
from tests.simulator.world import SECOND_US

pytestmark = pytest.mark.simulator


def cut_at_every_operation(seed: int, stage: str, operations_max: int = 80) -> list[str]:
    """Interrupt installations, each one operation later, until one completes; return the interrupted operations."""
    settings = Settings(
        voters=3, observers=0, kraft_version=1, faults=(), fault_seconds=2.0, writes_per_second=30, encodes=False
    )
    scenario = Scenario(seed, settings)
    world, node = scenario.world, scenario.nodes[2]
    for each in scenario.nodes:
        each.retention_bytes = 0
        each.log_config = LogConfig()
        world.after(0, each.start)
    world.after(SECOND_US // 10, scenario._write)
    world.run(SECOND_US)
    for operations in range(operations_max):
        _let_lag(scenario, node)
        installed, cut = node.snapshots_installed, len(node.installations_cut)
        node.cut_next = stage, operations
        scenario.network.cut.clear()

        def is_over(installed: int = installed, cut: int = cut) -> bool:
            is_whole = node.snapshots_installed > installed and node.log is not None and not node.log.is_installing
            return len(node.installations_cut) > cut or is_whole

        assert world.run_until(is_over, world.now_us + 60 * SECOND_US), (operations, node)
        if len(node.installations_cut) == cut:
            break
    scenario._heal()
    scenario._check_liveness()
    return node.installations_cut


def _let_lag(scenario: Scenario, node: SimNode) -> None:
    """Isolate a node until the others have deleted the records that it fetches next."""
    world, others = scenario.world, scenario.nodes[:2]
    scenario.operator.start(node)
    assert node.stopped_by is None, f"a start was refused: {node.stopped_by}"
    scenario.network.cut |= {link for other in others for link in ((other.id, node.id), (node.id, other.id))}

    def is_behind() -> bool:
        assert node.log is not None
        end = node.log.end_offset
        return all(each.log is not None and each.log.start_offset > end for each in others)

    assert world.run_until(is_behind, world.now_us + 60 * SECOND_US), (node, *others)


STEPS = [
    *("chmod .part", "sync .part", "rename .part", "sync directory after rename .part"),
    *("unlink .log", "sync directory after unlink .log", "create .log", "sync directory after create .log"),
    *("unlink .checkpoint", "sync directory after unlink .checkpoint"),
    *("write .log", "sync .log", "write .flushed-offset"),
    *("create .tmp", "write .tmp", "sync .tmp", "rename .tmp", "sync directory after rename .tmp"),
]
"""The file operations of an installation into a log of one segment, and of its last flush."""


def test_the_disk_crashes_at_each_step_of_an_installation_and_the_node_comes_back() -> None:
    assert cut_at_every_operation(1, "install") == STEPS
    assert cut_at_every_operation(2, "download", 3) == ["create .part", "write .part", "write .part"]
