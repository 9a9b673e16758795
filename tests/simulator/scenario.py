"""One run: a cluster, a random subset of the faults for some virtual seconds, then healing and the liveness check."""

from dataclasses import dataclass
from random import Random
from uuid import UUID

from kraft_core.protocol.messages import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
    RemoveRaftVoterRequest,
)
from kraft_core.raft.events import Shutdown
from kraft_core.raft.leader_state import Leader
from kraft_core.raft.raft_config import RaftConfig
from kraft_core.raft.raft_log import BOOTSTRAP_SNAPSHOT_ID
from kraft_core.raft.voter_set import Endpoint, ReplicaKey, VoterNode, VoterSet
from tests.simulator.full_node import FullNode
from tests.simulator.network import Network
from tests.simulator.oracle import Oracle, check
from tests.simulator.sim_log import snapshot_bytes
from tests.simulator.sim_node import SimNode
from tests.simulator.world import World

SECOND_US = 1_000_000
CLUSTER_ID = "simulated"

FAULTS = (
    "crash",
    "crash_at_effect",
    "crash_all",
    "stop",
    "resign",
    "pause",
    "isolate",
    "split",
    "one_way",
    "reset",
    "drop",
    "duplicate",
    "spike",
    "slow_disk",
    "snapshot",
    "reconfigure",
)
RARE = {"crash_all": 4, "stop": 2, "resign": 2, "split": 2}
"""How much rarer than the others a fault comes, when it is on."""


@dataclass
class Settings:
    """What a seed decides about its run."""

    voters: int
    observers: int
    kraft_version: int
    faults: tuple[str, ...]
    fault_seconds: float
    appends_per_second: int
    encodes: bool
    with_controller: bool = False  # the whole Node: raft, controller and image

    @classmethod
    def draw(cls, random: Random, *, with_controller: bool = False) -> "Settings":
        """Swarm style: each run turns on a random subset of the faults."""
        share = random.choice([0.0, 0.2, 0.5, 0.8])
        return cls(
            voters=random.choice([1, 2, 3, 3, 3, 3, 3, 4, 5, 5]),
            observers=random.choice([0, 0, 1, 2]),
            kraft_version=random.choice([0, 1, 1]),
            faults=tuple(fault for fault in FAULTS if random.random() < share),
            fault_seconds=random.choice([6.0, 10.0, 16.0]),
            appends_per_second=random.choice([2, 10, 30]),
            encodes=random.random() < 0.06,
            with_controller=with_controller,
        )


@dataclass
class Write:
    """An append that the workload waits for."""

    node: SimNode
    incarnation: int
    epoch: int
    offset: int


@dataclass
class Report:
    """What a run did, for those who look at it."""

    seed: int
    settings: Settings
    trace_hash: int = 0
    steps: int = 0
    acknowledged: int = 0
    epochs: int = 0
    snapshots_fetched: int = 0
    truncations: int = 0
    crashes: int = 0
    voter_changes: int = 0


