"""Runs seeds with a planted bug: the simulator must report the broken invariant."""

from typing import Any

from tests.clients.simulator.scenario import Scenario, Settings


def caught(story: str, seeds: int, *faults: str, **options: Any) -> str:
    """Run until a seed fails and return its message; "" if none fails."""
    for seed in range(seeds):
        settings = Settings(
            story=story,
            brokers=3,
            topics=(3,),
            profiles=("4.3",),
            faults=faults,
            fault_seconds=2.0,
            transaction_version=2 if seed % 2 else 1,
            options=options,
        )
        try:
            Scenario(seed, settings).run()
        except AssertionError as error:  # of a check or of an assertion in the code
            return str(error)
    return ""
