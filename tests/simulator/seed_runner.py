"""The command line of a simulator: one seed with its trace, or many seeds in several processes."""

import argparse
import logging
import os
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Protocol

CHUNK = 20
"""Seeds per task of the process pool."""


class Report(Protocol):
    """What a run returns."""

    def numbers(self) -> Mapping[str, int]:
        """Return what the run counted."""


class Scenario(Protocol):
    """A run of one seed."""

    def run(self) -> Report:
        """Run it. Raises the broken invariant."""


class ScenarioType(Protocol):
    """The class of a simulator's runs."""

    def __call__(self, seed: int, *, prints_trace: bool = False) -> Scenario:
        """Return the run of a seed."""


def quiet() -> None:
    """Log only faults of a controller, which end the run."""
    logging.disable(logging.WARNING)
    logging.getLogger("kraft_core").propagate = False
    logging.getLogger("kraft_core").addHandler(logging.NullHandler())


@dataclass(frozen=True)
class SeedRunner:
    """Runs the seeds of the simulator in package `name`."""

    name: str
    scenario_type: ScenarioType

    def replay_command(self, seed: int) -> str:
        return f"python -m {self.name} --seed {seed} --trace"

    def run_chunk(self, start: int, count: int) -> tuple[Counter[str], list[str]]:
        """Run seeds in turn; return their totals, and a line with the replay command for each failed seed."""
        totals: Counter[str] = Counter()
        failures = []
        for seed in range(start, start + count):
            try:
                totals.update(self.scenario_type(seed).run().numbers())
            except Exception as error:  # noqa: BLE001  every failure must be reported with its seed
                failures.append(f"{self.replay_command(seed)}\n    {type(error).__name__}: {error}")
        return totals, failures

    def run_seeds(self, start: int, count: int, jobs: int) -> tuple[Counter[str], list[str]]:
        """Run seeds in several processes."""
        starts = range(start, start + count, CHUNK)
        counts = [min(CHUNK, start + count - each) for each in starts]
        totals: Counter[str] = Counter()
        failures: list[str] = []
        with ProcessPoolExecutor(jobs, initializer=quiet) as pool:
            for chunk_totals, chunk_failures in pool.map(self.run_chunk, starts, counts):
                totals.update(chunk_totals)
                failures += chunk_failures
        return totals, failures

    def main(self) -> int:
        """Run one seed or many; return 1 if any fails."""
        parser = argparse.ArgumentParser(prog=f"python -m {self.name}", description="Run seeds of a simulator.")
        parser.add_argument("--seed", type=int, help="run this one and say what happened")
        parser.add_argument("--trace", action="store_true", help="print every step (with --seed)")
        parser.add_argument("--seeds", type=int, default=100, help="how many to run")
        parser.add_argument("--start", type=int, default=0, help="the first of them")
        parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes to run them in")
        options = parser.parse_args()
        quiet()
        if options.seed is not None:
            print(self.scenario_type(options.seed, prints_trace=options.trace).run())
            return 0
        started = time.perf_counter()
        totals, failures = self.run_seeds(options.start, options.seeds, options.jobs)
        seconds = time.perf_counter() - started
        print("\n".join(failures))
        print(", ".join(f"{name.replace('_', ' ')} {totals[name]}" for name in sorted(totals)))
        print(f"{options.seeds} seeds, {len(failures)} failed, {seconds:.1f} s")
        return 1 if failures else 0
