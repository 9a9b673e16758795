"""python -m tests.simulator --seed N [--trace] | --seeds N [--start S]; with --raft-only no controller."""

import argparse
import logging
import sys
import time
from collections import Counter

from tests.simulator.scenario import Scenario

COUNTED = ("steps", "acknowledged", "epochs", "crashes", "truncations", "snapshots_fetched", "voter_changes")


def replay_command(seed: int, *, with_controller: bool) -> str:
    return f"python -m tests.simulator --seed {seed} --trace{' --raft-only' * (not with_controller)}"


def run_seeds(start: int, count: int, *, with_controller: bool) -> tuple[Counter[str], list[str]]:
    """Run seeds one after the other; what they did in all, and a line with the replay command for each that failed."""
    totals: Counter[str] = Counter()
    failures = []
    for seed in range(start, start + count):
        try:
            report = Scenario(seed, with_controller=with_controller).run()
        except Exception as error:  # noqa: BLE001  whatever goes wrong in a run, its seed must be told
            failures.append(
                f"{replay_command(seed, with_controller=with_controller)}\n    {type(error).__name__}: {error}"
            )
        else:
            totals.update({name: getattr(report, name) for name in COUNTED})
    return totals, failures


def main() -> int:
    """Run one seed or many; 1 when one fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one and say what happened")
    parser.add_argument("--trace", action="store_true", help="print every step (with --seed)")
    parser.add_argument("--seeds", type=int, default=100, help="how many to run")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--raft-only", action="store_true", help="raft nodes without controller and image")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if options.seed is not None:
        print(Scenario(options.seed, with_controller=not options.raft_only, prints_trace=options.trace).run())
        return 0
    started = time.perf_counter()
    totals, failures = run_seeds(options.start, options.seeds, with_controller=not options.raft_only)
    seconds = time.perf_counter() - started
    print("\n".join(failures))
    print(", ".join(f"{name.replace('_', ' ')} {totals[name]}" for name in COUNTED))
    a_step_us = seconds / max(totals["steps"], 1) * 1e6
    print(f"{options.seeds} seeds, {len(failures)} failed, {seconds:.1f} s, {a_step_us:.1f} µs a step")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
