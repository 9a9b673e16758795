"""Runs seeds with a planted bug: the simulator must report the broken invariant."""

from tests.simulator.scenario import Scenario, Settings


def caught(seeds: int, faults: tuple[str, ...], *, voters: int = 3, brokers: int = 0) -> str:
    """Run until a seed fails and return its message; "" if none fails."""
    for seed in range(seeds):
        settings = Settings(
            voters=voters,
            observers=0,
            kraft_version=1,
            faults=faults,
            fault_seconds=6.0,
            writes_per_second=2 if brokers else 20,
            encodes=False,
            brokers=brokers,
        )
        try:
            Scenario(seed, settings).run()
        except AssertionError as error:  # of the oracle or of an assertion in the code
            return str(error)
    return ""
