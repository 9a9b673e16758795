"""The faults that a seed may enable. Each strikes at random times; what it breaks is repaired later."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tests.clients.simulator.disorder import KINDS
from tests.clients.simulator.partition_log import PartitionLog
from tests.simulator.world import SECOND_US

if TYPE_CHECKING:
    from tests.clients.simulator.scenario import Scenario

STRIKES: Final = ("election", "kill_broker", "shrink", "reset", "move_coordinator", "wall_jump")
"""Faults that are events."""
ALL: Final = (*STRIKES, *KINDS)
"""Those, and the small ones that `Disorder` describes."""

SHARES: Final = {
    "refuse": 0.3,
    "hang": 0.1,
    "slow": 0.05,
    "throttle": 0.03,
    "stale": 0.6,
    "lag": 0.2,
    "split": 0.2,
    "ghost": 0.5,
}
"""Probability of a small fault per event, where it is not 0.02."""


class Faults:
    """The faults of one run."""

    def __init__(self, scenario: "Scenario") -> None:
        self.scenario = scenario
        self.world, self.cluster = scenario.world, scenario.cluster
        self.random = scenario.world.random
        self.is_on = True

    def begin(self, names: tuple[str, ...]) -> None:
        """Enable faults."""
        for name in names:
            if name in STRIKES:
                self._schedule(name)
            else:
                setattr(self.cluster.disorder, name, SHARES.get(name, 0.02))

    def heal(self) -> None:
        """End all faults and repair what they broke."""
        self.is_on = False
        self.cluster.heal()

    def _schedule(self, name: str) -> None:
        self.world.after(int(self.random.expovariate(1 / (0.8 * SECOND_US))), self._strike, name)

    def _strike(self, name: str) -> None:
        if self.is_on:
            strike: Callable[[], None] = getattr(self, name)
            strike()
            self._schedule(name)

    def _some_time_us(self, most_s: float) -> int:
        return int(self.random.random() ** 2 * most_s * SECOND_US)

    # --- strikes ----------------------------------------------------------------------------------------------------

    def election(self) -> None:
        """Prefer a partition whose last batches are not committed."""
        logs = list(self.cluster.logs.values())
        open_logs = [log for log in logs if log.high_watermark < log.end]
        self.cluster.elect(self.random.choice(open_logs or logs))

    def kill_broker(self) -> None:
        running = self.cluster.up()
        if len(running) > 1:
            broker = self.random.choice(running)
            self.cluster.kill(broker)
            self.world.after(self._some_time_us(2.5), self.cluster.start, broker)

    def shrink(self) -> None:
        """Stop the replication of a partition for a while."""
        log = self.random.choice(list(self.cluster.logs.values()))
        log.is_short_of_replicas = True
        self.world.after(self._some_time_us(1.5), self._grow, log)

    def _grow(self, log: PartitionLog) -> None:
        log.is_short_of_replicas = False
        self.cluster.replicate(log)

    def reset(self) -> None:
        broker = self.random.choice(list(self.cluster.brokers.values()))
        self.cluster.links.reset_all(lambda link: link.broker is broker, silent=0.2)

    def move_coordinator(self) -> None:
        self.cluster.move_coordinators()

    def wall_jump(self) -> None:
        """Move the wall clock of a client by seconds or hours, back or ahead."""
        process = self.random.choice(self.scenario.processes)
        process.wall_jump_ms += self.random.choice([-3_600_000, -5_000, -1, 1_000, 86_400_000])
