"""`make test` gives the same commit the same verdict; what it leaves to chance is explored by another target."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.explore import explore

ROOT = Path(__file__).resolve().parents[1]
PROPERTY = "tests/storage/test_properties.py"


def drawn(seed: int, *others: str) -> list[str]:
    """What Hypothesis draws for a property, as it says itself."""
    command = ["-m", "pytest", "-s", "-p", "no:randomly", "--hypothesis-verbosity=verbose", f"--hypothesis-seed={seed}"]
    done = subprocess.run([sys.executable, *command, *others, PROPERTY], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    return re.findall(r"test_written_properties_can_be_read_back\(\n    properties=(.*),\n\)", done.stdout)


def test_the_same_seed_draws_the_same_examples_whatever_ran_before_and_another_seed_others() -> None:
    first = drawn(7)
    assert len(first) > 50
    assert drawn(7, "tests/protocol/test_uuids.py", "tests/image/test_trie_items.py") == first
    assert drawn(8) != first


def test_make_test_takes_every_seed_from_the_committed_tree() -> None:
    tree = subprocess.check_output(["git", "rev-parse", "--short=8", "HEAD^{tree}"], cwd=ROOT, text=True)
    environment = {name: value for name, value in os.environ.items() if name not in {"SEED", "MAKEFLAGS", "MFLAGS"}}
    said = subprocess.check_output(["make", "--dry-run", "--always-make", "test"], cwd=ROOT, text=True, env=environment)
    (line,) = [line for line in said.splitlines() if "--randomly-seed" in line]
    seeds = re.findall(r"seed=(\d+)", line, re.IGNORECASE)
    assert seeds == [str(int(tree, 16))] * 3


def test_exploring_runs_until_its_time_is_over_and_tells_what_replays_a_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ran: list[str] = []
    seeds = iter((41, 42))

    def run(command: list[str], _: Mapping[str, str]) -> int:
        ran.append(command[2])
        if len(ran) == 7:
            time.sleep(0.3)
        return int(ran[-1] == "tests.simulator")

    failed = explore(0.25, run, lambda: next(seeds))
    once = ["pytest", "tests.simulator", "tests.clients.simulator", "tests.hostile.chaos", "tests.hostile.node_chaos"]
    assert ran == [*once, *once[:2]]
    assert [line.partition("-m ")[2] for line in failed] == [
        "tests.simulator --start 41 --seeds 400",
        "tests.simulator --start 42 --seeds 400",
    ]
    assert "$ PYTHONHASHSEED=42 " in capsys.readouterr().out
