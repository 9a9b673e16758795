"""How much a run measures, and the order of the sides: A B A B, so that a busy minute does not hit one side alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from benchmarks.sides import OURS, Side


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for. `scale` divides the counts; `has_apache` is false when only ours can or shall be measured."""

    rounds: int = 2
    scale: int = 1
    has_apache: bool = True

    def count(self, full: int, least: int = 1) -> int:
        """How many requests of `full` to send."""
        return max(least, full // self.scale)

    def once(self) -> Self:
        """The same in one round, for what takes long or repeats itself."""
        return replace(self, rounds=1)

    def turns(self, sides: Sequence[Side]) -> Iterator[tuple[int, Side]]:
        """(round, side) in measuring order."""
        for number in range(self.rounds):
            for side in sides:
                if side is OURS or self.has_apache:
                    yield number, side


FULL = Plan()
QUICK = Plan(rounds=1, scale=4)
