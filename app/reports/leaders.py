"""The most even distribution of leaders that needs no data to move, and a proof that none is more even.

A partition can be led by any replica of its target on an active broker. The largest number of leaders per broker is
minimal when no cost-reducing path starts at a fullest broker (optimal semi-matching: Harvey, Ladner, Lovász, Tamir,
2006). The brokers that such a search reaches are the proof: their partitions have no replica elsewhere, so one of these
brokers leads at least the average of them, rounded up.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

Group = tuple[tuple[int, ...], int]
"""The brokers that can lead, and the number of partitions alike."""
LedBy = Callable[[int], Iterable[Group]]
"""Returns the groups that a broker leads before any change. Every group lists that broker."""


@dataclass(frozen=True, slots=True)
class LeaderOptimum:
    """The least possible maximum of leaders per broker, how many leaders change to reach it, and its proof.

    The partitions that only `brokers` can lead give one of them `bound` leaders at least, and `bound` is `maximum`.
    """

    maximum: int = 0
    changes: int = 0
    brokers: tuple[int, ...] = ()
    bound: int = 0


class _Leadership:
    """Leaders that move along paths. The groups of a broker are read when a path first visits it."""

    def __init__(self, loads: Sequence[int], led_by: LedBy) -> None:
        self.loads = list(loads)
        self._led_by = led_by
        self._groups: dict[int, Counter[tuple[tuple[int, ...], int]]] = {}
        """By broker: how many partitions it leads, by (brokers that can lead, leader before any change)."""
        self._ways: dict[int, dict[int, list[tuple[tuple[int, ...], int]]]] = {}
        """By broker and next broker: the groups that can go there. Groups used up are removed when met."""
        self._open: dict[int, Counter[int]] = {}
        """By broker and next broker: the number of partitions that can go there."""
        self._arrived: dict[int, list[tuple[tuple[int, ...], int, int]]] = {}

    def next_brokers(self, broker: int) -> Counter[int]:
        """Return how many partitions of a broker each other broker can take over."""
        if broker not in self._groups:
            self._groups[broker], self._ways[broker], self._open[broker] = Counter(), {}, Counter()
            for options, count in self._led_by(broker):
                self._add(broker, options, broker, count)
            for options, origin, count in self._arrived.pop(broker, ()):
                self._add(broker, options, origin, count)
        return self._open[broker]

    def _add(self, broker: int, options: tuple[int, ...], origin: int, count: int) -> None:
        key = options, origin
        held = self._groups[broker]
        known = held[key] > 0
        held[key] += count
        for other in options:
            if other != broker:
                self._open[broker][other] += count
                if not known:
                    self._ways[broker].setdefault(other, []).append(key)

    def _take(self, broker: int, to: int, count: int) -> list[tuple[tuple[int, ...], int, int]]:
        held, way, taken = self._groups[broker], self._ways[broker][to], []
        while count:
            key = way[-1]
            some = min(count, held[key])
            if some:
                taken.append((*key, some))
                held[key] -= some
                count -= some
                for other in key[0]:
                    if other != broker:
                        self._open[broker][other] -= some
            if not held[key]:
                way.pop()
        return taken

    def move(self, path: Sequence[int], count: int) -> None:
        """Move `count` leaders from each broker of the path to the next one."""
        taken = [self._take(one, other, count) for one, other in pairwise(path)]
        for broker, groups in zip(path[1:], taken, strict=True):
            for options, origin, some in groups:
                if broker in self._groups:
                    self._add(broker, options, origin, some)
                else:
                    self._arrived.setdefault(broker, []).append((options, origin, some))
        self.loads[path[0]] -= count
        self.loads[path[-1]] += count

    def room(self, path: Sequence[int]) -> int:
        """Return how many leaders can move along the path."""
        return min(self.next_brokers(one)[other] for one, other in pairwise(path))

    def changes(self) -> int:
        """Return the number of partitions whose leader differs from the one before."""
        settled = sum(
            count for broker, held in self._groups.items() for (_, origin), count in held.items() if origin != broker
        )
        arrived = sum(
            count for broker, groups in self._arrived.items() for _, origin, count in groups if origin != broker
        )
        return settled + arrived

    def level(self, limit: int) -> list[int]:
        """Move leaders until no broker has more than `limit`. Return the brokers reached if that is impossible."""
        while True:
            over = [broker for broker, load in enumerate(self.loads) if load > limit]
            if not over:
                return []
            path, reached = self._shortest(over, limit)
            if not path:
                return reached
            self.move(path, min(self.loads[path[0]] - limit, limit - self.loads[path[-1]], self.room(path)))

    def _shortest(self, over: list[int], limit: int) -> tuple[list[int], list[int]]:
        before: dict[int, int] = dict.fromkeys(over, -1)
        queue = list(over)
        for broker in queue:
            for other, count in sorted(self.next_brokers(broker).items()):
                if count <= 0 or other in before:
                    continue
                before[other] = broker
                if self.loads[other] < limit:
                    path = [other]
                    while before[path[-1]] >= 0:
                        path.append(before[path[-1]])
                    return path[::-1], []
                queue.append(other)
        return [], sorted(before)


def leader_optimum(loads: Sequence[int], holders: Iterable[int], led_by: LedBy) -> LeaderOptimum:
    """Return the optimum for brokers 0..n-1 that lead `loads` partitions now.

    `holders` are the brokers that can lead a partition. Partitions that no active broker can lead are left out by the
    caller. The changes are those of the paths taken, which are few but not proven to be the fewest.
    """
    brokers = tuple(sorted(holders))
    total = sum(loads)
    if not total:
        return LeaderOptimum()
    limit = -(-total // len(brokers))
    proof = brokers
    leadership = _Leadership(loads, led_by)
    while reached := leadership.level(limit):
        limit = -(-sum(leadership.loads[broker] for broker in reached) // len(reached))
        proof = tuple(reached)
    if proof != brokers:  # moves towards a limit too low are not needed
        leadership = _Leadership(loads, led_by)
        leadership.level(limit)
    return LeaderOptimum(limit, leadership.changes(), proof, limit)
