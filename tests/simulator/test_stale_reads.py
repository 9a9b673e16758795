"""A leader is isolated during reads and late messages and replaced at once: no read is stale."""

import pytest

from kraft_core.node import Node
from kraft_core.raft.events import PeerDisconnected
from kraft_core.raft.internals.leader_state import Leader
from kraft_core.raft.internals.leadership_rounds import LeadershipRounds
from kraft_core.raft.voter_set import ReplicaKey
from tests.simulator.invariant import InvariantBrokenError
from tests.simulator.scenario import Scenario
from tests.simulator.test_scenarios import cut, working
from tests.simulator.world import SECOND_US

pytestmark = pytest.mark.simulator

SEEDS = 8


def reads_through_a_succession(seed: int, voters: int) -> Scenario:
    """Isolate the leader under constant reads with half of the messages late; the others notice at once."""
    scenario, _, _ = working(seed, voters)
    world, network = scenario.world, scenario.network

    def read() -> None:
        for node in scenario.nodes:
            if node.is_leader:
                scenario.workload.read(node)
        world.after(scenario.random.randint(1_000, 30_000), read)

    world.after(0, read)
    network.spike = 0.5
    world.run(world.now_us + SECOND_US // 2)
    assert world.run_until(lambda: any(node.is_leader for node in scenario.nodes), world.now_us + 10 * SECOND_US)
    network.spike = 0.0
    leader = max((node for node in scenario.nodes if node.is_leader), key=lambda node: node.raft.epoch)
    cut(scenario, [leader])
    for node in scenario.nodes:
        node.deliver(node.incarnation, PeerDisconnected(leader.id))
    epoch = leader.seen_epoch
    world.run(world.now_us + 4 * SECOND_US)
    assert any(node.is_leader and node.raft.epoch > epoch for node in scenario.nodes)
    return scenario


@pytest.mark.parametrize("voters", [3, 5])
def test_no_read_is_stale(voters: int) -> None:
    for seed in range(SEEDS):
        scenario = reads_through_a_succession(seed, voters)
        assert scenario.oracle.reads.confirmed > 50, seed
        assert scenario.oracle.reads.refused > 10, seed


def caught(voters: int) -> str:
    """Run until a seed fails and return its message; "" if none fails."""
    for seed in range(SEEDS):
        try:
            reads_through_a_succession(seed, voters)
        except InvariantBrokenError as error:
            return str(error)
    return ""


@pytest.mark.parametrize("voters", [3, 5])
class TestPlantedBugs:
    def test_a_read_without_confirmation_is_caught(self, voters: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """As Kafka: an isolated leader answers reads until it notices."""
        monkeypatch.setattr(Node, "_accept_request", Node._pass_to_controller)
        assert "was old" in caught(voters)

    def test_a_round_that_counts_any_fetch_is_caught(self, voters: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """A Fetch sent before the round began may be older than a new leader."""
        original = Leader.fetched

        def fetched(self: Leader, key: ReplicaKey, offset: int, leader_end_offset: int, now_ms: int) -> bool:
            self.rounds.answered.add(key)
            return original(self, key, offset, leader_end_offset, now_ms)

        monkeypatch.setattr(Leader, "fetched", fetched)
        assert "was old" in caught(voters)

    def test_a_round_that_counts_older_answers_is_caught(self, voters: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """A response to a request from before the round."""

        def count(self: LeadershipRounds, voter: ReplicaKey, _: int) -> None:
            if self.is_running:
                self.answered.add(voter)

        monkeypatch.setattr(LeadershipRounds, "count", count)
        assert "was old" in caught(voters)

    def test_a_read_that_joins_a_running_round_is_caught(self, voters: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """The round began before the read, so responses from before the read may confirm it."""

        def request(self: LeadershipRounds) -> int:
            self._wanted = self.confirmed + 1
            return self._wanted

        monkeypatch.setattr(LeadershipRounds, "request", request)
        assert "was old" in caught(voters)
