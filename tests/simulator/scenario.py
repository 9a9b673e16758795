"""One run: a cluster, a random subset of the faults for some virtual seconds, then healing and the liveness check."""

from dataclasses import dataclass
from random import Random
from uuid import UUID

from kraft_core.node import NodeConfig
from kraft_core.raft.raft_config import RaftConfig
from kraft_core.raft.voter_set import Endpoint, ReplicaKey, VoterNode, VoterSet
from kraft_core.storage.kafka_raft_log import LogConfig
from tests.simulator import faults
from tests.simulator.controller_story import UNSPLIT, ControllerStory, controller_config, draw_choices, loud_faults
from tests.simulator.faults import Faults
from tests.simulator.invariant import check
from tests.simulator.network import Network
from tests.simulator.operator import Operator
from tests.simulator.oracle import Oracle
from tests.simulator.sim_node import QUICK_DISK_US, SimNode
from tests.simulator.workload import Workload, Write
from tests.simulator.world import SECOND_US, World

CLUSTER_ID = "simulated"
LIVENESS_US = 10 * SECOND_US


@dataclass
class Settings:
    """The settings of a run, drawn from its seed."""

    voters: int
    observers: int
    kraft_version: int
    faults: tuple[str, ...]
    fault_seconds: float
    writes_per_second: int
    encodes: bool
    auto_join: bool = False
    brokers: int = 0  # 0: the quorum alone

    @classmethod
    def draw(cls, random: Random) -> "Settings":
        """Draw the settings; each run enables a random subset of the faults."""
        share = random.choice([0.0, 0.1, 0.2, 0.4, 0.7])
        kraft_version = random.choice([0, 1, 1])
        some = tuple(fault for fault in faults.ALL if random.random() < share)
        if kraft_version == 0 and random.random() < 0.5:
            some = (*some, "upgrade")
        brokers = random.choice([0, 0, 0, 0, 0, 0, 0, 2, 3, 4])
        if brokers:
            broker_share = random.choice([0.0, 0.3, 0.6, 1.0])
            some = (*some, *(fault for fault in faults.BROKERS if random.random() < broker_share))
        return cls(
            voters=random.choice([1, 2, 3, 3, 3, 3, 3, 4, 5, 5]),
            observers=random.choice([0, 0, 1, 2]),
            kraft_version=kraft_version,
            faults=some,
            fault_seconds=random.choice([3.0, 5.0, 8.0]),
            writes_per_second=random.choice([2, 10, 30]),
            encodes=random.random() < 0.06,
            auto_join=random.random() < 0.2,
            brokers=brokers,
        )


@dataclass
class Report:
    """The counts of a run."""

    seed: int
    settings: Settings
    trace_hash: int = 0
    steps: int = 0
    acknowledged: int = 0
    reads_confirmed: int = 0
    reads_refused: int = 0
    epochs: int = 0
    crashes: int = 0
    truncations: int = 0
    snapshots_written: int = 0
    snapshots_fetched: int = 0
    installations_cut: int = 0
    cleanings: int = 0
    voter_changes: int = 0
    disks_replaced: int = 0
    kraft_upgrades: int = 0
    auto_joins: int = 0
    registrations: int = 0
    sessions_expired: int = 0
    stale_requests: int = 0
    isr_changes: int = 0
    isr_changes_refused: int = 0
    elections: int = 0
    unclean_elections: int = 0
    admin_acknowledged: int = 0
    admin_refused: int = 0

    def numbers(self) -> dict[str, int]:
        """Return the counts by name."""
        return {name: value for name, value in vars(self).items() if name not in {"seed", "settings", "trace_hash"}}


