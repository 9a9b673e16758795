"""Seeds that once showed a bug of the product, with its description."""

import pytest

from tests.simulator.faults import BROKERS
from tests.simulator.scenario import Scenario, Settings

pytestmark = pytest.mark.simulator

KEPT = {
    "a replica that came back to an online directory did not lead what nobody led": (184, BROKERS, 3),
    "a cancelled reassignment put a dead replica in sync and forgot who was eligible": (108, BROKERS, 3),
}
"""Seed, faults, brokers. A change of the simulator may change the run of a seed; then find another seed for the bug."""


@pytest.mark.parametrize("fault", KEPT)
def test_a_seed_that_once_failed_passes(fault: str) -> None:
    seed, faults, brokers = KEPT[fault]
    settings = Settings(
        voters=3,
        observers=0,
        kraft_version=1,
        faults=faults,
        fault_seconds=6.0,
        writes_per_second=2 if brokers else 20,
        encodes=False,
        brokers=brokers,
    )
    report = Scenario(seed, settings).run()
    assert report.acknowledged + report.admin_acknowledged > 0
