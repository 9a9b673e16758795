"""One run: a simulated cluster and real clients, faults for some virtual seconds, then healing and the last checks."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from kraft_core.clients.client_runner import ClientCore
from tests.clients.simulator import faults, fetch_apis, group_apis, metadata_apis, produce_apis, transaction_apis
from tests.clients.simulator.consumer_load import ConsumerProtocolStory, ConsumerStory, GroupStory
from tests.clients.simulator.faults import Faults
from tests.clients.simulator.producer_load import ProducerStory
from tests.clients.simulator.raw_load import RawStory
from tests.clients.simulator.sim_cluster import SimCluster
from tests.clients.simulator.sim_process import SimProcess
from tests.clients.simulator.transaction_load import TransactionStory
from tests.simulator.invariant import check
from tests.simulator.world import SECOND_US, World

APIS = (fetch_apis, group_apis, metadata_apis, produce_apis, transaction_apis)
"""Imported so that the brokers have handlers for them."""


LIVENESS_US = 70 * SECOND_US
"""Twice a request timeout, for a request of the clients on a connection that stalled, and some retries."""


class Story(Protocol):
    """The clients of a run, and what must hold for them."""

    def start(self) -> None:
        """Start the clients."""

    def stop(self) -> None:
        """Let them end what they do; nothing new is begun."""

    def is_done(self) -> bool:
        """Whether all that was begun has ended."""

    def finish(self) -> None:
        """Check what must hold at the end."""


@dataclass
class Settings:
    """The settings of a run, drawn from its seed."""

    story: str
    brokers: int
    topics: tuple[int, ...]  # partitions of each
    profiles: tuple[str, ...]
    faults: tuple[str, ...]
    fault_seconds: float
    max_message_bytes: int = 1 << 20
    transaction_version: int = 1
    options: dict[str, Any] = field(default_factory=dict)  # choices of the clients that are not drawn

    @classmethod
    def draw(cls, random: Random, story: str | None = None) -> "Settings":
        """Draw the settings, with this story if there is one; each run enables a random subset of the faults."""
        share = random.choice([0.0, 0.1, 0.2, 0.4, 0.7])
        profiles = random.choice([("4.3",), ("4.3",), ("3.0",), ("2.1",), ("4.3", "3.0"), ("4.3", "3.0", "2.1")])
        drawn = random.choices(sorted(STORIES), [WEIGHTS[each] for each in sorted(STORIES)])[0]
        story = story or drawn
        if story == "members":
            profiles = random.choice([("4.3",), ("4.3",), ("3.9",), ("4.3", "3.9")])
        return cls(
            story=story,
            brokers=random.choice([1, 2, 3, 3, 3, 5]),
            topics=random.choice([(1,), (2,), (3, 1), (6,)]),
            profiles=profiles,
            faults=tuple(fault for fault in faults.ALL if random.random() < share),
            fault_seconds=random.choice([0.8, 1.5, 3.0]),
            transaction_version=2 if profiles == ("4.3",) and random.random() < 0.7 else 1,
            max_message_bytes=random.choice([1 << 20, 1 << 20, 700]),
        )


@dataclass
class Report:
    """The counts of a run."""

    seed: int
    settings: Settings
    trace_hash: int = 0
    requests: int = 0
    connections: int = 0
    broken: int = 0
    elections: int = 0
    truncations: int = 0
    restarts: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def numbers(self) -> dict[str, int]:
        """Return the counts by name; `story_<name>` is 1."""
        others = {"seed", "settings", "trace_hash", "counts"}
        own = {name: value for name, value in vars(self).items() if name not in others}
        return {f"story_{self.settings.story}": 1, **own, **self.counts}


class Scenario:
    """A run. Raises InvariantBrokenError or AssertionError if an invariant does not hold."""

    def __init__(self, seed: int, settings: Settings | None = None, *, prints_trace: bool = False) -> None:
        self.world = World(seed, prints_trace=prints_trace)
        self.random = self.world.random
        self.settings = settings or Settings.draw(self.random)
        self.report = Report(seed, self.settings)
        self.cluster = SimCluster(self.world, self.settings.brokers, self.settings.profiles)
        self.cluster.transaction_version = self.settings.transaction_version
        self.cluster.max_message_bytes = self.settings.max_message_bytes
        for index, partitions in enumerate(self.settings.topics):
            self.cluster.create_topic(f"topic-{index}", partitions)
        self.processes: list[SimProcess] = []
        self.faults = Faults(self)
        self.story: Story = STORIES[self.settings.story](self)

    def new_process(self, core: ClientCore) -> SimProcess:
        """Start a client."""
        process = SimProcess(self.world, self.cluster.links, len(self.processes), core)
        self.processes.append(process)
        process.wake()
        return process

    def client_random(self) -> Random:
        """Return the generator of a client, so that its draws do not move those of the faults."""
        return Random(self.random.getrandbits(64))

    def run(self) -> Report:
        """Run the seed to its end."""
        self.world.note(self.settings)
        self.story.start()
        self.faults.begin(self.settings.faults)
        self.world.run(int(self.settings.fault_seconds * SECOND_US))
        self.faults.heal()
        self.world.note("healed")
        self.story.stop()
        ended = self.world.run_until(self.story.is_done, self.world.now_us + LIVENESS_US)
        check(ended, "the clients do not end what they began", self.settings.story)
        logs = self.cluster.logs.values()
        replicated = self.world.run_until(
            lambda: all(log.high_watermark == log.end for log in logs), self.world.now_us + SECOND_US
        )
        check(replicated, "the simulated brokers do not replicate", [(log.high_watermark, log.end) for log in logs])
        self.story.finish()
        return self._reported()

    def _reported(self) -> Report:
        report, cluster = self.report, self.cluster
        report.trace_hash = self.world.trace_hash
        report.requests = sum(broker.requests for broker in cluster.brokers.values())
        report.connections, report.broken = cluster.links.opened, cluster.links.broken
        report.elections, report.restarts = cluster.elections, cluster.restarts
        report.truncations = sum(log.truncations for log in cluster.logs.values())
        return report


WEIGHTS = {"consumer": 3, "group": 2, "members": 2, "producer": 7, "raw": 10, "transactions": 4}
"""How often a story is drawn; those with consumers cost most."""

STORIES: dict[str, Callable[[Scenario], Story]] = {
    "consumer": ConsumerStory,
    "group": GroupStory,
    "members": ConsumerProtocolStory,
    "producer": ProducerStory,
    "raw": RawStory,
    "transactions": TransactionStory,
}