class Scenario:
    """A cluster and its faults. Raises InvariantBrokenError or AssertionError where a rule does not hold."""

    def __init__(
        self, seed: int, settings: Settings | None = None, *, with_controller: bool = False, prints_trace: bool = False
    ) -> None:
        self.world = World(seed, prints_trace=prints_trace)
        self.random = self.world.random
        self.settings = settings or Settings.draw(self.random, with_controller=with_controller)
        self.report = Report(seed, self.settings)
        self.network = Network(self.world)
        self.network.encodes = self.settings.encodes
        self.oracle = Oracle()
        self.writes: list[Write] = []
        self.acknowledged: list[tuple[int, int]] = []
        self.is_faulty = True
        self._counter = 0
        self.nodes = self._make_nodes()
        self.oracle.nodes = self.nodes
        self.network.by_address = {(each.config.endpoints[0].host, 9093): each for each in self.nodes}

    def _make_nodes(self) -> list[SimNode]:
        settings = self.settings
        keys = [ReplicaKey(number, UUID(int=1000 + number)) for number in range(settings.voters + settings.observers)]
        endpoints = [(Endpoint("CONTROLLER", f"host{key.id}", 9093),) for key in keys]
        dynamic = VoterSet.of(VoterNode(key, own) for key, own in zip(keys[: settings.voters], endpoints, strict=False))
        static = VoterSet.of(
            VoterNode(ReplicaKey(key.id), own, 0, 0)
            for key, own in zip(keys[: settings.voters], endpoints, strict=False)
        )
        nodes = []
        for key, own in zip(keys, endpoints, strict=True):
            config = RaftConfig(
                node_id=key.id,
                directory_id=key.directory_id,
                cluster_id=CLUSTER_ID,
                endpoints=own,
                bootstrap_servers=tuple((f"host{number}", 9093) for number in range(len(keys))),
                static_voters=static if settings.kraft_version == 0 else VoterSet(),
                fetch_snapshot_max_bytes=512,
                fetch_max_bytes=4096,
            )
            make = FullNode if self.settings.with_controller else SimNode
            node = make(self.world, self.network, self.oracle, config, self.random.uniform(0.99, 1.01))
            if settings.kraft_version == 1 and key.id < settings.voters:
                node.log.snapshots[BOOTSTRAP_SNAPSHOT_ID] = snapshot_bytes(BOOTSTRAP_SNAPSHOT_ID, 1, dynamic, [])
            nodes.append(node)
        return nodes

    # --- the run ----------------------------------------------------------------------------------------------------

    def run(self) -> Report:
        """Run the seed to its end."""
        world, settings = self.world, self.settings
        for node in self.nodes:
            world.after(self.random.randint(0, 200_000), node.start)
        world.after(SECOND_US // 10, self._write)
        for fault in settings.faults:
            self._schedule(fault)
        end_us = int(settings.fault_seconds * SECOND_US)
        world.run(end_us)
        self._heal()
        self._check_liveness()
        report = self.report
        report.trace_hash, report.steps = world.trace_hash, world.steps
        report.snapshots_fetched = sum(node.log.snapshots_installed for node in self.nodes)
        report.truncations = sum(node.log.truncations for node in self.nodes)
        report.crashes = sum(node.crashes for node in self.nodes)
        report.voter_changes = self.network.voter_changes
        report.acknowledged, report.epochs = len(self.acknowledged), len(self.oracle.leaders)
        return report

    def _write(self) -> None:
        """Append on every node that thinks it leads, and see which earlier appends are committed."""
        self._collect()
        for node in self.nodes:
            if node.is_leader and not node.is_paused and self.random.random() < 0.8:
                self._append(node)
        self.world.after(self.random.randint(1, 2 * SECOND_US // self.settings.appends_per_second), self._write)

    def _append(self, node: SimNode) -> Write | None:
        self._counter += 1
        assert node.client is not None
        epoch, incarnation = node.client.epoch, node.incarnation
        offset = node.write(self._counter, self.random.choice([1, 1, 1, 3]))
        if offset is None:
            return None
        write = Write(node, incarnation, epoch, offset)
        self.writes.append(write)
        return write

    def _collect(self) -> None:
        """A write is acknowledged when the node that took it still leads and its high watermark has passed it."""
        waiting = []
        for write in self.writes:
            node = write.node
            if node.incarnation != write.incarnation or node.client is None or node.client.epoch != write.epoch:
                continue
            if node.client.high_watermark > write.offset and isinstance(node.client.state, Leader):
                self.acknowledged.append((write.offset, write.epoch))
            else:
                waiting.append(write)
        self.writes = waiting

    # --- faults -----------------------------------------------------------------------------------------------------

    def _schedule(self, fault: str) -> None:
        mean_us = SECOND_US * RARE.get(fault, 1) * 1.5
        self.world.after(int(self.random.expovariate(1 / mean_us)), self._strike, fault)

    def _strike(self, fault: str) -> None:
        if self.is_faulty:
            getattr(self, f"_fault_{fault}")()
            self._schedule(fault)

    def _some_time_us(self, most_s: float) -> int:
        return int(self.random.random() ** 2 * most_s * SECOND_US)

    def _fault_crash(self) -> None:
        node = self.random.choice(self.nodes)
        node.crash()
        self.world.after(self._some_time_us(4), node.start)

    def _fault_crash_at_effect(self) -> None:
        node = self.random.choice(self.nodes)
        node.crash_at_effect = self.random.choice([0.0, 0.01, 0.1])
        self.world.after(self._some_time_us(2), node.start)

    def _fault_crash_all(self) -> None:
        for node in self.nodes:
            node.crash()
            self.world.after(self._some_time_us(2), node.start)

    def _fault_stop(self) -> None:
        node = self.random.choice(self.nodes)
        node.deliver(node.incarnation, Shutdown(self.random.choice([1, 500, 3000])))
        self.world.after(3 * SECOND_US + self._some_time_us(2), node.start)

    def _fault_resign(self) -> None:
        for node in self.nodes:
            if node.is_leader and not node.is_paused and node.client is not None:
                node.resign()

    def _fault_pause(self) -> None:
        node = self.random.choice(self.nodes)
        node.pause()
        self.world.after(self._some_time_us(5), node.resume)

    def _cut(self, links: set[tuple[int, int]]) -> None:
        self.network.cut |= links
        self.world.after(self._some_time_us(6), self.network.cut.difference_update, links)

    def _fault_isolate(self) -> None:
        one = self.random.choice(self.nodes).id
        self._cut({link for other in self.nodes for link in ((one, other.id), (other.id, one))})

    def _fault_split(self) -> None:
        here = {node.id for node in self.nodes if self.random.random() < 0.5}
        self._cut({(a.id, b.id) for a in self.nodes for b in self.nodes if (a.id in here) != (b.id in here)})

    def _fault_one_way(self) -> None:
        one, other = self.random.choice(self.nodes).id, self.random.choice(self.nodes).id
        self._cut({(one, other)})

    def _fault_reset(self) -> None:
        self.network.reset(self.random.choice(self.nodes).id, self.random.choice(self.nodes).id)

    def _fault_drop(self) -> None:
        self.network.drop = self.random.choice([0.0, 0.02, 0.1, 0.3])

    def _fault_duplicate(self) -> None:
        self.network.duplicate = self.random.choice([0.0, 0.05, 0.3])

    def _fault_spike(self) -> None:
        self.network.spike = self.random.choice([0.0, 0.02, 0.1, 0.3])

    def _fault_slow_disk(self) -> None:
        self.random.choice(self.nodes).disk_delay_us = self.random.choice(
            [(80, 400), (5_000, 50_000), (10_000, 900_000)]
        )

    def _fault_snapshot(self) -> None:
        self.random.choice(self.nodes).snapshot(drops_log=self.random.random() < 0.7)

    def _fault_reconfigure(self) -> None:
        """Ask a leader to add or remove a random node."""
        leader = next((node for node in self.nodes if node.is_leader and not node.is_paused), None)
        target = self.random.choice(self.nodes)
        if leader is None or leader.client is None:
            return
        if target.id in leader.client.voters.by_id:
            request = RemoveRaftVoterRequest(
                cluster_id=None, voter_id=target.id, voter_directory_id=target.key.directory_id
            )
            leader.receive(request, 0, leader.admin)
        else:
            listeners = tuple(
                AddRaftVoterRequestListener(name=each.name, host=each.host, port=each.port)
                for each in target.config.endpoints
            )
            leader.receive(
                AddRaftVoterRequest(
                    cluster_id=CLUSTER_ID,
                    voter_id=target.id,
                    voter_directory_id=target.key.directory_id,
                    listeners=listeners,
                ),
                1,
                leader.admin,
            )

    # --- the end ----------------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        self.is_faulty = False
        network = self.network
        network.cut.clear()
        network.drop = network.duplicate = network.spike = 0.0
        for node in self.nodes:
            node.crash_at_effect = 0.0
            node.disk_delay_us = (80, 400)
            node.resume()
            node.start()
        self.world.note("healed")

    def _check_liveness(self) -> None:
        """Within 10 s there is a leader that commits, and every node reaches its high watermark."""
        world = self.world
        limit_us = world.now_us + 10 * SECOND_US
        done: list[Write] = []

        def is_committing() -> bool:
            for node in self.nodes:
                node.start()  # a shutdown that was asked for before may end only now
                if node.is_leader and not any(write.node is node and write.epoch == node.seen_epoch for write in done):
                    write = self._append(node)
                    if write is not None:
                        done.append(write)
            return any(
                write.node.is_leader
                and write.node.seen_epoch == write.epoch
                and self.oracle.committed_end > write.offset
                for write in done
            )

        check(world.run_until(is_committing, limit_us), "liveness: nothing is committed after healing", *self.nodes)
        target = self.oracle.committed_end
        reached = world.run_until(lambda: all(each.applied >= target for each in self.nodes), limit_us)
        check(reached, "liveness: not every node catches up", target, *self.nodes)
        self._collect()
        for node in self.nodes:
            node.check_at_end()
        for offset, epoch in self.acknowledged:
            check(offset < self.oracle.committed_end, "an acknowledged write is lost", offset, epoch)
