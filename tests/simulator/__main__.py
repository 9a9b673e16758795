"""python -m tests.simulator --seed N [--trace] | --seeds N [--start S] [--jobs J]"""

import argparse
import logging
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.simulator.scenario import Report, Scenario

CHUNK = 20
"""Seeds per task of the process pool."""

COUNTED = tuple(name for name in Report.__dataclass_fields__ if name not in {"seed", "settings", "trace_hash"})


def replay_command(seed: int) -> str:
    return f"python -m tests.simulator --seed {seed} --trace"


def quiet() -> None:
    """Log only faults of a controller, which end the run."""
    logging.disable(logging.WARNING)
    logging.getLogger("kraft_core").propagate = False
    logging.getLogger("kraft_core").addHandler(logging.NullHandler())


def run_chunk(start: int, count: int) -> tuple[Counter[str], list[str]]:
    """Run seeds in turn; return their totals, and a line with the replay command for each failed seed."""
    totals: Counter[str] = Counter()
    failures = []
    for seed in range(start, start + count):
        try:
            report = Scenario(seed).run()
        except Exception as error:  # noqa: BLE001  every failure must be reported with its seed
            failures.append(f"{replay_command(seed)}\n    {type(error).__name__}: {error}")
        else:
            totals.update({name: getattr(report, name) for name in COUNTED})
    return totals, failures


def run_seeds(start: int, count: int, jobs: int) -> tuple[Counter[str], list[str]]:
    """Run seeds in several processes."""
    starts = range(start, start + count, CHUNK)
    counts = [min(CHUNK, start + count - each) for each in starts]
    totals: Counter[str] = Counter()
    failures: list[str] = []
    with ProcessPoolExecutor(jobs, initializer=quiet) as pool:
        for chunk_totals, chunk_failures in pool.map(run_chunk, starts, counts):
            totals.update(chunk_totals)
            failures += chunk_failures
    return totals, failures


def main() -> int:
    """Run one seed or many; return 1 if any fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one and say what happened")
    parser.add_argument("--trace", action="store_true", help="print every step (with --seed)")
    parser.add_argument("--seeds", type=int, default=100, help="how many to run")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes to run them in")
    options = parser.parse_args()
    quiet()
    if options.seed is not None:
        print(Scenario(options.seed, prints_trace=options.trace).run())
        return 0
    started = time.perf_counter()
    totals, failures = run_seeds(options.start, options.seeds, options.jobs)
    seconds = time.perf_counter() - started
    print("\n".join(failures))
    print(", ".join(f"{name.replace('_', ' ')} {totals[name]}" for name in COUNTED))
    print(f"{options.seeds} seeds, {len(failures)} failed, {seconds:.1f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
