"""The amount that a run measures, and the order of the sides: A B A B, so that background load affects both."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from benchmarks.sides import OURS, Side


@dataclass(frozen=True, slots=True)
class Plan:
    """Rounds and counts of a run. `scale` divides the counts; `has_apache` is false when only ours is measured."""

    rounds: int = 2
    scale: int = 1
    has_apache: bool = True

    def count(self, full: int, least: int = 1) -> int:
        """Return the number of requests to send when a full run sends `full`."""
        return max(least, full // self.scale)

    def once(self) -> Self:
        """Return the same plan with one round, for benchmarks that are long or repeat internally."""
        return replace(self, rounds=1)

    def turns(self, sides: Sequence[Side]) -> Iterator[tuple[int, Side]]:
        """Yield (round, side) in measuring order."""
        for number in range(self.rounds):
            for side in sides:
                if side is OURS or self.has_apache:
                    yield number, side


FULL = Plan()
QUICK = Plan(rounds=1, scale=4)
