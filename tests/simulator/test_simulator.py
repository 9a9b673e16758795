import logging

import pytest

from tests.simulator.__main__ import run_seeds
from tests.simulator.scenario import Scenario

CHUNK = 50
WITH_CONTROLLER = range(0, 400, CHUNK)
RAFT_ONLY = range(1_000, 1_200, CHUNK)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.mark.simulator
@pytest.mark.parametrize(
    ("start", "with_controller"), [(each, True) for each in WITH_CONTROLLER] + [(each, False) for each in RAFT_ONLY]
)
def test_invariants_hold_in_every_seed(start: int, with_controller: bool) -> None:
    totals, failures = run_seeds(start, CHUNK, with_controller=with_controller)
    assert not failures, "\n".join(failures)
    assert totals["acknowledged"] > 0
    assert totals["epochs"] > CHUNK


@pytest.mark.simulator
def test_the_seeds_reach_what_they_are_meant_to_reach() -> None:
    """A simulator whose faults do not happen proves nothing."""
    totals, _ = run_seeds(10_000, 40, with_controller=True)
    for name in ("crashes", "truncations", "snapshots_fetched", "voter_changes"):
        assert totals[name] > 0, name


@pytest.mark.simulator
@pytest.mark.parametrize("with_controller", [True, False])
@pytest.mark.parametrize("seed", [3, 17, 19])
def test_the_same_seed_gives_the_same_trace(seed: int, with_controller: bool) -> None:
    first, second = (Scenario(seed, with_controller=with_controller).run() for _ in range(2))
    assert first.steps == second.steps
    assert first.trace_hash == second.trace_hash


@pytest.mark.simulator
def test_another_seed_gives_another_trace() -> None:
    assert Scenario(3).run().trace_hash != Scenario(4).run().trace_hash
