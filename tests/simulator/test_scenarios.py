"""Invariants that need a specific scenario rather than many seeds."""

import pytest

from kraft_core.raft.events import PeerDisconnected
from tests.simulator.network import Network
from tests.simulator.scenario import Scenario, Settings
from tests.simulator.sim_node import SimNode
from tests.simulator.world import SECOND_US

pytestmark = pytest.mark.simulator


def working(seed: int, voters: int) -> tuple[Scenario, SimNode, list[SimNode]]:
    """Return a cluster that has run for two seconds, its leader and the other nodes."""
    settings = Settings(
        voters=voters,
        observers=0,
        kraft_version=1,
        faults=(),
        fault_seconds=0,
        writes_per_second=20,
        encodes=False,
    )
    scenario = Scenario(seed, settings)
    for node in scenario.nodes:
        node.start()
    scenario.world.after(0, scenario._write)
    scenario.world.run(2 * SECOND_US)
    leader = next(node for node in scenario.nodes if node.is_leader)
    return scenario, leader, [node for node in scenario.nodes if node is not leader]


def cut(scenario: Scenario, some: list[SimNode]) -> None:
    """Cut the links between these nodes and the others in both directions."""
    here = {node.id for node in some}
    ids = [node.id for node in scenario.nodes]
    scenario.network.cut |= {(a, b) for a in ids for b in ids if (a in here) != (b in here)}


@pytest.mark.parametrize("seed", range(10))
def test_an_isolated_follower_returns_without_raising_the_epoch(seed: int) -> None:
    """KIP-996: pre-vote. Invariant 12."""
    scenario, leader, others = working(seed, 3)
    epoch = leader.raft.epoch
    cut(scenario, others[:1])
    scenario.world.run(8 * SECOND_US)
    scenario.network.cut.clear()
    scenario.world.run(12 * SECOND_US)
    assert [node.raft.epoch for node in scenario.nodes] == [epoch] * 3
    assert leader.is_leader


@pytest.mark.parametrize("seed", range(10))
def test_a_leader_that_keeps_a_majority_stays(seed: int) -> None:
    """RaftEventSimulationTest.leadershipWillNotChangeDuringNetworkPartitionIfMajorityStillReachable."""
    scenario, leader, others = working(seed, 5)
    epoch, committed = leader.raft.epoch, scenario.oracle.committed_end
    cut(scenario, others[:2])
    scenario.world.run(8 * SECOND_US)
    assert leader.is_leader
    assert leader.raft.epoch == epoch
    assert scenario.oracle.committed_end > committed


@pytest.mark.parametrize("seed", range(10))
def test_an_isolated_leader_resigns_and_the_others_continue(seed: int) -> None:
    """Check-quorum: after 1.5 times the fetch timeout a leader that cannot commit has resigned. Invariant 11."""
    scenario, leader, others = working(seed, 5)
    committed = scenario.oracle.committed_end
    cut(scenario, [leader, others[0]])
    scenario.world.run(2 * SECOND_US + 4 * SECOND_US)
    assert not leader.is_leader
    assert scenario.oracle.committed_end > committed
    scenario.network.cut.clear()
    scenario._check_liveness()


@pytest.mark.parametrize("seed", range(10))
def test_all_nodes_lose_power_at_once_and_nothing_acknowledged_is_lost(seed: int) -> None:
    scenario, _, _ = working(seed, 3)
    assert scenario.workload.acknowledged > 0
    for node in scenario.nodes:
        node.crash()
    for node in scenario.nodes:
        node.start()
    scenario._check_liveness()


def killed(scenario: Scenario, leader: SimNode, others: list[SimNode]) -> None:
    """The leader's process dies, and all other nodes see their connections reset."""
    scenario.world.run(scenario.world.now_us + scenario.random.randint(0, SECOND_US // 2))
    leader.kill()
    for node in others:
        node.deliver(node.incarnation, PeerDisconnected(leader.id))


@pytest.mark.parametrize("voters", [3, 5])
def test_voters_that_notice_a_leaders_death_together_elect_one_at_the_first_try(
    voters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages take up to 3 ms; a second election would take about 300 ms."""
    monkeypatch.setattr(Network, "_delay_us", lambda network: network.world.random.randint(50, 3_000))
    for seed in range(15):
        scenario, leader, others = working(seed, voters)
        killed(scenario, leader, others)
        scenario.world.run(scenario.world.now_us + SECOND_US // 10)
        assert [node for node in others if node.is_leader], seed
        assert {node.raft.epoch for node in others} == {leader.seen_epoch + 1}, seed
