"""Random runs of the real client cores against simulated brokers keep every invariant."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.simulator.__main__ import RUNNER
from tests.clients.simulator.scenario import STORIES, Scenario

SEEDS = 600
CHUNK = 100
ROOT = Path(__file__).resolve().parents[3]

PRINT_TRACES = """
from random import Random
from tests.clients.simulator.scenario import STORIES, Scenario, Settings
from tests.simulator.seed_runner import quiet

quiet()
for story in STORIES:
    Scenario(1, Settings.draw(Random(1), story), prints_trace=True).run()
"""

pytestmark = pytest.mark.simulator


@pytest.mark.parametrize("start", range(0, SEEDS, CHUNK))
def test_invariants_hold_in_every_seed(start: int) -> None:
    totals, failures = RUNNER.run_chunk(start, CHUNK)
    assert not failures, "\n".join(failures)
    assert [name for name in STORIES if not totals[f"story_{name}"]] == []


def test_the_seeds_reach_every_counted_event() -> None:
    totals, _ = RUNNER.run_chunk(10_000, 200)
    assert [name for name, count in totals.items() if not count] == []


@pytest.mark.parametrize("seed", [3, 17, 19, 40])
def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    first, second = (Scenario(seed).run() for _ in range(2))
    assert first == second


def test_another_seed_gives_another_trace() -> None:
    assert Scenario(3).run().trace_hash != Scenario(4).run().trace_hash


def test_a_seed_that_fails_prints_the_command_that_replays_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: Scenario) -> None:
        raise AssertionError("planted")

    monkeypatch.setattr(Scenario, "run", run)
    _, failures = RUNNER.run_chunk(7, 1)
    assert failures == ["python -m tests.clients.simulator --seed 7 --trace\n    AssertionError: planted"]


def test_traces_do_not_depend_on_the_order_of_sets() -> None:
    """Run a seed of every story with two hash seeds, which Python orders sets of names by."""
    traces = [
        subprocess.run(
            [sys.executable, "-c", PRINT_TRACES],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert traces[0].count("healed") == len(STORIES)
    assert traces[0] == traces[1]
