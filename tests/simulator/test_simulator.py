"""Random runs of the real nodes on virtual disks keep every invariant."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulator.__main__ import RUNNER
from tests.simulator.scenario import Scenario

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 250

pytestmark = pytest.mark.simulator


@pytest.mark.timeout(900)
def test_invariants_hold_in_every_seed() -> None:
    command = [sys.executable, "-m", "tests.simulator", "--seeds", str(SEEDS), "--jobs", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{SEEDS} seeds, 0 failed" in done.stdout


def test_the_seeds_reach_every_counted_event() -> None:
    """Every fault happens in the seeds of the test."""
    totals, _ = RUNNER.run_chunk(10_000, 100)
    assert [name for name, count in totals.items() if not count] == []


@pytest.mark.parametrize("seed", [3, 17, 19, 40, 41])
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
    assert failures == ["python -m tests.simulator --seed 7 --trace\n    AssertionError: planted"]
