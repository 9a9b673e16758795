"""python -m tests.simulator --seed N [--trace] | --seeds N [--start S]."""

import argparse
import logging
import sys
import time

from tests.simulator.scenario import Scenario


def replay_command(seed: int) -> str:
    return f"python -m tests.simulator --seed {seed}"


def main() -> int:
    """Run one seed or many; 1 when one fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one and say what happened")
    parser.add_argument("--trace", action="store_true", help="print every step (with --seed)")
    parser.add_argument("--seeds", type=int, default=100, help="how many to run")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if options.seed is not None:
        print(Scenario(options.seed, prints_trace=options.trace).run())
        return 0
    started, steps, failed = time.perf_counter(), 0, 0
    for seed in range(options.start, options.start + options.seeds):
        try:
            steps += Scenario(seed).run().steps
        except Exception as error:  # whatever goes wrong in a run, its seed must be told
            failed += 1
            print(f"seed {seed} failed: {type(error).__name__}: {error}\n    {replay_command(seed)}")
    seconds = time.perf_counter() - started
    print(
        f"{options.seeds} seeds, {failed} failed, {steps} steps, {seconds:.1f} s, {seconds / max(steps, 1) * 1e6:.1f} µs a step"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
