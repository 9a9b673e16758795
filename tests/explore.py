"""python -m tests.explore [--minutes M]: fresh seeds, where `make test` always takes those of the committed tree.

Rounds of every property that Hypothesis draws, the simulators and chaos, until the time is over. Run it before a
release. A failure is printed with the command that replays it; it becomes a kept case before it is mended.
"""

import argparse
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SEEDS_PER_ROUND = 400
CHAOS_SECONDS = 60
Run = Callable[[list[str], Mapping[str, str]], int]


def commands(seed: int) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Each command of one round, with what it needs in its environment."""
    python = sys.executable
    properties = ["-m", "pytest", "-q", "-x", "-p", "no:randomly", "-m", "hypothesis", f"--hypothesis-seed={seed}"]
    yield [python, *properties], {"PYTHONHASHSEED": str(seed)}
    for simulator, seeds in (("tests.simulator", SEEDS_PER_ROUND), ("tests.clients.simulator", 4 * SEEDS_PER_ROUND)):
        yield [python, "-m", simulator, "--start", str(seed), "--seeds", str(seeds)], {}
    for chaos in ("tests.hostile.chaos", "tests.hostile.node_chaos"):
        yield [python, "-m", chaos, "--seed", str(seed), "--seconds", str(CHAOS_SECONDS)], {}


def explore(seconds: float, run: Run, draw: Callable[[], int]) -> list[str]:
    """Run rounds until the time is over -> the command of each that failed."""
    ends = time.monotonic() + seconds
    failed: list[str] = []
    while True:
        for command, environment in commands(draw()):
            line = " ".join([*(f"{name}={value}" for name, value in environment.items()), *command])
            print(f"\n$ {line}", flush=True)
            if run(command, environment):
                failed.append(line)
            if time.monotonic() >= ends:
                return failed


def _run(command: list[str], environment: Mapping[str, str]) -> int:
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=False).returncode


def main() -> int:
    """Explore; 1 when something failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.explore", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20, help="no command is started after so long")
    options = parser.parse_args()
    failed = explore(options.minutes * 60, _run, lambda: secrets.randbelow(2**32))
    print("\n".join(["\nfailed; replay with:", *failed] if failed else ["\nnothing failed"]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
