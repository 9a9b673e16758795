"""Brokers and administrators of a run: their settings, their start, and the liveness check after healing."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING

from kraft_core.controller.controller_config import ControllerConfig
from kraft_core.image.standard_authorizer import StandardAuthorizer
from tests.simulator.admin_load import AdminLoad
from tests.simulator.invariant import InvariantBrokenError, check
from tests.simulator.metadata_model import ELR
from tests.simulator.partition_rules import NOBODY
from tests.simulator.sim_broker import SimBroker
from tests.simulator.world import SECOND_US

if TYPE_CHECKING:
    from tests.simulator.scenario import Report, Scenario

FIRST_BROKER = 10
UNSPLIT = 1_000
"""Batch size from which no change in these small clusters is split."""
RECOVERY_US = 20 * SECOND_US


@dataclass(frozen=True, slots=True)
class Choices:
    """Settings drawn from the seed, equal for all controllers."""

    session_timeout_ms: int
    max_records_per_batch: int
    balance_ms: int
    unclean_ms: int
    metadata_version: int
    eligible_replicas: int


def draw_choices(random: Random) -> Choices:
    """Draw short sessions, so that many expire in the run, and sometimes small batches, so that changes are split."""
    version = random.choice([30, 30, 30, 25, 20, 16, 10, 7])
    return Choices(
        session_timeout_ms=random.choice([900, 1_500, 2_500]),
        max_records_per_batch=random.choice([10_000, 10_000, 10_000, 20]),
        balance_ms=random.choice([500, 2_000]),
        unclean_ms=random.choice([700, 3_000]),
        metadata_version=version,
        eligible_replicas=random.choice([0, 1]) if version >= 25 else 0,
    )


def controller_config(node_id: int, cluster_id: str, choices: Choices | None) -> ControllerConfig:
    """Return the settings of one controller; the defaults without brokers."""
    if choices is None:
        return ControllerConfig(node_id=node_id, cluster_id=cluster_id)
    features = {"metadata.version": choices.metadata_version, ELR: choices.eligible_replicas}
    return ControllerConfig(
        node_id=node_id,
        cluster_id=cluster_id,
        session_timeout_ms=choices.session_timeout_ms,
        max_records_per_batch=choices.max_records_per_batch,
        leader_imbalance_check_interval_ms=choices.balance_ms,
        unclean_leader_election_interval_ms=choices.unclean_ms,
        authorizer=StandardAuthorizer(),
        bootstrap_features=MappingProxyType(features),
    )


class _Loud(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        fault = record.exc_info[1] if record.exc_info else None
        raise InvariantBrokenError(f"the controller failed: {record.getMessage()}: {fault!r}")


@contextmanager
def loud_faults() -> Iterator[None]:
    """Fail the run if a controller logs a fault, even if it continues.

    The event queue logs an exception of an event's handle_exception and continues; this raises it again.
    """
    logger, handler = logging.getLogger("kraft_core.controller"), _Loud()
    level_before = logger.level
    logger.setLevel(logging.ERROR)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level_before)


class ControllerStory:
    """The brokers and the administrator of one run."""

    def __init__(self, scenario: "Scenario") -> None:
        self.scenario = scenario
        world, network = scenario.world, scenario.network
        self.world, self.random = world, world.random
        self.model = scenario.oracle.metadata
        directories = self.random.choice([1, 2, 2])
        cluster_id = scenario.nodes[0].config.raft.cluster_id
        self.brokers = [
            SimBroker(world, network, scenario.nodes, FIRST_BROKER + number, directories, cluster_id)
            for number in range(scenario.settings.brokers)
        ]
        for broker in self.brokers:
            broker.peers = {each.id: each for each in self.brokers}
        self.admin = AdminLoad(world, network, scenario.nodes, self.model, self.brokers)

    def start(self) -> None:
        """Start the brokers and the load within the first second."""
        for broker in self.brokers:
            self.world.after(self.random.randint(0, SECOND_US // 2), broker.start)
        self.admin.later(SECOND_US, self.admin.register_controllers)
        mean_us = self.random.choice([50_000, 100_000, 300_000])
        self.admin.later(self.random.randint(SECOND_US // 4, SECOND_US), self.admin.act, mean_us)

    def heal(self) -> None:
        """Stop the changes; start every broker with all its directories."""
        self.admin.is_on = False
        for broker in self.brokers:
            broker.resume()
            if broker.offline or broker.is_leaving:
                broker.kill()
            broker.start()

    def check_liveness(self) -> None:
        """Check 33 for the controller: all brokers are unfenced, and every partition has a leader and its whole ISR."""
        if self.model.elr_changes:
            self.world.after(RECOVERY_US // 4, self._elect_by_hand)
        done = self.world.run_until(lambda: not self._missing(), self.world.now_us + RECOVERY_US)
        check(done, "liveness: brokers and partitions do not recover", self._missing(), *self.brokers)

    def _elect_by_hand(self) -> None:
        """Elect leaders of partitions without candidate after a change of the feature; Kafka needs an operator too."""
        for (topic_id, index), it in sorted(self.model.partitions.items()):
            if it.leader == NOBODY and not it.isr:
                self.admin.elect_unclean(self.model.topics[topic_id].name, index)
        self.world.after(RECOVERY_US // 10, self._elect_by_hand)

    def _missing(self) -> list[object]:
        missing: list[object] = [broker for broker in self.brokers if not self.model.is_active(broker.id)]
        for key, it in self.model.partitions.items():
            moves = bool(it.adding_replicas or it.removing_replicas)
            if moves or it.leader == NOBODY or set(it.isr) != set(it.replicas) or it.leader_recovery_state:
                missing.append((key, it))
        return missing

    def add_to(self, report: "Report") -> None:
        """Add the counts of the run."""
        controller = self.scenario.oracle.controller
        report.registrations = sum(broker.registrations for broker in self.brokers)
        report.sessions_expired = controller.sessions_expired
        report.stale_requests = controller.stale_requests
        report.isr_changes = controller.accepted_changes
        report.isr_changes_refused = controller.refused_changes
        report.elections, report.unclean_elections = self.model.elections, self.model.unclean_elections
        report.admin_acknowledged, report.admin_refused = self.admin.acknowledged, self.admin.refused