class Scenario:
    """A cluster and its faults. Raises InvariantBrokenError or AssertionError if an invariant does not hold."""

    def __init__(self, seed: int, settings: Settings | None = None, *, prints_trace: bool = False) -> None:
        self.world = World(seed, prints_trace=prints_trace)
        self.random = self.world.random
        self.settings = settings or Settings.draw(self.random)
        self.report = Report(seed, self.settings)
        self.network = Network(self.world)
        self.network.encodes = self.settings.encodes
        self.oracle = Oracle()
        self.workload = Workload(self.oracle)
        self.nodes = self._make_nodes()
        self.oracle.nodes = self.nodes
        self.network.by_address = {(each.config.raft.endpoints[0].host, 9093): each for each in self.nodes}
        self.operator = Operator(self)
        self.story = ControllerStory(self) if self.settings.brokers else None
        self.faults = Faults(self)

    def _make_nodes(self) -> list[SimNode]:
        settings, random = self.settings, self.random
        keys = [ReplicaKey(number, UUID(int=1000 + number)) for number in range(settings.voters + settings.observers)]
        endpoints = [(Endpoint("CONTROLLER", f"host{key.id}", 9093),) for key in keys]
        dynamic = VoterSet.of(VoterNode(key, own) for key, own in zip(keys[: settings.voters], endpoints, strict=False))
        static = VoterSet.of(
            VoterNode(ReplicaKey(key.id), own, 0, 0)
            for key, own in zip(keys[: settings.voters], endpoints, strict=False)
        )
        choices = draw_choices(random) if settings.brokers else None
        self.oracle.controller.session_timeout_ms = choices.session_timeout_ms if choices else 9_000
        self.oracle.metadata.splits = choices is not None and choices.max_records_per_batch < UNSPLIT
        nodes = []
        for key, own in zip(keys, endpoints, strict=True):
            raft = RaftConfig(
                node_id=key.id,
                directory_id=key.directory_id,
                cluster_id=CLUSTER_ID,
                endpoints=own,
                bootstrap_servers=tuple((f"host{number}", 9093) for number in range(len(keys))),
                static_voters=static if settings.kraft_version == 0 else VoterSet(),
                auto_join=settings.auto_join,
                fetch_snapshot_max_bytes=512,
                fetch_max_bytes=4096,
            )
            config = NodeConfig(
                raft=raft,
                controller=controller_config(key.id, CLUSTER_ID, choices),
                max_bytes_between_snapshots=random.choice([1_500, 5_000, 20_000]),
                clean_interval_ms=random.choice([500, 2_000]),
            )
            log_config = LogConfig(
                segment_bytes=random.choice([700, 4_000, 1 << 30]), cache_bytes=random.choice([0, 1_000, 1 << 20])
            )
            node = SimNode(self.world, self.network, self.oracle, config, log_config)
            node.on_answer = self.workload.on_answer
            node.format(key.directory_id, dynamic if settings.kraft_version == 1 and key.id < settings.voters else None)
            nodes.append(node)
        return nodes

    # --- the run ----------------------------------------------------------------------------------------------------

    def run(self) -> Report:
        """Run the seed to its end."""
        with loud_faults():
            return self._run()

    def _run(self) -> Report:
        world, settings = self.world, self.settings
        for node in self.nodes:
            world.after(self.random.randint(0, 200_000), self.operator.start, node)
        world.after(SECOND_US // 10, self._write)
        if self.story is not None:
            self.story.start()
        for fault in settings.faults:
            self.faults.schedule(fault)
        world.run(int(settings.fault_seconds * SECOND_US))
        self._heal()
        self._check_liveness()
        return self._reported()

    def _reported(self) -> Report:
        report, nodes = self.report, self.nodes
        report.trace_hash, report.steps = self.world.trace_hash, self.world.steps
        report.snapshots_fetched = sum(node.snapshots_installed for node in nodes)
        report.installations_cut = sum(len(node.installations_cut) for node in nodes)
        report.snapshots_written = sum(node.snapshots_written for node in nodes)
        report.cleanings = sum(node.cleanings for node in nodes)
        report.truncations = sum(node.truncations for node in nodes)
        report.crashes = sum(node.crashes for node in nodes)
        report.voter_changes = self.network.voter_changes
        report.auto_joins = self.network.auto_joins
        report.disks_replaced = self.operator.disks_replaced
        report.kraft_upgrades = self.operator.kraft_upgrades
        if self.story is not None:
            self.story.add_to(report)
        report.reads_confirmed, report.reads_refused = self.oracle.reads.confirmed, self.oracle.reads.refused
        report.acknowledged, report.epochs = self.workload.acknowledged, len(self.oracle.leaders)
        return report

    def _write(self) -> None:
        """Write and read on every node that considers itself the leader."""
        for node in self.nodes:
            if not node.is_leader or node.is_paused:
                continue
            if self.random.random() < 0.8:
                self.workload.write(node, self.random.choice([1, 1, 1, 3]))
            if self.random.random() < 0.5:
                self.workload.read(node)
        self.world.after(self.random.randint(1, 2 * SECOND_US // self.settings.writes_per_second), self._write)

    # --- the end ----------------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        self.faults.is_on = False
        network = self.network
        network.cut.clear()
        network.drop = network.duplicate = network.spike = 0.0
        for node in self.nodes:
            node.disk_delay_us = QUICK_DISK_US
            node.disk.crash_in, node.cut_next = -1, None
            node.disk.failing_write = node.disk.failing_sync = False
            node.disk.free_bytes = None
            node.resume()
            self.operator.start(node)
        if self.story is not None:
            self.story.heal()
        self.world.note("healed")

    def _check_liveness(self) -> None:
        """33. Within 10 s there is a leader that commits, and every node reaches its high watermark."""
        world, oracle = self.world, self.oracle
        limit_us = world.now_us + LIVENESS_US
        done: list[Write] = []

        def is_committing() -> bool:
            for node in self.nodes:
                self.operator.start(node)  # an earlier shutdown may end only now
                if node.is_leader and not any(each.node is node and not _is_void(each) for each in done):
                    write = self.workload.write(node, 1)
                    if write is not None:
                        done.append(write)
            return any(each.is_acknowledged for each in done)

        def have_all_caught_up() -> bool:
            return all(node.node is not None and node.node.applied_offset >= target for node in self.nodes)

        check(world.run_until(is_committing, limit_us), "liveness: nothing is committed after healing", *self.nodes)
        target = oracle.committed_end
        check(world.run_until(have_all_caught_up, limit_us), "liveness: a node lags", target, *self.nodes)
        if self.story is not None:
            self.story.check_liveness()
        for node in self.nodes:
            if node.node is not None:
                self.workload.check_at_end(node)
                oracle.metadata.compare(node.node.image, whole=True)
        oracle.check_at_end()


def _is_void(write: Write) -> bool:
    """Report whether the write is abandoned: its node has lost the leadership since."""
    return not write.node.is_leader or write.node.raft.epoch != write.epoch
